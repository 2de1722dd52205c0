"""The duplicate id (``_AMQ_DUPL_ID``) as clients of each protocol send it."""

from __future__ import annotations

from spanwire.broker.persistence.duplicate_ids import PROPERTY
from spanwire.model.message_view import LONG_VALUE, STRING_VALUE
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.primitive_map import encode_map
from tests.support.openwire_dialogue import OpenWirePeer, World, text_of
from tests.support.stomp_dialogue import Stage

Q = wire.ActiveMQQueue(physical_name="Q")


def message(peer: OpenWirePeer, text: str, kind: int, duplicate_id: object) -> wire.Message:
    made = peer.text_message(Q, text)
    made.marshalled_properties = encode_map({"colour": (STRING_VALUE, "red"), PROPERTY: (kind, duplicate_id)})
    return made


def test_a_java_client_sends_a_message_again_and_gets_its_response() -> None:
    world = World()
    peer, other = world.connect(), world.connect()
    peer.produces(Q)
    other.produces(Q)
    peer.succeeds(message(peer, "1", STRING_VALUE, "7"))
    other.succeeds(message(other, "2", STRING_VALUE, "7"))
    other.succeeds(message(other, "3", LONG_VALUE, 7))
    other.succeeds(message(other, "4", STRING_VALUE, "8"))
    consumer = world.connect()
    consumer.consumes(Q)
    assert [text_of(found) for found in consumer.dispatched()] == ["1", "4"]


def test_a_stomp_client_sends_a_message_again_and_gets_its_receipt() -> None:
    stage = Stage()
    peer = stage.peer("1.2")
    for text in ("1", "2"):
        peer.sends(f"SEND\ndestination:/queue/Q\npersistent:true\n{PROPERTY}:a\nreceipt:{text}\n\n{text}\0")
        stage.passes(1)
        assert [frame.headers["receipt-id"] for frame in peer.receives()] == [text]
    peer.sends(f"SEND\ndestination:/queue/Q\n\n{PROPERTY}:a\0")
    peer.sends(f"SEND\ndestination:/queue/Q\n\n{PROPERTY}:a\0")
    consumer = stage.peer("1.2")
    consumer.sends("SUBSCRIBE\nid:1\ndestination:/queue/Q\n\n\0")
    stage.passes(1)
    assert [frame.body for frame in consumer.receives()] == [b"1", b"_AMQ_DUPL_ID:a", b"_AMQ_DUPL_ID:a"]
