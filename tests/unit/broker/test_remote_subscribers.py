"""The durable subscriptions of other brokers behind those of bridges, and what the store keeps of them."""

from __future__ import annotations

import pytest

from spanwire.broker.destinations.remote_subscribers import MAX_SUBSCRIBER, MAX_SUBSCRIBERS, RemoteSubscribers
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.metadata import REMOTE_SUBSCRIBERS
from spanwire.model.errors import StoreError
from spanwire.stores.memory import MemoryStore


def opened(store: MemoryStore, *subscriptions: str) -> RemoteSubscribers:
    found = RemoteSubscribers(BrokerContext(store))
    found.recover(dict(store.metadata.get(REMOTE_SUBSCRIBERS, {})), set(subscriptions))
    return found


def test_a_restart_keeps_the_subscribers_of_subscriptions_that_are_there_and_discards_others() -> None:
    store = MemoryStore()
    first = opened(store)
    for name in ("one", "two"):
        first.begin(name)
        first.add(name, "s1")
        first.add(name, "s\u00fc\ud800")
    first.remove("one", "s1")
    again = opened(store, "one")
    assert (again.of("one"), again.of("two")) == ({"s\u00fc\ud800"}, None)
    assert (again.serving("s1"), again.serving("s\u00fc\ud800")) == ([], ["one"])
    again.forget("one")
    assert store.metadata[REMOTE_SUBSCRIBERS] == {}
    assert (again._behind, again._served_by) == ({}, {})


def test_a_subscription_that_was_there_before_its_subscribers_were_kept_may_have_others() -> None:
    found = opened(MemoryStore())
    found.add("one", "s1")
    assert found.of("one") is None
    found.begin("one")
    assert found.of("one") == {"s1"}


def test_more_subscribers_than_the_limit_are_not_kept_so_that_the_subscription_never_ends() -> None:
    store = MemoryStore()
    found = opened(store)
    for name, subscribers in (
        ("many", [str(number) for number in range(MAX_SUBSCRIBERS + 5)]),
        ("long", ["x" * 5_000]),
    ):
        found.begin(name)
        for subscriber in subscribers:
            found.add(name, subscriber)
        assert found.of(name) is None
    assert len("x" * 5_000) > MAX_SUBSCRIBER
    assert len(store.metadata[REMOTE_SUBSCRIBERS]) == MAX_SUBSCRIBERS


def test_a_fact_that_nobody_wrote_stops_the_start() -> None:
    store = MemoryStore()
    store.put_metadata(REMOTE_SUBSCRIBERS, b"k", b"{")
    with pytest.raises(StoreError, match="cannot be read"):
        opened(store)
