"""The broker's side of a STOMP connection: frames in, `Broker` calls, frames out.

See STOMP 1.2, "Client Frames".

``states.py`` defines the frames allowed in each state, ``client_commands.py`` executes the frames of a client; their
answers were observed on ActiveMQ.

A RECEIPT is written after the broker has finished the request: for a persistent SEND, after the sync.
"""

from __future__ import annotations

import logging
from typing import Final

from mypy_extensions import i64

from spanwire.broker.broker import Broker
from spanwire.broker.ports import NO_TOKEN, ClientConnection
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.protocols.base import REQUEST_STEPS, ConnectionSettings, ProtocolConnection
from spanwire.protocols.stomp.client_commands import ClientCommands
from spanwire.protocols.stomp.codec.codec import FrameDecoder
from spanwire.protocols.stomp.codec.encoding import escaped
from spanwire.protocols.stomp.codec.errors import StompProtocolError, error_frame
from spanwire.protocols.stomp.codec.frames import ACK, CONNECT, DISCONNECT, NACK, STOMP, V1_0, AckRun, Frame
from spanwire.protocols.stomp.heart_beat import HeartBeat
from spanwire.protocols.stomp.login import Login
from spanwire.protocols.stomp.states import State, next_state

MAX_PENDING_RECEIPTS: Final = 10_000  # withheld receipts of a client; beyond this number its bytes are not read

logger = logging.getLogger(__name__)


class StompBrokerConnection(ClientConnection, ProtocolConnection):
    """The connection of a STOMP client.

    `FrameDecoder` decodes, `ClientCommands` executes frames, `StompSubscription` writes MESSAGE frames.
    """

    def __init__(self, broker: Broker, settings: ConnectionSettings, now: Time) -> None:
        self._broker: Final[Broker] = broker
        self._settings: Final[ConnectionSettings] = settings
        self._decoder: Final[FrameDecoder] = FrameDecoder(settings.max_frame_size)
        self._frames: list[Frame] = []
        self._next_frame = 0
        self._out: Final[list[bytes]] = []
        self._state = State.LOGIN
        self._is_closed = False
        self._is_paused = False  # a job of the client is unfinished
        self._version = V1_0
        self._heart_beat = HeartBeat(0, 0)
        self._login_deadline: Final[float] = now.monotonic + settings.login_timeout
        self._last_received = now.monotonic
        self._last_sent = now.monotonic
        self._sending = False
        self._client: ClientCommands | None = None
        self._working: ClientCommands | None = None
        self._receipts: Final[dict[int, str]] = {}
        self._goodbye: str | None = None
        self._awaited = NO_TOKEN  # token that a DISCONNECT waits for: a send without a receipt, finally the store
        self._awaits_store = False
        self._hurries = False

    def receive_data(self, data: bytes, now: Time) -> None:
        """Process bytes from the client and every completed frame."""
        if self._is_closed:
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
        return (self._next_frame < len(self._frames) or self._is_busy()) and not self._is_closed

    def _is_busy(self) -> bool:
        """Return True while a broker job of the client is unfinished; other requests of the client wait."""
        client = self._client
        return client is not None and client.state.job is not None

    def _is_held(self, frame: Frame, now: Time) -> bool:
        """Return True if ``frame`` is a login that must wait.

        A login waits for a directory or the end of a replaced connection.
        """
        if self._state is not State.LOGIN or self._hurries or frame.block.command not in (CONNECT, STOMP):
            return False
        try:
            info = Login(frame, self._settings.options).connection_info("", self._settings)
        except SpanwireError:
            return False  # the login is refused at once for the error
        return self._broker.is_held(self, info, now)

    def _hurry(self) -> None:
        """Finish all waiting work at once."""
        self._hurries = True
        if self._client is not None:
            self._broker.complete(self._client.state)

    def _handle_all(self, now: Time) -> None:
        """Process frames until all are done or the share of the turn is used."""
        decoder = self._decoder
        end = self._broker.steps + REQUEST_STEPS
        self._is_paused = self._is_busy()
        is_first = True  # of this turn: the decoder may hold some since the last one
        while not self._is_paused:
            count = len(self._frames)
            self._handle_decoded(end, now)
            if self._next_frame < count:
                return
            self._frames = []
            if self._is_paused or self._is_closed:
                return
            failure = decoder.failure
            if failure is not None:
                self._fail(failure, None, now)
                return
            if not decoder.has_buffered_bytes or not (count > 0 or is_first):
                return
            is_first = False
            self._frames = decoder.feed(b"")
            self._next_frame = 0

    def _handle_decoded(self, end: int, now: Time) -> None:
        """Process decoded frames until the broker has done ``end`` steps or the connection is paused."""
        broker = self._broker
        frames = self._frames
        count: i64 = len(frames)
        index: i64 = self._next_frame
        while index < count and broker.steps < end and not self._is_paused:
            frame = frames[index]
            if self._working is None and self._is_held(frame, now):
                break
            index += 1
            self._handle(frame, now)
        self._next_frame = index

    def receive_eof(self, now: Time) -> None:
        """Release the broker resources of a closed connection."""
        self._broker.assembly.logins.forget(self)
        self._close(now)

    def data_to_send(self) -> list[bytes]:
        """Return and forget the output."""
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
        client = self._client
        if client is not None:
            self._broker.output_progress(client.state, count, now)

    def next_timeout(self) -> float | None:
        """Return the login deadline, or the time of the next heart-beat to send or to expect."""
        if self._is_closed:
            return None
        if self._client is None:
            return self._login_deadline
        due = self._heart_beat.send_due(self._last_sent)
        silence_end = self._heart_beat.receive_due(self._last_received)
        if due is None or (silence_end is not None and silence_end < due):
            return silence_end
        return due

    def handle_timeout(self, now: Time) -> None:
        """Close a connection without a login or heart-beats; send a due heart-beat."""
        if self._is_closed:
            return
        if self._client is None:
            if now.monotonic >= self._login_deadline:
                self._fail(StompProtocolError("No CONNECT arrived in time"), None, now)
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
        """Return False while the broker has no space for the client's messages.

        Too many withheld receipts have the same result.
        """
        client = self._client
        if client is None:
            return True
        return not client.state.reading_paused and len(self._receipts) < MAX_PENDING_RECEIPTS

    @property
    def closed(self) -> bool:
        """Return True once the transport should write the remaining output and close the socket."""
        return self._is_closed

    @property
    def pending_bytes(self) -> int:
        """Return the bytes in memory of an incomplete frame."""
        return self._decoder.buffered_bytes

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """Send the withheld receipt for ``token``, or the error."""
        receipt = self._receipts.pop(token, None)
        if token == self._awaited:
            self._awaited = NO_TOKEN
        if self._is_closed:
            return
        if error is not None:
            self._write(error_frame(error, receipt, self._version))
            if self._awaits_store:
                self._goodbye = None
        elif receipt is not None:
            self._write(self._receipt(receipt))
        if self._working is None and not self._receipts and self._awaited == NO_TOKEN:  # after a DISCONNECT
            self._leave(self._broker.environment.now())

    def close_with(self, error: SpanwireError) -> None:
        """Send an ERROR and close the connection."""
        if not self._is_closed:
            self._write(error_frame(error, None, self._version))
            self._enter(State.CLOSED)

    def _handle(self, frame: Frame, now: Time) -> None:
        """Execute a frame, and send the receipt or error."""
        working = self._working
        if working is None and self._state is not State.LOGIN:
            return
        try:
            done = self._act(frame, now)
        except JmsError as refusal:  # a compiled variable has one type, so the names differ
            if self._state is State.LOGIN:
                self._fail(refusal, frame.receipt, now)
            else:
                self._write(error_frame(refusal, frame.receipt, self._version))
            self._is_paused = self._is_busy()
            return
        except SpanwireError as failure:
            self._fail(failure, frame.receipt, now)
            return
        if working is None:
            return
        receipt = frame.receipt
        if receipt is not None and self._working is not None:
            if done:
                self._write(self._receipt(receipt))
            else:
                self._receipts[working.token] = receipt
        starting = working.starting
        if starting is not None:
            working.starting = None
            self._broker.start_consumer(starting, now)

    def _act(self, frame: Frame, now: Time) -> bool:
        """Execute a frame; return False if `on_completed` sends its receipt."""
        command = frame.block.command
        working = self._working
        if working is not None:  # the most frequent frames; all three are in the table, and none starts a job
            if frame.block.is_send:
                return working.send(frame, now)
            if isinstance(frame, AckRun):
                self._take_acks(working, frame, now)
                return True
            if command == ACK or command == NACK:
                return working.acknowledge(frame, now)
        following = next_state(self._state, command)
        done = True
        if working is None:
            self._log_in(frame, now)
        elif command == DISCONNECT:
            self._disconnect(working, frame, now)
        else:
            done = working.act(frame, now)
        if not self._is_closed:
            self._enter(following)
        self._is_paused = self._is_busy()
        return done

    def _take_acks(self, client: ClientCommands, run: AckRun, now: Time) -> None:
        """Execute a run of acknowledgements; acknowledgements not fit for the run are executed one by one."""
        taken = client.acknowledge_run(run, now)
        if taken == run.numbers.size:
            return
        for number in run.numbers.after(taken):
            self._handle(run.frame(number), now)

    def _log_in(self, frame: Frame, now: Time) -> None:
        login = Login(frame, self._settings.options)
        connection_id = self._broker.ids.next_id()
        state = self._broker.add_connection(self, login.connection_info(connection_id, self._settings), now)
        self._client = ClientCommands(self._broker, state, login.version, self._out)
        self._client.begin(now)
        self._version = login.version
        self._heart_beat = login.heart_beat
        self._last_sent = now.monotonic
        self._decoder.accept(login.version)
        self._write(login.answer(connection_id))

    def _disconnect(self, client: ClientCommands, frame: Frame, now: Time) -> None:
        """Handle a DISCONNECT; the receipt is withheld until all earlier frames are finished and stored.

        Parked sends without a receipt are included.
        """
        self._goodbye = frame.receipt
        token = client.next_token()
        if client.state.answer_last_parked(token):
            self._awaited = token
        elif not self._receipts:
            self._leave(now)

    def _leave(self, now: Time) -> None:
        """Finish a DISCONNECT after all earlier frames."""
        client = self._client
        if client is not None and self._goodbye is not None and not self._awaits_store:
            self._awaits_store = True
            token = client.next_token()
            if not self._broker.answer_when_stored(client.state, token):
                self._awaited = token
                return
        self._say_goodbye(now)

    def _say_goodbye(self, now: Time) -> None:
        if self._goodbye is not None:
            self._write(self._receipt(self._goodbye))
        self._close(now)

    def _receipt(self, receipt: str) -> bytes:
        return f"RECEIPT\nreceipt-id:{escaped(receipt, self._version)}\n\n\0".encode()

    def _write(self, data: bytes) -> None:
        self._out.append(data)
        client = self._client
        if client is not None:
            self._broker.mark_dirty(client.state)

    def _fail(self, error: SpanwireError, receipt: str | None, now: Time) -> None:
        """Send an ERROR and close the connection after a fatal error."""
        if self._state is State.LOGIN:
            self._broker.assembly.unfinished_logins.ended(
                self._settings.remote_address, "STOMP", str(error), now.monotonic
            )
        else:
            logger.info("connection of %s closed: %s", self._settings.remote_address, error)
        self._write(error_frame(error, receipt, self._version))
        self._close(now)

    def _close(self, now: Time) -> None:
        self._enter(State.CLOSED)
        client = self._client
        if client is not None:
            self._client = None
            self._broker.remove_connection(client.state, now)

    def _enter(self, state: State) -> None:
        """Enter ``state``; all changes of state pass here."""
        self._state = state
        self._working = self._client if state is State.CONNECTED else None
        self._is_closed = state is State.CLOSED
