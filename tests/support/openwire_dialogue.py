"""Dialogues with the broker in OpenWire: several peers on one real broker, time passed in, no socket.

world = World()
peer = world.connect()
peer.sends(SessionInfo(…)); response = peer.receives(Response)
world.passes(10.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from spanwire.broker.assembly import BrokerSettings
from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.store_unit import StoreUnit, Transfer
from spanwire.broker.persistence.stored_sums import StoredSums
from spanwire.broker.ports import Authenticator, Authorizer, MessageFormat
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import StoreError
from spanwire.model.ledger import ACKNOWLEDGED, Sums
from spanwire.model.message import Message
from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.openwire.broker_connection import OpenWireBrokerConnection
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.codec.wire_format import (
    WireFormat,
    WireFormatPreferences,
    negotiate,
    wire_format_info,
)
from spanwire.protocols.openwire.messages.advisory_format import OpenWireAdvisoryFormat
from spanwire.protocols.openwire.messages.message_format import openwire_formats

STARTED_MS = 1_795_246_514_000
MAX_ROUNDS = 200  # flushes until a dialogue must have come to rest
BROKER_ID = "ID:broker-1-1-0:1"

C = TypeVar("C", bound=wire.Command)


class DialogueEnvironment:
    """Time that only passes when a test says so."""

    def __init__(self) -> None:
        self.monotonic = 1000.0
        self._random = 0

    @property
    def host_name(self) -> str:
        return "dialogue"

    def now(self) -> Time:
        return Time(self.monotonic, STARTED_MS + int((self.monotonic - 1000.0) * 1000))

    def random_bytes(self, count: int) -> bytes:
        self._random += 1
        return (self._random * 7919).to_bytes(8, "big")[-count:].rjust(count, b"\x01")


class LateStore:
    """A store that keeps messages in memory and answers when the test says so."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], Message] = {}
        self.metadata: dict[tuple[int, bytes], bytes] = {}
        self.asked: list[tuple[int, str, list[int]]] = []
        self.refused: Exception | None = None  # of units
        self._newest: dict[str, int] = {}  # sequence, by destination
        self._calls = 0

    def append(self, destination: Destination, message: Message) -> int:
        self._calls += 1
        sequence = self._newest[str(destination)] = self.next_sequence(destination)
        self.kept[str(destination), sequence] = message
        return sequence

    def remove(self, destination: Destination, sequence: int, way: int = ACKNOWLEDGED) -> None:
        self._calls += 1
        self.kept.pop((str(destination), sequence), None)

    def remove_all(self, destination: Destination, sequences: list[int], way: int = ACKNOWLEDGED) -> None:
        for sequence in sequences:
            self.remove(destination, sequence)

    def next_sequence(self, destination: Destination) -> int:
        return self._newest.get(str(destination), 0) + 1

    def append_shared(self, destinations: list[Destination], message: Message) -> list[int]:
        return [self.append(destination, message) for destination in destinations]

    def append_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        metadata: list[MetadataRecord],
        way: int = ACKNOWLEDGED,
    ) -> list[int]:
        if self.refused is not None:
            raise self.refused
        for metadata_record in metadata:
            if metadata_record.value is None:
                self.discard_metadata(metadata_record.table, metadata_record.key)
            else:
                self.put_metadata(metadata_record.table, metadata_record.key, metadata_record.value)
        for destination, sequence in removals:
            self.remove(destination, sequence)
        return [self.append(destination, message) for destination, message in additions]

    def append_gathered(self, unit: StoreUnit, metadata: list[MetadataRecord]) -> None:
        removals = [(own.destination, sequence) for own in unit.removals() for sequence in own.sequences]
        if unit.transfers:
            transfers = [transfer.transfer() for transfer in unit.transfers]
            unit.take_transferred(self.transfer_unit(transfers, removals, [*metadata, *unit.metadata]))
            return
        additions = [
            (line.destination, message) for line, message in zip(unit.additions_of, unit.messages, strict=True)
        ]
        sequences = self.append_unit(additions, removals, [*metadata, *unit.metadata])
        for line, sequence in zip(reversed(unit.additions_of), reversed(sequences), strict=True):
            line.first = sequence

    def transfer_unit(
        self, transfers: list[Transfer], removals: list[tuple[Destination, int]], metadata: list[MetadataRecord]
    ) -> list[int]:
        firsts: list[int] = []
        for transfer in transfers:
            firsts.append(self.next_sequence(transfer.target))
            for sequence in transfer.sequences:
                self.append(transfer.target, self.kept.pop((str(transfer.source), sequence)))
        self.append_unit([], removals, metadata)
        return firsts

    def note_redelivery(self, destination: Destination, sequence: int, redelivery_count: int) -> None:
        self._calls += 1

    def fetch(self, request: int, destination: Destination, sequences: list[int]) -> None:
        self.asked.append((request, str(destination), sequences))

    def sizes(self, destination: Destination, sequences: list[int]) -> list[int]:
        found = [self.kept.get((str(destination), sequence)) for sequence in sequences]
        return [0 if message is None else message.size for message in found]

    def add_destination(self, destination: Destination) -> None:
        self._calls += 1

    def remove_destination(self, destination: Destination) -> None:
        self._calls += 1

    def put_metadata(self, table: int, key: bytes, value: bytes) -> None:
        self._calls += 1
        self.metadata[table, key] = value

    def discard_metadata(self, table: int, key: bytes) -> None:
        self._calls += 1
        self.metadata.pop((table, key), None)

    def position(self) -> int:
        return self._calls

    def used_bytes(self) -> int:
        return 0

    def counted(self) -> list[Destination]:
        return []

    def sums(self, destination: Destination | None) -> StoredSums | None:
        return None

    def link_sums(self) -> Sums:
        return Sums()

    def has_room(self) -> bool:
        return True


class World:
    """One broker and the peers that talk to it."""

    def __init__(
        self,
        *,
        store: LateStore | None = None,
        authenticator: Authenticator | None = None,
        authorizer: Authorizer | None = None,
        other_formats: dict[int, MessageFormat] | None = None,
        **options: Any,
    ) -> None:
        self.environment = DialogueEnvironment()
        self.store = store
        formats = openwire_formats()
        formats.update(other_formats or {})
        advisories = OpenWireAdvisoryFormat(
            BROKER_ID, "golden", "tcp://localhost:61616", BROKER_ID + ":advisory", MessageFormats(formats)
        )
        self.broker = Broker(
            "golden",
            BROKER_ID,
            self.environment,
            store,
            MessageFormats(formats),
            BrokerSettings(
                advisory_format=advisories,
                authenticator=authenticator,
                authorizer=authorizer,
                **options,
            ),
        )
        self.peers: list[OpenWirePeer] = []
        self._connections = 0

    @property
    def now(self) -> Time:
        return self.environment.now()

    def peer(self, **options: Any) -> OpenWirePeer:
        """A peer that has said nothing yet."""
        made = OpenWirePeer(self, **options)
        self.peers.append(made)
        return made

    def connect(
        self, connection_id: str | None = None, *, client_id: str | None = None, **options: Any
    ) -> OpenWirePeer:
        """A peer that has logged in and opened session 1."""
        self._connections += 1
        user = options.pop("user", None)
        fault_tolerant = options.pop("fault_tolerant", False)
        made = self.peer(**options)
        made.negotiates()
        if fault_tolerant:
            made.sends(wire.ConnectionControl(fault_tolerant=True))
        made.logs_in(connection_id or f"ID:peer-{self._connections}-1-0:1", client_id, user)
        made.sends(wire.SessionInfo(made.session_id))
        made.received.clear()
        return made

    def settle(self) -> None:
        """Flush until everybody has what there is for him."""
        for _ in range(MAX_ROUNDS):
            if self.broker.next_timeout() == 0.0:
                self.broker.run(self.now)
            dirty = [peer for peer in self.peers if peer.flush()]
            self.broker.take_dirty()
            if not dirty and self.broker.next_timeout() != 0.0:
                return
        raise AssertionError("the dialogue does not come to rest")

    def passes(self, seconds: float) -> None:
        """Let time pass, with all timers on the way."""
        end = self.environment.monotonic + seconds
        while True:
            due = [end]
            for timeout in [self.broker.next_timeout(), *(peer.connection.next_timeout() for peer in self.peers)]:
                if timeout is not None and timeout > self.environment.monotonic:
                    due.append(timeout)
            self.environment.monotonic = min(due)
            self.broker.run(self.now)
            for peer in self.peers:
                timeout = peer.connection.next_timeout()
                if timeout is not None and timeout <= self.environment.monotonic:
                    peer.connection.handle_timeout(self.now)
            self.settle()
            if self.environment.monotonic >= end:
                return

    def stores(self) -> None:
        """The store has everything it was told."""
        assert self.store is not None
        self.broker.stored(self.store.position(), self.now)
        self.settle()

    def store_fails(self, text: str) -> None:
        """The disk is gone."""
        self.broker.store_failed(StoreError(text), self.now)
        self.settle()


class OpenWirePeer:
    """The other end of one connection: sends and receives commands, checks that each frame decodes."""

    def __init__(
        self,
        world: World,
        *,
        version: int = 12,
        tight: bool = False,
        cache: bool = False,
        inactivity_ms: int = 30_000,
        settings: ConnectionSettings | None = None,
    ) -> None:
        self.world = world
        self.settings = settings if settings is not None else ConnectionSettings("tcp://127.0.0.1:50000")
        self.connection = OpenWireBrokerConnection(world.broker, self.settings, world.now)
        self.preferences = WireFormatPreferences(
            version=version, tight=tight, cache=cache, max_inactivity_ms=inactivity_ms
        )
        self.wire_format = WireFormat()
        self.encoder = FrameEncoder()
        self.decoder = FrameDecoder(pass_messages=False)
        self.decoder.authenticated()
        self.received: list[wire.Command] = []
        self.octets_received = 0
        self.chunk = 0
        self.is_gone = False
        self.connection_id = ""
        self._command_id = 0
        self._sequence = 0

    def negotiates(self) -> wire.WireFormatInfo:
        """Exchange WireFormatInfo and receive the BrokerInfo; gives the broker's WireFormatInfo."""
        self.flush()
        remote = self.receives(wire.WireFormatInfo)
        self.sends_octets(FrameEncoder().encode(wire_format_info(self.preferences)), settle=False)
        self.wire_format = negotiate(self.preferences, remote)
        self.encoder = FrameEncoder(self.wire_format)
        self.decoder.negotiated(self.wire_format)
        self.world.settle()
        self.receives(wire.BrokerInfo)
        return remote

    def logs_in(
        self, connection_id: str, client_id: str | None = None, user: str | None = None, password: str | None = None
    ) -> None:
        """Send the ConnectionInfo."""
        self.connection_id = connection_id
        info = wire.ConnectionInfo(
            connection_id=wire.ConnectionId(connection_id),
            client_id=client_id or "client-" + connection_id,
            user_name=user,
            password=password,
            manageable=True,
            client_master=True,
        )
        self.requests(info)

    def sends(self, command: Any, *, response: bool = False) -> int:
        """Send a command with the next command id; gives the id."""
        if isinstance(command, wire.BaseCommand):
            self._command_id += 1
            command.command_id = self._command_id
            command.response_required = response
        self.sends_octets(self.encoder.encode(command))
        return self._command_id

    def requests(self, command: Any) -> int:
        """Send a command that asks for an answer; gives its id."""
        return self.sends(command, response=True)

    def succeeds(self, command: Any) -> None:
        """Send a command and expect a plain Response to it."""
        command_id = self.requests(command)
        answers = [c for c in self.received if isinstance(c, wire.Response) and c.correlation_id == command_id]
        assert [type(answer).__name__ for answer in answers] == ["Response"], self.told()
        self.received.remove(answers[0])

    def fails(self, command: Any) -> tuple[str | None, str | None]:
        """Send a command and expect an ExceptionResponse; gives class and text."""
        command_id = self.requests(command)
        answer = self.receives(wire.ExceptionResponse)
        assert answer.correlation_id == command_id
        assert answer.exception is not None
        return answer.exception.class_name, answer.exception.message

    def sends_octets(self, octets: bytes, *, settle: bool = True) -> None:
        """Send raw bytes, in pieces of ``chunk`` when that is set."""
        size = self.chunk or max(1, len(octets))
        for start in range(0, len(octets), size):
            if not self.connection.closed:
                self.connection.receive_data(octets[start : start + size], self.world.now)
        if settle:
            self.world.settle()

    def vanishes(self) -> None:
        """The socket breaks."""
        self.is_gone = True
        self.connection.receive_eof(self.world.now)
        self.world.settle()

    def flush(self) -> bool:
        """Take what the connection has to send, as a transport would; True when there was something, or it went on with
        requests that it held.
        """
        held = self.connection.holds_requests and not self.world.broker.awaits_login(self.connection)
        self.connection.go_on(self.world.now)
        chunks = self.connection.data_to_send()
        for chunk in chunks:
            assert isinstance(chunk, bytes)
        octets = b"".join(chunks)
        self.octets_received += len(octets)
        if not self.is_gone:
            self._decode(octets)
        self.connection.unsent(0)
        if self.connection.closed and not self.is_gone:
            self.is_gone = True
            self.connection.receive_eof(self.world.now)
        return held or bool(octets)

    def _decode(self, octets: bytes) -> None:
        commands: Sequence[wire.Command] = self.decoder.feed(octets)
        while commands:
            self.received.extend(commands)
            if isinstance(commands[0], wire.WireFormatInfo):
                return
            commands = self.decoder.feed(b"")

    def receives(self, kind: type[C]) -> C:
        """The first command of this type that was not taken yet."""
        for command in self.received:
            if type(command) is kind:
                self.received.remove(command)
                assert isinstance(command, kind)
                return command
        raise AssertionError(f"no {kind.__name__} came, but {self.told()}")

    def receives_nothing(self) -> None:
        """Nothing is left that was not taken."""
        assert self.told() == []

    def told(self) -> list[str]:
        """The types of what came and was not taken."""
        return [type(command).__name__ for command in self.received]

    def dispatched(self) -> list[wire.Message]:
        """The messages of all dispatches that came; they count as taken."""
        dispatches = [command for command in self.received if isinstance(command, wire.MessageDispatch)]
        self.received = [command for command in self.received if not isinstance(command, wire.MessageDispatch)]
        return [dispatch.message for dispatch in dispatches if dispatch.message is not None]

    @property
    def session_id(self) -> wire.SessionId:
        return wire.SessionId(connection_id=self.connection_id, value=1)

    def producer_id(self, value: int = 1) -> wire.ProducerId:
        return wire.ProducerId(connection_id=self.connection_id, session_id=1, value=value)

    def consumer_id(self, value: int = 1) -> wire.ConsumerId:
        return wire.ConsumerId(connection_id=self.connection_id, session_id=1, value=value)

    def transaction_id(self, value: int = 1) -> wire.LocalTransactionId:
        return wire.LocalTransactionId(value=value, connection_id=wire.ConnectionId(self.connection_id))

    def produces(self, destination: wire.ActiveMQDestination | None = None, value: int = 1, window: int = 0) -> None:
        """Announce a producer."""
        self.succeeds(
            wire.ProducerInfo(producer_id=self.producer_id(value), destination=destination, window_size=window)
        )

    def consumes(self, destination: wire.ActiveMQDestination, value: int = 1, **fields: Any) -> None:
        """Announce a consumer."""
        fields.setdefault("prefetch_size", 1000)
        self.succeeds(wire.ConsumerInfo(consumer_id=self.consumer_id(value), destination=destination, **fields))

    def text_message(
        self, destination: wire.ActiveMQDestination, text: str, *, producer: int = 1, persistent: bool = True
    ) -> wire.ActiveMQTextMessage:
        """The next message of a producer."""
        self._sequence += 1
        message = wire.ActiveMQTextMessage()
        message.producer_id = self.producer_id(producer)
        message.destination = destination
        message.message_id = wire.MessageId(producer_id=message.producer_id, producer_sequence_id=self._sequence)
        message.persistent = persistent
        message.priority = 4
        message.timestamp = self.world.now.wall_ms
        octets = text.encode()
        message.content = len(octets).to_bytes(4, "big") + octets
        return message

    def acknowledges(
        self, message: wire.Message, *, consumer: int = 1, kind: int = 2, first: wire.Message | None = None, **more: Any
    ) -> int:
        """Acknowledge one message, or all from ``first`` on."""
        count = more.pop("count", 1)
        response = more.pop("response", False)
        ack = wire.MessageAck(
            consumer_id=self.consumer_id(consumer),
            destination=message.destination,
            ack_type=kind,
            first_message_id=(first or message).message_id,
            last_message_id=message.message_id,
            message_count=count,
            **more,
        )
        return self.sends(ack, response=response)

    def transacts(self, kind: int, value: int = 1, **options: Any) -> int:
        """Send a TransactionInfo."""
        return self.sends(self.transaction(kind, value), **options)

    def transaction(self, kind: int, value: int = 1) -> wire.TransactionInfo:
        return wire.TransactionInfo(
            connection_id=wire.ConnectionId(self.connection_id), transaction_id=self.transaction_id(value), type=kind
        )


def text_of(message: wire.Message) -> str:
    """The text of a text message."""
    assert message.content is not None
    return message.content[4:].decode()
