"""The broker's end of a WebSocket with STOMP inside, without a socket (RFC 6455).

Bytes of the socket, or of TLS, and time go in; bytes come out. `WebSocketConnection` is a protocol connection itself,
so admission, deadlines, the receive budget and the pump treat it like any other. The inner connection gets the contents
of text and binary messages as one stream of bytes, because a client may put a part of a STOMP frame, or several, into
one. It is created after the handshake, with the time at which the socket was opened: one deadline covers handshake and
login.

A message is passed on in pieces, and many small frames over several turns, so no client keeps the loop for long.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from websockets.frames import CloseCode
from websockets.protocol import OPEN

from spanwire.model.environment import Time
from spanwire.protocols.base import MAX_STOMP_FRAME_BEFORE_LOGIN, ConnectionSettings, ProtocolConnection
from spanwire.protocols.detect import Report
from spanwire.transports.base import CLOSE_LINGER, MAX_BYTES_PER_CALLBACK, Carrier, ConnectionFactory
from spanwire.transports.websocket.handshake import Handshake
from spanwire.transports.websocket.input import CONTINUATION, TEXT, DataFrame, FrameInput
from spanwire.transports.websocket.output import Utf8Checker, messages

logger = logging.getLogger(__name__)

HANDSHAKE_DEADLINE: Final = 10.0  # seconds; a shorter login deadline of the connector limits the handshake, too
MAX_FRAMES_PER_TURN: Final = 1_000  # frames of a client parsed in one turn; take 2 ms, and fragments 4 ms
MAX_UNREAD_PONGS: Final = 64 * 1024  # bytes of pongs for a client that pings and reads no answer
MAX_FRAME_HEADER: Final = 14  # bytes; flags, length in 8 bytes, mask
MILLISECONDS: Final = 1000


class WebSocketConnection:
    """Carries a STOMP connection, made by ``factory``.

    Pages of ``origins`` may connect, and all programs.

    ``report`` is called with the reason of each connection with an end before the WebSocket is open. A client silent
    for the connector's time of inactivity is pinged, and closed after another such time.
    """

    def __init__(
        self,
        factory: ConnectionFactory,
        settings: ConnectionSettings,
        origins: Sequence[str],
        report: Report,
        now: Time,
    ) -> None:
        self._factory: Final = factory
        self._settings: Final = settings
        self._report: Final = report
        self._started: Final = now
        self._timeout: Final = min(HANDSHAKE_DEADLINE, settings.login_timeout)
        self._handshake: Final = Handshake(origins, settings.max_frame_size)
        self._protocol: Final = self._handshake.protocol
        self._inner: ProtocolConnection | None = None
        self._input: Final = FrameInput(self._protocol, settings.max_frame_size)
        self._contents: Final[deque[bytes | memoryview]] = deque()  # of messages, for the inner connection
        self._contents_bytes = 0
        self._text: Utf8Checker | None = None  # of a text message in the middle of a character
        self._is_text = False  # the message under way
        self._has_logged_in = False
        self._closed = False
        self._has_peer_ended = False
        self._close_deadline: float | None = None  # for the client's part of the closing handshake
        self._heard = now.monotonic
        self._is_pinged = False
        self._unread_pongs = 0
        self._unsent_bytes = 0

    @property
    def carried(self) -> object:
        """The connection known to the broker: the innermost connection, before the handshake the WebSocket."""
        inner = self._inner
        if inner is None:
            return self
        return inner.carried if isinstance(inner, Carrier) else inner

    def note_peer_end(self) -> None:
        """Note the client's end of sending; all received bytes are passed on now."""
        self._has_peer_ended = True

    def receive_data(self, data: bytes, now: Time) -> None:
        """Parse bytes of the client and pass the contents of messages on."""
        if self._closed:
            return
        self._heard = now.monotonic
        self._is_pinged = False
        if self._inner is None:
            data = self._shake_hands(data, now)
        elif not data:
            self._inner.receive_data(data, now)
        if data and not self._closed:
            self._input.receive(data)
            self._advance(now)

    def go_on(self, now: Time) -> None:
        """Let the inner connection act on held requests, then pass on the waiting bytes."""
        inner = self._inner
        if inner is None or self._closed:
            return
        if inner.holds_requests:
            inner.go_on(now)
            self._check_end(inner, now)
        else:
            self._advance(now)

    def receive_eof(self, now: Time) -> None:
        """Release the inner connection, because the client closed the socket."""
        self._closed = True
        self._forget_input()
        if self._inner is not None:
            self._inner.receive_eof(now)

    def data_to_send(self) -> list[bytes]:
        """Return handshake, pongs and messages in order, and forget the output."""
        inner = self._inner
        protocol = self._protocol
        output = [data for data in protocol.data_to_send() if data]  # an empty one stands for the end
        if inner is None or protocol.state is not OPEN:
            return output
        self._unread_pongs += sum(map(len, output))
        chunks = inner.data_to_send()
        if chunks:
            output += messages(chunks)
        if inner.closed:
            protocol.send_close(CloseCode.NORMAL_CLOSURE)
            output += protocol.data_to_send()
        elif chunks:
            self._has_logged_in = True  # STOMP says nothing before, but for an error before its end
        elif not self._has_logged_in and self.pending_bytes > MAX_STOMP_FRAME_BEFORE_LOGIN + MAX_FRAME_HEADER:
            protocol.fail(CloseCode.MESSAGE_TOO_BIG, "before the login")
            output += [data for data in protocol.data_to_send() if data]
            self._end("a message before the login is too large")
        return output

    def unsent(self, count: int) -> None:
        """Note ``count`` unsent bytes; the headers of frames are few of the bytes."""
        self._unsent_bytes = count
        if count == 0:
            self._unread_pongs = 0
        if self._inner is not None:
            self._inner.unsent(count)

    def next_timeout(self) -> float | None:
        """Return the deadline of the handshake, of the inner protocol, of a ping, or of the closing handshake."""
        if self._closed:
            return None
        inner = self._inner
        if inner is None:
            return self._started.monotonic + self._timeout
        if self._close_deadline is not None:
            return self._close_deadline
        if inner.closed:
            return 0.0  # at once: the closing handshake needs a deadline
        due = inner.next_timeout()
        silence_end = self._silence_end()
        if due is None or (silence_end is not None and silence_end < due):
            return silence_end
        return due

    def handle_timeout(self, now: Time) -> None:
        """Close a client with a late handshake, login, closing handshake or pong; ping a silent client."""
        inner = self._inner
        if self._closed:
            return
        if inner is None:
            if now.monotonic >= self._started.monotonic + self._timeout:
                self._closed = True
                self._report(f"the WebSocket handshake did not end within {self._timeout:g} s", now)
            return
        if self._close_deadline is not None:
            self._closed = self._closed or now.monotonic >= self._close_deadline
            return
        if not inner.closed:
            inner.handle_timeout(now)
            self._check_silence(inner, now)
        self._check_end(inner, now)

    @property
    def holds_requests(self) -> bool:
        """True while the inner connection holds requests, or wants the waiting bytes."""
        inner = self._inner
        if self._closed or inner is None or inner.closed:
            return False
        if inner.holds_requests:
            return True
        is_last = self._has_peer_ended or self._protocol.state is not OPEN
        return (bool(self._contents) or self._input.has_more) and (is_last or inner.wants_read)

    @property
    def wants_read(self) -> bool:
        """True while the inner protocol wants to read, and while the end of the closing handshake is awaited."""
        return self._inner is None or self._close_deadline is not None or self._inner.wants_read

    @property
    def closed(self) -> bool:
        """True if the socket is to be closed."""
        return self._closed

    @property
    def pending_bytes(self) -> int:
        """The bytes of incomplete frames of both layers, and the waiting bytes of a later turn."""
        inner = self._inner
        if inner is None:
            return self._handshake.pending_bytes
        return self._contents_bytes + self._input.waiting_bytes + inner.pending_bytes

    def _shake_hands(self, data: bytes, now: Time) -> bytes:
        """Pass bytes to the handshake; return the bytes behind the end of the handshake."""
        handshake = self._handshake
        rest = handshake.receive_data(data)
        if handshake.refusal is not None:
            self._closed = True
            self._report(handshake.refusal, now)
        elif handshake.is_accepted:
            self._inner = self._factory(self._settings, self._started)
        return rest

    def _advance(self, now: Time) -> None:
        """Parse frames, and pass the contents of one piece of `MAX_BYTES_PER_CALLBACK` bytes on."""
        inner = self._inner
        assert inner is not None
        if not self._contents:
            for frame in self._input.frames(MAX_FRAMES_PER_TURN):
                if not self._takes(frame):
                    break
        if self._contents and not inner.closed:
            inner.receive_data(self._next_piece(), now)
        self._check_end(inner, now)

    def _takes(self, frame: DataFrame) -> bool:
        """Keep the contents of a frame, and return True. A text other than UTF-8 ends the connection (section 8.1)."""
        data = frame.data
        if frame.opcode != CONTINUATION:
            self._is_text = frame.opcode == TEXT
        if self._is_text and (self._text is not None or not data.isascii()) and not self._is_text_on(frame):
            self._protocol.fail(CloseCode.INVALID_DATA, "a text is no UTF-8")
            return False
        self._contents_bytes += len(data)
        if 0 < len(data) <= MAX_BYTES_PER_CALLBACK:
            self._contents.append(data)
        else:
            view = memoryview(data)
            for start in range(0, len(view), MAX_BYTES_PER_CALLBACK):
                self._contents.append(view[start : start + MAX_BYTES_PER_CALLBACK])
        return True

    def _is_text_on(self, frame: DataFrame) -> bool:
        """Return True if a frame continues a text; the last frame of a text ends between two characters."""
        checker = Utf8Checker() if self._text is None else self._text
        is_valid = checker.takes(frame.data)
        is_between = checker.is_at_end_of_character
        self._text = None if is_between else checker
        return is_valid and (is_between or not frame.is_last)

    def _next_piece(self) -> bytes:
        """Take the contents of small frames together, or the next part of a large one."""
        contents = self._contents
        pieces = [contents.popleft()]
        size = len(pieces[0])
        while contents and size + len(contents[0]) <= MAX_BYTES_PER_CALLBACK:
            size += len(contents[0])
            pieces.append(contents.popleft())
        self._contents_bytes -= size
        return b"".join(pieces)

    def _silence_end(self) -> float | None:
        """Return the time to ping a silent client, or to close it."""
        interval = self._settings.max_inactivity_ms / MILLISECONDS
        if not interval:
            return None
        return self._heard + interval * (2 if self._is_pinged else 1)

    def _check_silence(self, inner: ProtocolConnection, now: Time) -> None:
        """Ping a silent client, and close a client without an answer.

        No answer can arrive while the client is not read, or has not yet read the bytes before the ping.
        """
        silence_end = self._silence_end()
        if silence_end is None or now.monotonic < silence_end:
            return
        if not inner.wants_read or self._unsent_bytes:
            self._heard = now.monotonic
        elif self._is_pinged:
            self._end(f"it did not answer a ping within {self._settings.max_inactivity_ms / MILLISECONDS:g} s")
        elif self._protocol.state is OPEN:
            self._is_pinged = True
            self._protocol.send_ping(b"")

    def _check_end(self, inner: ProtocolConnection, now: Time) -> None:
        """Go on with the end of the connection, begun by either side."""
        protocol = self._protocol
        if self._unread_pongs > MAX_UNREAD_PONGS:
            self._end("it pings and does not read the pongs")
        elif inner.closed:
            self._forget_input()
            if protocol.close_rcvd is not None or protocol.eof_sent:
                self._closed = True
            elif self._close_deadline is None:
                self._close_deadline = now.monotonic + CLOSE_LINGER
        elif protocol.state is not OPEN and not self._contents and not inner.holds_requests:
            if protocol.close_rcvd is None or protocol.parser_exc is not None:
                self._end(f"WebSocket error {protocol.close_sent}")
            self._closed = True

    def _end(self, reason: str) -> None:
        """Close at once, and log ``reason``."""
        if not self._closed:
            self._closed = True
            logger.info("connection of %s closed: %s", self._settings.remote_address, reason)

    def _forget_input(self) -> None:
        self._input.forget()
        self._contents.clear()
        self._contents_bytes = 0
