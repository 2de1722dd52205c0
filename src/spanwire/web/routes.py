"""The table of all routes with roles, and the application for exactly these routes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from spanwire.management.control_client import ControlError
from spanwire.management.handles import UNAUTHENTICATED
from spanwire.management.operation_table import Role
from spanwire.web import monitoring
from spanwire.web.access import NOBODY, Access, Caller
from spanwire.web.api import API_ROUTES
from spanwire.web.calls import Call, RouteRow
from spanwire.web.jolokia import JOLOKIA_ROUTES
from spanwire.web.link import Link, Snapshots
from spanwire.web.login import handlers
from spanwire.web.login.cookies import credentials, end_refused
from spanwire.web.login.sessions import Sessions
from spanwire.web.openapi import document
from spanwire.web.problems import ProblemError, problem, problem_of
from spanwire.web.rest.connector import connected
from spanwire.web.rest.demo_pages import DEMO_ROUTES
from spanwire.web.rest.logins import Logins
from spanwire.web.rest.queue_browse import BROWSE_ROUTES
from spanwire.web.rest.servlet import MESSAGE_ROUTES, MOUNTS
from spanwire.web.serving.guard import Guard


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
    *API_ROUTES,
    *JOLOKIA_ROUTES,
    *MESSAGE_ROUTES,
    *BROWSE_ROUTES,
    *DEMO_ROUTES,
)


def application(
    link: Link,
    *,
    is_loopback: bool,
    is_guarded: bool = False,
    rows: Sequence[RouteRow] = ROUTES,
    now: Callable[[], float] = time.monotonic,
) -> ASGIApp:
    """Return the application behind the guard.

    ``is_loopback`` restricts the Host header to names of loopback. With ``is_guarded`` nobody logs in while the broker
    has an obstacle to an open port, such as missing users.
    """
    access, snapshots = Access(link, now, is_guarded=is_guarded), Snapshots(link, now)
    sessions, logins = Sessions(now), Logins(partial(connected, snapshots, access.refuse_exposure), now)
    starlette = Starlette(
        routes=[
            Route(
                row.path,
                _endpoint(row, link, access, snapshots, sessions, logins),
                methods=[row.method],
                name=row.summary,
            )
            for row in rows
        ],
        exception_handlers={HTTPException: _http_fault, Exception: _failure},
    )
    starlette.router.redirect_slashes = False
    return Guard(starlette, is_loopback=is_loopback, message_paths=MOUNTS)


def _endpoint(
    row: RouteRow, link: Link, access: Access, snapshots: Snapshots, sessions: Sessions, logins: Logins
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a route: checks the role and calls the handler."""

    async def called(request: Request) -> Response:
        if row.role is Role.NONE:
            return await row.handler(Call(request, NOBODY, link, snapshots, sessions, logins))
        authorization, address = credentials(request, sessions), _address(request)
        for attempt in (1, 2):
            caller = await _caller(request, access, sessions, authorization)
            if caller.role < row.role:
                raise ProblemError(HTTPStatus.FORBIDDEN, f"this needs the role {row.role.name.lower()}")
            try:
                return await row.handler(Call(request, caller, link, snapshots, sessions, logins))
            except ControlError as error:
                if error.code != UNAUTHENTICATED or attempt == 2:
                    raise
                access.forget(authorization, address)  # the broker has started again since the login
        raise AssertionError("unreachable")

    async def endpoint(request: Request) -> Response:
        try:
            return await called(request)
        except ProblemError as error:
            return problem(error.status, error.detail)
        except ControlError as error:
            fault = problem_of(error)
            return problem(fault.status, fault.detail)

    return endpoint


async def _caller(request: Request, access: Access, sessions: Sessions, authorization: str | None) -> Caller:
    """Log the caller in; refused credentials end the session that they came from. Raises `ProblemError`."""
    try:
        return await access.caller(authorization, _address(request))
    except ProblemError as error:
        if error.status is HTTPStatus.UNAUTHORIZED:
            end_refused(request, sessions)
        raise


def _address(request: Request) -> str:
    """Return the client's address in the form of the broker's audit log."""
    client = request.client
    return "http://unknown:0" if client is None else f"http://{client.host}:{client.port}"


async def _http_fault(request: Request, error: Exception) -> Response:
    """Answer for an unknown path or method."""
    assert isinstance(error, HTTPException)
    response = problem(HTTPStatus(error.status_code), error.detail)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


async def _failure(request: Request, error: Exception) -> Response:
    """Answer for a fault of ours; the server logs the traceback."""
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "the web process failed; its log says why")
