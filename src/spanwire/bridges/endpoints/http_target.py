"""An HTTP server as a target of a route: a request for each message."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import re
import socket
import ssl
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import HttpTarget
from spanwire.bridges.ports import PartlySentError
from spanwire.client.addressing.redaction import redacted
from spanwire.model.errors import JmsError, MessageFormatError
from spanwire.model.message_view import BYTES, PLAIN, TEXT
from spanwire.model.text import printable

MAX_ANSWER_BYTES: Final = 64 * 1024  # bytes of an answer that are read, so that the connection can be used again
MAX_REASON: Final = 100  # characters of a status line in an error; the server chooses them
WHOLE: Final = 10  # times ``timeout_ms`` for a whole request: a server must not hold a thread for good, byte by byte
AGAIN: Final = (408, 425, 429)  # answers of 4xx after which the same request may succeed
CONTENT_TYPES: Final = {TEXT: "text/plain; charset=utf-8", BYTES: "application/octet-stream"}
MESSAGE_ID: Final = "JMSMessageID"
HEADER_VALUE: Final = re.compile(r"[^ -~]")  # characters that the value of a header cannot have


class OpenHttpTarget:
    """Sends requests one after the other over one connection.

    An answer of 2xx stores the message. An answer of 4xx refuses it for ever; all others are failures, after which the
    batch is sent again. The header ``JMSMessageID`` lets the server recognize a message that arrives twice.
    """

    def __init__(self, target: HttpTarget) -> None:
        self._target: Final = target
        self._connection: http.client.HTTPConnection | None = None
        self._is_cut = False  # the request under way took too long, and its answer is not whole

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send a request for each message. Raises `PartlySentError` for a message refused by the server."""
        for index, message in enumerate(messages):
            if message.kind not in (TEXT, BYTES, PLAIN):
                raise PartlySentError(index, "the body is neither a text nor bytes")
            try:
                body = message.content.neutral_body() or b""
            except MessageFormatError as error:
                raise PartlySentError(index, str(error)) from None
            self._is_cut = False
            cut = asyncio.get_running_loop().call_later(WHOLE * self._target.timeout_ms / 1000, self._cut)
            try:
                status, reason = await asyncio.to_thread(self._request, message, body)
                if self._is_cut:
                    raise TimeoutError("the answer came too slowly")
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                fault = printable(str(error))[:MAX_REASON] or type(error).__name__
                raise JmsError(f"{redacted(self._target.url)}: {fault}") from None
            finally:
                cut.cancel()
            answer = f"{redacted(self._target.url)} answered {status} {printable(reason)[:MAX_REASON]}"
            if 400 <= status < 500 and status not in AGAIN:
                raise PartlySentError(index, answer)
            if not 200 <= status < 300:
                raise JmsError(answer)

    def check(self) -> None:
        """Return at once: the next request shows a lost server."""

    async def close(self) -> None:
        """Close the connection."""
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _cut(self) -> None:
        """End the request under way; its thread gets an error."""
        self._is_cut = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _request(self, message: BridgeMessage, body: bytes) -> tuple[int, str]:
        parts = urlsplit(self._target.url)
        if self._connection is None:
            timeout_s = self._target.timeout_ms / 1000
            host = parts.hostname or ""
            if parts.scheme == "https":
                context = ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)
            else:
                self._connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {
            "Content-Type": CONTENT_TYPES.get(message.kind, CONTENT_TYPES[BYTES]),
            MESSAGE_ID: HEADER_VALUE.sub("?", message.message_id),
        }
        if parts.username is not None:
            headers["Authorization"] = _authorization(parts)
        self._connection.request(self._target.method, path, body, headers)
        response = self._connection.getresponse()
        if len(response.read(MAX_ANSWER_BYTES)) >= MAX_ANSWER_BYTES:
            self._drop()
        return response.status, response.reason


def _authorization(parts: SplitResult) -> str:
    """Return the header of basic authentication for user and password in a URL."""
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
