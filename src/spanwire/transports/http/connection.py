"""The broker's end of one HTTP socket of a tunnel, without the socket (RFC 9112).

| request | answer |
|---|---|
| HEAD    | 200; opens the session named by the header clientID |
| OPTIONS | 200 with ``Accepts-Encoding: gzip``: commands may be sent compressed |
| POST    | 200, as soon as the broker has taken the command |
| GET     | 200 with a 32-bit length and one command, as soon as a command is there |

A `spanwire.transports.http.requests.RequestReader` reads and writes HTTP. A connection does one request after another;
requests behind a waiting request stay in the reader. So do requests of a client with unread answers, and requests
beyond the time of a turn.
"""

from __future__ import annotations

import enum
import zlib
from typing import Final, Protocol

from spanwire.model.environment import Time
from spanwire.protocols.base import MAX_OPENWIRE_FRAME_BEFORE_LOGIN, ConnectionSettings
from spanwire.protocols.detect import Report
from spanwire.protocols.openwire.codec._marshallers import WIRE_FORMAT_INFO
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.frames import SIZE_OCTETS
from spanwire.protocols.openwire.xstream.reader import XmlReader
from spanwire.protocols.openwire.xstream.writer import XmlWriter
from spanwire.transports.admission import is_loopback
from spanwire.transports.http.requests import END, Event, Head, NeedsData, RefusedRequest, RequestReader
from spanwire.transports.http.session import TunnelSession

MAX_CLIENT_ID: Final = 255  # characters of a name of a session; Java's have about 60
MAX_BODY_WITHOUT_SESSION: Final = 64 * 1024  # bytes that are read before the answer that there is no session
MAX_WAITING_INPUT: Final = 64 * 1024  # bytes of requests behind one that waits; then the kernel keeps them
MAX_UNREAD_ANSWERS: Final = 64 * 1024  # bytes that a client has not read; then its next request waits
MAX_EVENTS_PER_TURN: Final = 100  # heads, parts of a body and ends of requests; take some 5 ms
IDLE_SECONDS: Final = 60.0  # between two requests of a socket; Jetty has 30, pools of HTTP clients ask before reuse
BODY_SECONDS: Final = 30.0  # between two reads of one body
GZIP_BITS: Final = 31  # zlib's number for gzip
GZIP_TYPES: Final = (b"application/x-gzip", b"application/gzip")
NO_SESSION: Final = "there is no such session; a HEAD request opens one"
ENDED_SESSION: Final = "the session has ended"
PAGE_HEADERS: Final = (b"origin", b"sec-fetch-site")  # browsers send one of them with each POST, programs neither
LOCAL_HOST: Final = "localhost"
CLIENT_ID: Final = b"clientid"  # the header, in lower case
SESSION_METHODS: Final = (b"GET", b"POST")
METHODS: Final = "GET, HEAD, OPTIONS, POST"


class Sessions(Protocol):
    """The table of sessions (`spanwire.transports.http.tunnel.Tunnel`)."""

    def open(self, name: str, settings: ConnectionSettings, now: Time) -> None:
        """Open a session; raises `RefusedRequest`."""
        ...

    def find(self, name: str, settings: ConnectionSettings) -> TunnelSession | None:
        """Return the session of a client, or None."""
        ...

    def now(self) -> Time:
        """Return the time of the turn."""
        ...


class Phase(enum.Enum):
    """The state of the current request."""

    READING = enum.auto()  # the request is incomplete
    POLLING = enum.auto()  # a GET waits for a command
    HOLDING = enum.auto()  # a POST waits until the broker takes its command
    CLOSED = enum.auto()


class HttpConnection:
    """One socket of a tunnel, in the shape of `spanwire.protocols.base.ProtocolConnection`.

    ``report`` is called with the reason of each refused request. With ``is_local`` only programs of the same machine
    reach the port, so a request has the machine as host. A page with a host name that leads here by a change of address
    (DNS rebinding) names that host.
    """

    def __init__(
        self,
        sessions: Sessions,
        settings: ConnectionSettings,
        report: Report,
        now: Time,
        requests: RequestReader,
        *,
        is_local: bool = False,
    ) -> None:
        self._is_local: Final = is_local
        self._sessions: Final = sessions
        self._settings: Final = settings
        self._report: Final = report
        self._requests: Final = requests
        self._phase = Phase.READING
        self._deadline = now.monotonic + settings.login_timeout
        self._output: list[bytes] = []
        self._output_bytes = 0
        self._unsent_bytes = 0  # that the kernel has not taken
        self._has_more = False  # bytes in the reader wait for a later turn
        self._request: Head | None = None  # whose body is being read
        self._is_head = False
        self._local_host: bytes | None = None  # the last Host header that named this machine; nearly all are alike
        self._body = bytearray()
        self._body_limit = 0
        self._session: TunnelSession | None = None  # of the current request
        self._held = b""  # the command of a POST that waits
        self._reader: Final = XmlReader()
        self._writer: Final = XmlWriter()

    # The methods of ProtocolConnection.

    def receive_data(self, data: bytes, now: Time) -> None:
        """Process bytes of the client."""
        if self._phase is Phase.CLOSED or not data:
            return
        self._requests.receive(data)
        self._advance(now)

    def go_on(self, now: Time) -> None:
        """Pass on the command of a waiting POST, and process the requests behind the POST."""
        if self._phase is Phase.HOLDING:
            self._pass_on(now)
        self._advance(now)

    def receive_eof(self, now: Time) -> None:
        """Note the end of the socket. A client with a waiting GET has gone, and the session ends."""
        phase, self._phase = self._phase, Phase.CLOSED
        self._requests.close()
        session = self._session
        if session is not None and phase is Phase.HOLDING:
            session.hold_no_more(self)
            self._held = b""
        if session is not None and phase is Phase.POLLING:
            session.wait_no_more(self)
            session.leave()

    def data_to_send(self) -> list[bytes]:
        """Answer a waiting GET, if there is a command, and return the output."""
        if self._phase is Phase.POLLING:
            self._look_for_command()
        output, self._output = self._output, []
        self._output_bytes = 0
        return output

    def unsent(self, count: int) -> None:
        """Note the bytes of answers not read by the client."""
        self._unsent_bytes = count

    def next_timeout(self) -> float | None:
        """Return the deadline of the request in the reader."""
        return self._deadline if self._phase is Phase.READING else None

    def handle_timeout(self, now: Time) -> None:
        """Close an idle socket, or a socket without a complete request in time."""
        if self._phase is Phase.READING and now.monotonic >= self._deadline:
            if self._request is not None:
                self._refuse(RefusedRequest(408, "the request was not complete in time"), now)
            self._phase = Phase.CLOSED

    @property
    def holds_requests(self) -> bool:
        """True while received requests may be processed, and while the session takes a held POST's command."""
        if self._phase is Phase.HOLDING:
            return self._session is not None and self._session.takes_commands
        return self._has_more and self._phase is Phase.READING and not self._is_unread

    @property
    def wants_read(self) -> bool:
        """False while a POST waits, answers are unread, or many bytes wait behind a GET.

        Behind a GET that waits the end of the socket shall be noticed.
        """
        if self._phase is Phase.READING:
            return not self._is_unread
        return self._phase is Phase.POLLING and self._requests.waiting_bytes < MAX_WAITING_INPUT

    @property
    def closed(self) -> bool:
        """True if the socket is to be closed."""
        return self._phase is Phase.CLOSED

    @property
    def pending_bytes(self) -> int:
        """The bytes of an incomplete body, or of a waiting command."""
        return len(self._body) + len(self._held)

    @property
    def _is_unread(self) -> bool:
        """True while the next request waits because the client has too much to read."""
        return self._unsent_bytes + self._output_bytes > MAX_UNREAD_ANSWERS

    # Requests.

    def _advance(self, now: Time) -> None:
        """Process the complete requests, as many as a turn allows, up to a request that has to wait."""
        self._has_more = False
        count = 0
        try:
            while self._phase is Phase.READING:
                if count == MAX_EVENTS_PER_TURN or self._is_unread:
                    self._has_more = True
                    break
                count += 1
                self._take(self._requests.next_event(), now)
        except NeedsData:
            return
        except RefusedRequest as refusal:
            self._break_off(refusal, now)

    def _take(self, event: Event, now: Time) -> None:
        try:
            if event is END:
                self._act(now)
            elif isinstance(event, Head):
                self._begin(event, now)
            else:
                self._add(event, now)
        except RefusedRequest as refusal:
            if self._requests.is_complete:
                self._refuse(refusal, now)
            else:
                self._break_off(refusal, now)

    def _begin(self, request: Head, now: Time) -> None:
        self._request = request
        self._is_head = request.method == b"HEAD"
        self._body = bytearray()
        host = request.header(b"host")
        if self._is_local and host != self._local_host:
            if not _names_this_machine(host):
                raise RefusedRequest(421, "this port serves localhost alone; the header Host names another machine")
            self._local_host = host
        if any(request.header(name) for name in PAGE_HEADERS):
            raise RefusedRequest(403, "pages in browsers may not use this connector; a ws connector has an allow-list")
        self._session = self._found(request)
        self._body_limit = MAX_BODY_WITHOUT_SESSION if self._session is None else self._session.text_limit
        self._deadline = now.monotonic + min(BODY_SECONDS, self._settings.login_timeout)
        length = request.header(b"content-length")
        if length and int(length) > self._body_limit:
            raise self._too_long()
        if self._requests.awaits_continue:
            self._send(self._requests.begin_body())

    def _found(self, request: Head) -> TunnelSession | None:
        """Return the session of the requesting client."""
        if request.method not in SESSION_METHODS or not request.header(CLIENT_ID):
            return None
        session = self._sessions.find(_client_id(request), self._settings)
        if session is not None:
            session.note_activity()
        return session

    def _add(self, data: bytes, now: Time) -> None:
        if len(self._body) + len(data) > self._body_limit:
            raise self._too_long()
        self._body += data
        if self._session is None:
            return  # all of the body must come in time
        if self._session.has_ended:  # as it does without a login in time
            raise RefusedRequest(404, NO_SESSION)
        self._deadline = now.monotonic + BODY_SECONDS
        self._session.note_activity()

    def _too_long(self) -> RefusedRequest:
        return RefusedRequest(413, f"the body is longer than {self._body_limit} bytes")

    def _act(self, now: Time) -> None:
        """Process a complete request."""
        request, self._request = self._request, None
        assert request is not None
        body = bytes(self._body)
        self._body = bytearray()
        if request.method in SESSION_METHODS:
            _client_id(request)
        if request.method == b"POST":
            self._post(request, body, now)
        elif request.method == b"GET":
            self._get(now)
        elif request.method == b"HEAD":
            self._sessions.open(_client_id(request), self._settings, now)
            self._answer(200, b"", now)
        elif request.method == b"OPTIONS":
            self._answer(200, b"", now, ("Allow", METHODS), ("Accepts-Encoding", "gzip"))
        else:
            raise RefusedRequest(405, f"the methods are {METHODS}")

    def _post(self, request: Head, body: bytes, now: Time) -> None:
        """Pass a command on, or hold the command while the broker takes no more."""
        session = self._session
        if session is None or session.has_ended:
            raise RefusedRequest(404, NO_SESSION)
        if request.header(b"content-type").lower() in GZIP_TYPES:
            body = _unzipped(body, session.text_limit)
        try:
            frame = self._reader.frame(body, _frame_limit(session))
        except OpenWireProtocolError as error:
            session.give_up(f"OpenWire over HTTP: {error}", now)
            raise RefusedRequest(400, str(error)) from None
        if frame[SIZE_OCTETS] == WIRE_FORMAT_INFO:
            self._answer(200, b"", now)  # nothing is negotiated over HTTP
        elif session.takes_commands:
            session.receive(frame)
            self._answer(200, b"", now)
        elif session.hold(self):
            self._held = frame
            self._phase = Phase.HOLDING
        else:
            raise RefusedRequest(409, "another request waits until the broker takes its command of this session")

    def _get(self, now: Time) -> None:
        """Answer with the next command, or wait for a command."""
        session = self._session
        if session is None:
            raise RefusedRequest(404, NO_SESSION)
        frame = session.take()
        if frame is not None:
            self._deliver(frame, now)
        elif session.has_ended:
            raise RefusedRequest(410, ENDED_SESSION)
        elif session.wait(self):
            self._phase = Phase.POLLING
        else:
            raise RefusedRequest(409, "another request waits for the commands of this session")

    def _pass_on(self, now: Time) -> None:
        """Answer a waiting POST as soon as the session has the command, or has ended without the command."""
        session = self._session
        assert session is not None
        if not session.takes_commands:
            return
        session.hold_no_more(self)
        frame, self._held = self._held, b""
        self._phase = Phase.READING
        if session.has_ended:
            self._refuse(RefusedRequest(410, ENDED_SESSION), now)
        else:
            session.receive(frame)
            self._answer(200, b"", now)

    def _look_for_command(self) -> None:
        """Answer a waiting GET. The requests behind follow by `go_on`, with a count of bytes."""
        session = self._session
        assert session is not None
        frame = session.take()
        if frame is None and not session.has_ended:
            return
        now = self._sessions.now()
        session.wait_no_more(self)
        self._phase = Phase.READING
        if frame is None:
            self._refuse(RefusedRequest(410, ENDED_SESSION), now)
        else:
            self._deliver(frame, now)
        self._has_more = self._requests.waiting_bytes > 0

    # Answers.

    def _deliver(self, frame: bytes, now: Time) -> None:
        """Answer a GET with one command, in Java's form of a text with a length."""
        text = self._writer.text(frame)
        self._answer(200, len(text).to_bytes(SIZE_OCTETS, "big") + text, now)

    def _answer(self, status: int, body: bytes, now: Time, *headers: tuple[str, str]) -> None:
        self._send(self._requests.answer(status, headers, body))
        self._deadline = now.monotonic + IDLE_SECONDS
        if not self._requests.keeps_open:
            self._phase = Phase.CLOSED  # the client wants the socket closed after this answer

    def _send(self, data: bytes) -> None:
        self._output.append(data)
        self._output_bytes += len(data)

    def _refuse(self, refusal: RefusedRequest, now: Time, *more_headers: tuple[str, str]) -> None:
        if refusal.status != 410:  # every client asks once more than its session lasts
            self._report(str(refusal), now)
        headers = [("Content-Type", "text/plain; charset=utf-8"), *more_headers]
        if refusal.status == 405:
            headers.append(("Allow", METHODS))
        self._answer(refusal.status, b"" if self._is_head else f"{refusal}\n".encode(), now, *headers)

    def _break_off(self, refusal: RefusedRequest, now: Time) -> None:
        """Answer a request without reading the rest, and close the socket."""
        self._body = bytearray()
        if self._requests.can_answer:
            self._refuse(refusal, now, ("Connection", "close"))
        else:
            self._report(str(refusal), now)
        self._phase = Phase.CLOSED


def _names_this_machine(header: bytes) -> bool:
    """Return True if a Host header is localhost or a loopback address; a port may follow."""
    host = header.decode("ascii", "replace").strip()
    if host.startswith("["):
        return is_loopback(host[1:].partition("]")[0])
    name = host.partition(":")[0]
    return name.lower() == LOCAL_HOST or is_loopback(name)


def _client_id(request: Head) -> str:
    """Return the name of the session; raises `RefusedRequest` for a request without a name."""
    name = request.header(CLIENT_ID).decode("ascii", "replace").strip()
    if not name:
        raise RefusedRequest(400, "No clientID header specified")
    if len(name) > MAX_CLIENT_ID or not name.isprintable():
        raise RefusedRequest(400, f"the header clientID has more than {MAX_CLIENT_ID} characters, or odd ones")
    return name


def _frame_limit(session: TunnelSession) -> int:
    """Return the largest frame that the client of a session may send now, in bytes."""
    connection = session.connection
    return MAX_OPENWIRE_FRAME_BEFORE_LOGIN if connection is None else connection.frame_limit


def _unzipped(body: bytes, limit: int) -> bytes:
    """Return the content of a gzip file of at most ``limit`` bytes; raises `RefusedRequest`."""
    inflater = zlib.decompressobj(GZIP_BITS)
    try:
        data = inflater.decompress(body, limit)
    except zlib.error:
        raise RefusedRequest(400, "the body is no gzip file") from None
    if not inflater.eof:
        raise RefusedRequest(413, f"the body is no complete gzip file, or has more than {limit} bytes of content")
    return data
