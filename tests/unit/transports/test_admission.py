"""Connection limits: in total, for one address, and who is exempt."""

from __future__ import annotations

import pytest

from spanwire.transports.admission import Admission, ReceiveBudget, is_loopback


def test_one_more_than_the_total_is_refused_and_a_place_that_became_free_is_given() -> None:
    admission = Admission(max_connections=2)
    assert admission.enter("127.0.0.1") is None
    assert admission.enter("127.0.0.1") is None
    assert "limit of this broker" in str(admission.enter("127.0.0.1"))
    admission.leave("127.0.0.1")
    assert admission.enter("127.0.0.1") is None


def test_one_address_cannot_take_the_places_of_all() -> None:
    admission = Admission(max_connections=100, max_connections_per_address=3)
    for _ in range(3):
        assert admission.enter("192.0.2.1") is None
    assert "192.0.2.1" in str(admission.enter("192.0.2.1"))
    assert admission.enter("192.0.2.2") is None


def test_loopback_is_exempt_from_the_limit_for_one_address() -> None:
    admission = Admission(max_connections=100, max_connections_per_address=3)
    for _ in range(50):
        assert admission.enter("127.0.0.1") is None


def test_a_refused_connection_does_not_count() -> None:
    admission = Admission(max_connections=1)
    admission.enter("127.0.0.1")
    admission.enter("127.0.0.1")
    assert admission.count == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_loopback_addresses_are_told(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "::ffff:10.0.0.1", "localhost", "", "127.0.0.1.evil"])
def test_everything_else_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_the_receive_budget_names_who_holds_most() -> None:
    budget = ReceiveBudget(100)
    budget.set_pending("a", 60)
    assert not budget.is_exceeded()
    budget.set_pending("b", 50)
    assert budget.is_exceeded()
    assert budget.largest(None) == "a"
    assert budget.largest("a") == "b"
    assert not budget.is_overrun_without("a")
    budget.set_pending("a", 0)
    assert budget.used_bytes == 50
