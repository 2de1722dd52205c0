"""HTTP connections read by httptools, in a tenth of the time of h11.

The extra `speed` installs httptools.

httptools keeps all read bytes of a header, so this class limits the input without content: a head, the trailers behind
a body, or the extensions of a chunk.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from spanwire.transports.http.quick_parser import QuickParser
from spanwire.web.serving.deadline import Deadlines
from spanwire.web.serving.guard import MAX_HEAD_BYTES

MAX_PIPELINED: Final = 16  # complete requests of a connection behind the one that is answered; browsers send none


class TooManyRequestsError(Exception):
    """Raised for too many requests of a client without a wait for answers."""


class QuickProtocol(Deadlines, HttpToolsProtocol):
    """A connection with httptools as the reader of HTTP."""

    _barren_bytes = 0  # received since the last head, content or end of a request
    _is_head = True  # a head is being read; otherwise a body, or the trailers behind it
    _is_refused = False
    _answering: Any = None  # the request that is being answered; `cycle` is the newest one

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with a parser that reads the body of a request with an offer of another protocol."""
        super().connection_made(transport)
        self.parser = cast(Any, QuickParser(self, reads_after_close=True))

    def data_received(self, data: bytes) -> None:
        """Read requests, up to a malformed request or a request with too much in front of the content."""
        if self._is_refused:
            return
        self._barren_bytes += len(data)
        super().data_received(data)
        if self._barren_bytes > MAX_HEAD_BYTES and not self._is_refused:
            self.send_400_response(f"a head has more than {MAX_HEAD_BYTES} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all requests that the client has gone; uvicorn tells the newest request alone."""
        for cycle in (self._answering, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        parser = cast(QuickParser | None, self.parser)
        super().connection_lost(exc)
        if parser is not None:
            parser.close()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. Trailers do not count: the guard has seen the head without trailers."""
        if self._is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start a request, or keep the request until all earlier requests are answered."""
        if len(self.pipeline) >= MAX_PIPELINED:
            raise TooManyRequestsError
        self._is_head = False
        self._barren_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a part of a body on."""
        self._barren_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._is_head = True
        self._barren_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer malformed HTTP, and close.

        Requests in front of a malformed head get their answers first. A request with a malformed body gets this answer
        in place of the route's.
        """
        self._is_refused = True
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            super().send_400_response(msg)
        elif self._is_head:
            cycle.keep_alive = False  # its answer closes the connection
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started or self.pipeline:
                self.transport.close()
            else:
                super().send_400_response(msg)
