"""The total-queue checker finds every planted fault and accepts what is allowed: a checker that misses one is worse
than none.
"""

from __future__ import annotations

import pytest

from tests.support.total_queue import Event, Ledger, check, read_ledger

COUNT = 10_000


def honest(count: int = 100) -> Ledger:
    """A ledger without a fault: two producers, one consumer, everything watched."""
    ledger = Ledger()
    for number in range(1, count + 1):
        for producer in ("a", "b"):
            message = f"{producer}-{number}"
            ledger.attempted("Q", producer, number, message)
            ledger.synced(message)
            ledger.granted(message)
            ledger.delivered(message, "c", False)
            ledger.settled(message)
    return ledger


def planted(ledger: Ledger, old: Event, *new: Event) -> Ledger:
    """The ledger with one event replaced."""
    place = ledger.events.index(old)
    ledger.events[place : place + 1] = new
    return ledger


def test_an_honest_ledger_passes() -> None:
    verdict = check(honest())
    assert verdict.ok, verdict.report()
    assert verdict.summary() == "ledger: sent=200 delivered=200 lost=0 duplicated=0 redelivered=0"


def test_one_lost_in_ten_thousand_is_found() -> None:
    ledger = honest(COUNT // 2)
    planted(planted(ledger, Event("delivered", "a-77", "", "c")), Event("settled", "a-77"))
    verdict = check(ledger)
    assert verdict.faults == {"lost": ["a-77 of Q (never delivered)"]}
    assert verdict.summary().startswith(f"ledger: sent={COUNT} delivered={COUNT - 1} lost=1")


def test_an_acknowledgement_that_is_not_confirmed_may_have_worked_or_not() -> None:
    ledger = planted(honest(), Event("settled", "b-5"), Event("acknowledged", "b-5"))
    assert check(ledger).ok
    ledger.delivered("b-5", "d", True)
    assert check(ledger).ok
    ledger.delivered("b-5", "e", False)
    assert list(check(ledger).faults) == ["unflagged"]


def test_one_delivered_and_never_settled_nor_pending_is_lost() -> None:
    verdict = check(planted(honest(), Event("settled", "b-5")))
    assert verdict.faults == {"lost": ["b-5 of Q (delivered, not acknowledged)"]}


@pytest.mark.parametrize("flag", [False, True])
def test_one_doubled_after_it_was_settled_is_found(flag: bool) -> None:
    settled = Event("settled", "a-9")
    verdict = check(planted(honest(), settled, settled, Event("delivered", "a-9", "", "c", 0, flag)))
    assert verdict.doubled == ["a-9 was delivered to c after it was settled"]
    assert verdict.duplicated == 1


def test_one_settled_that_is_pending_at_the_end_is_doubled() -> None:
    ledger = honest()
    ledger.pending("a-9")
    assert list(check(ledger).faults) == ["doubled"]


def test_one_delivered_again_without_the_flag_is_found() -> None:
    delivered = Event("delivered", "a-9", "", "c")
    verdict = check(planted(honest(), delivered, delivered, Event("delivered", "a-9", "", "d")))
    assert list(verdict.faults) == ["unflagged"]


def test_one_delivered_again_with_the_flag_is_allowed_and_counted() -> None:
    delivered = Event("delivered", "a-9", "", "c")
    again = Event("delivered", "a-9", "", "d", 0, True)
    ledger = planted(honest(), delivered, delivered, again)
    verdict = check(ledger)
    assert verdict.ok, verdict.report()
    assert (verdict.duplicated, verdict.redelivered) == (1, 1)
    assert list(check(ledger, at_most_once=True).faults) == ["doubled"]


def test_one_reordered_is_found() -> None:
    first, second = Event("delivered", "a-20", "", "c"), Event("delivered", "a-21", "", "c")
    ledger = honest()
    here, there = ledger.events.index(first), ledger.events.index(second)
    settled_here, settled_there = here + 1, there + 1
    for left, right in ((here, there), (settled_here, settled_there)):
        ledger.events[left], ledger.events[right] = ledger.events[right], ledger.events[left]
    ledger.events.sort(key=lambda event: event.kind not in ("attempted", "synced", "granted"))
    verdict = check(ledger)
    assert verdict.faults == {"reordered": ["a-20 came to c after a-21"]}


def test_what_is_redelivered_may_come_late() -> None:
    delivered = Event("delivered", "a-20", "", "c")
    late = Event("delivered", "a-20", "", "c", 0, True)
    ledger = planted(planted(honest(), delivered), Event("settled", "a-20"))
    ledger.events += [late, Event("settled", "a-20")]
    assert check(ledger).ok


def test_two_consumers_may_part_the_order_between_them() -> None:
    ledger = honest()
    ledger.events = [
        Event(e.kind, e.message, e.queue, "cd"[len(e.message) % 2], e.number, e.flag) if e.kind == "delivered" else e
        for e in ledger.events
    ]
    assert check(ledger).ok


def test_one_answered_before_its_sync_is_found() -> None:
    ledger = honest()
    granted = Event("granted", "b-33")
    planted(ledger, Event("synced", "b-33"))
    planted(ledger, granted, granted, Event("synced", "b-33"))
    assert check(ledger).faults == {"early": ["b-33 was granted before it was synced"]}


def test_one_invented_is_found() -> None:
    ledger = honest()
    ledger.delivered("ghost", "c", False)
    assert check(ledger).faults == {"invented": ["ghost was delivered and never attempted"]}


def test_one_that_was_not_granted_may_vanish_or_come_out() -> None:
    ledger = honest()
    ledger.attempted("Q", "a", 200, "a-200")
    ledger.attempted("Q", "a", 201, "a-201")
    ledger.delivered("a-201", "c", False)
    ledger.settled("a-201")
    assert check(ledger).ok


def test_what_is_not_durable_may_vanish() -> None:
    ledger = honest()
    ledger.attempted("Q", "a", 200, "a-200", durable=False)
    ledger.granted("a-200")
    assert check(ledger).ok


@pytest.mark.parametrize("end", ["pending", "buried"])
def test_what_is_pending_or_buried_is_not_lost(end: str) -> None:
    ledger = planted(planted(honest(), Event("delivered", "a-9", "", "c")), Event("settled", "a-9"))
    ledger.events.append(Event(end, "a-9"))
    assert check(ledger).ok


def test_a_torn_unit_is_found() -> None:
    for out, ok in ((0, True), (1, False), (3, True)):
        ledger = honest()
        for number in range(3):
            ledger.attempted("Q", "t", number, f"t-{number}", unit="TX-1")
        for number in range(out):
            ledger.pending(f"t-{number}")
        verdict = check(ledger)
        assert verdict.ok == ok
        assert verdict.torn == ([] if ok else ["TX-1: 1 of 3 messages came out"])


def test_a_ledger_survives_its_lines() -> None:
    ledger = honest(3)
    assert read_ledger(ledger.lines()).events == ledger.events
    with pytest.raises(ValueError, match="knows no"):
        read_ledger(['["praised", "a-1", "", "", 0, false, ""]'])
