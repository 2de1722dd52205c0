"""The native JMS bridges as configurations write them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spanwire.bridges.files.definition_json import definition_of, plain_definition
from spanwire.bridges.model.definition import BridgeDefinition, RetryPolicy
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.model.steps import ClearReplyTo, Convert, ProxyReplyTo
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.service.config.interpretation.jms_bridges import MAX_BRIDGES
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration

REMOTE: Final = '<bean id="far" class="org.apache.activemq.ActiveMQConnectionFactory">{}</bean>'
MQ: Final = "com.ibm.mq.jms.MQQueueConnectionFactory"
URL: Final = '<property name="brokerURL" value="tcp://far:1"/>'
FACTORY: Final = REMOTE.format(URL)
QUEUES: Final = 'jmsQueueConnector outboundQueueConnectionFactory="#far"'
TOPICS: Final = 'jmsTopicConnector outboundTopicConnectionFactory="#far"'


def configuration(connectors: str, beans: str = FACTORY, name: str = "a.xml") -> BrokerConfiguration:
    text = f"""<beans xmlns="http://www.springframework.org/schema/beans" xmlns:p="http://www.springframework.org/schema/p">
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="near">
<jmsBridgeConnectors>{connectors}</jmsBridgeConnectors></broker>{beans}</beans>"""
    return read_configuration(text.encode(), Path(name), {}, {})


def element(head: str, *groups: str) -> str:
    return f"<{head}>{''.join(groups)}</{head.split()[0]}>"


def inbound(attributes: str, kind: str = "Queue") -> str:
    return f"<inbound{kind}Bridges><inbound{kind}Bridge {attributes}/></inbound{kind}Bridges>"


def outbound(attributes: str, kind: str = "Queue") -> str:
    return f"<outbound{kind}Bridges><outbound{kind}Bridge {attributes}/></outbound{kind}Bridges>"


def only(connectors: str, beans: str = FACTORY) -> BridgeDefinition:
    (bridge,) = configuration(connectors, beans).bridges
    return bridge


def ends(bridge: BridgeDefinition) -> list[str]:
    source, target = bridge.source, bridge.target
    return [
        f"{source.factory.url} {source.destination}",
        f"{target.factory.url} {target.destination}",
    ]


def refusal(connectors: str, beans: str = FACTORY) -> str:
    with pytest.raises(ConfigurationError) as raised:
        configuration(connectors, beans)
    return str(raised.value)


def test_four_directions_lead_from_one_broker_to_the_other() -> None:
    queues = element(QUEUES, inbound('inboundQueueName="A"'), outbound('outboundQueueName="X" localQueueName="Y"'))
    topics = element(TOPICS, inbound('inboundTopicName="T"', "Topic"), outbound('outboundTopicName="U"', "Topic"))
    bridges = configuration(queues + topics).bridges
    assert [ends(bridge) for bridge in bridges] == [
        ["tcp://far:1 queue://A", "vm: queue://A"],
        ["vm: queue://Y", "tcp://far:1 queue://X"],
        ["tcp://far:1 topic://T", "vm: topic://T"],
        ["vm: topic://U", "tcp://far:1 topic://U"],
    ]
    assert [bridge.name for bridge in bridges] == [
        "jmsQueueConnector.inbound.A",
        "jmsQueueConnector.outbound.X",
        "jmsTopicConnector.inbound.T",
        "jmsTopicConnector.outbound.U",
    ]
    assert all(bridge.steps == (ProxyReplyTo(),) for bridge in bridges)


def test_names_come_from_ids_and_from_the_connector() -> None:
    bridges = configuration(
        element(
            f'{QUEUES} name="berlin"',
            inbound('inboundQueueName="A" selector="n = 1"'),
            inbound('inboundQueueName="A" selector="n = 2"'),
            inbound('inboundQueueName="B" id="orders"'),
        )
        + element(QUEUES, inbound('inboundQueueName="C"'))
        + element(QUEUES, inbound('inboundQueueName="C"'))
    ).bridges
    assert [bridge.name for bridge in bridges] == [
        "berlin.inbound.A",
        "berlin.inbound.A-2",
        "orders",
        "jmsQueueConnector.inbound.C",
        "jmsQueueConnector-2.inbound.C",
    ]
    assert [bridge.source.selector for bridge in bridges[:3]] == ["n = 1", "n = 2", None]


def test_logins_of_the_connector_come_before_those_of_its_factories() -> None:
    bean = REMOTE.format(URL + '<property name="userName" value="f"/><property name="password" value="fp"/>')
    connector = f'{QUEUES} localUsername="l" localPassword="lp" outboundPassword="op"'
    bridge = only(element(connector, inbound('inboundQueueName="A"')), bean)
    far, near = bridge.source.factory, bridge.target.factory
    assert far.password is not None and near.password is not None
    assert (far.user_name, far.password.reveal(), near.user_name, near.password.reveal()) == ("f", "op", "l", "lp")


def test_a_durable_bridge_has_the_client_id_of_its_connector_and_others_add_their_name() -> None:
    bridges = configuration(
        element(
            f'{TOPICS} outboundClientId="c" localClientId="d"',
            inbound('inboundTopicName="T" consumerName="s"', "Topic"),
            inbound('inboundTopicName="U" id="u"', "Topic"),
            outbound('outboundTopicName="V" consumerName="s"', "Topic"),
        )
    ).bridges
    assert [(bridge.source.client_id, bridge.source.subscription) for bridge in bridges] == [
        ("c", "s"),
        ("c-u", None),
        ("d", "s"),
    ]


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ("", "consumerName of <inboundTopicBridge> needs outboundClientId of the connector"),
        ('outboundClientId="c"', "a second bridge has the consumerName 's' under the client id 'c'; names must differ"),
    ],
)
def test_durable_bridges_that_cannot_work_are_refused(client: str, words: str) -> None:
    bridge = inbound('inboundTopicName="T" consumerName="s"', "Topic")
    assert words in refusal(element(f"{TOPICS} {client}", bridge, bridge.replace('"T"', '"U"')))


def test_durable_bridges_of_a_connector_have_its_client_id_with_names_of_their_own() -> None:
    bridge = inbound('inboundTopicName="T" consumerName="s"', "Topic")
    connector = element(f'{TOPICS} outboundClientId="c"', bridge, bridge.replace('"s"', '"t"'))
    assert [(one.source.client_id, one.source.subscription) for one in configuration(connector).bridges] == [
        ("c", "s"),
        ("c", "t"),
    ]
    java = f'<bean id="far" class="{MQ.replace("Queue", "Topic")}"/>'
    assert "a second bridge with consumerName under the client id 'c' of a provider in Java" in refusal(connector, java)


MADE: Final = '<bean id="made" factory-bean="far" factory-method="{}">{}</bean>'
OPENED: Final = (
    '<bean id="made" class="org.apache.activemq.ActiveMQConnection" factory-method="makeConnection">{}</bean>'
)
LOGIN: Final = '<constructor-arg value="u"/><constructor-arg value="p"/>'


@pytest.mark.parametrize(
    ("bean", "user"),
    [
        (MADE.format("createConnection", ""), "f"),
        (MADE.format("createQueueConnection", LOGIN), "u"),
        (OPENED.format('<constructor-arg value="tcp://far:1"/>'), None),
        (OPENED.format(LOGIN + '<constructor-arg value="tcp://far:1"/>'), "u"),
    ],
)
def test_a_ready_connection_is_that_of_its_factory(bean: str, user: str | None) -> None:
    far = REMOTE.format(URL + '<property name="userName" value="f"/>')
    beans = far + bean if "factory-bean" in bean else bean
    head = 'jmsQueueConnector outboundQueueConnection="#made"'
    factory = only(element(head, inbound('inboundQueueName="A"')), beans).source.factory
    assert (factory.url, factory.user_name) == ("tcp://far:1", user)
    assert user != "u" or (factory.password is not None and factory.password.reveal() == "p")


def test_a_ready_connection_comes_before_a_factory() -> None:
    other = '<bean id="other" class="org.apache.activemq.ActiveMQConnectionFactory"/>'
    head = 'jmsQueueConnector outboundQueueConnection="#made" outboundQueueConnectionFactory="#other"'
    connector = element(head, inbound('inboundQueueName="A"'))
    found = configuration(connector, FACTORY + other + MADE.format("createConnection", ""))
    assert found.bridges[0].source.factory.url == "tcp://far:1"
    assert "outboundQueueConnectionFactory has no effect beside outboundQueueConnection" in found.warnings[0]
    local = '<localQueueConnection><bean factory-bean="far" factory-method="createConnection"/></localQueueConnection>'
    assert only(element(QUEUES, local, inbound('inboundQueueName="A" localQueueName="B"'))).target.factory.url == (
        "tcp://far:1"
    )


def test_a_connector_says_how_many_reply_destinations_are_represented() -> None:
    bridge = only(element(f'{QUEUES} replyToDestinationCacheSize="5"', inbound('inboundQueueName="A"')))
    assert bridge.steps == (ProxyReplyTo(5),)


def test_do_handle_reply_to_false_clears_the_reply_destination() -> None:
    bridge = only(element(QUEUES, inbound('inboundQueueName="A" doHandleReplyTo="false"')))
    assert bridge.steps == (ClearReplyTo(),)


POOL: Final = '<bean id="far" class="org.apache.activemq.pool.PooledConnectionFactory" {}>{}</bean>'
INNER: Final = f'<bean id="inner" class="org.apache.activemq.ActiveMQXAConnectionFactory">{URL}</bean>'


@pytest.mark.parametrize(
    "beans",
    [
        FACTORY,
        REMOTE.format('<property name="brokerURL"><value> tcp://far:1 </value></property>'),
        REMOTE.format('<constructor-arg value="tcp://far:1"/>'),
        '<bean id="far" class="org.apache.activemq.ActiveMQSslConnectionFactory" p:brokerURL="tcp://far:1"/>',
        '<bean id="far" class="org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory">'
        '<constructor-arg value="tcp://far:1"/></bean>',
        POOL.format("", '<property name="connectionFactory" ref="inner"/>') + INNER,
        POOL.format("", f'<property name="connectionFactory">{INNER}</property>'),
        POOL.format("", '<property name="connectionFactory"><ref bean="inner"/></property>') + INNER,
        POOL.format("", URL),
        '<connectionFactory xmlns="http://activemq.apache.org/schema/core" id="far" brokerURL="tcp://far:1"/>',
        '<pooledConnectionFactory xmlns="http://activemq.apache.org/schema/core" id="far" connectionFactory="#inner"/>'
        + INNER,
    ],
)
def test_factories_and_pools_lead_to_the_url(beans: str) -> None:
    assert only(element(QUEUES, inbound('inboundQueueName="A"')), beans).source.factory.url == "tcp://far:1"


def test_a_factory_inside_of_its_connector_is_read() -> None:
    inner = f"<outboundQueueConnectionFactory>{INNER}</outboundQueueConnectionFactory>"
    bridge = only(element("jmsQueueConnector", inner, inbound('inboundQueueName="A"')), "")
    assert bridge.source.factory.url == "tcp://far:1"


def test_a_factory_of_this_broker_or_another_serves_as_the_local_side() -> None:
    own = '<bean id="own" class="org.apache.activemq.ActiveMQConnectionFactory">{}</bean>'
    head = f'{QUEUES} localQueueConnectionFactory="#own"'
    for url, expected in (("vm://near?create=false", "vm:"), ("tcp://third:3", "tcp://third:3")):
        bean = own.format(f'<property name="brokerURL" value="{url}"/>')
        assert only(element(head, inbound('inboundQueueName="A"')), FACTORY + bean).target.factory.url == expected


def test_a_policy_decides_about_pauses_and_attempts() -> None:
    policy = """<bean id="policy" class="org.apache.activemq.network.jms.ReconnectionPolicy">
    <property name="maxReconnectAttempts" value="5"/><property name="initialReconnectDelay" value="200"/>
    <property name="maximumReconnectDelay" value="900"/><property name="useExponentialBackOff" value="true"/>
    <property name="backOffMultiplier" value="3"/></bean>"""
    bridge = only(element(f'{QUEUES} reconnectionPolicy="#policy"', inbound('inboundQueueName="A"')), FACTORY + policy)
    assert bridge.retry == RetryPolicy(5, 200, 3.0, 900)
    inner = '<reconnectionPolicy><reconnectionPolicy maxReconnectAttempts="5"/></reconnectionPolicy>'
    assert only(element(QUEUES, inner, inbound('inboundQueueName="A"'))).retry == RetryPolicy(5, 1000, 1.0, 30_000)


def test_a_bridge_from_a_queue_to_itself_does_not_start() -> None:
    bean = REMOTE.format('<property name="brokerURL" value="vm://near"/>')
    found = configuration(element(QUEUES, inbound('inboundQueueName="A"')), bean)
    assert found.bridges == ()
    assert "because queue://A would go round to itself" in found.warnings[0]


def test_a_configuration_of_too_many_bridges_is_refused() -> None:
    bridges = "".join(f'<inboundQueueBridge inboundQueueName="Q{number}"/>' for number in range(MAX_BRIDGES + 1))
    found = refusal(element(QUEUES, f"<inboundQueueBridges>{bridges}</inboundQueueBridges>"))
    assert "<jmsBridgeConnectors> has more than 1000 bridges" in found


def test_a_connector_without_bridges_does_nothing() -> None:
    found = configuration(element(QUEUES))
    assert (found.bridges, len(found.warnings)) == ((), 1)


@pytest.mark.parametrize(
    ("connector", "beans", "words"),
    [
        (element(QUEUES), "", "unknown bean of outboundQueueConnectionFactory in <jmsQueueConnector>: 'far'"),
        (
            element("jmsQueueConnector", inbound('inboundQueueName="A"')),
            "",
            "has no outboundQueueConnectionFactory; name the other broker",
        ),
        (element(QUEUES, inbound('inboundQueueName="A"')), REMOTE.format(""), "has no brokerURL"),
        (
            element(QUEUES, inbound('inboundQueueName="A"')),
            REMOTE.format('<property name="brokerURL" value="vm://other"/>'),
            "vm://near for this broker",
        ),
        (
            element(QUEUES),
            '<bean id="far" class="com.acme.Broker"/>',
            "outboundQueueConnectionFactory by a bean of class com.acme.Broker is not supported",
        ),
        (
            element(
                'jmsQueueConnector jndiOutboundTemplate="#jndi" outboundQueueConnectionFactoryName="cn=Q"',
                inbound('inboundQueueName="A"'),
            ),
            '<bean id="jndi" class="org.springframework.jndi.JndiTemplate"/>',
            "the JNDI environment has no java.naming.factory.initial; known are org.apache.activemq.jndi",
        ),
        (
            element('jmsQueueConnector outboundQueueConnection="#made"', inbound('inboundQueueName="A"')),
            FACTORY,
            "unknown bean of outboundQueueConnection in <jmsQueueConnector>: 'made'",
        ),
        (
            element('jmsQueueConnector outboundQueueConnection="#made"', inbound('inboundQueueName="A"')),
            FACTORY + MADE.format("createSession", ""),
            'write factory-bean="…" factory-method="createConnection", or a bean of the connection factory',
        ),
        (
            element('jmsQueueConnector outboundQueueConnection="made"', inbound('inboundQueueName="A"')),
            "",
            "outboundQueueConnection of <jmsQueueConnector> is not supported (it asks for connections that no bean",
        ),
        (
            element(f'{QUEUES} inboundMessageConvertor="#conv"'),
            FACTORY + '<bean id="conv" class="com.acme.Conv"/>',
            "inboundMessageConvertor is the Java class com.acme.Conv, and Spanwire runs no Java classes",
        ),
        (element(QUEUES, inbound('inboundQueueNam="A"')), FACTORY, "did you mean inboundQueueName?"),
        (element(QUEUES, inbound('localQueueName="A"')), FACTORY, "<inboundQueueBridge> has no inboundQueueName"),
        (
            element(QUEUES, inbound('inboundQueueName="A" selector="n ="')),
            FACTORY,
            "selector of <inboundQueueBridge>: ",
        ),
        (element(QUEUES, inbound('inboundQueueName="A.*"')), FACTORY, "must name one destination"),
        (element(QUEUES, inbound('inboundQueueName="A" consumerName="s"')), FACTORY, "unknown attribute"),
        (element(f'{QUEUES} name="b"') * 2, FACTORY, "a second connector is named 'b'"),
        (element(QUEUES, inbound('inboundQueueName="A" id="b"') * 2), FACTORY, "a second bridge has the id 'b'"),
        (
            element(QUEUES, '<reconnectionPolicy backOffMultiplier="0.5"/>', inbound('inboundQueueName="A"')),
            FACTORY,
            "backOffMultiplier of <reconnectionPolicy> must be a number from 1 to 100",
        ),
        (element(QUEUES, inbound('inboundQueueName="A"')), REMOTE.format(URL.replace("tcp:", "tpc:")), "tpc"),
    ],
)
def test_a_fault_is_refused_with_what_to_do(connector: str, beans: str, words: str) -> None:
    assert words in refusal(connector, beans)


def test_the_same_in_toml() -> None:
    text = """
broker_name = "near"
[[jms_bridge_connectors.jms_queue_connector]]
name = "berlin"
outbound_queue_connection_factory = { broker_url = "tcp://far:1", user_name = "u" }
reconnection_policy = { max_reconnect_attempts = 3 }
[[jms_bridge_connectors.jms_queue_connector.inbound_queue_bridges]]
inbound_queue_name = "A"
local_queue_name = "B"
[[jms_bridge_connectors.jms_queue_connector.outbound_queue_bridges]]
outbound_queue_name = "X"
selector = "n = 1"
do_handle_reply_to = false
"""
    bridges = read_configuration(text.encode(), Path("a.toml"), {}, {}).bridges
    assert [ends(bridge) for bridge in bridges] == [
        ["tcp://far:1 queue://A", "vm: queue://B"],
        ["vm: queue://X", "tcp://far:1 queue://X"],
    ]
    assert bridges[0].source.factory.user_name == "u"
    assert bridges[0].retry.max_retries == 3
    assert bridges[1].steps == (ClearReplyTo(),)


def test_no_password_of_a_bridge_is_shown() -> None:
    bean = REMOTE.format(URL + '<property name="password" value="canary"/>')
    assert "canary" not in repr(configuration(element(QUEUES, inbound('inboundQueueName="A"')), bean))


def test_a_convertor_is_named_for_each_direction_and_comes_after_the_reply_destination() -> None:
    head = f'{QUEUES} inboundMessageConvertor="#to_us" outboundMessageConvertor="to_them"'
    bridges = configuration(
        element(
            head,
            inbound('inboundQueueName="A"'),
            inbound('inboundQueueName="B" doHandleReplyTo="false"'),
            outbound('outboundQueueName="X"'),
        )
    ).bridges
    assert [bridge.steps for bridge in bridges] == [
        (ProxyReplyTo(), Convert("to_us")),
        (ClearReplyTo(), Convert("to_us")),
        (ProxyReplyTo(), Convert("to_them")),
    ]
    assert definition_of(plain_definition(bridges[0])) == bridges[0]


@pytest.mark.parametrize("text", ["../up", "a b", "", "1st"])
def test_a_convertor_has_a_name_that_is_a_file_of_the_directory(text: str) -> None:
    assert "is no name of a convertor" in refusal(
        element(f'{QUEUES} inboundMessageConvertor="#{text}"', inbound('inboundQueueName="A"'))
    )


def test_a_factory_of_another_vendor_is_made_by_java() -> None:
    bean = (
        '<bean id="far" class="com.ibm.mq.jms.MQQueueConnectionFactory"><property name="hostName" value="mq"/>'
        '<property name="port" value="1414"/></bean>'
    )
    bridge = only(element(f'{QUEUES} outboundUsername="u"', inbound('inboundQueueName="A"')), bean)
    factory = bridge.source.factory
    assert (factory.provider, factory.url, factory.user_name) == ("jvm", f"jvm:{MQ}", "u")
    assert factory.java == JavaFactory(MQ, (("hostName", Secret("mq")), ("port", Secret("1414"))))
    assert definition_of(plain_definition(bridge)) == bridge
