"""Messages under the names of ActiveMQ's composite data, in Jolokia's form of tables."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from spanwire.management.beans.errors import ILLEGAL, BeanError
from spanwire.management.beans.executions import Node

MAX_PREVIEW: Final = 255  # octets of a body in its preview, as in ActiveMQ
HEADERS: Final = {  # headers of a sent message, and the arguments of the operation
    "JMSCorrelationID": "correlation_id",
    "JMSType": "type",
    "JMSPriority": "priority",
    "JMSReplyTo": "reply_to",
    "JMSXGroupID": "group",
    "timeToLive": "lifetime_ms",
}
WHOLE: Final = ("priority", "lifetime_ms")
MAX_DIGITS: Final = 19  # digits of a whole number; a long has no more
DELIVERY_MODE: Final = "JMSDeliveryMode"
PERSISTENT: Final = ("2", "PERSISTENT")


def composites(answer: object) -> list[Node]:
    """Return the messages of an answer to ``browse``."""
    rows = answer.get("messages") if isinstance(answer, dict) else None
    return [composite(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def composite(row: Mapping[str, object]) -> Node:
    """Return one message. The properties stand in a table for each type of JSON."""
    properties = row.get("properties")
    own = properties if isinstance(properties, dict) else {}
    timestamp = row.get("timestamp_ms")
    path = row.get("broker_path")
    return {
        "JMSMessageID": row.get("message_id"),
        "JMSDestination": row.get("destination"),
        "JMSTimestamp": _instant(timestamp) if isinstance(timestamp, int) else None,
        "JMSDeliveryMode": "PERSISTENT" if row.get("persistent") else "NON-PERSISTENT",
        "JMSPriority": row.get("priority"),
        "JMSExpiration": row.get("expiration_ms") or 0,
        "JMSCorrelationID": row.get("correlation_id"),
        "JMSReplyTo": row.get("reply_to"),
        "JMSType": row.get("type"),
        "JMSRedelivered": bool(row.get("redelivery_count")),
        "JMSXGroupID": row.get("group_id"),
        "JMSXGroupSeq": row.get("group_sequence") or 0,
        "JMSXUserID": row.get("user_id"),
        "BrokerPath": ", ".join(path) if isinstance(path, list) else None,
        "OriginalDestination": row.get("original_destination"),
        "PropertiesText": str(own) if own else "",
        "StringProperties": _table(own, str),
        "BooleanProperties": _table(own, bool),
        "LongProperties": _table(own, int),
        "DoubleProperties": _table(own, float),
        **_body(row),
    }


def sent(headers: Mapping[str, object]) -> Node:
    """Return the arguments of ``send`` for the headers of a message; other names are properties.

    Raises:
        BeanError: the value of a header is no whole number
    """
    arguments: Node = {}
    properties: Node = {}
    for name, value in headers.items():
        argument = HEADERS.get(name)
        if name == DELIVERY_MODE:
            arguments["persistent"] = str(value).upper() in PERSISTENT
        elif argument is None:
            properties[name] = value
        else:
            arguments[argument] = _whole(name, value) if argument in WHOLE else value
    return {**arguments, "properties": properties}


def _whole(name: str, value: object) -> int:
    """Return a whole number from 0 on, from a number or a text. Raises `BeanError`."""
    text = str(value)
    if not (len(text) <= MAX_DIGITS and text.isascii() and text.isdigit()):
        raise BeanError(400, ILLEGAL, f"{name} is a whole number from 0 on")
    return int(text)


def _body(row: Mapping[str, object]) -> Node:
    body, kind = row.get("body"), row.get("kind")
    if kind == "MapMessage":
        return {"ContentMap": str(body)}
    if kind != "BytesMessage":
        return {"Text": body} if isinstance(body, str) else {}
    encoded = body.get("base64") if isinstance(body, dict) else None
    octets = base64.b64decode(encoded) if isinstance(encoded, str) else str(body or "").encode("utf-8", "replace")
    preview = [octet - 256 if octet > 127 else octet for octet in octets[:MAX_PREVIEW]]
    return {"BodyLength": len(octets), "BodyPreview": preview}


def _table(properties: Mapping[str, object], kind: type) -> Node:
    return {name: {"key": name, "value": value} for name, value in properties.items() if type(value) is kind}


def _instant(wall_ms: int) -> str:
    """Return a time as Jolokia writes dates, in UTC."""
    try:
        return datetime.fromtimestamp(wall_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(wall_ms)  # a client may have sent any number
