"""The pages of a standby over HTTP: its wait, the awaited master, and the state "not ready".

The web process of a standby has no control socket to ask: the socket in the directory belongs to the master. Each
request reads the holder of the lock from the lock file, in a thread, because a hanging file system may block the read.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from spanwire.logs.lines import START
from spanwire.service.machine.event_loop import loop_factory
from spanwire.stores.lock_file import holder_of
from spanwire.web.console import assets
from spanwire.web.console.forms import HOME
from spanwire.web.console.rendering import standby_page
from spanwire.web.monitoring import HEALTH_TYPE
from spanwire.web.problems import problem
from spanwire.web.serving.guard import Guard
from spanwire.web.serving.listening import WebServer, listening_socket
from spanwire.web.serving.server import server_config

REFRESH_S: Final = 5  # seconds between two looks of a browser; the page of the master follows after a take-over
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
WAITS: Final = "this broker is a standby: it waits for another one, and answers when it has taken over"


@dataclass(frozen=True, slots=True)
class StandbyFacts:
    """A standby: name, directory of the awaited lock, and wall time of the begin in milliseconds."""

    name: str
    directory: Path
    since_ms: int


def serve_standby(name: str, directory: Path, host: str, port: int) -> None:
    """Show the wait of the broker ``name`` for the lock of ``directory``, until standard input ends.

    Raises:
        ConfigurationError: the port cannot be opened
    """
    facts = StandbyFacts(name, directory, time.time_ns() // 1_000_000)
    with listening_socket(host, port) as listener:
        address = listener.getsockname()
        is_loopback = ipaddress.ip_address(address[0]).is_loopback
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        logging.getLogger(START).info("Listening for web requests at: http://%s:%d (standby)", shown, address[1])
        server = WebServer(server_config(standby_application(facts, is_loopback=is_loopback)), listener, None, _nothing)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(server))


def standby_application(facts: StandbyFacts, *, is_loopback: bool, now: Callable[[], float] = time.time) -> ASGIApp:
    """Return the application.

    Only on a loopback port the answers have the directory of the store and the process with the lock.

    A log-in at a standby is not possible, because the store and its users are not open.
    """

    def page(request: Request) -> Response:
        waits_for = str(holder_of(facts.directory)) if is_loopback else "another broker"
        directory = str(facts.directory) if is_loopback else ""
        response = standby_page(
            request, name=facts.name, waits_for=waits_for, directory=directory, since_ms=facts.since_ms,
            waited_s=max(0.0, now() - facts.since_ms / 1_000),
        )  # fmt: skip
        response.headers["Refresh"] = str(REFRESH_S)
        return response

    def live(request: Request) -> Response:
        return _health("pass", HTTPStatus.OK)

    def ready(request: Request) -> Response:
        return _health("fail", HTTPStatus.SERVICE_UNAVAILABLE)

    def home(request: Request) -> Response:
        return RedirectResponse("/", HTTPStatus.SEE_OTHER)

    starlette = Starlette(
        routes=[
            Route("/", page, methods=["GET"]),
            Route(HOME, home, methods=["GET"]),
            Route(assets.PATH, _asset, methods=["GET"]),
            Route("/health/live", live, methods=["GET"]),
            Route("/health/ready", ready, methods=["GET"]),
            Route("/{path:path}", _unavailable, methods=list(METHODS)),
        ],
        exception_handlers={HTTPException: _fault},
    )
    return Guard(starlette, is_loopback=is_loopback, page_paths=("/",))


async def _serve(server: WebServer) -> None:
    server.follow_parent()
    await server.serve()


def _nothing() -> None:
    """End no streams: a standby has no streams."""


def _health(result: str, status: HTTPStatus) -> Response:
    content = {"status": result, "role": "standby", "checks": {"standby": [{"status": result}]}}
    return JSONResponse(content, int(status), media_type=HEALTH_TYPE)


def _asset(request: Request) -> Response:
    name = str(request.path_params["file"])
    content = assets.contents().get(name)
    if content is None:
        return problem(HTTPStatus.NOT_FOUND, f"there is no file {name[:80]}")
    return Response(content, media_type=assets.TYPES[name.rpartition(".")[2]])


def _unavailable(request: Request) -> Response:
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, WAITS)


async def _fault(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(HTTPStatus(error.status_code), error.detail)
