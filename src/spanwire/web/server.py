"""Runs the web application on a port until a signal, or until the parent process ends."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import sys
from pathlib import Path
from typing import Final

import uvicorn

from spanwire.management.control_client import ControlClient
from spanwire.model.errors import ConfigurationError
from spanwire.web.deadline import DeadlineProtocol
from spanwire.web.guard import MAX_HEAD_BYTES
from spanwire.web.link import ControlLink
from spanwire.web.routes import application

MAX_CONNECTIONS: Final = 1_000  # connections; more are answered with 503
KEEP_ALIVE_S: Final = 5  # seconds that a connection stays open between two requests
STOP_S: Final = 3  # seconds for open requests at the end
BACKLOG: Final = 128  # connections that wait to be accepted
STANDARD_INPUT: Final = 0


def serve(directory: Path, host: str, port: int, *, allow_anonymous: bool, ends_with_parent: bool) -> None:
    """Serve the broker in a data directory.

    With ``ends_with_parent`` the end of standard input ends the server. The kernel closes standard input at the end of
    the parent process.

    Raises:
        ConfigurationError: the port cannot be opened, or would be open to others without users
        ControlError: no broker runs in the directory
    """
    listener = listening_socket(host, port)
    with listener:
        address = listener.getsockname()
        is_loopback = ipaddress.ip_address(address[0]).is_loopback
        if not is_loopback and not allow_anonymous:
            refuse_exposure(ControlClient(directory).ask("exposure"), host)
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        sys.stdout.write(f"Listening for web requests at: http://{shown}:{address[1]}\n")
        sys.stdout.flush()
        asyncio.run(_serve(directory, listener, is_loopback, ends_with_parent))


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


def refuse_exposure(answer: object, host: str) -> None:
    """Refuse a port for other machines if the broker has an obstacle.

    Args:
        answer: the broker's answer to ``exposure``.
        host: the host of the port.

    Raises:
        ConfigurationError: the broker has an obstacle, such as missing users.
    """
    obstacle = answer.get("obstacle") if isinstance(answer, dict) else "by a broker of another version"
    if obstacle is not None:
        raise ConfigurationError(
            f"web host {host[:80]} would open the port to other machines {obstacle}, or start with --allow-anonymous"
        )


async def _serve(directory: Path, listener: socket.socket, is_loopback: bool, ends_with_parent: bool) -> None:
    server = uvicorn.Server(
        uvicorn.Config(
            application(ControlLink(directory), is_loopback=is_loopback),
            http=DeadlineProtocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="error",  # a request that is no HTTP is no news
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S,
        )
    )
    if ends_with_parent:
        asyncio.get_running_loop().add_reader(STANDARD_INPUT, _end_with_parent, server)
    await server.serve(sockets=[listener])


def _end_with_parent(server: uvicorn.Server) -> None:
    """Stop at the end of standard input."""
    if not os.read(STANDARD_INPUT, 1024):
        asyncio.get_running_loop().remove_reader(STANDARD_INPUT)
        server.should_exit = True
