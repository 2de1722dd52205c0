"""The command inside an advisory as the XML and JSON that ActiveMQ writes for STOMP clients.

    <RemoveInfo>                                   {"RemoveInfo":{"commandId":0,"objectId":{"@class":"ConnectionId",
      <commandId>0</commandId>                      "value":"ID:host-1:1"}}}
      <objectId class="ConnectionId">
        <value>ID:host-1:1</value>
      </objectId>
    </RemoveInfo>

A text in JSON stays a text, also if it looks like a number.
"""

from __future__ import annotations

import base64
import json
from typing import Final

from spanwire.model.message_view import CommandTree, TreeValue
from spanwire.protocols.stomp.bodies.map_text import INDENT, escaped

ADVISORY_JSON: Final = "jms-advisory-json"
ADVISORY_XML: Final = "jms-advisory-xml"
ADVISORY_TRANSFORMATIONS: Final[dict[str, str]] = {
    ADVISORY_JSON: ADVISORY_JSON,
    ADVISORY_XML: ADVISORY_XML,
    "jms-json": ADVISORY_JSON,
    "jms-xml": ADVISORY_XML,
    "jms-map-json": ADVISORY_JSON,
    "jms-map-xml": ADVISORY_XML,
}
"""Forms of an advisory in the ``transformation`` of a SUBSCRIBE."""


def advisory_text(command: CommandTree, form: str) -> bytes:
    """Return a command in one of the two forms."""
    if form == ADVISORY_XML:
        lines: list[str] = []
        _lines(lines, command, 0)
        return "\n".join(lines).encode("utf-8", "replace")
    text = json.dumps({command.name: _json(command)}, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace")


def _lines(lines: list[str], command: CommandTree, level: int) -> None:
    indent = INDENT * level
    attribute = f' class="{command.class_name}"' if command.class_name else ""
    lines.append(f"{indent}<{command.name}{attribute}>")
    inner = indent + INDENT
    for name, value in command.fields:
        if isinstance(value, CommandTree):
            _lines(lines, value, level + 1)
        elif isinstance(value, list):
            lines.append(f"{inner}<{name}>")
            for item in value:
                _lines(lines, item, level + 2)
            lines.append(f"{inner}</{name}>")
        elif value is None:
            lines.append(f"{inner}<{name}/>")
        else:
            lines.append(f"{inner}<{name}>{escaped(_text(value))}</{name}>")
    lines.append(f"{indent}</{command.name}>")


def _text(value: TreeValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def _json(command: CommandTree) -> dict[str, object]:
    inside: dict[str, object] = {"@class": command.class_name} if command.class_name else {}
    for name, value in command.fields:
        if isinstance(value, CommandTree):
            inside[name] = _json(value)
        elif isinstance(value, list):
            items: dict[str, object] = {}
            for item in value:
                before = items.get(item.name)
                one = _json(item)
                if before is None:
                    items[item.name] = one
                else:
                    items[item.name] = [*before, one] if isinstance(before, list) else [before, one]
            inside[name] = items if items else ""
        elif isinstance(value, bytes):
            inside[name] = _text(value)
        else:
            inside[name] = "" if value is None else value
    return inside
