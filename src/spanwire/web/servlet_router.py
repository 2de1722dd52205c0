"""The way of a request to the message servlet past the search through all routes.

Starlette compares a path with one regular expression after the other, and wraps each call in two layers for errors. For
each message sent or read both took a third of the time in the web process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from spanwire.web.problems import problem

FAULT: Final = "the web process failed; its log says why"

Answer = Callable[[Request], Awaitable[Response]]
Methods = Mapping[str, Answer]


class ServletRouter:
    """Calls the endpoints of servlets, and passes all other requests on."""

    def __init__(self, app: ASGIApp, mounts: Sequence[tuple[str, Methods]]) -> None:
        """Serve ``mounts`` in front of ``app``.

        Each mount is a path with the answers to methods of the path and of all paths below, with the rest as the
        parameter ``name``. The first match counts. Requests without a match, or with another method, are for ``app``.
        """
        self._app: Final = app
        self._mounts: Final = [(mount, f"{mount}/", methods) for mount, methods in mounts]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path: str = scope["path"]
        for mount, prefix, methods in self._mounts:
            if path.startswith(prefix):
                params = {"name": path[len(prefix) :]}
            elif path == mount:
                params = {}
            else:
                continue
            answer = methods.get(scope["method"])
            if answer is None or "\n" in path:
                break
            scope["path_params"] = params
            await _answer(answer, scope, receive, send)
            return
        await self._app(scope, receive, send)


async def _answer(answer: Answer, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with an endpoint.

    An internal error gets a problem, and goes on to the server, for a traceback in the log.
    """
    try:
        response = await answer(Request(scope, receive, send))
    except Exception:
        await problem(HTTPStatus.INTERNAL_SERVER_ERROR, FAULT)(scope, receive, send)
        raise
    await response(scope, receive, send)
