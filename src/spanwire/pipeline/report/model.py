"""A report as values: tables, charts and flagged ids, for the terminal, a page and JSON.

Names come from messages and clients and may contain anything, so every output must escape them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

MAX_SHOWN_IDS: Final = 1_000  # flagged ids on a page, in JSON and in tables; the Parquet files of --out have all ids
MAX_ROWS: Final = 200  # rows of a table; a longer table is limited and says so
MAX_SERIES: Final = 6  # lines of a chart; more cannot be distinguished
MAX_FLOW_NODES: Final = 12  # clients or destinations in each column of a flow chart

Value = str | int | float | datetime | None


class Kind(enum.Enum):
    """The kind of the values of a column."""

    TEXT = "text"
    COUNT = "count"
    BYTES = "bytes"
    RATE = "per second"
    MILLIS = "ms"
    TIME = "time"


class Tone(enum.Enum):
    """The meaning of a figure."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; ``name`` is its heading and its key in JSON."""

    name: str
    kind: Kind = Kind.TEXT


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a title; ``total`` is the number of rows before the table was limited."""

    key: str
    title: str
    about: str
    columns: tuple[Column, ...]
    rows: list[tuple[Value, ...]]
    total: int

    @property
    def is_cut(self) -> bool:
        """Return True if rows are missing in the table."""
        return self.total > len(self.rows)


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: values at times, in order; an unknown value is ``None``."""

    name: str
    points: list[tuple[datetime, float | None]]


@dataclass(frozen=True, slots=True)
class LineChart:
    """Values over time."""

    key: str
    title: str
    unit: str
    series: list[Series]


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a bar chart, with a middle and a high value."""

    name: str
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class BarChart:
    """A middle and a high value for each of several names."""

    key: str
    title: str
    unit: str
    middle: str
    high: str
    bars: list[Bar]


@dataclass(frozen=True, slots=True)
class Link:
    """A link from a client or destination to the next.

    ``count`` is the number of messages, or ``None`` if unknown.
    """

    start: str
    end: str
    count: int | None


@dataclass(frozen=True, slots=True)
class FlowChart:
    """Producers, destinations and consumers in three columns, with links between neighbours."""

    key: str
    title: str
    sending: list[Link]
    receiving: list[Link]


Chart = LineChart | BarChart | FlowChart


@dataclass(frozen=True, slots=True)
class Figure:
    """One number at the top of a report."""

    name: str
    value: int | float | str
    tone: Tone = Tone.PLAIN


@dataclass(slots=True)
class Report:
    """A complete report."""

    sources: list[str]
    begin: datetime | None = None
    end: datetime | None = None
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_broken: bool = False  # ids break the ledger

    def table(self, key: str) -> Table:
        """Return the table of a key.

        Raises:
            KeyError: the report has no such table.
        """
        for table in self.tables:
            if table.key == key:
                return table
        raise KeyError(key)


def limit_rows(key: str, title: str, about: str, columns: tuple[Column, ...], rows: list[tuple[Value, ...]]) -> Table:
    """Return a table with at most `MAX_ROWS` of the rows."""
    return Table(key, title, about, columns, rows[:MAX_ROWS], len(rows))
