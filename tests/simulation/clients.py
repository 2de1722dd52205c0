"""A client in the simulated world: it sends, consumes, acknowledges, commits, vanishes and comes back.

What the broker dispatches lies in the connection's inbox until the client reads it: only then it counts as delivered.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import NO_TOKEN
from spanwire.model.acks import (
    DELIVERED_ACK,
    INDIVIDUAL_ACK,
    LAST_DELIVERED_UNKNOWN,
    LAST_DELIVERED_UNSET,
    POISON_ACK,
    STANDARD_ACK,
    MessageAck,
)
from spanwire.model.destination import parse_destination
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.ids import ConsumerId, MessageId, SessionId, TransactionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo
from spanwire.model.message import Message
from tests.support.dialogue.text_format import text_message, text_of

if TYPE_CHECKING:
    from tests.simulation.world import World

ORDERED = "queue://ORDERED"
QUEUES = (ORDERED, "queue://SHARED", "queue://SLOW")


class Unread:
    """A dispatch that lies in the inbox, or was read and not acknowledged."""

    def __init__(self, message: Message, sequence: int, redelivered: bool) -> None:
        self.message_id: MessageId = message.message_id
        self.text = text_of(message)
        self.sequence = sequence
        self.redelivered = redelivered


class SimulatedConsumer:
    """Duck-typed to `spanwire.broker.ports.MessageConsumer`."""

    def __init__(self, info: ConsumerInfo, name: str) -> None:
        self.info = info
        self.name = name
        self.inbox: deque[Unread] = deque()
        self.held: list[Unread] = []
        self.subscription: Subscription | None = None
        self.pulls = info.prefetch_size == 0

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        self.inbox.append(Unread(message, sequence, redelivery_count > 0))

    def switch_to_pull(self) -> bool:
        return False

    def dispatch_end(self) -> None:
        """A pull found nothing."""

    def close(self, reason: JmsError) -> None:
        self.inbox.clear()


class SimulatedClient:
    """Duck-typed to `spanwire.broker.ports.ClientConnection`."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._random = world.random
        self._name = name
        self._generation = 0
        self._numbers: dict[str, int] = {}
        self._state: ConnectionState | None = None
        self._consumers: list[SimulatedConsumer] = []
        self._consumer_number = 0
        self._token = 0
        self._granted_by: dict[int, list[str]] = {}
        self._settled_by: dict[int, list[str]] = {}
        self._transaction = 0
        self._transaction_number = 0
        self._transaction_sends: list[str] = []
        self._transaction_acks: list[tuple[SimulatedConsumer, list[Unread]]] = []

    # The port

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        granted = self._granted_by.pop(token, [])
        settled = self._settled_by.pop(token, [])
        if error is None:
            for text in granted:
                self._world.ledger.granted(text)
            for text in settled:
                self._world.ledger.settled(text)

    def close_with(self, error: SpanwireError) -> None:
        """The broker stops; the world tells the client separately."""

    # What the world calls

    def act(self) -> None:
        """One thing a client does."""
        if self._state is None:
            self._connect()
            return
        choice = self._random.random()
        if choice < 0.34:
            self._send()
        elif choice < 0.60:
            self._read()
        elif choice < 0.80:
            self._acknowledge()
        elif choice < 0.87:
            self._subscribe()
        elif choice < 0.91:
            self._unsubscribe()
        elif choice < 0.97:
            self._transact()
        elif choice < 0.98:
            self._vanish()
        else:
            self._flush(self._random.choice((0, 0, 2_000_000)))

    def read_all(self) -> bool:
        """Read and acknowledge everything; False when there was nothing to do."""
        state = self._state
        if state is None:
            return False
        self._flush(0)
        busy = False
        for consumer in self._consumers:
            if consumer.pulls:
                self._pull(consumer)
            while consumer.inbox:
                self._take(consumer)
            if consumer.held and not self._transaction:
                busy = True
                self._settle(consumer, STANDARD_ACK, consumer.held.copy())
        return busy

    def finish(self) -> None:
        """End a transaction that is open and stand ready to drain ``queues``."""
        if self._state is None:
            self._connect()
        if self._transaction:
            self._end_transaction(commit=True)

    def drains(self, queue: str) -> None:
        """A consumer that takes all of one queue."""
        if self._state is None:
            self._connect()
        self._add_consumer(queue, 100, None)

    def vanishes(self) -> None:
        """The connection breaks."""
        if self._state is not None:
            self._vanish()

    def broker_is_gone(self) -> None:
        """Whatever lies in the inbox is lost, whatever is not answered stays so."""
        self._forget()

    # What a client does

    def _connect(self) -> None:
        self._generation += 1
        info = ConnectionInfo(f"ID:{self._name}:{self._generation}", None, self._name)
        self._state = self._world.broker.add_connection(self, info, self._world.now)
        self._world.broker.add_session(self._state, SessionId(info.connection_id, 1))

    def _forget(self) -> None:
        self._state = None
        for consumer in self._consumers:
            self._release(consumer)
        self._consumers = []
        self._granted_by = {}
        self._settled_by = {}
        self._transaction = 0
        self._transaction_sends = []
        self._transaction_acks = []

    def _vanish(self) -> None:
        assert self._state is not None
        if self._world.chance(0.5):
            for consumer in self._consumers:
                while consumer.inbox and self._world.chance(0.5):
                    self._take(consumer)
        self._world.broker.remove_connection(self._state, self._world.now)
        self._forget()

    def _send(self) -> None:
        for _ in range(self._random.choice((1, 1, 3, 10))):
            durable = self._world.chance(0.85)
            in_transaction = self._transaction > 0 and self._world.chance(0.5) and self._world.has_room()
            self._send_one(self._random.choice(QUEUES), durable, in_transaction)

    def _send_one(self, queue: str, durable: bool, in_transaction: bool) -> None:
        assert self._state is not None
        producer = f"{self._name}-{'tx' if in_transaction else 'plain'}"
        number = self._numbers.get(producer, 0) + 1
        self._numbers[producer] = number
        text = f"<{producer}-{number}>"
        unit = f"{self._name}-{self._generation}-{self._transaction}" if in_transaction else ""
        world = self._world
        world.ledger.attempted(queue, producer, number, text, durable=durable, unit=unit if durable else "")
        body = text.encode() + b"." * self._random.choice((0, 10, 500))
        message = text_message(
            parse_destination(queue), number, body, producer, persistent=durable, properties={"n": number % 3}
        )
        if in_transaction:
            self._transaction_sends.append(text)
            world.broker.send(self._state, message, self._transaction_id(), NO_TOKEN, world.now)
            return
        token = self._new_token()
        self._granted_by[token] = [text]
        if world.broker.send(self._state, message, None, token, world.now):
            self.on_completed(token, None)

    def _read(self) -> None:
        for consumer in self._consumers:
            if consumer.pulls:
                self._pull(consumer)
            for _ in range(self._random.choice((1, 3, 20))):
                if consumer.inbox:
                    self._take(consumer)
        if self._world.chance(0.8):
            self._flush(0)

    def _pull(self, consumer: SimulatedConsumer) -> None:
        assert consumer.subscription is not None
        if not consumer.inbox:
            self._world.broker.pull(consumer.subscription, self._random.choice((0, -1, 5)), self._world.now)

    def _take(self, consumer: SimulatedConsumer) -> None:
        unread = consumer.inbox.popleft()
        unread.text = unread.text.rstrip(".")
        self._world.ledger.delivered(unread.text, consumer.name, unread.redelivered)
        consumer.held.append(unread)

    def _acknowledge(self) -> None:
        holders = [consumer for consumer in self._consumers if consumer.held]
        if not holders:
            return
        consumer = self._random.choice(holders)
        choice = self._random.random()
        if choice < 0.6:
            count = self._random.randrange(len(consumer.held)) + 1
            self._settle(consumer, STANDARD_ACK, consumer.held[:count])
        elif choice < 0.8:
            self._settle(consumer, INDIVIDUAL_ACK, [self._random.choice(consumer.held)])
        elif choice < 0.9:
            self._tell(consumer, DELIVERED_ACK, consumer.held, NO_TOKEN)
        elif choice < 0.93 and not consumer.info.destination.name.startswith("ActiveMQ"):
            self._settle(consumer, POISON_ACK, consumer.held[:1])
        elif self._transaction:
            count = self._random.randrange(len(consumer.held)) + 1
            taken = consumer.held[:count]
            self._tell(consumer, STANDARD_ACK, taken, NO_TOKEN, self._transaction_id())
            del consumer.held[:count]
            self._transaction_acks.append((consumer, taken))

    def _settle(self, consumer: SimulatedConsumer, ack_type: int, unread: list[Unread]) -> None:
        """Acknowledge for good, with an answer. A message that is not on the disk yet need not get there any more. What
        is given up must be found among the dead letters, or come again.
        """
        token = self._new_token()
        is_given_up = ack_type == POISON_ACK
        self._settled_by[token] = [] if is_given_up else [entry.text for entry in unread]
        for entry in unread:
            consumer.held.remove(entry)
            self._world.ledger.synced(entry.text)
            if not is_given_up:
                self._world.ledger.acknowledged(entry.text)
        if self._tell(consumer, ack_type, unread, token):
            self.on_completed(token, None)

    def _tell(
        self,
        consumer: SimulatedConsumer,
        ack_type: int,
        unread: list[Unread],
        token: int,
        transaction_id: TransactionId | None = None,
    ) -> bool:
        assert self._state is not None and consumer.subscription is not None
        first, last = unread[0].message_id, unread[-1].message_id
        return self._world.broker.acknowledge(
            self._state,
            consumer.subscription,
            MessageAck(ack_type, first, last, len(unread)),
            transaction_id,
            token,
            self._world.now,
        )

    def _subscribe(self) -> None:
        if len(self._consumers) >= 3:
            return
        queue = self._random.choice(QUEUES)
        prefetch = self._random.choice((0, 1, 3, 50))
        selector = None
        if queue == ORDERED:
            if self._world.single_owner is not None:
                return
            self._world.single_owner = self
        elif self._world.chance(0.5):
            selector = f"n = {self._random.randrange(3)}"
        self._add_consumer(queue, prefetch, selector)

    def _add_consumer(self, queue: str, prefetch: int, selector: str | None) -> None:
        assert self._state is not None
        self._consumer_number += 1
        consumer_id = ConsumerId(self._state.connection_id, 1, self._consumer_number)
        info = ConsumerInfo(consumer_id, parse_destination(queue), prefetch, selector)
        consumer = SimulatedConsumer(info, str(consumer_id))
        broker = self._world.broker
        consumer.subscription = broker.add_consumer(self._state, info, consumer, self._world.now)
        self._consumers.append(consumer)
        broker.start_consumer(consumer.subscription, self._world.now)

    def _unsubscribe(self) -> None:
        if not self._consumers:
            return
        assert self._state is not None
        consumer = self._random.choice(self._consumers)
        if any(consumer is holder for holder, _ in self._transaction_acks):
            return  # clients end the transaction first
        last = LAST_DELIVERED_UNKNOWN if consumer.held else LAST_DELIVERED_UNSET
        if consumer.held and consumer.held[-1].sequence == max(entry.sequence for entry in consumer.held):
            last = consumer.held[-1].sequence
        self._world.broker.remove_consumer(self._state, consumer.info.consumer_id, last, self._world.now)
        self._consumers.remove(consumer)
        self._release(consumer)

    def _release(self, consumer: SimulatedConsumer) -> None:
        if consumer.info.destination.qualified_name == ORDERED and self._world.single_owner is self:
            self._world.single_owner = None

    def _transact(self) -> None:
        assert self._state is not None
        if self._transaction:
            self._end_transaction(commit=self._world.chance(0.7))
            return
        self._transaction_number += 1
        self._transaction = self._transaction_number
        self._world.broker.begin(self._state, self._transaction_id(), self._world.now)

    def _end_transaction(self, commit: bool) -> None:
        assert self._state is not None
        world = self._world
        transaction_id = self._transaction_id()
        sends, acks = self._transaction_sends, self._transaction_acks
        self._transaction, self._transaction_sends, self._transaction_acks = 0, [], []
        if not commit or (sends and not world.has_room()):  # the broker would refuse it
            world.broker.rollback(self._state, transaction_id, world.now)
            for consumer, taken in reversed(acks):
                consumer.held[:0] = taken
            return
        token = self._new_token()
        self._granted_by[token] = sends
        self._settled_by[token] = [entry.text for _, taken in acks for entry in taken]
        for text in self._settled_by[token]:
            world.ledger.acknowledged(text)
        if world.broker.commit(self._state, transaction_id, token, world.now):
            self.on_completed(token, None)

    def _transaction_id(self) -> TransactionId:
        assert self._state is not None
        return TransactionId(self._state.connection_id, self._transaction)

    def _flush(self, unsent: int) -> None:
        assert self._state is not None
        self._world.broker.output_progress(self._state, unsent, self._world.now)

    def _new_token(self) -> int:
        self._token += 1
        return self._token
