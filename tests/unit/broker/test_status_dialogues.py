"""Statuses that pipelines publish over the control destination: age, limits, and who may see and stop them."""

from __future__ import annotations

import json

import pytest

from spanwire.broker.admin.published_statuses import MAX_STATUS_BYTES, MAX_STATUSES, STALE_SECONDS
from spanwire.broker.ports import ADMIN
from tests.support.control_dialogue import ASK, Program, Refused, again
from tests.support.dialogue.broker_dialogue import Stage
from tests.unit.broker.test_control_dialogues import Lists, Users


def publishes(program: Program, pipeline: str = "nightly", run: str = "r1", text: str = "fine", **more: object) -> None:
    assert "stop" in program.asks("publish", pipeline=pipeline, run=run, body=text, **more)


def must_stop(program: Program, run: str = "r1") -> bool:
    """What the answer to a publication says."""
    return program.asks("publish", pipeline="nightly", run=run, body="fine")["stop"] is True


def listed(program: Program) -> list[dict[str, object]]:
    program.asks("pipelines")
    found: list[dict[str, object]] = json.loads(program.body)
    return found


def test_a_status_is_shown_as_published_with_its_age() -> None:
    stage = Stage()
    program = Program(stage)
    publishes(program, text="older")
    publishes(program, text='{"routes":["ä"]}')
    stage.waits(3.5)
    assert listed(program) == [
        {
            "pipeline": "nightly", "run": "r1", "user": "anonymous", "ageMs": 3500, "ended": False,
            "stopping": False, "status": '{"routes":["ä"]}',
        }
    ]  # fmt: skip


def test_a_pipeline_hears_in_each_answer_that_it_must_stop() -> None:
    stage = Stage()
    program = Program(stage)
    assert not must_stop(program)
    assert Program(stage, "operator").asks("stop", run="r1") == {}
    assert must_stop(program) and must_stop(program)
    assert not must_stop(program, "r2")
    assert listed(program)[0]["stopping"] is True
    with pytest.raises(Refused, match=r"^unknown: no pipeline has published the run r9"):
        program.asks("stop", run="r9")


def test_a_later_run_replaces_earlier_ones_that_have_ended_or_are_stale() -> None:
    stage = Stage()
    program = Program(stage)
    publishes(program, run="ended", ended=True)
    publishes(program, run="killed")
    publishes(program, "weekly", run="other", ended=True)
    publishes(program, run="new")
    assert [row["run"] for row in listed(program)] == ["killed", "other", "new"]
    stage.waits(STALE_SECONDS + 1)
    publishes(program, run="new")
    assert [row["run"] for row in listed(program)] == ["other", "new"]


def test_s46_statuses_are_limited_in_number_and_bytes() -> None:
    stage = Stage()
    program = Program(stage)
    publishes(program, text="x" * MAX_STATUS_BYTES)
    with pytest.raises(Refused, match=r"^malformed: a status is a text message with at most 16384 bytes"):
        publishes(program, text="x" * (MAX_STATUS_BYTES + 1))
    for number in range(1, MAX_STATUSES):
        publishes(program, f"p{number}", f"run{number}")
    with pytest.raises(Refused, match=r"^limit: 100 pipelines publish their status already"):
        publishes(program, "late", "late")
    stage.waits(STALE_SECONDS + 1)
    publishes(program, "late", "late")
    assert len(listed(program)) == MAX_STATUSES
    assert "r1" not in [row["run"] for row in listed(program)]


def test_only_its_user_and_administrators_see_and_stop_a_pipeline() -> None:
    stage = Stage(authenticator=Users(), authorizer=Lists(("guest", ADMIN, ASK), ("owner", ADMIN, ASK)))
    owner, guest, boss = (Program(stage, name, name) for name in ("owner", "guest", "boss"))
    publishes(owner)
    assert listed(guest) == []
    for attempt in ("stop", "publish"):
        with pytest.raises(Refused) as refused:
            guest.asks(attempt, run="r1", pipeline="nightly", body="mine")
        assert refused.value.word == "unauthorized"
    assert listed(owner)[0]["status"] == "fine"
    assert boss.asks("stop", run="r1") == {}
    assert must_stop(owner)


def test_a_broker_that_restarts_gets_statuses_with_the_next_publication() -> None:
    stage = Stage()
    program = Program(stage)
    publishes(program)
    stage = stage.restarts()
    program = again(program, stage)
    assert listed(program) == []
    publishes(program)
    assert len(listed(program)) == 1
