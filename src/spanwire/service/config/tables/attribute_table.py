"""All words of ``activemq.xml``: supported, supported with one value, or of a later version.

A word in no table is unknown, and the error names the closest known word. No word is ignored silently: a word without
effect causes a warning, unless it asks for the actual behaviour.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spanwire.service.config.tables import (
    broker_attributes,
    persistence_attributes,
    plugin_attributes,
    policy_attributes,
    usage_attributes,
    virtual_attributes,
)
from spanwire.service.config.tables.handling import (
    JAVA,
    NO_EFFECT,
    ONLY,
    WIRED,
    YES,
    Rule,
    Words,
    all_of,
    honoured,
    later,
    list_of,
    only,
)

# What ActiveMQ has without these attributes; to write it asks for nothing.
JAVA_DEFAULTS: Final = {
    "consumerSystemUsagePortion": "40",
    "dedicatedTaskRunner": "false",
    "deferredNetworkConnectors": "false",
    "maxInflatedDataSize": "104857600",
    "mbeanInvocationTimeout": "0",
    "monitorConnectionSplits": "false",
    "passiveSlave": "false",
    "persistenceThreadPriority": "10",
    "producerSystemUsagePortion": "60",
    "restartAllowed": "true",
    "storeOpenWireVersion": "11",
    "supportFailOver": "false",
    "systemExitOnShutdown": "false",
    "systemExitOnShutdownExitCode": "0",
    "taskRunnerPriority": "5",
    "timeBeforePurgeTempDestinations": "5000",
    "useLoggingForShutdownErrors": "false",
    "useShutdownHook": "true",
    "useVmConnector": "true",
}
NO_JMX: Final = Rule(NO_EFFECT, ("false",), "there is no JMX here; use spanwire status and dstat")
WATCHED: Final = Rule(
    NO_EFFECT,
    ("0", "-1", "true"),
    "the next journal file is allocated before it is needed, so that a full disk is always noticed in time",
)
JOB_STORE: Final = Rule(NO_EFFECT, note="scheduled messages are kept in the journal, which storeUsage limits")
NO_TEMPORARY_STORE: Final = Rule(NO_EFFECT, note="messages beyond the memory limit go to the journal")
CURSOR: Final = Rule(NO_EFFECT, note="pending messages beyond the memory limit are always read from the journal")
BUILT_IN: Final = Rule(NO_EFFECT, note="it names a Java class; Spanwire has a built-in replacement")
OWNED: Final = Rule(NO_EFFECT, note="a temporary destination belongs to the connection that makes it")
DURABLE: Final = "durable subscriptions"
AGENTS: Final = "agents of discovery in place of a URI"
SLOW: Final = "limits of slow consumers"
STANDBY: Final = "copies of the store on another broker"
ENTRY_TABLES: Final = "a table of classes in place of elements"
JOURNAL: Final = "the journal of Spanwire keeps the messages; remove it"


BROKER_TABLES: Final = (
    broker_attributes.BROKER,
    broker_attributes.UPKEEP,
    persistence_attributes.STORE,
    persistence_attributes.STANDBY,
    virtual_attributes.SWITCHES,
    virtual_attributes.DEMAND,
    virtual_attributes.TEMPORARY,
    plugin_attributes.USER_NAMES,
)
BROKER: Final = Words(
    settings={
        **all_of(YES, "brokerName name schedulerSupport maxSchedulerRepeatAllowed"),
        **honoured(*BROKER_TABLES),
        "useJmx": Rule(ONLY, ("true", "false")),  # the control socket serves either way
        "brokerObjectName": JAVA,
        **all_of(only("false", "reuse of temporary destinations"), "cacheTempDestinations"),
        **all_of(only("false", "refusal of durable subscriptions", guards=True), "rejectDurableConsumers"),
        "useAuthenticatedPrincipalForJMSXUserID": Rule(
            NO_EFFECT, ("true", "false"), "populateJMSXUserID always sets the client's user"
        ),
        "populateUserNameInMBeans": NO_JMX,
        **all_of(only("false", STANDBY), "slave shutdownOnSlaveFailure shutdownOnMasterFailure"),
        "networkConnectorStartAsync": Rule(
            NO_EFFECT, ("true", "false"), "network connectors start in parallel and delay nothing"
        ),
        **all_of(
            only("false", "memory limits for producers and consumers apart"), "splitSystemUsageForProducersConsumers"
        ),
        **all_of(only("false", "the host's name as the broker's", "write brokerName"), "useLocalHostBrokerName"),
        "rollbackOnlyOnAsyncException": Rule(NO_EFFECT, ("true",), "a transaction with a refused send is rolled back"),
        "keepDurableSubsActive": Rule(NO_EFFECT, ("true", "false"), "durable subscriptions are always kept"),
        "enableStatistics": Rule(NO_EFFECT, ("true",), "statistics are always kept"),
        **all_of(WATCHED, "schedulePeriodForDiskUsageCheck diskUsageCheckRegrowThreshold adjustUsageLimits"),
        "schedulerDirectory": JOB_STORE,
        "schedulerDirectoryFile": JOB_STORE,
        "tmpDataDirectory": NO_TEMPORARY_STORE,
        **{name: replace(JAVA, values=(value,)) for name, value in JAVA_DEFAULTS.items()},
        **all_of(JAVA, "regionBroker restartRequested startException startBrokerWithStateless virtualThreadTaskRunner"),
        **all_of(YES, "networkConnectorURIs transportConnectorURIs vmConnectorURI"),
        **all_of(later(STANDBY), "masterConnectorURI"),
    },
    children={
        **all_of(
            YES,
            "transportConnectors persistenceAdapter destinations destinationPolicy systemUsage managementContext "
            "plugins sslContext shutdownHooks networkConnectors jmsBridgeConnectors web tracing",
        ),
        "destinationInterceptors": YES,
        "jobSchedulerStore": JOB_STORE,
        "tempDataStore": NO_TEMPORARY_STORE,
        "proxyConnectors": list_of("proxies"),
        "services": list_of("custom services"),
        "ioExceptionHandler": later("configurable reactions to disk failures"),
        "persistenceFactory": later("other stores", JOURNAL),
        "masterConnector": later(STANDBY),
        "messageAuthorizationPolicy": later(
            "rights by message", "use an authorizationPlugin and remove it", guards=True
        ),
        **all_of(
            later("memory limits by another name", "write <systemUsage>, remove it"),
            "memoryManager usageManager consumerSystemUsage producerSystemUsage",
        ),
        **all_of(BUILT_IN, "brokerContext destinationFactory persistenceTaskRunnerFactory taskRunnerFactory"),
        "adminView": NO_JMX,
        "producerCompositeQueue": later("copies of a producer's messages", "write <compositeQueue>, remove it"),
    },
    tables=BROKER_TABLES,
)

TRANSPORT_CONNECTOR: Final = Words(
    settings={
        **all_of(
            YES,
            "name uri discoveryUri updateClusterFilter",
        ),
        **honoured(broker_attributes.TRANSPORT_CONNECTOR),
        **all_of(only("false", "dispatch by the sender's thread"), "disableAsyncDispatch"),
        "displayStackTrace": Rule(NO_EFFECT, ("false",), "errors are one line and go to the log"),
        **all_of(only("false", "monitoring of connectors"), "enableStatusMonitor"),
        "warnOnRemoteClose": JAVA,
        "taskRunnerFactory": BUILT_IN,
        **all_of(later(AGENTS, "write discoveryUri, remove it"), "discoveryAgent"),
        "connectURI": later("a published address by another name", "write <publishedAddressPolicy>, remove it"),
        **all_of(later(ENTRY_TABLES), "brokerInfo server"),
    },
    children={
        "discoveryAgent": later(AGENTS, "write discoveryUri, remove it"),
        "publishedAddressPolicy": YES,
        "messageAuthorizationPolicy": later(
            "rights by message", "use an authorizationPlugin and remove it", guards=True
        ),
        **all_of(later(ENTRY_TABLES), "brokerInfo server"),
    },
    tables=(broker_attributes.TRANSPORT_CONNECTOR,),
)

PUBLISHED: Final = Words(
    settings={
        **honoured(broker_attributes.PUBLISHED),
        **all_of(YES, "hostMapping portMapping"),
    },
    children=all_of(YES, "publishedAddressPolicy hostMapping portMapping"),
    tables=(broker_attributes.PUBLISHED,),
)
MAPPING: Final = Words(settings={}, children=all_of(YES, "entry map prop props"))
MAP_ENTRY: Final = Words(settings=all_of(YES, "key value"), children=all_of(YES, "key value"))
POLICY_TABLES: Final = (
    policy_attributes.ENTRY,
    policy_attributes.QUEUE,
    policy_attributes.TOPIC,
    policy_attributes.ADVISORIES,
)
POLICY_ENTRY: Final = Words(
    settings={
        **all_of(YES, "queue topic tempQueue tempTopic"),
        **honoured(*POLICY_TABLES),
        **all_of(only("false", "more statistics"), "advancedNetworkStatisticsEnabled"),
        **all_of(
            only("false", "temporary destinations shared between connections", guards=True),
            "allowTempDestinationStealing",
        ),
        "persistJMSRedelivered": Rule(NO_EFFECT, ("true", "false"), "the journal always records deliveries"),
        **all_of(only("false", "dead letters of duplicates"), "sendDuplicateFromStoreToDLQ"),
        **all_of(
            only("false", "queues whose consumers remove nothing", "browse the queue, or use a topic with lastImage"),
            "nonDestructive",
        ),
        **all_of(
            Rule(NO_EFFECT, note="failoverProducersAuditDepth and maxFailoverProducersToTrack of the store apply"),
            "maxAuditDepth maxProducersToAudit maxQueueAuditDepth",
        ),
        **all_of(
            Rule(NO_EFFECT, note="pages are as large as memory has room for, and everybody sees the whole queue"),
            "maxPageSize maxBrowsePageSize maxExpirePageSize",
        ),
        **all_of(
            JAVA,
            "doOptimzeMessageStorage minimumMessageSize optimizeMessageStoreInFlightLimit optimizedDispatch "
            "reduceMemoryFootprint useCache useTopicSubscriptionInflightStats",
        ),
    },
    children={
        **all_of(
            YES,
            "deadLetterStrategy pendingMessageLimitStrategy dispatchPolicy subscriptionRecoveryPolicy "
            "messageEvictionStrategy slowConsumerStrategy",
        ),
        **all_of(CURSOR, "pendingQueuePolicy pendingSubscriberPolicy pendingDurableSubscriberPolicy"),
        "networkBridgeFilterFactory": YES,
        "messageGroupMapFactory": later("message groups by a Java class"),
        "messageInterceptorStrategy": later("changes of messages on their way"),
        "destination": later("policies by another name", "write queue= or topic= of <policyEntry>, remove it"),
    },
    tables=POLICY_TABLES,
)
BRIDGE_FILTERS: Final = Words(
    settings={},
    children={
        **all_of(YES, "conditionalNetworkBridgeFilterFactory defaultNetworkBridgeFilterFactory"),
        "bean": later("bridge filters by a Java class"),
    },
)
CONDITIONAL_BRIDGE_FILTER: Final = Words(
    settings={**honoured(policy_attributes.BRIDGES)},
    children={},
    tables=(policy_attributes.BRIDGES,),
)
PENDING_LIMIT: Final = Words(
    settings={},
    children={
        **all_of(YES, "constantPendingMessageLimitStrategy prefetchRatePendingMessageLimitStrategy"),
        "bean": later(SLOW),
    },
)
CONSTANT_LIMIT: Final = Words(
    settings={**honoured(policy_attributes.PENDING_LIMIT)},
    children={},
    tables=(policy_attributes.PENDING_LIMIT,),
)
PREFETCH_RATE: Final = Words(settings={"multiplier": YES}, children={})
EVICTION: Final = Words(
    settings={},
    children={
        **all_of(
            YES,
            "oldestMessageEvictionStrategy oldestMessageWithLowestPriorityEvictionStrategy "
            "uniquePropertyMessageEvictionStrategy",
        ),
        "bean": later(SLOW),
    },
)
OLDEST: Final = Words(
    settings={**honoured(policy_attributes.EVICTION)}, children={}, tables=(policy_attributes.EVICTION,)
)
UNIQUE_PROPERTY: Final = Words(
    settings={**OLDEST.settings, **honoured(policy_attributes.EVICTION_BY_PROPERTY)},
    children={},
    tables=(policy_attributes.EVICTION, policy_attributes.EVICTION_BY_PROPERTY),
)
SLOW_CONSUMERS: Final = Words(
    settings={},
    children={**all_of(YES, "abortSlowConsumerStrategy abortSlowAckConsumerStrategy"), "bean": later(SLOW)},
)
ABORT_SLOW: Final = Words(
    settings={
        **honoured(policy_attributes.SLOW_CONSUMERS),
        **all_of(JAVA, "name"),
    },
    children={},
    tables=(policy_attributes.SLOW_CONSUMERS,),
)
ABORT_SLOW_ACK: Final = Words(
    settings={**ABORT_SLOW.settings, **honoured(policy_attributes.SLOW_ACKS)},
    children={},
    tables=(policy_attributes.SLOW_CONSUMERS, policy_attributes.SLOW_ACKS),
)
# A broker with one thread dispatches each topic in one order to all its consumers: all that the first three ask for.
DISPATCH: Final = Words(
    settings={},
    children={
        **all_of(
            YES,
            "strictOrderDispatchPolicy roundRobinDispatchPolicy simpleDispatchPolicy priorityDispatchPolicy "
            "priorityNetworkDispatchPolicy clientIdFilterDispatchPolicy",
        ),
        "bean": later("a choice of the order of dispatch by a Java class"),
    },
)
CLIENT_ID_FILTER: Final = Words(
    settings={**honoured(policy_attributes.CLIENT_ID_FILTER)},
    children={},
    tables=(policy_attributes.CLIENT_ID_FILTER,),
)
RECOVERY: Final = Words(
    settings={},
    children={
        **all_of(
            YES,
            "noSubscriptionRecoveryPolicy fixedCountSubscriptionRecoveryPolicy fixedSizedSubscriptionRecoveryPolicy "
            "lastImageSubscriptionRecoveryPolicy timedSubscriptionRecoveryPolicy "
            "retainedMessageSubscriptionRecoveryPolicy",
        ),
        "queryBasedSubscriptionRecoveryPolicy": later(
            "messages that a query finds for consumers to come",
            "a query is a Java class, none runs here: write <fixedCountSubscriptionRecoveryPolicy>, which keeps some",
        ),
        "bean": later("messages for consumers to come by a Java class"),
    },
)
FIXED_COUNT: Final = Words(
    settings={**honoured(policy_attributes.RECOVERED_COUNT), "broker": WIRED},
    children={},
    tables=(policy_attributes.RECOVERED_COUNT,),
)
FIXED_SIZE: Final = Words(
    settings={**honoured(policy_attributes.RECOVERED_BYTES), **all_of(JAVA, "useSharedBuffer buffer"), "broker": WIRED},
    children={},
    tables=(policy_attributes.RECOVERED_BYTES,),
)
TIMED: Final = Words(
    settings={**honoured(policy_attributes.RECOVERED_TIME), "broker": WIRED},
    children={},
    tables=(policy_attributes.RECOVERED_TIME,),
)
WITHOUT_SETTINGS: Final = Words(settings={}, children={})
RECOVERY_WITHOUT_SETTINGS: Final = Words(settings={"broker": WIRED}, children={})
RETAINED: Final = Words(settings={"broker": WIRED}, children={"wrapped": YES})

LETTER_AUDIT: Final = Rule(NO_EFFECT, ("false",), "each message that dies leaves a dead letter of its own")
SHARED_DEAD_LETTERS: Final = Words(
    settings={
        "deadLetterQueue": YES,
        **honoured(policy_attributes.DEAD_LETTERS),
        **all_of(LETTER_AUDIT, "enableAudit maxAuditDepth maxProducersToAudit"),
    },
    children=all_of(YES, "deadLetterQueue"),
    tables=(policy_attributes.DEAD_LETTERS,),
)
INDIVIDUAL_DEAD_LETTERS: Final = Words(
    settings={
        **honoured(policy_attributes.DEAD_LETTERS, policy_attributes.INDIVIDUAL_NAMES),
        **all_of(LETTER_AUDIT, "enableAudit maxAuditDepth maxProducersToAudit"),
    },
    children={},
    tables=(policy_attributes.DEAD_LETTERS, policy_attributes.INDIVIDUAL_NAMES),
)
DISCARDING_LETTERS: Final = Words(
    settings=all_of(
        Rule(NO_EFFECT, note="all dead letters are dropped"),
        "deadLetterQueue expiration processExpired processNonPersistent enableAudit maxAuditDepth maxProducersToAudit",
    ),
    children={},
)
DEAD_LETTER_STRATEGY: Final = Words(
    settings={},
    children={
        **all_of(YES, "sharedDeadLetterStrategy individualDeadLetterStrategy discarding"),
        **all_of(later("custom strategies; Spanwire runs no Java classes", "write <discarding/>"), "bean"),
    },
)

SYSTEM_USAGE: Final = Words(
    settings={
        **honoured(usage_attributes.USAGE),
        **all_of(JAVA, "name checkLimitsLogLevel sendFailIfNoSpaceExplicitySet"),
        **all_of(WIRED, "adapter executor jobSchedulerStore parent tempStore"),
    },
    children={
        **all_of(YES, "memoryUsage storeUsage tempUsage systemUsage"),
        "jobSchedulerUsage": JOB_STORE,
    },
    tables=(usage_attributes.USAGE,),
)
USED: Final = Rule(NO_EFFECT, note="what is used is counted from zero")
CAPACITY: Final = later("limits by another name", "write limit, remove it")
MEMORY_TABLES: Final = (usage_attributes.MEMORY, usage_attributes.HEAP)
MEMORY_USAGE: Final = Words(
    settings={
        **honoured(*MEMORY_TABLES),
        **all_of(JAVA, "name percentUsageMinDelta pollingTime portion usagePortion"),
        **all_of(WIRED, "executor parent"),
        **all_of(USED, "percentUsage usage"),
    },
    children={"memoryUsage": YES, "limiter": CAPACITY},
    tables=MEMORY_TABLES,
)
DISK_TABLES: Final = (usage_attributes.DISK, usage_attributes.DISK_TOTAL)
DISK_USAGE: Final = {
    **honoured(*DISK_TABLES),
    **all_of(JAVA, "name percentUsageMinDelta pollingTime usagePortion"),
    **all_of(WIRED, "executor parent store"),
    "percentUsage": USED,
}
STORE_USAGE: Final = Words(DISK_USAGE, {"storeUsage": YES, "limiter": CAPACITY}, tables=DISK_TABLES)
TEMP_USAGE: Final = Words(DISK_USAGE, {"tempUsage": YES, "limiter": CAPACITY}, tables=DISK_TABLES)
MANAGEMENT: Final = Words(
    settings=all_of(
        NO_JMX,
        "brokerName createConnector connectorHost connectorPath connectorPort createMBeanServer findTigerMbeanServer "
        "jmxDomainName rmiServerPort useMBeanServer allowRemoteAddressInMBeanNames suppressMBean",
    ),
    children=all_of(NO_JMX, "property environment MBeanServer server"),
)
WEB: Final = Words(
    settings={**honoured(broker_attributes.WEB, broker_attributes.WEB_TLS), "realm": YES, "mounts": YES},
    children={},
    tables=(broker_attributes.WEB, broker_attributes.WEB_TLS),
)
TRACING: Final = Words(settings=honoured(broker_attributes.TRACING), children={}, tables=(broker_attributes.TRACING,))
SHUTDOWN_HOOKS: Final = Words(settings={}, children=all_of(YES, "bean"))
SSL_CONTEXT: Final = Words(
    settings={
        **all_of(YES, "keyStore keyStorePassword keyStoreKey keyStoreKeyPassword trustStore trustStorePassword"),
        **all_of(only("tls tlsv1.2 tlsv1.3", "other TLS versions"), "protocol"),
        **all_of(only("jks pkcs12 pem", "other kinds of stores"), "keyStoreType trustStoreType"),  # the content tells
        **all_of(JAVA, "keyStoreAlgorithm trustStoreAlgorithm secureRandomAlgorithm provider"),
        **all_of(later("revoked certificates"), "crlPath"),
        **all_of(
            later("key managers", "write keyStore and trustStore"), "SSLContext keyManagers trustManagers secureRandom"
        ),
    },
    children={
        "sslContext": YES,
        **all_of(later("key managers", "write keyStore and trustStore"), "keyManagers trustManagers"),
    },
    guards=True,
)
NAMED_SETTINGS: Final = {
    **all_of(YES, "physicalName name"),
    "DLQ": Rule(NO_EFFECT, note="the strategy of dead letters tells which queues have them"),
    "properties": Rule(NO_EFFECT, note="options of a destination are for clients"),
    "compositeDestinations": later("several destinations in one", "write an element for each, remove it"),
}
DESTINATION: Final = Words(settings=NAMED_SETTINGS, children={})
DESTINATIONS: Final = Words(
    settings={}, children={**all_of(YES, "queue topic"), **all_of(OWNED, "tempQueue tempTopic")}
)
DEAD_LETTER_QUEUE: Final = Words(
    settings={},
    children={
        "queue": YES,
        **all_of(later("dead letters outside of queues", "write a <queue>"), "tempQueue tempTopic topic"),
    },
)
CONNECTORS: Final = Words(settings={}, children=all_of(YES, "transportConnector"))
POLICY: Final = Words(settings={}, children=all_of(YES, "policyMap policyEntries"))
POLICY_MAP: Final = Words(
    settings={},
    children={
        **all_of(YES, "policyEntries defaultEntry"),
        "entries": later("policies by another name", "write <policyEntries>, remove it"),
    },
)
DEFAULT_POLICY: Final = Words(settings={}, children=all_of(YES, "policyEntry"))
POLICY_ENTRIES: Final = Words(settings={}, children=all_of(YES, "policyEntry"))

PLUGINS: Final = Words(
    settings={},
    children={
        **all_of(
            YES,
            "simpleAuthenticationPlugin jaasAuthenticationPlugin jaasCertificateAuthenticationPlugin "
            "jaasDualAuthenticationPlugin authorizationPlugin discardingDLQBrokerPlugin "
            "forcePersistencyModeBrokerPlugin loggingBrokerPlugin redeliveryPlugin runtimeConfigurationPlugin "
            "statisticsBrokerPlugin timeStampingBrokerPlugin",
        ),
        "shiroPlugin": later("Shiro", "use jaasAuthenticationPlugin and authorizationPlugin", guards=True),
        "bean": later("custom plug-ins; Spanwire runs no Java classes", guards=True),
        **all_of(later("drawings of the broker"), "connectionDotFilePlugin destinationDotFilePlugin"),
        "camelRoutesBrokerPlugin": later(
            "routes of Camel in the process of the broker",
            "put its routesFile, with activemq: for broker:, into a directory for --deploy, remove it",
        ),
        "destinationPathSeparatorPlugin": YES,
        "destinationsPlugin": later("a file of destinations", "write <destinations>, remove it"),
        **all_of(later("traces"), "multicastTraceBrokerPlugin traceBrokerPathPlugin udpTraceBrokerPlugin"),
        "partitionBrokerPlugin": later("clients that are sent to the broker of their part"),
        "virtualSelectorCacheBrokerPlugin": later("selectors of virtual topics that outlast their consumers"),
    },
)
