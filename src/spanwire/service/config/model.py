"""What a configuration says, whatever it was written in: frozen values with the defaults of ``docs/reference``.

The readers (``activemq.xml``, TOML) fill these; `spanwire.service.service` builds a broker from them. Tuning by
destination uses the broker's own `PolicyEntry`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from spanwire.broker.connections.transaction import MAX_UNCOMMITTED
from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.broker.dispatch.memory_usage import DEFAULT_MEMORY_LIMIT_BYTES
from spanwire.broker.dispatch.virtual_settings import VirtualSettings
from spanwire.broker.persistence.producer_audit import MAX_PRODUCERS
from spanwire.broker.persistence.sequence_window import DEFAULT_DEPTH
from spanwire.broker.plugins.plugged_broker import PluginSettings
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.scheduler.schedule import DEFAULT_MAX_REPEAT, SchedulerSettings
from spanwire.broker.security.authorization_map import AccessList, AuthorizationEntry
from spanwire.model.destination import Destination
from spanwire.model.secret import Secret
from spanwire.model.units import MIB
from spanwire.network.connector.link import NetworkConnectorSettings
from spanwire.service.machine.local_zone import LocalZone
from spanwire.transports.base import ConnectorSettings

DEFAULT_BROKER_NAME: Final = "localhost"  # ActiveMQ's own default
BUILT_IN: Final = "built-in default"  # the source of the configuration that no file holds
DEFAULT_SEGMENT_BYTES: Final = 32 * MIB  # journalMaxFileLength of ActiveMQ's kahaDB


@dataclass(frozen=True, slots=True)
class PersistenceConfiguration:
    """Where persistent messages are kept. ``directory`` None means ``journal`` under the data directory.

    Without ``sync`` sends are answered before the disk has them, with ``sync_interval_ms`` above 0 so long before at
    the most. Of so many producers the last ``audit_depth`` sends are known when a failover client repeats them.
    """

    persistent: bool = True
    directory: Path | None = None
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    sync: bool = True
    sync_interval_ms: int = 0
    audit_depth: int = DEFAULT_DEPTH
    audited_producers: int = MAX_PRODUCERS


@dataclass(frozen=True, slots=True)
class DiskLimit:
    """How much of a disk may be taken: so many bytes, or so many percent of the file system; both 0: all of it."""

    limit_bytes: int = 0
    percent: int = 0


@dataclass(frozen=True, slots=True)
class UsageConfiguration:
    """Limits of the whole broker. Sends that find no space are refused at once with ``fail_if_no_space``, after
    ``fail_after_ms`` if that is above 0, and else wait.
    """

    memory_limit_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES
    store: DiskLimit = DiskLimit()
    temporary: DiskLimit = DiskLimit()
    fail_if_no_space: bool = False
    fail_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class UserConfiguration:
    """A user who logs in with a password."""

    name: str
    password: Secret
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CertifiedConfiguration:
    """A user whom a TLS certificate names; ``subject`` is its distinguished name."""

    name: str
    subject: str
    groups: frozenset[str] = frozenset()


class UserSource(Protocol):
    """Files that say who the users are, and may change while the broker runs if ``reload``."""

    @property
    def reload(self) -> bool: ...

    def read(self) -> tuple[UserConfiguration, ...]:
        """All users; raises `ConfigurationError`."""
        ...

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """What changes when the files do; raises `ConfigurationError`."""
        ...


class CertifiedSource(Protocol):
    """The same for users whom certificates name."""

    @property
    def reload(self) -> bool: ...

    def read(self) -> tuple[CertifiedConfiguration, ...]:
        """All users; raises `ConfigurationError`."""
        ...

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """What changes when the files do; raises `ConfigurationError`."""
        ...


@dataclass(frozen=True, slots=True)
class LoginModuleConfiguration:
    """One way to log in: as ``guest`` with its groups, by a certificate of ``certified``, or else as one of ``users``.

    ``flag`` is that of `spanwire.broker.security.authentication`. A guest ``without_credentials`` lets in nobody who
    gives a name or a password.
    """

    flag: str
    guest: str | None = None
    guest_groups: frozenset[str] = frozenset()
    without_credentials: bool = False
    users: tuple[UserConfiguration, ...] = ()
    files: UserSource | None = None
    certified: tuple[CertifiedConfiguration, ...] = ()
    certified_files: CertifiedSource | None = None


@dataclass(frozen=True, slots=True)
class AuthenticationConfiguration:
    """Who may log in. ``encrypted`` holds inside TLS; None if ``modules`` do there, too."""

    modules: tuple[LoginModuleConfiguration, ...]
    encrypted: tuple[LoginModuleConfiguration, ...] | None = None

    @property
    def all_modules(self) -> tuple[LoginModuleConfiguration, ...]:
        """Those of both kinds of connections."""
        return (*self.modules, *(self.encrypted or ()))

    @property
    def lets_anybody_in(self) -> bool:
        """Whether a client without a password can get in."""
        return any(module.guest is not None for module in self.all_modules)


@dataclass(frozen=True, slots=True)
class AuthorizationConfiguration:
    """Who may do what. ``temporary`` None leaves temporary destinations to everybody; ``default`` adds to all."""

    entries: tuple[AuthorizationEntry, ...]
    temporary: AccessList | None = None
    default: AccessList | None = None


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """The file may change while the broker runs: it is looked at every ``check_period_ms``, with 0 only when an
    operator asks for that.
    """

    check_period_ms: int = 0


@dataclass(frozen=True, slots=True)
class BrokerConfiguration:
    """One broker. ``data_directory`` None means the default place for its name; a connection's open transactions hold
    at most ``max_uncommitted`` messages; ``warnings`` are for the operator, and so is what was ``skipped`` because he
    asked for that. ``presumed_base`` is the directory that stands for ``activemq.base`` because nothing names one.
    """

    broker_name: str = DEFAULT_BROKER_NAME
    broker_id: str | None = None
    data_directory: Path | None = None
    advisory_support: bool = True
    anonymous_producer_advisories: bool = False
    delete_all_messages_on_startup: bool = False
    temporary_by_send: bool = False
    start: bool = True
    connectors: tuple[ConnectorSettings, ...] = ()
    network_connectors: tuple[NetworkConnectorSettings, ...] = ()
    persistence: PersistenceConfiguration = PersistenceConfiguration()
    usage: UsageConfiguration = UsageConfiguration()
    max_uncommitted: int = MAX_UNCOMMITTED
    destinations: tuple[Destination, ...] = ()
    policies: tuple[PolicyEntry, ...] = ()
    virtual: VirtualSettings = field(default_factory=VirtualSettings)
    scheduler: SchedulerSettings | None = None
    upkeep: UpkeepSettings = field(default_factory=UpkeepSettings)
    plugins: PluginSettings = field(default_factory=PluginSettings)
    authentication: AuthenticationConfiguration | None = None
    authorization: AuthorizationConfiguration | None = None
    runtime: RuntimeSettings | None = None
    source: str = BUILT_IN
    warnings: tuple[str, ...] = field(default=())
    skipped: tuple[str, ...] = field(default=())
    presumed_base: Path | None = None


DEFAULT_CONNECTORS: Final = (
    ConnectorSettings(name="openwire", scheme="tcp", host="127.0.0.1", port=61616, protocol="openwire"),
    ConnectorSettings(name="stomp", scheme="stomp", host="127.0.0.1", port=61613, protocol="stomp"),
)


def default_configuration() -> BrokerConfiguration:
    """The broker that starts when no configuration is named."""
    return BrokerConfiguration(
        connectors=DEFAULT_CONNECTORS, scheduler=SchedulerSettings(DEFAULT_MAX_REPEAT, LocalZone())
    )
