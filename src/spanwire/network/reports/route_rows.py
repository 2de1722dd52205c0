"""Rows of brokers about dry runs: the path of a message at each broker.

Pure; claims of others are checked and cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from spanwire.network.reports.known_brokers import Peer

Row = dict[str, object]
FIELD: Final = "hops"
MAX_ROWS: Final = 50  # brokers of one answer; the question means one of them
MAX_ANSWERS: Final = 200  # consumers and links of one broker
MAX_TEXT: Final = 500  # characters of a value
MAX_ANSWER: Final = 1024 * 1024  # characters of an answer that is read
MAX_PRIORITY: Final = 1_000
TEXTS: Final = ("broker", "id", "silence", "held")
ANSWER_TEXTS: Final = ("location", "target_id", "target", "cause", "text")
CLOSED_TEXTS: Final = ("location", "target", "text")


def read_answer(text: str) -> list[Row]:
    """Return the rows of an answer, without parts of another form."""
    if len(text) > MAX_ANSWER:
        return []
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = content.get(FIELD) if isinstance(content, dict) else None
    if not isinstance(found, list):
        return []
    return [row for one in found[:MAX_ROWS] if isinstance(one, dict) and (row := _read(one))["broker"]]


def _read(content: Mapping[str, object]) -> Row:
    untold = content.get("untold")
    forwards = content.get("forwards")
    names = forwards[:MAX_ANSWERS] if isinstance(forwards, list) else []
    return {
        "kind": "hop",
        **{name: _text(content, name) for name in TEXTS},
        "forwards": [one[:MAX_TEXT] for one in names if isinstance(one, str)],
        "answers": [_answer(one) for one in _rows(content.get("answers"))],
        "closed": [{name: _text(one, name) for name in CLOSED_TEXTS} for one in _rows(content.get("closed"))],
        "untold": untold if isinstance(untold, int) and not isinstance(untold, bool) and untold > 0 else 0,
    }


def _answer(content: Mapping[str, object]) -> Row:
    priority = content.get("priority")
    is_number = isinstance(priority, int) and not isinstance(priority, bool) and abs(priority) <= MAX_PRIORITY
    return {
        **{name: _text(content, name) for name in ANSWER_TEXTS},
        "priority": priority if is_number else 0,
        "taken": content.get("taken") is True,
    }


def merged(rows: Sequence[Row]) -> list[Row]:
    """Return one row of each broker; a row with an answer goes before a silent row."""
    found: dict[object, Row] = {}
    for row in rows:
        known = found.get(row["broker"])
        if known is None or (known["silence"] and not row["silence"]):
            found[row["broker"]] = row
    return list(found.values())[:MAX_ROWS]


def failed(broker: str, text: str, reason: str) -> Row:
    """Return the row of a broker without an answer."""
    return _read({"broker": broker, "silence": reason})


def chosen(own_name: str, text: str, peers: Sequence[Peer]) -> Sequence[Peer]:
    """Return the brokers to ask: the target if linked, else all; none if the target is this broker."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    target = content.get("target") if isinstance(content, dict) else None
    if target == own_name:
        return ()
    meant = [peer for peer in peers if peer.name == target]
    return meant or peers


def _rows(rows: object) -> list[Row]:
    return [row for row in rows[:MAX_ANSWERS] if isinstance(row, dict)] if isinstance(rows, list) else []


def _text(content: Mapping[str, object], name: str) -> str:
    value = content.get(name)
    return value[:MAX_TEXT] if isinstance(value, str) else ""
