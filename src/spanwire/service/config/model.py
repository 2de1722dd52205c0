"""The model of a configuration: frozen values with the defaults of ``docs/reference``.

The readers (``activemq.xml``, TOML) create the model; `spanwire.service.service` builds a broker from it. Settings by
destination use the broker's own `PolicyEntry`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from spanwire.broker.connections.transaction import MAX_UNCOMMITTED
from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.broker.dispatch.history.departures import MAX_DEPARTURES
from spanwire.broker.dispatch.memory_usage import DEFAULT_MEMORY_LIMIT_BYTES
from spanwire.broker.persistence.producer_audit import MAX_PRODUCERS
from spanwire.broker.persistence.sequence_window import DEFAULT_DEPTH
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.virtual_settings import VirtualSettings
from spanwire.broker.scheduler.schedule import DEFAULT_MAX_REPEAT, SchedulerSettings
from spanwire.broker.security.authorization_map import AccessList, AuthorizationEntry
from spanwire.model.destination import Destination
from spanwire.model.secret import Secret
from spanwire.model.units import MIB
from spanwire.service.config.reference import DEFAULT_BROKER_NAME
from spanwire.service.config.web_mounts import WebMount
from spanwire.service.machine.local_zone import LocalZone
from spanwire.transports.base import ConnectorSettings

if TYPE_CHECKING:
    from spanwire.bridges.model.definition import BridgeDefinition
    from spanwire.bridges.model.route_definition import Definition
    from spanwire.ldap.settings import LoginSettings, RightsSettings
    from spanwire.network.connector.link import NetworkConnectorSettings
    from spanwire.service.config.security.tls import Stores
    from spanwire.tls.settings import TlsSettings

BUILT_IN: Final = "built-in default"  # the source of the configuration without a file
DEFAULT_SEGMENT_BYTES: Final = 32 * MIB  # journalMaxFileLength of ActiveMQ's kahaDB


@dataclass(frozen=True, slots=True)
class LockConfiguration:
    """Settings of the lock of the data directory, for a broker and its standbys.

    A standby tries the lock every ``retry_ms``, or ends at once with ``fail_if_locked``. The broker that has the lock
    checks it every ``keep_alive_ms``; 0 turns the check off. Without ``use_lock`` the broker never waits, and starts
    also on a file system without locks. With ``waits_for_standby`` its connectors stay closed until a standby waits,
    for at most ``standby_timeout_ms``. With ``lease_ms`` above 0 the broker renews a lease of this length every
    ``keep_alive_ms`` in the name of ``holder_id``, and a standby takes over from a broker that has not.
    """

    use_lock: bool = True
    keep_alive_ms: int = 5_000
    retry_ms: int = 500  # a standby opens its connectors in less than 2 s; ActiveMQ's default is 10 s
    fail_if_locked: bool = False
    waits_for_standby: bool = False
    standby_timeout_ms: int = 600_000
    lease_ms: int = 0
    holder_id: str = ""


@dataclass(frozen=True, slots=True)
class PersistenceConfiguration:
    """Settings of the message store; ``directory`` None means ``journal`` in the data directory.

    Without ``sync``, sends are answered before the sync of the disk, at most ``sync_interval_ms`` earlier if above 0.
    Duplicates of failover clients are recognised among the last ``audit_depth`` sends of each producer, for
    ``audited_producers`` producers.
    """

    persistent: bool = True
    directory: Path | None = None
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    sync: bool = True
    sync_interval_ms: int = 0
    audit_depth: int = DEFAULT_DEPTH
    audited_producers: int = MAX_PRODUCERS
    lock: LockConfiguration = LockConfiguration()


@dataclass(frozen=True, slots=True)
class DiskLimit:
    """Limit of disk usage in bytes or in percent of the file system; both 0 mean the whole disk."""

    limit_bytes: int = 0
    percent: int = 0


@dataclass(frozen=True, slots=True)
class UsageConfiguration:
    """Limits of the whole broker.

    A send without space is refused at once with ``fail_if_no_space``, refused after ``fail_after_ms`` if above 0, and
    waits otherwise.
    """

    memory_limit_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES
    store: DiskLimit = DiskLimit()
    temporary: DiskLimit = DiskLimit()
    fail_if_no_space: bool = False
    fail_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class UserConfiguration:
    """A user with a password."""

    name: str
    password: Secret
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CertifiedConfiguration:
    """A user identified by a TLS certificate; ``subject`` is the distinguished name."""

    name: str
    subject: str
    groups: frozenset[str] = frozenset()


class UserSource(Protocol):
    """Files with users. With ``reload``, a running broker reads changed files again."""

    @property
    def reload(self) -> bool: ...

    def read(self) -> tuple[UserConfiguration, ...]:
        """Return all users; raises `ConfigurationError`."""
        ...

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return a value that changes with the files; raises `ConfigurationError`."""
        ...


class CertifiedSource(Protocol):
    """Files with users identified by certificates. With ``reload``, changed files are read again."""

    @property
    def reload(self) -> bool: ...

    def read(self) -> tuple[CertifiedConfiguration, ...]:
        """Return all users; raises `ConfigurationError`."""
        ...

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return a value that changes with the files; raises `ConfigurationError`."""
        ...


@dataclass(frozen=True, slots=True)
class LoginModuleConfiguration:
    """A login module for a ``guest``, ``certified`` users, ``users`` with passwords, or a ``directory``.

    ``flag`` is a flag of `spanwire.broker.security.authentication`. A guest module with ``without_credentials`` refuses
    clients that give a name or a password.
    """

    flag: str
    guest: str | None = None
    guest_groups: frozenset[str] = frozenset()
    without_credentials: bool = False
    users: tuple[UserConfiguration, ...] = ()
    files: UserSource | None = None
    certified: tuple[CertifiedConfiguration, ...] = ()
    certified_files: CertifiedSource | None = None
    directory: LoginSettings | None = None


@dataclass(frozen=True, slots=True)
class AuthenticationConfiguration:
    """The login modules.

    ``encrypted`` applies inside TLS; with None, ``modules`` apply there as well.
    """

    modules: tuple[LoginModuleConfiguration, ...]
    encrypted: tuple[LoginModuleConfiguration, ...] | None = None

    @property
    def all_modules(self) -> tuple[LoginModuleConfiguration, ...]:
        """Return the modules of both kinds of connections."""
        return (*self.modules, *(self.encrypted or ()))

    @property
    def lets_anybody_in(self) -> bool:
        """Return True if a client without a password can log in."""
        return any(module.guest is not None for module in self.all_modules)


@dataclass(frozen=True, slots=True)
class AuthorizationConfiguration:
    """The access lists.

    ``temporary`` None allows everyone all temporary destinations; ``default`` adds to all entries. With a ``directory``
    all lists are there.
    """

    entries: tuple[AuthorizationEntry, ...] = ()
    temporary: AccessList | None = None
    default: AccessList | None = None
    directory: RightsSettings | None = None


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """Settings for a file that may change while the broker runs.

    The file is checked every ``check_period_ms``; 0 means only when an operator asks.
    """

    check_period_ms: int = 0


@dataclass(frozen=True, slots=True)
class WebTls:
    """The attributes of ``<web>`` about TLS; the options of connectors have the same names."""

    is_on: bool = False
    needs_certificate: bool = False
    wants_certificate: bool = False
    protocols: str | None = None
    cipher_suites: str | None = None


@dataclass(frozen=True, slots=True)
class WebConfiguration:
    """The address on which the web process of the broker listens, with TLS if ``tls`` has settings.

    ``realm`` is a file with users of the web process alone. ``mounts`` are further paths of ActiveMQ's applications.
    ``network_files`` are the configurations of the other brokers of the network, with commas between them, for routes
    and findings in the console. With ``viewers_see_bodies`` users who may only look are shown the bodies of messages.
    """

    host: str = "127.0.0.1"
    port: int = 8161
    tls: TlsSettings | None = None
    realm: UserSource | None = None
    mounts: tuple[WebMount, ...] = ()
    network_files: str = ""
    viewers_see_bodies: bool = False


@dataclass(frozen=True, slots=True)
class TracingConfiguration:
    """Traces of messages for a collector.

    ``endpoint`` is the base URL of the collector; None means that of OpenTelemetry's environment variables. The broker
    begins a trace for the share ``sampling_rate`` of the messages that come without one.
    """

    endpoint: str | None = None
    sampling_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class CodeDirectories:
    """Directories of the command line with the operator's code: message convertors, jars of JMS providers."""

    convertors: Path | None = None
    jars: Path | None = None


NO_CODE: Final = CodeDirectories()


@dataclass(frozen=True, slots=True)
class BrokerConfiguration:
    """The configuration of a broker.

    ``data_directory`` None means the default directory for the broker's name. The open transactions of a connection
    hold at most ``max_uncommitted`` messages. The broker remembers why the last ``departures`` messages left.
    ``warnings`` and the settings ``skipped`` on request are for the operator. ``presumed_base`` is the directory used
    for ``activemq.base`` without a setting.
    """

    broker_name: str = DEFAULT_BROKER_NAME
    broker_id: str | None = None
    data_directory: Path | None = None
    advisory_support: bool = True
    anonymous_producer_advisories: bool = False
    delete_all_messages_on_startup: bool = False
    temporary_by_send: bool = False
    start: bool = True
    start_async: bool = False
    connectors: tuple[ConnectorSettings, ...] = ()
    network_connectors: tuple[NetworkConnectorSettings, ...] = ()
    bridges: tuple[BridgeDefinition, ...] = ()
    routes: tuple[Definition, ...] = ()
    persistence: PersistenceConfiguration = PersistenceConfiguration()
    usage: UsageConfiguration = UsageConfiguration()
    max_uncommitted: int = MAX_UNCOMMITTED
    departures: int = MAX_DEPARTURES
    destinations: tuple[Destination, ...] = ()
    policies: tuple[PolicyEntry, ...] = ()
    virtual: VirtualSettings = field(default_factory=VirtualSettings)
    scheduler: SchedulerSettings | None = None
    upkeep: UpkeepSettings = field(default_factory=UpkeepSettings)
    plugins: PluginSettings = field(default_factory=PluginSettings)
    authentication: AuthenticationConfiguration | None = None
    authorization: AuthorizationConfiguration | None = None
    runtime: RuntimeSettings | None = None
    web: WebConfiguration | None = None
    tracing: TracingConfiguration | None = None
    stores: Stores | None = None
    source: str = BUILT_IN
    warnings: tuple[str, ...] = field(default=())
    skipped: tuple[str, ...] = field(default=())
    presumed_base: Path | None = None


DEFAULT_CONNECTORS: Final = (
    ConnectorSettings(name="openwire", scheme="tcp", host="127.0.0.1", port=61616, protocol="openwire"),
    ConnectorSettings(name="stomp", scheme="stomp", host="127.0.0.1", port=61613, protocol="stomp"),
)


def default_configuration() -> BrokerConfiguration:
    """Return the configuration of a broker started without a configuration."""
    return BrokerConfiguration(
        connectors=DEFAULT_CONNECTORS, scheduler=SchedulerSettings(DEFAULT_MAX_REPEAT, LocalZone())
    )
