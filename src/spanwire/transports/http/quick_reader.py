"""Requests of one HTTP socket, read with httptools."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import httptools

from spanwire.transports.http.quick_parser import ConnectError, QuickParser
from spanwire.transports.http.requests import (
    CONTINUE,
    END,
    MAX_HEADERS,
    REASONS,
    Event,
    Head,
    NeedsData,
    RefusedRequest,
    malformed,
)

FEED_BYTES: Final = 16 * 1024  # read at a time; the requests in them are kept as events, until they are processed
HEAD_BYTES: Final = 64  # that an event without content counts


class QuickReader:
    """Reads with httptools, by the callbacks ``on_…``; an exception of a callback ends the reading."""

    def __init__(self) -> None:
        self._parser: QuickParser | None = QuickParser(self)
        self._unparsed = bytearray()
        self._events: Final[deque[tuple[Event, bool, bool]]] = deque()  # with: closes, awaits `CONTINUE`
        self._events_bytes = 0
        self._refusal: RefusedRequest | None = None
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0
        self._barren_bytes = 0  # fed since the last head, content or end of a request
        self._is_head = True  # a head is being read; otherwise a body, or the trailers behind it
        self._is_begun = False  # the head of the current request was given out
        self._is_answered = False
        self._closes = False
        self.is_complete = False
        self.awaits_continue = False

    def receive(self, data: bytes) -> None:
        """Keep bytes of the client."""
        self._unparsed += data

    def next_event(self) -> Event:
        """Return the next event."""
        if self.is_complete and self._is_answered and not self._closes:
            self._is_begun = self._is_answered = self.is_complete = False
        events = self._events
        while not events:
            if self._refusal is not None:
                raise self._refusal
            if not self._unparsed:
                raise NeedsData
            self._feed()
        event, closes, awaits_continue = events[0]
        if isinstance(event, Head):
            if self._is_begun:
                raise NeedsData
            self._is_begun = True
            self._closes = closes
            self.awaits_continue = awaits_continue
        else:
            self.awaits_continue = False
            self.is_complete = event is END
        events.popleft()
        self._events_bytes -= len(event) if isinstance(event, bytes) else HEAD_BYTES
        return event

    @property
    def waiting_bytes(self) -> int:
        """About the number of bytes behind the last event."""
        return len(self._unparsed) + self._events_bytes

    @property
    def can_answer(self) -> bool:
        """True if the request has no answer yet."""
        return not self._is_answered

    @property
    def keeps_open(self) -> bool:
        """False if the socket is to be closed after the answer."""
        return not self._closes

    def begin_body(self) -> bytes:
        """Return the interim answer."""
        self.awaits_continue = False
        return CONTINUE

    def answer(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> bytes:
        """Return the bytes of an answer."""
        self._is_answered = True
        lines = [b"HTTP/1.1 %d %s" % (status, REASONS.get(status, b""))]
        lines += [f"{name}: {value}".encode("ascii") for name, value in headers]
        if any(name == "Connection" for name, _ in headers):
            self._closes = True
        elif self._closes:
            lines.append(b"Connection: close")
        lines.append(b"Content-Length: %d\r\n\r\n" % len(body))
        return b"\r\n".join(lines) + body

    def close(self) -> None:
        """Drop the parser, which refers to this reader."""
        if self._parser is not None:
            self._parser.close()
            self._parser = None
        self._unparsed.clear()
        self._refusal = None

    def _feed(self) -> None:
        """Parse the next piece."""
        piece = bytes(self._unparsed[:FEED_BYTES])
        del self._unparsed[:FEED_BYTES]
        self._barren_bytes += len(piece)
        parser = self._parser
        assert parser is not None
        try:
            parser.feed_data(piece)
        except httptools.HttpParserError as error:
            asks_for_tunnel = isinstance(error.__context__, ConnectError)
            self._refusal = self._refusal or malformed(405 if asks_for_tunnel else 400)
        if self._barren_bytes > MAX_HEADERS and self._refusal is None:
            self._refusal = malformed(431 if self._is_head else 400)

    def _add(self, event: Event, *, closes: bool = False, awaits_continue: bool = False) -> None:
        self._barren_bytes = 0
        self._events.append((event, closes, awaits_continue))
        self._events_bytes += len(event) if isinstance(event, bytes) else HEAD_BYTES

    # Called by the parser.

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._headers = {}
        self._head_bytes = 0
        self._is_head = True

    def on_url(self, url: bytes) -> None:
        """Count the path; a path has no meaning here."""
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the first value of a header; trailers are no headers."""
        if not self._is_head:
            return
        self._count(len(name) + len(value))
        name = name.lower()
        if name == b"host" and name in self._headers:
            self._refuse(malformed())
        self._headers.setdefault(name, value)

    def on_headers_complete(self) -> None:
        """Give out a head, unless h11 would refuse the head."""
        headers = self._headers
        parser = self._parser
        assert parser is not None
        version = parser.get_http_version()
        if version not in ("1.0", "1.1") or (version == "1.1" and b"host" not in headers):
            self._refuse(malformed())
        if headers.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            self._refuse(malformed(501))
        awaits_continue = version == "1.1" and headers.get(b"expect", b"").lower() == b"100-continue"
        closes = version == "1.0" or not parser.should_keep_alive()
        self._is_head = False
        self._add(Head(parser.get_method(), headers), closes=closes, awaits_continue=awaits_continue)

    def on_body(self, body: bytes) -> None:
        """Give a part of a body out."""
        self._add(body)

    def on_message_complete(self) -> None:
        """Give the end out."""
        self._is_head = True
        self._add(END)

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEADERS:
            self._refuse(malformed(431))

    def _refuse(self, refusal: RefusedRequest) -> None:
        self._refusal = refusal
        raise refusal
