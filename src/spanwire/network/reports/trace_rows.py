"""Rows of brokers about traced messages, with the offsets of their clocks. Pure.

Rows of other brokers are claims: each value is checked and cut. A row is an *observation* (a step of a message), or the
state of a *broker*. Clocks differ: the asking broker measures the lead of the answering broker's clock, with the
possible error. Over several brokers offsets and errors add up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

Row = dict[str, object]
MAX_ROWS: Final = 5_000  # rows of one answer, of all brokers behind a link together; about 2 MB
MAX_TEXT: Final = 300  # characters of a value
MAX_ANSWER: Final = 4 * 1024 * 1024  # characters of an answer that is read
MAX_TIME: Final = 1 << 53  # milliseconds since 1970, or of an offset; a number that all programs can read
MAX_NUMBER: Final = 1_000_000  # of an observation or hop
FIELD: Final = "rows"
OBSERVATION: Final = "observation"
BROKER: Final = "broker"
STEP_TEXTS: Final = ("broker", "teller", "message_id", "step", "destination", "location", "detail")
STEP_NUMBERS: Final = ("number", "hops", "deliveries")
STATE_TEXTS: Final = ("broker", "id", "silence", "ended")
STATE_NUMBERS: Final = ("marked", "dropped")


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
    if content.get("kind") == OBSERVATION:
        return {
            "kind": OBSERVATION,
            **{name: _text(content, name) for name in STEP_TEXTS},
            **{name: _number(content, name, MAX_NUMBER) for name in STEP_NUMBERS},
            "time_ms": _number(content, "time_ms", MAX_TIME),
        }
    return {
        "kind": BROKER,
        **{name: _text(content, name) for name in STATE_TEXTS},
        **{name: _number(content, name, MAX_NUMBER) for name in STATE_NUMBERS},
        "time_ms": _number(content, "time_ms", MAX_TIME),
        "offset_ms": _number(content, "offset_ms", MAX_TIME, lowest=-MAX_TIME),
        "uncertain_ms": _number(content, "uncertain_ms", MAX_TIME),
    }


def with_offsets(rows: Sequence[Row], teller: str, asked_ms: int, answered_ms: int) -> list[Row]:
    """Return the rows of an answer with offsets to the clock of the asking broker.

    Args:
        rows: the rows; offsets inside are to the clock of ``teller``.
        teller: the answering broker, with a clock reading between question and answer.
        asked_ms: the time of the question by the clock of the asking broker.
        answered_ms: the time of the answer by the same clock.
    """
    time_ms = next((row["time_ms"] for row in rows if row["kind"] == BROKER and row["broker"] == teller), 0)
    assert isinstance(time_ms, int)
    offset_ms = time_ms - (asked_ms + answered_ms) // 2 if time_ms else 0
    error_ms = max(1, (answered_ms - asked_ms + 1) // 2)
    changed: list[Row] = []
    for row in rows:
        if row["kind"] != BROKER or row["silence"]:
            changed.append(row)
            continue
        further, uncertain = row["offset_ms"], row["uncertain_ms"]
        assert isinstance(further, int)
        assert isinstance(uncertain, int)
        changed.append({**row, "offset_ms": offset_ms + further, "uncertain_ms": error_ms + uncertain})
    return changed


def merged(rows: Sequence[Row]) -> list[Row]:
    """Return rows without repetitions.

    Of two states of a broker an answer goes before silence, then the surer state.
    """
    steps: dict[tuple[object, object], Row] = {}
    states: dict[object, Row] = {}
    for row in rows:
        if row["kind"] == OBSERVATION:
            steps.setdefault((row.get("teller") or row["broker"], row["number"]), row)
            continue
        known = states.get(row["broker"])
        if known is None or _rank(row) < _rank(known):
            states[row["broker"]] = row
    return [*states.values(), *steps.values()][:MAX_ROWS]


def failed(broker: str, text: str, reason: str) -> Row:
    """Return the state of a broker without an answer."""
    return _read({"kind": BROKER, "broker": broker, "silence": reason})


def _rank(row: Row) -> tuple[bool, int]:
    uncertain = row["uncertain_ms"]
    return bool(row["silence"]), uncertain if isinstance(uncertain, int) else MAX_TIME


def _text(content: Mapping[str, object], name: str) -> str:
    value = content.get(name)
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _number(content: Mapping[str, object], name: str, most: int, *, lowest: int = 0) -> int:
    value = content.get(name)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return min(max(value, lowest), most) if is_number and isinstance(value, int) else 0
