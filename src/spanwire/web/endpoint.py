"""Endpoint of a route: logs the caller in, checks the role, calls the handler, and answers errors.

Errors are answered as problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from spanwire.management.control_client import ControlError
from spanwire.management.tables.listing import QueryError
from spanwire.management.tables.operation_table import Role
from spanwire.web.access import NOBODY, Access, Caller
from spanwire.web.calls import Call, RouteRow
from spanwire.web.console.figures.recorder import Recorder
from spanwire.web.events.changes import Changes
from spanwire.web.link import Link, Snapshots
from spanwire.web.login.cookies import credentials, end_refused
from spanwire.web.login.sessions import Sessions
from spanwire.web.problems import ProblemError, problem_of
from spanwire.web.rest.logins import Logins

LIVE: Final = "x-spanwire-live"  # a header of requests that an open page of the console makes by itself


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts of the application shared by all requests."""

    link: Link
    access: Access
    snapshots: Snapshots
    sessions: Sessions
    logins: Logins
    changes: Changes
    recorder: Recorder


class Endpoint:
    """Answers the requests of one route."""

    def __init__(self, row: RouteRow, shared: Shared) -> None:
        self._row: Final = row
        self._shared: Final = shared

    async def answer(self, request: Request) -> Response:
        """Answer a request."""
        try:
            return await self._answer(request)
        except ProblemError as error:
            return self._row.refusal(request, error)
        except QueryError as error:
            return self._row.refusal(request, ProblemError(HTTPStatus.BAD_REQUEST, str(error)))
        except ControlError as error:
            return self._row.refusal(request, problem_of(error))

    async def _answer(self, request: Request) -> Response:
        if self._row.role is Role.NONE:
            return await self._row.handler(self._call(request, NOBODY))
        authorization = credentials(request, self._shared.sessions, is_use=LIVE not in request.headers)
        return await self._row.handler(self._call(request, await self._caller(request, authorization)))

    def _call(self, request: Request, caller: Caller) -> Call:
        shared = self._shared
        return Call(
            request,
            caller,
            shared.link,
            shared.snapshots,
            shared.sessions,
            shared.logins,
            shared.changes,
            shared.recorder,
            partial(self._renew, request),
            partial(self._log_in, request),
            shared.snapshots.now(),
        )

    async def _caller(self, request: Request, authorization: str | None) -> Caller:
        """Log the caller in; refused credentials end their session. Raises `ProblemError`."""
        try:
            caller = await self._shared.access.caller(authorization, _address(request))
        except ProblemError as error:
            if error.status is HTTPStatus.UNAUTHORIZED:
                end_refused(request, self._shared.sessions)
            raise
        request.state.caller = caller  # for the navigation of a page that tells an error
        if caller.role < self._row.role:
            raise ProblemError(HTTPStatus.FORBIDDEN, f"this needs the role {self._row.role.name.lower()}")
        return caller

    async def _log_in(self, request: Request, authorization: str) -> Caller:
        """Return the caller of credentials from a form. Raises `ProblemError`."""
        return await self._shared.access.caller(authorization, _address(request))

    async def _renew(self, request: Request, is_refused: bool) -> Caller:
        """Log the caller of a long answer in again; the session counts as unused. Raises `ProblemError`."""
        authorization = credentials(request, self._shared.sessions, is_use=False)
        if is_refused:
            self._shared.access.forget(authorization, _address(request))
        return await self._caller(request, authorization)


def _address(request: Request) -> str:
    """Return the client's address in the form of the broker's audit log."""
    client = request.client
    return "http://unknown:0" if client is None else f"http://{client.host}:{client.port}"
