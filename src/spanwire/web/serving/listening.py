"""The listening socket of the web process, and a server on the socket, with exchangeable keys."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

import uvicorn

from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.web.serving.deadline import HEAD_S

BACKLOG: Final = 128  # connections that wait to be accepted
STANDARD_INPUT: Final = 0
MAX_INPUT: Final = 1024  # bytes of requests to read the keys again; several at once count as one

logger = logging.getLogger(__name__)


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket on a host's first address. Raises `ConfigurationError`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(f"web host {host[:80]}: {error.strerror or error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"web port {port} of {host[:80]} cannot be opened: {error.strerror or error}; choose another --port"
        ) from error
    return listener


class WebServer(uvicorn.Server):
    """Serves on one socket. `renew` exchanges the keys for new connections; open ones stay."""

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        read_keys: Callable[[], ssl.SSLContext] | None,
        end_streams: Callable[[], None],
    ) -> None:
        """``read_keys`` reads the key store and blocks; None serves without TLS.

        ``end_streams`` ends answers without an end of their own.
        """
        super().__init__(config)
        self._listener: Final = listener
        self._read_keys: Final = read_keys
        self._end_streams: Final = end_streams
        self.renewal: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        nothing: list[asyncio.Server] = []
        self.servers = nothing
        await self._listen()
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then wait for open requests."""
        self._end_streams()
        await super().shutdown(sockets)

    def renew(self) -> None:
        """Read the keys again soon; after an error the old keys stay, and the log has the error."""
        if self._read_keys is not None:
            self.renewal = asyncio.get_running_loop().create_task(self._renew())

    def follow_parent(self) -> None:
        """Renew the keys for each input on standard input, and stop at the end of the input."""
        asyncio.get_running_loop().add_reader(STANDARD_INPUT, self._on_input)

    def _on_input(self) -> None:
        if os.read(STANDARD_INPUT, MAX_INPUT):
            self.renew()
        else:
            asyncio.get_running_loop().remove_reader(STANDARD_INPUT)
            self.should_exit = True

    async def _renew(self) -> None:
        try:
            await self._listen()
        except SpanwireError as error:
            logger.error("the keys of the web port stay as they were: %s", error)
        else:
            logger.info("the keys of the web port were read again")

    async def _listen(self) -> None:
        """Accept with the present keys, then close the server of before. Raises `SpanwireError`."""
        context = None if self._read_keys is None else await asyncio.to_thread(self._read_keys)
        make = partial(
            self.config.http_protocol_class,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        server = await asyncio.get_running_loop().create_server(
            make,
            sock=self._listener.dup(),
            ssl=context,
            ssl_handshake_timeout=None if context is None else HEAD_S,
            backlog=BACKLOG,
        )
        former, self.servers = self.servers, [server]
        for one in former:
            one.close()
