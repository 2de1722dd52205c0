"""Numbers of links in the ledger: one for each broker, the same after a restart, and no more than fit."""

from __future__ import annotations

from spanwire.broker.dispatch.history.ledger_links import MAX_NAME, LedgerLinks
from spanwire.broker.metadata import LEDGER_LINKS
from spanwire.model.ledger import MAX_LINKS, OTHER_LINKS
from tests.support.late_store import LateStore


def test_a_broker_keeps_its_number_over_a_restart() -> None:
    store = LateStore()
    links = LedgerLinks(store)
    assert [links.number_of(name) for name in ("B", "C", "B")] == [1, 2, 1]
    again = LedgerLinks(store)
    again.restore(store.metadata[LEDGER_LINKS])
    assert [again.number_of(name) for name in ("D", "C")] == [3, 2]
    assert again.names() == {1: "B", 2: "C", 3: "D"}


def test_brokers_beyond_the_limit_share_a_number() -> None:
    links = LedgerLinks(LateStore())
    numbers = [links.number_of(f"broker{number}") for number in range(MAX_LINKS + 2)]
    assert numbers == [*range(1, MAX_LINKS + 1), OTHER_LINKS, OTHER_LINKS]
    assert len(links.names()) == MAX_LINKS


def test_a_long_name_is_cut() -> None:
    links = LedgerLinks(LateStore())
    assert links.number_of("x" * MAX_NAME) == links.number_of("x" * (MAX_NAME + 1))
