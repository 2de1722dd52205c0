"""A call: one request with the caller, the argument of handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from spanwire.management.control_client import ControlError
from spanwire.management.handles import UNAUTHENTICATED
from spanwire.management.tables.operation_table import COMMAND_ROLES, Role
from spanwire.web.access import Caller
from spanwire.web.link import CHANGING, Link, Snapshots
from spanwire.web.login.sessions import Sessions
from spanwire.web.problems import ProblemError, problem
from spanwire.web.rest.logins import Logins

if TYPE_CHECKING:
    from spanwire.web.console.figures.recorder import Recorder
    from spanwire.web.events.changes import Changes

Renew = Callable[[bool], Awaitable[Caller]]
Question = Callable[[Caller], Awaitable[object]]
LogIn = Callable[[str], Awaitable[Caller]]
Refusal = Callable[[Request, ProblemError], Response]


@dataclass(slots=True)
class Call:
    """One request. ``caller`` is `NOBODY` on a public route, and replaced if the broker has forgotten the login.

    ``renew`` logs the caller in again, for answers longer than the life of a handle. Its argument is True if the broker
    has refused the handle. `ProblemError` is raised if the login is refused, or if the role has become too low.
    ``log_in`` returns the caller of an ``Authorization`` header, and raises as `spanwire.web.access.Access.caller`.
    ``begun_at`` is a time of the clock of ``snapshots``.
    """

    request: Request
    caller: Caller
    link: Link
    snapshots: Snapshots
    sessions: Sessions
    logins: Logins
    changes: Changes
    recorder: Recorder
    renew: Renew
    log_in: LogIn
    begun_at: float

    @property
    def role(self) -> Role:
        """The role of the caller."""
        return self.caller.role

    async def view(self, command: str) -> object:
        """Return a recent answer to a reading command, with the caller's handle.

        Another caller's answer serves as well, so the role is checked here too.

        Raises:
            ControlError: the broker does not answer, or refuses
            ProblemError: the role is too low, or a new login is refused
        """
        return await self._logged_in(partial(self._viewed, command))

    async def _viewed(self, command: str, caller: Caller) -> object:
        if caller.handle and caller.role < COMMAND_ROLES[command]:
            raise ProblemError(HTTPStatus.FORBIDDEN, f"this needs the role {COMMAND_ROLES[command].name.lower()}")
        return await self.snapshots.answer(command, caller.handle)

    def forget_older(self, command: str) -> bool:
        """Drop the recent answer to a reading command if it is older than this request. Return True if so.

        So all that a request looks for in vain costs the broker one answer more.
        """
        return self.snapshots.forget_older(command, self.begun_at)

    async def ask(self, command: str, **arguments: object) -> object:
        """Return the present answer to a command with arguments.

        An operation drops the snapshots, also after a failure, so that the next view has the effect.

        Raises:
            ControlError: the broker does not answer, or refuses
            ProblemError: a new login is refused
        """
        try:
            return await self._logged_in(lambda caller: self.link.ask(command, handle=caller.handle, **arguments))
        finally:
            if command in CHANGING:
                self.snapshots.forget()

    async def _logged_in(self, question: Question) -> object:
        """Ask the broker. A broker that has started again knows no handle; then log in, and ask this one thing again.

        The commands of the request before this one have run, so the request as a whole is never repeated.
        """
        caller = self.caller
        try:
            return await question(caller)
        except ControlError as error:
            if error.code != UNAUTHENTICATED or not caller.handle:
                raise
        if self.caller is caller:
            self.caller = await self.renew(True)
        return await question(self.caller)

    async def status(self) -> dict[str, object]:
        """Return a recent status of the broker without totals over destinations."""
        status = await self.view("summary")
        if not isinstance(status, dict):
            raise ProblemError(HTTPStatus.BAD_GATEWAY, "the broker's status has another form than expected")
        return status


Handler = Callable[[Call], Awaitable[Response]]


def json_refusal(request: Request, error: ProblemError) -> Response:
    """Return the problem of an error."""
    return problem(error.status, error.detail)


Node = dict[str, object]  # of an OpenAPI document


@dataclass(frozen=True, slots=True)
class RouteSchema:
    """Schemas of a route for the OpenAPI document: answer, parameters of the query, and body of a POST."""

    answer: Node
    parameters: tuple[Node, ...] = ()
    body: Node | None = None
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class RouteRow:
    """One route: method, path, the lowest permitted role, handler, and a summary in words.

    `Role.NONE` makes a route public, without a login. A route with ``is_messaging`` logs the caller in as a client of
    the broker, with rights to destinations instead of a role. ``schema`` is None on routes described by their path in
    `spanwire.web.openapi`, and on the undescribed routes of the servlets. ``refusal`` returns the answer to an error, a
    problem in JSON by default; the description leaves out routes with another refusal, the pages.
    """

    method: str
    path: str
    role: Role
    handler: Handler
    summary: str
    is_messaging: bool = False
    schema: RouteSchema | None = None
    refusal: Refusal = json_refusal
