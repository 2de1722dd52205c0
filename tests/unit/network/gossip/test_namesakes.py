"""Two brokers of one name are said in one line, and a broker that was started anew is not taken for two."""

from __future__ import annotations

import json

import pytest

from spanwire.network.gossip.members import Members
from spanwire.network.gossip.namesakes import OVERLAP_S, REPORT_S, Namesakes
from spanwire.network.reports.known_brokers import MAX_BROKERS
from tests.unit.network.gossip.test_members import row, told

HERE, THERE = "tcp://10.0.0.1:61616", "tcp://10.0.0.2:61616"
LINE = (
    f"gossip: two brokers are called a: the one at {HERE} and the one at {THERE}; no other broker links to both, "
    "so messages do not reach all consumers: give one of them another brokerName"
)


def namesake(broker_id: str, address: str, age_s: float = 0.0) -> dict[str, object]:
    return {**row("a", age_s, address), "id": broker_id}


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith("namesakes")]


def test_two_brokers_of_one_name_that_are_linked_say_so_once_with_both_addresses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    members = Members("a", "ID:1")
    members.addresses = (HERE,)
    for second in range(0, 100, 5):
        members.add(told(namesake("ID:2", THERE)), "10.0.0.2", second)
    assert said(caplog) == [LINE]


def test_a_third_broker_says_so_although_it_is_linked_to_one_of_them_only(caplog: pytest.LogCaptureFixture) -> None:
    members = Members("c", "ID:c")
    for second in range(0, 30, 5):
        members.add(told(namesake("ID:1", HERE)), "a", second)
        members.add(told(namesake("ID:2", THERE)), "10.0.0.2", second + 1)  # it is asked by the other one
    assert said(caplog) == [LINE]


def test_a_broker_that_is_killed_and_started_elsewhere_is_one(caplog: pytest.LogCaptureFixture) -> None:
    members, own = Members("c", "ID:c"), Members("a", "ID:2")  # the same broker at its second start
    for second in range(0, 100, 5):
        members.add(told(namesake("ID:1", HERE)), "a", second)
    for second in range(101, 200, 5):
        members.add(told(namesake("ID:2", THERE)), "a", second)
        own.add(told(namesake("ID:1", HERE, second - 95.0)), "c", second)  # the word of others about its former run
    assert said(caplog) == []


def test_an_answer_that_is_late_makes_no_two_brokers_of_one(caplog: pytest.LogCaptureFixture) -> None:
    namesakes = Namesakes()
    for second in range(50):
        namesakes.note("a", "ID:1", (HERE,), second, second)
        namesakes.note("a", "ID:2", (THERE,), 50 - OVERLAP_S + second, 50 + second)
    assert said(caplog) == []
    namesakes.note("a", "ID:1", (HERE,), 50.1, 99)
    assert said(caplog) == [LINE]


def test_claims_of_others_fill_neither_the_log_nor_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    namesakes = Namesakes()
    for number in range(2 * MAX_BROKERS):
        for second in (0, 20):
            namesakes.note(f"b{number}", "ID:1", (HERE,), second, 20)
            namesakes.note(f"b{number}", "ID:2", (), second, 20)
    assert len(said(caplog)) == 1
    assert "the one at no address" in said(caplog)[0]
    assert len(namesakes._heard) == MAX_BROKERS
    for late in (1000 + REPORT_S, 1020 + REPORT_S):
        namesakes.note("a", "ID:1", (HERE,), late, late)
        namesakes.note("a", "ID:2", (THERE,), late, late)
    assert said(caplog)[1:] == [LINE]


def test_a_broker_that_tells_no_id_is_no_second_one(caplog: pytest.LogCaptureFixture) -> None:
    members = Members("a", "ID:1")
    for second in range(0, 100, 5):
        members.add(json.dumps({"brokers": [namesake("", THERE)]}), "b", second)
    assert said(caplog) == []
