"""A call: one request with the caller, the argument of handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from spanwire.management.operation_table import Role
from spanwire.web.access import Caller
from spanwire.web.link import Link, Snapshots
from spanwire.web.problems import ProblemError


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``caller`` is `NOBODY` on a public route."""

    request: Request
    caller: Caller
    link: Link
    snapshots: Snapshots

    async def view(self, command: str) -> object:
        """Return a recent answer to a reading command, with the caller's handle. Raises `ControlError`."""
        if not self.caller.handle:
            return await self.snapshots.answer(command)
        return await self.snapshots.answer(command, handle=self.caller.handle)

    async def status(self) -> dict[str, object]:
        """Return a recent status of the broker without totals over destinations."""
        status = await self.view("summary")
        if not isinstance(status, dict):
            raise ProblemError(HTTPStatus.BAD_GATEWAY, "the broker's status has another form than expected")
        return status


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class RouteRow:
    """One route: method, path, the lowest permitted role, handler, and a summary in words.

    `Role.NONE` makes a route public, without a login.
    """

    method: str
    path: str
    role: Role
    handler: Handler
    summary: str
