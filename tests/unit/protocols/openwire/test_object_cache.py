"""The object cache: who gives out which slot, and what a reader refuses."""

from __future__ import annotations

import pytest

from spanwire.protocols.openwire.codec._marshallers import (
    ActiveMQQueue,
    ActiveMQTopic,
    BrokerId,
    ConnectionId,
    ConsumerId,
    KeepAliveInfo,
    LocalTransactionId,
    ProducerId,
    SessionId,
    XATransactionId,
)
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.object_cache import MAX_CACHED_OCTETS, NO_SLOT, ReaderCache, WriterCache
from spanwire.protocols.openwire.codec.schema import DataStructure


def test_the_writer_numbers_new_values_in_order_and_finds_them_again_by_value() -> None:
    cache = WriterCache(200)
    assert cache.find(ConnectionId("a")) == NO_SLOT
    assert [cache.add(ConnectionId("a")), cache.add(None), cache.add(ConnectionId("b"))] == [0, 1, 2]
    assert [cache.find(ConnectionId("b")), cache.find(None), cache.find(ConnectionId("a"))] == [2, 1, 0]


def test_the_writer_forgets_the_oldest_before_a_frame_until_a_hundred_slots_are_free() -> None:
    cache = WriterCache(128)
    for number in range(60):
        cache.add(ConnectionId(str(number)))
    cache.sweep()
    assert [cache.find(ConnectionId(str(number))) for number in (31, 32, 59)] == [NO_SLOT, 32, 59]


def test_the_ring_wraps_and_a_full_one_gives_no_slot() -> None:
    cache = WriterCache(101)
    given = []
    for number in range(303):
        cache.sweep()
        given.append(cache.add(ConnectionId(str(number))))
    assert given == list(range(101)) * 3
    full = WriterCache(101)
    slots = [full.add(ConnectionId(str(number))) for number in range(102)]
    assert slots[-2:] == [100, NO_SLOT]


def test_values_of_another_class_or_with_another_field_are_others() -> None:
    values: list[DataStructure] = [
        ActiveMQQueue("A"),
        ActiveMQTopic("A"),
        ActiveMQQueue("B"),
        BrokerId("A"),
        ConnectionId("A"),
        SessionId(connection_id="A", value=1),
        ConsumerId(connection_id="A", session_id=1, value=2),
        ConsumerId(connection_id="A", session_id=2, value=1),
        ProducerId(connection_id="A", session_id=1, value=2),
        LocalTransactionId(value=1, connection_id=ConnectionId("A")),
        XATransactionId(format_id=1, global_transaction_id=b"A", branch_qualifier=b"B"),
        XATransactionId(format_id=1, global_transaction_id=b"B", branch_qualifier=b"A"),
    ]
    assert len(set(values)) == len(values)
    assert ActiveMQQueue("A") == values[0]
    assert hash(ActiveMQQueue("A")) == hash(values[0])


def test_the_reader_gives_back_what_was_put_into_a_slot_last() -> None:
    cache = ReaderCache(101)
    cache.store(5, ConnectionId("a"), 10)
    cache.store(5, None, 1)
    cache.store(NO_SLOT, ConnectionId("b"), 10)
    assert cache.load(5) is None
    with pytest.raises(OpenWireProtocolError, match="never filled"):
        cache.load(NO_SLOT)


@pytest.mark.parametrize("slot", [-2, 101, 32767, -32768])
def test_the_reader_refuses_a_slot_outside_its_size(slot: int) -> None:
    cache = ReaderCache(101)
    cache.check_slot(100)
    cache.check_slot(NO_SLOT)
    with pytest.raises(OpenWireProtocolError, match="outside"):
        cache.check_slot(slot)


def test_the_reader_keeps_ids_and_destinations_only_and_of_them_only_so_much() -> None:
    cache = ReaderCache(101)
    with pytest.raises(OpenWireProtocolError, match="type 10"):
        cache.store(0, KeepAliveInfo(), 10)
    cache.store(0, ConnectionId("a"), MAX_CACHED_OCTETS)
    cache.store(0, ConnectionId("a"), MAX_CACHED_OCTETS)
    with pytest.raises(OpenWireProtocolError, match="bytes"):
        cache.store(1, ConnectionId("b"), 1)
