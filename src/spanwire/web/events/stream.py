"""The handler of ``/api/v1/events``.

Reads the query, and sends events until the client or the web process ends.

?views=queues,links&destination=queue://ORDERS&destination=queue://BILLS
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from spanwire.documents.spelling import suggestion
from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.view_table import VIEWS
from spanwire.web.calls import Call
from spanwire.web.events.listener import RETRY_MS, Listener
from spanwire.web.problems import ProblemError, problem

MEDIA_TYPE: Final = "text/event-stream"
MAX_DESTINATIONS: Final = 20  # names in a query; what a page shows of single destinations
BY_NAME: Final = {view.name: view for view in VIEWS}


class EventStream(Response):
    """Sends the events of a listener as soon as they come."""

    media_type = MEDIA_TYPE

    def __init__(self, call: Call, views: tuple[ViewTable, ...], destinations: frozenset[str]) -> None:
        """Stream the changes of some views."""
        super().__init__(headers={"X-Accel-Buffering": "no"})  # nginx passes events on at once
        self._call: Final = call
        self._views: Final = views
        self._destinations: Final = destinations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the end of the listener."""
        try:
            with self._call.changes.listening(self._call, self._views, self._destinations) as listener:
                watching = asyncio.get_running_loop().create_task(_watch(receive, listener))
                try:
                    await self._send(send, listener)
                finally:
                    watching.cancel()
        except ProblemError as error:
            await problem(error.status, error.detail)(scope, receive, send)

    async def _send(self, send: Send, listener: Listener) -> None:
        headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        await send({"type": "http.response.start", "status": int(HTTPStatus.OK), "headers": headers})
        body = f"retry: {RETRY_MS}\n\n".encode()
        while body:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            body = await listener.take()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _watch(receive: Receive, listener: Listener) -> None:
    """End the listener when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    listener.end()


async def events(call: Call) -> Response:
    """Answer with a stream of changes."""
    return EventStream(call, *read_query(call.request.query_params.multi_items()))


def read_query(query: Iterable[tuple[str, str]]) -> tuple[tuple[ViewTable, ...], frozenset[str]]:
    """Return the views and destinations of a query.

    Raises:
        ProblemError: a view or parameter is unknown, no view is named, or too many destinations are
    """
    views: dict[str, ViewTable] = {}
    destinations: set[str] = set()
    for name, value in query:
        if name == "views":
            views.update({word: _view(word) for word in value.split(",")})
        elif name == "destination":
            destinations.add(value)
        else:
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"unknown parameter {name[:60]!r}: views and destination exist")
    if not views:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"views names some of {', '.join(BY_NAME)}")
    if len(destinations) > MAX_DESTINATIONS:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"a stream is for {MAX_DESTINATIONS} destinations, or for all")
    return tuple(views.values()), frozenset(destinations)


def _view(name: str) -> ViewTable:
    view = BY_NAME.get(name)
    if view is None:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, f"there is no view {name[:60]!r}{suggestion(name[:60], list(BY_NAME), ', ', 0)}"
        )
    return view
