"""Every word of ``activemq.xml``: what is honoured, what can only have one value yet, what a later version brings.

A word that stands in no table is unknown, and the closest known one is named. So that nothing is silently ignored, a
word without effect gives a warning unless it asks for what holds anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HONOURED: Final = "honoured"
ONLY: Final = "only"  # accepted with the given values; any other is not yet supported
NO_EFFECT: Final = "no effect"  # accepted with a warning that says why
LATER: Final = "later"  # not yet supported; accepted as an element that holds nothing


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of one word. ``values`` are lower case; ``note`` says why, for the warning or the error."""

    kind: str
    values: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """The settings and inner elements of one element."""

    settings: dict[str, Rule]
    children: dict[str, Rule]


YES: Final = Rule(HONOURED)
NOT_YET: Final = Rule(LATER)
ONLY_FALSE: Final = Rule(ONLY, ("false",))
ONLY_TRUE: Final = Rule(ONLY, ("true",))
JAVA: Final = Rule(NO_EFFECT, note="it tunes the Java implementation")
NO_JMX: Final = Rule(ONLY, ("false",), "there is no JMX here; set it to false and use spanwire status and dstat")
INDEX: Final = Rule(NO_EFFECT, note="it tunes KahaDB's index, and messages are kept in Spanwire's own journal")
SYNCED: Final = Rule(NO_EFFECT, note="every persistent message is synced before its send is answered")
UNMEASURED: Final = Rule(NO_EFFECT, note="disk use is not limited by this version")
CURSOR: Final = Rule(NO_EFFECT, note="pending messages beyond the memory limit are always read from the journal")


def _all(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


BROKER: Final = Words(
    settings={
        **_all(
            YES, "brokerName name brokerId dataDirectory persistent advisorySupport deleteAllMessagesOnStartup start"
        ),
        **_all(Rule(ONLY, ("true", "false")), "useJmx"),  # the control socket serves either way
        "id": Rule(HONOURED),  # Spring's name of the bean; nothing here refers to it
        "brokerObjectName": JAVA,
        **_all(
            ONLY_FALSE,
            "anonymousProducerAdvisorySupport allowTempAutoCreationOnSend cacheTempDestinations "
            "enableMessageExpirationOnActiveDurableSubs populateUserNameInMBeans populateJMSXUserID schedulerSupport "
            "rejectDurableConsumers startAsync useMirroredQueues useVirtualDestSubs "
            "useVirtualDestSubsOnCreation useVirtualTopics useAuthenticatedPrincipalForJMSXUserID waitForSlave "
            "networkConnectorStartAsync splitSystemUsageForProducersConsumers useLocalHostBrokerName "
            "slave shutdownOnSlaveFailure shutdownOnMasterFailure",
        ),
        **_all(ONLY_TRUE, "keepDurableSubsActive"),
        "enableStatistics": Rule(NO_EFFECT, note="statistics are always kept"),
        "useTempMirroredQueues": Rule(ONLY, ("true", "false")),
        "offlineDurableSubscriberTimeout": Rule(ONLY, ("-1",)),
        "maxUncommittedCount": Rule(ONLY, ("0",)),
        "schedulePeriodForDestinationPurge": Rule(ONLY, ("0",)),
        "maxPurgedDestinationsPerSweep": Rule(ONLY, ("0",)),
        "schedulePeriodForDiskUsageCheck": Rule(ONLY, ("0",)),
        **_all(
            JAVA,
            "adjustUsageLimits consumerSystemUsagePortion dedicatedTaskRunner virtualThreadTaskRunner "
            "deferredNetworkConnectors diskUsageCheckRegrowThreshold maxInflatedDataSize maxSchedulerRepeatAllowed "
            "mbeanInvocationTimeout monitorConnectionSplits offlineDurableSubscriberTaskSchedule passiveSlave "
            "persistenceThreadPriority producerSystemUsagePortion regionBroker restartAllowed restartRequested "
            "rollbackOnlyOnAsyncException schedulerDirectory schedulerDirectoryFile startBrokerWithStateless "
            "storeOpenWireVersion supportFailOver systemExitOnShutdown systemExitOnShutdownExitCode taskRunnerPriority "
            "timeBeforePurgeTempDestinations tmpDataDirectory useLoggingForShutdownErrors useShutdownHook "
            "useVmConnector waitForSlaveTimeout",
        ),
        **_all(NOT_YET, "networkConnectorURIs transportConnectorURIs masterConnectorURI vmConnectorURI"),
    },
    children={
        **_all(
            YES,
            "transportConnectors persistenceAdapter destinations destinationPolicy systemUsage managementContext "
            "plugins sslContext",
        ),
        "shutdownHooks": JAVA,
        **_all(
            NOT_YET,
            "networkConnectors jmsBridgeConnectors destinationInterceptors "
            "jobSchedulerStore tempDataStore proxyConnectors services ioExceptionHandler persistenceFactory "
            "memoryManager usageManager consumerSystemUsage producerSystemUsage messageAuthorizationPolicy "
            "destinationFactory taskRunnerFactory brokerContext adminView masterConnector producerCompositeQueue",
        ),
    },
)

TRANSPORT_CONNECTOR: Final = Words(
    settings={
        **_all(YES, "name uri maximumConsumersAllowedPerConnection maximumProducersAllowedPerConnection"),
        **_all(
            ONLY_FALSE,
            "allowLinkStealing auditNetworkProducers disableAsyncDispatch displayStackTrace enableStatusMonitor "
            "rebalanceClusterClients updateClusterClients updateClusterClientsOnRemove",
        ),
        **_all(ONLY_TRUE, "autoStart"),
        **_all(JAVA, "warnOnRemoteClose id"),
        **_all(
            NOT_YET,
            "discoveryUri updateClusterFilter connectURI publishedAddressPolicy brokerInfo discoveryAgent server",
        ),
    },
    children=_all(NOT_YET, "discoveryAgent publishedAddressPolicy messageAuthorizationPolicy brokerInfo server"),
)

KAHA_DB: Final = Words(
    settings={
        **_all(YES, "directory journalMaxFileLength"),
        **_all(SYNCED, "enableJournalDiskSyncs journalDiskSyncStrategy journalDiskSyncInterval"),
        **_all(
            INDEX,
            "archiveCorruptedIndex checkForCorruptJournalFiles checkpointInterval checksumJournalFiles cleanupInterval "
            "cleanupOnStop compactAcksAfterNoGC compactAcksIgnoresStoreGrowth concurrentStoreAndDispatchQueues "
            "concurrentStoreAndDispatchTopics databaseLockedWaitDelay directoryArchive enableAckCompaction "
            "enableIndexDiskSyncs enableIndexPageCaching enableIndexRecoveryFile enableIndexWriteAsync "
            "enableSubscriptionStatistics failIfDatabaseIsLocked forceRecoverIndex id ignoreMissingJournalfiles "
            "indexCacheSize indexDirectory indexLFUEvictionFactor indexWriteBatchSize journalMaxWriteBatchSize "
            "lockKeepAlivePeriod maxAsyncJobs maxFailoverProducersToTrack failoverProducersAuditDepth "
            "preallocationScope preallocationStrategy purgeRecoveredXATransactionStrategy "
            "storeOpenWireVersion useIndexLFRUEviction useLock",
        ),
        **_all(ONLY_FALSE, "archiveDataLogs purgeStoreOnStartup rewriteOnRedelivery"),
    },
    children=_all(NOT_YET, "locker transactionIdTransformer usageManager"),
)

PERSISTENCE: Final = Words(
    settings={},
    children={
        **_all(YES, "kahaDB memoryPersistenceAdapter"),
        **_all(
            NOT_YET,
            "mKahaDB jdbcPersistenceAdapter journalPersistenceAdapter journaledJDBC levelDB replicatedLevelDB "
            "amqPersistenceAdapter kahaPersistenceAdapter",
        ),
    },
)

POLICY_ENTRY: Final = Words(
    settings={
        **_all(
            YES,
            "queue topic memoryLimit queuePrefetch topicPrefetch queueBrowserPrefetch expireMessagesPeriod",
        ),
        **_all(
            ONLY_FALSE,
            "advancedMessageStatisticsEnabled advancedNetworkStatisticsEnabled advisoryForConsumed advisoryForDelivery "
            "advisoryForDiscardingMessages advisoryForDispatched advisoryForFastProducers advisoryForSlowConsumers "
            "advisoryWhenFull allConsumersExclusiveByDefault allowTempDestinationStealing alwaysRetroactive "
            "gcInactiveDestinations gcWithNetworkConsumers includeBodyForAdvisory lazyDispatch persistJMSRedelivered "
            "prioritizedMessages sendAdvisoryIfNoConsumers sendDuplicateFromStoreToDLQ sendFailIfNoSpace "
            "strictOrderDispatch tempQueue tempTopic",
        ),
        **_all(ONLY_TRUE, "producerFlowControl useConsumerPriority usePrefetchExtension"),
        **_all(Rule(ONLY, ("0",)), "timeBeforeDispatchStarts consumersBeforeDispatchStarts"),
        **_all(Rule(ONLY, ("-1",)), "maxDestinations sendFailIfNoSpaceAfterTimeout"),
        "durableTopicPrefetch": Rule(ONLY, ("100",)),
        "messageGroupMapFactoryType": Rule(ONLY, ("cached", "simple", "bucket")),
        **_all(
            JAVA,
            "blockedProducerWarningInterval cursorMemoryHighWaterMark doOptimzeMessageStorage enableAudit "
            "inactiveTimeoutBeforeGC inactiveTimoutBeforeGC maxAuditDepth maxBrowsePageSize maxExpirePageSize "
            "maxPageSize maxProducersToAudit maxQueueAuditDepth minimumMessageSize optimizeMessageStoreInFlightLimit "
            "optimizedDispatch reduceMemoryFootprint storeUsageHighWaterMark useCache "
            "useTopicSubscriptionInflightStats id",
        ),
    },
    children={
        **_all(YES, "deadLetterStrategy"),
        **_all(CURSOR, "pendingQueuePolicy pendingSubscriberPolicy pendingDurableSubscriberPolicy"),
        **_all(
            NOT_YET,
            "pendingMessageLimitStrategy messageEvictionStrategy slowConsumerStrategy subscriptionRecoveryPolicy "
            "dispatchPolicy networkBridgeFilterFactory messageGroupMapFactory messageInterceptorStrategy destination",
        ),
    },
)

SHARED_DEAD_LETTERS: Final = Words(
    settings={
        **_all(YES, "deadLetterQueue processExpired processNonPersistent"),
        **_all(Rule(ONLY, ("0",)), "expiration"),
        **_all(JAVA, "enableAudit maxAuditDepth maxProducersToAudit id"),
    },
    children=_all(YES, "deadLetterQueue"),
)
DEAD_LETTER_STRATEGY: Final = Words(
    settings={},
    children={**_all(YES, "sharedDeadLetterStrategy"), **_all(NOT_YET, "individualDeadLetterStrategy discarding")},
)

SYSTEM_USAGE: Final = Words(
    settings={
        **_all(ONLY_FALSE, "sendFailIfNoSpace sendFailIfNoSpaceExplicitySet"),
        "sendFailIfNoSpaceAfterTimeout": Rule(ONLY, ("0",)),
        **_all(JAVA, "id name checkLimitsLogLevel"),
    },
    children={**_all(YES, "memoryUsage systemUsage"), **_all(UNMEASURED, "storeUsage tempUsage jobSchedulerUsage")},
)
MEMORY_USAGE: Final = Words(
    settings={
        **_all(YES, "limit percentOfJvmHeap"),
        **_all(JAVA, "name percentUsageMinDelta pollingTime id portion usagePortion"),
    },
    children=_all(YES, "memoryUsage"),
)
MANAGEMENT: Final = Words(
    settings={
        "createConnector": NO_JMX,
        **_all(JAVA, "connectorHost connectorPath connectorPort createMBeanServer findTigerMbeanServer jmxDomainName "
                     "rmiServerPort useMBeanServer allowRemoteAddressInMBeanNames suppressMBean"),
    },
    children={},
)  # fmt: skip
SSL_CONTEXT: Final = Words(
    settings={
        **_all(YES, "keyStore keyStorePassword keyStoreKey keyStoreKeyPassword trustStore trustStorePassword"),
        **_all(Rule(ONLY, ("tls", "tlsv1.2", "tlsv1.3")), "protocol"),
        **_all(Rule(ONLY, ("jks", "pkcs12", "pem")), "keyStoreType trustStoreType"),  # the file's content tells
        **_all(JAVA, "id keyStoreAlgorithm trustStoreAlgorithm secureRandomAlgorithm provider"),
        **_all(NOT_YET, "crlPath keyManagers trustManagers secureRandom"),
    },
    children={**_all(YES, "sslContext"), **_all(NOT_YET, "keyManagers trustManagers")},
)
DESTINATION: Final = Words(settings=_all(YES, "physicalName"), children={})
DESTINATIONS: Final = Words(settings={}, children={**_all(YES, "queue topic"), **_all(NOT_YET, "tempQueue tempTopic")})
CONNECTORS: Final = Words(settings={}, children=_all(YES, "transportConnector"))
POLICY: Final = Words(settings={}, children=_all(YES, "policyMap policyEntries"))
POLICY_MAP: Final = Words(settings={}, children={**_all(YES, "policyEntries"), **_all(NOT_YET, "defaultEntry")})
POLICY_ENTRIES: Final = Words(settings={}, children=_all(YES, "policyEntry"))

PLUGINS: Final = Words(
    settings={},
    children={
        **_all(
            YES,
            "simpleAuthenticationPlugin jaasAuthenticationPlugin jaasCertificateAuthenticationPlugin "
            "authorizationPlugin",
        ),
        **_all(
            NOT_YET,
            "jaasDualAuthenticationPlugin connectionDotFilePlugin "
            "destinationDotFilePlugin destinationPathSeparatorPlugin destinationsPlugin discardingDLQBrokerPlugin "
            "forcePersistencyModeBrokerPlugin loggingBrokerPlugin multicastTraceBrokerPlugin redeliveryPlugin "
            "runtimeConfigurationPlugin shiroPlugin statisticsBrokerPlugin timeStampingBrokerPlugin "
            "traceBrokerPathPlugin udpTraceBrokerPlugin virtualSelectorCacheBrokerPlugin bean",
        ),
    },
)
SIMPLE_AUTHENTICATION: Final = Words(
    settings={**_all(YES, "anonymousAccessAllowed anonymousUser anonymousGroup"), "id": JAVA},
    children={**_all(YES, "users"), **_all(NOT_YET, "userGroups userPasswords")},
)
USERS: Final = Words(settings={}, children=_all(YES, "authenticationUser"))
USER: Final = Words(settings={**_all(YES, "username password groups"), "id": JAVA}, children={})
JAAS_AUTHENTICATION: Final = Words(
    settings={**_all(YES, "configuration"), **_all(ONLY_TRUE, "discoverLoginConfig"), "id": JAVA}, children={}
)
AUTHORIZATION: Final = Words(settings={"id": JAVA}, children=_all(YES, "map"))
AUTHORIZATION_HOLDER: Final = Words(
    settings={},
    children={**_all(YES, "authorizationMap"), **_all(NOT_YET, "cachedLDAPAuthorizationMap lDAPAuthorizationMap bean")},
)
AUTHORIZATION_MAP: Final = Words(
    settings={"id": JAVA, "groupClass": Rule(ONLY, ("org.apache.activemq.jaas.groupprincipal",))},
    children=_all(YES, "authorizationEntries tempDestinationAuthorizationEntry defaultEntry"),
)
AUTHORIZATION_ENTRIES: Final = Words(settings={}, children=_all(YES, "authorizationEntry"))
AUTHORIZATION_ENTRY: Final = Words(
    settings={
        **_all(YES, "queue topic read write admin"),
        **_all(ONLY_FALSE, "tempQueue tempTopic"),
        "groupClass": Rule(ONLY, ("org.apache.activemq.jaas.groupprincipal",)),
        "id": JAVA,
    },
    children=_all(NOT_YET, "destination"),
)
TEMPORARY_ENTRY: Final = Words(
    settings={**_all(YES, "read write admin"), **_all(JAVA, "id groupClass")},
    children=_all(YES, "tempDestinationAuthorizationEntry"),
)
DEFAULT_ENTRY: Final = Words(settings={}, children=_all(YES, "authorizationEntry"))
