"""The options of ``format("spanwire")``, checked before a connection is opened.

| option | for | default |
|---|---|---|
| url | all | tcp://127.0.0.1:61616 |
| brokers | stream read | none: the broker of url |
| destination | all | required to read; for a write, the column JMSDestination when there is none |
| user, password, clientId | all | none |
| trustStore, keyStore, …Password, keyStoreKey | all, with ssl | the system's authorities, no certificate |
| selector | read | none: every message |
| mode | batch read | browse |
| subscription | read of a topic | required there, with clientId: the durable subscription |
| subscriptionDurable | stream read of a topic | true; with false only messages sent while the query is connected |
| filterPushdown | browse | false |
| stagingDirectory | stream read, mode consume | required, except with a cursor |
| cursor, exclusive | stream read from Spanwire | none, false: the broker keeps the messages of a batch |
| qualityOfServiceMode | stream read | ONCE_AND_ONLY_ONCE |
| maxRowsPerBatch | read | 100,000 |
| maxBytesPerBatch | read | 128 MiB of bodies and properties |
| receiveTimeoutMs | read | 200 |
| maxBatchMs | stream read | 3,000 |
| numPartitions | read | 2 |
| bodies | read | all kinds |
| duplicateIdProperty | write | _AMQ_DUPL_ID with DUPLICATES_OK, else none |
| duplicateIdPrefix | batch write | a new one for each write |
| maxRowsPerTransaction | write | 10,000 |
| qualityOfServiceMode | write | DUPLICATES_OK |
| exactlyOnceBy | write | auto: control with Spanwire, ledger with any other broker |
| ledger, ledgerBatch | batch write | the name of a series of batches and the number of this one |
| firstLedgerBatch | write | 0: the first batch of a ledger |
| persistent, priority, timeToLiveMs | write | true, 4, 0 |
| dropTemporaryReplyTo | write | false |

Names are case-insensitive, as everywhere in Spark. The ``repr`` of these classes contains no password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.client.addressing.address import parse_url
from spanwire.client.addressing.redaction import redacted
from spanwire.documents.spelling import suggestion
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.model.units import MIB
from spanwire.pipeline.broker_list import broker_list
from spanwire.pipeline.columns.body_types import BODY_KINDS
from spanwire.pipeline.columns.destinations import ADVISORIES, MAX_PRIORITY, source_destination, target_destination
from spanwire.pipeline.storage.location import parse
from spanwire.tls.settings import ClientTlsSettings, KeyStore, TrustStore

DEFAULT_URL: Final = "tcp://127.0.0.1:61616"
BROWSE: Final = "browse"
CONSUME: Final = "consume"
ALL_BODIES: Final = "all"
NO_BODIES: Final = "none"
AT_MOST_ONCE: Final = "AT_MOST_ONCE"  # this and the next two are modes of the JMS bridge of ActiveMQ Artemis
DUPLICATES_OK: Final = "DUPLICATES_OK"
QUALITY: Final = "qualityOfServiceMode"
ONCE_AND_ONLY_ONCE: Final = "ONCE_AND_ONLY_ONCE"
READ_QUALITIES: Final = (ONCE_AND_ONLY_ONCE, DUPLICATES_OK, AT_MOST_ONCE)
WRITE_QUALITIES: Final = (DUPLICATES_OK, ONCE_AND_ONLY_ONCE, AT_MOST_ONCE)
AUTO: Final = "auto"
CONTROL: Final = "control"
LEDGER: Final = "ledger"
LEDGER_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")  # part of a queue's name
MAX_CURSOR_NAME: Final = 100  # characters
MAX_BATCH: Final = 2**63 - 1
DUPLICATE_ID: Final = "_AMQ_DUPL_ID"  # the header by which ActiveMQ Artemis detects duplicates

# Artemis refuses the id of an earlier attempt that was staged; batches that are committed once need no ids.
DEFAULT_IDS: Final = {DUPLICATES_OK: DUPLICATE_ID, ONCE_AND_ONLY_ONCE: "", AT_MOST_ONCE: ""}

MAX_ROWS: Final = 500_000  # rows of one batch; unacknowledged in the broker's memory and, as columns, in the driver's
MAX_BYTES: Final = 1024 * MIB  # bytes of one batch; a column of Arrow has at most 2 GiB
MAX_RECEIVE_TIMEOUT_MS: Final = 10_000  # milliseconds; stopping a query waits for the timeout
MAX_BATCH_MS: Final = 60_000
MAX_PARTITIONS: Final = 1024
MAX_TRANSACTION_ROWS: Final = 100_000  # messages; in the broker's memory until the commit
MAX_TIME_TO_LIVE_MS: Final = 2**63 - 1

STORES: Final = (
    "trustStore",
    "trustStorePassword",
    "keyStore",
    "keyStorePassword",
    "keyStoreKey",
    "keyStoreKeyPassword",
)
COMMON: Final = ("url", "destination", "user", "password", "clientId", *STORES)
READ: Final = (
    "brokers",
    "selector",
    "mode",
    "subscription",
    "subscriptionDurable",
    "filterPushdown",
    "stagingDirectory",
    "cursor",
    "exclusive",
    "qualityOfServiceMode",
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
    "qualityOfServiceMode",
    "exactlyOnceBy",
    "ledger",
    "ledgerBatch",
    "firstLedgerBatch",
    "persistent",
    "priority",
    "timeToLiveMs",
    "dropTemporaryReplyTo",
)
# Relative paths refer to the program's directory, because executors have other working directories.
PATHS: Final = ("stagingDirectory", "trustStore", "keyStore", "keyStoreKey")
SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})  # Spark passes its own options on


@dataclass(frozen=True, slots=True)
class Login:
    """The broker and the credentials; ``tls`` has the key stores, if any."""

    url: str
    user: str | None
    password: Secret | None
    client_id: str | None
    tls: ClientTlsSettings | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a reader."""

    login: Login
    destination: Destination
    selector: str | None
    mode: str
    subscription: str | None
    filter_pushdown: bool
    staging_directory: str | None
    cursor: str | None
    exclusive: bool
    quality: str
    max_rows: int
    max_bytes: int
    receive_timeout_ms: int
    max_batch_ms: int
    partitions: int
    bodies: frozenset[str]
    brokers: tuple[str, ...] = ()

    @property
    def has_many_sources(self) -> bool:
        """Return True if messages come from several queues, where messages may share an id."""
        return self.destination.is_pattern or self.destination.is_composite


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a writer."""

    login: Login
    destination: Destination | None
    duplicate_id_property: str | None
    duplicate_id_prefix: str | None
    max_transaction_rows: int
    quality: str
    exactly_once_by: str
    ledger: str | None
    ledger_batch: int | None
    first_ledger_batch: int
    persistent: bool
    priority: int
    time_to_live_ms: int
    drop_temporary_reply: bool = False

    @property
    def is_committed_once(self) -> bool:
        """Return True if a repeated batch must not be sent again."""
        return self.quality != DUPLICATES_OK


def read_options(values: Mapping[str, str]) -> ReadOptions:
    """Return the options of a reader.

    Raises:
        ConfigurationError: an option is unknown or invalid; the error has one line.
    """
    reader = _OptionReader(values, READ, "read", WRITE)
    name = reader.text("destination")
    if name is None:
        raise ConfigurationError('spanwire: a reader needs .option("destination", "queue://NAME")')
    brokers = broker_list(reader.text("brokers"), reader.text("url"))
    login, *_ = [reader.login(url) for url in brokers or (reader.text("url"),)]
    mode, subscription = reader.choice("mode", (BROWSE, CONSUME)), reader.text("subscription")
    is_durable = reader.flag("subscriptionDurable", True)
    options = ReadOptions(
        login=login,
        destination=source_destination(name, subscription, login.client_id, is_durable),
        selector=reader.text("selector"),
        mode=mode,
        subscription=subscription,
        filter_pushdown=reader.flag("filterPushdown", False),
        staging_directory=reader.text("stagingDirectory"),
        cursor=reader.text("cursor"),
        exclusive=reader.flag("exclusive", False),
        quality=reader.quality(READ_QUALITIES),
        max_rows=reader.number("maxRowsPerBatch", 100_000, 1, MAX_ROWS),
        max_bytes=reader.number("maxBytesPerBatch", 128 * MIB, 1, MAX_BYTES),
        receive_timeout_ms=reader.number("receiveTimeoutMs", 200, 1, MAX_RECEIVE_TIMEOUT_MS),
        max_batch_ms=reader.number("maxBatchMs", 3000, 1, MAX_BATCH_MS),
        partitions=reader.number("numPartitions", 1 if brokers else 2, 1, MAX_PARTITIONS),
        bodies=reader.bodies(),
        brokers=brokers,
    )
    if options.staging_directory is not None:
        parse(options.staging_directory)
    _check_cursor(options)
    if brokers and login.client_id is not None and options.destination.is_composite:
        raise ConfigurationError(
            "spanwire: with the option brokers each destination has its own connection, and a broker accepts one of a "
            "clientId; leave the option clientId out"
        )
    return options


def write_options(values: Mapping[str, str]) -> WriteOptions:
    """Return the options of a writer.

    Raises:
        ConfigurationError: an option is unknown or invalid; the error has one line.
    """
    reader = _OptionReader(values, WRITE, "write", READ)
    name = reader.text("destination")
    quality = reader.quality(WRITE_QUALITIES)
    options = WriteOptions(
        login=reader.login(reader.text("url")),
        destination=None if name is None else target_destination(name),
        duplicate_id_property=reader.property_name("duplicateIdProperty", DEFAULT_IDS[quality]),
        duplicate_id_prefix=reader.text("duplicateIdPrefix"),
        max_transaction_rows=reader.number("maxRowsPerTransaction", 10_000, 1, MAX_TRANSACTION_ROWS),
        quality=quality,
        exactly_once_by=reader.choice("exactlyOnceBy", (AUTO, CONTROL, LEDGER)),
        ledger=reader.text("ledger"),
        ledger_batch=None if reader.text("ledgerBatch") is None else reader.number("ledgerBatch", 0, 0, MAX_BATCH),
        first_ledger_batch=reader.number("firstLedgerBatch", 0, 0, MAX_BATCH),
        persistent=reader.flag("persistent", True),
        priority=reader.number("priority", 4, 0, MAX_PRIORITY),
        time_to_live_ms=reader.number("timeToLiveMs", 0, 0, MAX_TIME_TO_LIVE_MS),
        drop_temporary_reply=reader.flag("dropTemporaryReplyTo", False),
    )
    _check_ledger(options)
    return options


def _check_cursor(options: ReadOptions) -> None:
    """Check the options of a cursor, which keeps a batch at the broker."""
    name = options.cursor
    if name is None:
        if options.exclusive:
            raise ConfigurationError("spanwire: the option exclusive is for a cursor; name one or leave it out")
        return
    if len(name) > MAX_CURSOR_NAME or "'" in name:
        raise ConfigurationError(
            f"spanwire: the option cursor is {name[:60]!r}; it has at most {MAX_CURSOR_NAME} characters and no quote"
        )
    if options.staging_directory is not None:
        raise ConfigurationError(
            "spanwire: a cursor stages no messages; leave out either the option cursor or stagingDirectory"
        )
    if options.quality == AT_MOST_ONCE:
        raise ConfigurationError("spanwire: a cursor does not support AT_MOST_ONCE; use a stagingDirectory")
    if options.destination.kind == TOPIC and options.subscription is None:
        raise ConfigurationError("spanwire: a cursor reads a durable subscription; set subscription and clientId")
    if options.has_many_sources and not options.brokers:
        raise ConfigurationError(
            "spanwire: a cursor reads one queue or subscription; name the broker by the "
            "option brokers to read several queues, or use a stagingDirectory"
        )


def check_batch(options: ReadOptions) -> None:
    """Check that a batch can find messages of the past.

    Raises:
        ConfigurationError: the topic stores no messages for a later batch.
    """
    destination = options.destination
    if destination.kind == TOPIC and options.subscription is None and not destination.name.startswith(ADVISORIES):
        raise ConfigurationError(
            f"spanwire: {destination} stores no messages for a non-durable subscription, so a batch would be empty; "
            "use a continuous stream, or the options subscription and clientId"
        )


def _check_ledger(options: WriteOptions) -> None:
    """Check the options of the exactly-once sinks, which choose their own client ids."""
    is_named = options.ledger is not None or options.ledger_batch is not None
    if not options.is_committed_once:
        if is_named or options.first_ledger_batch or options.exactly_once_by != AUTO:
            raise ConfigurationError(
                "spanwire: ledger, ledgerBatch, firstLedgerBatch and exactlyOnceBy are for "
                f'.option("qualityOfServiceMode", "{ONCE_AND_ONLY_ONCE}")'
            )
        return
    if options.login.url.lower().startswith("fanout:"):
        raise ConfigurationError(
            f"spanwire: {options.quality} commits at one broker; write the URL of one broker instead of fanout:"
        )
    if options.login.client_id is not None:
        raise ConfigurationError(
            f"spanwire: with {options.quality} the sink chooses its own client ids; leave the option clientId out"
        )
    if (options.ledger is None) != (options.ledger_batch is None):
        raise ConfigurationError("spanwire: the options ledger and ledgerBatch belong together; set both or none")
    if options.ledger is not None and LEDGER_NAME.fullmatch(options.ledger) is None:
        raise ConfigurationError(
            f"spanwire: the option ledger is {options.ledger[:60]!r}; a name has letters, digits and _ . - only"
        )


def staging_directory(options: ReadOptions) -> str:
    """Return the directory for staged messages.

    Raises:
        ConfigurationError: the option is missing.
    """
    if options.staging_directory is None:
        raise ConfigurationError(
            'spanwire: set .option("stagingDirectory", …): messages stay there from their acknowledgement until Spark '
            "has committed them, so it must last as long as the checkpoint and be shared with the executors"
        )
    return options.staging_directory


def check_browsable(options: ReadOptions) -> None:
    """Check that a browser can show the destination.

    Raises:
        ConfigurationError: the destination is not a single queue.
    """
    if options.has_many_sources or not options.destination.is_queue:
        raise ConfigurationError(
            f"spanwire: {options.destination} cannot be browsed; name one queue, or read with a stream or the mode "
            "consume"
        )


class _OptionReader:
    """Reads option values by case-insensitive name; refuses unknown names."""

    def __init__(self, values: Mapping[str, str], known: tuple[str, ...], use: str, elsewhere: tuple[str, ...]) -> None:
        names = {name.lower(): name for name in COMMON + known}
        elsewhere_names = {name.lower(): name for name in elsewhere}
        self._values: Final[dict[str, str]] = {name.lower(): value for name, value in values.items()}
        for name in sorted(set(self._values) - set(names) - SPARK_OPTIONS):
            if name in elsewhere_names:
                raise ConfigurationError(f"spanwire: the option {elsewhere_names[name]} has no meaning for a {use}")
            raise ConfigurationError(f"spanwire: there is no option {name[:60]!r}{suggestion(name, names.values())}")

    def text(self, name: str) -> str | None:
        """Return the value, or ``None`` if it is missing or empty."""
        return self._values.get(name.lower()) or None

    def login(self, url: str | None) -> Login:
        """Return the broker and the credentials.

        Raises:
            ConfigurationError: the client does not support the URL.
        """
        password, user, client_id = self.text("password"), self.text("user"), self.text("clientId")
        login = Login(
            url or DEFAULT_URL, user, None if password is None else Secret(password), client_id, self._stores()
        )
        try:
            broker = parse_url(login.url, user, password, client_id)
        except ConfigurationError as error:
            raise ConfigurationError(f"spanwire: {error}") from None
        shown = redacted(login.url)
        if any(address.is_in_process and address.inner is None for address in broker.addresses):
            raise ConfigurationError(
                f"spanwire: {shown} is a broker inside another process, which Spark's processes do not reach; write "
                "the address where it listens, such as tcp://host:61616"
            )
        if login.tls is not None and not broker.may_use_tls:
            raise ConfigurationError(
                f"spanwire: {shown} is not encrypted, so the stores are of no use; write ssl://host:port"
            )
        return login

    def _stores(self) -> ClientTlsSettings | None:
        """Return the key and trust stores, if any.

        Raises:
            ConfigurationError: an option belongs to a missing store.
        """
        trust, key = self.text("trustStore"), self.text("keyStore")
        for name in STORES:
            if self.text(name) is not None and (trust if name.startswith("trustStore") else key) is None:
                store = "trustStore" if name.startswith("trustStore") else "keyStore"
                raise ConfigurationError(f"spanwire: the option {name} needs the option {store}")
        if trust is None and key is None:
            return None
        private = self.text("keyStoreKey")
        return ClientTlsSettings(
            None if trust is None else TrustStore(Path(trust), self._secret("trustStorePassword")),
            None
            if key is None
            else KeyStore(
                Path(key),
                self._secret("keyStorePassword"),
                None if private is None else Path(private),
                self._secret("keyStoreKeyPassword"),
            ),
        )

    def _secret(self, name: str) -> Secret:
        return Secret(self.text(name) or "")

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

    def quality(self, choices: tuple[str, ...]) -> str:
        """Return a mode of the JMS bridge, by default the first of ``choices``."""
        text = (self.text(QUALITY) or choices[0]).upper()
        if text not in choices:
            raise ConfigurationError(
                f"spanwire: the option qualityOfServiceMode is {text[:60]!r}, not {' or '.join(choices)}"
            )
        return text

    def property_name(self, name: str, default: str) -> str | None:
        """Return the name of a property, or ``None`` for an empty text."""
        text = self._values.get(name.lower(), default)
        if text and not text.isidentifier():
            raise ConfigurationError(
                f"spanwire: the option {name} is {text[:60]!r}, which is no valid name of a message property"
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
