"""Elements of ActiveMQ's schema beside the broker, from ``activemq.xsd`` of 5.17 and 6.1."""

from __future__ import annotations

from typing import Final

# Elements that serve programs reading the file, not the broker.
PROGRAMS: Final = frozenset(
    "connectionFactory pooledConnectionFactory prefetchPolicy queue redeliveryPolicy redeliveryPolicyMap tempQueue "
    "tempTopic topic xaConnectionFactory".split()
)
# Elements for objects that others refer to by id.
OBJECTS: Final = frozenset(
    (
        "abortSlowAckConsumerStrategy abortSlowConsumerStrategy authenticationUser authorizationEntry "
        "authorizationMap authorizationPlugin axionJDBCAdapter blobJDBCAdapter bytesJDBCAdapter "
        "cachedLDAPAuthorizationMap cachedMessageGroupMapFactory clientIdFilterDispatchPolicy "
        "compositeDemandForwardingBridge compositeQueue compositeTopic conditionalNetworkBridgeFilterFactory "
        "connectionDotFilePlugin constantPendingMessageLimitStrategy database-locker db2JDBCAdapter "
        "defaultIOExceptionHandler defaultJDBCAdapter defaultNetworkBridgeFilterFactory defaultUsageCapacity "
        "demandForwardingBridge destinationDotFilePlugin destinationEntry destinationPathSeparatorPlugin "
        "destinationsPlugin discarding discardingDLQBrokerPlugin fileCursor fileDurableSubscriberCursor "
        "fileQueueCursor filteredDestination filteredKahaDB fixedCountSubscriptionRecoveryPolicy "
        "fixedSizedSubscriptionRecoveryPolicy forcePersistencyModeBroker forcePersistencyModeBrokerPlugin "
        "forwardingBridge hsqldb-jdbc-adapter imageBasedJDBCAdaptor inboundQueueBridge inboundTopicBridge "
        "individualDeadLetterStrategy informixJDBCAdapter jDBCIOExceptionHandler jaasAuthenticationPlugin "
        "jaasCertificateAuthenticationPlugin jaasDualAuthenticationPlugin jdbcPersistenceAdapter jmsQueueConnector "
        "jmsTopicConnector jobSchedulerUsage journalPersistenceAdapter journalPersistenceAdapterFactory journaledJDBC "
        "kahaDB lDAPAuthorizationMap lastImageSubscriptionRecoveryPolicy ldapNetworkConnector lease-database-locker "
        "leaseLockerIOExceptionHandler loggingBrokerPlugin mKahaDB managementContext maxdb-jdbc-adapter "
        "memoryPersistenceAdapter memoryUsage messageGroupHashBucketFactory mirroredQueue multicastNetworkConnector "
        "multicastTraceBrokerPlugin mysql-jdbc-adapter networkConnector noSubscriptionRecoveryPolicy "
        "oldestMessageEvictionStrategy oldestMessageWithLowestPriorityEvictionStrategy oracleBlobJDBCAdapter "
        "oracleJDBCAdapter outboundQueueBridge outboundTopicBridge pListStoreImpl partitionBrokerPlugin policyEntry "
        "policyMap postgresql-jdbc-adapter prefetchRatePendingMessageLimitStrategy priorityDispatchPolicy "
        "priorityNetworkDispatchPolicy proxyConnector publishedAddressPolicy queryBasedSubscriptionRecoveryPolicy "
        "queueDispatchSelector reconnectionPolicy redeliveryPlugin retainedMessageSubscriptionRecoveryPolicy "
        "roundRobinDispatchPolicy runtimeConfigurationPlugin shared-file-locker sharedDeadLetterStrategy "
        "simpleAuthenticationPlugin simpleAuthorizationMap simpleDispatchPolicy simpleDispatchSelector "
        "simpleJmsMessageConvertor simpleMessageGroupMapFactory sqlServerJDBCAdapter sslContext statements "
        "statisticsBrokerPlugin storeCursor storeDurableSubscriberCursor storeUsage streamJDBCAdapter "
        "strictOrderDispatchPolicy sybase-jdbc-adapter systemUsage taskRunnerFactory "
        "tempDestinationAuthorizationEntry tempUsage timeStampingBrokerPlugin timedSubscriptionRecoveryPolicy "
        "traceBrokerPathPlugin transact-database-locker transact-jdbc-adapter transportConnector udpTraceBrokerPlugin "
        "uniquePropertyMessageEvictionStrategy usageCapacity virtualDestinationInterceptor "
        "virtualSelectorCacheBrokerPlugin virtualTopic vmCursor vmDurableCursor vmQueueCursor"
    ).split()
)
