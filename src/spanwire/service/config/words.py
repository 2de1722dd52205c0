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
LATER: Final = "later"  # not yet supported


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of one word.

    ``values`` are lower case. ``note`` says why a word has no effect, or names the feature that a word of a later
    version belongs to; ``advice`` is what to do until then. A word that ``guards`` access is never skipped.
    A ``holder`` that is empty asks for nothing.
    """

    kind: str
    values: tuple[str, ...] = ()
    note: str = ""
    advice: str = "remove it"
    guards: bool = False
    holder: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """The settings and inner elements of one element; all of it guards access if ``guards``."""

    settings: dict[str, Rule]
    children: dict[str, Rule]
    guards: bool = False


def _later(feature: str, advice: str = "remove it", guards: bool = False) -> Rule:
    return Rule(LATER, note=feature, advice=advice, guards=guards)


def _list_of(feature: str) -> Rule:
    return Rule(LATER, note=feature, holder=True)


def _only(value: str, feature: str, advice: str = "remove it", guards: bool = False) -> Rule:
    return Rule(ONLY, tuple(value.split()), feature, advice, guards)


YES: Final = Rule(HONOURED)
JAVA: Final = Rule(NO_EFFECT, note="it tunes the Java implementation")
NO_JMX: Final = Rule(NO_EFFECT, ("false",), "there is no JMX here; use spanwire status and dstat")
WATCHED: Final = Rule(
    NO_EFFECT,
    ("0", "-1", "true"),
    "the next journal file is allocated before it is needed, so that a full disk is always noticed in time",
)
JOB_STORE: Final = Rule(NO_EFFECT, note="scheduled messages are kept in the journal, which storeUsage limits")
NO_TEMPORARY_STORE: Final = Rule(NO_EFFECT, note="what is written to disk for want of memory goes to the journal")
CURSOR: Final = Rule(NO_EFFECT, note="pending messages beyond the memory limit are always read from the journal")
BUILT_IN: Final = Rule(NO_EFFECT, note="it asks for a Java class; what Spanwire has in its place is built in")
OWNED: Final = Rule(NO_EFFECT, note="a temporary destination belongs to the connection that makes it")
LINKS: Final = "networks of brokers"
VIRTUAL: Final = "virtual destinations"
DURABLE: Final = "durable subscriptions"
DISCOVERY: Final = "discovery"
SLOW: Final = "limits of slow consumers"
STANDBY: Final = "a second broker on the same store"
ENTRY_TABLES: Final = "a table of classes in place of elements"
JOURNAL: Final = "the journal of Spanwire keeps the messages; remove it"


def _all(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


BROKER: Final = Words(
    settings={
        **_all(
            YES,
            "brokerName name brokerId dataDirectory persistent advisorySupport deleteAllMessagesOnStartup start "
            "maxUncommittedCount schedulerSupport maxSchedulerRepeatAllowed allowTempAutoCreationOnSend",
        ),
        "id": YES,  # Spring's name of the bean; nothing here refers to it
        "useJmx": Rule(ONLY, ("true", "false")),  # the control socket serves either way
        "brokerObjectName": JAVA,
        "anonymousProducerAdvisorySupport": YES,
        **_all(_only("false", "reuse of temporary destinations"), "cacheTempDestinations"),
        **_all(
            YES,
            "enableMessageExpirationOnActiveDurableSubs offlineDurableSubscriberTimeout "
            "offlineDurableSubscriberTaskSchedule schedulePeriodForDestinationPurge maxPurgedDestinationsPerSweep",
        ),
        **_all(_only("false", "refusal of durable subscriptions", guards=True), "rejectDurableConsumers"),
        "populateJMSXUserID": YES,
        "useAuthenticatedPrincipalForJMSXUserID": Rule(
            NO_EFFECT, ("true", "false"), "populateJMSXUserID always names whom the client logged in as"
        ),
        "populateUserNameInMBeans": NO_JMX,
        **_all(YES, "useMirroredQueues useVirtualTopics useTempMirroredQueues"),
        **_all(YES, "useVirtualDestSubs useVirtualDestSubsOnCreation"),
        **_all(_only("false", STANDBY), "slave waitForSlave shutdownOnSlaveFailure shutdownOnMasterFailure"),
        **_all(_only("false", "a start that does not wait"), "startAsync"),
        "networkConnectorStartAsync": Rule(
            NO_EFFECT, ("true", "false"), "network connectors start side by side and hold nothing up"
        ),
        **_all(
            _only("false", "memory limits for producers and consumers apart"), "splitSystemUsageForProducersConsumers"
        ),
        **_all(_only("false", "the host's name as the broker's", "write brokerName"), "useLocalHostBrokerName"),
        "rollbackOnlyOnAsyncException": Rule(NO_EFFECT, ("true",), "a transaction with a refused send is rolled back"),
        "keepDurableSubsActive": Rule(NO_EFFECT, ("true", "false"), "durable subscriptions are always kept"),
        "enableStatistics": Rule(NO_EFFECT, ("true",), "statistics are always kept"),
        **_all(WATCHED, "schedulePeriodForDiskUsageCheck diskUsageCheckRegrowThreshold adjustUsageLimits"),
        "schedulerDirectory": JOB_STORE,
        "schedulerDirectoryFile": JOB_STORE,
        "tmpDataDirectory": NO_TEMPORARY_STORE,
        **_all(
            JAVA,
            "consumerSystemUsagePortion dedicatedTaskRunner virtualThreadTaskRunner "
            "deferredNetworkConnectors maxInflatedDataSize "
            "mbeanInvocationTimeout monitorConnectionSplits passiveSlave "
            "persistenceThreadPriority producerSystemUsagePortion regionBroker restartAllowed restartRequested "
            "startBrokerWithStateless "
            "storeOpenWireVersion supportFailOver systemExitOnShutdown systemExitOnShutdownExitCode taskRunnerPriority "
            "timeBeforePurgeTempDestinations useLoggingForShutdownErrors useShutdownHook "
            "useVmConnector waitForSlaveTimeout",
        ),
        **_all(_later(LINKS, "write <networkConnectors>, remove it"), "networkConnectorURIs"),
        **_all(_later("lists of URIs", "write <transportConnectors>, remove it"), "transportConnectorURIs"),
        **_all(_later(STANDBY), "masterConnectorURI"),
        **_all(_later("connections inside the process"), "vmConnectorURI"),
    },
    children={
        **_all(
            YES,
            "transportConnectors persistenceAdapter destinations destinationPolicy systemUsage managementContext "
            "plugins sslContext shutdownHooks networkConnectors",
        ),
        "jmsBridgeConnectors": _list_of("bridges to other messaging systems"),
        "destinationInterceptors": YES,
        "jobSchedulerStore": JOB_STORE,
        "tempDataStore": NO_TEMPORARY_STORE,
        "proxyConnectors": _list_of("proxies"),
        "services": _list_of("services of one's own"),
        "ioExceptionHandler": _later("a choice of what a failing disk does"),
        "persistenceFactory": _later("other stores", JOURNAL),
        "masterConnector": _later(STANDBY),
        "messageAuthorizationPolicy": _later(
            "rights by message", "use an authorizationPlugin and remove it", guards=True
        ),
        **_all(
            _later("memory limits by another name", "write <systemUsage>, remove it"),
            "memoryManager usageManager consumerSystemUsage producerSystemUsage",
        ),
        **_all(BUILT_IN, "destinationFactory taskRunnerFactory brokerContext"),
        "adminView": NO_JMX,
        "producerCompositeQueue": _later(VIRTUAL),
    },
)

TRANSPORT_CONNECTOR: Final = Words(
    settings={
        **_all(
            YES,
            "name uri autoStart auditNetworkProducers allowLinkStealing maximumConsumersAllowedPerConnection "
            "maximumProducersAllowedPerConnection discoveryUri",
        ),
        **_all(_only("false", "dispatch by the sender's thread"), "disableAsyncDispatch"),
        "displayStackTrace": Rule(NO_EFFECT, ("false",), "errors are one line and go to the log"),
        **_all(_only("false", "monitoring of connectors"), "enableStatusMonitor"),
        **_all(YES, "rebalanceClusterClients updateClusterClients updateClusterClientsOnRemove updateClusterFilter"),
        **_all(JAVA, "warnOnRemoteClose id"),
        **_all(_later(DISCOVERY, "write discoveryUri, remove it"), "discoveryAgent"),
        **_all(_later("lists of brokers for clients"), "connectURI publishedAddressPolicy"),
        **_all(_later(ENTRY_TABLES), "brokerInfo server"),
    },
    children={
        "discoveryAgent": _later(DISCOVERY, "write discoveryUri, remove it"),
        "publishedAddressPolicy": _later("lists of brokers for clients"),
        "messageAuthorizationPolicy": _later(
            "rights by message", "use an authorizationPlugin and remove it", guards=True
        ),
        **_all(_later(ENTRY_TABLES), "brokerInfo server"),
    },
)

POLICY_ENTRY: Final = Words(
    settings={
        **_all(
            YES,
            "queue topic tempQueue tempTopic memoryLimit queuePrefetch topicPrefetch queueBrowserPrefetch "
            "expireMessagesPeriod producerFlowControl sendFailIfNoSpace sendFailIfNoSpaceAfterTimeout "
            "blockedProducerWarningInterval cursorMemoryHighWaterMark storeUsageHighWaterMark maxDestinations "
            "prioritizedMessages useConsumerPriority strictOrderDispatch allConsumersExclusiveByDefault "
            "timeBeforeDispatchStarts consumersBeforeDispatchStarts lazyDispatch messageGroupMapFactoryType "
            "gcInactiveDestinations gcWithNetworkConsumers inactiveTimeoutBeforeGC inactiveTimoutBeforeGC "
            "durableTopicPrefetch alwaysRetroactive usePrefetchExtension",
        ),
        **_all(
            YES,
            "advisoryForConsumed advisoryForDelivery advisoryForDiscardingMessages advisoryForDispatched "
            "advisoryForFastProducers advisoryForSlowConsumers advisoryWhenFull includeBodyForAdvisory "
            "sendAdvisoryIfNoConsumers",
        ),
        **_all(_only("false", "more statistics"), "advancedMessageStatisticsEnabled advancedNetworkStatisticsEnabled"),
        **_all(
            _only("false", "temporary destinations shared between connections", guards=True),
            "allowTempDestinationStealing",
        ),
        "persistJMSRedelivered": Rule(NO_EFFECT, ("true", "false"), "the journal always tells what was delivered"),
        **_all(_only("false", "dead letters of duplicates"), "sendDuplicateFromStoreToDLQ"),
        "enableAudit": Rule(NO_EFFECT, ("true", "false"), "the store knows what was sent twice"),
        **_all(
            Rule(NO_EFFECT, note="failoverProducersAuditDepth and maxFailoverProducersToTrack of the store hold"),
            "maxAuditDepth maxProducersToAudit maxQueueAuditDepth",
        ),
        **_all(
            Rule(NO_EFFECT, note="pages are as large as memory has room for, and everybody sees the whole queue"),
            "maxPageSize maxBrowsePageSize maxExpirePageSize",
        ),
        **_all(
            JAVA,
            "doOptimzeMessageStorage minimumMessageSize optimizeMessageStoreInFlightLimit optimizedDispatch "
            "reduceMemoryFootprint useCache useTopicSubscriptionInflightStats id",
        ),
    },
    children={
        **_all(
            YES,
            "deadLetterStrategy pendingMessageLimitStrategy dispatchPolicy subscriptionRecoveryPolicy "
            "messageEvictionStrategy slowConsumerStrategy",
        ),
        **_all(CURSOR, "pendingQueuePolicy pendingSubscriberPolicy pendingDurableSubscriberPolicy"),
        "networkBridgeFilterFactory": YES,
        "messageGroupMapFactory": _later("message groups by a Java class"),
        "messageInterceptorStrategy": _later("changes of messages on their way"),
        "destination": _later("policies by another name", "write queue= or topic= of <policyEntry>, remove it"),
    },
)
BRIDGE_FILTERS: Final = Words(
    settings={},
    children={
        "conditionalNetworkBridgeFilterFactory": YES,
        "bean": _later("bridge filters by a Java class"),
    },
)
CONDITIONAL_BRIDGE_FILTER: Final = Words(
    settings={
        **_all(YES, "replayWhenNoConsumers replayDelay rateLimit rateDuration selectorAware"),
        "id": JAVA,
    },
    children={},
)
PENDING_LIMIT: Final = Words(
    settings={},
    children={
        **_all(YES, "constantPendingMessageLimitStrategy prefetchRatePendingMessageLimitStrategy"),
        "bean": _later(SLOW),
    },
)
CONSTANT_LIMIT: Final = Words(
    settings={"limit": YES, "id": JAVA},
    children={},
)
PREFETCH_RATE: Final = Words(settings={"multiplier": YES, "id": JAVA}, children={})
EVICTION: Final = Words(
    settings={},
    children={
        **_all(
            YES,
            "oldestMessageEvictionStrategy oldestMessageWithLowestPriorityEvictionStrategy "
            "uniquePropertyMessageEvictionStrategy",
        ),
        "bean": _later(SLOW),
    },
)
OLDEST: Final = Words(settings={"evictExpiredMessagesHighWatermark": YES, "id": JAVA}, children={})
UNIQUE_PROPERTY: Final = Words(settings={**OLDEST.settings, "propertyName": YES}, children={})
SLOW_CONSUMERS: Final = Words(
    settings={},
    children={**_all(YES, "abortSlowConsumerStrategy abortSlowAckConsumerStrategy"), "bean": _later(SLOW)},
)
ABORT_SLOW: Final = Words(
    settings={
        **_all(YES, "maxSlowCount maxSlowDuration checkPeriod abortConnection ignoreNetworkConsumers"),
        **_all(JAVA, "name id"),
    },
    children={},
)
ABORT_SLOW_ACK: Final = Words(
    settings={**ABORT_SLOW.settings, **_all(YES, "maxTimeSinceLastAck ignoreIdleConsumers")}, children={}
)
# A broker with one thread dispatches each topic in one order to all its consumers: all that the first three ask for.
DISPATCH: Final = Words(
    settings={},
    children={
        **_all(
            YES,
            "strictOrderDispatchPolicy roundRobinDispatchPolicy simpleDispatchPolicy priorityDispatchPolicy "
            "priorityNetworkDispatchPolicy clientIdFilterDispatchPolicy",
        ),
        "bean": _later("a choice of the order of dispatch by a Java class"),
    },
)
CLIENT_ID_FILTER: Final = Words(settings={**_all(YES, "ptpClientId ptpSuffix"), "id": JAVA}, children={})
RECOVERY: Final = Words(
    settings={},
    children={
        **_all(
            YES,
            "noSubscriptionRecoveryPolicy fixedCountSubscriptionRecoveryPolicy fixedSizedSubscriptionRecoveryPolicy "
            "lastImageSubscriptionRecoveryPolicy timedSubscriptionRecoveryPolicy "
            "retainedMessageSubscriptionRecoveryPolicy",
        ),
        "queryBasedSubscriptionRecoveryPolicy": _later(
            "messages that a query finds for consumers to come",
            "a query is a Java class, none runs here: write <fixedCountSubscriptionRecoveryPolicy>, which keeps some",
        ),
        "bean": _later("messages for consumers to come by a Java class"),
    },
)
FIXED_COUNT: Final = Words(settings={"maximumSize": YES, "id": JAVA}, children={})
FIXED_SIZE: Final = Words(settings={"maximumSize": YES, **_all(JAVA, "useSharedBuffer buffer id")}, children={})
TIMED: Final = Words(settings={"recoverDuration": YES, "id": JAVA}, children={})
WITHOUT_SETTINGS: Final = Words(settings={"id": JAVA}, children={})
RETAINED: Final = Words(settings={"id": JAVA}, children={"wrapped": YES})

LETTER_AUDIT: Final = Rule(NO_EFFECT, ("false",), "each message that dies leaves a dead letter of its own")
SHARED_DEAD_LETTERS: Final = Words(
    settings={
        **_all(YES, "deadLetterQueue processExpired processNonPersistent expiration"),
        **_all(LETTER_AUDIT, "enableAudit maxAuditDepth maxProducersToAudit"),
        "id": JAVA,
    },
    children=_all(YES, "deadLetterQueue"),
)
INDIVIDUAL_DEAD_LETTERS: Final = Words(
    settings={
        **_all(
            YES,
            "queuePrefix topicPrefix queueSuffix topicSuffix processExpired processNonPersistent expiration "
            "useQueueForQueueMessages useQueueForTopicMessages destinationPerDurableSubscriber",
        ),
        **_all(LETTER_AUDIT, "enableAudit maxAuditDepth maxProducersToAudit"),
        "id": JAVA,
    },
    children={},
)
DISCARDING_LETTERS: Final = Words(
    settings=_all(
        Rule(NO_EFFECT, note="all dead letters are dropped"),
        "deadLetterQueue expiration processExpired processNonPersistent enableAudit maxAuditDepth maxProducersToAudit "
        "id",
    ),
    children={},
)
DEAD_LETTER_STRATEGY: Final = Words(
    settings={},
    children={
        **_all(YES, "sharedDeadLetterStrategy individualDeadLetterStrategy discarding"),
        **_all(_later("strategies of one's own; Spanwire runs no Java classes", "write <discarding/>"), "bean"),
    },
)

SYSTEM_USAGE: Final = Words(
    settings={
        **_all(YES, "sendFailIfNoSpace sendFailIfNoSpaceAfterTimeout"),
        **_all(JAVA, "id name checkLimitsLogLevel sendFailIfNoSpaceExplicitySet"),
    },
    children={
        **_all(YES, "memoryUsage storeUsage tempUsage systemUsage"),
        "jobSchedulerUsage": JOB_STORE,
    },
)
MEMORY_USAGE: Final = Words(
    settings={
        **_all(YES, "limit percentOfJvmHeap"),
        **_all(JAVA, "name percentUsageMinDelta pollingTime id portion usagePortion"),
    },
    children=_all(YES, "memoryUsage"),
)
DISK_USAGE: Final = {
    **_all(YES, "limit percentLimit total"),
    **_all(JAVA, "name percentUsageMinDelta pollingTime id usagePortion"),
}
STORE_USAGE: Final = Words(settings=DISK_USAGE, children=_all(YES, "storeUsage"))
TEMP_USAGE: Final = Words(settings=DISK_USAGE, children=_all(YES, "tempUsage"))
MANAGEMENT: Final = Words(
    settings=_all(
        NO_JMX,
        "createConnector connectorHost connectorPath connectorPort createMBeanServer findTigerMbeanServer "
        "jmxDomainName rmiServerPort useMBeanServer allowRemoteAddressInMBeanNames suppressMBean id",
    ),
    children=_all(NO_JMX, "property environment MBeanServer"),
)
SHUTDOWN_HOOKS: Final = Words(settings={}, children=_all(YES, "bean"))
SSL_CONTEXT: Final = Words(
    settings={
        **_all(YES, "keyStore keyStorePassword keyStoreKey keyStoreKeyPassword trustStore trustStorePassword"),
        **_all(_only("tls tlsv1.2 tlsv1.3", "other TLS versions"), "protocol"),
        **_all(_only("jks pkcs12 pem", "other kinds of stores"), "keyStoreType trustStoreType"),  # the content tells
        **_all(JAVA, "id keyStoreAlgorithm trustStoreAlgorithm secureRandomAlgorithm provider"),
        **_all(_later("revoked certificates"), "crlPath"),
        **_all(_later("key managers", "write keyStore and trustStore"), "keyManagers trustManagers secureRandom"),
    },
    children={
        "sslContext": YES,
        **_all(_later("key managers", "write keyStore and trustStore"), "keyManagers trustManagers"),
    },
    guards=True,
)
DESTINATION: Final = Words(settings=_all(YES, "physicalName"), children={})
DESTINATIONS: Final = Words(settings={}, children={**_all(YES, "queue topic"), **_all(OWNED, "tempQueue tempTopic")})
CONNECTORS: Final = Words(settings={}, children=_all(YES, "transportConnector"))
POLICY: Final = Words(settings={}, children=_all(YES, "policyMap policyEntries"))
POLICY_MAP: Final = Words(settings={}, children=_all(YES, "policyEntries defaultEntry"))
DEFAULT_POLICY: Final = Words(settings={}, children=_all(YES, "policyEntry"))
POLICY_ENTRIES: Final = Words(settings={}, children=_all(YES, "policyEntry"))

PLUGINS: Final = Words(
    settings={},
    children={
        **_all(
            YES,
            "simpleAuthenticationPlugin jaasAuthenticationPlugin jaasCertificateAuthenticationPlugin "
            "jaasDualAuthenticationPlugin authorizationPlugin discardingDLQBrokerPlugin "
            "forcePersistencyModeBrokerPlugin loggingBrokerPlugin redeliveryPlugin runtimeConfigurationPlugin "
            "statisticsBrokerPlugin timeStampingBrokerPlugin",
        ),
        "shiroPlugin": _later("Shiro", "use jaasAuthenticationPlugin and authorizationPlugin", guards=True),
        "bean": _later("plugins of one's own; Spanwire runs no Java classes", guards=True),
        **_all(_later("drawings of the broker"), "connectionDotFilePlugin destinationDotFilePlugin"),
        "destinationPathSeparatorPlugin": YES,
        "destinationsPlugin": _later("a file of destinations", "write <destinations>, remove it"),
        **_all(_later("traces"), "multicastTraceBrokerPlugin traceBrokerPathPlugin udpTraceBrokerPlugin"),
        "virtualSelectorCacheBrokerPlugin": _later(VIRTUAL),
    },
)
SIMPLE_AUTHENTICATION: Final = Words(
    settings={**_all(YES, "anonymousAccessAllowed anonymousUser anonymousGroup"), "id": JAVA},
    children={"users": YES, **_all(_later("tables of users", "write <users>"), "userGroups userPasswords")},
    guards=True,
)
USERS: Final = Words(settings={}, children=_all(YES, "authenticationUser"), guards=True)
USER: Final = Words(settings={**_all(YES, "username password groups"), "id": JAVA}, children={}, guards=True)
JAAS_AUTHENTICATION: Final = Words(
    settings={
        "configuration": YES,
        "discoverLoginConfig": _only("true", "a login.config that is given", "use -D java.security.auth.login.config"),
        "id": JAVA,
    },
    children={},
    guards=True,
)
DUAL_AUTHENTICATION: Final = Words(
    settings={**JAAS_AUTHENTICATION.settings, "sslConfiguration": YES}, children={}, guards=True
)
AUTHORIZATION: Final = Words(settings={"id": JAVA}, children=_all(YES, "map"), guards=True)
AUTHORIZATION_HOLDER: Final = Words(
    settings={},
    children={
        "authorizationMap": YES,
        **_all(_later("LDAP", "use an authorizationMap"), "cachedLDAPAuthorizationMap lDAPAuthorizationMap"),
        "bean": _later("maps of one's own; Spanwire runs no Java classes", "use an authorizationMap"),
    },
    guards=True,
)
GROUP_CLASS: Final = _only("org.apache.activemq.jaas.groupprincipal", "other classes of groups")
AUTHORIZATION_MAP: Final = Words(
    settings={"id": JAVA, "groupClass": GROUP_CLASS},
    children=_all(YES, "authorizationEntries tempDestinationAuthorizationEntry defaultEntry"),
    guards=True,
)
AUTHORIZATION_ENTRIES: Final = Words(settings={}, children=_all(YES, "authorizationEntry"), guards=True)
AUTHORIZATION_ENTRY: Final = Words(
    settings={
        **_all(YES, "queue topic read write admin"),
        **_all(
            _only("false", "rights on single temporary destinations", "use tempDestinationAuthorizationEntry"),
            "tempQueue tempTopic",
        ),
        "groupClass": GROUP_CLASS,
        "id": JAVA,
    },
    children=_all(_later("rights by another name", "write queue= or topic= of <authorizationEntry>"), "destination"),
    guards=True,
)
TEMPORARY_ENTRY: Final = Words(
    settings={**_all(YES, "read write admin"), **_all(JAVA, "id groupClass")},
    children=_all(YES, "tempDestinationAuthorizationEntry"),
    guards=True,
)
DEFAULT_ENTRY: Final = Words(settings={}, children=_all(YES, "authorizationEntry"), guards=True)
