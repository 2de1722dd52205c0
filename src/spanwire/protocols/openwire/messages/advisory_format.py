"""Advisory messages in OpenWire's layout, as read by Java clients and the bridges of other brokers.

An advisory is an ActiveMQMessage of type ``Advisory`` without a body. The field dataStructure has the command or
message behind the advisory. The properties originBrokerId, originBrokerName and originBrokerURL name the broker (Apache
ActiveMQ, Advisory Message). An advisory never contains a password.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.ports import (
    AdvisedMessage,
    AdvisoryFormat,
    LinkedBroker,
    LongNumber,
    MessageFormat,
    RemovedSubject,
    RoutedDestination,
)
from spanwire.broker.topic.durable_subscription import SubscriptionTerms
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.ids import ConsumerId, ProducerId
from spanwire.model.info import ConnectionInfo, ConsumerInfo, ProducerInfo
from spanwire.model.message import FORMAT_OPENWIRE_10, Message
from spanwire.model.message_view import BOOLEAN_VALUE, INT_VALUE, LONG_VALUE, STRING_VALUE, PropertyValue
from spanwire.protocols.octets import INT_MAX, INT_MIN
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.codec.schema import LATEST_VERSION, DataStructure
from spanwire.protocols.openwire.messages.identities import wire_consumer_id, wire_destination, wire_producer_id
from spanwire.protocols.openwire.messages.message_format import CANONICAL_VERSIONS, structure_of, without_content
from spanwire.protocols.primitive_map import encode_map

ADVISORY_TYPE: Final = "Advisory"
ADD_OPERATION: Final = 0
REMOVE_OPERATION: Final = 1


class OpenWireAdvisoryFormat(AdvisoryFormat):
    """Creates advisories in the latest version; the connections of older clients convert them.

    ``producer_connection_id`` is part of the message ids and must differ from all connection ids of clients. So a
    subscriber with noLocal also receives the advisories about its own connection.
    """

    def __init__(
        self,
        broker_id: str,
        broker_name: str,
        broker_url: str,
        producer_connection_id: str,
        formats: MessageFormats,
    ) -> None:
        self._origin: Final[dict[str, PropertyValue]] = {
            "originBrokerId": (STRING_VALUE, broker_id),
            "originBrokerName": (STRING_VALUE, broker_name),
            "originBrokerURL": (STRING_VALUE, broker_url),
        }
        self._producer_id: Final[wire.ProducerId] = wire.ProducerId(connection_id=producer_connection_id)
        self._formats: Final[MessageFormats] = formats
        self._message_format: Final[MessageFormat] = formats.format(FORMAT_OPENWIRE_10)
        self._writer: Final[LooseWriter] = LooseWriter(LATEST_VERSION, True)

    def advisory(
        self, destination: Destination, subject: object, properties: dict[str, object], number: int, wall_ms: int
    ) -> Message:
        """Return the advisory about ``subject`` for the topic ``destination``."""
        entries = dict(self._origin)
        for name, value in properties.items():
            entries[name] = _property(value)
        message = wire.ActiveMQMessage()
        message.producer_id = self._producer_id
        message.destination = wire_destination(destination)
        message.message_id = wire.MessageId(
            producer_id=self._producer_id, producer_sequence_id=number, broker_sequence_id=number
        )
        message.type = ADVISORY_TYPE
        message.marshalled_properties = encode_map(entries)
        if isinstance(subject, AdvisedMessage):
            message.data_structure = self._message_structure(subject.message, subject.whole)
        else:
            message.data_structure = _subject_structure(subject)
        message.broker_in_time = wall_ms
        message.broker_out_time = wall_ms
        out = BytesWriter()
        out.append(message.type_id())
        self._writer.begin(out)
        message.write(self._writer)
        return self._message_format.index(out.getvalue())

    def _message_structure(self, message: Message, whole: bool) -> DataStructure | None:
        """Return the structure of a message for an advisory; None for an undecodable message."""
        try:
            if message.format_id not in CANONICAL_VERSIONS:
                view = self._formats.view(message)
                if not whole:
                    view.body = None
                return structure_of(view)
            octets = message.encoded() if whole else without_content(message)
            structure = decode_message(octets, CANONICAL_VERSIONS[message.format_id])
            if not whole:
                structure.compressed = False
            return structure
        except (JmsError, ProtocolError):
            return None


def _property(value: object) -> PropertyValue:
    if isinstance(value, bool):
        return (BOOLEAN_VALUE, value)
    if isinstance(value, LongNumber):
        return (LONG_VALUE, value.value)
    if isinstance(value, int):
        return (INT_VALUE if INT_MIN <= value <= INT_MAX else LONG_VALUE, value)
    return (STRING_VALUE, str(value))


def _subject_structure(subject: object) -> DataStructure | None:
    if isinstance(subject, ConsumerInfo):
        return _consumer(subject)
    if isinstance(subject, ProducerInfo):
        return _producer(subject)
    if isinstance(subject, ConnectionInfo):
        return _connection(subject)
    if isinstance(subject, Destination):
        return _destination(subject, _owner(subject), ADD_OPERATION)
    if isinstance(subject, RemovedSubject):
        return _removed(subject)
    if isinstance(subject, LinkedBroker):
        return wire.BrokerInfo(
            broker_id=wire.BrokerId(subject.broker_id), broker_name=subject.name, broker_url=subject.url
        )
    if isinstance(subject, RoutedDestination):
        routed = _destination(subject.destination, _owner(subject.destination), ADD_OPERATION)
        routed.broker_path = _path(subject.broker_path)
        return routed
    return None


def _connection(info: ConnectionInfo) -> DataStructure:
    return wire.ConnectionInfo(
        connection_id=wire.ConnectionId(info.connection_id),
        client_id=info.client_id,
        password="",
        user_name=info.user_name,
        manageable=True,
        client_master=True,
        fault_tolerant=info.fault_tolerant,
        client_ip=info.remote_address,
    )


def _consumer(info: ConsumerInfo) -> DataStructure:
    return wire.ConsumerInfo(
        consumer_id=wire_consumer_id(info.consumer_id),
        browser=info.browser,
        destination=wire_destination(info.destination),
        prefetch_size=info.prefetch_size,
        maximum_pending_message_limit=info.maximum_pending_messages,
        dispatch_async=True,
        selector=info.selector,
        client_id=info.client_id,
        subscription_name=info.subscription_name,
        no_local=info.no_local,
        exclusive=info.exclusive,
        retroactive=info.retroactive,
        priority=info.priority,
        network_subscription=info.network_subscription,
        broker_path=_path(info.broker_path),
        network_consumer_path=[wire_consumer_id(one) for one in info.network_consumer_path] or None,
    )


def _path(path: tuple[str, ...]) -> list[wire.BrokerId] | None:
    """Return the broker path; null for objects of this broker, as in other brokers."""
    return [wire.BrokerId(broker_id) for broker_id in path] or None


def _producer(info: ProducerInfo) -> DataStructure:
    destination = None if info.destination is None else wire_destination(info.destination)
    return wire.ProducerInfo(
        producer_id=wire_producer_id(info.producer_id), destination=destination, window_size=info.window_size
    )


def _destination(destination: Destination, connection_id: str | None, operation: int) -> wire.DestinationInfo:
    return wire.DestinationInfo(
        connection_id=None if connection_id is None else wire.ConnectionId(connection_id),
        destination=wire_destination(destination),
        operation_type=operation,
    )


def _owner(destination: Destination) -> str | None:
    """Return the connection id of a temporary destination, from its name ``connectionId:number``."""
    if not destination.is_temporary:
        return None
    owner = destination.name.rpartition(":")[0]
    return owner if owner else None


def _removed(removed: RemovedSubject) -> DataStructure:
    subject = removed.subject
    if isinstance(subject, Destination):
        connection_id = removed.connection_id if removed.connection_id else _owner(subject)
        return _destination(subject, connection_id, REMOVE_OPERATION)
    if isinstance(subject, SubscriptionTerms):
        return wire.RemoveSubscriptionInfo(
            connection_id=wire.ConnectionId(removed.connection_id),
            subscription_name=subject.name,
            client_id=subject.client_id,
        )
    object_id: DataStructure = wire.ConnectionId(removed.connection_id)
    if isinstance(subject, ConsumerId):
        object_id = wire_consumer_id(subject)
    elif isinstance(subject, ProducerId):
        object_id = wire_producer_id(subject)
    return wire.RemoveInfo(object_id=object_id, last_delivered_sequence_id=LAST_DELIVERED_UNKNOWN)
