"""The demonstration's ledger: every planted fault must show, and an honest run must not be blamed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from ledger import ArchivedRow, Ledger
from prices import Trade, books

ORDERS = [order for orders in books(2, {"MSFT": "stomp", "IBM": "java"}).values() for order in orders]
TRADES = [order for order in ORDERS if order.is_trade]
OTHERS = [order for order in ORDERS if not order.is_trade]


def row(trade: Trade, redelivered: bool = False) -> ArchivedRow:
    price = f"{float(trade.price):.2f}"  # as a decimal column shows it
    return ArchivedRow(trade.key, trade.symbol, trade.date, price, trade.volume, redelivered)


def ledger_of(
    sent: Iterable[Trade] = ORDERS,
    delivered: Iterable[Trade] = TRADES,
    archived: Iterable[Trade] = TRADES,
    left: Iterable[Trade] = OTHERS,
) -> Ledger:
    ledger = Ledger(ORDERS)
    for order in sent:
        ledger.send_answered(order.key)
    for trade in delivered:
        ledger.delivered("STOMP", trade.key, trade.price, False)
    ledger.book_archive(row(trade) for trade in archived)
    ledger.book_left(order.key for order in left)
    return ledger


def test_a_run_without_a_fault_has_no_problems() -> None:
    ledger = ledger_of()
    assert ledger.problems() == []
    assert len(TRADES) == 2 * 2 * 123
    assert ledger.last_line() == "ledger: sent=492 delivered=492 archived=492 lost=0 duplicated=0 redelivered=0"


def test_orders_beside_the_trades_are_there_and_of_both_kinds() -> None:
    assert {order.symbol for order in OTHERS} == {"TEST", "MSFT", "IBM"}
    assert all(order.queues == ("STOCKS.ARCHIVE",) for order in OTHERS)
    assert all(order.queues == ("STOCKS.TRADES", "STOCKS.ARCHIVE") for order in TRADES)


def test_a_duplicate_that_is_flagged_is_counted_and_no_problem() -> None:
    ledger = ledger_of()
    ledger.delivered("Java", TRADES[0].key, TRADES[0].price, True)
    assert ledger.problems() == []
    assert ledger.last_line().endswith("lost=0 duplicated=1 redelivered=1")


def lost_by_consumers() -> Ledger:
    return ledger_of(delivered=TRADES[1:])


def lost_by_the_archive() -> Ledger:
    return ledger_of(archived=TRADES[1:])


def doubled_without_flag() -> Ledger:
    return ledger_of(delivered=[*TRADES, TRADES[0]])


def archived_twice() -> Ledger:
    ledger = ledger_of()
    ledger.book_archive([row(TRADES[0], redelivered=True)])
    return ledger


def delivered_with_another_price() -> Ledger:
    ledger = ledger_of(delivered=TRADES[1:])
    ledger.delivered("STOMP", TRADES[0].key, "0.01", False)
    return ledger


def archived_with_another_volume() -> Ledger:
    ledger = ledger_of(archived=TRADES[1:])
    first = TRADES[0]
    ledger.book_archive([ArchivedRow(first.key, first.symbol, first.date, first.price, first.volume + 1, False)])
    return ledger


def never_answered() -> Ledger:
    return ledger_of(sent=ORDERS[1:])


def archived_against_the_selector() -> Ledger:
    return ledger_of(archived=[*TRADES, OTHERS[0]])


def other_order_gone() -> Ledger:
    return ledger_of(left=OTHERS[1:])


def trade_left_behind() -> Ledger:
    return ledger_of(archived=TRADES[1:], left=[*OTHERS, TRADES[0]])


@pytest.mark.parametrize(
    ("planted", "complaint"),
    [
        (lost_by_consumers, f"lost on the way to the consumers: {TRADES[0].key}"),
        (lost_by_the_archive, f"lost on the way to the archive: {TRADES[0].key}"),
        (doubled_without_flag, f"duplicated without redelivered flag: {TRADES[0].key}"),
        (archived_twice, f"archived twice: {TRADES[0].key}"),
        (delivered_with_another_price, f"changed on the way: {TRADES[0].key} delivered with price '0.01'"),
        (archived_with_another_volume, f"changed on the way: {TRADES[0].key} archived as "),
        (never_answered, f"sent without an answer: {ORDERS[0].key}"),
        (archived_against_the_selector, f"changed on the way: {OTHERS[0].key} archived, which the selector excludes"),
        (other_order_gone, f"neither left by the selector nor in its queue: {OTHERS[0].key}"),
        (trade_left_behind, f"left in the queue although selected: {TRADES[0].key}"),
    ],
)
def test_a_planted_fault_is_named(planted: Callable[[], Ledger], complaint: str) -> None:
    problems = planted().problems()
    assert [problem for problem in problems if problem.startswith(complaint)], problems


def test_lost_at_either_end_counts_as_lost() -> None:
    assert " delivered=491 archived=492 lost=1 " in lost_by_consumers().last_line()
    assert " delivered=492 archived=491 lost=1 " in lost_by_the_archive().last_line()
    both = ledger_of(delivered=TRADES[1:], archived=TRADES[:-1])
    assert both.lost() == sorted([TRADES[0].key, TRADES[-1].key])


def test_doubles_at_either_end_count_as_duplicated() -> None:
    assert doubled_without_flag().duplicated() == 1
    assert archived_twice().duplicated() == 1


def test_one_flag_explains_one_duplicate_only() -> None:
    ledger = ledger_of()
    ledger.delivered("Java", TRADES[0].key, TRADES[0].price, True)
    ledger.delivered("Java", TRADES[0].key, TRADES[0].price, False)
    assert ledger.unflagged() == [TRADES[0].key]


def test_a_complaint_about_many_names_some_and_counts_the_others() -> None:
    problems = ledger_of(delivered=[]).problems()
    assert problems[0].endswith(" and 487 more")
    assert problems[0].count("/") == 5


def test_the_table_gives_each_producer_its_losses() -> None:
    lines = lost_by_consumers().table().splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["java-IBM", "246", "246", "246", "0", "0", "0"],
        ["stomp-MSFT", "246", "245", "246", "1", "0", "0"],
    ]
