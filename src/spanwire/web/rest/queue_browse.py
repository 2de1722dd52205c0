"""The queueBrowse servlet: the messages of a queue as XML or as a feed.

Source: Connectivity Guide, "Using REST".

The messages stay in the queue. Views: ``simple`` (ids), ``xml`` (whole messages) and ``rss`` (a feed, by ``feedType``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from spanwire.client.messages.message import Message
from spanwire.management.tables.operation_table import Role
from spanwire.model.destination import QUEUE, Destination
from spanwire.web.calls import Call, RouteRow
from spanwire.web.problems import ProblemError
from spanwire.web.rest import feeds
from spanwire.web.rest.logins import Login
from spanwire.web.rest.message_xml import attribute, message_xml
from spanwire.web.rest.requests import BadRequestError, Parameters, destination_of
from spanwire.web.rest.servlet import SUBJECT, not_allowed, query_fields, with_login

MOUNTS: Final = ("/admin/queueBrowse", "/demo/queueBrowse", "/api/queueBrowse")
VIEWS: Final = ("simple", "xml", "rss")
MAX_FEED: Final = 1_000  # entries of a feed, which is made as a whole; the other views are written as they are read
DEFAULT_TYPE: Final = "text/xml"
CONTENT_TYPES: Final = (
    "text/xml",
    "application/xml",
    "application/rss+xml",
    "application/atom+xml",
    "application/rdf+xml",
    "text/plain",
)


async def browse(call: Call) -> Response:
    """Answer with a view of a queue."""
    request = call.request
    if request.method == "HEAD":
        return not_allowed("HEAD is not supported; GET browses the queue", "GET")
    return await with_login(call, partial(_browsed, request))


async def _browsed(request: Request, login: Login) -> Response:
    parameters = Parameters(query_fields(request))
    queue = _queue(request, parameters)
    view = parameters.text("view") or VIEWS[0]
    if view not in VIEWS:
        raise BadRequestError(f"view is {view[:40]!r}; it is one of {', '.join(VIEWS)}")
    content_type = parameters.text("contentType") or DEFAULT_TYPE
    if content_type not in CONTENT_TYPES:
        raise BadRequestError(f"contentType is {content_type[:40]!r}; it is one of {', '.join(CONTENT_TYPES)}")
    content_type = f"{content_type}; charset=utf-8"
    most = parameters.number("maxMessages")
    message_id = parameters.text("msgId")
    messages = login.browse(queue, parameters.text("selector") or request.headers.get("selector"))
    if message_id is not None:
        message = await _found(messages, message_id)
        text = _head(queue) + message_xml(message) + _tail()
        return Response(text.encode(), media_type=content_type)
    if view == "rss":
        feed = feeds.feed_of(parameters.text("feedType"))
        entries = [one async for one in _limited(messages, MAX_FEED if most is None else min(most, MAX_FEED))]
        uri = str(request.url.replace(query=""))
        return Response(feed(queue, uri, entries), media_type=content_type)
    shape = message_xml if view == "xml" else _short
    # The first message is read before the answer begins, so that a refusal has a status of its own.
    limited = _limited(messages, most)
    first = await anext(limited, None)
    return StreamingResponse(_pages(login, queue, shape, first, limited), media_type=content_type)


def _queue(request: Request, parameters: Parameters) -> Destination:
    kind = parameters.text("type")
    if kind is not None and kind.lower() != "queue":
        raise BadRequestError("only a queue keeps messages that can be browsed: type is queue")
    words = Parameters((name, value) for name, value in request.query_params.multi_items() if name == "destination")
    path = str(request.path_params.get("name", ""))
    destination = destination_of(path, words, default=QUEUE)
    if not destination.is_queue:
        raise BadRequestError("only a queue keeps messages that can be browsed")
    return destination


async def _limited(messages: AsyncGenerator[Message], most: int | None) -> AsyncGenerator[Message]:
    """Iterate over at most ``most`` messages."""
    count = 0
    async with aclosing(messages):
        while count != most and (message := await anext(messages, None)) is not None:
            count += 1
            yield message


async def _found(messages: AsyncGenerator[Message], message_id: str) -> Message:
    """Return a message of a queue. Raises `ProblemError` if the message is gone."""
    async with aclosing(messages):
        async for message in messages:
            if message.message_id == message_id:
                return message
    raise ProblemError(HTTPStatus.NOT_FOUND, f"there is no message {message_id[:200]} in the queue any more")


async def _pages(
    login: Login,
    queue: Destination,
    shape: Callable[[Message], str],
    first: Message | None,
    rest: AsyncGenerator[Message],
) -> AsyncIterator[bytes]:
    """Write a view message by message, so that a long queue takes no memory."""
    login.requests += 1
    try:
        async with aclosing(rest):
            yield _head(queue).encode()
            if first is not None:
                yield shape(first).encode()
            async for message in rest:
                yield shape(message).encode()
            yield _tail().encode()
    finally:
        login.requests -= 1
        login.touch()


def _head(queue: Destination) -> str:
    return f"<messages queue={attribute(str(queue))}>\n"


def _tail() -> str:
    return "</messages>\n"


def _short(message: Message) -> str:
    return f"<message id={attribute(message.message_id)}/>\n"


def browse_rows(mount: str) -> list[RouteRow]:
    """Return the routes of the servlet at a path."""
    return [
        RouteRow("GET", path, Role.NONE, browse, "browses a queue", is_messaging=True)
        for path in (mount, f"{mount}/{SUBJECT}")
    ]


BROWSE_ROUTES: Final = tuple(row for mount in MOUNTS for row in browse_rows(mount))
