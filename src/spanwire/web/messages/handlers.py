"""Handlers of messages as JSON: publish, browse, receive with a lease, and end a lease."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from spanwire.client.messages.message import Message
from spanwire.management.tables.attributes import INTEGER, LIST, TEXT
from spanwire.management.tables.operation_table import Argument
from spanwire.model.destination import QUEUE, Destination
from spanwire.web.arguments import JSON_TYPE, read_arguments, read_object
from spanwire.web.calls import Call
from spanwire.web.messages.message_json import message_json, read_message
from spanwire.web.problems import ProblemError
from spanwire.web.rest.leases import FullLeasesError
from spanwire.web.rest.logins import Login
from spanwire.web.rest.reads import Reader
from spanwire.web.rest.requests import MAX_WAIT_MS, BadRequestError, Parameters, destination_of
from spanwire.web.rest.servlet import with_login

MAX_JSON_BYTES: Final = 16 * 1024 * 1024  # bytes; JSON is read in one piece, and this takes a tenth of a second
MAX_PUBLISHED: Final = 1_000  # messages in one request; they are one transaction
MAX_LISTED: Final = 100  # messages in one answer
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024  # bytes behind which an answer takes no further message
NEXT_S: Final = 0.001  # seconds to wait for a second message; the broker answers at once if it has none
DEFAULT_LEASE_MS: Final = 30_000  # milliseconds, as the visibility time-out of Amazon SQS
LEAST_LEASE_MS: Final = 1_000  # milliseconds; leases are looked at each second
MAX_LEASE_MS: Final = 43_200_000  # milliseconds, 12 hours
MESSAGES: Final = "messages"
LEASE: Final = Argument(
    "lease_ms",
    INTEGER,
    f"milliseconds until the messages go back, {DEFAULT_LEASE_MS:,} by default",
    least=LEAST_LEASE_MS,
)
RECEIVE: Final = (
    Argument("max_messages", INTEGER, f"most messages, 1 by default and {MAX_LISTED} at most", least=1),
    Argument("wait_ms", INTEGER, f"milliseconds to wait for the first message, {MAX_WAIT_MS:,} at most", least=0),
    LEASE,
    Argument("selector", TEXT, "a selector; without one all messages"),
)
ACKNOWLEDGE: Final = (Argument("ids", LIST, "ids of the messages to acknowledge, the others go back; all without it"),)
EXTEND: Final = (LEASE,)


async def publish(call: Call) -> Response:
    """Send one message, or the messages of a list, all or none."""
    return await with_login(call, partial(_published, call.request))


async def _published(request: Request, login: Login) -> Response:
    destination = named_destination(request)
    content = await _content(request)
    listed = content.get(MESSAGES)
    if listed is None:
        messages = [read_message(content)]
    elif not isinstance(listed, list) or len(content) > 1 or not 0 < len(listed) <= MAX_PUBLISHED:
        raise BadRequestError(f"messages is a list of 1 to {MAX_PUBLISHED:,} messages, and alone")
    else:
        messages = [read_message(one) for one in listed]
    return answer({"ids": await login.send_together(destination, messages)})


async def browse(call: Call) -> Response:
    """Answer with the first messages of a queue, without removal."""
    return await with_login(call, partial(_browsed, call.request))


async def _browsed(request: Request, login: Login) -> Response:
    parameters = Parameters(request.query_params.multi_items())
    queue = _queue(request, "browse")
    if parameters.text("limit") == "":
        raise BadRequestError("limit is empty; it is a whole number")
    limit = parameters.number("limit")
    most = MAX_LISTED if limit is None else min(limit, MAX_LISTED)
    messages: list[Message] = []
    size = 0
    async with aclosing(login.browse(queue, parameters.text("selector") or None)) as browsed:
        while len(messages) < most and size < MAX_ANSWER_BYTES and (one := await anext(browsed, None)) is not None:
            messages.append(one)
            size += len(one.raw)
    return answer({MESSAGES: [message_json(message) for message in messages]})


async def receive(call: Call) -> Response:
    """Take messages of a queue under a lease."""
    return await with_login(call, partial(_received, call.request))


async def _received(request: Request, login: Login) -> Response:
    queue = _queue(request, "receive")
    arguments = await _arguments(request, RECEIVE)
    login.leases.check()
    selector = arguments.get("selector")
    reader = await login.reader(queue, selector if isinstance(selector, str) and selector else None)
    lease_ms = _lease_ms(arguments)
    lease: str | None = None
    try:
        messages = await _read(request, reader, arguments)
        if not messages:
            return answer({"lease": None, MESSAGES: []})
        try:
            lease = login.leases.begin(reader, messages, lease_ms / 1000)
        except FullLeasesError:
            await reader.put_back()
            raise
    finally:
        if lease is None:
            await login.give_back(reader, is_queue=True)
    return answer({"lease": lease, "lease_ms": lease_ms, MESSAGES: [message_json(message) for message in messages]})


async def _read(request: Request, reader: Reader, arguments: Mapping[str, object]) -> list[Message]:
    """Return the available messages; waits for the first message."""
    most = min(_number(arguments, "max_messages", 1), MAX_LISTED)
    wait_s = min(_number(arguments, "wait_ms", 0), MAX_WAIT_MS) / 1000
    messages: list[Message] = []
    size = 0
    while len(messages) < most and size < MAX_ANSWER_BYTES:
        message = await reader.read(NEXT_S if messages else max(wait_s, NEXT_S), request.receive)
        if reader.is_left:  # the client has gone; the messages go back with the consumer
            return []
        if message is None:
            break
        messages.append(message)
        size += len(message.raw)
    return messages


async def acknowledge(call: Call) -> Response:
    """Acknowledge messages of a lease, and end the lease."""
    ids = (await _arguments(call.request, ACKNOWLEDGE)).get("ids")
    name = _lease_name(call.request)

    async def end(login: Login) -> Response:
        chosen = {str(one) for one in ids} if isinstance(ids, list) else None
        return answer({"acknowledged": await login.leases.acknowledge(name, chosen)})

    return await with_login(call, end)


async def release(call: Call) -> Response:
    """Give the messages of a lease back."""
    await _arguments(call.request, ())
    name = _lease_name(call.request)

    async def end(login: Login) -> Response:
        return answer({"released": await login.leases.release(name)})

    return await with_login(call, end)


async def extend(call: Call) -> Response:
    """Set the time of a lease anew."""
    arguments = await _arguments(call.request, EXTEND)
    name, lease_ms = _lease_name(call.request), _lease_ms(arguments)

    async def set_time(login: Login) -> Response:
        login.leases.extend(name, lease_ms / 1000)
        return answer({"lease": name, "lease_ms": lease_ms})

    return await with_login(call, set_time)


def answer(content: object) -> Response:
    """Return a response with JSON. ASCII alone, so that one half of a surrogate pair can be written."""
    return Response(json.dumps(content, separators=(",", ":"), allow_nan=False), media_type=JSON_TYPE)


def named_destination(request: Request) -> Destination:
    """Return the destination of the path, a queue unless ``type=topic`` follows. Raises `BadRequestError`."""
    written_type = Parameters(request.query_params.multi_items()).text("type")
    kind = [] if written_type is None else [("type", written_type)]
    items = [("destination", str(request.path_params["name"])), *kind]
    return destination_of("", Parameters(items), default=QUEUE)


def _queue(request: Request, verb: str) -> Destination:
    destination = named_destination(request)
    if not destination.is_queue:
        raise BadRequestError(
            f"a topic keeps nothing to {verb}: follow it with GET /messages/stream, or read a queue of a virtual topic"
        )
    return destination


async def _content(request: Request) -> dict[str, object]:
    body = await request.body()
    if len(body) > MAX_JSON_BYTES:
        raise ProblemError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body is larger than {MAX_JSON_BYTES} bytes; POST /api/message takes larger messages",
        )
    return read_object(request.headers.get("content-type", ""), body)


async def _arguments(request: Request, known: tuple[Argument, ...]) -> dict[str, object]:
    return read_arguments(known, request.headers.get("content-type", ""), await request.body())


def _lease_name(request: Request) -> str:
    return str(request.path_params["lease"])


def _lease_ms(arguments: Mapping[str, object]) -> int:
    return min(_number(arguments, "lease_ms", DEFAULT_LEASE_MS), MAX_LEASE_MS)


def _number(arguments: Mapping[str, object], name: str, default: int) -> int:
    value = arguments.get(name, default)
    return value if isinstance(value, int) else default
