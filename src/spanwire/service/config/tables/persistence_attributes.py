"""Attributes of the message store.

The elements are ``broker`` and the stores inside of ``persistenceAdapter``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from spanwire.broker.persistence.producer_audit import MAX_TRACKED
from spanwire.broker.persistence.sequence_window import MAX_DEPTH
from spanwire.model.units import MIB
from spanwire.service.config.model import LockConfiguration, PersistenceConfiguration
from spanwire.service.config.tables.attributes import DIRECTORY, FLAG, Attribute, AttributeTable, Kind, as_size, number
from spanwire.service.config.values.values import Settings
from spanwire.stores.epoch import HOLDER_ID

MIN_SEGMENT_BYTES: Final = 1 * MIB
MAX_SEGMENT_BYTES: Final = 2048 * MIB - 1  # bytes; a Java int is KahaDB's own bound
DEFAULT_SYNC_INTERVAL_MS: Final = 1000  # journalDiskSyncInterval of KahaDB
MAX_SYNC_INTERVAL_MS: Final = 60_000  # milliseconds; bounds the loss by a power failure
MIN_RETRY_MS: Final = 10  # milliseconds; a standby must not keep the file system busy
MAX_WAIT_MS: Final = 24 * 3600 * 1000  # milliseconds; a day
MIN_LEASE_MS: Final = 500  # milliseconds; a busy broker is not to be taken for one that hangs
DEFAULT_LEASE_MS: Final = 10_000  # milliseconds; as ActiveMQ's
RENEWALS: Final = 4  # of a lease in its time, unless lockKeepAlivePeriod is set: three may be late
ALWAYS, PERIODIC, NEVER = "always", "periodic", "never"
STRATEGIES: Final = (ALWAYS, PERIODIC, NEVER)


@dataclass(frozen=True, slots=True)
class JournalSyncs:
    """The attributes of ``kahaDB`` that decide about syncs.

    ``strategy`` takes precedence over the older ``enabled``. Only periodic syncs have an interval.
    """

    enabled: bool = True
    strategy: str = ""
    interval_ms: int = DEFAULT_SYNC_INTERVAL_MS

    @property
    def sync(self) -> bool:
        """Return True if a send is answered only when the disk has the message."""
        return self.strategy == ALWAYS if self.strategy else self.enabled

    @property
    def sync_interval_ms(self) -> int:
        """Return the time between two syncs, or 0 without periodic syncs."""
        return self.interval_ms if self.strategy == PERIODIC else 0


def read_segment_size(settings: Settings, name: str, default: Any) -> object:
    """Interpret the size of the journal's files, which has bounds."""
    size = settings.size(name, default)
    if not MIN_SEGMENT_BYTES <= size <= MAX_SEGMENT_BYTES:
        settings.error(f"{name} of <{settings.element.name}> must be from 1 mb to just under 2 gb")
    return size


def read_strategy(settings: Settings, name: str, default: Any) -> object:
    """Interpret the name of a strategy in any case; an empty name is the default."""
    strategy = (settings.text(name) or "").lower()
    if strategy and strategy not in STRATEGIES:
        settings.error_of(name, " must be always, periodic or never")
        return default
    return strategy


SEGMENT_SIZE: Final = Kind("bytes, `1 mb` to just under `2 gb`", read_segment_size, as_size)
STRATEGY: Final = Kind("`always`, `periodic` or `never`", read_strategy)


def read_holder(settings: Settings, name: str, default: Any) -> object:
    """Interpret the name under which a broker holds a lease."""
    holder = settings.text(name) or ""
    if holder and HOLDER_ID.fullmatch(holder) is None:
        settings.error_of(name, " must have 1 to 255 letters, digits and characters of . _ : @ -")
        return default
    return holder


LEASE: Final = number("milliseconds", MIN_LEASE_MS, MAX_WAIT_MS)
HOLDER: Final = Kind("1 to 255 letters, digits and characters of `._:@-`", read_holder)
RETRY: Final = number("milliseconds", MIN_RETRY_MS, MAX_WAIT_MS)
DIRECTORY_OF_STORE: Final = Attribute("directory", DIRECTORY, "directory", "`journal` in `dataDirectory`")
FILE_LENGTH: Final = Attribute("journalMaxFileLength", SEGMENT_SIZE, "segment_bytes")

STORE: Final = AttributeTable(PersistenceConfiguration, Attribute("persistent", FLAG, "persistent"))
KAHA_DB: Final = AttributeTable(
    PersistenceConfiguration,
    DIRECTORY_OF_STORE,
    FILE_LENGTH,
    Attribute("failoverProducersAuditDepth", number("sends of a producer", 1, MAX_DEPTH), "audit_depth"),
    Attribute("maxFailoverProducersToTrack", number("producers", 1, MAX_TRACKED), "audited_producers"),
)
SYNCS: Final = AttributeTable(
    JournalSyncs,
    Attribute("enableJournalDiskSyncs", FLAG, "enabled"),
    Attribute("journalDiskSyncStrategy", STRATEGY, "strategy", "that of `enableJournalDiskSyncs`"),
    Attribute("journalDiskSyncInterval", number("milliseconds", 1, MAX_SYNC_INTERVAL_MS), "interval_ms"),
)
LEVEL_DB: Final = AttributeTable(
    PersistenceConfiguration,
    DIRECTORY_OF_STORE,
    Attribute("logSize", SEGMENT_SIZE, "segment_bytes"),
    Attribute("sync", FLAG, "sync"),
)
M_KAHA_DB: Final = AttributeTable(PersistenceConfiguration, DIRECTORY_OF_STORE, FILE_LENGTH)
LOCK: Final = AttributeTable(
    LockConfiguration,
    Attribute("useLock", FLAG, "use_lock"),
    Attribute("lockKeepAlivePeriod", number("milliseconds", 0, MAX_WAIT_MS), "keep_alive_ms"),
)
LOCKED_DATABASE: Final = AttributeTable(LockConfiguration, Attribute("failIfDatabaseIsLocked", FLAG, "fail_if_locked"))
LOCKED_DELAY: Final = AttributeTable(LockConfiguration, Attribute("databaseLockedWaitDelay", RETRY, "retry_ms"))
SHARED_FILE_LOCKER: Final = AttributeTable(
    LockConfiguration,
    Attribute("lockAcquireSleepInterval", RETRY, "retry_ms"),
    Attribute("failIfLocked", FLAG, "fail_if_locked"),
)
LEASE_LOCKER: Final = AttributeTable(
    LockConfiguration,
    Attribute("lockAcquireSleepInterval", LEASE, "lease_ms", "10,000"),
    Attribute("leaseHolderId", HOLDER, "holder_id", "the broker's name"),
    Attribute("failIfLocked", FLAG, "fail_if_locked"),
)
STANDBY: Final = AttributeTable(
    LockConfiguration,
    Attribute("waitForSlave", FLAG, "waits_for_standby"),
    Attribute("waitForSlaveTimeout", number("milliseconds", 1, MAX_WAIT_MS), "standby_timeout_ms"),
)
