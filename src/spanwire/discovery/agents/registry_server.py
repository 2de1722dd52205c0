"""The registry of the http agent: a small HTTP server with the memory of DiscoveryRegistryServlet.

The server remembers the registered brokers. A group is the path of the requests. `Registry` has no sockets;
`RegistryServer` gives `Registry` a port, and h11 reads HTTP.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qs

import h11

from spanwire.discovery.groups.beacon import MAX_URI_CHARACTERS
from spanwire.discovery.groups.sightings import MAX_SIGHTINGS
from spanwire.model.errors import ConfigurationError

DEFAULT_FRESHNESS_MS: Final = 30_000  # milliseconds, as in ActiveMQ
MAX_AGE: Final = 3600.0  # seconds after which a registered service is forgotten
MAX_GROUPS: Final = 100
MAX_SERVICES: Final = 10_000  # of all groups; to look through them takes a millisecond
FORGET_SECONDS: Final = 1.0  # seconds between two searches for old services
MAX_PATH: Final = 255  # characters
MAX_DIGITS: Final = 12  # of a number of milliseconds
MAX_CLIENTS: Final = 100  # sockets at a time; each has one request
REQUEST_SECONDS: Final = 5.0  # seconds for a whole request
READ_BYTES: Final = 16 * 1024
MAX_BODY: Final = 64 * 1024  # bytes of a body, which is ignored
MALFORMED: Final = "the request is no HTTP, or its head is too long"  # h11's texts show the line, with its password

Reply = tuple[int, str]


class Registry:
    """The services of each group with the time of their last registration, in seconds."""

    def __init__(self) -> None:
        self._groups: Final[dict[str, dict[str, float]]] = {}
        self._next_search = 0.0  # time of the next search for old services

    def respond(self, method: str, target: str, service: str, now: float) -> Reply:
        """Return status and text of the answer to a request."""
        group, _, query = target.partition("?")
        if len(group) > MAX_PATH:
            return 400, "the path is too long"
        if method == "GET":
            return self._list(group, query, now)
        if method not in ("PUT", "DELETE"):
            return 405, "the methods are DELETE, GET and PUT"
        if not service or len(service) > MAX_URI_CHARACTERS or not service.isprintable():
            return 400, "the header service must be the address of a connector"
        if method == "DELETE":
            self._groups.get(group, {}).pop(service, None)
            return 200, ""
        return self._register(group, service, now)

    def _register(self, group: str, service: str, now: float) -> Reply:
        if now >= self._next_search:
            self._next_search = now + FORGET_SECONDS
            self._forget(now)
        services = self._groups.get(group)
        is_new = services is None or service not in services
        if is_new and sum(map(len, self._groups.values())) >= MAX_SERVICES:
            return 503, f"the registry has {MAX_SERVICES} services, its limit"
        if services is None:
            if len(self._groups) >= MAX_GROUPS:
                return 503, f"the registry has {MAX_GROUPS} groups, its limit"
            services = self._groups[group] = {}
        if is_new and len(services) >= MAX_SIGHTINGS:
            return 503, f"the group has {MAX_SIGHTINGS} services, its limit"
        services[service] = now
        return 200, ""

    def _list(self, group: str, query: str, now: float) -> Reply:
        freshness = parse_qs(query).get("freshness", [str(DEFAULT_FRESHNESS_MS)])[0]
        if not (freshness.isascii() and freshness.isdigit() and len(freshness) <= MAX_DIGITS):
            return 400, "freshness must be a number of milliseconds"
        since = now - int(freshness) / 1000
        services = self._groups.get(group, {})
        return 200, "".join([f"{service}\n" for service, at in services.items() if at > since])

    def _forget(self, now: float) -> None:
        """Remove old services, and groups without services."""
        for group, services in list(self._groups.items()):
            for service, at in list(services.items()):
                if at < now - MAX_AGE:
                    del services[service]
            if not services:
                del self._groups[group]


class RegistryServer:
    """Serves a `Registry` at one port, one request for each socket."""

    def __init__(self) -> None:
        self.registry: Final = Registry()
        self._server: asyncio.Server | None = None
        self._clients = 0

    async def start(self, host: str, port: int) -> None:
        """Listen at the host of the registry's URL. Raises `ConfigurationError`."""
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=READ_BYTES)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigurationError(f"startEmbeddRegistry: {host}:{port} cannot be opened: {reason}") from error

    def stop(self) -> None:
        """Stop listening."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._clients >= MAX_CLIENTS:
            writer.close()
            return
        self._clients += 1
        try:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(REQUEST_SECONDS):
                    writer.write(await self._answer(reader))
                    await writer.drain()
        finally:
            self._clients -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        """Read one request; return the bytes of its answer."""
        connection: Any = h11.Connection(h11.SERVER, max_incomplete_event_size=READ_BYTES)
        request: Any = None
        size = 0
        try:
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(await reader.read(READ_BYTES))
                elif isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data) and (size := size + len(event.data)) <= MAX_BODY:
                    continue
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    return b""
        except h11.RemoteProtocolError as error:
            is_head = request is not None and request.method == b"HEAD"
            return _reply(connection, (error.error_status_hint, MALFORMED), is_head)
        headers = dict(request.headers)
        service = headers.get(b"service", b"").decode("utf-8", "replace")
        target, method = request.target.decode("ascii", "replace"), request.method.decode("ascii")
        return _reply(connection, self.registry.respond(method, target, service, time.monotonic()), method == "HEAD")


def _reply(connection: Any, reply: Reply, is_head: bool) -> bytes:
    body = b"" if is_head else reply[1].encode()
    headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
    ]
    head = connection.send(h11.Response(status_code=reply[0], headers=headers))
    return bytes(head + connection.send(h11.Data(data=body)) + connection.send(h11.EndOfMessage()))
