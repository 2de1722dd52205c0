"""Fields of a message under the names that ActiveMQ's browse command prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped

HEADER: Final = "JMS_HEADER_FIELD:"
CUSTOM: Final = "JMS_CUSTOM_FIELD:"
BODY: Final = "JMS_BODY_FIELD:"
GROUPS: Final = {"header": HEADER, "custom": CUSTOM, "body": BODY}
BODY_NAMES: Final = {"TextMessage": "JMSText", "StreamMessage": "JMSStreamMessage"}
OTHER_BODY: Final = "JMSBytes"


def fields_of(row: Mapping[str, object]) -> dict[str, str]:
    """Return the fields of a browsed message by ActiveMQ's name, with the prefix of their group.

    Map messages have a field for each entry.
    """
    headers: dict[str, object] = {
        "JMSCorrelationID": row.get("correlation_id"),
        "JMSDeliveryMode": "persistent" if row.get("persistent") else "non-persistent",
        "JMSDestination": str(row.get("destination", "")).partition("://")[2],
        "JMSExpiration": row.get("expiration_ms") or 0,
        "JMSMessageID": row.get("message_id"),
        "JMSPriority": row.get("priority"),
        "JMSRedelivered": bool(row.get("redelivery_count")),
        "JMSReplyTo": row.get("reply_to"),
        "JMSTimestamp": row.get("timestamp_ms") or 0,
        "JMSType": row.get("type"),
    }
    properties, body = row.get("properties"), row.get("body")
    customs = properties if isinstance(properties, dict) else {}
    bodies = body if isinstance(body, dict) and row.get("kind") == "MapMessage" else {}
    if body is not None and not bodies:
        bodies = {BODY_NAMES.get(str(row.get("kind")), OTHER_BODY): body}
    groups = ((HEADER, headers), (CUSTOM, customs), (BODY, bodies))
    return {
        prefix + str(name): _text(value)
        for prefix, values in groups
        for name, value in sorted(values.items())
        if value is not None
    }


def field_lines(row: Mapping[str, object], groups: Sequence[str], names: Sequence[str]) -> str:
    """Return a line for each chosen field, ``NAME = value``, and an empty line.

    Arguments:
        row: The message in the form of the control socket.
        groups: ``header``, ``custom`` or ``body``: all fields of the group.
        names: Names of single fields, of any group.
    """
    prefixes = tuple(GROUPS[group] for group in groups)
    chosen = {
        name: value
        for name, value in fields_of(row).items()
        if (prefixes and name.startswith(prefixes)) or name.partition(":")[2] in names
    }
    return "".join(f"{escaped(name)} = {escaped(value)}\n" for name, value in chosen.items())


def read_groups(texts: Sequence[str]) -> list[str]:
    """Return the groups in the value of ``-V``, separated by commas.

    Raises `ConfigurationError` for another word.
    """
    groups = [word.strip() for text in texts for word in text.split(",")]
    for group in groups:
        if group not in GROUPS:
            raise ConfigurationError(f"-V {group[:60]}: the groups of fields are {', '.join(GROUPS)}")
    return groups


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
