# ruff: noqa: A001, A002
"""The OpenWire structures: attributes, field order and version branches.

Written by tools/generate_openwire.py from tools/openwire_commands.json; change those, not this file.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import mypyc_attr

from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.schema import DataStructure, FieldReader, FieldWriter, Throwable

MAGIC: Final = b"ActiveMQ"

WIRE_FORMAT_INFO: Final = 1
BROKER_INFO: Final = 2
CONNECTION_INFO: Final = 3
SESSION_INFO: Final = 4
CONSUMER_INFO: Final = 5
PRODUCER_INFO: Final = 6
TRANSACTION_INFO: Final = 7
DESTINATION_INFO: Final = 8
REMOVE_SUBSCRIPTION_INFO: Final = 9
KEEP_ALIVE_INFO: Final = 10
SHUTDOWN_INFO: Final = 11
REMOVE_INFO: Final = 12
CONTROL_COMMAND: Final = 14
FLUSH_COMMAND: Final = 15
CONNECTION_ERROR: Final = 16
CONSUMER_CONTROL: Final = 17
CONNECTION_CONTROL: Final = 18
PRODUCER_ACK: Final = 19
MESSAGE_PULL: Final = 20
MESSAGE_DISPATCH: Final = 21
MESSAGE_ACK: Final = 22
ACTIVE_MQ_MESSAGE: Final = 23
ACTIVE_MQ_BYTES_MESSAGE: Final = 24
ACTIVE_MQ_MAP_MESSAGE: Final = 25
ACTIVE_MQ_OBJECT_MESSAGE: Final = 26
ACTIVE_MQ_STREAM_MESSAGE: Final = 27
ACTIVE_MQ_TEXT_MESSAGE: Final = 28
ACTIVE_MQ_BLOB_MESSAGE: Final = 29
RESPONSE: Final = 30
EXCEPTION_RESPONSE: Final = 31
DATA_RESPONSE: Final = 32
DATA_ARRAY_RESPONSE: Final = 33
INTEGER_RESPONSE: Final = 34
DISCOVERY_EVENT: Final = 40
JOURNAL_TOPIC_ACK: Final = 50
JOURNAL_QUEUE_ACK: Final = 52
JOURNAL_TRACE: Final = 53
JOURNAL_TRANSACTION: Final = 54
SUBSCRIPTION_INFO: Final = 55
PARTIAL_COMMAND: Final = 60
LAST_PARTIAL_COMMAND: Final = 61
REPLAY_COMMAND: Final = 65
MESSAGE_DISPATCH_NOTIFICATION: Final = 90
NETWORK_BRIDGE_FILTER: Final = 91
BROKER_SUBSCRIPTION_INFO: Final = 92
ACTIVE_MQ_QUEUE: Final = 100
ACTIVE_MQ_TOPIC: Final = 101
ACTIVE_MQ_TEMP_QUEUE: Final = 102
ACTIVE_MQ_TEMP_TOPIC: Final = 103
MESSAGE_ID: Final = 110
LOCAL_TRANSACTION_ID: Final = 111
XA_TRANSACTION_ID: Final = 112
CONNECTION_ID: Final = 120
SESSION_ID: Final = 121
CONSUMER_ID: Final = 122
PRODUCER_ID: Final = 123
BROKER_ID: Final = 124

TYPE_NAMES: Final = {
    WIRE_FORMAT_INFO: "WireFormatInfo",
    BROKER_INFO: "BrokerInfo",
    CONNECTION_INFO: "ConnectionInfo",
    SESSION_INFO: "SessionInfo",
    CONSUMER_INFO: "ConsumerInfo",
    PRODUCER_INFO: "ProducerInfo",
    TRANSACTION_INFO: "TransactionInfo",
    DESTINATION_INFO: "DestinationInfo",
    REMOVE_SUBSCRIPTION_INFO: "RemoveSubscriptionInfo",
    KEEP_ALIVE_INFO: "KeepAliveInfo",
    SHUTDOWN_INFO: "ShutdownInfo",
    REMOVE_INFO: "RemoveInfo",
    CONTROL_COMMAND: "ControlCommand",
    FLUSH_COMMAND: "FlushCommand",
    CONNECTION_ERROR: "ConnectionError",
    CONSUMER_CONTROL: "ConsumerControl",
    CONNECTION_CONTROL: "ConnectionControl",
    PRODUCER_ACK: "ProducerAck",
    MESSAGE_PULL: "MessagePull",
    MESSAGE_DISPATCH: "MessageDispatch",
    MESSAGE_ACK: "MessageAck",
    ACTIVE_MQ_MESSAGE: "ActiveMQMessage",
    ACTIVE_MQ_BYTES_MESSAGE: "ActiveMQBytesMessage",
    ACTIVE_MQ_MAP_MESSAGE: "ActiveMQMapMessage",
    ACTIVE_MQ_OBJECT_MESSAGE: "ActiveMQObjectMessage",
    ACTIVE_MQ_STREAM_MESSAGE: "ActiveMQStreamMessage",
    ACTIVE_MQ_TEXT_MESSAGE: "ActiveMQTextMessage",
    ACTIVE_MQ_BLOB_MESSAGE: "ActiveMQBlobMessage",
    RESPONSE: "Response",
    EXCEPTION_RESPONSE: "ExceptionResponse",
    DATA_RESPONSE: "DataResponse",
    DATA_ARRAY_RESPONSE: "DataArrayResponse",
    INTEGER_RESPONSE: "IntegerResponse",
    DISCOVERY_EVENT: "DiscoveryEvent",
    JOURNAL_TOPIC_ACK: "JournalTopicAck",
    JOURNAL_QUEUE_ACK: "JournalQueueAck",
    JOURNAL_TRACE: "JournalTrace",
    JOURNAL_TRANSACTION: "JournalTransaction",
    SUBSCRIPTION_INFO: "SubscriptionInfo",
    PARTIAL_COMMAND: "PartialCommand",
    LAST_PARTIAL_COMMAND: "LastPartialCommand",
    REPLAY_COMMAND: "ReplayCommand",
    MESSAGE_DISPATCH_NOTIFICATION: "MessageDispatchNotification",
    NETWORK_BRIDGE_FILTER: "NetworkBridgeFilter",
    BROKER_SUBSCRIPTION_INFO: "BrokerSubscriptionInfo",
    ACTIVE_MQ_QUEUE: "ActiveMQQueue",
    ACTIVE_MQ_TOPIC: "ActiveMQTopic",
    ACTIVE_MQ_TEMP_QUEUE: "ActiveMQTempQueue",
    ACTIVE_MQ_TEMP_TOPIC: "ActiveMQTempTopic",
    MESSAGE_ID: "MessageId",
    LOCAL_TRANSACTION_ID: "LocalTransactionId",
    XA_TRANSACTION_ID: "XATransactionId",
    CONNECTION_ID: "ConnectionId",
    SESSION_ID: "SessionId",
    CONSUMER_ID: "ConsumerId",
    PRODUCER_ID: "ProducerId",
    BROKER_ID: "BrokerId",
}


class Command(DataStructure):
    """A structure that may stand alone in a frame."""

    def visit(self, visitor: CommandVisitor) -> None:
        """Call the method of ``visitor`` that is named after this command."""
        visitor.other(self)


class MessageFrame(Command):
    """A message whose fields nobody looked into: the octets of its frame from the type id on, loose and uncached.

    ``version`` is the wire format version of the layout. Nothing behind the first two fields was checked yet.
    """

    def __init__(self, type_id: int, version: int) -> None:
        self._type_id: Final[int] = type_id
        self.version: Final[int] = version
        self.command_id = 0
        self.response_required = False
        self.raw = b""

    def type_id(self) -> int:
        return self._type_id

    def take(self, raw: bytes) -> None:
        """The octets of a whole frame from the type id on."""
        if len(raw) < 6:
            raise OpenWireProtocolError("a message ends inside its first fields")
        self.raw = raw
        self.command_id = read_i32_be(raw, 1)
        self.response_required = raw[5] != 0

    def read(self, r: FieldReader) -> None:
        self.take(r.data[r.position - 1 : r.end])
        r.position = r.end

    def write(self, w: FieldWriter) -> None:
        w.write_octets(self.raw[1:])

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.message(self)


class WireFormatInfo(Command):
    """Type 1."""

    def __init__(self, *, magic: bytes = MAGIC, version: int = 0, marshalled_properties: bytes | None = None) -> None:
        self.magic = magic
        self.version = version
        self.marshalled_properties = marshalled_properties

    def type_id(self) -> int:
        return 1

    def read(self, r: FieldReader) -> None:
        self.magic = r.read_octets(8)
        self.version = r.read_int()
        self.marshalled_properties = r.read_octet_array()

    def write(self, w: FieldWriter) -> None:
        w.write_octets(self.magic)
        w.write_int(self.version)
        w.write_octet_array(self.marshalled_properties)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.wire_format_info(self)


class BaseCommand(Command):
    """Abstract."""

    def __init__(self, command_id: int = 0, response_required: bool = False) -> None:
        self.command_id = command_id
        self.response_required = response_required

    def read(self, r: FieldReader) -> None:
        self.command_id = r.read_int()
        self.response_required = r.read_boolean()

    def write(self, w: FieldWriter) -> None:
        w.write_int(self.command_id)
        w.write_boolean(self.response_required)


class BrokerInfo(BaseCommand):
    """Type 2."""

    def __init__(
        self,
        *,
        broker_id: BrokerId | None = None,
        broker_url: str | None = None,
        peer_broker_infos: list[BrokerInfo] | None = None,
        broker_name: str | None = None,
        slave_broker: bool = False,
        master_broker: bool = False,
        fault_tolerant_configuration: bool = False,
        duplex_connection: bool = False,
        network_connection: bool = False,
        connection_id: int = 0,
        broker_upload_url: str | None = None,
        network_properties: str | None = None,
    ) -> None:
        super().__init__()
        self.broker_id = broker_id
        self.broker_url = broker_url
        self.peer_broker_infos = peer_broker_infos
        self.broker_name = broker_name
        self.slave_broker = slave_broker
        self.master_broker = master_broker
        self.fault_tolerant_configuration = fault_tolerant_configuration
        self.duplex_connection = duplex_connection
        self.network_connection = network_connection
        self.connection_id = connection_id
        self.broker_upload_url = broker_upload_url
        self.network_properties = network_properties

    def type_id(self) -> int:
        return 2

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.broker_id = as_broker_id(r.read_cached())
        self.broker_url = r.read_string()
        self.peer_broker_infos = all_broker_info(r.read_array())
        self.broker_name = r.read_string()
        self.slave_broker = r.read_boolean()
        self.master_broker = r.read_boolean()
        self.fault_tolerant_configuration = r.read_boolean()
        if r.version >= 2:
            self.duplex_connection = r.read_boolean()
            self.network_connection = r.read_boolean()
            self.connection_id = r.read_long()
        if r.version >= 3:
            self.broker_upload_url = r.read_string()
            self.network_properties = r.read_string()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.broker_id)
        w.write_string(self.broker_url)
        w.write_array(self.peer_broker_infos)
        w.write_string(self.broker_name)
        w.write_boolean(self.slave_broker)
        w.write_boolean(self.master_broker)
        w.write_boolean(self.fault_tolerant_configuration)
        if w.version >= 2:
            w.write_boolean(self.duplex_connection)
            w.write_boolean(self.network_connection)
            w.write_long(self.connection_id)
        if w.version >= 3:
            w.write_string(self.broker_upload_url)
            w.write_string(self.network_properties)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.broker_info(self)


class ConnectionInfo(BaseCommand):
    """Type 3."""

    def __init__(
        self,
        *,
        connection_id: ConnectionId | None = None,
        client_id: str | None = None,
        password: str | None = None,
        user_name: str | None = None,
        broker_path: list[BrokerId] | None = None,
        broker_master_connector: bool = False,
        manageable: bool = False,
        client_master: bool = False,
        fault_tolerant: bool = False,
        failover_reconnect: bool = False,
        client_ip: str | None = None,
    ) -> None:
        super().__init__()
        self.connection_id = connection_id
        self.client_id = client_id
        self.password = password
        self.user_name = user_name
        self.broker_path = broker_path
        self.broker_master_connector = broker_master_connector
        self.manageable = manageable
        self.client_master = client_master
        self.fault_tolerant = fault_tolerant
        self.failover_reconnect = failover_reconnect
        self.client_ip = client_ip

    def type_id(self) -> int:
        return 3

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.connection_id = as_connection_id(r.read_cached())
        self.client_id = r.read_string()
        self.password = r.read_string()
        self.user_name = r.read_string()
        self.broker_path = all_broker_id(r.read_array())
        self.broker_master_connector = r.read_boolean()
        self.manageable = r.read_boolean()
        if r.version >= 2:
            self.client_master = r.read_boolean()
        if r.version >= 6:
            self.fault_tolerant = r.read_boolean()
            self.failover_reconnect = r.read_boolean()
        if r.version >= 8:
            self.client_ip = r.read_string()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.connection_id)
        w.write_string(self.client_id)
        w.write_string(self.password)
        w.write_string(self.user_name)
        w.write_array(self.broker_path)
        w.write_boolean(self.broker_master_connector)
        w.write_boolean(self.manageable)
        if w.version >= 2:
            w.write_boolean(self.client_master)
        if w.version >= 6:
            w.write_boolean(self.fault_tolerant)
            w.write_boolean(self.failover_reconnect)
        if w.version >= 8:
            w.write_string(self.client_ip)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.connection_info(self)


class SessionInfo(BaseCommand):
    """Type 4."""

    def __init__(self, session_id: SessionId | None = None) -> None:
        super().__init__()
        self.session_id = session_id

    def type_id(self) -> int:
        return 4

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.session_id = as_session_id(r.read_cached())

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.session_id)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.session_info(self)


class ConsumerInfo(BaseCommand):
    """Type 5."""

    def __init__(
        self,
        *,
        consumer_id: ConsumerId | None = None,
        browser: bool = False,
        destination: ActiveMQDestination | None = None,
        prefetch_size: int = 0,
        maximum_pending_message_limit: int = 0,
        dispatch_async: bool = False,
        selector: str | None = None,
        client_id: str | None = None,
        subscription_name: str | None = None,
        no_local: bool = False,
        exclusive: bool = False,
        retroactive: bool = False,
        priority: int = 0,
        broker_path: list[BrokerId] | None = None,
        additional_predicate: NetworkBridgeFilter | None = None,
        network_subscription: bool = False,
        optimized_acknowledge: bool = False,
        no_range_acks: bool = False,
        network_consumer_path: list[ConsumerId] | None = None,
    ) -> None:
        super().__init__()
        self.consumer_id = consumer_id
        self.browser = browser
        self.destination = destination
        self.prefetch_size = prefetch_size
        self.maximum_pending_message_limit = maximum_pending_message_limit
        self.dispatch_async = dispatch_async
        self.selector = selector
        self.client_id = client_id
        self.subscription_name = subscription_name
        self.no_local = no_local
        self.exclusive = exclusive
        self.retroactive = retroactive
        self.priority = priority
        self.broker_path = broker_path
        self.additional_predicate = additional_predicate
        self.network_subscription = network_subscription
        self.optimized_acknowledge = optimized_acknowledge
        self.no_range_acks = no_range_acks
        self.network_consumer_path = network_consumer_path

    def type_id(self) -> int:
        return 5

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.consumer_id = as_consumer_id(r.read_cached())
        self.browser = r.read_boolean()
        self.destination = as_active_mq_destination(r.read_cached())
        self.prefetch_size = r.read_int()
        self.maximum_pending_message_limit = r.read_int()
        self.dispatch_async = r.read_boolean()
        self.selector = r.read_string()
        if r.version >= 10:
            self.client_id = r.read_string()
        self.subscription_name = r.read_string()
        self.no_local = r.read_boolean()
        self.exclusive = r.read_boolean()
        self.retroactive = r.read_boolean()
        self.priority = r.read_byte()
        self.broker_path = all_broker_id(r.read_array())
        self.additional_predicate = as_network_bridge_filter(r.read_nested())
        self.network_subscription = r.read_boolean()
        self.optimized_acknowledge = r.read_boolean()
        self.no_range_acks = r.read_boolean()
        if r.version >= 4:
            self.network_consumer_path = all_consumer_id(r.read_array())

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.consumer_id)
        w.write_boolean(self.browser)
        w.write_cached(self.destination)
        w.write_int(self.prefetch_size)
        w.write_int(self.maximum_pending_message_limit)
        w.write_boolean(self.dispatch_async)
        w.write_string(self.selector)
        if w.version >= 10:
            w.write_string(self.client_id)
        w.write_string(self.subscription_name)
        w.write_boolean(self.no_local)
        w.write_boolean(self.exclusive)
        w.write_boolean(self.retroactive)
        w.write_byte(self.priority)
        w.write_array(self.broker_path)
        w.write_nested(self.additional_predicate)
        w.write_boolean(self.network_subscription)
        w.write_boolean(self.optimized_acknowledge)
        w.write_boolean(self.no_range_acks)
        if w.version >= 4:
            w.write_array(self.network_consumer_path)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.consumer_info(self)


class ProducerInfo(BaseCommand):
    """Type 6."""

    def __init__(
        self,
        *,
        producer_id: ProducerId | None = None,
        destination: ActiveMQDestination | None = None,
        broker_path: list[BrokerId] | None = None,
        dispatch_async: bool = False,
        window_size: int = 0,
    ) -> None:
        super().__init__()
        self.producer_id = producer_id
        self.destination = destination
        self.broker_path = broker_path
        self.dispatch_async = dispatch_async
        self.window_size = window_size

    def type_id(self) -> int:
        return 6

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.producer_id = as_producer_id(r.read_cached())
        self.destination = as_active_mq_destination(r.read_cached())
        self.broker_path = all_broker_id(r.read_array())
        if r.version >= 2:
            self.dispatch_async = r.read_boolean()
        if r.version >= 3:
            self.window_size = r.read_int()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.producer_id)
        w.write_cached(self.destination)
        w.write_array(self.broker_path)
        if w.version >= 2:
            w.write_boolean(self.dispatch_async)
        if w.version >= 3:
            w.write_int(self.window_size)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.producer_info(self)


class TransactionInfo(BaseCommand):
    """Type 7."""

    def __init__(
        self,
        *,
        connection_id: ConnectionId | None = None,
        transaction_id: TransactionId | None = None,
        type: int = 0,
    ) -> None:
        super().__init__()
        self.connection_id = connection_id
        self.transaction_id = transaction_id
        self.type = type

    def type_id(self) -> int:
        return 7

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.connection_id = as_connection_id(r.read_cached())
        self.transaction_id = as_transaction_id(r.read_cached())
        self.type = r.read_byte()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.connection_id)
        w.write_cached(self.transaction_id)
        w.write_byte(self.type)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.transaction_info(self)


class DestinationInfo(BaseCommand):
    """Type 8."""

    def __init__(
        self,
        *,
        connection_id: ConnectionId | None = None,
        destination: ActiveMQDestination | None = None,
        operation_type: int = 0,
        timeout: int = 0,
        broker_path: list[BrokerId] | None = None,
    ) -> None:
        super().__init__()
        self.connection_id = connection_id
        self.destination = destination
        self.operation_type = operation_type
        self.timeout = timeout
        self.broker_path = broker_path

    def type_id(self) -> int:
        return 8

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.connection_id = as_connection_id(r.read_cached())
        self.destination = as_active_mq_destination(r.read_cached())
        self.operation_type = r.read_byte()
        self.timeout = r.read_long()
        self.broker_path = all_broker_id(r.read_array())

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.connection_id)
        w.write_cached(self.destination)
        w.write_byte(self.operation_type)
        w.write_long(self.timeout)
        w.write_array(self.broker_path)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.destination_info(self)


class RemoveSubscriptionInfo(BaseCommand):
    """Type 9."""

    def __init__(
        self,
        *,
        connection_id: ConnectionId | None = None,
        subscription_name: str | None = None,
        client_id: str | None = None,
    ) -> None:
        super().__init__()
        self.connection_id = connection_id
        self.subscription_name = subscription_name
        self.client_id = client_id

    def type_id(self) -> int:
        return 9

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.connection_id = as_connection_id(r.read_cached())
        self.subscription_name = r.read_string()
        self.client_id = r.read_string()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.connection_id)
        w.write_string(self.subscription_name)
        w.write_string(self.client_id)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.remove_subscription_info(self)


class KeepAliveInfo(BaseCommand):
    """Type 10."""

    def type_id(self) -> int:
        return 10

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.keep_alive_info(self)


class ShutdownInfo(BaseCommand):
    """Type 11."""

    def type_id(self) -> int:
        return 11

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.shutdown_info(self)


class RemoveInfo(BaseCommand):
    """Type 12."""

    def __init__(self, *, object_id: DataStructure | None = None, last_delivered_sequence_id: int = 0) -> None:
        super().__init__()
        self.object_id = object_id
        self.last_delivered_sequence_id = last_delivered_sequence_id

    def type_id(self) -> int:
        return 12

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.object_id = r.read_cached()
        if r.version >= 5:
            self.last_delivered_sequence_id = r.read_long()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.object_id)
        if w.version >= 5:
            w.write_long(self.last_delivered_sequence_id)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.remove_info(self)


class ControlCommand(BaseCommand):
    """Type 14."""

    def __init__(self, command: str | None = None) -> None:
        super().__init__()
        self.command = command

    def type_id(self) -> int:
        return 14

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.command = r.read_string()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_string(self.command)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.control_command(self)


class FlushCommand(BaseCommand):
    """Type 15."""

    def type_id(self) -> int:
        return 15


class ConnectionError(BaseCommand):
    """Type 16."""

    def __init__(self, *, exception: Throwable | None = None, connection_id: ConnectionId | None = None) -> None:
        super().__init__()
        self.exception = exception
        self.connection_id = connection_id

    def type_id(self) -> int:
        return 16

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.exception = r.read_throwable()
        self.connection_id = as_connection_id(r.read_nested())

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_throwable(self.exception)
        w.write_nested(self.connection_id)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.connection_error(self)


class ConsumerControl(BaseCommand):
    """Type 17."""

    def __init__(
        self,
        *,
        destination: ActiveMQDestination | None = None,
        close: bool = False,
        consumer_id: ConsumerId | None = None,
        prefetch: int = 0,
        flush: bool = False,
        start: bool = False,
        stop: bool = False,
    ) -> None:
        super().__init__()
        self.destination = destination
        self.close = close
        self.consumer_id = consumer_id
        self.prefetch = prefetch
        self.flush = flush
        self.start = start
        self.stop = stop

    def type_id(self) -> int:
        return 17

    def read(self, r: FieldReader) -> None:
        super().read(r)
        if r.version >= 6:
            self.destination = as_active_mq_destination(r.read_nested())
        self.close = r.read_boolean()
        self.consumer_id = as_consumer_id(r.read_nested())
        self.prefetch = r.read_int()
        if r.version >= 2:
            self.flush = r.read_boolean()
            self.start = r.read_boolean()
            self.stop = r.read_boolean()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        if w.version >= 6:
            w.write_nested(self.destination)
        w.write_boolean(self.close)
        w.write_nested(self.consumer_id)
        w.write_int(self.prefetch)
        if w.version >= 2:
            w.write_boolean(self.flush)
            w.write_boolean(self.start)
            w.write_boolean(self.stop)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.consumer_control(self)


class ConnectionControl(BaseCommand):
    """Type 18."""

    def __init__(
        self,
        *,
        close: bool = False,
        exit: bool = False,
        fault_tolerant: bool = False,
        resume: bool = False,
        suspend: bool = False,
        connected_brokers: str | None = None,
        reconnect_to: str | None = None,
        rebalance_connection: bool = False,
        token: bytes | None = None,
    ) -> None:
        super().__init__()
        self.close = close
        self.exit = exit
        self.fault_tolerant = fault_tolerant
        self.resume = resume
        self.suspend = suspend
        self.connected_brokers = connected_brokers
        self.reconnect_to = reconnect_to
        self.rebalance_connection = rebalance_connection
        self.token = token

    def type_id(self) -> int:
        return 18

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.close = r.read_boolean()
        self.exit = r.read_boolean()
        self.fault_tolerant = r.read_boolean()
        self.resume = r.read_boolean()
        self.suspend = r.read_boolean()
        if r.version >= 6:
            self.connected_brokers = r.read_string()
            self.reconnect_to = r.read_string()
            self.rebalance_connection = r.read_boolean()
        if r.version >= 8:
            self.token = r.read_octet_array()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_boolean(self.close)
        w.write_boolean(self.exit)
        w.write_boolean(self.fault_tolerant)
        w.write_boolean(self.resume)
        w.write_boolean(self.suspend)
        if w.version >= 6:
            w.write_string(self.connected_brokers)
            w.write_string(self.reconnect_to)
            w.write_boolean(self.rebalance_connection)
        if w.version >= 8:
            w.write_octet_array(self.token)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.connection_control(self)


class ProducerAck(BaseCommand):
    """Type 19, since version 3."""

    def __init__(self, *, producer_id: ProducerId | None = None, size: int = 0) -> None:
        super().__init__()
        self.producer_id = producer_id
        self.size = size

    def type_id(self) -> int:
        return 19

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.producer_id = as_producer_id(r.read_nested())
        self.size = r.read_int()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_nested(self.producer_id)
        w.write_int(self.size)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.producer_ack(self)


class MessagePull(BaseCommand):
    """Type 20, since version 2."""

    def __init__(
        self,
        *,
        consumer_id: ConsumerId | None = None,
        destination: ActiveMQDestination | None = None,
        timeout: int = 0,
        correlation_id: str | None = None,
        message_id: MessageId | None = None,
    ) -> None:
        super().__init__()
        self.consumer_id = consumer_id
        self.destination = destination
        self.timeout = timeout
        self.correlation_id = correlation_id
        self.message_id = message_id

    def type_id(self) -> int:
        return 20

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.consumer_id = as_consumer_id(r.read_cached())
        self.destination = as_active_mq_destination(r.read_cached())
        self.timeout = r.read_long()
        if r.version >= 3:
            self.correlation_id = r.read_string()
            self.message_id = as_message_id(r.read_nested())

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.consumer_id)
        w.write_cached(self.destination)
        w.write_long(self.timeout)
        if w.version >= 3:
            w.write_string(self.correlation_id)
            w.write_nested(self.message_id)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.message_pull(self)


class MessageDispatch(BaseCommand):
    """Type 21."""

    def __init__(
        self,
        *,
        consumer_id: ConsumerId | None = None,
        destination: ActiveMQDestination | None = None,
        message: Message | None = None,
        redelivery_counter: int = 0,
    ) -> None:
        super().__init__()
        self.consumer_id = consumer_id
        self.destination = destination
        self.message = message
        self.redelivery_counter = redelivery_counter

    def type_id(self) -> int:
        return 21

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.consumer_id = as_consumer_id(r.read_cached())
        self.destination = as_active_mq_destination(r.read_cached())
        self.message = as_message(r.read_nested())
        self.redelivery_counter = r.read_int()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.consumer_id)
        w.write_cached(self.destination)
        w.write_nested(self.message)
        w.write_int(self.redelivery_counter)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.message_dispatch(self)


class MessageAck(BaseCommand):
    """Type 22."""

    def __init__(
        self,
        *,
        destination: ActiveMQDestination | None = None,
        transaction_id: TransactionId | None = None,
        consumer_id: ConsumerId | None = None,
        ack_type: int = 0,
        first_message_id: MessageId | None = None,
        last_message_id: MessageId | None = None,
        message_count: int = 0,
        poison_cause: Throwable | None = None,
    ) -> None:
        super().__init__()
        self.destination = destination
        self.transaction_id = transaction_id
        self.consumer_id = consumer_id
        self.ack_type = ack_type
        self.first_message_id = first_message_id
        self.last_message_id = last_message_id
        self.message_count = message_count
        self.poison_cause = poison_cause

    def type_id(self) -> int:
        return 22

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.destination = as_active_mq_destination(r.read_cached())
        self.transaction_id = as_transaction_id(r.read_cached())
        self.consumer_id = as_consumer_id(r.read_cached())
        self.ack_type = r.read_byte()
        self.first_message_id = as_message_id(r.read_nested())
        self.last_message_id = as_message_id(r.read_nested())
        self.message_count = r.read_int()
        if r.version >= 7:
            self.poison_cause = r.read_throwable()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.destination)
        w.write_cached(self.transaction_id)
        w.write_cached(self.consumer_id)
        w.write_byte(self.ack_type)
        w.write_nested(self.first_message_id)
        w.write_nested(self.last_message_id)
        w.write_int(self.message_count)
        if w.version >= 7:
            w.write_throwable(self.poison_cause)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.message_ack(self)


class Message(BaseCommand):
    """Abstract."""

    def __init__(self) -> None:
        super().__init__()
        self.producer_id: ProducerId | None = None
        self.destination: ActiveMQDestination | None = None
        self.transaction_id: TransactionId | None = None
        self.original_destination: ActiveMQDestination | None = None
        self.message_id: MessageId | None = None
        self.original_transaction_id: TransactionId | None = None
        self.group_id: str | None = None
        self.group_sequence: int = 0
        self.correlation_id: str | None = None
        self.persistent: bool = False
        self.expiration: int = 0
        self.priority: int = 0
        self.reply_to: ActiveMQDestination | None = None
        self.timestamp: int = 0
        self.type: str | None = None
        self.content: bytes | None = None
        self.marshalled_properties: bytes | None = None
        self.data_structure: DataStructure | None = None
        self.target_consumer_id: ConsumerId | None = None
        self.compressed: bool = False
        self.redelivery_counter: int = 0
        self.broker_path: list[BrokerId] | None = None
        self.arrival: int = 0
        self.user_id: str | None = None
        self.received_by_df_bridge: bool = False
        self.droppable: bool = False
        self.cluster: list[BrokerId] | None = None
        self.broker_in_time: int = 0
        self.broker_out_time: int = 0
        self.jmsx_group_first_for_consumer: bool = False

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.producer_id = as_producer_id(r.read_cached())
        self.destination = as_active_mq_destination(r.read_cached())
        self.transaction_id = as_transaction_id(r.read_cached())
        self.original_destination = as_active_mq_destination(r.read_cached())
        self.message_id = as_message_id(r.read_nested())
        self.original_transaction_id = as_transaction_id(r.read_cached())
        self.group_id = r.read_string()
        self.group_sequence = r.read_int()
        self.correlation_id = r.read_string()
        self.persistent = r.read_boolean()
        self.expiration = r.read_long()
        self.priority = r.read_byte()
        self.reply_to = as_active_mq_destination(r.read_nested())
        self.timestamp = r.read_long()
        self.type = r.read_string()
        self.content = r.read_octet_array()
        self.marshalled_properties = r.read_octet_array()
        self.data_structure = r.read_nested()
        self.target_consumer_id = as_consumer_id(r.read_cached())
        self.compressed = r.read_boolean()
        self.redelivery_counter = r.read_int()
        self.broker_path = all_broker_id(r.read_array())
        self.arrival = r.read_long()
        self.user_id = r.read_string()
        self.received_by_df_bridge = r.read_boolean()
        if r.version >= 2:
            self.droppable = r.read_boolean()
        if r.version >= 3:
            self.cluster = all_broker_id(r.read_array())
            self.broker_in_time = r.read_long()
            self.broker_out_time = r.read_long()
        if r.version >= 10:
            self.jmsx_group_first_for_consumer = r.read_boolean()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.producer_id)
        w.write_cached(self.destination)
        w.write_cached(self.transaction_id)
        w.write_cached(self.original_destination)
        w.write_nested(self.message_id)
        w.write_cached(self.original_transaction_id)
        w.write_string(self.group_id)
        w.write_int(self.group_sequence)
        w.write_string(self.correlation_id)
        w.write_boolean(self.persistent)
        w.write_long(self.expiration)
        w.write_byte(self.priority)
        w.write_nested(self.reply_to)
        w.write_long(self.timestamp)
        w.write_string(self.type)
        w.write_octet_array(self.content)
        w.write_octet_array(self.marshalled_properties)
        w.write_nested(self.data_structure)
        w.write_cached(self.target_consumer_id)
        w.write_boolean(self.compressed)
        w.write_int(self.redelivery_counter)
        w.write_array(self.broker_path)
        w.write_long(self.arrival)
        w.write_string(self.user_id)
        w.write_boolean(self.received_by_df_bridge)
        if w.version >= 2:
            w.write_boolean(self.droppable)
        if w.version >= 3:
            w.write_array(self.cluster)
            w.write_long(self.broker_in_time)
            w.write_long(self.broker_out_time)
        if w.version >= 10:
            w.write_boolean(self.jmsx_group_first_for_consumer)


class ActiveMQMessage(Message):
    """Type 23."""

    def type_id(self) -> int:
        return 23


class ActiveMQBytesMessage(ActiveMQMessage):
    """Type 24."""

    def type_id(self) -> int:
        return 24


class ActiveMQMapMessage(ActiveMQMessage):
    """Type 25."""

    def type_id(self) -> int:
        return 25


class ActiveMQObjectMessage(ActiveMQMessage):
    """Type 26."""

    def type_id(self) -> int:
        return 26


class ActiveMQStreamMessage(ActiveMQMessage):
    """Type 27."""

    def type_id(self) -> int:
        return 27


class ActiveMQTextMessage(ActiveMQMessage):
    """Type 28."""

    def type_id(self) -> int:
        return 28


class ActiveMQBlobMessage(ActiveMQMessage):
    """Type 29, since version 3."""

    def __init__(self) -> None:
        super().__init__()
        self.remote_blob_url: str | None = None
        self.mime_type: str | None = None
        self.deleted_by_broker: bool = False

    def type_id(self) -> int:
        return 29

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.remote_blob_url = r.read_string()
        self.mime_type = r.read_string()
        self.deleted_by_broker = r.read_boolean()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_string(self.remote_blob_url)
        w.write_string(self.mime_type)
        w.write_boolean(self.deleted_by_broker)


class Response(BaseCommand):
    """Type 30."""

    def __init__(self, correlation_id: int = 0) -> None:
        super().__init__()
        self.correlation_id = correlation_id

    def type_id(self) -> int:
        return 30

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.correlation_id = r.read_int()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_int(self.correlation_id)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.response(self)


class ExceptionResponse(Response):
    """Type 31."""

    def __init__(self, *, correlation_id: int = 0, exception: Throwable | None = None) -> None:
        super().__init__(correlation_id=correlation_id)
        self.exception = exception

    def type_id(self) -> int:
        return 31

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.exception = r.read_throwable()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_throwable(self.exception)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.exception_response(self)


class DataResponse(Response):
    """Type 32."""

    def __init__(self, *, correlation_id: int = 0, data: DataStructure | None = None) -> None:
        super().__init__(correlation_id=correlation_id)
        self.data = data

    def type_id(self) -> int:
        return 32

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.data = r.read_nested()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_nested(self.data)


class DataArrayResponse(Response):
    """Type 33."""

    def __init__(self, *, correlation_id: int = 0, data: list[DataStructure] | None = None) -> None:
        super().__init__(correlation_id=correlation_id)
        self.data = data

    def type_id(self) -> int:
        return 33

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.data = r.read_array()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_array(self.data)


class IntegerResponse(Response):
    """Type 34."""

    def __init__(self, *, correlation_id: int = 0, result: int = 0) -> None:
        super().__init__(correlation_id=correlation_id)
        self.result = result

    def type_id(self) -> int:
        return 34

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.result = r.read_int()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_int(self.result)


class DiscoveryEvent(DataStructure):
    """Type 40."""

    def __init__(self, *, service_name: str | None = None, broker_name: str | None = None) -> None:
        self.service_name = service_name
        self.broker_name = broker_name

    def type_id(self) -> int:
        return 40

    def read(self, r: FieldReader) -> None:
        self.service_name = r.read_string()
        self.broker_name = r.read_string()

    def write(self, w: FieldWriter) -> None:
        w.write_string(self.service_name)
        w.write_string(self.broker_name)


class JournalTopicAck(DataStructure):
    """Type 50."""

    def __init__(
        self,
        *,
        destination: ActiveMQDestination | None = None,
        message_id: MessageId | None = None,
        message_sequence_id: int = 0,
        subscription_name: str | None = None,
        client_id: str | None = None,
        transaction_id: TransactionId | None = None,
    ) -> None:
        self.destination = destination
        self.message_id = message_id
        self.message_sequence_id = message_sequence_id
        self.subscription_name = subscription_name
        self.client_id = client_id
        self.transaction_id = transaction_id

    def type_id(self) -> int:
        return 50

    def read(self, r: FieldReader) -> None:
        self.destination = as_active_mq_destination(r.read_nested())
        self.message_id = as_message_id(r.read_nested())
        self.message_sequence_id = r.read_long()
        self.subscription_name = r.read_string()
        self.client_id = r.read_string()
        self.transaction_id = as_transaction_id(r.read_nested())

    def write(self, w: FieldWriter) -> None:
        w.write_nested(self.destination)
        w.write_nested(self.message_id)
        w.write_long(self.message_sequence_id)
        w.write_string(self.subscription_name)
        w.write_string(self.client_id)
        w.write_nested(self.transaction_id)


class JournalQueueAck(DataStructure):
    """Type 52."""

    def __init__(
        self,
        *,
        destination: ActiveMQDestination | None = None,
        message_ack: MessageAck | None = None,
    ) -> None:
        self.destination = destination
        self.message_ack = message_ack

    def type_id(self) -> int:
        return 52

    def read(self, r: FieldReader) -> None:
        self.destination = as_active_mq_destination(r.read_nested())
        self.message_ack = as_message_ack(r.read_nested())

    def write(self, w: FieldWriter) -> None:
        w.write_nested(self.destination)
        w.write_nested(self.message_ack)


class JournalTrace(DataStructure):
    """Type 53."""

    def __init__(self, message: str | None = None) -> None:
        self.message = message

    def type_id(self) -> int:
        return 53

    def read(self, r: FieldReader) -> None:
        self.message = r.read_string()

    def write(self, w: FieldWriter) -> None:
        w.write_string(self.message)


class JournalTransaction(DataStructure):
    """Type 54."""

    def __init__(
        self,
        *,
        transaction_id: TransactionId | None = None,
        type: int = 0,
        was_prepared: bool = False,
    ) -> None:
        self.transaction_id = transaction_id
        self.type = type
        self.was_prepared = was_prepared

    def type_id(self) -> int:
        return 54

    def read(self, r: FieldReader) -> None:
        self.transaction_id = as_transaction_id(r.read_nested())
        self.type = r.read_byte()
        self.was_prepared = r.read_boolean()

    def write(self, w: FieldWriter) -> None:
        w.write_nested(self.transaction_id)
        w.write_byte(self.type)
        w.write_boolean(self.was_prepared)


class SubscriptionInfo(DataStructure):
    """Type 55."""

    def __init__(
        self,
        *,
        client_id: str | None = None,
        destination: ActiveMQDestination | None = None,
        selector: str | None = None,
        subscription_name: str | None = None,
        subscribed_destination: ActiveMQDestination | None = None,
        no_local: bool = False,
    ) -> None:
        self.client_id = client_id
        self.destination = destination
        self.selector = selector
        self.subscription_name = subscription_name
        self.subscribed_destination = subscribed_destination
        self.no_local = no_local

    def type_id(self) -> int:
        return 55

    def read(self, r: FieldReader) -> None:
        self.client_id = r.read_string()
        self.destination = as_active_mq_destination(r.read_cached())
        self.selector = r.read_string()
        self.subscription_name = r.read_string()
        if r.version >= 3:
            self.subscribed_destination = as_active_mq_destination(r.read_nested())
        if r.version >= 11:
            self.no_local = r.read_boolean()

    def write(self, w: FieldWriter) -> None:
        w.write_string(self.client_id)
        w.write_cached(self.destination)
        w.write_string(self.selector)
        w.write_string(self.subscription_name)
        if w.version >= 3:
            w.write_nested(self.subscribed_destination)
        if w.version >= 11:
            w.write_boolean(self.no_local)


class PartialCommand(DataStructure):
    """Type 60."""

    def __init__(self, *, command_id: int = 0, data: bytes | None = None) -> None:
        self.command_id = command_id
        self.data = data

    def type_id(self) -> int:
        return 60

    def read(self, r: FieldReader) -> None:
        self.command_id = r.read_int()
        self.data = r.read_octet_array()

    def write(self, w: FieldWriter) -> None:
        w.write_int(self.command_id)
        w.write_octet_array(self.data)


class LastPartialCommand(PartialCommand):
    """Type 61."""

    def __init__(self, *, command_id: int = 0, data: bytes | None = None) -> None:
        super().__init__(command_id=command_id, data=data)

    def type_id(self) -> int:
        return 61


class ReplayCommand(BaseCommand):
    """Type 65."""

    def __init__(self, *, first_nak_number: int = 0, last_nak_number: int = 0) -> None:
        super().__init__()
        self.first_nak_number = first_nak_number
        self.last_nak_number = last_nak_number

    def type_id(self) -> int:
        return 65

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.first_nak_number = r.read_int()
        self.last_nak_number = r.read_int()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_int(self.first_nak_number)
        w.write_int(self.last_nak_number)


class MessageDispatchNotification(BaseCommand):
    """Type 90."""

    def __init__(
        self,
        *,
        consumer_id: ConsumerId | None = None,
        destination: ActiveMQDestination | None = None,
        delivery_sequence_id: int = 0,
        message_id: MessageId | None = None,
    ) -> None:
        super().__init__()
        self.consumer_id = consumer_id
        self.destination = destination
        self.delivery_sequence_id = delivery_sequence_id
        self.message_id = message_id

    def type_id(self) -> int:
        return 90

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.consumer_id = as_consumer_id(r.read_cached())
        self.destination = as_active_mq_destination(r.read_cached())
        self.delivery_sequence_id = r.read_long()
        self.message_id = as_message_id(r.read_nested())

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_cached(self.consumer_id)
        w.write_cached(self.destination)
        w.write_long(self.delivery_sequence_id)
        w.write_nested(self.message_id)


class NetworkBridgeFilter(DataStructure):
    """Type 91."""

    def __init__(
        self,
        *,
        network_ttl: int = 0,
        network_broker_id: BrokerId | None = None,
        message_ttl: int = 0,
        consumer_ttl: int = 0,
    ) -> None:
        self.network_ttl = network_ttl
        self.network_broker_id = network_broker_id
        self.message_ttl = message_ttl
        self.consumer_ttl = consumer_ttl

    def type_id(self) -> int:
        return 91

    def read(self, r: FieldReader) -> None:
        if r.version <= 9:
            self.network_ttl = r.read_int()
        self.network_broker_id = as_broker_id(r.read_cached())
        if r.version >= 10:
            self.message_ttl = r.read_int()
            self.consumer_ttl = r.read_int()

    def write(self, w: FieldWriter) -> None:
        if w.version <= 9:
            w.write_int(self.network_ttl)
        w.write_cached(self.network_broker_id)
        if w.version >= 10:
            w.write_int(self.message_ttl)
            w.write_int(self.consumer_ttl)


class BrokerSubscriptionInfo(BaseCommand):
    """Type 92, since version 12."""

    def __init__(
        self,
        *,
        broker_id: BrokerId | None = None,
        broker_name: str | None = None,
        subscription_infos: list[ConsumerInfo] | None = None,
    ) -> None:
        super().__init__()
        self.broker_id = broker_id
        self.broker_name = broker_name
        self.subscription_infos = subscription_infos

    def type_id(self) -> int:
        return 92

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.broker_id = as_broker_id(r.read_nested())
        self.broker_name = r.read_string()
        self.subscription_infos = all_consumer_info(r.read_array())

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_nested(self.broker_id)
        w.write_string(self.broker_name)
        w.write_array(self.subscription_infos)

    def visit(self, visitor: CommandVisitor) -> None:
        visitor.broker_subscription_info(self)


class ActiveMQDestination(DataStructure):
    """Abstract."""

    def __init__(self, physical_name: str | None = None) -> None:
        self.physical_name = physical_name

    def read(self, r: FieldReader) -> None:
        self.physical_name = r.read_string()

    def write(self, w: FieldWriter) -> None:
        w.write_string(self.physical_name)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ActiveMQDestination)
            and self.physical_name == other.physical_name
            and self.type_id() == other.type_id()
        )

    def __hash__(self) -> int:
        return hash((self.physical_name, self.type_id()))


class ActiveMQQueue(ActiveMQDestination):
    """Type 100."""

    def __init__(self, physical_name: str | None = None) -> None:
        super().__init__(physical_name=physical_name)

    def type_id(self) -> int:
        return 100


class ActiveMQTopic(ActiveMQDestination):
    """Type 101."""

    def __init__(self, physical_name: str | None = None) -> None:
        super().__init__(physical_name=physical_name)

    def type_id(self) -> int:
        return 101


class ActiveMQTempDestination(ActiveMQDestination):
    """Abstract."""

    def __init__(self, physical_name: str | None = None) -> None:
        super().__init__(physical_name=physical_name)


class ActiveMQTempQueue(ActiveMQTempDestination):
    """Type 102."""

    def __init__(self, physical_name: str | None = None) -> None:
        super().__init__(physical_name=physical_name)

    def type_id(self) -> int:
        return 102


class ActiveMQTempTopic(ActiveMQTempDestination):
    """Type 103."""

    def __init__(self, physical_name: str | None = None) -> None:
        super().__init__(physical_name=physical_name)

    def type_id(self) -> int:
        return 103


class MessageId(DataStructure):
    """Type 110."""

    def __init__(
        self,
        *,
        text_view: str | None = None,
        producer_id: ProducerId | None = None,
        producer_sequence_id: int = 0,
        broker_sequence_id: int = 0,
    ) -> None:
        self.text_view = text_view
        self.producer_id = producer_id
        self.producer_sequence_id = producer_sequence_id
        self.broker_sequence_id = broker_sequence_id

    def type_id(self) -> int:
        return 110

    def read(self, r: FieldReader) -> None:
        if r.version >= 10:
            self.text_view = r.read_string()
        self.producer_id = as_producer_id(r.read_cached())
        self.producer_sequence_id = r.read_long()
        self.broker_sequence_id = r.read_long()

    def write(self, w: FieldWriter) -> None:
        if w.version >= 10:
            w.write_string(self.text_view)
        w.write_cached(self.producer_id)
        w.write_long(self.producer_sequence_id)
        w.write_long(self.broker_sequence_id)


class TransactionId(DataStructure):
    """Abstract."""

    def read(self, r: FieldReader) -> None:
        pass

    def write(self, w: FieldWriter) -> None:
        pass


class LocalTransactionId(TransactionId):
    """Type 111."""

    def __init__(self, *, value: int = 0, connection_id: ConnectionId | None = None) -> None:
        super().__init__()
        self.value = value
        self.connection_id = connection_id

    def type_id(self) -> int:
        return 111

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.value = r.read_long()
        self.connection_id = as_connection_id(r.read_cached())

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_long(self.value)
        w.write_cached(self.connection_id)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LocalTransactionId)
            and self.connection_id == other.connection_id
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((self.value, self.connection_id))


class XATransactionId(TransactionId):
    """Type 112."""

    def __init__(
        self,
        *,
        format_id: int = 0,
        global_transaction_id: bytes | None = None,
        branch_qualifier: bytes | None = None,
    ) -> None:
        super().__init__()
        self.format_id = format_id
        self.global_transaction_id = global_transaction_id
        self.branch_qualifier = branch_qualifier

    def type_id(self) -> int:
        return 112

    def read(self, r: FieldReader) -> None:
        super().read(r)
        self.format_id = r.read_int()
        self.global_transaction_id = r.read_octet_array()
        self.branch_qualifier = r.read_octet_array()

    def write(self, w: FieldWriter) -> None:
        super().write(w)
        w.write_int(self.format_id)
        w.write_octet_array(self.global_transaction_id)
        w.write_octet_array(self.branch_qualifier)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, XATransactionId)
            and self.branch_qualifier == other.branch_qualifier
            and self.global_transaction_id == other.global_transaction_id
            and self.format_id == other.format_id
        )

    def __hash__(self) -> int:
        return hash((self.format_id, self.global_transaction_id, self.branch_qualifier))


class ConnectionId(DataStructure):
    """Type 120."""

    def __init__(self, value: str | None = None) -> None:
        self.value = value

    def type_id(self) -> int:
        return 120

    def read(self, r: FieldReader) -> None:
        self.value = r.read_string()

    def write(self, w: FieldWriter) -> None:
        w.write_string(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConnectionId) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class SessionId(DataStructure):
    """Type 121."""

    def __init__(self, *, connection_id: str | None = None, value: int = 0) -> None:
        self.connection_id = connection_id
        self.value = value

    def type_id(self) -> int:
        return 121

    def read(self, r: FieldReader) -> None:
        self.connection_id = r.read_string()
        self.value = r.read_long()

    def write(self, w: FieldWriter) -> None:
        w.write_string(self.connection_id)
        w.write_long(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionId) and self.value == other.value and self.connection_id == other.connection_id

    def __hash__(self) -> int:
        return hash((self.connection_id, self.value))


class ConsumerId(DataStructure):
    """Type 122."""

    def __init__(self, *, connection_id: str | None = None, session_id: int = 0, value: int = 0) -> None:
        self.connection_id = connection_id
        self.session_id = session_id
        self.value = value

    def type_id(self) -> int:
        return 122

    def read(self, r: FieldReader) -> None:
        self.connection_id = r.read_string()
        self.session_id = r.read_long()
        self.value = r.read_long()

    def write(self, w: FieldWriter) -> None:
        w.write_string(self.connection_id)
        w.write_long(self.session_id)
        w.write_long(self.value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ConsumerId)
            and self.value == other.value
            and self.session_id == other.session_id
            and self.connection_id == other.connection_id
        )

    def __hash__(self) -> int:
        return hash((self.connection_id, self.session_id, self.value))


class ProducerId(DataStructure):
    """Type 123."""

    def __init__(self, *, connection_id: str | None = None, value: int = 0, session_id: int = 0) -> None:
        self.connection_id = connection_id
        self.value = value
        self.session_id = session_id

    def type_id(self) -> int:
        return 123

    def read(self, r: FieldReader) -> None:
        self.connection_id = r.read_string()
        self.value = r.read_long()
        self.session_id = r.read_long()

    def write(self, w: FieldWriter) -> None:
        w.write_string(self.connection_id)
        w.write_long(self.value)
        w.write_long(self.session_id)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ProducerId)
            and self.session_id == other.session_id
            and self.value == other.value
            and self.connection_id == other.connection_id
        )

    def __hash__(self) -> int:
        return hash((self.connection_id, self.value, self.session_id))


class BrokerId(DataStructure):
    """Type 124."""

    def __init__(self, value: str | None = None) -> None:
        self.value = value

    def type_id(self) -> int:
        return 124

    def read(self, r: FieldReader) -> None:
        self.value = r.read_string()

    def write(self, w: FieldWriter) -> None:
        w.write_string(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BrokerId) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


@mypyc_attr(allow_interpreted_subclasses=True)
class CommandVisitor:
    """What a connection does with each command. A method that is not overridden leaves it to `other`."""

    def other(self, command: Command) -> None:
        """A command that has no place here; the default refuses it."""
        name = TYPE_NAMES.get(command.type_id(), str(command.type_id()))
        raise OpenWireProtocolError(f"the command {name} is not expected here")

    def message(self, command: MessageFrame) -> None:
        """A message was sent."""
        self.other(command)

    def wire_format_info(self, command: WireFormatInfo) -> None:
        self.other(command)

    def broker_info(self, command: BrokerInfo) -> None:
        self.other(command)

    def connection_info(self, command: ConnectionInfo) -> None:
        self.other(command)

    def session_info(self, command: SessionInfo) -> None:
        self.other(command)

    def consumer_info(self, command: ConsumerInfo) -> None:
        self.other(command)

    def producer_info(self, command: ProducerInfo) -> None:
        self.other(command)

    def transaction_info(self, command: TransactionInfo) -> None:
        self.other(command)

    def destination_info(self, command: DestinationInfo) -> None:
        self.other(command)

    def remove_subscription_info(self, command: RemoveSubscriptionInfo) -> None:
        self.other(command)

    def keep_alive_info(self, command: KeepAliveInfo) -> None:
        self.other(command)

    def shutdown_info(self, command: ShutdownInfo) -> None:
        self.other(command)

    def remove_info(self, command: RemoveInfo) -> None:
        self.other(command)

    def control_command(self, command: ControlCommand) -> None:
        self.other(command)

    def connection_error(self, command: ConnectionError) -> None:
        self.other(command)

    def consumer_control(self, command: ConsumerControl) -> None:
        self.other(command)

    def connection_control(self, command: ConnectionControl) -> None:
        self.other(command)

    def producer_ack(self, command: ProducerAck) -> None:
        self.other(command)

    def message_pull(self, command: MessagePull) -> None:
        self.other(command)

    def message_dispatch(self, command: MessageDispatch) -> None:
        self.other(command)

    def message_ack(self, command: MessageAck) -> None:
        self.other(command)

    def response(self, command: Response) -> None:
        self.other(command)

    def exception_response(self, command: ExceptionResponse) -> None:
        self.other(command)

    def broker_subscription_info(self, command: BrokerSubscriptionInfo) -> None:
        self.other(command)


def as_active_mq_destination(value: DataStructure | None) -> ActiveMQDestination | None:
    """Refuses any other structure where the field table declares ActiveMQDestination."""
    if value is None or isinstance(value, ActiveMQDestination):
        return value
    raise wrong_structure("ActiveMQDestination", value)


def as_broker_id(value: DataStructure | None) -> BrokerId | None:
    """Refuses any other structure where the field table declares BrokerId."""
    if value is None or isinstance(value, BrokerId):
        return value
    raise wrong_structure("BrokerId", value)


def as_connection_id(value: DataStructure | None) -> ConnectionId | None:
    """Refuses any other structure where the field table declares ConnectionId."""
    if value is None or isinstance(value, ConnectionId):
        return value
    raise wrong_structure("ConnectionId", value)


def as_consumer_id(value: DataStructure | None) -> ConsumerId | None:
    """Refuses any other structure where the field table declares ConsumerId."""
    if value is None or isinstance(value, ConsumerId):
        return value
    raise wrong_structure("ConsumerId", value)


def as_message(value: DataStructure | None) -> Message | None:
    """Refuses any other structure where the field table declares Message."""
    if value is None or isinstance(value, Message):
        return value
    raise wrong_structure("Message", value)


def as_message_ack(value: DataStructure | None) -> MessageAck | None:
    """Refuses any other structure where the field table declares MessageAck."""
    if value is None or isinstance(value, MessageAck):
        return value
    raise wrong_structure("MessageAck", value)


def as_message_id(value: DataStructure | None) -> MessageId | None:
    """Refuses any other structure where the field table declares MessageId."""
    if value is None or isinstance(value, MessageId):
        return value
    raise wrong_structure("MessageId", value)


def as_network_bridge_filter(value: DataStructure | None) -> NetworkBridgeFilter | None:
    """Refuses any other structure where the field table declares NetworkBridgeFilter."""
    if value is None or isinstance(value, NetworkBridgeFilter):
        return value
    raise wrong_structure("NetworkBridgeFilter", value)


def as_producer_id(value: DataStructure | None) -> ProducerId | None:
    """Refuses any other structure where the field table declares ProducerId."""
    if value is None or isinstance(value, ProducerId):
        return value
    raise wrong_structure("ProducerId", value)


def as_session_id(value: DataStructure | None) -> SessionId | None:
    """Refuses any other structure where the field table declares SessionId."""
    if value is None or isinstance(value, SessionId):
        return value
    raise wrong_structure("SessionId", value)


def as_transaction_id(value: DataStructure | None) -> TransactionId | None:
    """Refuses any other structure where the field table declares TransactionId."""
    if value is None or isinstance(value, TransactionId):
        return value
    raise wrong_structure("TransactionId", value)


def all_broker_id(values: list[DataStructure] | None) -> list[BrokerId] | None:
    """Refuses any other structure where the field table declares BrokerId."""
    if values is None:
        return None
    checked: list[BrokerId] = []
    for value in values:
        if not isinstance(value, BrokerId):
            raise wrong_structure("BrokerId", value)
        checked.append(value)
    return checked


def all_broker_info(values: list[DataStructure] | None) -> list[BrokerInfo] | None:
    """Refuses any other structure where the field table declares BrokerInfo."""
    if values is None:
        return None
    checked: list[BrokerInfo] = []
    for value in values:
        if not isinstance(value, BrokerInfo):
            raise wrong_structure("BrokerInfo", value)
        checked.append(value)
    return checked


def all_consumer_id(values: list[DataStructure] | None) -> list[ConsumerId] | None:
    """Refuses any other structure where the field table declares ConsumerId."""
    if values is None:
        return None
    checked: list[ConsumerId] = []
    for value in values:
        if not isinstance(value, ConsumerId):
            raise wrong_structure("ConsumerId", value)
        checked.append(value)
    return checked


def all_consumer_info(values: list[DataStructure] | None) -> list[ConsumerInfo] | None:
    """Refuses any other structure where the field table declares ConsumerInfo."""
    if values is None:
        return None
    checked: list[ConsumerInfo] = []
    for value in values:
        if not isinstance(value, ConsumerInfo):
            raise wrong_structure("ConsumerInfo", value)
        checked.append(value)
    return checked


def wrong_structure(expected: str, value: DataStructure) -> OpenWireProtocolError:
    """The error for a structure where another is declared."""
    name = TYPE_NAMES.get(value.type_id(), "unknown")
    return OpenWireProtocolError(f"a structure of type {name} stands where {expected} is declared")


STRUCTURES: Final[dict[int, type[DataStructure]]] = {
    WIRE_FORMAT_INFO: WireFormatInfo,
    BROKER_INFO: BrokerInfo,
    CONNECTION_INFO: ConnectionInfo,
    SESSION_INFO: SessionInfo,
    PRODUCER_INFO: ProducerInfo,
    TRANSACTION_INFO: TransactionInfo,
    DESTINATION_INFO: DestinationInfo,
    REMOVE_SUBSCRIPTION_INFO: RemoveSubscriptionInfo,
    SHUTDOWN_INFO: ShutdownInfo,
    CONTROL_COMMAND: ControlCommand,
    FLUSH_COMMAND: FlushCommand,
    CONNECTION_ERROR: ConnectionError,
    CONSUMER_CONTROL: ConsumerControl,
    CONNECTION_CONTROL: ConnectionControl,
    MESSAGE_PULL: MessagePull,
    ACTIVE_MQ_OBJECT_MESSAGE: ActiveMQObjectMessage,
    ACTIVE_MQ_STREAM_MESSAGE: ActiveMQStreamMessage,
    ACTIVE_MQ_BLOB_MESSAGE: ActiveMQBlobMessage,
    EXCEPTION_RESPONSE: ExceptionResponse,
    DATA_RESPONSE: DataResponse,
    DATA_ARRAY_RESPONSE: DataArrayResponse,
    INTEGER_RESPONSE: IntegerResponse,
    DISCOVERY_EVENT: DiscoveryEvent,
    JOURNAL_TOPIC_ACK: JournalTopicAck,
    JOURNAL_QUEUE_ACK: JournalQueueAck,
    JOURNAL_TRACE: JournalTrace,
    JOURNAL_TRANSACTION: JournalTransaction,
    SUBSCRIPTION_INFO: SubscriptionInfo,
    PARTIAL_COMMAND: PartialCommand,
    LAST_PARTIAL_COMMAND: LastPartialCommand,
    REPLAY_COMMAND: ReplayCommand,
    MESSAGE_DISPATCH_NOTIFICATION: MessageDispatchNotification,
    NETWORK_BRIDGE_FILTER: NetworkBridgeFilter,
    BROKER_SUBSCRIPTION_INFO: BrokerSubscriptionInfo,
    ACTIVE_MQ_TEMP_QUEUE: ActiveMQTempQueue,
    ACTIVE_MQ_TEMP_TOPIC: ActiveMQTempTopic,
    XA_TRANSACTION_ID: XATransactionId,
    SESSION_ID: SessionId,
    BROKER_ID: BrokerId,
}

# Types that came after version 1.
SINCE: Final[dict[int, int]] = {
    PRODUCER_ACK: 3,
    MESSAGE_PULL: 2,
    ACTIVE_MQ_BLOB_MESSAGE: 3,
    BROKER_SUBSCRIPTION_INFO: 12,
}


def is_message(type_id: int) -> bool:
    """Whether the type is a message."""
    return 23 <= type_id <= 29


def is_marshall_aware(type_id: int) -> bool:
    """Whether a nested structure of this type has one more flag, always 0, in the tight encoding."""
    return 23 <= type_id <= 29 or type_id == 1


def new_structure(type_id: int) -> DataStructure:
    """An empty structure of the type."""
    if type_id == MESSAGE_ACK:
        return MessageAck()
    if type_id == MESSAGE_ID:
        return MessageId()
    if type_id == PRODUCER_ID:
        return ProducerId()
    if type_id == CONSUMER_ID:
        return ConsumerId()
    if type_id == ACTIVE_MQ_QUEUE:
        return ActiveMQQueue()
    if type_id == ACTIVE_MQ_TOPIC:
        return ActiveMQTopic()
    if type_id == ACTIVE_MQ_TEXT_MESSAGE:
        return ActiveMQTextMessage()
    if type_id == ACTIVE_MQ_BYTES_MESSAGE:
        return ActiveMQBytesMessage()
    if type_id == ACTIVE_MQ_MAP_MESSAGE:
        return ActiveMQMapMessage()
    if type_id == ACTIVE_MQ_MESSAGE:
        return ActiveMQMessage()
    if type_id == MESSAGE_DISPATCH:
        return MessageDispatch()
    if type_id == RESPONSE:
        return Response()
    if type_id == KEEP_ALIVE_INFO:
        return KeepAliveInfo()
    if type_id == REMOVE_INFO:
        return RemoveInfo()
    if type_id == LOCAL_TRANSACTION_ID:
        return LocalTransactionId()
    if type_id == CONNECTION_ID:
        return ConnectionId()
    if type_id == PRODUCER_ACK:
        return ProducerAck()
    if type_id == CONSUMER_INFO:
        return ConsumerInfo()
    made = STRUCTURES.get(type_id)
    if made is None:
        raise OpenWireProtocolError(f"there is no data structure of type {type_id}")
    return made()


def read_structure(type_id: int, r: FieldReader) -> DataStructure:
    """Take the fields of a structure whose type id was taken before."""
    structure = new_structure(type_id)
    if type_id in SINCE and SINCE[type_id] > r.version:
        name = TYPE_NAMES[type_id]
        raise OpenWireProtocolError(f"{name} does not exist in version {r.version} of the wire format")
    structure.read(r)
    return structure
