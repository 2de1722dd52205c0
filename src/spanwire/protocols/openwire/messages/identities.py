"""Converts ids and destinations between OpenWire and the model.

The model's connection ids are plain strings; OpenWire has a nested ConnectionId in some structures and a string in
others. The four destination types have the order of the model's kinds.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import QUEUE, TEMP_QUEUE, TOPIC, Destination, parse_destination
from spanwire.model.errors import InvalidDestinationError, JmsError
from spanwire.model.ids import (
    AnyTransactionId,
    ConsumerId,
    MessageId,
    ProducerId,
    SessionId,
    TransactionId,
    XaTransactionId,
)
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError

MAX_XID_PART_BYTES: Final = 64  # bytes; X/Open XA: MAXGTRIDSIZE and MAXBQUALSIZE

NO_PRODUCER: Final = ProducerId("", 0, 0)
"""Stands in an id that came from another messaging system and has a text only."""


def destination_of(structure: wire.ActiveMQDestination | None) -> Destination:
    """Return the model's destination; raises `InvalidDestinationError` for null and for an invalid name."""
    if structure is None or structure.physical_name is None:
        raise InvalidDestinationError("Don't understand null destinations")
    return parse_destination(structure.physical_name, structure.type_id() - wire.ACTIVE_MQ_QUEUE)


def wire_destination(destination: Destination) -> wire.ActiveMQDestination:
    """Return the structure for a destination."""
    if destination.kind == QUEUE:
        return wire.ActiveMQQueue(destination.name)
    if destination.kind == TOPIC:
        return wire.ActiveMQTopic(destination.name)
    if destination.kind == TEMP_QUEUE:
        return wire.ActiveMQTempQueue(destination.name)
    return wire.ActiveMQTempTopic(destination.name)


def connection_id_of(structure: wire.ConnectionId | None) -> str:
    """Return the text of a connection id."""
    if structure is None or not structure.value:
        raise OpenWireProtocolError("a connection id is null")
    return structure.value


def session_id_of(structure: wire.SessionId | None) -> SessionId:
    """Return the model's session id."""
    if structure is None or structure.connection_id is None:
        raise OpenWireProtocolError("a session id is null")
    return SessionId(structure.connection_id, structure.value)


def producer_id_of(structure: wire.ProducerId | None) -> ProducerId:
    """Return the model's producer id."""
    if structure is None or structure.connection_id is None:
        raise OpenWireProtocolError("a producer id is null")
    return ProducerId(structure.connection_id, structure.session_id, structure.value)


def wire_producer_id(producer_id: ProducerId) -> wire.ProducerId:
    """Return the structure for a producer id."""
    return wire.ProducerId(
        connection_id=producer_id.connection_id, session_id=producer_id.session_id, value=producer_id.value
    )


def consumer_id_of(structure: wire.ConsumerId | None) -> ConsumerId:
    """Return the model's consumer id."""
    if structure is None or structure.connection_id is None:
        raise OpenWireProtocolError("a consumer id is null")
    return ConsumerId(structure.connection_id, structure.session_id, structure.value)


def wire_consumer_id(consumer_id: ConsumerId) -> wire.ConsumerId:
    """Return the structure for a consumer id."""
    return wire.ConsumerId(
        connection_id=consumer_id.connection_id, session_id=consumer_id.session_id, value=consumer_id.value
    )


def message_id_of(structure: wire.MessageId | None) -> MessageId:
    """Return the model's message id."""
    if structure is None:
        raise OpenWireProtocolError("a message id is null")
    producer = structure.producer_id
    if producer is None:
        if structure.text_view is None:
            raise OpenWireProtocolError("a message id has neither a producer nor a text")
        return MessageId(NO_PRODUCER, structure.producer_sequence_id, structure.text_view)
    return MessageId(producer_id_of(producer), structure.producer_sequence_id, structure.text_view)


def wire_message_id(message_id: MessageId, broker_sequence: int) -> wire.MessageId:
    """Return the structure for a message id."""
    producer = None if message_id.producer_id == NO_PRODUCER else wire_producer_id(message_id.producer_id)
    return wire.MessageId(
        text_view=message_id.text_view,
        producer_id=producer,
        producer_sequence_id=message_id.sequence,
        broker_sequence_id=broker_sequence,
    )


def transaction_id_of(structure: wire.TransactionId | None) -> AnyTransactionId | None:
    """Return the model's transaction id, or None for null.

    Raises:
        OpenWireProtocolError: a local transaction has no connection, or the structure is of another type.
        JmsError: a part of an XA transaction's id is longer than X/Open allows.
    """
    if structure is None:
        return None
    if isinstance(structure, wire.LocalTransactionId):
        return TransactionId(connection_id_of(structure.connection_id), structure.value)
    if not isinstance(structure, wire.XATransactionId):
        raise OpenWireProtocolError("a transaction is neither local nor XA")
    global_id = structure.global_transaction_id or b""
    branch_qualifier = structure.branch_qualifier or b""
    if len(global_id) > MAX_XID_PART_BYTES or len(branch_qualifier) > MAX_XID_PART_BYTES:
        raise JmsError(f"a part of an XA transaction's id has more than {MAX_XID_PART_BYTES} bytes")
    return XaTransactionId(structure.format_id, global_id, branch_qualifier)


def wire_xa_transaction_id(xid: XaTransactionId) -> wire.XATransactionId:
    """Return the structure for the id of an XA branch."""
    return wire.XATransactionId(
        format_id=xid.format_id, global_transaction_id=xid.global_id, branch_qualifier=xid.branch_qualifier
    )
