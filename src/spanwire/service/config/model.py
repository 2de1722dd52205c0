"""What a configuration says, whatever it was written in: frozen values with the defaults of ``docs/reference``.

The readers (``activemq.xml``, TOML) fill these; `spanwire.service.service` builds a broker from them. Tuning by
destination uses the broker's own `PolicyEntry`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spanwire.broker.policy import PolicyEntry
from spanwire.broker.usage import DEFAULT_MEMORY_LIMIT_BYTES
from spanwire.model.destination import Destination
from spanwire.transports.base import ConnectorSettings

MIB: Final = 1024 * 1024
DEFAULT_BROKER_NAME: Final = "localhost"  # ActiveMQ's own default
DEFAULT_SEGMENT_BYTES: Final = 32 * MIB  # journalMaxFileLength of ActiveMQ's kahaDB


@dataclass(frozen=True, slots=True)
class PersistenceConfiguration:
    """Where persistent messages are kept. ``directory`` None means ``journal`` under the data directory."""

    persistent: bool = True
    directory: Path | None = None
    segment_bytes: int = DEFAULT_SEGMENT_BYTES


@dataclass(frozen=True, slots=True)
class UsageConfiguration:
    """Limits of the whole broker, in bytes."""

    memory_limit_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES


@dataclass(frozen=True, slots=True)
class BrokerConfiguration:
    """One broker. ``data_directory`` None means the default place for its name; ``warnings`` are for the operator."""

    broker_name: str = DEFAULT_BROKER_NAME
    broker_id: str | None = None
    data_directory: Path | None = None
    advisory_support: bool = True
    delete_all_messages_on_startup: bool = False
    start: bool = True
    connectors: tuple[ConnectorSettings, ...] = ()
    persistence: PersistenceConfiguration = PersistenceConfiguration()
    usage: UsageConfiguration = UsageConfiguration()
    destinations: tuple[Destination, ...] = ()
    policies: tuple[PolicyEntry, ...] = ()
    source: str = "built-in default"
    warnings: tuple[str, ...] = field(default=())


DEFAULT_CONNECTORS: Final = (
    ConnectorSettings(name="openwire", scheme="tcp", host="127.0.0.1", port=61616, protocol="openwire"),
    ConnectorSettings(name="stomp", scheme="stomp", host="127.0.0.1", port=61613, protocol="stomp"),
)


def default_configuration() -> BrokerConfiguration:
    """The broker that starts when no configuration is named."""
    return BrokerConfiguration(connectors=DEFAULT_CONNECTORS)
