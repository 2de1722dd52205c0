"""The Java client sees the same on Spanwire as on Classic: acknowledging, transactions, consumers, destinations."""

from __future__ import annotations

import pytest

from tests.interop.conftest import OnBoth, assert_alike

SCENARIOS = (
    # sessions
    "auto",
    "dups-ok",
    "client",
    "client-recover",
    "individual",
    "commit",
    "rollback-of-sends",
    "rollback-of-receives",
    "dead-letters",
    "dead-letters-rolled-back",
    "close-without-commit",
    "consumer-gone",
    "connection-gone",
    "order-of-redelivery",
    # consumers
    "selectors",
    "selector-and-rest",
    "browser",
    "prefetch-0",
    "prefetch-1",
    "prefetch-1000",
    "pull-waits",
    "round-robin",
    "slow-and-quick",
    "listener",
    "stop-and-start",
    # destinations
    "topic",
    "no-local",
    "request-and-reply",
    "temporary-topic",
    "composite",
    "composite-consumer",
    "wildcard-queues",
    "wildcard-topics",
    "expiry",
    "priority",
    "names",
    "advisories",
    "destination-source",
    # connections
    "options",
    "large",
    "idle",
    "requestor",
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_java_client_sees_what_it_sees_on_classic(on_both: OnBoth, scenario: str) -> None:
    ours, classics = on_both(scenario)
    assert ours
    assert_alike(ours, classics)


def test_four_producers_and_four_consumers_lose_nothing_and_keep_each_order(on_both: OnBoth) -> None:
    ours, classics = on_both("concurrent")
    assert ours == [{"all": True, "different": 2000, "twice": 0, "out of order": 0}] == classics
