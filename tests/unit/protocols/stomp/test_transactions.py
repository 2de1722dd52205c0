"""Names of transactions: begun once, found until they end, free afterwards."""

from __future__ import annotations

import pytest

from spanwire.protocols.stomp.codec.errors import StompRequestError
from spanwire.protocols.stomp.transactions import NamedTransactions


def test_a_name_is_found_from_when_the_broker_has_begun_it_until_it_ends() -> None:
    transactions = NamedTransactions("ID:c-1")
    one = transactions.next_id("a")
    with pytest.raises(StompRequestError, match="Invalid transaction id: a"):
        transactions.find("a")
    transactions.begun("a", one)
    assert transactions.find("a") is one
    assert transactions.take("a") is one
    with pytest.raises(StompRequestError, match="Invalid transaction id: a"):
        transactions.take("a")


def test_a_name_that_is_begun_is_not_begun_again_and_no_id_comes_twice() -> None:
    transactions = NamedTransactions("ID:c-1")
    one = transactions.next_id("a")
    transactions.begun("a", one)
    with pytest.raises(StompRequestError, match="The transaction was already started: a"):
        transactions.next_id("a")
    transactions.take("a")
    two = transactions.next_id("a")
    assert (one.value, two.value) == (1, 2)
    assert two.connection_id == "ID:c-1"
