"""The guard in front of all routes: refuses malformed requests, and sets the headers of responses.

- Host (DNS rebinding): one Host header; on a loopback port only the names of loopback.
- Origin (cross-site requests): a browser's Origin is the host itself.
- Head: at most `MAX_HEAD_BYTES` in `MAX_HEADERS` headers; the server refuses most larger heads before.
- Body: at most `MAX_BODY_BYTES`, or `MAX_MESSAGE_BYTES` on the paths of messages; all bodies under way together have at
  most `MAX_BODIES_BYTES`. A body arrives within `BODY_S` seconds, or with `LEAST_RATE`; routes get the whole body.
  It is as long as its Content-Length, whatever has read it.
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
MAX_MESSAGE_BYTES: Final = 100 * 1024 * 1024  # bytes; the largest frame of the broker's connectors by default
MAX_BODIES_BYTES: Final = 256 * 1024 * 1024  # bytes of all bodies in memory; more are answered with 503
LEAST_RATE: Final = 64 * 1024  # bytes a second of a body after `BODY_S`; a slower client holds memory for nothing
MAX_HEAD_BYTES: Final = 16 * 1024  # bytes of path and headers; browsers send less than 8 KiB
MAX_HEADERS: Final = 100  # headers; browsers send about twenty
BODY_S: Final = 10.0  # seconds; a body of this size over a slow link takes less
JSON_TYPE: Final = b"application/json"
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

Fault = tuple[HTTPStatus, str]


class Guard:
    """Wraps the application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        is_loopback: bool,
        body_s: float = BODY_S,
        message_paths: tuple[str, ...] = (),
        page_paths: tuple[str, ...] = (),
    ) -> None:
        """Guard ``app``.

        The bodies of requests below ``message_paths`` are messages. What is below ``page_paths`` a user may open from a
        page of another site, as nothing there changes by a GET.
        """
        self._app: Final = app
        self._is_loopback: Final = is_loopback
        self._body_s: Final = body_s
        self._message_paths: Final = message_paths
        self._page_paths: Final = page_paths
        self._bodies_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with a problem."""
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is served, not {scope['type']}")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message.get("headers", [])
                names = {name.lower() for name, _ in own}
                message["headers"] = [*own, *(header for header in HEADERS if header[0] not in names)]
            await send(message)

        most = MAX_BODY_BYTES
        if _is_below(scope, self._message_paths):
            most = MAX_MESSAGE_BYTES
        fault = _fault(scope, self._is_loopback, most)
        if fault is None and not (_is_below(scope, self._page_paths) and _is_link(scope)):
            fault = _site_fault(scope)
        body = bytearray()
        try:
            if fault is None:
                fault = await self._read(receive, body, most) or _body_fault(scope, len(body))
            if fault is not None:
                await problem(*fault)(scope, receive, send_with_headers)
                return
            await self._app(scope, _replay(bytes(body), receive), send_with_headers)
        finally:
            self._bodies_bytes -= len(body)

    async def _read(self, receive: Receive, body: bytearray, most: int) -> Fault | None:
        """Read the whole body into ``body``, or return the reason against it."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            try:
                async with asyncio.timeout_at(deadline(began, self._body_s, len(body))):
                    message = await receive()
            except TimeoutError:
                return HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive within {self._body_s:g} s"
            if message["type"] != "http.request":
                return HTTPStatus.BAD_REQUEST, "the client has gone"
            piece = message.get("body", b"")
            if len(body) + len(piece) > most:
                return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {most} bytes"
            if self._bodies_bytes + len(piece) > MAX_BODIES_BYTES:
                return HTTPStatus.SERVICE_UNAVAILABLE, f"the bodies of all requests have {MAX_BODIES_BYTES} bytes"
            body += piece
            self._bodies_bytes += len(piece)
            if not message.get("more_body", False):
                return None


def deadline(began: float, body_s: float, received: int) -> float:
    """Return the time at which a body that has ``received`` bytes is given up, in seconds of the clock of ``began``."""
    return began + body_s + received / LEAST_RATE


def _fault(scope: Scope, is_loopback: bool, most: int) -> Fault | None:
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
    lengths = [value for name, value in headers if name == b"content-length"]
    if any(not length.isdigit() or int(length[:20]) > most for length in lengths):
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {most} bytes"
    return None


def _body_fault(scope: Scope, size: int) -> Fault | None:
    """Return the reason against a body of ``size`` bytes, or None.

    An operation without a body has no arguments: a purge that has lost its selector would remove all messages. So this
    trusts no reader of HTTP that the announced body has come.
    """
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if any(name == b"content-length" and (value.lstrip(b"0") or b"0") != b"%d" % size for name, value in headers):
        return HTTPStatus.BAD_REQUEST, "the body is not as long as its Content-Length"
    names = {name for name, _ in headers}
    is_json = any(name == b"content-type" and value.lower().startswith(JSON_TYPE) for name, value in headers)
    if not size and is_json and b"transfer-encoding" in names:
        return HTTPStatus.BAD_REQUEST, "the body is announced as JSON, and is empty"
    return None


def _site_fault(scope: Scope) -> Fault | None:
    """Return the reason against a request that a page of another site has made, or None."""
    sites = {value for name, value in scope["headers"] if name == b"sec-fetch-site"}
    if sites - {b"same-origin", b"none"}:
        return HTTPStatus.FORBIDDEN, "requests from pages of other sites are refused"
    return None


def _is_link(scope: Scope) -> bool:
    """Return True if the browser shows the answer to its user as a page of its own (Fetch Metadata)."""
    headers = dict(scope["headers"])
    shown = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    return shown and scope["method"] == "GET"


def _is_below(scope: Scope, paths: tuple[str, ...]) -> bool:
    return any(scope["path"] == path or scope["path"].startswith(f"{path}/") for path in paths)


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


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
