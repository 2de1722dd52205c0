"""Records of the decision log, and the form of a record in the file.

    c0ffee12 [{"format":1,"log":"5f0c…"}]                       the first line
    9a8b7c6d [{"commit":"bridge:…","bridge":"orders",…}]        one line for each write

A line has the records of one write, behind a CRC-32 in hexadecimal. So a crash damages the last line alone, and the
records of the line do not count: no caller has had a report of storage.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from spanwire.bridges.xa.branches import Side
from spanwire.model.errors import StoreError

FORMAT: Final = 1
CRC_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class Decision:
    """The commit of a transaction. ``source`` and ``target`` are addresses without secrets."""

    transaction: str
    bridge: str
    source: str
    target: str
    messages: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Done:
    """Both branches of a decided transaction are committed."""

    transaction: str


@dataclass(frozen=True, slots=True)
class Heuristic:
    """A branch of a decided transaction, finished from elsewhere, perhaps against the decision."""

    transaction: str
    bridge: str
    side: Side
    problem: str
    at_ms: int


Record = Decision | Done | Heuristic


def header_line(log_id: str) -> bytes:
    """Return the first line of a file."""
    return _line([{"format": FORMAT, "log": log_id}])


def record_line(records: list[Record]) -> bytes:
    """Return the line of one write."""
    return _line([_fields(record) for record in records])


def read_lines(octets: bytes, where: object) -> tuple[str, list[Record]]:
    """Return the id of the log, and all records. A damaged last line is left out.

    Raises:
        StoreError: the file is no log, has a newer format, or is damaged before its last line.
    """
    units: list[list[dict[str, object]]] = []
    bad = 0
    for number, line in enumerate(octets.split(b"\n"), 1):
        unit = _unit(line)
        if unit is None:
            bad = bad or number
        elif bad:
            raise StoreError(
                f"{where}: line {bad} is damaged, so decisions may be missing; move the file away, and settle the "
                "prepared branches of the bridges with spanwire transaction"
            )
        else:
            units.append(unit)
    header = units[0][0] if units and units[0] else {}
    version, log_id = header.get("format"), header.get("log")
    if not isinstance(version, int) or not isinstance(log_id, str):
        raise StoreError(f"{where}: is no log of decisions; name another directory")
    if version > FORMAT:
        raise StoreError(f"{where}: has the format {version} of a newer Spanwire; use the newer one")
    try:
        return log_id, [_record(fields) for unit in units[1:] for fields in unit]
    except (KeyError, TypeError, ValueError):
        raise StoreError(f"{where}: has a record that this Spanwire does not know; use a newer one") from None


def _line(unit: list[dict[str, object]]) -> bytes:
    text = json.dumps(unit, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32(text), text)


def _unit(line: bytes) -> list[dict[str, object]] | None:
    """Return the records of a line, or None for a damaged line."""
    crc, text = line[:CRC_DIGITS], line[CRC_DIGITS + 1 :]
    if b"%08x" % crc32(text) != crc or line[CRC_DIGITS : CRC_DIGITS + 1] != b" ":
        return None
    try:
        unit = json.loads(text)
    except (ValueError, RecursionError):
        return [{}]  # its sum is right, so it is no record of ours
    return unit if isinstance(unit, list) and all(isinstance(one, dict) for one in unit) else [{}]


def _fields(record: Record) -> dict[str, object]:
    if isinstance(record, Done):
        return {"done": record.transaction}
    if isinstance(record, Heuristic):
        return {
            "heuristic": record.transaction,
            "bridge": record.bridge,
            "side": record.side.value,
            "problem": record.problem,
            "at": record.at_ms,
        }
    return {
        "commit": record.transaction,
        "bridge": record.bridge,
        "source": record.source,
        "target": record.target,
        "messages": record.messages,
        "at": record.at_ms,
    }


def _record(fields: dict[str, object]) -> Record:
    if "done" in fields:
        return Done(str(fields["done"]))
    bridge, at_ms = str(fields["bridge"]), int(str(fields["at"]))
    if "heuristic" in fields:
        side = Side(str(fields["side"]))
        return Heuristic(str(fields["heuristic"]), bridge, side, str(fields["problem"]), at_ms)
    return Decision(
        str(fields["commit"]),
        bridge,
        str(fields["source"]),
        str(fields["target"]),
        int(str(fields["messages"])),
        at_ms,
    )
