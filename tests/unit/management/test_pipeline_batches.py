"""The batches of pipelines that marked messages were in, by what the pipelines publish."""

from __future__ import annotations

import json
from typing import Final

import pytest

from spanwire.broker.following.mark import Mark
from spanwire.management.questions.pipeline_batches import MAX_BATCHES, MAX_LOOKS, MAX_RANGES, note_batches
from tests.support.control_dialogue import Program
from tests.unit.broker.test_following_dialogues import Followed

Q: Final = "queue://Q"
ROUTE: Final[dict[str, object]] = {
    "route": "orders",
    "cursor": "c",
    "targets": "queue://OUT",
    "ranges": [[7, 0, 2, 5_000]],
}


class Watched:
    """A marked queue of three messages, of which a cursor holds two."""

    def __init__(self) -> None:
        self.followed: Final = Followed()
        self.mark: Final[Mark] = self.followed.marks(Q)
        self.followed.producer.sends(Q, "1", "2", "3")
        self.program: Final = Program(self.followed.stage, user="owner")
        self.program.opens()
        self.program.reserves(2)

    def publishes(self, text: str, program: Program | None = None) -> None:
        (program or self.program).asks("publish", pipeline="p.yaml", run="r", body=text)

    def processed(self) -> list[tuple[str, str, str, int]]:
        note_batches(self.mark, self.followed.stage.broker.assembly)
        seen = [one for one in self.mark.observations.after(0, 100) if one.step == "processed"]
        return [(one.message_id, one.location, one.detail, one.wall_ms) for one in seen]


def status(*routes: object) -> str:
    return json.dumps({"version": 1, "host": "driver", "routes": routes})


def test_a_message_shows_the_batch_with_its_number_once() -> None:
    watched = Watched()
    assert watched.processed() == []
    watched.publishes(status(ROUTE))
    expected = [
        (f"ID:p:1:1:1:{number}", "route orders of pipeline p.yaml",
         "batch 7, to queue://OUT, by the clock of driver", 5_000)
        for number in (1, 2)
    ]  # fmt: skip
    assert watched.processed() == expected
    assert watched.processed() == expected


def test_a_batch_of_other_numbers_or_of_another_cursor_is_none_of_the_message() -> None:
    watched = Watched()
    watched.publishes(status({**ROUTE, "ranges": [[7, 2, 9, 5_000]]}, {**ROUTE, "cursor": "d"}))
    assert watched.processed() == []


def test_s47_a_status_counts_for_the_cursors_of_its_user_alone() -> None:
    watched = Watched()
    watched.publishes(status(ROUTE), Program(watched.followed.stage, "other", user="somebody"))
    assert watched.processed() == []


@pytest.mark.parametrize(
    "text",
    [
        "[", "[]", "{}", '{"routes": 5}', '{"routes": [5]}', status({**ROUTE, "ranges": 5}),
        status({**ROUTE, "ranges": [5, [1], [1, 2, 3, "4"], [1, 0, 2, -1], [True, 0, 2, 5], [1, 0, 2, 1 << 60]]}),
    ],
)  # fmt: skip
def test_a_status_of_another_form_says_nothing(text: str) -> None:
    watched = Watched()
    watched.publishes(text)
    assert watched.processed() == []


def test_a_status_is_read_up_to_a_number_of_batches() -> None:
    watched = Watched()
    watched.publishes(status({**ROUTE, "ranges": [[number, 0, 1, 5_000] for number in range(MAX_RANGES + 5)]}))
    assert [detail.split(",")[0] for _, _, detail, _ in watched.processed()] == [
        f"batch {number}" for number in range(5, MAX_RANGES + 5)
    ]


def test_s47_a_status_costs_a_bounded_number_of_looks_whatever_it_repeats() -> None:
    watched = Watched()
    whole = {"route": "r", "cursor": "c", "ranges": [[0, 0, 9_999, 0]] * MAX_RANGES}
    count = MAX_LOOKS // (3 * MAX_RANGES) + 1  # a range, and the two messages in it
    watched.publishes(status(*[whole] * count, {**whole, "route": "last"}))
    assert [location for _, location, _, _ in watched.processed()] == ["route r of pipeline p.yaml"] * 2
    watched.program.asks("publish", pipeline="other.yaml", run="r2", body=status(ROUTE))
    assert "route orders of pipeline other.yaml" in [location for _, location, _, _ in watched.processed()]


def test_a_message_shows_a_limited_number_of_batches() -> None:
    watched = Watched()
    for first in range(0, 2 * MAX_BATCHES, MAX_RANGES):
        ranges = [[number, 0, 1, 5_000] for number in range(first, first + MAX_RANGES)]
        watched.publishes(status({**ROUTE, "ranges": ranges}))
        seen = watched.processed()
    assert len(seen) == MAX_BATCHES
