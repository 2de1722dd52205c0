"""Calls of Python functions that a message of a queue takes: what the interpreted build pays for.

The compiled build makes no such calls, so there the counts are below the limits in any case.
"""

from __future__ import annotations

import sys
from types import FrameType

from spanwire.protocols.openwire.codec import _marshallers as wire
from tests.support.openwire_dialogue import OpenWirePeer, World

MESSAGES = 200
CALLS_OF_SEND = 28  # with the dispatch to the consumer; it takes 26 and took 41
CALLS_OF_ACK = 5  # in a run; it takes 4.2 and took 7.2
QUEUE = wire.ActiveMQQueue("Q")


def calls_while_received(peer: OpenWirePeer, octets: bytes) -> int:
    """The number of Python functions of Spanwire that the connection calls to process ``octets``."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        peer.connection.receive_data(octets, peer.world.now)
    finally:
        sys.setprofile(None)
    peer.world.settle()
    return calls


def test_a_message_and_its_acknowledgement_take_few_calls() -> None:
    world = World()
    producer, consumer = world.connect(), world.connect()
    producer.produces(QUEUE)
    consumer.consumes(QUEUE, prefetch_size=2 * MESSAGES)

    def send() -> int:
        messages = [producer.text_message(QUEUE, "text", persistent=False) for _ in range(MESSAGES)]
        return calls_while_received(producer, b"".join([producer.encoder.encode(each) for each in messages]))

    def acknowledge() -> int:
        acks: list[bytes] = []
        for message in consumer.dispatched():
            ack = wire.MessageAck(
                consumer_id=consumer.consumer_id(),
                destination=QUEUE,
                ack_type=2,
                first_message_id=message.message_id,
                last_message_id=message.message_id,
                message_count=1,
            )
            acks.append(consumer.encoder.encode(ack))
        assert len(acks) == MESSAGES
        return calls_while_received(consumer, b"".join(acks))

    send()
    acknowledge()
    assert send() < CALLS_OF_SEND * MESSAGES
    assert acknowledge() < CALLS_OF_ACK * MESSAGES
    assert consumer.dispatched() == []
