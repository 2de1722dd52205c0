"""Interprets the ``persistenceAdapter``.

Messages go to Spanwire's journal, also for an element with another store of ActiveMQ.

The directory, file size and syncs of an element are honoured; settings for the files of ActiveMQ's stores have no
effect. Stores with other functions, such as a database or a store shared between brokers, are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from spanwire.documents.element import Element
from spanwire.service.config.model import LockConfiguration, PersistenceConfiguration
from spanwire.service.config.tables import persistence_attributes as attributes
from spanwire.service.config.tables.attribute_table import ENTRY_TABLES, JOURNAL
from spanwire.service.config.tables.attributes import AttributeTable
from spanwire.service.config.tables.handling import JAVA, LATER, NO_EFFECT, ONLY, YES, Rule, Words, honoured
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import Settings

SEGMENTS_OF_LIMIT: Final = 8  # smallest number of journal files below the limit of the store

INDEX: Final = Rule(NO_EFFECT, note="it tunes the files of KahaDB, and messages are kept in Spanwire's own journal")
LEVELS: Final = Rule(NO_EFFECT, note="it tunes the files of LevelDB, and messages are kept in Spanwire's own journal")
ONE: Final = Rule(NO_EFFECT, note="all destinations share one journal")
DATABASE: Final = Rule(LATER, note="stores in a database", advice=JOURNAL)
SHARED: Final = Rule(LATER, note="stores that several brokers share", advice=JOURNAL)
NO_DATABASE: Final = Rule(NO_EFFECT, note="the lease is a file in the directory of the store")
OLD: Final = Rule(LATER, note="stores of ActiveMQ 4", advice="write kahaDB with the directory of the new journal")

KAHA_DB_LOCK: Final = (attributes.LOCK, attributes.LOCKED_DATABASE, attributes.LOCKED_DELAY)
LEVEL_DB_LOCK: Final = (attributes.LOCK, attributes.LOCKED_DATABASE)
LOCKER: Final = Words(
    settings={},
    children={
        "shared-file-locker": YES,
        "lease-database-locker": YES,
        **dict.fromkeys(
            "database-locker transact-database-locker bean".split(),
            Rule(LATER, note="other locks", advice="write shared-file-locker or lease-database-locker"),
        ),
    },
)
SHARED_FILE_LOCKER: Final = Words(
    settings={
        **honoured(attributes.SHARED_FILE_LOCKER),
        "directory": Rule(LATER, note="a lock outside of the store", advice="the lock is in the store's directory"),
        **dict.fromkeys("lockable name".split(), JAVA),
    },
    children={"lockable": JAVA},
    tables=(attributes.SHARED_FILE_LOCKER,),
)
LEASE_LOCKER: Final = Words(
    settings={
        **honoured(attributes.LEASE_LOCKER),
        **dict.fromkeys("dataSource createTablesOnStartup handleStartException queryTimeout".split(), NO_DATABASE),
        "maxAllowableDiffFromDBTime": Rule(NO_EFFECT, note="no clock of another machine is compared"),
        **dict.fromkeys("id lockable name".split(), JAVA),
    },
    children={"statements": NO_DATABASE, "dataSource": NO_DATABASE, "lockable": JAVA},
    tables=(attributes.LEASE_LOCKER,),
)
PERSISTENCE: Final = Words(
    settings={},
    children={
        **dict.fromkeys("kahaDB levelDB mKahaDB memoryPersistenceAdapter".split(), YES),
        **dict.fromkeys("jdbcPersistenceAdapter journalPersistenceAdapter journaledJDBC".split(), DATABASE),
        "replicatedLevelDB": SHARED,
        **dict.fromkeys("amqPersistenceAdapter kahaPersistenceAdapter".split(), OLD),
        "bean": Rule(LATER, note="other stores", advice=JOURNAL),
    },
)
KAHA_DB: Final = Words(
    settings={
        **honoured(attributes.KAHA_DB, attributes.SYNCS, *KAHA_DB_LOCK),
        **dict.fromkeys(
            "archiveCorruptedIndex brokerName checkForCorruptJournalFiles checkpointInterval checksumJournalFiles "
            "cleanupInterval cleanupOnStop compactAcksAfterNoGC compactAcksIgnoresStoreGrowth "
            "concurrentStoreAndDispatchQueues concurrentStoreAndDispatchTopics directoryArchive enableAckCompaction "
            "enableIndexDiskSyncs enableIndexPageCaching enableIndexRecoveryFile enableIndexWriteAsync "
            "enableSubscriptionStatistics forceRecoverIndex ignoreMissingJournalfiles "
            "indexCacheSize indexDirectory indexLFUEvictionFactor indexWriteBatchSize journalMaxWriteBatchSize "
            "maxAsyncJobs preallocationScope preallocationStrategy "
            "purgeRecoveredXATransactionStrategy storeOpenWireVersion useIndexLFRUEviction".split(),
            INDEX,
        ),
        "archiveDataLogs": Rule(ONLY, ("false",), "an archive of the journal"),
        "purgeStoreOnStartup": Rule(ONLY, ("false",), "an empty store at start", "use deleteAllMessagesOnStartup"),
        "stopOnError": Rule(LATER, note="configurable reactions to disk failures"),
        "rewriteOnRedelivery": Rule(NO_EFFECT, note="the journal keeps redelivery counts beside the messages"),
    },
    children={
        "locker": YES,
        **dict.fromkeys("transactionIdTransformer usageManager".split(), Rule(LATER, note=ENTRY_TABLES)),
    },
    tables=(attributes.KAHA_DB, attributes.SYNCS, *KAHA_DB_LOCK),
)
LEVEL_DB: Final = Words(
    settings={
        **honoured(attributes.LEVEL_DB, *LEVEL_DB_LOCK),
        **dict.fromkeys(
            "asyncBufferSize autoCompactionRatio flushDelay indexBlockRestartInterval "
            "indexBlockSize indexCacheSize indexCompression indexFactory indexMaxOpenFiles indexWriteBufferSize "
            "logCompression logDirectory logWriteBufferSize monitorStats paranoidChecks "
            "readThreads verifyChecksums".split(),
            LEVELS,
        ),
    },
    children={"locker": YES},
    tables=(attributes.LEVEL_DB, *LEVEL_DB_LOCK),
)
M_KAHA_DB: Final = Words(
    settings={
        **honoured(attributes.M_KAHA_DB, attributes.LOCK),
        **dict.fromkeys(
            "checkForCorruptJournalFiles checkForCorruption journalCleanupInterval journalWriteBatchSize "
            "transactionStore".split(),
            INDEX,
        ),
        "brokerName": JAVA,
        "stopOnError": Rule(LATER, note="configurable reactions to disk failures"),
    },
    children={
        "filteredPersistenceAdapters": ONE,
        "locker": YES,
        "usageManager": Rule(LATER, note=ENTRY_TABLES),
    },
    tables=(attributes.M_KAHA_DB, attributes.LOCK),
)
MEMORY: Final = Words(
    settings=dict.fromkeys(
        "brokerName createTransactionStore directory usageManager useExternalMessageReferences".split(), JAVA
    ),
    children={"usageManager": JAVA},
)


@dataclass(frozen=True, slots=True)
class PersistenceInterpreter:
    """Interprets the ``persistenceAdapter`` of a broker.

    ``inner`` returns checked inner elements, and a relative directory is below ``base``.
    """

    findings: Findings
    inner: Callable[[Element, str, Words], list[Element]]
    base: Path

    def persistence(self, broker: Element, store_limit_bytes: int) -> PersistenceConfiguration:
        """Return the settings of the store.

        With ``store_limit_bytes`` above 0, files are small enough for consumed messages to free space in time.
        """
        configuration = PersistenceConfiguration(**self._values(attributes.STORE, broker))
        lock = self._values(attributes.STANDBY, broker)
        for adapter in self.inner(broker, "persistenceAdapter", PERSISTENCE):
            if len(adapter.children) > 1:
                self.findings.error(
                    adapter.children[1].line, "<persistenceAdapter> holds more than one adapter; keep one"
                )
            if self.inner(adapter, "memoryPersistenceAdapter", MEMORY):
                configuration = replace(configuration, persistent=False)
            for store in self.inner(adapter, "kahaDB", KAHA_DB):
                lock.update(self._lock(store, *KAHA_DB_LOCK))
                syncs = attributes.JournalSyncs(**self._values(attributes.SYNCS, store))
                configuration = replace(
                    configuration,
                    sync=syncs.sync,
                    sync_interval_ms=syncs.sync_interval_ms,
                    **self._values(attributes.KAHA_DB, store),
                )
                self._check_lease(store, configuration.sync, lock)
            for store in self.inner(adapter, "mKahaDB", M_KAHA_DB):
                lock.update(self._lock(store, attributes.LOCK))
                configuration = replace(configuration, **self._values(attributes.M_KAHA_DB, store))
                self._check_lease(store, True, lock)
            for store in self.inner(adapter, "levelDB", LEVEL_DB):
                lock.update(self._lock(store, *LEVEL_DB_LOCK))
                configuration = replace(configuration, **self._values(attributes.LEVEL_DB, store))
                self._check_lease(store, configuration.sync, lock)
        configuration = replace(configuration, lock=LockConfiguration(**lock))
        if configuration.directory is not None:
            configuration = replace(configuration, directory=self.base / configuration.directory)
        if 0 < store_limit_bytes < SEGMENTS_OF_LIMIT * configuration.segment_bytes:
            segment_bytes = max(attributes.MIN_SEGMENT_BYTES, store_limit_bytes // SEGMENTS_OF_LIMIT)
            configuration = replace(configuration, segment_bytes=segment_bytes)
        return configuration

    def _lock(self, store: Element, *tables: AttributeTable) -> dict[str, Any]:
        """Return the settings of a store's lock; those of its locker take precedence."""
        values: dict[str, Any] = {}
        for table in tables:
            values.update(self._values(table, store))
        for locker in self.inner(store, "locker", LOCKER):
            for element in self.inner(locker, "shared-file-locker", SHARED_FILE_LOCKER):
                values.update(self._values(attributes.SHARED_FILE_LOCKER, element))
            for element in self.inner(locker, "lease-database-locker", LEASE_LOCKER):
                values["lease_ms"] = attributes.DEFAULT_LEASE_MS
                values.update(self._values(attributes.LEASE_LOCKER, element))
        return values

    def _check_lease(self, store: Element, sync: bool, lock: dict[str, Any]) -> None:
        """Add the time between two renewals of a lease, and refuse settings that contradict a lease."""
        lease_ms = lock.get("lease_ms", 0)
        if not lease_ms:
            return
        period_ms = lock.setdefault("keep_alive_ms", lease_ms // attributes.RENEWALS)
        if not 0 < period_ms * 2 <= lease_ms:
            self.findings.error(
                store.line,
                f"lockKeepAlivePeriod of <{store.name}> must be from 1 to half of lockAcquireSleepInterval of"
                " <lease-database-locker>, or a standby takes over from a broker that works",
            )
        if not sync:
            self.findings.error(
                store.line,
                f"<lease-database-locker> needs disk syncs: a sync precedes each look whether the store was taken over;"
                f" remove what turns them off in <{store.name}>",
            )
        if not lock.get("use_lock", True):
            self.findings.error(
                store.line, f'useLock="false" of <{store.name}> contradicts <lease-database-locker>; remove one'
            )

    def _values(self, table: AttributeTable, element: Element) -> dict[str, Any]:
        return table.values(Settings(element, self.findings))
