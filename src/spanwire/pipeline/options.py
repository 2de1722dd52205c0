"""The options of ``format("spanwire")``, checked before anything is connected.

| option | for | default |
|---|---|---|
| url | all | tcp://127.0.0.1:61616 |
| destination | all | required to read; for a write, the column JMSDestination when there is none |
| user, password, clientId | all | none |
| selector | read | none: every message |
| mode | batch read | browse |
| subscription | read of a topic | required there, with clientId: the durable subscription |
| filterPushdown | browse | false |
| stagingDirectory | stream read, mode consume | required |
| maxRowsPerBatch | read | 100,000 |
| maxBytesPerBatch | read | 128 MiB of bodies and properties |
| receiveTimeoutMs | read | 200 |
| maxBatchMs | stream read | 3,000 |
| numPartitions | read | 2 |
| bodies | read | all kinds |
| duplicateIdProperty | write | _AMQ_DUPL_ID |
| duplicateIdPrefix | batch write | a new one for each write |
| maxRowsPerTransaction | write | 10,000 |
| persistent, priority, timeToLiveMs | write | true, 4, 0 |

Names count in any case, as everywhere in Spark. The password is in no text that these classes give.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spanwire.model.destination import QUEUE, SCHEMES, TOPIC, Destination, parse_destination
from spanwire.model.errors import ConfigurationError, InvalidDestinationError
from spanwire.model.secret import Secret
from spanwire.pipeline.body_types import BODY_KINDS

MIB: Final = 1024 * 1024
DEFAULT_URL: Final = "tcp://127.0.0.1:61616"
BROWSE: Final = "browse"
CONSUME: Final = "consume"
ALL_BODIES: Final = "all"
NO_BODIES: Final = "none"
DUPLICATE_ID: Final = "_AMQ_DUPL_ID"  # the header by which ActiveMQ Artemis detects duplicates

ADVISORIES: Final = "ActiveMQ.Advisory."  # topics on which a broker tells about itself, to whoever is there

MAX_ROWS: Final = 500_000  # of one batch: held unacknowledged by the broker and, as columns, by the driver
MAX_BYTES: Final = 1024 * MIB  # of one batch; Arrow's texts end at 2 GiB
MAX_RECEIVE_TIMEOUT_MS: Final = 10_000  # a query that is stopped waits for it
MAX_BATCH_MS: Final = 60_000
MAX_PARTITIONS: Final = 1024
MAX_TRANSACTION_ROWS: Final = 100_000  # held by the broker until the commit
MAX_TIME_TO_LIVE_MS: Final = 2**63 - 1
MAX_PRIORITY: Final = 9  # JMS 1.1, section 3.4.10

COMMON: Final = ("url", "destination", "user", "password", "clientId")
READ: Final = (
    "selector",
    "mode",
    "subscription",
    "filterPushdown",
    "stagingDirectory",
    "maxRowsPerBatch",
    "maxBytesPerBatch",
    "receiveTimeoutMs",
    "maxBatchMs",
    "numPartitions",
    "bodies",
)
WRITE: Final = (
    "duplicateIdProperty",
    "duplicateIdPrefix",
    "maxRowsPerTransaction",
    "persistent",
    "priority",
    "timeToLiveMs",
)
SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})  # Spark hands these on; they are not for the source


@dataclass(frozen=True, slots=True)
class Login:
    """Which broker, and as whom."""

    url: str
    user: str | None
    password: Secret | None
    client_id: str | None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read and in which portions."""

    login: Login
    destination: Destination
    selector: str | None
    mode: str
    subscription: str | None
    filter_pushdown: bool
    staging_directory: str | None
    max_rows: int
    max_bytes: int
    receive_timeout_ms: int
    max_batch_ms: int
    partitions: int
    bodies: frozenset[str]

    @property
    def has_many_sources(self) -> bool:
        """Whether messages come from more than one queue; one that was sent to several of them has one id there."""
        return self.destination.is_pattern or self.destination.is_composite


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to send, and how."""

    login: Login
    destination: Destination | None
    duplicate_id_property: str | None
    duplicate_id_prefix: str | None
    max_transaction_rows: int
    persistent: bool
    priority: int
    time_to_live_ms: int


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a reader. Raises `ConfigurationError` in one line."""
    words = _Words(given, READ, "read", WRITE)
    name = words.text("destination")
    if name is None:
        raise ConfigurationError('spanwire: a reader needs .option("destination", "queue://NAME")')
    login, mode, subscription = words.login(), words.choice("mode", (BROWSE, CONSUME)), words.text("subscription")
    return ReadOptions(
        login=login,
        destination=source_named(name, subscription, login.client_id),
        selector=words.text("selector"),
        mode=mode,
        subscription=subscription,
        filter_pushdown=words.flag("filterPushdown", False),
        staging_directory=words.text("stagingDirectory"),
        max_rows=words.number("maxRowsPerBatch", 100_000, 1, MAX_ROWS),
        max_bytes=words.number("maxBytesPerBatch", 128 * MIB, 1, MAX_BYTES),
        receive_timeout_ms=words.number("receiveTimeoutMs", 200, 1, MAX_RECEIVE_TIMEOUT_MS),
        max_batch_ms=words.number("maxBatchMs", 3000, 1, MAX_BATCH_MS),
        partitions=words.number("numPartitions", 2, 1, MAX_PARTITIONS),
        bodies=words.bodies(),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a writer. Raises `ConfigurationError` in one line."""
    words = _Words(given, WRITE, "write", READ)
    name = words.text("destination")
    return WriteOptions(
        login=words.login(),
        destination=None if name is None else target_named(name),
        duplicate_id_property=words.property_name("duplicateIdProperty", DUPLICATE_ID),
        duplicate_id_prefix=words.text("duplicateIdPrefix"),
        max_transaction_rows=words.number("maxRowsPerTransaction", 10_000, 1, MAX_TRANSACTION_ROWS),
        persistent=words.flag("persistent", True),
        priority=words.number("priority", 4, 0, MAX_PRIORITY),
        time_to_live_ms=words.number("timeToLiveMs", 0, 0, MAX_TIME_TO_LIVE_MS),
    )


def staging_directory(options: ReadOptions) -> str:
    """The directory that staged messages need. Raises `ConfigurationError` when none is named."""
    if options.staging_directory is None:
        raise ConfigurationError(
            'spanwire: set .option("stagingDirectory", …): messages stay there from their acknowledgement until Spark '
            "has committed them, so it must last as long as the checkpoint and be shared with the executors"
        )
    return options.staging_directory


def check_browsable(options: ReadOptions) -> None:
    """Whether one look shows what the options name. Raises `ConfigurationError` when it does not."""
    if options.has_many_sources or not options.destination.is_queue:
        raise ConfigurationError(
            f"spanwire: {options.destination} cannot be looked at; name one queue, or read with a stream or the mode "
            "consume"
        )


def source_named(name: str, subscription: str | None, client_id: str | None) -> Destination:
    """What is read: a queue, a pattern of queues, several queues, a topic with a durable subscription, or advisories.

    Raises `ConfigurationError` for anything else.
    """
    found = _permanent(name)
    is_advisory = found.name.startswith(ADVISORIES)  # brokers refuse durable subscriptions there
    if found.kind == TOPIC and not is_advisory and (subscription is None or client_id is None):
        raise ConfigurationError(
            f"spanwire: {found} keeps messages for a durable subscription only: set the options subscription and "
            f"clientId, or read the queue of a virtual topic ({SCHEMES[QUEUE]}Consumer.<group>.VirtualTopic.<topic>)"
        )
    if found.kind == QUEUE and subscription is not None:
        raise ConfigurationError(f"spanwire: {found} is a queue; the option subscription is for topics")
    if is_advisory and found.kind == TOPIC and subscription is not None:
        raise ConfigurationError(f"spanwire: {found} has no durable subscriptions; leave the option subscription out")
    for part in _parts(found):
        if part.kind != found.kind or (part.kind == TOPIC and found.is_composite):
            raise ConfigurationError(f"spanwire: {found} joins what one consumer cannot read; use one query for each")
    return found


def target_named(name: str) -> Destination:
    """The queue or topic to send to. Raises `ConfigurationError` for anything else."""
    found = _permanent(name)
    if found.is_pattern or found.is_composite:
        raise ConfigurationError(f"spanwire: {found} names more than one destination; write to each of them")
    return found


def _permanent(name: str) -> Destination:
    try:
        found = parse_destination(name)
    except InvalidDestinationError as error:
        raise ConfigurationError(f"spanwire: {error}; name a queue as queue://NAME") from None
    if found.is_temporary:
        raise ConfigurationError(f"spanwire: {found} ends with its connection; use a queue or topic that stays")
    return found


def _parts(found: Destination) -> list[Destination]:
    try:
        return found.parts()
    except InvalidDestinationError as error:
        raise ConfigurationError(f"spanwire: {error}") from None


class _Words:
    """The given options by lower-case name; refuses what nobody knows."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], use: str, elsewhere: tuple[str, ...]) -> None:
        names = {name.lower(): name for name in COMMON + known}
        others = {name.lower(): name for name in elsewhere}
        self._given: Final[dict[str, str]] = {name.lower(): value for name, value in given.items()}
        for name in sorted(set(self._given) - set(names) - SPARKS_OWN):
            if name in others:
                raise ConfigurationError(f"spanwire: the option {others[name]} has no meaning for a {use}")
            close = difflib.get_close_matches(name[:60], list(names), n=1, cutoff=0.0)
            raise ConfigurationError(f"spanwire: there is no option {name[:60]!r}; the closest is {names[close[0]]!r}")

    def text(self, name: str) -> str | None:
        """None when it is not given or empty."""
        return self._given.get(name.lower()) or None

    def login(self) -> Login:
        password = self.text("password")
        return Login(
            url=self.text("url") or DEFAULT_URL,
            user=self.text("user"),
            password=None if password is None else Secret(password),
            client_id=self.text("clientId"),
        )

    def number(self, name: str, default: int, low: int, high: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise ConfigurationError(f"spanwire: the option {name} is {text[:60]!r}, not a whole number") from None
        if not low <= value <= high:
            raise ConfigurationError(f"spanwire: the option {name} is {value}; it must lie between {low} and {high}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise ConfigurationError(f"spanwire: the option {name} is {text[:60]!r}, neither true nor false")
        return text.lower() == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        text = (self.text(name) or choices[0]).lower()
        if text not in choices:
            raise ConfigurationError(f"spanwire: the option {name} is {text[:60]!r}, not {' or '.join(choices)}")
        return text

    def property_name(self, name: str, default: str) -> str | None:
        """An empty text stands for none."""
        text = self._given.get(name.lower(), default)
        if text and not text.isidentifier():
            raise ConfigurationError(
                f"spanwire: the option {name} is {text[:60]!r}, which no message property can be called"
            )
        return text or None

    def bodies(self) -> frozenset[str]:
        text = (self.text("bodies") or ALL_BODIES).lower()
        if text == ALL_BODIES:
            return frozenset(BODY_KINDS)
        if text == NO_BODIES:
            return frozenset()
        kinds = frozenset(kind.strip() for kind in text.split(","))
        strange = sorted(kinds - set(BODY_KINDS))
        if strange:
            known = ", ".join(BODY_KINDS)
            raise ConfigurationError(
                f"spanwire: the option bodies names {strange[0][:60]!r}; there are {known}, all and none"
            )
        return kinds
