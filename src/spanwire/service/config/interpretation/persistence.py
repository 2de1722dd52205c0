"""Interprets the ``persistenceAdapter``.

Messages go to Spanwire's journal, whatever store of ActiveMQ is named.

The directory, file size and syncs of an element are honoured; settings that tune its own files have no effect. Stores
with other functions, such as a database or a store shared between brokers, are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spanwire.broker.persistence.producer_audit import MAX_TRACKED
from spanwire.broker.persistence.sequence_window import MAX_DEPTH
from spanwire.documents.element import Element
from spanwire.service.config.model import PersistenceConfiguration
from spanwire.service.config.tables.attribute_table import ENTRY_TABLES, JOURNAL
from spanwire.service.config.tables.handling import JAVA, LATER, NO_EFFECT, ONLY, YES, Rule, Words
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import Settings

GIB: Final = 1024**3
MIN_SEGMENT_BYTES: Final = 1024 * 1024
MAX_SEGMENT_BYTES: Final = 2 * GIB - 1  # bytes; a Java int is KahaDB's own bound
SEGMENTS_OF_LIMIT: Final = 8  # smallest number of journal files below the limit of the store
DEFAULT_SYNC_INTERVAL_MS: Final = 1000  # journalDiskSyncInterval of KahaDB
MAX_SYNC_INTERVAL_MS: Final = 60_000  # milliseconds; bounds the loss by a power failure
ALWAYS, PERIODIC, NEVER = "always", "periodic", "never"
STRATEGIES: Final = (ALWAYS, PERIODIC, NEVER)

INDEX: Final = Rule(NO_EFFECT, note="it tunes the files of KahaDB, and messages are kept in Spanwire's own journal")
LEVELS: Final = Rule(NO_EFFECT, note="it tunes the files of LevelDB, and messages are kept in Spanwire's own journal")
ONE: Final = Rule(NO_EFFECT, note="all destinations share one journal")
DATABASE: Final = Rule(LATER, note="stores in a database", advice=JOURNAL)
SHARED: Final = Rule(LATER, note="stores that several brokers share", advice=JOURNAL)
OLD: Final = Rule(LATER, note="stores of ActiveMQ 4", advice="write kahaDB with the directory of the new journal")

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
        **dict.fromkeys(
            "directory journalMaxFileLength enableJournalDiskSyncs journalDiskSyncStrategy "
            "journalDiskSyncInterval failoverProducersAuditDepth maxFailoverProducersToTrack".split(),
            YES,
        ),
        **dict.fromkeys(
            "archiveCorruptedIndex checkForCorruptJournalFiles checkpointInterval checksumJournalFiles cleanupInterval "
            "cleanupOnStop compactAcksAfterNoGC compactAcksIgnoresStoreGrowth concurrentStoreAndDispatchQueues "
            "concurrentStoreAndDispatchTopics databaseLockedWaitDelay directoryArchive enableAckCompaction "
            "enableIndexDiskSyncs enableIndexPageCaching enableIndexRecoveryFile enableIndexWriteAsync "
            "enableSubscriptionStatistics failIfDatabaseIsLocked forceRecoverIndex id ignoreMissingJournalfiles "
            "indexCacheSize indexDirectory indexLFUEvictionFactor indexWriteBatchSize journalMaxWriteBatchSize "
            "lockKeepAlivePeriod maxAsyncJobs preallocationScope preallocationStrategy "
            "purgeRecoveredXATransactionStrategy storeOpenWireVersion useIndexLFRUEviction useLock".split(),
            INDEX,
        ),
        "archiveDataLogs": Rule(ONLY, ("false",), "an archive of the journal"),
        "purgeStoreOnStartup": Rule(ONLY, ("false",), "an empty store at start", "use deleteAllMessagesOnStartup"),
        "stopOnError": Rule(LATER, note="configurable reactions to disk failures"),
        "rewriteOnRedelivery": Rule(NO_EFFECT, note="the journal keeps redelivery counts beside the messages"),
    },
    children={
        "locker": Rule(NO_EFFECT, note="the data directory is always locked"),
        **dict.fromkeys("transactionIdTransformer usageManager".split(), Rule(LATER, note=ENTRY_TABLES)),
    },
)
LEVEL_DB: Final = Words(
    settings={
        **dict.fromkeys("directory logSize sync".split(), YES),
        **dict.fromkeys(
            "asyncBufferSize autoCompactionRatio failIfDatabaseIsLocked flushDelay id indexBlockRestartInterval "
            "indexBlockSize indexCacheSize indexCompression indexFactory indexMaxOpenFiles indexWriteBufferSize "
            "lockKeepAlivePeriod logCompression logDirectory logWriteBufferSize monitorStats paranoidChecks "
            "readThreads useLock verifyChecksums".split(),
            LEVELS,
        ),
    },
    children={"locker": Rule(NO_EFFECT, note="the data directory is always locked")},
)
M_KAHA_DB: Final = Words(
    settings={
        **dict.fromkeys("directory journalMaxFileLength".split(), YES),
        **dict.fromkeys(
            "checkForCorruptJournalFiles id journalCleanupInterval journalWriteBatchSize lockKeepAlivePeriod "
            "transactionStore useLock".split(),
            INDEX,
        ),
    },
    children={
        "filteredPersistenceAdapters": ONE,
        "locker": Rule(NO_EFFECT, note="the data directory is always locked"),
    },
)
MEMORY: Final = Words(
    settings=dict.fromkeys("createTransactionStore id usageManager".split(), JAVA), children={"usageManager": JAVA}
)
TABLES: Final = (PERSISTENCE, KAHA_DB, LEVEL_DB, M_KAHA_DB, MEMORY)


@dataclass(frozen=True, slots=True)
class PersistenceInterpreter:
    """Interprets the ``persistenceAdapter`` of a broker.

    ``inner`` returns checked inner elements, and ``resolve_directory`` the directory of an attribute.
    """

    findings: Findings
    inner: Callable[[Element, str, Words], list[Element]]
    resolve_directory: Callable[[Element, str], Path | None]

    def persistence(self, broker: Element, persistent: bool, store_limit_bytes: int) -> PersistenceConfiguration:
        """Return the settings of the store; ``persistent`` is the broker's own attribute.

        With ``store_limit_bytes`` above 0, files are small enough for consumed messages to free space in time.
        """
        configuration = PersistenceConfiguration(persistent)
        for adapter in self.inner(broker, "persistenceAdapter", PERSISTENCE):
            if len(adapter.children) > 1:
                self.findings.error(
                    adapter.children[1].line, "<persistenceAdapter> holds more than one adapter; keep one"
                )
            if self.inner(adapter, "memoryPersistenceAdapter", MEMORY):
                configuration = replace(configuration, persistent=False)
            for store in self.inner(adapter, "kahaDB", KAHA_DB):
                configuration = self._synced(store, self._placed(store, "journalMaxFileLength", configuration))
                configuration = self._audited(store, configuration)
            for store in self.inner(adapter, "mKahaDB", M_KAHA_DB):
                configuration = self._placed(store, "journalMaxFileLength", configuration)
            for store in self.inner(adapter, "levelDB", LEVEL_DB):
                configuration = self._placed(store, "logSize", configuration)
                configuration = replace(configuration, sync=Settings(store, self.findings).flag("sync", True))
        if 0 < store_limit_bytes < SEGMENTS_OF_LIMIT * configuration.segment_bytes:
            configuration = replace(
                configuration, segment_bytes=max(MIN_SEGMENT_BYTES, store_limit_bytes // SEGMENTS_OF_LIMIT)
            )
        return configuration

    def _placed(self, store: Element, size: str, configuration: PersistenceConfiguration) -> PersistenceConfiguration:
        segment_bytes = Settings(store, self.findings).size(size, configuration.segment_bytes)
        if not MIN_SEGMENT_BYTES <= segment_bytes <= MAX_SEGMENT_BYTES:
            self.findings.error(store.line, f"{size} of <{store.name}> must be from 1 mb to just under 2 gb")
        directory = self.resolve_directory(store, "directory") if "directory" in store.attributes else None
        return replace(configuration, segment_bytes=segment_bytes, directory=directory)

    def _audited(self, store: Element, configuration: PersistenceConfiguration) -> PersistenceConfiguration:
        settings = Settings(store, self.findings)
        return replace(
            configuration,
            audit_depth=settings.number("failoverProducersAuditDepth", configuration.audit_depth, 1, MAX_DEPTH),
            audited_producers=settings.number(
                "maxFailoverProducersToTrack", configuration.audited_producers, 1, MAX_TRACKED
            ),
        )

    def _synced(self, store: Element, configuration: PersistenceConfiguration) -> PersistenceConfiguration:
        """Return the sync settings.

        ``journalDiskSyncStrategy`` takes precedence over the older ``enableJournalDiskSyncs``.
        """
        settings = Settings(store, self.findings)
        strategy = (settings.text("journalDiskSyncStrategy") or "").strip().lower()
        if not strategy:
            strategy = ALWAYS if settings.flag("enableJournalDiskSyncs", True) else NEVER
        elif strategy not in STRATEGIES:
            line = store.attributes["journalDiskSyncStrategy"].line
            self.findings.error(line, f"journalDiskSyncStrategy of <{store.name}> must be always, periodic or never")
        interval = settings.number("journalDiskSyncInterval", DEFAULT_SYNC_INTERVAL_MS, 1, MAX_SYNC_INTERVAL_MS)
        return replace(
            configuration,
            sync=strategy not in (PERIODIC, NEVER),
            sync_interval_ms=interval if strategy == PERIODIC else 0,
        )
