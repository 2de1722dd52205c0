"""The definition of a bridge, independent of the file format."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from spanwire.bridges.model.directory import Directory
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.model.steps import Step
from spanwire.model.destination import Destination
from spanwire.model.secret import Secret
from spanwire.routes.consumers import ONE, Consumers
from spanwire.routes.readers.bridge_parameters import DEFAULT_INTERVAL_MS, FOREVER

DEFAULT_BATCH_SIZE: Final = 500  # messages; a transaction of this size costs each message little of its sync
DEFAULT_LONGEST_MS: Final = 60_000  # milliseconds; the longest of pauses that grow
OPENWIRE: Final = "openwire"


class Quality(Enum):
    """Quality of service; the values are the words of the parameter ``qualityOfServiceMode``."""

    AT_MOST_ONCE = "AT_MOST_ONCE"
    DUPLICATES_OK = "DUPLICATES_OK"
    ONCE_AND_ONLY_ONCE = "ONCE_AND_ONLY_ONCE"


@dataclass(frozen=True, slots=True)
class ConnectionFactory:
    """A broker and the login there. ``provider`` is a name of `spanwire.registry.BRIDGE_PROVIDERS`.

    With a ``directory`` the URL is that of the factory's entry there. With ``java`` the URL only says for people what
    the factory is.
    """

    url: str = field(repr=False)  # a password may be in the options
    user_name: str | None = None
    password: Secret | None = None
    trust_store: str | None = None
    trust_store_password: Secret | None = None
    key_store: str | None = None
    key_store_password: Secret | None = None
    provider: str = OPENWIRE
    directory: Directory | None = None
    java: JavaFactory | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A destination to receive from, with ``subscription`` by the durable subscription of the name."""

    factory: ConnectionFactory
    destination: Destination
    selector: str | None = None
    subscription: str | None = None
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A destination to send to."""

    factory: ConnectionFactory
    destination: Destination


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Size of a batch in messages, and the quiet time in milliseconds before a smaller batch is sent.

    The quiet time begins anew with each message. With None the bridge sends as soon as the source has no more messages
    at hand, with -1 only a full batch.
    """

    size: int = DEFAULT_BATCH_SIZE
    quiet_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Attempts after a failure, -1 for no limit, and the milliseconds before each; -1 lets the pause grow.

    In the ``failover_ms`` milliseconds after the loss of a broker attempts do not count, because another broker may
    take over. Each further pause of a series of failures is ``multiplier`` times as long, up to ``longest_ms``.
    """

    max_retries: int = FOREVER
    interval_ms: int = DEFAULT_INTERVAL_MS
    multiplier: float = 1.0
    longest_ms: int = DEFAULT_LONGEST_MS
    failover_ms: int = 0


@dataclass(frozen=True, slots=True)
class BridgeDefinition:
    """A bridge: source, steps, target, quality of service, batches and retries."""

    name: str
    source: Source
    target: Target
    steps: tuple[Step, ...] = ()
    quality: Quality = Quality.DUPLICATES_OK
    batch: BatchLimits = BatchLimits()
    retry: RetryPolicy = RetryPolicy()
    auto_start: bool = True  # without it the bridge waits for an operator
    consumers: Consumers = ONE
    written_at: str = field(default="", compare=False)  # file and line, for errors; empty where there is none
