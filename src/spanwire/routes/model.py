"""What routes are made of, whatever file they were written in.

A route has one source, steps that change the rows, and endpoints that get copies of them on the way; nothing here knows
of Spark. Branches (`Choice`, `Multicast`, a `Filter` with steps of its own) get the rows as they are at that point;
behind them the route goes on with all its rows, unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.routes.nodes import Location

SELECTOR: Final = "selector"
SQL: Final = "sql"
CONSTANT: Final = "constant"
LANGUAGES: Final = (SELECTOR, SQL, CONSTANT)

TIME: Final = "JMSTimestamp"  # of a message: event time, unless a step names another column

BROKER: Final = "broker"  # a queue or topic of a broker that speaks OpenWire
FORMAT: Final = "format"  # anything that Spark reads and writes by name


@dataclass(frozen=True, slots=True)
class Expression:
    """A text in one of the languages."""

    location: Location
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where rows come from or go to. The options are those of the data source `spanwire` or of Spark's format."""

    location: Location
    uri: str
    kind: str
    format: str
    options: dict[str, str] = field(repr=False)  # a password may be among them

    @property
    def destination(self) -> str:
        """The queue or topic, or the path."""
        return self.options.get("destination", self.options.get("path", self.options.get("dbtable", "")))


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps the rows for which the condition is true; with steps of its own, only for these."""

    condition: Expression
    steps: list[Step]
    is_branch: bool


@dataclass(frozen=True, slots=True)
class SetHeader:
    """A JMS header or a property of that name."""

    location: Location
    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class RemoveHeader:
    """Without that property, or with nothing in that header; ``*`` at the end stands for any rest."""

    location: Location
    name: str


@dataclass(frozen=True, slots=True)
class Transform:
    """New columns: each name with an SQL expression; with ``only``, no others stay."""

    location: Location
    columns: list[tuple[str, str]]
    only: bool


@dataclass(frozen=True, slots=True)
class CallFunction:
    """A Python function ``module.name`` of the text and the properties, whose answer is the new text."""

    location: Location
    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Split:
    """One row for each element of the array that an SQL expression gives, as the text."""

    location: Location
    sql: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Rows of event-time windows: when one is over, one row for each group."""

    location: Location
    window: str
    slide: str | None
    watermark: str
    by: list[tuple[str, str]]
    columns: list[tuple[str, str]]
    time: str = TIME


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """The first row of each key, for as long as the watermark lets doubles come."""

    location: Location
    key: str
    watermark: str
    time: str = TIME


@dataclass(frozen=True, slots=True)
class Join:
    """Columns of a table added to each row; ``left`` keeps rows without a partner."""

    location: Location
    table: Endpoint
    on: str
    columns: list[tuple[str, str]]
    is_left: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """Each row to the first branch whose condition is true."""

    location: Location
    branches: list[tuple[Expression, list[Step]]]
    otherwise: list[Step]


@dataclass(frozen=True, slots=True)
class Multicast:
    """A copy of each row to every branch."""

    location: Location
    branches: list[list[Step]]


@dataclass(frozen=True, slots=True)
class To:
    """A copy of the rows to an endpoint; wireTap is the same word for it."""

    endpoint: Endpoint
    is_tap: bool = False


Step = (
    Filter
    | SetHeader
    | RemoveHeader
    | Transform
    | CallFunction
    | Split
    | Aggregate
    | Deduplicate
    | Join
    | Choice
    | Multicast
    | To
)


@dataclass(frozen=True, slots=True)
class Patience:
    """The number of times that a failed route is started again, -1 for no limit, and the pause before each start, which
    doubles from failure to failure if it ``grows``.
    """

    retries: int = 10
    interval_ms: int = 1000
    is_growing: bool = True


@dataclass(frozen=True, slots=True)
class Route:
    """One query with one checkpoint."""

    location: Location
    name: str
    source: Endpoint
    steps: list[Step]
    dead_letters: Endpoint | None
    patience: Patience


def is_branching(step: Step) -> bool:
    """Whether a step hands rows to endpoints beside the way."""
    return isinstance(step, (Choice, Multicast, To)) or (isinstance(step, Filter) and step.is_branch)


def branches_of(step: Step) -> list[list[Step]]:
    """The ways that begin at a step."""
    if isinstance(step, Choice):
        return [*[steps for _, steps in step.branches], step.otherwise]
    if isinstance(step, Multicast):
        return step.branches
    return [step.steps] if isinstance(step, Filter) and step.is_branch else []


def endpoints_of(steps: list[Step]) -> list[Endpoint]:
    """All endpoints that get rows, in order."""
    endpoints: list[Endpoint] = []
    for step in steps:
        if isinstance(step, To):
            endpoints.append(step.endpoint)
        for branch in branches_of(step):
            endpoints += endpoints_of(branch)
    return endpoints
