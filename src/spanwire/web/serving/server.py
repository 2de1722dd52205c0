"""Runs the web application on a port until a signal, or until the parent process ends."""

from __future__ import annotations

import asyncio
import importlib.util
import ipaddress
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

import uvicorn
from starlette.types import ASGIApp

from spanwire import registry
from spanwire.logs.lines import START
from spanwire.management.control_client import ControlClient
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.web_mounts import WebMount
from spanwire.service.machine.event_loop import loop_factory
from spanwire.service.machine.file_limit import raise_file_limit
from spanwire.web.console.figures.recorder import Recorder
from spanwire.web.events.changes import Changes
from spanwire.web.link import ControlLink, Snapshots
from spanwire.web.routes import application
from spanwire.web.serving.deadline import DeadlineProtocol
from spanwire.web.serving.guard import MAX_HEAD_BYTES
from spanwire.web.serving.keys import web_context
from spanwire.web.serving.listening import WebServer, listening_socket

MAX_CONNECTIONS: Final = 1_000  # connections with a request; more are answered with 503
KEEP_ALIVE_S: Final = 5  # seconds that a connection stays open between two requests
STOP_S: Final = 3  # seconds for open requests at the end
QUICK_PROTOCOL: Final = "spanwire.web.serving.quick:QuickProtocol"


def serve(
    directory: Path,
    host: str,
    port: int,
    *,
    allow_anonymous: bool,
    ends_with_parent: bool,
    with_tls: bool = False,
    mounts: Sequence[WebMount] = (),
    reopen_log: Callable[[], None] | None = None,
) -> None:
    """Serve the broker in a data directory.

    ``mounts`` are further paths of the servlets. With ``ends_with_parent`` the end of standard input ends the server,
    and a line of input makes the server read the keys again. The kernel closes standard input at the end of the parent
    process. Otherwise SIGHUP calls ``reopen_log`` and reads the keys again.

    Raises:
        ConfigurationError: the port cannot be opened, or would be open to others without users
        ControlError: no broker runs in the directory
    """
    raise_file_limit()
    listener = listening_socket(host, port)
    with listener:
        address = listener.getsockname()
        is_loopback = ipaddress.ip_address(address[0]).is_loopback
        is_guarded = not is_loopback and not allow_anonymous
        if is_guarded:
            refuse_exposure(ControlClient(directory).ask("exposure"), host)
        read_keys = partial(web_context, directory) if with_tls else None
        if read_keys is not None:
            read_keys()
        changes = Changes()
        link = ControlLink(directory)
        recorder = Recorder(Snapshots(link))
        app = application(
            link,
            is_loopback=is_loopback,
            is_guarded=is_guarded,
            changes=changes,
            recorder=recorder,
            mounts=mounts,
        )
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        scheme = "https" if with_tls else "http"
        logging.getLogger(START).info("Listening for web requests at: %s://%s:%d", scheme, shown, address[1])
        serving = _serve(app, changes, recorder, listener, read_keys, ends_with_parent, reopen_log)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(serving)


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


def http_protocol() -> type[asyncio.Protocol]:
    """Return the class of a connection: the quicker httptools where installed, otherwise h11."""
    if importlib.util.find_spec("httptools") is None:
        return DeadlineProtocol
    return cast(type[asyncio.Protocol], registry.load(QUICK_PROTOCOL))


def server_config(app: ASGIApp, protocol: type[asyncio.Protocol] | None = None) -> uvicorn.Config:
    """Return the configuration of the server: protocol, by default from `http_protocol`, and limits."""
    return uvicorn.Config(
        app,
        http=http_protocol() if protocol is None else protocol,
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


async def _serve(
    app: ASGIApp,
    changes: Changes,
    recorder: Recorder,
    listener: socket.socket,
    read_keys: Callable[[], ssl.SSLContext] | None,
    ends_with_parent: bool,
    reopen_log: Callable[[], None] | None,
) -> None:
    server = WebServer(server_config(app), listener, read_keys, changes.stop)

    def hang_up() -> None:
        if reopen_log is not None:
            reopen_log()
        server.renew()

    if ends_with_parent:
        server.follow_parent()
    elif not sys.stdin.isatty():  # on a terminal SIGHUP ends the process
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hang_up)
    recording = asyncio.get_running_loop().create_task(recorder.run())
    try:
        await server.serve()
    finally:
        recording.cancel()
