"""The opening handshake of a WebSocket, without a socket (RFC 6455, section 4.2).

Browsers let the script of any page connect to any address; only the header ``Origin`` names the page. So a page may
connect if its origin is in the list of the connector, which is empty by default. Programs send no origin.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, cast

from websockets.exceptions import NegotiationError
from websockets.server import ServerProtocol

from spanwire.model.text import printable
from spanwire.protocols.detect import foreign_name

MAX_REQUEST: Final = 16 * 1024  # bytes; a browser adds the cookies of the host, up to 4 KiB each
MAX_SHOWN: Final = 200  # characters of a reason in the log
ANY_ORIGIN: Final = "*"
SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp", "stomp")  # the first that a client offers is taken
END: Final = b"\r\n\r\n"
PROBE_BYTES: Final = 8  # bytes; the longest method of HTTP and a blank

# The library logs frames with their contents, and errors with a traceback. This logger is in no hierarchy.
_SILENT: Final = logging.Logger("websockets", logging.CRITICAL + 1)


class Handshake:
    """Collects the request, and answers. Pages of ``origins`` may connect.

    ``protocol`` is the library's state machine; with ``is_accepted`` the machine goes on with messages of up to
    ``max_frame_size`` bytes. ``refusal`` is the reason for the end of the connection. `ServerProtocol.data_to_send` has
    the answer in both cases.
    """

    def __init__(self, origins: Sequence[str], max_frame_size: int) -> None:
        self.protocol: Final = ServerProtocol(
            origins=None if ANY_ORIGIN in origins else [None, *origins],
            # The library would bind a function to the machine, which then refers to itself until a collection.
            select_subprotocol=cast(Any, staticmethod(_subprotocol)),
            max_size=max_frame_size,
            logger=_SILENT,
        )
        self.is_accepted = False
        self.refusal: str | None = None
        self._request = bytearray()

    @property
    def pending_bytes(self) -> int:
        """The bytes of the incomplete request."""
        return len(self._request)

    def receive_data(self, data: bytes) -> bytes:
        """Take bytes of the request; return the bytes behind the end of the request."""
        request = self._request
        start = max(0, len(request) - len(END) + 1)
        request += data
        end = request.find(END, start)
        if end < 0 or end > MAX_REQUEST:
            self._check_beginning()
            return b""
        end += len(END)
        self.protocol.receive_data(bytes(request[:end]))
        rest = bytes(request[end:])
        self._request = bytearray()
        self._answer()
        return rest

    def _check_beginning(self) -> None:
        """Refuse an overlong request, or other bytes in place of a request."""
        request = self._request
        if len(request) >= PROBE_BYTES and not _is_method(bytes(request[:PROBE_BYTES])):
            self.refusal = f"the client speaks {foreign_name(bytes(request))}, not WebSocket"
        elif len(request) > MAX_REQUEST:
            self.refusal = f"the request of the WebSocket handshake is longer than {MAX_REQUEST} bytes"
            self._reject(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"A request has at most {MAX_REQUEST} bytes.")

    def _answer(self) -> None:
        """Answer a complete request."""
        protocol = self.protocol
        events = protocol.events_received()
        if not events:
            self.refusal = self._take_reason()
            return
        response = protocol.accept(events[0])
        if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            protocol.send_response(response)
            self.is_accepted = True
            return
        status = HTTPStatus(response.status_code)
        self.refusal = self._take_reason()
        if status is HTTPStatus.FORBIDDEN:
            self.refusal += "; websocket.allowedOrigins of the connector has the pages that may connect"
        self._reject(status, _ADVICE.get(status, "This port speaks STOMP over WebSocket."))

    def _take_reason(self) -> str:
        """Return the library's reason; the tracebacks of its errors would refer to this handshake."""
        error: BaseException | None = self.protocol.handshake_exc
        while error is not None:
            error.__traceback__ = None
            error = error.__cause__ or error.__context__
        return _shown(self.protocol.handshake_exc)

    def _reject(self, status: HTTPStatus, advice: str) -> None:
        """Answer with an error; the text repeats no part of the request."""
        response = self.protocol.reject(status, f"{advice}\n")
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Cache-Control"] = "no-store"
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = "GET"
        elif status is HTTPStatus.UPGRADE_REQUIRED:
            response.headers["Upgrade"] = "websocket"
        self.protocol.send_response(response)


_ADVICE: Final = {
    HTTPStatus.FORBIDDEN: "Pages of this origin may not connect: websocket.allowedOrigins of the connector lacks it.",
    HTTPStatus.METHOD_NOT_ALLOWED: "A WebSocket begins with GET.",
    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED: "A WebSocket begins with HTTP/1.1.",
    HTTPStatus.UPGRADE_REQUIRED: "This port speaks STOMP over WebSocket; use a STOMP client for WebSocket.",
    HTTPStatus.BAD_REQUEST: f"No WebSocket handshake of version 13 with one of {', '.join(SUBPROTOCOLS)}, or none.",
}


def _is_method(beginning: bytes) -> bool:
    """Return True if bytes can begin an HTTP request."""
    method, blank, _ = beginning.partition(b" ")
    return bool(blank) and method.isalpha() and method.isupper()


def _subprotocol(offered: Sequence[str]) -> str | None:
    """Return the newest of STOMP's sub-protocols in a client's offers; None for a client without offers.

    Raises:
        NegotiationError: all offers are foreign. A browser ends a connection without one of the browser's offers.
    """
    for name in SUBPROTOCOLS:
        if name in offered:
            return name
    if offered:
        raise NegotiationError(f"none of the sub-protocols {', '.join(offered)} is STOMP")
    return None


def _shown(error: BaseException | None) -> str:
    """Return the reason for the log, on one short line."""
    text = str(error)
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
        text += f"; {error}"
    text = printable(text)
    return f"no WebSocket handshake: {text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + '…'}"
