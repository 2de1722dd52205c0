"""Native JMS bridges whose factories and destinations are looked up by JNDI."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.service.config.reading import read_configuration
from tests.unit.service.config.test_jms_bridges import FACTORY, configuration, element, ends, inbound, outbound, refusal

NAMED: Final = 'jmsQueueConnector jndiOutboundTemplate="#jndi" outboundQueueConnectionFactoryName="{}"'
INITIAL: Final = "org.apache.activemq.jndi.ActiveMQInitialContextFactory"
PROPS: Final = (
    f'<props><prop key="java.naming.factory.initial">{INITIAL}</prop>'
    '<prop key="java.naming.provider.url"> tcp://far:1 </prop><prop key="queue.in">shop.in</prop></props>'
)
TEMPLATE: Final = '<bean id="{}" class="org.springframework.jndi.JndiTemplate">{}</bean>'
LDAP: Final = (
    "<props>"
    '<prop key="java.naming.factory.initial">com.sun.jndi.LdapCtxFactory</prop>'
    '<prop key="java.naming.provider.url">ldap://d/o=company_us,c=us</prop>{}</props>'
)


def template(environment: str, name: str = "jndi") -> str:
    return TEMPLATE.format(name, f'<property name="environment">{environment}</property>')


def first(beans: str, more: str = "", name: str = "ConnectionFactory", queue: str = "A") -> BridgeDefinition:
    head = f"{NAMED.format(name)} {more}"
    (bridge,) = configuration(element(head, inbound(f'inboundQueueName="{queue}"')), beans).bridges
    return bridge


@pytest.mark.parametrize(
    "beans",
    [
        template(PROPS),
        TEMPLATE.format("jndi", f"<constructor-arg>{PROPS}</constructor-arg>"),
        '<bean id="jndi" class="org.apache.activemq.network.jms.JndiTemplateLookupFactory">'
        f'<constructor-arg ref="inner"/></bean>{template(PROPS, "inner")}',
        '<bean id="jndi" class="org.apache.activemq.network.jms.JndiTemplateLookupFactory"><constructor-arg>'
        f"{template(PROPS, 'inner')}</constructor-arg></bean>",
        template(
            f"<value>java.naming.factory.initial={INITIAL}\njava.naming.provider.url=tcp://far:1\nqueue.in=shop.in</value>"
        ),
        template(
            f'<map><entry key="java.naming.factory.initial" value="{INITIAL}"/>'
            '<entry key="java.naming.provider.url"><value>tcp://far:1</value></entry>'
            '<entry key="queue.in" value="shop.in"/></map>'
        ),
        TEMPLATE.format("jndi", '<property name="environment" ref="env"/>')
        + f'<bean id="env" class="java.util.Properties">{PROPS}</bean>'.replace(
            "<props>", "<constructor-arg><props>"
        ).replace("</props>", "</props></constructor-arg>"),
    ],
)
def test_a_template_names_the_broker_and_its_queues(beans: str) -> None:
    bridge = first(beans, 'preferJndiDestinationLookup="true"', queue="in")
    assert ends(bridge) == ["tcp://far:1 queue://shop.in", "vm: queue://in"]


def test_names_of_queues_are_looked_up_only_where_the_connector_prefers_it() -> None:
    assert ends(first(template(PROPS), queue="in"))[0] == "tcp://far:1 queue://in"
    assert ends(first(template(PROPS), 'preferJndiDestinationLookup="true"', queue="other"))[0].endswith(
        "queue://other"
    )


def test_a_properties_file_beside_the_configuration_is_an_environment(tmp_path: Path) -> None:
    text = f"java.naming.factory.initial = {INITIAL}\njava.naming.provider.url = tcp://far:1\n"
    (tmp_path / "jndi.properties").write_text(text)
    files = "org.springframework.beans.factory.config.PropertiesFactoryBean"
    location = '<property name="location" value="file:jndi.properties"/>'
    for beans in (
        template(f'<bean class="{files}">{location}</bean>'),
        TEMPLATE.format("jndi", '<property name="environment" ref="env"/>')
        + f'<bean id="env" class="{files}">{location}</bean>',
    ):
        connectors = element(NAMED.format("ConnectionFactory"), inbound('inboundQueueName="A"'))
        (bridge,) = configuration(connectors, beans, str(tmp_path / "a.xml")).bridges
        assert bridge.source.factory.url == "tcp://far:1"
    toml = (
        'broker_name = "near"\n[[jms_bridge_connectors.jms_queue_connector]]\n'
        'outbound_queue_connection_factory_name = "ConnectionFactory"\n'
        'jndi_outbound_template = { file = "jndi.properties" }\n'
        '[[jms_bridge_connectors.jms_queue_connector.inbound_queue_bridges]]\ninbound_queue_name = "A"\n'
    )
    (bridge,) = read_configuration(toml.encode(), tmp_path / "a.toml", {}, {}).bridges
    assert bridge.source.factory.url == "tcp://far:1"


def test_a_directory_is_asked_at_each_connection() -> None:
    login = (
        '<prop key="java.naming.security.principal">cn=me</prop>'
        '<prop key="java.naming.security.credentials">secret</prop><prop key="jnp.timeout">5000</prop>'
    )
    more = 'preferJndiDestinationLookup="true" outboundUsername="broker" outboundPassword="word"'
    factory = first(template(LDAP.format(login)), more, "cn=MQQueueCF", "cn=Q").source.factory
    assert (factory.url, factory.provider) == ("ldap://d:389/cn=MQQueueCF,o=company_us,c=us", "ldap")
    assert factory.user_name == "broker"
    directory = factory.directory
    assert directory is not None and directory.password is not None
    assert (directory.user_name, directory.password.reveal()) == ("cn=me", "secret")
    assert (directory.connect_timeout_ms, directory.finds_destinations) == (5_000, True)


def test_the_local_side_has_a_template_of_its_own() -> None:
    here = template(PROPS.replace("tcp://far:1", "vm://near"), "here")
    head = (
        f'{NAMED.format("ConnectionFactory")} jndiLocalTemplate="#here" localConnectionFactoryName="ConnectionFactory"'
    )
    (bridge,) = configuration(element(head, outbound('outboundQueueName="X"')), template(PROPS) + here).bridges
    assert ends(bridge) == ["vm: queue://X", "tcp://far:1 queue://X"]


@pytest.mark.parametrize(
    "inner",
    [
        '<property name="jndiTemplate" ref="jndi"/>',
        f'<property name="jndiTemplate">{template(PROPS, "x")}</property>',
        f'<property name="jndiEnvironment">{PROPS}</property>',
    ],
)
def test_a_factory_that_looks_itself_up_is_looked_up(inner: str) -> None:
    bean = (
        '<bean id="found" class="org.springframework.jndi.JndiObjectFactoryBean">'
        f'<property name="jndiName" value="ConnectionFactory"/>{inner}</bean>'
    )
    head = 'jmsQueueConnector outboundQueueConnectionFactory="#found"'
    beans = bean + template(PROPS) if "ref=" in inner else bean
    (bridge,) = configuration(element(head, inbound('inboundQueueName="A"')), beans).bridges
    assert bridge.source.factory.url == "tcp://far:1"


@pytest.mark.parametrize(
    ("beans", "name", "words"),
    [
        (template(PROPS.replace("tcp://far:1", "rmi://far/x")), "ConnectionFactory", "rmi: brings Java objects"),
        (template(LDAP.format("")), "ldap://evil/cn=x", "is no name in a directory"),
        (template(LDAP.format("")), "rmi://evil/x", "rmi: brings Java objects"),
        (
            template(LDAP.format('<prop key="com.sun.jndi.ldap.object.trustURLCodebase">true</prop>')),
            "cn=x",
            "lets a directory supply Java classes",
        ),
        (template(PROPS), "Nothing", "the JNDI environment has no connection factory 'Nothing'"),
        (
            template(PROPS.replace("tcp://far:1", "vm://other")),
            "ConnectionFactory",
            "vm://other is a broker in another",
        ),
        (FACTORY.replace('"far"', '"jndi"'), "x", "write a bean of org.springframework.jndi.JndiTemplate"),
        ("", "x", "unknown bean of jndiOutboundTemplate"),
        (
            template('<bean class="com.acme.Environment"/>'),
            "x",
            "an environment by a bean of class com.acme.Environment",
        ),
        (TEMPLATE.format("jndi", '<property name="environment" ref="no"/>'), "x", "unknown bean 'no'"),
        (TEMPLATE.format("jndi", '<property name="enviroment"/>'), "x", "did you mean environment?"),
        (
            template(
                '<bean class="org.springframework.beans.factory.config.PropertiesFactoryBean">'
                '<property name="location" value="classpath:jndi.properties"/></bean>'
            ),
            "x",
            "the properties file 'classpath:jndi.properties' must be a file: location",
        ),
    ],
)
def test_what_cannot_be_looked_up_is_refused_by_name(beans: str, name: str, words: str) -> None:
    assert words in refusal(element(NAMED.format(name), inbound('inboundQueueName="A"')), beans)


def test_a_name_needs_a_template() -> None:
    head = 'jmsQueueConnector outboundQueueConnectionFactoryName="x"'
    fault = refusal(element(head, inbound('inboundQueueName="A"')))
    assert "outboundQueueConnectionFactoryName of <jmsQueueConnector> needs jndiOutboundTemplate" in fault


def test_a_password_of_a_template_stands_in_no_error() -> None:
    props = LDAP.format(
        '<prop key="java.naming.security.credentials">top-secret</prop><prop key="jnp.timeout">x</prop>'
    )
    assert "top-secret" not in refusal(element(NAMED.format("cn=x"), inbound('inboundQueueName="A"')), template(props))
