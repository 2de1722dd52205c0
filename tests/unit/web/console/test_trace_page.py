"""The page of traces: the form, the steps of messages, dry runs, roles and strange content."""

from __future__ import annotations

from typing import Final

import pytest
from starlette.testclient import TestClient

from spanwire.management.control_client import ControlError
from spanwire.management.handles import REFUSED
from spanwire.web.routes import application
from tests.support.fake_broker_link import FakeBrokerLink

HOST: Final = "http://127.0.0.1:8161"
CANARY: Final = "<script>alert(1)</script>"
OWN: Final = {"Origin": HOST, "Sec-Fetch-Site": "same-origin"}


def step(message: str, broker: str, hops: int, name: str = "accepted") -> dict[str, object]:
    return {
        "broker": broker, "time_ms": 1_800_000_000_123, "message_id": message, "step": name,
        "destination": "queue://A", "location": "", "detail": "", "hops": hops, "deliveries": 0,
    }  # fmt: skip


def traced(*steps: dict[str, object], **values: object) -> FakeBrokerLink:
    link = FakeBrokerLink()
    link.answers["observations"] = {
        "trace": "t-1", "broker": "a", "destination": "queue://A", "selector": "", "network": True, "complete": True,
        "ended": "", "left_s": 7, "marked": 1, "dropped": 0, "next": len(steps), "observations": list(steps),
        "brokers": [], "traces": [],
    } | values  # fmt: skip
    return link


def client_of(link: FakeBrokerLink) -> TestClient:
    return TestClient(application(link, is_loopback=True), base_url=HOST, follow_redirects=False)


def page_of(link: FakeBrokerLink, query: str = "", user: str = "vera") -> str:
    answer = client_of(link).get(f"/admin/trace{query}", auth=(user, f"{user[0]}-word"))
    assert answer.status_code == 200, answer.text
    text: str = answer.text
    return text


def test_a_viewer_sees_traces_and_asks_for_dry_runs_and_starts_none() -> None:
    link = traced(traces=[{"trace": "t-1", "destination": "queue://A", "marked": 3, "ended": "", "left_s": 5}])
    text = page_of(link)
    assert 'href="/admin/trace?trace=t-1"' in text
    assert 'name="dry_run"' in text
    assert 'method="post" action="/admin/trace"' not in text
    assert 'method="post" action="/admin/trace"' in page_of(link, user="otto")
    refused = client_of(link).post("/admin/trace", auth=("vera", "v-word"), headers=OWN, data={"destination": "A"})
    assert refused.status_code == 403
    assert link.count("trace") == 0


def test_the_steps_of_a_message_are_in_the_order_of_its_way_with_time_and_broker() -> None:
    link = traced(
        step("ID:1", "b", 1), step("ID:1", "a", 0), step("ID:2", "a", 0),
        brokers=[{"broker": "b", "offset_ms": -4, "uncertain_ms": 9}, {"broker": "c", "silence": "is no Spanwire"}],
    )  # fmt: skip
    text = page_of(link, "?trace=t-1")
    first = text.index('aria-label="Message ID:1"')
    assert text.index('<th scope="row">a</th>', first) < text.index('<th scope="row">b</th>', first)
    assert "123 ms" in text and "7 s left" in text
    assert "The clock of b is 4 ms behind" in text and "measured within 9 ms" in text
    assert "c is not followed: is no Spanwire" in text
    assert "data-live" in text
    assert "/admin/trace/end" not in text
    assert "/admin/trace/end" in page_of(link, "?trace=t-1", "otto")


def test_the_form_starts_a_trace_and_leads_to_its_page() -> None:
    link = traced()
    link.answers["trace"] = {"trace": "t-9"}
    fields = {"destination": "A", "is_topic": "1", "selector": "n > 5", "ids": "ID:1  ID:2", "one_in": "10",
              "seconds": "", "messages": "5", "network": "true"}  # fmt: skip
    answer = client_of(link).post("/admin/trace", auth=("otto", "o-word"), headers=OWN, data=fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/trace?trace=t-9")
    asked = next(arguments for command, arguments in link.asked if command == "trace")
    assert {name: value for name, value in asked.items() if name != "handle"} == {
        "destination": "topic://A", "selector": "n > 5", "ids": ["ID:1", "ID:2"], "one_in": 10, "messages": 5,
        "network": True,
    }  # fmt: skip


def test_a_trace_is_ended_by_its_button() -> None:
    link = traced()
    link.answers["trace-end"] = {"trace": "t-1"}
    answer = client_of(link).post("/admin/trace/end", auth=("otto", "o-word"), headers=OWN, data={"trace": "t-1"})
    assert answer.headers["location"] == "/admin/trace?trace=t-1"
    assert link.count("trace-end") == 1


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://elsewhere"}])
def test_a_form_of_another_page_starts_nothing(headers: dict[str, str]) -> None:
    link = traced()
    answer = client_of(link).post(
        "/admin/trace", auth=("otto", "o-word"), headers={"Sec-Fetch-Site": "cross-site", **headers},
        data={"destination": "A"},
    )  # fmt: skip
    assert answer.status_code == 403
    assert link.count("trace") == 0


def test_a_dry_run_shows_each_hop_and_where_knowledge_ends() -> None:
    link = traced()
    answers = [
        {"location": "bridge 1", "target_id": "ID:b", "target": "b", "priority": -5, "taken": True, "text": ""},
        {"location": "consumer 2", "target_id": "", "target": "", "priority": 0, "taken": False, "text": "no: n > 5"},
    ]
    hop = {"broker": "a", "way": [], "silence": "", "held": "", "forwards": [], "closed": [], "answers": answers}
    mute = {**hop, "broker": "b", "way": ["a"], "answers": [], "silence": "is no Spanwire"}
    link.answers["trace-dry-run"] = {"broker": "a", "hops": [hop, mute], "delivered": False}
    text = page_of(link, "?dry_run=true&name=A&properties=%7B%22n%22%3A1%7D")
    assert "to broker b" in text and "no: n &gt; 5" in text
    assert "a → b" in text and "Nobody knows what happens there: is no Spanwire" in text
    asked = next(arguments for command, arguments in link.asked if command == "trace-dry-run")
    assert (asked["destination"], asked["properties"]) == ("A", '{"n":1}')


def test_strange_names_are_shown_as_text() -> None:
    rows = [step(CANARY, CANARY, 0, CANARY) | {"location": CANARY, "detail": CANARY}]
    link = traced(*rows, brokers=[{"broker": CANARY, "silence": CANARY}], selector=CANARY, ended=CANARY)
    assert CANARY not in page_of(link, "?trace=t-1")


def test_a_trace_that_is_gone_leads_to_those_that_are_there() -> None:
    link = traced(traces=[{"trace": "t-1", "destination": "queue://A", "marked": 3, "ended": "", "left_s": 5}])
    answer = link.ask

    async def ask(command: str, **arguments: object) -> object:
        if command == "observations" and arguments.get("trace"):
            raise ControlError("there is no trace t-0 at this broker", REFUSED)
        return await answer(command, **arguments)

    link.ask = ask  # type: ignore[method-assign]
    text = page_of(link, "?trace=t-0")
    assert "there is no trace t-0" in text
    assert 'href="/admin/trace?trace=t-1"' in text
    assert "data-live" not in text and "data-views" not in text


def test_a_dry_run_says_at_first_whether_a_consumer_is_reached_and_keeps_the_kind() -> None:
    link = traced()
    query = "?dry_run=true&name=PRICES&is_topic=1"
    link.answers["trace-dry-run"] = {"hops": [], "delivered": True}
    text = page_of(link, query)
    assert "A message to PRICES sent now would be delivered." in text
    assert '<option value="1" selected>topic</option>' in text
    link.answers["trace-dry-run"] = {"hops": [], "delivered": False}
    assert "would reach no consumer" in page_of(link, query)


def test_the_clock_of_a_broker_is_ahead_or_behind() -> None:
    text = page_of(traced(brokers=[{"broker": "b", "offset_ms": -4_000, "uncertain_ms": 9}]), "?trace=t-1")
    assert "The clock of b is 4,000 ms behind this broker's" in text
