"""``spanwire audit``: equations in words, and what two brokers say of the link between them."""

from __future__ import annotations

from spanwire.cli.monitoring.audit import compared, equation, lines, network_lines, settled

ROW = {"destination": "queue://A", "scope": "stored", "found": 0, "sent": 7, "arrived": 2, "acknowledged": 5,
       "moved_out": 1, "replaced": 0, "pending": 3, "difference": 0, "duplicates": 0, "suspects": []}  # fmt: skip


def broker(name: str, remote: str, forwarded: int, arrived: int, in_flight: int = 0) -> dict[str, object]:
    row = {"remote": remote, "forwarded": forwarded, "arrived": arrived, "in_flight": in_flight}
    return {"name": name, "silence": "", "ledger": [row]}


def test_an_equation_leaves_out_what_is_0() -> None:
    assert equation(ROW) == [
        "queue://A (stored): sent 7 + arrived over links 2 = acknowledged 5 + moved out 1 + pending 3"
    ]


def test_what_breaks_an_equation_stands_below_it_with_what_left_lately() -> None:
    broken = {**ROW, "difference": 2, "suspects": ["dead-lettered ID:p:1:1:7"], "duplicates": 4}
    assert equation(broken)[1:] == [
        "  does not add up: 2 came, and neither left nor wait",
        "  left lately: dead-lettered ID:p:1:1:7",
        "  not taken: 4 duplicates of messages that had come before",
    ]
    assert equation({**ROW, "difference": -1})[1] == "  does not add up: 1 left or wait, and never came"


def test_producers_that_are_gone_are_summed_up() -> None:
    row = {**ROW, "scope": "since start"}
    producers = [
        {"producer_id": "ID:p:1:1", "destination": "queue://A", "sent": 4},
        {"producer_id": "ID:q:1:1", "destination": "queue://B", "sent": 9},
    ]
    assert lines([row], [], producers)[1:] == [
        "  sent by ID:p:1:1: 4",
        "  sent by producers that are gone, or name a destination with each message: 3",
    ]


def test_what_was_lost_with_the_memory_stands_below_its_destination_and_once_for_all() -> None:
    row = {**ROW, "scope": "since start", "lost": 3, "lost_is_known": True}
    assert lines([row, {**row, "destination": "queue://B", "lost": 0}], [], [])[1:] == [
        "  lost with the memory before this start: 3, which were never in the store",
        "queue://B (since start): sent 7 + arrived over links 2 = acknowledged 5 + moved out 1 + pending 3",
        "lost with the memory before this start: 3, counted as the broker stopped in order",
    ]
    assert lines([{**row, "lost": 0, "lost_is_known": False}], [], [])[-1] == (
        "lost with the memory before this start: unknown, since the broker was not stopped in order, or starts for the "
        "first time"
    )


def test_removed_destinations_are_left_out_where_there_are_none() -> None:
    assert lines([{"destination": "removed destinations", "scope": "stored", "difference": 0}], [], []) == []


def test_what_is_in_flight_may_have_arrived_or_not() -> None:
    for arrived in (10, 11, 12):
        (there, back) = compared([broker("A", "B", 10, 0, in_flight=2), broker("B", "A", 0, arrived)])
        assert (there["missing"], there["extra"], back["missing"], back["extra"]) == (0, 0, 0, 0)


def test_less_has_arrived_than_was_forwarded_or_more() -> None:
    (there, _) = compared([broker("A", "B", 10, 0), broker("B", "A", 0, 9)])
    assert network_lines([], [there]) == [
        "from A to B: 10 forwarded, 0 in flight; 9 arrived",
        "  does not add up: 1 were forwarded and have not arrived",
    ]
    (there, _) = compared([broker("A", "B", 10, 0, in_flight=1), broker("B", "A", 0, 13)])
    assert network_lines([], [there])[1] == (
        "  does not add up: 2 arrived that were not forwarded, such as second copies"
    )


def test_a_broker_that_nobody_can_ask_is_named() -> None:
    assert network_lines([broker("B", "A", 0, 9)], []) == [
        "broker A: the knowledge ends here: no broker has asked it; if it is Spanwire, audit it there"
    ]


def test_a_difference_counts_only_while_nothing_moves() -> None:
    before = compared([broker("A", "B", 10, 0), broker("B", "A", 0, 9)])
    assert settled(before, compared([broker("A", "B", 10, 0), broker("B", "A", 0, 9)]))[0]["missing"] == 1
    (there, _) = settled(before, compared([broker("A", "B", 12, 0), broker("B", "A", 0, 11)]))
    assert there["missing"] == 0
    assert network_lines([], [there])[1] == "  messages cross the link now: ask again when it is quiet"


def test_knowledge_ends_at_a_broker_without_a_ledger() -> None:
    classic = {"name": "C", "silence": "", "kind": "activemq"}
    silent = {"name": "D", "silence": "cannot be asked: refused"}
    assert compared([broker("A", "C", 10, 0), classic]) == []
    assert network_lines([classic, silent], []) == [
        "broker C: the knowledge ends here: it keeps no ledger, as brokers other than Spanwire",
        "broker D: the knowledge ends here: it cannot be asked: refused",
    ]
