"""The model of routes, independent of the format of the file and of Spark.

A route has one source, steps for changes of the rows, and endpoints for copies of the rows on the way. Branches
(`Choice`, `Multicast`, a `Filter` with steps) receive the rows at their position; after the branches the route
continues with all rows, unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.routes.consumers import ONE, Consumers
from spanwire.routes.readers.bridge_parameters import BridgeParameters
from spanwire.routes.readers.nodes import Location

SELECTOR: Final = "selector"
SQL: Final = "sql"
CONSTANT: Final = "constant"
SIMPLE: Final = "simple"
XPATH: Final = "xpath"
LANGUAGES: Final = (SELECTOR, SQL, CONSTANT, SIMPLE, XPATH)
TOKENIZE: Final = "tokenize"  # languages of split
JSONPATH: Final = "jsonpath"
LATEST: Final = "latest"  # strategies of aggregate: the latest message,
JOINED: Final = "joined"  # it with the texts of all,
JSON_ARRAY: Final = "json"  # or with a JSON array of all texts

SPARK: Final = "spark"  # engines: rows in batches on Spark,
EMBEDDED: Final = "embedded"  # or messages in a process beside the broker
ENGINES: Final = (SPARK, EMBEDDED)
ANY_ENGINE: Final = ""  # the engine of a route that names none: the one of the command

TIME: Final = "JMSTimestamp"  # event time, unless a step names another column

BROKER: Final = "broker"  # a queue or topic of a broker that speaks OpenWire
FORMAT: Final = "format"  # anything that Spark reads and writes by name
PROVIDER: Final = "provider"  # a queue or topic of a broker that a provider of bridges reaches; its name is the format
COMPONENT: Final = "component"  # file, timer, http and log of Camel


@dataclass(frozen=True, slots=True)
class Expression:
    """A text in one of the languages. ``options`` of xpath are the ``resultType`` and namespaces by prefix."""

    location: Location
    language: str
    text: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A source or target of rows; the options belong to the data source `spanwire` or to Spark's format."""

    location: Location
    uri: str
    kind: str
    format: str
    options: dict[str, str] = field(repr=False)  # a password may be among them
    consumers: Consumers = ONE  # receivers of a source, for the engine embedded

    @property
    def destination(self) -> str:
        """Return the queue or topic, or the path."""
        return self.options.get("destination", self.options.get("path", self.options.get("dbtable", "")))


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps the rows that satisfy the condition; with steps, applies the steps to these rows only."""

    condition: Expression
    steps: list[Step]
    is_branch: bool


@dataclass(frozen=True, slots=True)
class SetHeader:
    """Sets a JMS header or a property."""

    location: Location
    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class RemoveHeader:
    """Removes a property or clears a header; a trailing ``*`` matches any rest of a name."""

    location: Location
    name: str


@dataclass(frozen=True, slots=True)
class Transform:
    """Adds columns by SQL expressions; with ``only``, drops all other columns."""

    location: Location
    columns: list[tuple[str, str]]
    only: bool
    body: Expression | None = None  # of setBody in another language than SQL


@dataclass(frozen=True, slots=True)
class CallFunction:
    """Calls the Python function ``module.name`` with text and properties; the result is the new text."""

    location: Location
    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Process:
    """Calls the function ``convert`` of a file with each message.

    The file is in the operator's directory of convertors.
    """

    location: Location
    name: str


@dataclass(frozen=True, slots=True)
class Split:
    """Makes one row for each element of an array of texts, given by an SQL expression."""

    location: Location
    sql: str


@dataclass(frozen=True, slots=True)
class SplitBody:
    """Makes one message for each part of the body, by a token, a path of JSON, or XPath."""

    location: Location
    language: str
    text: str
    steps: list[Step]
    is_branch: bool
    options: tuple[tuple[str, str], ...] = ()  # of xpath, as of an `Expression`


@dataclass(frozen=True, slots=True)
class Gather:
    """Gathers messages with the same key into one, complete by number or milliseconds since the first."""

    location: Location
    key: Expression
    size: int | None
    timeout_ms: int | None
    strategy: str
    delimiter: str
    steps: list[Step]
    is_branch: bool


@dataclass(frozen=True, slots=True)
class Idempotent:
    """Keeps the first message of each key; ``size`` keys are known at a time."""

    location: Location
    key: Expression
    size: int
    steps: list[Step]
    is_branch: bool


@dataclass(frozen=True, slots=True)
class Throttle:
    """Lets so many messages pass in a period of milliseconds."""

    location: Location
    count: int
    period_ms: int


@dataclass(frozen=True, slots=True)
class Delay:
    """Lets a message pass so many milliseconds after its arrival."""

    location: Location
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Log:
    """Writes a line about each message to the log."""

    location: Location
    message: Expression
    level: str
    name: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Groups rows in windows of event time; each completed window gives one row per group."""

    location: Location
    window: str
    slide: str | None
    watermark: str
    by: list[tuple[str, str]]
    columns: list[tuple[str, str]]
    time: str = TIME


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """Keeps the first row of each key, within the time of the watermark."""

    location: Location
    key: str
    watermark: str
    time: str = TIME


@dataclass(frozen=True, slots=True)
class Join:
    """Adds columns of a table to each row; a left join keeps rows without a match."""

    location: Location
    table: Endpoint
    on: str
    columns: list[tuple[str, str]]
    is_left: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """Passes each row to the first branch whose condition is true."""

    location: Location
    branches: list[tuple[Expression, list[Step]]]
    otherwise: list[Step]


@dataclass(frozen=True, slots=True)
class Multicast:
    """Passes a copy of each row to every branch."""

    location: Location
    branches: list[list[Step]]


@dataclass(frozen=True, slots=True)
class To:
    """Sends a copy of the rows to an endpoint; wireTap is a synonym."""

    endpoint: Endpoint
    is_tap: bool = False


Step = (
    Filter
    | SetHeader
    | RemoveHeader
    | Transform
    | CallFunction
    | Process
    | Split
    | Aggregate
    | Deduplicate
    | Join
    | Choice
    | Multicast
    | To
    | SplitBody
    | Gather
    | Idempotent
    | Throttle
    | Delay
    | Log
)
Nesting = (Filter, SplitBody, Gather, Idempotent)  # steps that may have steps inside


@dataclass(frozen=True, slots=True)
class Patience:
    """Restarts of a failed route: their number, -1 for no limit, and the pause before each.

    The pause doubles with each failure if ``is_growing``.
    """

    retries: int = 10
    interval_ms: int = 1000
    is_growing: bool = True


@dataclass(frozen=True, slots=True)
class Route:
    """One query with one checkpoint, or with the engine `EMBEDDED` one bridge."""

    location: Location
    name: str
    source: Endpoint
    steps: list[Step]
    dead_letters: Endpoint | None
    patience: Patience
    engine: str = ANY_ENGINE
    bridge: BridgeParameters | None = None  # of a jmsBridge
    is_started: bool = True


def appended_ids(name: str) -> str:
    """Return the SQL of the JMS bridge's addMessageIDInHeader, for the named property."""
    return f"concat_ws(',', try_variant_get(properties['{name}'], '$', 'string'), JMSMessageID)"


def is_id_list(step: Step) -> bool:
    """Return True for the step of ``addMessageIDInHeader``."""
    return isinstance(step, SetHeader) and step.value.language == SQL and step.value.text == appended_ids(step.name)


def is_branching(step: Step) -> bool:
    """Return True if a step passes rows to endpoints while the route continues."""
    return isinstance(step, (Choice, Multicast, To)) or (isinstance(step, Nesting) and step.is_branch)


def branches_of(step: Step) -> list[list[Step]]:
    """Return the branches of a step."""
    if isinstance(step, Choice):
        return [*[steps for _, steps in step.branches], step.otherwise]
    if isinstance(step, Multicast):
        return step.branches
    return [step.steps] if isinstance(step, Nesting) and step.is_branch else []


def location_of(step: Step) -> Location:
    """Return the location of a step in the file."""
    if isinstance(step, Filter):
        return step.condition.location
    return step.endpoint.location if isinstance(step, To) else step.location


def endpoints_of(steps: list[Step]) -> list[Endpoint]:
    """Return all endpoints for rows, in order."""
    endpoints: list[Endpoint] = []
    for step in steps:
        if isinstance(step, To):
            endpoints.append(step.endpoint)
        for branch in branches_of(step):
            endpoints += endpoints_of(branch)
    return endpoints
