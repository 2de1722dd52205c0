"""The JSON form of a message, in both directions.

``{"body": "text", "properties": {"n": 7, "weight": {"type": "float", "value": 0.5}}, "correlation_id": "c-1"}``

A property is a plain value, or an object with the JMS type where the plain value stands for another type.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from typing import Final

from spanwire.client.messages.message import Message
from spanwire.client.messages.typed_values import INT_MAX, INT_MIN, Byte, Double, Float, Int, Long, Short, Typed
from spanwire.management.tables.attributes import BOOLEAN, INTEGER, OBJECT, TEXT
from spanwire.management.tables.operation_table import Argument
from spanwire.model.destination import parse_destination
from spanwire.model.errors import InvalidDestinationError, MessageFormatError
from spanwire.web.arguments import check_arguments
from spanwire.web.rest.publications import NewBody, NewMessage, Value
from spanwire.web.rest.requests import BadRequestError

BODY: Final = "body"
KIND: Final = "kind"
KINDS: Final = ("text", "bytes", "map", "stream", "message")
HEADERS: Final = (
    Argument(KIND, TEXT, f"JMS message type: {', '.join(KINDS)}; by the body without it", choices=KINDS),
    Argument("properties", OBJECT, "properties: texts, numbers, true, false, null, or objects with type and value"),
    Argument("persistent", BOOLEAN, "false for a message that a restart may lose"),
    Argument("priority", INTEGER, "0 to 9, 4 by default", least=0, most=9),
    Argument("lifetime_ms", INTEGER, "milliseconds after which the message expires; 0 for never", least=0),
    Argument("delay_ms", INTEGER, "milliseconds that the broker holds the message", least=0),
    Argument("correlation_id", TEXT, "correlation id"),
    Argument("reply_to", TEXT, "queue or topic for answers"),
    Argument("type", TEXT, "JMS type"),
    Argument("group", TEXT, "message group"),
    Argument("group_sequence", INTEGER, "number of the message in its group", least=0),
)
WHOLE: Final[dict[str, tuple[Callable[[int], Typed], int]]] = {  # JMS types of whole numbers with their bits
    "byte": (Byte, 8),
    "short": (Short, 16),
    "int": (Int, 32),
    "long": (Long, 64),
}
BROKEN: Final[dict[str, Callable[[float], Typed]]] = {"float": Float, "double": Double}
NAMED_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # JSON has no such numbers
MAX_FLOAT: Final = 3.4028235677973366e38  # the least number that rounds to infinity as a Java float
TYPE_WORDS: Final = ", ".join(("boolean", *WHOLE, *BROKEN, "string"))


def read_message(content: object) -> NewMessage:
    """Return the message in a JSON object.

    Raises:
        BadRequestError: the value is no object, or body, properties or reply_to do not fit.
        ProblemError: a field is unknown or has another type.
    """
    if not isinstance(content, dict):
        raise BadRequestError("a message is a JSON object with the field body")
    headers = {name: value for name, value in content.items() if name != BODY}
    check_arguments(HEADERS, headers, (BODY,))
    content = {**content, **headers}
    reply_to = content.get("reply_to")
    try:
        reply = parse_destination(reply_to) if reply_to else None
    except InvalidDestinationError as error:
        raise BadRequestError(f"reply_to: {error}") from error
    return NewMessage(
        _read_body(content.get(KIND), content.get(BODY)),
        {name: _read_property(name, value) for name, value in content.get("properties", {}).items()},
        content.get("persistent", True),
        content.get("priority", 4),
        content.get("lifetime_ms", 0),
        content.get("delay_ms"),
        content.get("correlation_id"),
        reply,
        content.get("type"),
        content.get("group"),
        content.get("group_sequence", 0),
    )


def _read_body(kind: str | None, body: object) -> NewBody:
    if body is None and kind in (None, "message"):
        return None
    if isinstance(body, str) and kind in (None, "text"):
        return body
    if isinstance(body, str) and kind == "bytes":
        try:
            return base64.b64decode(body, validate=True)
        except (ValueError, binascii.Error) as error:
            raise BadRequestError("the body of a bytes message is no base64") from error
    if isinstance(body, dict) and kind in (None, "map"):
        return body
    if isinstance(body, list) and kind in (None, "stream"):
        return body
    raise BadRequestError(
        "the body does not fit its kind: a text for text, base64 for bytes, an object for map, a list for stream, none "
        "for message"
    )


def _read_property(name: str, value: object) -> Value:
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, int):
        return _whole(name, value, "long")
    if not isinstance(value, dict) or set(value) != {"type", "value"}:
        raise BadRequestError(f"the property {name[:40]!r} is a value, or an object with type and value")
    kind, plain = str(value["type"]), value["value"]
    if kind == "string" and isinstance(plain, str):
        return plain
    if kind == "boolean" and isinstance(plain, bool):
        return plain
    if kind in WHOLE and isinstance(plain, int) and not isinstance(plain, bool):
        _whole(name, plain, kind)
        return WHOLE[kind][0](plain)
    if kind in BROKEN:
        number = NAMED_NUMBERS.get(plain) if isinstance(plain, str) else plain
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            return _broken(name, number, kind)
    raise BadRequestError(
        f"the property {name[:40]!r} has the type {kind[:40]!r} and another value; types are {TYPE_WORDS}"
    )


def _whole(name: str, value: int, kind: str) -> int:
    bits = WHOLE[kind][1]
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise BadRequestError(f"the property {name[:40]!r} does not fit into {bits} bits")
    return value


def _broken(name: str, number: float, kind: str) -> Typed:
    try:
        value = float(number)
    except OverflowError as error:
        raise BadRequestError(f"the property {name[:40]!r} does not fit into a {kind}") from error
    if kind == "float" and math.isfinite(value) and abs(value) >= MAX_FLOAT:
        raise BadRequestError(f"the property {name[:40]!r} does not fit into a float")
    return BROKEN[kind](value)


def message_json(message: Message) -> dict[str, object]:
    """Return the JSON form of a received message.

    Octets are in base64. A message with a wrong format has the field ``error`` instead of body or properties.
    """
    answer: dict[str, object] = {
        "id": message.message_id,
        "destination": str(message.destination),
        KIND: message.kind,
        "persistent": message.persistent,
        "priority": message.priority,
        "timestamp": message.timestamp,
        "redelivery_count": message.redelivery_count,
    }
    original, reply_to = message.original_destination, message.reply_to
    for name, value in (
        ("expiration", message.expiration or None),
        ("correlation_id", message.correlation_id),
        ("reply_to", None if reply_to is None else str(reply_to)),
        ("type", message.message_type),
        ("group", message.group_id),
        ("group_sequence", message.group_sequence if message.group_id is not None else None),
        ("user", message.user_id),
        ("original_destination", None if original is None else str(original)),
    ):
        if value is not None:
            answer[name] = value
    try:
        answer["properties"] = {
            name: _property_json(kind, value) for name, (kind, value) in message.typed_properties.items()
        }
        answer[BODY] = plain_json(message.body)
    except MessageFormatError as error:
        answer["error"] = str(error)
    return answer


def _property_json(kind: str, value: object) -> object:
    """Return a property.

    A plain value with another type for `read_message` gets its type too.
    """
    plain = plain_json(value)
    if kind == "int" or kind in ("boolean", "string", "null"):
        return plain
    if kind == "long" and isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        return plain
    if kind == "double" and isinstance(plain, float):
        return plain
    return {"type": kind, "value": plain}


def plain_json(value: object) -> object:
    """Return a value of a body as JSON: octets in base64, and numbers outside of JSON as texts."""
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(name): plain_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(one) for one in value]
    return value
