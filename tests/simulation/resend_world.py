"""Failover clients and a broker whose disk loses power and is full at times, and connections that break with answers
on them.

Each client sends one by one, in transactions and to two queues at once, and after each break sends again whatever has
no answer. Somebody takes messages as soon as they come, so that some are settled before they are written. An observer
of the disk alone counts how often each send was stored: he reads the records and knows nothing of the broker.
"""

from __future__ import annotations

from collections import deque
from random import Random

from spanwire.broker.assembly import BrokerSettings
from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.model.acks import STANDARD_ACK, MessageAck
from spanwire.model.destination import parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, ResourceAllocationError, SpanwireError
from spanwire.model.ids import ConsumerId, SessionId, TransactionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo
from spanwire.model.message import Message
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.recovery.audited import recover_audit
from spanwire.stores.journal.segments.record import BODY, CANCELLED, DESTINATION, MESSAGE, REFERENCE, expiration_size
from spanwire.stores.journal.segments.segment import SegmentReader, segment_number
from spanwire.stores.journal.space import UNMANAGED
from tests.simulation.disk import PowerCutError, SimulatedDisk
from tests.simulation.world import SimulatedEnvironment
from tests.support.dialogue.text_format import text_formats, text_message

STORE_ID = b"resent-messages!"
SEGMENT_BYTES = 16 * 1024
EAGER = "queue://EAGER"  # taken as soon as they come
PATIENT = "queue://PATIENT"
BOTH = "queue://EAGER,PATIENT"
MAX_UNANSWERED = 12


class Unanswered:
    """What a client waits for: one send, or a transaction of some. ``asked`` says that its commit was asked for."""

    def __init__(self, messages: list[Message], transaction: int) -> None:
        self.messages = messages
        self.transaction = transaction
        self.asked = False


class ResendingClient:
    """Duck-typed to `spanwire.broker.ports.ClientConnection`."""

    def __init__(self, world: ResendWorld, name: str) -> None:
        self._world = world
        self.connection_id = f"ID:{name}:1"
        self.unanswered: dict[int, Unanswered] = {}
        self.sent: dict[tuple[str, int], list[str]] = {}
        self._wire: deque[int] = deque()  # answers on their way
        self._number = 0
        self._token = 0
        self._transaction = 0
        self._state: ConnectionState | None = None
        self._was_connected = False

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        assert error is None, error
        self._wire.append(token)

    def close_with(self, error: SpanwireError) -> None:
        """The broker noticed that this connection is broken."""

    def breaks(self) -> None:
        """The connection is gone, with all answers on it. Sometimes the broker does not notice."""
        self._wire.clear()
        state = self._state
        self._state = None
        if state is not None and self._world.random.random() < 0.7:
            self._world.broker.remove_connection(state, self._world.now)

    def lost_its_broker(self) -> None:
        """The broker is another one now."""
        self._wire.clear()
        self._state = None

    def act(self) -> None:
        """Reads an answer, sends something, or connects again."""
        if self._state is None:
            self._connect()
        elif self._wire and self._world.random.random() < 0.5:
            self.unanswered.pop(self._wire.popleft(), None)
        elif len(self.unanswered) < MAX_UNANSWERED:
            self._send()

    def reads_everything(self) -> None:
        """All answers that are there."""
        if self._state is None:
            self._connect()
        while self._wire:
            self.unanswered.pop(self._wire.popleft(), None)
        for token in list(self.unanswered):
            if not self.unanswered[token].asked:
                self._do(token)

    def _connect(self) -> None:
        world = self._world
        info = ConnectionInfo(self.connection_id, fault_tolerant=True, reconnected=self._was_connected)
        self._state = world.broker.add_connection(self, info, world.now)
        self._was_connected = True
        world.broker.add_session(self._state, SessionId(self.connection_id, 1))
        for token in list(self.unanswered):
            self.unanswered[token].asked = False
            self._do(token)

    def _send(self) -> None:
        random = self._world.random
        self._token += 1
        transaction = 0
        count = 1
        if random.random() < 0.3:
            self._transaction += 1
            transaction = self._transaction
            count = random.randrange(1, 5)
        self.unanswered[self._token] = Unanswered([self._message() for _ in range(count)], transaction)
        self._do(self._token)

    def _message(self) -> Message:
        random = self._world.random
        self._number += 1
        destination = random.choice((EAGER, PATIENT, BOTH))
        body = b"x" * random.choice((10, 200, 2000))
        self.sent[self.connection_id, self._number] = [
            part.qualified_name for part in parse_destination(destination).parts()
        ]
        return text_message(parse_destination(destination), self._number, body, self.connection_id)

    def _do(self, token: int) -> None:
        """Sends what ``token`` is to answer."""
        world, state, entry = self._world, self._state, self.unanswered[token]
        assert state is not None
        broker = world.broker
        if not entry.transaction:
            entry.asked = True
            if broker.send(state, entry.messages[0], None, token, world.now):
                self._wire.append(token)
            return
        transaction = TransactionId(self.connection_id, entry.transaction)
        broker.begin(state, transaction, world.now)
        entry.asked = True
        try:
            for message in entry.messages:
                broker.send(state, message, transaction, -1, world.now)
            if broker.commit(state, transaction, token, world.now):
                self._wire.append(token)
        except ResourceAllocationError:  # the disk is full, and transactions do not wait
            del self.unanswered[token]
            for message in entry.messages:
                self.sent[self.connection_id, message.message_id.sequence] = []
            if str(transaction) in state.transactions:
                broker.rollback(state, transaction, world.now)


class EagerConsumer:
    """Takes what comes, at once: duck-typed to `ClientConnection` and `MessageConsumer`."""

    def __init__(self, world: ResendWorld, number: int) -> None:
        self._world = world
        self._waiting: list[Message] = []
        connection_id = f"ID:eager:{number}"
        broker = world.broker
        self._state = broker.add_connection(self, ConnectionInfo(connection_id), world.now)
        broker.add_session(self._state, SessionId(connection_id, 1))
        info = ConsumerInfo(ConsumerId(connection_id, 1, 1), parse_destination(EAGER), 1000)
        self._subscription: Subscription = broker.add_consumer(self._state, info, self, world.now)
        broker.start_consumer(self._subscription, world.now)

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """It wants no answers."""

    def close_with(self, error: SpanwireError) -> None:
        """The broker stops."""

    def close(self, reason: JmsError) -> None:
        """Its queue is never removed."""

    def switch_to_pull(self) -> bool:
        return False

    def dispatch_end(self) -> None:
        """It does not pull."""

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        self._waiting.append(message)

    def takes(self) -> None:
        """Acknowledges what came."""
        world = self._world
        waiting = self._waiting
        self._waiting = []
        for message in waiting:
            message_id = message.message_id
            world.broker.acknowledge(
                self._state, self._subscription, MessageAck(STANDARD_ACK, message_id, message_id), None, -1, world.now
            )
        world.broker.output_progress(self._state, 0, world.now)


class ResendWorld:
    """Everything, and the scheduler. ``stored`` is the observer's count: the places of each send on the disk."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.environment = SimulatedEnvironment(self.random)
        self.formats = text_formats()
        self.disk = SimulatedDisk()
        self.stored: dict[tuple[str, int], set[tuple[int, int]]] = {}
        self.cancelled = 0
        self.crashes = 0
        self.breaks = 0
        self.duplicates = 0
        self._names: dict[int, str] = {}
        self._runs = 0
        self._has_room = True  # for messages, on the disk
        self.broker: Broker
        self.journal: Journal
        self.eager: EagerConsumer
        self._start()
        self.clients = [ResendingClient(self, name) for name in ("one", "two", "three")]

    @property
    def now(self) -> Time:
        return self.environment.time

    def step(self) -> None:
        """Something happens."""
        self.environment.advance(0.001)
        kind = self.random.random()
        if kind < 0.70:
            self.random.choice(self.clients).act()
        elif kind < 0.80:
            if self.random.random() < 0.7:
                self.eager.takes()
        elif kind < 0.96:
            self._store_turn()
        elif kind < 0.975:
            self._has_room = not self._has_room
            self._room_changed()
        elif kind < 0.985:
            self.breaks += 1
            self.random.choice(self.clients).breaks()
        else:
            self._crash()
        self.broker.take_dirty()

    def rest(self) -> None:
        """No more faults, until everything has its answer."""
        self._has_room = True
        self._room_changed()
        for _ in range(1000):
            for client in self.clients:
                client.reads_everything()
            self._write(-1)
            if not any(client.unanswered for client in self.clients):
                self.duplicates += self.broker.assembly.producer_audit.duplicates
                return
        raise AssertionError("somebody waits for ever")

    def _store_turn(self) -> None:
        cut = self.disk.steps + self.random.randrange(8) if self.random.random() < 0.15 else -1
        try:
            self._write(cut)
        except PowerCutError:
            self._crash()

    def _write(self, cut: int) -> None:
        journal = self.journal
        for fetch in journal.take_fetches():
            self.broker.on_fetched(fetch.request, [None] * len(fetch.messages), self.environment.time)
        position = journal.take_answer()
        if position >= 0:
            self.broker.stored(position, self.environment.time)
        batch = journal.next_batch()
        if batch is None:
            return
        self.disk.cut_at = cut
        write_batch(self.disk, batch, True)
        self.disk.cut_at = -1
        self._observe()
        self.broker.stored(journal.on_completed(batch), self.environment.time)

    def _crash(self) -> None:
        self.crashes += 1
        self.duplicates += self.broker.assembly.producer_audit.duplicates
        self.disk = self.disk.power_cut(self.random)
        self._observe()
        self._start()
        for client in self.clients:
            client.lost_its_broker()

    def _start(self) -> None:
        for _ in range(20):
            try:
                self._open()
                return
            except PowerCutError:
                self.disk = self.disk.power_cut(self.random)
        raise AssertionError("the store cannot be opened")

    def _open(self) -> None:
        self._runs += 1
        if self.random.random() < 0.3:
            self.disk.cut_at = self.disk.steps + self.random.randrange(12)
        opened = open_journal(self.disk, STORE_ID, SEGMENT_BYTES)
        self.disk.cut_at = -1
        self.journal = opened.journal
        audit = ProducerAudit(identity=b"identity")
        recover_audit(self.disk, opened.recovery, self.formats, audit)
        self.journal.attach_audit(audit)
        self.broker = Broker(
            "world", "ID:world", self.environment, self.journal, self.formats, BrokerSettings(producer_audit=audit)
        )
        self.broker.recover(opened.recovery.destinations(), opened.recovery.clean, self.environment.time)
        self.eager = EagerConsumer(self, self._runs)
        self._room_changed()

    def _room_changed(self) -> None:
        self.journal.space_changed(UNMANAGED, self._has_room)
        self.broker.room_changed(self.environment.time)

    def _observe(self) -> None:
        """Reads all segments: which producer's which message stands in which place."""
        for name, data in self.disk.contents().items():
            if segment_number(name) <= 0:
                continue
            try:
                reader = SegmentReader(name, data, None)
            except SpanwireError:
                continue
            batch = reader.next_batch()
            while batch is not None:
                body: Message | None = None
                for record in batch:
                    payload = reader.payload(record)
                    if record.kind == DESTINATION:
                        self._names[record.destination] = payload.decode()
                    elif record.kind in (MESSAGE, BODY):
                        message = self.formats.index(record.format_id, payload[expiration_size(record.flags) :])
                        if record.kind == BODY:
                            body = message
                        else:
                            self._saw(message, record.destination, record.sequence)
                    elif record.kind == REFERENCE and body is not None:
                        self._saw(body, record.destination, record.sequence)
                    elif record.kind == CANCELLED:
                        connection_id = payload[8:].decode().rsplit(":", 2)[0]
                        number = int.from_bytes(payload[:8], "little", signed=True)
                        self._note((connection_id, number), record.destination, record.sequence)
                        self.cancelled += 1
                batch = reader.next_batch()

    def _saw(self, message: Message, line: int, sequence: int) -> None:
        message_id = message.message_id
        self._note((message_id.producer_id.connection_id, message_id.sequence), line, sequence)

    def _note(self, send: tuple[str, int], line: int, sequence: int) -> None:
        self.stored.setdefault(send, set()).add((line, sequence))

    def places(self, send: tuple[str, int]) -> list[str]:
        """The queues in which a send was ever stored, once for each time."""
        return sorted(self._names[line] for line, _ in self.stored.get(send, set()))


def destinations(client: ResendingClient, send: tuple[str, int]) -> list[str]:
    """The queues that a send was for."""
    return sorted(client.sent[send])
