"""Bodies of advisories as maps for the column ``body``.

Source: Apache ActiveMQ, Advisory Message, dataStructure. Each map has the name of OpenWire's structure as ``type``. Ids
are texts as clients show them, destinations ``queue://NAME``, times milliseconds since 1970.

| type | further entries, if the structure has them |
|---|---|
| ConnectionInfo | connectionId, clientId, userName, clientIp |
| ConsumerInfo | consumerId, connectionId, clientId, destination, selector, subscriptionName, networkSubscription, |
| | brokerPath |
| ProducerInfo | producerId, connectionId, destination |
| RemoveInfo | objectId |
| DestinationInfo | destination, isRemoved |
| BrokerInfo | brokerId, brokerName, brokerURL |
| Message | messageId, producerId, connectionId, destination, originalDestination, timestamp, brokerPath, size, |
| | brokerInTime, brokerOutTime |

A structure of another type has only its type number. No map contains a password or the body of a message.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import SCHEMES
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP_VALUE,
    STRING_VALUE,
    PropertyValue,
)
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import DataStructure

REMOVE_OPERATION: Final = 1
Entries = dict[str, PropertyValue]


def structure_entry(structure: DataStructure) -> PropertyValue:
    """Return the map of one structure."""
    entries: Entries = {}
    if isinstance(structure, wire.Message):
        _put_message(structure, entries)
    elif isinstance(structure, wire.ConsumerInfo):
        _put_consumer(structure, entries)
    elif isinstance(structure, wire.ProducerInfo):
        entries["type"] = (STRING_VALUE, "ProducerInfo")
        _put_producer(entries, structure.producer_id)
        _put(entries, "destination", destination_text(structure.destination))
    else:
        _put_other(structure, entries)
    return (MAP_VALUE, entries)


def message_id_text(message_id: wire.MessageId | None) -> str | None:
    """Return a message id as clients show it, or ``None`` without an id."""
    if message_id is None:
        return None
    if message_id.text_view:
        return message_id.text_view
    producer = producer_text(message_id.producer_id)
    return f"{producer if producer is not None else 'ID'}:{message_id.producer_sequence_id}"


def producer_text(producer_id: wire.ProducerId | None) -> str | None:
    """Return a producer id as clients show it, or ``None`` without an id."""
    return None if producer_id is None else f"{producer_id.connection_id}:{producer_id.session_id}:{producer_id.value}"


def consumer_text(consumer_id: wire.ConsumerId | None) -> str | None:
    """Return a consumer id like the property ``consumerId`` of advisories, or ``None`` without an id."""
    return None if consumer_id is None else f"{consumer_id.connection_id}:{consumer_id.session_id}:{consumer_id.value}"


def destination_text(destination: wire.ActiveMQDestination | None) -> str | None:
    """Return a destination such as ``queue://NAME``, or ``None`` without a destination."""
    if destination is None or destination.physical_name is None:
        return None
    return SCHEMES[destination.type_id() - wire.ACTIVE_MQ_QUEUE] + destination.physical_name


def _put_message(message: wire.Message, entries: Entries) -> None:
    entries["type"] = (STRING_VALUE, "Message")
    _put(entries, "messageId", message_id_text(message.message_id))
    _put_producer(entries, message.producer_id)
    _put(entries, "destination", destination_text(message.destination))
    _put(entries, "originalDestination", destination_text(message.original_destination))
    _put_time(entries, "timestamp", message.timestamp)
    _put_path(entries, message.broker_path)
    _put_time(entries, "brokerInTime", message.broker_in_time)
    _put_time(entries, "brokerOutTime", message.broker_out_time)
    if message.content is not None:
        entries["size"] = (LONG_VALUE, len(message.content))


def _put_consumer(info: wire.ConsumerInfo, entries: Entries) -> None:
    entries["type"] = (STRING_VALUE, "ConsumerInfo")
    consumer_id = info.consumer_id
    _put(entries, "consumerId", consumer_text(consumer_id))
    if consumer_id is not None:
        _put(entries, "connectionId", consumer_id.connection_id)
    _put(entries, "clientId", info.client_id)
    _put(entries, "destination", destination_text(info.destination))
    _put(entries, "selector", info.selector)
    _put(entries, "subscriptionName", info.subscription_name)
    entries["networkSubscription"] = (BOOLEAN_VALUE, info.network_subscription)
    _put_path(entries, info.broker_path)


def _put_other(structure: DataStructure, entries: Entries) -> None:
    if isinstance(structure, wire.ConnectionInfo):
        entries["type"] = (STRING_VALUE, "ConnectionInfo")
        if structure.connection_id is not None:
            _put(entries, "connectionId", structure.connection_id.value)
        _put(entries, "clientId", structure.client_id)
        _put(entries, "userName", structure.user_name)
        _put(entries, "clientIp", structure.client_ip)
    elif isinstance(structure, wire.RemoveInfo):
        entries["type"] = (STRING_VALUE, "RemoveInfo")
        _put(entries, "objectId", _object_text(structure.object_id))
    elif isinstance(structure, wire.DestinationInfo):
        entries["type"] = (STRING_VALUE, "DestinationInfo")
        _put(entries, "destination", destination_text(structure.destination))
        entries["isRemoved"] = (BOOLEAN_VALUE, structure.operation_type == REMOVE_OPERATION)
    elif isinstance(structure, wire.BrokerInfo):
        entries["type"] = (STRING_VALUE, "BrokerInfo")
        if structure.broker_id is not None:
            _put(entries, "brokerId", structure.broker_id.value)
        _put(entries, "brokerName", structure.broker_name)
        _put(entries, "brokerURL", structure.broker_url)
    else:
        entries["type"] = (STRING_VALUE, "other")
        entries["number"] = (INT_VALUE, structure.type_id())


def _object_text(object_id: DataStructure | None) -> str | None:
    if isinstance(object_id, wire.ConnectionId):
        return object_id.value
    if isinstance(object_id, wire.ConsumerId):
        return consumer_text(object_id)
    if isinstance(object_id, wire.ProducerId):
        return producer_text(object_id)
    return None


def _put(entries: Entries, name: str, text: str | None) -> None:
    if text is not None:
        entries[name] = (STRING_VALUE, text)


def _put_producer(entries: Entries, producer_id: wire.ProducerId | None) -> None:
    _put(entries, "producerId", producer_text(producer_id))
    if producer_id is not None:
        _put(entries, "connectionId", producer_id.connection_id)


def _put_time(entries: Entries, name: str, millis: int) -> None:
    if millis:
        entries[name] = (LONG_VALUE, millis)


def _put_path(entries: Entries, path: list[wire.BrokerId] | None) -> None:
    if path is not None:
        entries["brokerPath"] = (LIST_VALUE, [(STRING_VALUE, broker.value or "") for broker in path])
