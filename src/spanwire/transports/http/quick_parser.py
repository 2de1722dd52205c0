"""A parser of requests on httptools, without offers of another protocol (RFC 9110, section 7.8).

llhttp, the parser inside of httptools, ends at a head with an offer of an upgrade, or with a request for a tunnel
(CONNECT). llhttp takes the rest for bytes of the other protocol, so the body would be lost, or read as further
requests. No server here changes the protocol. So a fresh parser reads the same head without the offer, silently, and
then the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import httptools

OFFER: Final = b"upgrade"  # the header, in lower case
CONNECT: Final = b"CONNECT"


class ConnectError(Exception):
    """Raised at the head of a CONNECT: the rest could be a body, or bytes for another server."""


class Requests(Protocol):
    """Called with the parts of requests; an exception ends the reading."""

    def on_message_begin(self) -> None:
        """Begin a request."""
        ...

    def on_url(self, url: bytes) -> None:
        """Take a part of the path."""
        ...

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        ...

    def on_headers_complete(self) -> None:
        """End the head."""
        ...

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        ...

    def on_message_complete(self) -> None:
        """End a request."""
        ...


class QuickParser:
    """Has the methods of `httptools.HttpRequestParser`, and raises no ``HttpParserUpgrade``."""

    def __init__(self, requests: Requests, *, reads_after_close: bool = False) -> None:
        """Pass requests to ``requests``, with ``reads_after_close`` even behind ``Connection: close``."""
        self._requests: Final = requests
        self._reads_after_close: Final = reads_after_close
        self._headers: list[tuple[bytes, bytes]] = []  # of the current head
        self._head: bytes | None = None  # without its offer, for a fresh parser
        self._is_repeated = False  # a head is read again, silently
        self.on_body: Final[Callable[[bytes], None]] = requests.on_body
        self._parser: Any = self._fresh()

    def feed_data(self, data: bytes) -> None:
        """Parse data.

        Raises:
            httptools.HttpParserError: the data are no HTTP, or a callback has raised, whose exception is the context:
                `ConnectError` if a request asks for a tunnel. Nothing more can be read.
        """
        rest: bytes | memoryview = data
        while True:
            try:
                self._parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as offer:
                rest = memoryview(rest)[int(offer.args[0]) :]
            self._repeat_head()
            if not rest:
                return

    def get_http_version(self) -> str:
        """Return the version of the request."""
        return str(self._parser.get_http_version())

    def get_method(self) -> bytes:
        """Return the method of the request."""
        return bytes(self._parser.get_method())

    def should_keep_alive(self) -> bool:
        """Return False if the connection is to be closed after the answer."""
        return bool(self._parser.should_keep_alive())

    def should_upgrade(self) -> bool:
        """Return False: no offer is taken."""
        return False

    def close(self) -> None:
        """End the reading; the parser and the callbacks refer to each other until then."""
        self._parser = None

    # Called by httptools.

    def on_message_begin(self) -> None:
        """Begin a request."""
        if not self._is_repeated:
            self._headers = []
            self._requests.on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Pass a part of the path on."""
        if not self._is_repeated:
            self._requests.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Pass a header on."""
        if not self._is_repeated:
            self._headers.append((name, value))
            self._requests.on_header(name, value)

    def on_headers_complete(self) -> None:
        """End a head; keep the head for a fresh parser if llhttp ends here."""
        if self._is_repeated:
            self._is_repeated = False
            return
        if self._parser.should_upgrade():
            if self._parser.get_method() == CONNECT:
                raise ConnectError
            self._head = self._without_offer()
        self._requests.on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request, unless the body waits for a fresh parser."""
        if self._head is None:
            self._requests.on_message_complete()

    def _without_offer(self) -> bytes:
        """Return the head without path and offer.

        The other headers stay, so the body has the same end.
        """
        lines = [b"%s / HTTP/%s" % (self.get_method(), self.get_http_version().encode("ascii"))]
        lines += [b"%s: %s" % header for header in self._headers if header[0].lower() != OFFER]
        return b"\r\n".join([*lines, b"", b""])

    def _repeat_head(self) -> None:
        head, self._head = self._head, None
        assert head is not None
        self._parser = self._fresh()
        self._is_repeated = True
        self._parser.feed_data(head)

    def _fresh(self) -> Any:
        parser = httptools.HttpRequestParser(self)
        if self._reads_after_close:
            parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser
