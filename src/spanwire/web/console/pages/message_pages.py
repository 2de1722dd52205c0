"""Pages of messages: browse a queue, and one message with its decoded body."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from spanwire.management.control_client import ControlError
from spanwire.management.handles import REFUSED
from spanwire.management.tables.operation_table import Role
from spanwire.web.calls import Call
from spanwire.web.console.forms import read_words
from spanwire.web.console.operations.actions import whole_number
from spanwire.web.console.pages.dead_letters import chosen, is_dead_letter_queue
from spanwire.web.console.rendering import page
from spanwire.web.problems import ProblemError

BROWSE_PATH: Final = "/admin/messages"
MESSAGE_PATH: Final = "/admin/message"
LIMITS: Final = (50, 100, 400)  # messages of a page; the broker shows 400 at most
MAX_SKIPPED: Final = 100_000  # messages before a page; the broker leaves out no more
EXCERPT: Final = 120  # characters of a body in a list
MAX_SHOWN: Final = 256 * 1024  # characters of a body on the page of a message
HEX_BYTES: Final = 16 * 1024  # bytes of a body shown as hexadecimal digits
HEX_COLUMNS: Final = 16
HEADERS: Final = (
    ("message_id", "Message id"), ("kind", "Kind"), ("destination", "Destination"),
    ("original_destination", "Original destination"), ("reply_to", "Reply to"), ("correlation_id", "Correlation id"),
    ("type", "JMS type"), ("group_id", "Message group"), ("group_sequence", "Number in the group"), ("user_id", "User"),
    ("priority", "Priority"), ("redelivery_count", "Failed deliveries"), ("broker_path", "Brokers on its way"),
)  # fmt: skip

Message = Mapping[str, object]


async def browse(call: Call) -> Response:
    """Show a page of a queue's messages for a selector, the oldest first. Messages stay in the queue.

    A caller who may only look sees no bodies, unless the broker's configuration shows bodies.
    """
    words = read_words(call)
    name, selector = words.text("name"), words.text("selector").strip()
    limit = min(whole_number("limit", words.text("limit") or str(LIMITS[0])), LIMITS[-1])
    skip = min(whole_number("skip", words.text("skip") or "0"), MAX_SKIPPED)
    answer, fault = await _browsed(call, name, selector, limit, skip)
    found = answer.get("messages")
    messages = found if isinstance(found, list) else []
    return page(
        call,
        "messages.html",
        f"Messages of {name.partition('://')[2]}",
        name=name,
        selector=selector,
        limit=limit,
        limits=LIMITS,
        fault=fault,
        looked=answer.get("looked", 0),
        waiting=answer.get("waiting", 0),
        in_flight=answer.get("in_flight", 0),
        skip=skip,
        next=_next(answer),
        has_bodies=answer.get("bodies", True),
        messages=[(one, excerpt(one)) for one in messages],
    )


def _next(answer: Mapping[str, object]) -> int:
    """Return the number to skip for the page behind an answer; 0 without a further page."""
    behind, waiting = answer.get("next"), answer.get("waiting")
    has_more = isinstance(behind, int) and isinstance(waiting, int) and behind < min(waiting, MAX_SKIPPED)
    return behind if has_more and isinstance(behind, int) else 0


async def _browsed(call: Call, name: str, selector: str, limit: int, skip: int = 0) -> tuple[Mapping[str, object], str]:
    """Return the answer to a browse; the text of the error for a wrong selector."""
    chosen: dict[str, object] = {"selector": selector} if selector else {}
    if skip:
        chosen["skip"] = skip
    command = "browse" if call.caller.role >= Role.OPERATE else "headers"
    try:
        answer = await call.ask(command, destination=name, limit=max(limit, 1), **chosen)
    except ControlError as error:
        if error.code != REFUSED:
            raise
        return {}, str(error)
    return (answer, "") if isinstance(answer, dict) else ({}, "the broker's answer has another form than expected")


async def show_message(call: Call) -> Response:
    """Show one message of a queue. Raises `ProblemError` if the message is gone."""
    words = read_words(call)
    name, message_id = words.text("name"), words.text("id")
    answer, _ = await _browsed(call, name, chosen([message_id]), 1)
    has_bodies = answer.get("bodies", True)
    messages = answer.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ProblemError(
            HTTPStatus.NOT_FOUND,
            f"{message_id[:200]} is not among the messages of {name[:200]} that wait: it was consumed, is at a "
            "consumer, or lies behind the first 10,000",
        )
    message = messages[0]
    form, body = decoded(message)
    properties = message.get("properties")
    return page(
        call,
        "message.html",
        "Message",
        name=name,
        has_retry="original_destination" in message or is_dead_letter_queue({"destination": name}),
        message=message,
        has_bodies=has_bodies,
        headers=[(label, _shown(message[key])) for key, label in HEADERS if key in message],
        properties=sorted(properties.items()) if isinstance(properties, dict) else [],
        form=form,
        body=body,
    )


def _shown(value: object) -> str:
    return " → ".join(str(one) for one in value) if isinstance(value, list) else str(value)


def excerpt(message: Message) -> str:
    """Return the beginning of a body in one line."""
    written = message.get("body")
    body = written if isinstance(written, str) and "fault" not in message else decoded(message)[1]
    text = body if isinstance(body, str) else "; ".join(f"{name} = {value}" for name, value in body)
    line = " ".join(text[: EXCERPT * 8].split())
    return line if len(line) <= EXCERPT else f"{line[:EXCERPT]}…"


def decoded(message: Message) -> tuple[str, str | list[tuple[str, str]]]:
    """Return the form of a body (text, JSON, map, stream, bytes or none) with text or pairs."""
    body = message.get("body")
    if "fault" in message:
        return "none", str(message["fault"])
    if isinstance(body, dict):
        octets = body.get("base64")
        if len(body) == 1 and isinstance(octets, str):
            return "bytes", hexadecimal(octets)
        return "map", [(str(name), _plain(value)) for name, value in body.items()]
    if isinstance(body, list):
        return "stream", [(str(number), _plain(value)) for number, value in enumerate(body, 1)]
    if not isinstance(body, str):
        return "none", ""
    return _text(body)


def _text(body: str) -> tuple[str, str]:
    """Return a text; JSON is indented."""
    if len(body) <= MAX_SHOWN and body.lstrip()[:1] in ("{", "["):
        try:
            return "JSON", json.dumps(json.loads(body), indent=2, ensure_ascii=False)[: 4 * MAX_SHOWN]
        except (ValueError, RecursionError):
            return "text", body
    if len(body) > MAX_SHOWN:
        return "text", f"{body[:MAX_SHOWN]}\n… {len(body) - MAX_SHOWN:,} more characters"
    return "text", body


def _plain(value: object) -> str:
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("base64"), str):
        return hexadecimal(str(value["base64"]))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def hexadecimal(octets: str) -> str:
    """Return base64 as lines of hexadecimal digits with the printable characters beside them."""
    try:
        data = base64.b64decode(octets, validate=True)
    except (ValueError, binascii.Error):
        return octets
    lines = []
    for start in range(0, min(len(data), HEX_BYTES), HEX_COLUMNS):
        part = data[start : start + HEX_COLUMNS]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * HEX_COLUMNS - 1}}  {text}")
    if len(data) > HEX_BYTES:
        lines.append(f"… {len(data) - HEX_BYTES:,} more bytes")
    return "\n".join(lines)
