"""The table of all routes with roles, and the application for exactly these routes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from spanwire.management.tables.operation_table import Role
from spanwire.service.config.web_mounts import WebMount
from spanwire.web import monitoring
from spanwire.web.access import Access
from spanwire.web.api import API_ROUTES
from spanwire.web.calls import Call, RouteRow
from spanwire.web.console.console_routes import CONSOLE_ROUTES
from spanwire.web.console.figures.recorder import Recorder
from spanwire.web.console.forms import HOME
from spanwire.web.console.operations.sending import SEND_PATH
from spanwire.web.console.rendering import refusal
from spanwire.web.endpoint import Endpoint, Shared
from spanwire.web.events.changes import Changes
from spanwire.web.events.stream import events
from spanwire.web.jolokia.protocol import JOLOKIA_ROUTES
from spanwire.web.link import Link, Snapshots
from spanwire.web.login import handlers
from spanwire.web.login.sessions import Sessions
from spanwire.web.messages.message_routes import JSON_ROUTES, PREFIX
from spanwire.web.openapi import EVENTS_PATH, document
from spanwire.web.problems import ProblemError, problem
from spanwire.web.rest.connector import connected
from spanwire.web.rest.demo_pages import DEMO_ROUTES
from spanwire.web.rest.logins import Logins
from spanwire.web.rest.mounts import message_paths, mounted_rows
from spanwire.web.rest.queue_browse import BROWSE_ROUTES
from spanwire.web.rest.servlet import MESSAGE_ROUTES, MOUNTS, SUBJECT
from spanwire.web.serving.guard import Guard
from spanwire.web.servlet_router import FAULT, Methods, ServletRouter


async def described(call: Call) -> Response:
    """Answer with the OpenAPI document of all routes."""
    return JSONResponse(document(ROUTES))


ROUTES: Final[tuple[RouteRow, ...]] = (
    RouteRow("GET", "/metrics", Role.VIEW, monitoring.metrics, "metrics for Prometheus"),
    RouteRow("GET", "/health/live", Role.NONE, monitoring.live, "whether the broker's event loop answers"),
    RouteRow("GET", "/health/ready", Role.NONE, monitoring.ready, "whether the broker can serve clients"),
    RouteRow("GET", "/api/v1/openapi.json", Role.VIEW, described, "this description"),
    RouteRow("POST", "/api/v1/session", Role.VIEW, handlers.begin, "log a browser in: begin a session with a cookie"),
    RouteRow("DELETE", "/api/v1/session", Role.VIEW, handlers.end, "log a browser out"),
    RouteRow("GET", EVENTS_PATH, Role.VIEW, events, "changes of views, as server-sent events"),
    *API_ROUTES,
    *JOLOKIA_ROUTES,
    *MESSAGE_ROUTES,
    *BROWSE_ROUTES,
    *DEMO_ROUTES,
    *JSON_ROUTES,
    *CONSOLE_ROUTES,
)


def application(
    link: Link,
    *,
    is_loopback: bool,
    is_guarded: bool = False,
    rows: Sequence[RouteRow] = ROUTES,
    now: Callable[[], float] = time.monotonic,
    changes: Changes | None = None,
    recorder: Recorder | None = None,
    logins: Logins | None = None,
    mounts: Sequence[WebMount] = (),
) -> ASGIApp:
    """Return the application behind the guard.

    ``is_loopback`` restricts the Host header to names of loopback. With ``is_guarded`` no caller logs in while the
    broker has an obstacle to an open port, such as missing users. ``changes`` lets the caller end the streams of
    events, and ``recorder`` lets the caller run the recorder of the console, with the snapshots for all routes.
    ``logins`` are those of clients with messages, by default at the broker of ``link``.
    ``mounts`` are further paths of the servlets and demo pages; the routes of ``rows`` come first.
    """
    recorder = Recorder(Snapshots(link, now)) if recorder is None else recorder
    access, snapshots = Access(link, now, is_guarded=is_guarded), recorder.snapshots
    sessions = Sessions(now)
    logins = Logins(partial(connected, snapshots, access.admit), now) if logins is None else logins
    changes = Changes(now) if changes is None else changes
    shared = Shared(link, access, snapshots, sessions, logins, changes, recorder)
    ordered = sorted((*rows, *mounted_rows(mounts)), key=_search_order)
    starlette = Starlette(
        routes=[
            Route(row.path, Endpoint(row, shared).answer, methods=[row.method], name=row.summary) for row in ordered
        ],
        exception_handlers={HTTPException: _http_fault, Exception: _failure},
    )
    starlette.router.redirect_slashes = False
    servlets = (*MOUNTS, *message_paths(mounts))
    return Guard(
        ServletRouter(starlette, [(mount, _methods_at(mount, ordered, shared)) for mount in servlets]),
        is_loopback=is_loopback,
        message_paths=(*servlets, PREFIX, SEND_PATH),
        page_paths=(HOME,),
    )


def _methods_at(mount: str, rows: Sequence[RouteRow], shared: Shared) -> Methods:
    """Return the answers of a servlet by method."""
    return {row.method: Endpoint(row, shared).answer for row in rows if row.path == mount}


def _search_order(row: RouteRow) -> int:
    """Return the place of a route in the linear search; the most often asked servlets come first."""
    return 0 if row.is_messaging and SUBJECT in row.path else 1


async def _http_fault(request: Request, error: Exception) -> Response:
    """Answer for an unknown path or method."""
    assert isinstance(error, HTTPException)
    is_page = request.url.path.startswith(f"{HOME}/")
    fault = ProblemError(HTTPStatus(error.status_code), error.detail)
    response = refusal(request, fault) if is_page else problem(fault.status, fault.detail)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    if fault.status is HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(_methods(request))
    return response


def _methods(request: Request) -> list[str]:
    """Return the methods of a path; each has a route of its own."""
    found = [route.methods or () for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for methods in found for method in methods})


async def _failure(request: Request, error: Exception) -> Response:
    """Answer for a fault of ours; the server logs the traceback."""
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, FAULT)
