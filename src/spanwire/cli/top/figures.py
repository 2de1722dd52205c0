"""Tables of a live broker: rows of its views with rates, filtered, sorted and written as cells.

Pure: answers of the control socket and times in, cells out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spanwire.cli.process.list import duration
from spanwire.management.tables.view_table import ADVISORY_TOPICS
from spanwire.model.text import escaped

MAX_ROWS: Final = 500  # rows of a table; a terminal shows some fifty, and a filter finds the others
UNITS: Final = ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))
NOTHING: Final = "-"
RATE: Final = "rate"
BYTES: Final = "bytes"
NUMBER: Final = "number"
TEXT: Final = "text"
FLAG: Final = "flag"

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: the attribute of the rows, the heading, and the kind of values.

    A `RATE` is the growth of the attribute in a second.
    """

    attribute: str
    heading: str
    kind: str = NUMBER

    @property
    def key(self) -> str:
        """The key of the column, unique in a table."""
        return f"{self.attribute}/s" if self.kind == RATE else self.attribute


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table: the command to list the rows, the identity of a row, and the columns.

    ``explained`` is the kind for a question why, "" without a question, and ``subject`` the attribute with the name.
    ``inside`` is the key of the rows in an answer other than a list.
    """

    key: str
    title: str
    command: str
    identity: tuple[str, ...]
    columns: tuple[Column, ...]
    explained: str = ""
    subject: str = ""
    inside: str = ""


NAME: Final = Column("destination", "name", TEXT)
COUNTS: Final = (
    Column("pending", "pending"),
    Column("in_flight", "in flight"),
    Column("enqueued", "in/s", RATE),
    Column("dequeued", "out/s", RATE),
    Column("consumers", "consumers"),
    Column("producers", "producers"),
    Column("memory_bytes", "memory", BYTES),
    Column("expired", "expired"),
)
SHEETS: Final = (
    Sheet(
        "queues", "Queues", "destinations", ("destination",), (NAME, *COUNTS, Column("paused", "paused", FLAG)),
        "queue", "destination",
    ),
    Sheet("topics", "Topics", "destinations", ("destination",), (NAME, *COUNTS), "topic", "destination"),
    Sheet(
        "connections", "Connections", "connections", ("connection_id",),
        (
            Column("client_id", "client", TEXT), Column("user_name", "user", TEXT),
            Column("remote_address", "from", TEXT), Column("connector", "connector", TEXT),
            Column("consumers", "consumers"), Column("producers", "producers"), Column("in_flight", "in flight"),
            Column("unsent_bytes", "unsent", BYTES), Column("blocked", "blocked", FLAG), Column("slow", "slow", FLAG),
        ),
        "connection", "connection_id",
    ),
    Sheet(
        "subscriptions", "Subscriptions", "subscriptions", ("client_id", "name"),
        (
            Column("client_id", "client", TEXT), Column("name", "name", TEXT), Column("topic", "topic", TEXT),
            Column("active", "active", FLAG), Column("pending", "pending"), Column("in_flight", "in flight"),
            Column("enqueued", "in/s", RATE), Column("dequeued", "out/s", RATE),
        ),
        "subscription", "name",
    ),
    Sheet(
        "links", "Links", "summary", ("name", "uri"),
        (
            Column("name", "connector", TEXT), Column("remote", "broker", TEXT), Column("uri", "address", TEXT),
            Column("state", "state", TEXT), Column("demand", "demand"), Column("in_flight", "in flight"),
            Column("dequeued", "out/s", RATE), Column("received", "in/s", RATE), Column("reconnects", "reconnects"),
            Column("reason", "reason", TEXT),
        ),
        "link", "name", "network_connectors",
    ),
    Sheet(
        "network", "Network", "network", ("name",),
        (
            Column("name", "broker", TEXT), Column("kind", "kind", TEXT), Column("link_count", "links"),
            Column("running", "running"), Column("waiting", "waiting"), Column("in_flight", "in flight"),
            Column("rate", "out/s"), Column("received_rate", "in/s"), Column("age_s", "age s"),
            Column("silence", "silence", TEXT),
        ),
        inside="brokers",
    ),
)  # fmt: skip


@dataclass(slots=True)
class Order:
    """Order and filter of a table: sorted column, direction, and a part of the rows' texts ("" for all)."""

    column: str
    is_descending: bool = True
    part: str = ""


@dataclass(slots=True)
class Shown:
    """The rows to show: identities and cells, and the number of matching rows."""

    rows: list[tuple[str, list[str]]] = field(default_factory=list)
    total: int = 0


class Table:
    """The rows of one sheet, with rates since the answer before."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet: Final = sheet
        self.order: Final = Order(self._first_number(sheet))
        self._rows: dict[str, dict[str, object]] = {}
        self._before: dict[str, Row] = {}
        self._before_s = 0.0

    def take(self, answer: object, now_s: float) -> None:
        """Take an answer of the broker, at a time of a monotonic clock in seconds."""
        rows = rows_of(self.sheet, answer)
        age_s = now_s - self._before_s
        shown: dict[str, dict[str, object]] = {}
        present: dict[str, Row] = {}
        for row in rows:
            identity = self.identity(row)
            while identity in present:  # such as two brokers of one name, which is a fault to be seen
                identity += "\0"
            present[identity] = row
            before = self._before.get(identity)
            rates = {
                column.key: _rate(row.get(column.attribute), before and before.get(column.attribute), age_s)
                for column in self.sheet.columns
                if column.kind == RATE
            }
            shown[identity] = {**row, **rates}
        self._rows = shown
        self._before = present
        self._before_s = now_s

    def identity(self, row: Row) -> str:
        """Return the identity of a row, different from the identities of all others."""
        return "\0".join(str(row.get(name)) for name in self.sheet.identity)

    def row(self, identity: str) -> dict[str, object] | None:
        """Return the present row of an identity."""
        return self._rows.get(identity)

    def turn_to(self, column: str) -> None:
        """Sort by a column; by the present column in the other direction."""
        if self.order.column == column:
            self.order.is_descending = not self.order.is_descending
        else:
            kind = next(one.kind for one in self.sheet.columns if one.key == column)
            self.order.column, self.order.is_descending = column, kind != TEXT

    def move(self, steps: int) -> None:
        """Sort by a column to the right or left."""
        keys = [column.key for column in self.sheet.columns]
        self.turn_to(keys[(keys.index(self.order.column) + steps) % len(keys)])

    def shown(self) -> Shown:
        """Return the matching rows in order, `MAX_ROWS` at most."""
        part = self.order.part.lower()
        texts = [column.attribute for column in self.sheet.columns if column.kind == TEXT]
        rows = [
            (identity, row)
            for identity, row in sorted(self._rows.items(), key=lambda item: item[0])
            if any(part in str(row.get(name, "")).lower() for name in texts)
        ]
        rows.sort(key=lambda item: self._value(item[1]), reverse=self.order.is_descending)
        cells = [(identity, self.cells(row)) for identity, row in rows[:MAX_ROWS]]
        return Shown(cells, len(rows))

    def cells(self, row: Row) -> list[str]:
        """Return the cells of a row."""
        return [cell(row.get(column.key), column.kind) for column in self.sheet.columns]

    def headings(self) -> list[tuple[str, str]]:
        """Return key and heading of each column; an arrow marks the sorted column."""
        arrow = "▼" if self.order.is_descending else "▲"
        return [
            (column.key, f"{column.heading} {arrow}" if column.key == self.order.column else column.heading)
            for column in self.sheet.columns
        ]

    def _value(self, row: Row) -> tuple[bool, object]:
        value = row.get(self.order.column)
        kind = next(one.kind for one in self.sheet.columns if one.key == self.order.column)
        if kind == TEXT:
            return value is not None, str(value or "").lower()
        return value is not None, value if isinstance(value, (int, float)) else 0

    @staticmethod
    def _first_number(sheet: Sheet) -> str:
        return next((column.key for column in sheet.columns if column.kind != TEXT), sheet.columns[0].key)


def rows_of(sheet: Sheet, answer: object) -> list[dict[str, object]]:
    """Return the rows of a sheet in an answer of the broker."""
    if sheet.inside:
        answer = answer.get(sheet.inside) if isinstance(answer, dict) else None
    rows = [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
    if sheet.key == "queues":
        return [row for row in rows if "queue://" in str(row.get("destination"))]
    if sheet.key == "topics":
        topics = [row for row in rows if "topic://" in str(row.get("destination"))]
        return [row for row in topics if not str(row["destination"]).startswith(ADVISORY_TOPICS)]
    if sheet.key == "network":
        return [_broker(row) for row in rows]
    return rows


def _broker(row: dict[str, object]) -> dict[str, object]:
    """Return a broker of the network with the sums of its links, as the map has them."""
    links_part = row.get("links")
    links = [link for link in links_part if isinstance(link, dict)] if isinstance(links_part, list) else []
    sums: dict[str, object] = {
        name: round(sum(value for link in links if isinstance(value := link.get(name), (int, float))))
        for name in ("waiting", "in_flight", "rate", "received_rate")
    }
    age = row.get("age_s")
    return {
        **row,
        **sums,
        "link_count": len(links),
        "running": sum(link.get("state") == "running" for link in links),
        "age_s": round(age) if isinstance(age, (int, float)) else None,
    }


def cell(value: object, kind: str) -> str:
    """Return a value for people, without characters to steer the terminal."""
    if value is None or value == "":
        return NOTHING
    if kind == FLAG:
        return "yes" if value else ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if kind == BYTES and isinstance(value, int):
        size, unit = next(((size, unit) for size, unit in UNITS if value >= size), (1, ""))
        return f"{value / size:.1f} {unit}" if unit else str(value)
    if kind == RATE and isinstance(value, (int, float)):
        return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    return escaped(str(value))


def headline(status: object) -> str:
    """Return the line about the broker, from an answer to ``summary``."""
    if not isinstance(status, dict):
        return "the broker's status has another form than expected"
    usage, statistics, uptime = status.get("usage"), status.get("statistics"), status.get("uptime_s")
    used = usage if isinstance(usage, dict) else {}
    counts = statistics if isinstance(statistics, dict) else {}
    parts = [
        f"memory {used.get('memory_percent', 0)} %",
        f"store {used.get('store_percent', 0)} %",
        f"temp {used.get('temporary_percent', 0)} %",
        f"connections {counts.get('connections', 0)}",
        f"up {duration(int(uptime) if isinstance(uptime, (int, float)) else 0)}",
    ]
    if used.get("disk_full"):
        parts.append("DISK FULL")
    if counts.get("parked_sends"):
        parts.append(f"{counts['parked_sends']} sends wait")
    return escaped(f"{status.get('name')}: {', '.join(parts)}")


def _rate(value: object, before: object, age_s: float) -> float | None:
    """Return the growth in a second; None without a value before, or after a reset of the counter."""
    if not isinstance(value, int) or not isinstance(before, int) or age_s <= 0 or value < before:
        return None
    return (value - before) / age_s
