"""Executes the frames of a logged-in STOMP client in the broker (STOMP 1.2, "Client Frames").

A refused frame raises a `JmsError`, which the connection answers by an ERROR frame.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import NO_TOKEN
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN, STANDARD_ACK, MessageAck
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import IllegalStateError, InvalidDestinationError
from spanwire.model.ids import ConsumerId, ProducerId, SessionId, TransactionId
from spanwire.model.info import ConsumerInfo, ProducerCounts, ProducerInfo
from spanwire.protocols.stomp.acknowledgement import Acknowledgement
from spanwire.protocols.stomp.codec.errors import StompProtocolError, StompRequestError
from spanwire.protocols.stomp.codec.frames import (
    ABORT,
    BEGIN,
    COMMIT,
    SUBSCRIBE,
    UNSUBSCRIBE,
    V1_0,
    AckRun,
    Frame,
    HeaderBlock,
)
from spanwire.protocols.stomp.destinations import DestinationNames
from spanwire.protocols.stomp.send_headers import MessageWriter, SendHeaders
from spanwire.protocols.stomp.subscription import (
    AUTO,
    CLIENT_INDIVIDUAL,
    StompSubscription,
    SubscribeOptions,
    durable_name,
)
from spanwire.protocols.stomp.transactions import NamedTransactions

SESSION: Final = -1  # the hidden session of a STOMP client's consumers and producer
PRODUCER: Final = 1


class ClientCommands:
    """Executes the frames of one client; ``out`` is the connection's output.

    ``token`` is the last drawn token, for the withheld receipt of a frame. ``starting`` is the consumer of the last
    SUBSCRIBE, which the connection starts after the receipt.
    """

    def __init__(self, broker: Broker, state: ConnectionState, version: int, out: list[bytes]) -> None:
        self.state: Final[ConnectionState] = state
        self.token = NO_TOKEN
        self.starting: Subscription | None = None
        self._broker: Final[Broker] = broker
        self._version: Final[int] = version
        self._out: Final[list[bytes]] = out
        self._connection_id: Final[str] = state.connection_id
        self._names: Final[DestinationNames] = DestinationNames(state.connection_id)
        self._producer_id: Final[ProducerId] = ProducerId(state.connection_id, SESSION, PRODUCER)
        self._counts: Final[ProducerCounts] = ProducerCounts()
        self._writer: Final[MessageWriter] = MessageWriter(self._producer_id)
        self._consumer_count = 0
        self._transactions: Final[NamedTransactions] = NamedTransactions(state.connection_id)
        self._subscriptions: Final[dict[int, StompSubscription]] = {}

    def begin(self, now: Time) -> None:
        """Announce the client's hidden session and producer."""
        self._broker.add_session(self.state, SessionId(self._connection_id, SESSION))
        self._broker.add_producer(self.state, ProducerInfo(self._producer_id, counts=self._counts), now)

    def next_token(self) -> int:
        """Return a new token for a withheld receipt."""
        self.token += 1
        return self.token

    def send(self, frame: Frame, now: Time) -> bool:
        """Send a message; return False if the receipt is withheld."""
        prepared = frame.block.prepared
        if isinstance(prepared, SendHeaders):
            headers = prepared
        else:
            headers = self._prepare(frame.block)
            self._make_temporary(now)
            frame.block.prepared = headers
        transaction_id: TransactionId | None = None
        if headers.transaction is not None:
            transaction_id = self._transactions.find(headers.transaction)
        message = self._writer.message(headers, frame, now.wall_ms)
        self._counts.sent += 1
        token = self.next_token() if frame.receipt is not None else NO_TOKEN
        return self._broker.send(self.state, message, transaction_id, token, now)

    def acknowledge(self, frame: Frame, now: Time) -> bool:
        """Acknowledge or refuse messages; return False if the receipt is withheld."""
        acknowledgement = Acknowledgement(frame.block.command, frame.block.headers, self._version)
        transaction_id: TransactionId | None = None
        name = frame.block.headers.get("transaction")
        if name is not None:
            transaction_id = self._transactions.find(name)
        token = self.next_token() if frame.receipt is not None else NO_TOKEN
        for subscription in acknowledgement.candidates(self._subscriptions):
            broker_side = subscription.broker_side
            last = None if broker_side is None else acknowledgement.message_id_at(broker_side)
            if broker_side is None or last is None:
                continue
            ack_type = acknowledgement.ack_type(subscription.ack_mode)
            ack = MessageAck(ack_type, None if ack_type == STANDARD_ACK else last, last)
            try:
                return self._broker.acknowledge(self.state, broker_side, ack, transaction_id, token, now)
            except IllegalStateError:
                continue
        raise acknowledgement.unexpected()

    def acknowledge_run(self, run: AckRun, now: Time) -> int:
        """Acknowledge messages one by one, as `client-individual` asks for.

        Returns:
            The number of messages acknowledged, from the first on; `acknowledge` takes or refuses the others.
        """
        subscription = self._subscriptions.get(run.subscription)
        if subscription is None or subscription.ack_mode != CLIENT_INDIVIDUAL or subscription.broker_side is None:
            return 0
        return self._broker.acknowledge_numbered(subscription.broker_side, run.numbers, now)

    def act(self, frame: Frame, now: Time) -> bool:
        """Execute a frame about a subscription or transaction; return False if the receipt is withheld."""
        command = frame.block.command
        if command == SUBSCRIBE:
            self._subscribe(frame.block.headers, now)
            return self._answer_when_stored(frame)
        if command == UNSUBSCRIBE:
            self._unsubscribe(frame.block.headers, now)
            return self._answer_when_stored(frame)
        return self._act_on_transaction(command, frame, now)

    def _answer_when_stored(self, frame: Frame) -> bool:
        """Return True if a change of a durable subscription is stored or needs no receipt.

        Otherwise the receipt is withheld.
        """
        if frame.receipt is None or durable_name(frame.block.headers) is None:
            return True
        return self._broker.answer_when_stored(self.state, self.next_token())

    def _subscribe(self, headers: dict[str, str], now: Time) -> None:
        options = SubscribeOptions(headers, self._version)
        destination = self._resolve(options.destination)
        self._make_temporary(now)
        self._consumer_count += 1
        number = self._consumer_count
        if options.durable_name is not None and self.state.info.client_id == self._connection_id:
            raise StompRequestError(f"a durable subscription needs a client-id in CONNECT: {options.durable_name}")
        info = ConsumerInfo(
            ConsumerId(self._connection_id, SESSION, number),
            destination,
            options.prefetch_size,
            options.selector,
            options.durable_name,
            browser=options.browser,
            no_local=options.no_local,
            exclusive=options.exclusive,
            retroactive=options.retroactive,
            priority=options.priority,
            maximum_pending_messages=options.maximum_pending,
        )
        consumer = StompSubscription(
            number, options, destination, self._version, self._out, self._names, self._broker.formats
        )
        consumer.broker_side = self._broker.add_consumer(self.state, info, consumer, now, options.ack_mode == AUTO)
        self.starting = consumer.broker_side
        self._subscriptions[number] = consumer

    def _unsubscribe(self, headers: dict[str, str], now: Time) -> None:
        durable = durable_name(headers)
        if durable is not None:
            self._broker.unsubscribe(self.state, durable, now)
            return
        identity = headers.get("id")
        text = headers.get("destination")
        if identity is None:
            if self._version != V1_0:
                raise StompRequestError("UNSUBSCRIBE received without a subscription id!")
            if text is None:
                raise StompRequestError("Must specify the subscriptionId or the destination you are unsubscribing from")
        matched: list[StompSubscription] = []
        if identity is not None:
            matched = [each for each in self._subscriptions.values() if each.id == identity]
        elif text is not None:
            destination = self._resolve(text)
            self._make_temporary(now)
            matched = [each for each in self._subscriptions.values() if each.destination == destination]
        if not matched:
            raise StompRequestError("No subscription matched.")
        for subscription in matched:
            del self._subscriptions[subscription.number]
            consumer_id = ConsumerId(self._connection_id, SESSION, subscription.number)
            self._broker.remove_consumer(self.state, consumer_id, LAST_DELIVERED_UNKNOWN, now)

    def _act_on_transaction(self, command: str, frame: Frame, now: Time) -> bool:
        name = frame.block.headers.get("transaction")
        if name is None:
            doing = {BEGIN: "beginning", COMMIT: "committing", ABORT: "aborting"}[command]
            raise StompRequestError(f"Must specify the transaction you are {doing}")
        if command == BEGIN:
            begun = self._transactions.next_id(name)
            self._broker.begin(self.state, begun, now)
            self._transactions.begun(name, begun)
            return True
        transaction_id = self._transactions.take(name)
        if command == ABORT:
            self._broker.rollback(self.state, transaction_id, now)
            return True
        token = self.next_token() if frame.receipt is not None else NO_TOKEN
        return self._broker.commit(self.state, transaction_id, token, now)

    def _prepare(self, block: HeaderBlock) -> SendHeaders:
        """Parse the headers of a SEND; an invalid destination is fatal, as in ActiveMQ."""
        try:
            return SendHeaders(block, self._names)
        except InvalidDestinationError as error:
            raise StompProtocolError(str(error)) from error

    def _resolve(self, text: str) -> Destination:
        try:
            return self._names.resolve(text)
        except InvalidDestinationError as error:
            raise StompProtocolError(str(error)) from error

    def _make_temporary(self, now: Time) -> None:
        """Create newly named temporary destinations."""
        for destination in self._names.take_fresh():
            self._broker.add_destination(self.state, destination, now)
