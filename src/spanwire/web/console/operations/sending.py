"""The page that sends messages, as the JSON form of the HTTP API.

The form has all fields of a JMS message, and a number of messages.
"""

from __future__ import annotations

import json
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response

from spanwire.model.destination import QUEUE, TOPIC, Destination, parse_destination
from spanwire.model.errors import InvalidDestinationError
from spanwire.web.calls import Call
from spanwire.web.console.formats import link
from spanwire.web.console.forms import Form, read_form, read_words
from spanwire.web.console.operations.actions import properties, whole_number
from spanwire.web.console.operations.prompts import SENT
from spanwire.web.console.rendering import HEADERS, page
from spanwire.web.messages.handlers import MAX_PUBLISHED
from spanwire.web.messages.message_json import KINDS, read_message
from spanwire.web.problems import ProblemError
from spanwire.web.rest.logins import Login
from spanwire.web.rest.publications import NewMessage
from spanwire.web.rest.requests import BadRequestError
from spanwire.web.rest.servlet import with_login

SEND_PATH: Final = "/admin/send"
NUMBERS: Final = ("priority", "lifetime_ms", "delay_ms", "group_sequence")
TEXTS: Final = ("correlation_id", "reply_to", "type", "group")
# The broker's scheduler reads these properties, with ActiveMQ's names.
SCHEDULE: Final = (("period_ms", "AMQ_SCHEDULED_PERIOD", "long"), ("repeat", "AMQ_SCHEDULED_REPEAT", "int"))
CRON: Final = "AMQ_SCHEDULED_CRON"
MAX_BYTES: Final = 16 * 1024 * 1024  # bytes of body times number; they are one transaction of this process


async def show_form(call: Call) -> Response:
    """Show the form, with the destination of the query."""
    words = read_words(call)
    name = words.text("name")
    return page(
        call,
        "send.html",
        "Send messages",
        name=name.partition("://")[2] or name,
        is_topic=name.startswith("topic://"),
        kinds=KINDS,
        most=MAX_PUBLISHED,
    )


async def send(call: Call) -> Response:
    """Send the messages of the form with the rights of the user, all or none."""
    form = await read_form(call)
    try:
        destination = parse_destination(form.text("destination"), TOPIC if form.text("is_topic") else QUEUE)
        messages = read_messages(form)
    except (BadRequestError, InvalidDestinationError) as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, str(error)) from error
    response = await with_login(call, partial(_sent, destination, messages))
    call.snapshots.forget()
    return response


async def _sent(destination: Destination, messages: list[NewMessage], login: Login) -> Response:
    await login.send_together(destination, messages)
    target = link(SEND_PATH, name=destination.qualified_name, did=SENT, count=len(messages))
    return RedirectResponse(target, HTTPStatus.SEE_OTHER, HEADERS)


def read_messages(form: Form) -> list[NewMessage]:
    """Return the messages of a form.

    Raises:
        ProblemError: a field has another type
        BadRequestError: a value does not fit
    """
    count = whole_number("count", form.text("count") or "1")
    if not 0 < count <= MAX_PUBLISHED:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"count is a number from 1 to {MAX_PUBLISHED:,}")
    if len(form.text("body")) * count > MAX_BYTES:
        raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the bodies have more than {MAX_BYTES:,} bytes")
    content = _content(form)
    counter = form.text("counter").strip()
    if not counter or count == 1:
        return [read_message(content)] * count
    named = content["properties"]
    assert isinstance(named, dict)
    numbered = ({**named, counter: {"type": "int", "value": number}} for number in range(1, count + 1))
    return [read_message({**content, "properties": one}) for one in numbered]


def _content(form: Form) -> dict[str, object]:
    named = properties(form.text("properties"))
    for field, name, kind in SCHEDULE:
        if form.text(field).strip():
            named[name] = {"type": kind, "value": whole_number(field, form.text(field))}
    if form.text("cron").strip():
        named[CRON] = form.text("cron").strip()
    content: dict[str, object] = {"properties": named, "persistent": form.is_checked("persistent")}
    content |= {name: form.text(name).strip() for name in TEXTS if form.text(name).strip()}
    content |= {name: whole_number(name, form.text(name)) for name in NUMBERS if form.text(name).strip()}
    kind = form.text("kind") or "text"
    return {**content, "kind": kind, "body": _body(kind, form.text("body"))}


def _body(kind: str, text: str) -> object:
    """Return the body of a message; maps and streams are written as JSON. Raises `ProblemError`."""
    if kind == "message":
        return None
    if kind not in ("map", "stream"):
        return text.replace("\r\n", "\n")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, f"the body of a {kind} message is JSON: {str(error)[:120]}"
        ) from error
