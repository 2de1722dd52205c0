"""The guard in front of all routes: refuses malformed requests, and sets the headers of responses.

- Host (DNS rebinding): one Host header; on a loopback port only the names of loopback.
- Origin (cross-site requests): a browser's Origin is this host.
- Head: at most `MAX_HEAD_BYTES` in `MAX_HEADERS` headers; the server refuses most larger heads before.
- Body: at most `MAX_BODY_BYTES`, or `MAX_MESSAGE_BYTES` on the paths of messages; all bodies under way together have at
  most `MAX_BODIES_BYTES`. A body arrives within `BODY_S` seconds, or with `LEAST_RATE`; routes get the whole body. The
  length of a body is its Content-Length, for both readers of HTTP.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spanwire.web.problems import problem
from spanwire.web.serving.begun import Begun

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


class _Head:
    """The part of a request's head for the guard."""

    __slots__ = ("count", "hosts", "is_json", "is_open_ended", "lengths", "origins", "sites", "size")

    def __init__(self, scope: Scope) -> None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.count = len(headers)
        self.size = len(scope.get("raw_path") or b"")
        self.hosts: list[bytes] = []
        self.origins: list[bytes] = []
        self.sites: list[bytes] = []
        self.lengths: list[bytes] = []
        self.is_open_ended = False  # a body in chunks
        self.is_json = False
        for name, value in headers:
            self.size += len(name) + len(value)
            if name == b"host":
                self.hosts.append(value)
            elif name == b"origin":
                self.origins.append(value)
            elif name == b"sec-fetch-site":
                self.sites.append(value)
            elif name == b"content-length":
                self.lengths.append(value)
            elif name == b"transfer-encoding":
                self.is_open_ended = True
            elif name == b"content-type" and value.lower().startswith(JSON_TYPE):
                self.is_json = True


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

        The bodies of requests below ``message_paths`` are messages. Pages below ``page_paths`` may be opened from a
        page of another site, as a GET changes no state there.
        """
        self._app: Final = app
        self._is_loopback: Final = is_loopback
        self._body_s: Final = body_s
        self._message_paths: Final = _Paths(message_paths)
        self._page_paths: Final = _Paths(page_paths)
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

        path: str = scope.get("path", "")
        most = MAX_MESSAGE_BYTES if self._message_paths.contain(path) else MAX_BODY_BYTES
        head = _Head(scope)
        fault = _fault(head, self._is_loopback, most)
        if fault is None and head.sites and not (self._page_paths.contain(path) and _is_link(scope)):
            fault = _site_fault(head)
        body = bytearray()
        try:
            if fault is None:
                fault = await self._read(receive, body, most) or _body_fault(head, len(body))
            if fault is not None:
                await problem(*fault)(scope, receive, send_with_headers)
                return
            await self._app(scope, _replay(bytes(body), receive), send_with_headers)
        finally:
            self._bodies_bytes -= len(body)

    async def _read(self, receive: Receive, body: bytearray, most: int) -> Fault | None:
        """Read the whole body into ``body``, or return the reason against it."""
        began = asyncio.get_running_loop().time()
        while True:
            reading = Begun(receive())
            if reading.is_over:
                message = reading.result
            else:
                try:
                    async with asyncio.timeout_at(deadline(began, self._body_s, len(body))):
                        message = await reading
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
    """Return the deadline of a body with ``received`` bytes, in seconds of the clock of ``began``."""
    return began + body_s + received / LEAST_RATE


def _fault(head: _Head, is_loopback: bool, most: int) -> Fault | None:
    """Return the reason against the head of a request, or None."""
    if head.size > MAX_HEAD_BYTES or head.count > MAX_HEADERS:
        return (
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"the head is larger than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers",
        )
    host = head.hosts[0].decode("latin-1") if len(head.hosts) == 1 else ""
    match = HOST.fullmatch(host)
    if match is None:
        return HTTPStatus.BAD_REQUEST, "a request has one Host header with a host and a port"
    if is_loopback and match.group(1).lower() not in LOOPBACK_HOSTS:
        return HTTPStatus.MISDIRECTED_REQUEST, "this port serves localhost alone"
    for origin in head.origins:
        if _netloc(origin.decode("latin-1")) != host.lower():
            return HTTPStatus.FORBIDDEN, f"the header Origin names another host or port than {host}: leave it out"
    for length in head.lengths:
        if not length.isdigit() or int(length[:20]) > most:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {most} bytes"
    return None


def _body_fault(head: _Head, size: int) -> Fault | None:
    """Return the reason against a body of ``size`` bytes, or None.

    An operation without a body has no arguments: a purge without its lost selector would remove all messages. So the
    announced length is compared with the body, in distrust of the reader of HTTP.
    """
    for length in head.lengths:
        if (length.lstrip(b"0") or b"0") != b"%d" % size:
            return HTTPStatus.BAD_REQUEST, "the body is not as long as its Content-Length"
    if not size and head.is_json and head.is_open_ended:
        return HTTPStatus.BAD_REQUEST, "the body is announced as JSON, and is empty"
    return None


def _site_fault(head: _Head) -> Fault | None:
    """Return the reason against a request from a page of another site, or None."""
    if not {b"same-origin", b"none"}.issuperset(head.sites):
        return HTTPStatus.FORBIDDEN, "requests from pages of other sites are refused"
    return None


def _is_link(scope: Scope) -> bool:
    """Return True if the browser shows the answer as a new page (Fetch Metadata)."""
    headers = dict(scope["headers"])
    shown = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    return shown and scope["method"] == "GET"


class _Paths:
    """Paths with all paths below."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths: Final = frozenset(paths)
        self._prefixes: Final = tuple(f"{path}/" for path in paths)

    def contain(self, path: str) -> bool:
        """Return True for one of the paths, or one below."""
        return path.startswith(self._prefixes) or path in self._paths


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
