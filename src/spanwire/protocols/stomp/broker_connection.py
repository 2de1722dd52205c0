"""The broker's side of a STOMP connection: frames in, `Broker` calls, frames out (STOMP 1.2, "Client Frames").

The states are: before the login, open, leaving (a DISCONNECT waits for the receipts of earlier frames) and closed.
``states.py`` defines the frames allowed in each state; their answers were observed on ActiveMQ.

A RECEIPT is written after the broker has finished the request: for a persistent SEND, after the sync.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import NO_TOKEN, ClientConnection
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN, STANDARD_ACK
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import IllegalStateError, InvalidDestinationError, JmsError, SpanwireError
from spanwire.model.ids import ConsumerId, ProducerId, SessionId, TransactionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo, ProducerInfo
from spanwire.protocols.base import REQUEST_STEPS, ConnectionSettings, ProtocolConnection
from spanwire.protocols.stomp.acknowledgement import Acknowledgement
from spanwire.protocols.stomp.codec.codec import FrameDecoder
from spanwire.protocols.stomp.codec.encoding import escaped
from spanwire.protocols.stomp.codec.errors import StompProtocolError, StompRequestError, error_frame
from spanwire.protocols.stomp.codec.frames import (
    ABORT,
    ACK,
    BEGIN,
    COMMIT,
    CONNECT,
    DISCONNECT,
    NACK,
    SEND,
    STOMP,
    SUBSCRIBE,
    UNSUBSCRIBE,
    V1_0,
    Frame,
    HeaderBlock,
)
from spanwire.protocols.stomp.destinations import DestinationNames
from spanwire.protocols.stomp.heart_beat import HeartBeat
from spanwire.protocols.stomp.layout import id_line
from spanwire.protocols.stomp.login import Login
from spanwire.protocols.stomp.send_headers import SendHeaders, new_message
from spanwire.protocols.stomp.states import BEFORE_LOGIN, CLOSED, LEAVING, OPEN, TRANSITIONS
from spanwire.protocols.stomp.subscription import AUTO, StompSubscription, SubscribeOptions, durable_name
from spanwire.protocols.stomp.transactions import NamedTransactions

MAX_PENDING_RECEIPTS: Final = 10_000  # withheld receipts of a client; beyond this number its bytes are not read
SESSION: Final = -1  # the hidden session of a STOMP client's consumers and producer
PRODUCER: Final = 1

logger = logging.getLogger(__name__)


class StompBrokerConnection(ClientConnection, ProtocolConnection):
    """The connection of a STOMP client.

    `FrameDecoder` decodes, `StompSubscription` writes MESSAGE frames, and the `Broker` handles messages.
    """

    def __init__(self, broker: Broker, settings: ConnectionSettings, now: Time) -> None:
        self._broker: Final[Broker] = broker
        self._settings: Final[ConnectionSettings] = settings
        self._decoder: Final[FrameDecoder] = FrameDecoder(settings.max_frame_size)
        self._frames: list[Frame] = []
        self._next_frame = 0
        self._out: Final[list[bytes]] = []
        self._state = BEFORE_LOGIN
        self._version = V1_0
        self._heart_beat = HeartBeat(0, 0)
        self._login_deadline: Final[float] = now.monotonic + settings.login_timeout
        self._last_received = now.monotonic
        self._last_sent = now.monotonic
        self._sending = False
        self._connection: ConnectionState | None = None
        self._connection_id = ""
        self._names = DestinationNames("")
        self._producer_id = ProducerId("", SESSION, PRODUCER)
        self._first_line = b""
        self._sequence = 0
        self._consumer_count = 0
        self._token = NO_TOKEN
        self._receipts: Final[dict[int, str]] = {}
        self._transactions = NamedTransactions("")
        self._subscriptions: Final[dict[int, StompSubscription]] = {}
        self._starting: Subscription | None = None
        self._goodbye: str | None = None
        self._awaited = NO_TOKEN  # token that a DISCONNECT waits for: a send without a receipt, finally the store
        self._awaits_store = False
        self._hurries = False

    def receive_data(self, data: bytes, now: Time) -> None:
        """Process bytes from the client and every frame that ``data`` completes."""
        if self._state == CLOSED:
            return
        self._last_received = now.monotonic
        if self.holds_requests and not data:
            return
        while self.holds_requests:  # the transport did not wait for `go_on`
            self._hurry()
            self.go_on(now)
        self._hurries = False
        self._frames = self._decoder.feed(data)
        self._next_frame = 0
        self._handle_all(now)

    def go_on(self, now: Time) -> None:
        """Process postponed frames."""
        if self.holds_requests:
            self._last_received = now.monotonic  # the client is not read meanwhile, so silence is no sign
            self._handle_all(now)

    @property
    def holds_requests(self) -> bool:
        """Return True while frames wait for the next turn, or for a commit or rollback over several turns."""
        return (self._next_frame < len(self._frames) or self._is_busy()) and self._state != CLOSED

    def _is_busy(self) -> bool:
        """Return True while a broker job of the client is unfinished; other requests of the client wait."""
        connection = self._connection
        return connection is not None and connection.job is not None

    def _is_held(self, frame: Frame) -> bool:
        """Return True if ``frame`` is a login that must wait for the end of the connection that it replaces."""
        if self._state != BEFORE_LOGIN or self._hurries or frame.block.command not in (CONNECT, STOMP):
            return False
        client_id = frame.block.headers.get("client-id")
        return bool(client_id) and self._broker.is_held(ConnectionInfo("", client_id))

    def _hurry(self) -> None:
        """Finish all waiting work at once."""
        self._hurries = True
        if self._connection is not None:
            self._broker.complete(self._connection)

    def _handle_all(self, now: Time) -> None:
        """Process frames until all are done or the share of the turn is used."""
        decoder = self._decoder
        broker = self._broker
        end = broker.steps + REQUEST_STEPS
        is_first = True  # of this turn: the decoder may hold some since the last one
        while True:
            frames = self._frames
            if self._is_busy():
                return
            while self._next_frame < len(frames):
                if broker.steps >= end or self._is_busy() or self._is_held(frames[self._next_frame]):
                    return
                self._next_frame += 1
                self._handle(frames[self._next_frame - 1], now)
            self._frames = []
            if self._state == CLOSED or self._is_busy():
                return
            failure = decoder.failure
            if failure is not None:
                self._fail(failure, None, now)
                return
            if not decoder.has_buffered_bytes or not (frames or is_first):
                return
            is_first = False
            self._frames = decoder.feed(b"")
            self._next_frame = 0

    def receive_eof(self, now: Time) -> None:
        """Release the broker resources of a closed connection."""
        self._state = CLOSED
        connection = self._connection
        if connection is not None:
            self._connection = None
            self._broker.remove_connection(connection, now)

    def data_to_send(self) -> list[bytes]:
        """Return the output and forget it."""
        chunks = self._out.copy()
        self._out.clear()
        self._sending = len(chunks) > 0
        return chunks

    def unsent(self, count: int) -> None:
        """Set the number of bytes that the transport has not sent yet."""
        now = self._broker.environment.now()
        if self._sending:
            self._sending = False
            self._last_sent = now.monotonic
        connection = self._connection
        if connection is not None:
            self._broker.output_progress(connection, count, now)

    def next_timeout(self) -> float | None:
        """Return the login deadline, or the time of the next heart-beat to send or to expect."""
        if self._state == BEFORE_LOGIN:
            return self._login_deadline
        if self._state == CLOSED:
            return None
        due = self._heart_beat.send_due(self._last_sent)
        silence_end = self._heart_beat.receive_due(self._last_received)
        if due is None or (silence_end is not None and silence_end < due):
            return silence_end
        return due

    def handle_timeout(self, now: Time) -> None:
        """Close a connection without a login or heart-beats; send a due heart-beat."""
        if self._state == BEFORE_LOGIN:
            if now.monotonic >= self._login_deadline:
                self._fail(StompProtocolError("No CONNECT arrived in time"), None, now)
            return
        if self._state == CLOSED:
            return
        if not self.wants_read:
            self._last_received = now.monotonic
        silence_end = self._heart_beat.receive_due(self._last_received)
        if silence_end is not None and now.monotonic >= silence_end:
            logger.info("connection of %s closed: no heart-beat in time", self._settings.remote_address)
            self._close(now)
            return
        due = self._heart_beat.send_due(self._last_sent)
        if due is not None and now.monotonic >= due:
            self._last_sent = now.monotonic
            self._write(b"\n")

    @property
    def wants_read(self) -> bool:
        """Return False while the broker has no space for the client's messages, or too many receipts are withheld."""
        connection = self._connection
        if connection is None:
            return True
        return not connection.reading_paused and len(self._receipts) < MAX_PENDING_RECEIPTS

    @property
    def closed(self) -> bool:
        """Return True once the transport should write the remaining output and close the socket."""
        return self._state == CLOSED

    @property
    def pending_bytes(self) -> int:
        """Return the bytes in memory of an incomplete frame."""
        return self._decoder.buffered_bytes

    def completed(self, token: int, error: SpanwireError | None) -> None:
        """Send the withheld receipt for ``token``, or the error."""
        receipt = self._receipts.pop(token, None)
        if token == self._awaited:
            self._awaited = NO_TOKEN
        if self._state == CLOSED:
            return
        if error is not None:
            self._write(error_frame(error, receipt, self._version))
            if self._awaits_store:
                self._goodbye = None
        elif receipt is not None:
            self._write(self._receipt(receipt))
        if self._state == LEAVING and not self._receipts and self._awaited == NO_TOKEN:
            self._leave(self._broker.environment.now())

    def close_with(self, error: SpanwireError) -> None:
        """Send an ERROR and close the connection."""
        if self._state != CLOSED:
            self._write(error_frame(error, None, self._version))
            self._state = CLOSED

    def _handle(self, frame: Frame, now: Time) -> None:
        if self._state == LEAVING or self._state == CLOSED:
            return
        try:
            done = self._act(frame, now)
        except JmsError as refusal:  # a compiled variable has one type, so the names differ
            if self._state == BEFORE_LOGIN:
                self._fail(refusal, frame.receipt, now)
            else:
                self._write(error_frame(refusal, frame.receipt, self._version))
            return
        except SpanwireError as failure:
            self._fail(failure, frame.receipt, now)
            return
        receipt = frame.receipt
        if receipt is not None and self._state == OPEN and frame.block.command not in (CONNECT, STOMP):
            if done:
                self._write(self._receipt(receipt))
            else:
                self._receipts[self._token] = receipt
        starting = self._starting
        if starting is not None:
            self._starting = None
            self._broker.start_consumer(starting, now)

    def _act(self, frame: Frame, now: Time) -> bool:
        """Execute a frame; return False if `completed` sends its receipt."""
        command = frame.block.command
        connection = self._connection
        if connection is not None:
            if command == SEND:
                return self._send(connection, frame, now)
            if command == ACK or command == NACK:
                return self._acknowledge(connection, frame, now)
        next_state = TRANSITIONS.get((self._state, command))
        if next_state is None:
            if command == CONNECT or command == STOMP:
                raise StompRequestError("Already connected.")
            raise StompProtocolError(f"Unknown STOMP action: {command}")
        if connection is None:
            self._login(frame, now)
        elif command == SUBSCRIBE:
            self._subscribe(connection, frame.block.headers, now)
            return self._answer_when_stored(connection, frame)
        elif command == UNSUBSCRIBE:
            self._unsubscribe(connection, frame.block.headers, now)
            return self._answer_when_stored(connection, frame)
        elif command == DISCONNECT:
            self._disconnect(connection, frame, now)
        else:
            return self._act_on_transaction(connection, frame, now)
        return True

    def _login(self, frame: Frame, now: Time) -> None:
        login = Login(frame)
        connection_id = self._broker.ids.next_id()
        connection = self._broker.add_connection(self, login.connection_info(connection_id, self._settings), now)
        self._connection = connection
        self._connection_id = connection_id
        self._names = DestinationNames(connection_id)
        self._producer_id = ProducerId(connection_id, SESSION, PRODUCER)
        self._first_line = id_line(self._producer_id)
        self._broker.add_session(connection, SessionId(connection_id, SESSION))
        self._broker.add_producer(connection, ProducerInfo(self._producer_id), now)
        self._transactions = NamedTransactions(connection_id)
        self._state = OPEN
        self._version = login.version
        self._heart_beat = login.heart_beat
        self._last_sent = now.monotonic
        self._decoder.accept(login.version)
        self._write(login.answer(connection_id))

    def _send(self, connection: ConnectionState, frame: Frame, now: Time) -> bool:
        prepared = frame.block.prepared
        if isinstance(prepared, SendHeaders):
            headers = prepared
        else:
            headers = self._prepare(frame.block)
            self._make_temporary(connection, now)
            frame.block.prepared = headers
        transaction_id: TransactionId | None = None
        if headers.transaction is not None:
            transaction_id = self._transactions.find(headers.transaction)
        self._sequence += 1
        message = new_message(headers, self._producer_id, self._sequence, self._first_line, frame, now.wall_ms)
        token = self._next_token() if frame.receipt is not None else NO_TOKEN
        return self._broker.send(connection, message, transaction_id, token, now)

    def _answer_when_stored(self, connection: ConnectionState, frame: Frame) -> bool:
        """Return True if a change of a durable subscription is stored or needs no receipt.

        Otherwise the receipt is withheld.
        """
        if frame.receipt is None or durable_name(frame.block.headers) is None:
            return True
        return self._broker.answer_when_stored(connection, self._next_token())

    def _subscribe(self, connection: ConnectionState, headers: dict[str, str], now: Time) -> None:
        options = SubscribeOptions(headers, self._version)
        destination = self._resolve(options.destination)
        self._make_temporary(connection, now)
        self._consumer_count += 1
        number = self._consumer_count
        if options.durable_name is not None and connection.info.client_id == self._connection_id:
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
        consumer.broker_side = self._broker.add_consumer(connection, info, consumer, now, options.ack_mode == AUTO)
        self._starting = consumer.broker_side
        self._subscriptions[number] = consumer

    def _unsubscribe(self, connection: ConnectionState, headers: dict[str, str], now: Time) -> None:
        durable = durable_name(headers)
        if durable is not None:
            self._broker.unsubscribe(connection, durable, now)
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
            self._make_temporary(connection, now)
            matched = [each for each in self._subscriptions.values() if each.destination == destination]
        if not matched:
            raise StompRequestError("No subscription matched.")
        for subscription in matched:
            del self._subscriptions[subscription.number]
            consumer_id = ConsumerId(self._connection_id, SESSION, subscription.number)
            self._broker.remove_consumer(connection, consumer_id, LAST_DELIVERED_UNKNOWN, now)

    def _acknowledge(self, connection: ConnectionState, frame: Frame, now: Time) -> bool:
        acknowledgement = Acknowledgement(frame.block.command, frame.block.headers, self._version)
        transaction_id: TransactionId | None = None
        name = frame.block.headers.get("transaction")
        if name is not None:
            transaction_id = self._transactions.find(name)
        token = self._next_token() if frame.receipt is not None else NO_TOKEN
        last = acknowledgement.message_id
        for subscription in acknowledgement.candidates(self._subscriptions):
            broker_side = subscription.broker_side
            if broker_side is None:
                continue
            ack_type = acknowledgement.ack_type(subscription.ack_mode)
            first = None if ack_type == STANDARD_ACK else last
            try:
                return self._broker.acknowledge(
                    connection, broker_side, ack_type, first, last, 1, transaction_id, token, now
                )
            except IllegalStateError:
                continue
        raise acknowledgement.unexpected()

    def _act_on_transaction(self, connection: ConnectionState, frame: Frame, now: Time) -> bool:
        command = frame.block.command
        name = frame.block.headers.get("transaction")
        if name is None:
            doing = {BEGIN: "beginning", COMMIT: "committing", ABORT: "aborting"}[command]
            raise StompRequestError(f"Must specify the transaction you are {doing}")
        if command == BEGIN:
            begun = self._transactions.next_id(name)
            self._broker.begin(connection, begun)
            self._transactions.begun(name, begun)
            return True
        transaction_id = self._transactions.take(name)
        if command == ABORT:
            self._broker.rollback(connection, transaction_id, now)
            return True
        token = self._next_token() if frame.receipt is not None else NO_TOKEN
        return self._broker.commit(connection, transaction_id, token, now)

    def _disconnect(self, connection: ConnectionState, frame: Frame, now: Time) -> None:
        """Handle a DISCONNECT; its receipt is withheld until all earlier frames are finished and stored.

        This includes parked sends without a receipt.
        """
        self._state = LEAVING
        self._goodbye = frame.receipt
        token = self._next_token()
        if connection.answer_last_parked(token):
            self._awaited = token
        elif not self._receipts:
            self._leave(now)

    def _leave(self, now: Time) -> None:
        """Finish a DISCONNECT after all earlier frames."""
        connection = self._connection
        if connection is not None and self._goodbye is not None and not self._awaits_store:
            self._awaits_store = True
            token = self._next_token()
            if not self._broker.answer_when_stored(connection, token):
                self._awaited = token
                return
        self._say_goodbye(now)

    def _say_goodbye(self, now: Time) -> None:
        if self._goodbye is not None:
            self._write(self._receipt(self._goodbye))
        self._close(now)

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

    def _make_temporary(self, connection: ConnectionState, now: Time) -> None:
        """Create newly named temporary destinations."""
        for destination in self._names.take_fresh():
            self._broker.add_destination(connection, destination, now)

    def _next_token(self) -> int:
        self._token += 1
        return self._token

    def _receipt(self, receipt: str) -> bytes:
        return f"RECEIPT\nreceipt-id:{escaped(receipt, self._version)}\n\n\0".encode()

    def _write(self, data: bytes) -> None:
        self._out.append(data)
        connection = self._connection
        if connection is not None:
            self._broker.mark_dirty(connection)

    def _fail(self, error: SpanwireError, receipt: str | None, now: Time) -> None:
        """Send an ERROR and close the connection after a fatal error."""
        if self._state == BEFORE_LOGIN:
            self._broker.unfinished_logins.ended(self._settings.remote_address, "STOMP", str(error), now.monotonic)
        else:
            logger.info("connection of %s closed: %s", self._settings.remote_address, error)
        self._write(error_frame(error, receipt, self._version))
        self._close(now)

    def _close(self, now: Time) -> None:
        self._state = CLOSED
        connection = self._connection
        if connection is not None:
            self._connection = None
            self._broker.remove_connection(connection, now)
