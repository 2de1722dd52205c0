"""The guard in front of all routes: refuses malformed requests, and sets the headers of responses.

- Host (DNS rebinding): one Host header; on a loopback port only the names of loopback.
- Origin (cross-site requests): a browser's Origin is the host itself.
- Head: at most `MAX_HEAD_BYTES` in `MAX_HEADERS` headers; the server refuses most larger heads before.
- Body: at most `MAX_BODY_BYTES`, received within `BODY_S` seconds; routes get the whole body.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spanwire.web.problems import problem

MAX_BODY_BYTES: Final = 16 * 1024  # bytes; the control socket takes requests of this size
MAX_HEAD_BYTES: Final = 16 * 1024  # bytes of path and headers; browsers send less than 8 KiB
MAX_HEADERS: Final = 100  # headers; browsers send about twenty
BODY_S: Final = 10.0  # seconds; a body of this size over a slow link takes less
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)
HEADERS: Final = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, *, is_loopback: bool, body_s: float = BODY_S) -> None:
        self._app: Final = app
        self._is_loopback: Final = is_loopback
        self._body_s: Final = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with a problem."""
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is served, not {scope['type']}")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        fault = _fault(scope, self._is_loopback)
        body = b""
        if fault is None:
            try:
                async with asyncio.timeout(self._body_s):
                    body, fault = await _body(receive)
            except TimeoutError:
                fault = HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive within {self._body_s:g} s"
        if fault is not None:
            await problem(*fault)(scope, receive, send_with_headers)
            return
        await self._app(scope, _replay(body, receive), send_with_headers)


Fault = tuple[HTTPStatus, str]


def _fault(scope: Scope, is_loopback: bool) -> Fault | None:
    """Return the reason against the head of a request, or None."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    path: bytes = scope.get("raw_path") or b""
    size = len(path) + sum(len(name) + len(value) for name, value in headers)
    if size > MAX_HEAD_BYTES or len(headers) > MAX_HEADERS:
        return (
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"the head is larger than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers",
        )
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    match = HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if match is None:
        return HTTPStatus.BAD_REQUEST, "a request has one Host header with a host and a port"
    if is_loopback and match.group(1).lower() not in LOOPBACK_HOSTS:
        return HTTPStatus.MISDIRECTED_REQUEST, "this port serves localhost alone"
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    if any(_netloc(origin) != hosts[0].lower() for origin in origins):
        return HTTPStatus.FORBIDDEN, "requests from pages of other hosts are refused"
    sites = {value for name, value in headers if name == b"sec-fetch-site"}
    if sites - {b"same-origin", b"none"}:
        return HTTPStatus.FORBIDDEN, "requests from pages of other sites are refused"
    lengths = [value for name, value in headers if name == b"content-length"]
    if any(not length.isdigit() or int(length[:20]) > MAX_BODY_BYTES for length in lengths):
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {MAX_BODY_BYTES} bytes"
    return None


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


async def _body(receive: Receive) -> tuple[bytes, Fault | None]:
    """Return the whole body, or the reason against it."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"", (HTTPStatus.BAD_REQUEST, "the client has gone")
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            return b"", (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {MAX_BODY_BYTES} bytes")
        if not message.get("more_body", False):
            return bytes(body), None


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a source of the received body."""
    is_given = False

    async def replay() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
