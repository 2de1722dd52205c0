"""The JMS bridge as a bean, in a file of its own and beside a broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from spanwire.bridges.files.bridge_beans import has_bridge_beans, read_bridge_beans
from spanwire.bridges.model.definition import BatchLimits, BridgeDefinition, ConnectionFactory, Quality, RetryPolicy
from spanwire.bridges.model.steps import AppendMessageId, DropTemporaryReplyTo
from spanwire.cli.bridges.bridge import run
from spanwire.documents.xml import read_xml
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.service.config.reading import read_configuration

ENVIRONMENT: Final = """<map>
  <entry key="java.naming.factory.initial" value="org.apache.activemq.jndi.ActiveMQInitialContextFactory"/>
  <entry key="java.naming.provider.url" value="tcp://{}:1"/><entry key="queue.in" value="shop.in"/></map>"""
CLASSES: Final = [
    "org.apache.activemq.artemis.jms.bridge.impl",
    "org.apache.activemq.api.jms.bridge.impl",
    "org.hornetq.jms.bridge.impl",
]
FACTORY: Final = '<bean id="{}" class="{}.JNDIConnectionFactoryFactory"><constructor-arg>{}</constructor-arg>{}</bean>'
NAMED: Final = '<constructor-arg value="ConnectionFactory"/>'
DESTINATION: Final = (
    '<bean id="{}" class="x.JNDIDestinationFactory"><constructor-arg ref="env"/><constructor-arg value="{}"/></bean>'
)
REFERENCES: Final = """
  <property name="sourceConnectionFactoryFactory" ref="near"/>
  <property name="targetConnectionFactoryFactory" ref="far"/>
  <property name="sourceDestinationFactory" ref="in"/><property name="targetDestinationFactory" ref="out"/>"""


def beans(bridge: str, package: str = CLASSES[0], more: str = "") -> str:
    return f"""<beans xmlns="http://www.springframework.org/schema/beans">{more}
    {FACTORY.format("near", package, ENVIRONMENT.format("near"), NAMED)}
    {FACTORY.format("far", package, ENVIRONMENT.format("far"), NAMED)}
    <bean id="env" class="java.util.Hashtable"><constructor-arg>{ENVIRONMENT.format("near")}</constructor-arg></bean>
    {DESTINATION.format("in", "in")}{DESTINATION.format("out", "dynamicTopics/OUT")}
    <bean id="b" class="{package}.JMSBridgeImpl">{bridge}</bean></beans>"""


def read(text: str) -> tuple[BridgeDefinition, list[str]]:
    root = read_xml(text.encode(), "b.xml")
    assert has_bridge_beans(root)
    found = read_bridge_beans(root, "b.xml", lambda value: value.replace("${name}", "filled"))
    (bridge,) = found.bridges
    return bridge, [text for _, text in found.warnings]


def refusal(text: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        read(text)
    return str(raised.value)


@pytest.mark.parametrize("package", CLASSES)
def test_properties_of_any_package_make_a_bridge(package: str) -> None:
    more = """<property name="sourceUsername" value="u"/><property name="sourcePassword" value="p"/>
    <property name="selector" value="n = '${name}'"/><property name="failureRetryInterval" value="200"/>
    <property name="maxRetries" value="3"/><property name="maxBatchSize"><value>7</value></property>
    <property name="qualityOfServiceMode" value="AT_MOST_ONCE"/><property name="maxBatchTime" value="-1"/>
    <property name="addMessageIDInHeader" value="true"/><property name="subscriptionName"><null/></property>
    <property name="objectName" value="x:type=bridge"/><property name="failoverTimeout" value="60000"/>"""
    bridge, warnings = read(beans(REFERENCES + more, package))
    source, target = bridge.source, bridge.target
    assert (bridge.name, source.factory.url, target.factory.url) == ("b", "tcp://near:1", "tcp://far:1")
    assert (source.destination, target.destination) == (Destination(QUEUE, "shop.in"), Destination(TOPIC, "OUT"))
    assert source.factory.password is not None
    assert (source.factory.user_name, source.factory.password.reveal()) == ("u", "p")
    assert (source.selector, source.subscription) == ("n = 'filled'", None)
    assert bridge.retry == RetryPolicy(3, 200, failover_ms=60_000)
    assert (bridge.quality, bridge.batch) == (Quality.AT_MOST_ONCE, BatchLimits(7, -1))
    assert bridge.steps == (AppendMessageId(), DropTemporaryReplyTo())
    assert [warning.partition(" has no effect")[0] for warning in warnings] == ["objectName"]


NULL: Final = "<constructor-arg><null/></constructor-arg>"
CONSTRUCTED: Final = (
    "".join(f'<constructor-arg ref="{name}"/>' for name in ("near", "far", "in", "out"))
    + NULL * 5
    + '<constructor-arg value="1000"/><constructor-arg value="-1"/>'
    '<constructor-arg value="org.x.QualityOfServiceMode.DUPLICATES_OK"/>'
    '<constructor-arg value="1"/><constructor-arg value="-1"/>' + NULL * 2 + '<constructor-arg value="false"/>'
)


def test_arguments_of_a_constructor_count_in_their_order_and_null_is_no_value() -> None:
    for text in (CONSTRUCTED, CONSTRUCTED + NULL * 2):
        bridge, warnings = read(beans(text))
        assert (bridge.source.selector, bridge.source.factory.user_name, warnings) == (None, None, [])
        assert (bridge.batch, bridge.quality) == (BatchLimits(1, -1), Quality.DUPLICATES_OK)


def test_the_form_of_jboss_is_read() -> None:
    text = CONSTRUCTED.replace("constructor-arg", "parameter")
    for name in ("near", "far", "in", "out"):
        text = text.replace(f'<parameter ref="{name}"/>', f'<parameter><inject bean="{name}"/></parameter>')
    text = text.replace('<parameter value="1000"/>', "<parameter>1000</parameter>")
    bridge, _ = read(beans(f"<constructor>{text}</constructor>"))
    assert (bridge.source.factory.url, bridge.retry.interval_ms) == ("tcp://near:1", 1_000)


CONTAINER: Final = """<deployment xmlns="urn:jboss:bean-deployer:2.0">
<bean name="orders" class="{package}.JMSBridgeImpl">
  <depends>{server}</depends>
  <constructor>
    <parameter><inject bean="near"/></parameter><parameter><inject bean="far"/></parameter>
    <parameter><inject bean="from"/></parameter><parameter><inject bean="to"/></parameter>
    <parameter><null/></parameter><parameter><null/></parameter><parameter><null/></parameter>
    <parameter><null/></parameter><parameter><null/></parameter>
    <parameter>5000</parameter><parameter>10</parameter><parameter>ONCE_AND_ONLY_ONCE</parameter>
    <parameter>1</parameter><parameter>-1</parameter><parameter><null/></parameter><parameter><null/></parameter>
    <parameter>true</parameter><parameter><inject bean="management"/></parameter><parameter>x:type=bridge</parameter>
  </constructor>
  <property name="transactionManager"><inject bean="OfTheContainer"/></property>
</bean>
<bean name="near" class="{package}.JNDIConnectionFactoryFactory"><constructor>
  <parameter><inject bean="names"/></parameter><parameter>/ConnectionFactory</parameter></constructor></bean>
<bean name="far" class="{package}.JNDIConnectionFactoryFactory"><constructor>
  <parameter><inject bean="names"/></parameter><parameter>/ConnectionFactory</parameter></constructor></bean>
<bean name="from" class="{package}.JNDIDestinationFactory"><constructor>
  <parameter><inject bean="names"/></parameter><parameter>/queue/source</parameter></constructor></bean>
<bean name="to" class="{package}.JNDIDestinationFactory"><constructor>
  <parameter><inject bean="names"/></parameter><parameter>/topic/target</parameter></constructor></bean>
<bean name="names" class="java.util.Hashtable"><constructor class="java.util.Map">
  <map class="java.util.Hashtable" keyClass="String" valueClass="String">
    <entry><key>java.naming.factory.initial</key><value>{context}</value></entry>
    <entry><key>{property}</key><value>{url}</value></entry>
    <entry><key>jnp.timeout</key><value>5000</value></entry>
    <entry><key>jnp.sotimeout</key><value>5000</value></entry>
  </map></constructor></bean>
<bean name="management" class="javax.management.MBeanServer"><constructor factoryClass="a.B" factoryMethod="c"/></bean>
</deployment>"""
CONTEXTS: Final = [
    ("org.apache.activemq.jndi.ActiveMQInitialContextFactory", "java.naming.provider.url"),
    ("org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory", "connectionFactory.ConnectionFactory"),
    ("org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory", "connectionFactory./ConnectionFactory"),
]


@pytest.mark.parametrize(("context", "name"), CONTEXTS)
@pytest.mark.parametrize("package", CLASSES)
def test_a_deployment_of_a_container_is_read_with_the_names_of_its_server(
    package: str, context: str, name: str
) -> None:
    words = {"package": package, "context": context, "property": name, "url": "tcp://here:1", "server": "Server"}
    bridge, warnings = read(CONTAINER.format(**words))
    assert (bridge.name, bridge.source.factory.url, bridge.target.factory.url) == ("orders", *["tcp://here:1"] * 2)
    assert (bridge.source.destination, bridge.target.destination) == (
        Destination(QUEUE, "source"),
        Destination(TOPIC, "target"),
    )
    assert (bridge.quality, bridge.batch) == (Quality.ONCE_AND_ONLY_ONCE, BatchLimits(1, -1))
    assert (bridge.retry, bridge.steps) == (RetryPolicy(10, 5_000), (AppendMessageId(),))
    assert [warning.partition(" has no effect")[0] for warning in warnings] == [
        "mBeanServer",
        "objectName",
        "transactionManager",
    ]


def test_a_directory_with_java_objects_is_refused_with_the_way_round() -> None:
    words = {"context": "org.jnp.interfaces.NamingContextFactory", "property": "java.naming.provider.url"}
    fault = refusal(CONTAINER.format(package=CLASSES[0], url="jnp://localhost:1099", server="Server", **words))
    assert "NamingContextFactory is refused: rmi: brings Java objects" in fault
    assert "name the broker's address in a bean of ActiveMQConnectionFactory" in fault


def test_a_bean_of_the_factory_or_destination_itself_may_stand_in_place_of_a_look_up() -> None:
    own = (
        REFERENCES.replace('ref="near"', 'ref="own"')
        .replace('ref="in"', 'ref="queue"')
        .replace('ref="far"', 'ref="mq"')
    )
    more = """<bean id="own" class="org.apache.activemq.ActiveMQConnectionFactory">
      <property name="brokerURL" value="tcp://own:1"/><property name="userName" value="u"/></bean>
    <bean id="mq" class="com.ibm.mq.jms.MQConnectionFactory"><property name="port" value="1414"/></bean>
    <bean id="queue" class="org.apache.activemq.command.ActiveMQQueue"><constructor-arg value="A"/></bean>"""
    bridge, _ = read(beans(own.replace('ref="out"', 'value="queue://B"'), more=more))
    assert (bridge.source.factory.url, bridge.source.factory.user_name) == ("tcp://own:1", "u")
    assert (bridge.source.destination, bridge.target.destination) == (Destination(QUEUE, "A"), Destination(QUEUE, "B"))
    assert (bridge.target.factory.provider, bridge.target.factory.url) == (
        "jvm",
        "jvm:com.ibm.mq.jms.MQConnectionFactory",
    )


def test_a_factory_with_tls_keeps_its_stores_and_a_word_without_effect_is_a_warning() -> None:
    more = """<bean id="own" class="org.apache.activemq.ActiveMQSslConnectionFactory">
      <constructor-arg value="u"/><constructor-arg value="p"/><constructor-arg value="ssl://own:1"/>
      <property name="trustStore" value="t.p12"/><property name="trustStorePassword" value="tp"/>
      <property name="keyStore" value="k.p12"/><property name="keyStorePassword" value="kp"/>
      <property name="useAsyncSend" value="true"/></bean>"""
    bridge, warnings = read(beans(REFERENCES.replace('ref="near"', 'ref="own"'), more=more))
    assert bridge.source.factory == ConnectionFactory(
        "ssl://own:1", "u", Secret("p"), "t.p12", Secret("tp"), "k.p12", Secret("kp")
    )
    assert warnings == [
        "useAsyncSend of org.apache.activemq.ActiveMQSslConnectionFactory has no effect: the bridge decides how it "
        "receives and sends"
    ]


def test_arguments_with_an_index_stand_in_any_order() -> None:
    numbered = [
        argument.replace("<constructor-arg", f'<constructor-arg index="{index}"')
        for index, argument in enumerate(re.findall(r"<constructor-arg.*?/>(?:</constructor-arg>)?", CONSTRUCTED))
    ]
    assert len(numbered) == 17
    assert read(beans("".join(reversed(numbered)))) == read(beans(CONSTRUCTED))


@pytest.mark.parametrize(
    ("bridge", "words"),
    [
        (CONSTRUCTED.replace("<constructor-arg", '<constructor-arg index="x"', 1), "index of <constructor-arg> is 'x'"),
        (CONSTRUCTED.replace("<constructor-arg", '<constructor-arg index="1"', 1), "write 0 to 16, each once"),
        (CONSTRUCTED.replace("<constructor-arg", '<constructor-arg name="selector"', 1), "write index, or properties"),
        (NULL, "b.xml:12: JMSBridgeImpl has 1 arguments here; its constructors have 17 or 19"),
        ("", "needs sourceConnectionFactory"),
        (REFERENCES.replace('ref="in"', 'ref="inn"'), "there is no bean 'inn'; did you mean"),
        (REFERENCES + '<property name="selektor" value=""/>', "there is no property of JMSBridgeImpl 'selektor'"),
        (REFERENCES + '<property name="maxRetries" value="x"/>', "maxRetries is 'x', not a whole number"),
        (REFERENCES + '<property name="maxBatchTime" value="0"/>', "maxBatchTime is 0; it must be -1 or at least 1"),
        (
            REFERENCES.replace('ref="near"', 'ref="env"'),
            "sourceConnectionFactoryFactory is java.util.Hashtable, a Java",
        ),
        (
            REFERENCES.replace('ref="in"', 'ref="env"'),
            "sourceDestinationFactory is java.util.Hashtable, which names no",
        ),
        (REFERENCES.replace('ref="near"', 'value="tcp://x:1"'), "must be a bean, such as JNDIConnectionFactoryFactory"),
    ],
)
def test_a_bean_that_cannot_be_honoured_is_refused_with_its_line(bridge: str, words: str) -> None:
    fault = refusal(beans(bridge))
    assert words in fault
    assert fault.startswith("b.xml:")


def test_a_bridge_beside_a_broker_runs_with_it(tmp_path: Path) -> None:
    text = (
        beans(REFERENCES)
        .replace("tcp://near:1", "vm://here")
        .replace("<bean id=", '<broker xmlns="http://activemq.apache.org/schema/core" brokerName="here"/><bean id=', 1)
    )
    configuration = read_configuration(text.encode(), tmp_path / "a.xml", {}, {})
    (bridge,) = configuration.bridges
    assert (bridge.source.factory.url, bridge.target.factory.url) == ("vm:", "tcp://far:1")
    faulty = text.replace("vm://here", "vm://other")
    with pytest.raises(ConfigurationError, match="vm: is a broker inside another process"):
        read_configuration(faulty.encode(), tmp_path / "a.xml", {}, {})


def test_the_command_shows_the_bridges_of_a_file_of_beans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "b.xml"
    path.write_text(beans(REFERENCES + '<property name="objectName" value="x"/>'))
    assert run(["check", str(path)]) == 0
    shown = capsys.readouterr()
    assert "queue://shop.in at tcp://near:1" in shown.out
    assert f"{path}:" in shown.err and "objectName has no effect" in shown.err
