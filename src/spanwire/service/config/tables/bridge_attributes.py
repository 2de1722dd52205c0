"""Words of ``jmsBridgeConnectors``, the native JMS bridges of ActiveMQ.

A bean that a connector refers to (``#id``) has become the inner element of the same name before; see
`spanwire.service.config.readers.bridge_beans`.
"""

from __future__ import annotations

from typing import Final

from spanwire.service.config.tables.handling import NO_EFFECT, WIRED, YES, Rule, Words, all_of, later

FACTORY_ADVICE: Final = "write a bean of org.apache.activemq.ActiveMQConnectionFactory and refer to it, remove it"
NO_CONNECTION: Final = later("connections that no bean of a factory makes", FACTORY_ADVICE)
FACTORY_SETTINGS: Final = "brokerURL userName password trustStore trustStorePassword keyStore keyStorePassword"
OF_THE_BRIDGE: Final = Rule(NO_EFFECT, note="the bridge decides how it receives and sends")
FACTORY: Final = Words(
    settings={
        **all_of(YES, FACTORY_SETTINGS),
        "id": YES,  # Spring's name of the bean
        "clientID": Rule(NO_EFFECT, note="localClientId and outboundClientId of the connector apply"),
        **all_of(
            OF_THE_BRIDGE,
            "alwaysSessionAsync alwaysSyncSend auditDepth auditMaximumProducerNumber blobTransferPolicy "
            "checkForDuplicates clientIDPrefix clientIdGenerator closeTimeout connectResponseTimeout "
            "connectionIDPrefix consumerExpiryCheckEnabled consumerFailoverRedeliveryWaitPeriod copyMessageOnSend "
            "beanName clientInternalExceptionListener connectionIdGenerator exceptionListener properties "
            "rejectedTaskHandler transformer transportListener disableTimeStampsByDefault dispatchAsync "
            "exclusiveConsumer maxThreadPoolSize "
            "messagePrioritySupported nestedMapAndListEnabled nonBlockingRedelivery "
            "objectMessageSerializationDefered optimizeAcknowledge optimizeAcknowledgeTimeOut "
            "optimizedAckScheduledAckInterval optimizedMessageDispatch prefetchPolicy producerWindowSize "
            "redeliveryPolicy rmIdFromConnectionId sendAcksAsync sendTimeout sessionTaskRunner statsEnabled "
            "transactedIndividualAck trustAllPackages trustedPackages useAsyncSend useBeanNameAsClientIdPrefix "
            "useCompression useDedicatedTaskRunner useRetroactiveConsumer warnAboutUnstartedConnectionTimeout "
            "watchTopicAdvisories xaAckMode keyStoreType trustStoreType",
        ),
    },
    children={
        **all_of(OF_THE_BRIDGE, "prefetchPolicy redeliveryPolicy redeliveryPolicyMap blobTransferPolicy"),
        "java": YES,
    },
)


def _connector(kind: str) -> Words:
    """Return the words of ``jmsQueueConnector`` or ``jmsTopicConnector``; ``kind`` is Queue or Topic."""
    return Words(
        settings={
            **all_of(YES, "id name"),
            **all_of(YES, "localClientId localUsername localPassword outboundClientId outboundUsername"),
            **all_of(YES, "outboundPassword inboundMessageConvertor outboundMessageConvertor"),
            **all_of(YES, f"localConnectionFactoryName outbound{kind}ConnectionFactoryName"),
            "preferJndiDestinationLookup": YES,
            **all_of(
                NO_CONNECTION,
                f"local{kind}Connection outbound{kind}Connection",
            ),
            "replyToDestinationCacheSize": YES,
        },
        children={
            **all_of(YES, f"local{kind}ConnectionFactory outbound{kind}ConnectionFactory"),
            **all_of(YES, f"inbound{kind}Bridges outbound{kind}Bridges"),
            **all_of(YES, "jndiLocalTemplate jndiOutboundTemplate"),
            "reconnectionPolicy": YES,
        },
    )


def _bridge(direction: str, kind: str) -> Words:
    """Return the words of one bridge, such as ``inboundQueueBridge``."""
    names = f"id {direction}{kind}Name local{kind}Name selector doHandleReplyTo"
    objects = later("objects of Java programs", f"write {direction}{kind}Name and local{kind}Name, remove it")
    convertor = later("a convertor of one bridge", f"write {direction}MessageConvertor at the connector, remove it")
    return Words(
        settings={
            **all_of(YES, names if kind == "Queue" else f"{names} consumerName"),
            **all_of(objects, f"consumer consumerConnection consumer{kind} producerConnection producer{kind}"),
            "jmsConnector": WIRED,
            "jmsMessageConvertor": convertor,
        },
        children={},
    )


CONNECTORS: Final = Words({}, all_of(YES, "jmsQueueConnector jmsTopicConnector"))
QUEUE_CONNECTOR: Final = _connector("Queue")
TOPIC_CONNECTOR: Final = _connector("Topic")
INBOUND_QUEUES: Final = Words({}, all_of(YES, "inboundQueueBridge"))
OUTBOUND_QUEUES: Final = Words({}, all_of(YES, "outboundQueueBridge"))
INBOUND_TOPICS: Final = Words({}, all_of(YES, "inboundTopicBridge"))
OUTBOUND_TOPICS: Final = Words({}, all_of(YES, "outboundTopicBridge"))
INBOUND_QUEUE: Final = _bridge("inbound", "Queue")
OUTBOUND_QUEUE: Final = _bridge("outbound", "Queue")
INBOUND_TOPIC: Final = _bridge("inbound", "Topic")
OUTBOUND_TOPIC: Final = _bridge("outbound", "Topic")
TEMPLATE: Final = Words(settings={"file": YES}, children={"prop": YES})
JAVA: Final = Words(settings=all_of(YES, "class jars"), children={"prop": YES})
PROP: Final = Words(settings={"key": YES, "value": YES}, children={})
POLICY: Final = Words(
    settings={
        "id": YES,
        **all_of(
            YES,
            "initialReconnectDelay maximumReconnectDelay maxReconnectAttempts useExponentialBackOff backOffMultiplier",
        ),
        "maxInitialConnectAttempts": Rule(NO_EFFECT, note="maxReconnectAttempts counts the first attempts as well"),
        "maxSendRetries": Rule(NO_EFFECT, note="a failed send is a failed connection, and no message is given up"),
        "sendRetryDelay": Rule(NO_EFFECT, note="a failed send is a failed connection, and no message is given up"),
        "sendRetyDelay": Rule(NO_EFFECT, note="a failed send is a failed connection, and no message is given up"),
    },
    children={},
)
