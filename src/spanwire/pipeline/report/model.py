"""A report: tables, charts and what breaks the ledger, as values that the terminal, a page and JSON are made of.

Names in it come from messages and clients, and may be anything: whoever shows them escapes them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

MAX_SHOWN_IDS: Final = 1_000  # on a page, in JSON and in the tables; all of them are in the Parquet files of --out
MAX_ROWS: Final = 200  # of a table; what has more is cut and says so
MAX_SERIES: Final = 6  # lines of a chart that can still be told apart
MAX_FLOW_NODES: Final = 12  # of each column of the map of who sends to whom

Value = str | int | float | datetime | None


class Kind(enum.Enum):
    """What the values of a column are."""

    TEXT = "text"
    COUNT = "count"
    BYTES = "bytes"
    RATE = "per second"
    MILLIS = "ms"
    TIME = "time"


class Tone(enum.Enum):
    """How a figure is meant."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: ``name`` is its key in JSON, ``label`` its head for people, the name without one."""

    name: str
    kind: Kind = Kind.TEXT
    label: str = ""

    @property
    def head(self) -> str:
        """The text above the column."""
        return self.label or self.name


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a title. ``total`` is how many rows there were before the table was cut."""

    key: str
    title: str
    about: str
    columns: tuple[Column, ...]
    rows: list[tuple[Value, ...]]
    total: int

    @property
    def is_cut(self) -> bool:
        """Whether rows are missing here."""
        return self.total > len(self.rows)


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: values at times, in order; None where nothing is known."""

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
    """One row of a bar chart: a middle value and a high one."""

    name: str
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class BarChart:
    """A middle and a high value of each of some things."""

    key: str
    title: str
    unit: str
    middle: str
    high: str
    bars: list[Bar]


@dataclass(frozen=True, slots=True)
class Link:
    """From one party to the next, and how many messages; None when nobody counted them."""

    start: str
    end: str
    count: int | None


@dataclass(frozen=True, slots=True)
class FlowChart:
    """Producers, destinations and consumers in three columns, and the links between neighbours."""

    key: str
    title: str
    sending: list[Link]
    receiving: list[Link]


Chart = LineChart | BarChart | FlowChart


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that stands out."""

    name: str
    value: int | float | str
    tone: Tone = Tone.PLAIN


@dataclass(slots=True)
class Report:
    """All of it."""

    sources: list[str]
    begin: datetime | None = None
    end: datetime | None = None
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_broken: bool = False  # the ledger has ids that break it

    def table(self, key: str) -> Table:
        """The table of that key; `KeyError` when the report has none."""
        for table in self.tables:
            if table.key == key:
                return table
        raise KeyError(key)


def limit_rows(key: str, title: str, about: str, columns: tuple[Column, ...], rows: list[tuple[Value, ...]]) -> Table:
    """A table of at most `MAX_ROWS` of the rows."""
    return Table(key, title, about, columns, rows[:MAX_ROWS], len(rows))
