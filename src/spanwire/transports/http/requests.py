"""Requests of one HTTP socket, read with h11, or with an installed httptools (RFC 9112).

Both readers give the same events: the head of a request, parts of its body, the end of the body. A request waits for
the answer to the previous request. So a client decides neither the order of answers nor the amount of kept bytes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

import h11

from spanwire import registry

MAX_HEADERS: Final = 16 * 1024  # bytes of a request's head, of trailers, or of the extensions of a chunk
END: Final = None  # the event behind a request
REASONS: Final = {
    200: b"OK",
    400: b"Bad Request",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    409: b"Conflict",
    410: b"Gone",
    413: b"Content Too Large",
    421: b"Misdirected Request",
    431: b"Request Header Fields Too Large",
    501: b"Not Implemented",
    503: b"Service Unavailable",
}
MALFORMED: Final = "the request is no HTTP"  # h11's own texts show lines of the request, with their passwords
MALFORMED_REASONS: Final = {
    405: "this port opens no tunnel for CONNECT",
    431: f"the head of the request is longer than {MAX_HEADERS} bytes",
    501: "the only Transfer-Encoding is chunked",
}
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
QUICK_READER: Final = "spanwire.transports.http.quick_reader:QuickReader"


class RefusedRequest(Exception):
    """A request gets an answer other than 200; the text is for the client and the log."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status: Final[int] = status


def malformed(status: int = 400) -> RefusedRequest:
    """Return the refusal of bytes against the rules of HTTP, or without a reader here."""
    return RefusedRequest(status, MALFORMED_REASONS.get(status, MALFORMED))


class Head:
    """The head of a request. ``headers`` has the first value of each header, by name in lower case."""

    __slots__ = ("headers", "method")

    def __init__(self, method: bytes, headers: dict[bytes, bytes]) -> None:
        self.method: Final[bytes] = method
        self.headers: Final[dict[bytes, bytes]] = headers

    def header(self, name: bytes) -> bytes:
        """Return a header, or an empty text."""
        return self.headers.get(name, b"")


Event = Head | bytes | None


class NeedsData(Exception):
    """Raised without a further event before the client sends more, or gets the answer."""


class RequestReader(Protocol):
    """Reads the requests of one socket, and writes the answers."""

    def receive(self, data: bytes) -> None:
        """Keep bytes of the client."""
        ...

    def next_event(self) -> Event:
        """Return the next head, part of a body, or `END`.

        Raises:
            NeedsData: there is no event yet.
            RefusedRequest: the bytes are no HTTP; nothing more can be read.
        """
        ...

    @property
    def waiting_bytes(self) -> int:
        """About the number of received bytes behind the last event."""
        ...

    @property
    def awaits_continue(self) -> bool:
        """True if the client sends the body only after `CONTINUE` (RFC 9110, section 10.1.1)."""
        ...

    @property
    def is_complete(self) -> bool:
        """True behind `END`."""
        ...

    @property
    def can_answer(self) -> bool:
        """True if the request has no answer yet."""
        ...

    @property
    def keeps_open(self) -> bool:
        """False if the socket is to be closed after the answer."""
        ...

    def begin_body(self) -> bytes:
        """Return the bytes to let the client send the body."""
        ...

    def answer(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> bytes:
        """Return the bytes of an answer."""
        ...

    def close(self) -> None:
        """Let go of the input, because the socket is closed. Nothing is read any more."""
        ...


class H11Reader:
    """Reads with h11."""

    def __init__(self) -> None:
        self._http: Any = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADERS)

    def receive(self, data: bytes) -> None:
        """Keep bytes of the client."""
        self._http.receive_data(data)

    def next_event(self) -> Event:
        """Return the next event."""
        http = self._http
        if http.their_state is h11.DONE and http.our_state is h11.DONE:
            http.start_next_cycle()
        try:
            event = http.next_event()
        except h11.RemoteProtocolError as error:
            raise malformed(error.error_status_hint) from None
        if isinstance(event, h11.Request):
            if event.method == b"CONNECT":
                raise malformed(405)
            headers: dict[bytes, bytes] = {}
            for name, value in event.headers:
                headers.setdefault(name, value)
            return Head(event.method, headers)
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if isinstance(event, h11.EndOfMessage):
            return END
        raise NeedsData

    @property
    def waiting_bytes(self) -> int:
        """The bytes behind the last event."""
        return len(self._http.trailing_data[0])

    @property
    def awaits_continue(self) -> bool:
        """True if the client waits."""
        return bool(self._http.they_are_waiting_for_100_continue)

    @property
    def is_complete(self) -> bool:
        """True behind `END`."""
        return self._http.their_state in (h11.DONE, h11.MUST_CLOSE)

    @property
    def can_answer(self) -> bool:
        """True if the request has no answer yet."""
        return self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE)

    @property
    def keeps_open(self) -> bool:
        """False if the socket is to be closed after the answer."""
        return self._http.our_state is h11.DONE

    def begin_body(self) -> bytes:
        """Return the interim answer."""
        return bytes(self._http.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")))

    def answer(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> bytes:
        """Return the bytes of an answer."""
        send = self._http.send
        lines = [*headers, ("Content-Length", str(len(body)))]
        parts = [send(h11.Response(status_code=status, headers=lines, reason=REASONS.get(status, b"")))]
        if body:
            parts.append(send(h11.Data(data=body)))
        parts.append(send(h11.EndOfMessage()))
        return b"".join(parts)

    def close(self) -> None:
        """Do nothing: h11 goes with its reader."""


def request_reader() -> Callable[[], RequestReader]:
    """Return the class of readers: the reader on an installed httptools takes a tenth of the time."""
    if importlib.util.find_spec("httptools") is None:
        return H11Reader
    return cast(Callable[[], RequestReader], registry.load(QUICK_READER))
