"""--skip-unsupported: what is left out, and what never is, because it guards access."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.documents.element import Attribute, Element
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.interpretation.interpretation import Interpreter
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.readers.properties import Variables
from spanwire.service.config.reading import read_configuration
from spanwire.service.config.tables import attribute_table, security_table
from spanwire.service.config.tables.handling import LATER, ONLY, Words
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import Findings

PATH = Path("/etc/spanwire/conf/activemq.xml")
NAMES = {**vars(attribute_table), **vars(security_table)}
TABLES = {name: table for name, table in NAMES.items() if isinstance(table, Words)}
GUARDED = {
    "AUTHORIZATION",
    "AUTHORIZATION_ENTRIES",
    "AUTHORIZATION_ENTRY",
    "AUTHORIZATION_HOLDER",
    "AUTHORIZATION_MAP",
    "DEFAULT_ENTRY",
    "DIRECTORY_MAP",
    "DUAL_AUTHENTICATION",
    "JAAS_AUTHENTICATION",
    "SIMPLE_AUTHENTICATION",
    "SSL_CONTEXT",
    "TEMPORARY_ENTRY",
    "USER",
    "USERS",
}
GUARDING_WORDS = {
    "bean of <plugins>",
    "messageAuthorizationPolicy of <broker>",
    "messageAuthorizationPolicy of <transportConnector>",
    "shiroPlugin of <plugins>",
    "allowTempDestinationStealing of <policyEntry>",
    "rejectDurableConsumers of <broker>",
}
OWNERS = {
    "BROKER": "broker",
    "TRANSPORT_CONNECTOR": "transportConnector",
    "PLUGINS": "plugins",
    "POLICY_ENTRY": "policyEntry",
}


def read(inside: str, attributes: str = "", beside: str = "") -> BrokerConfiguration:
    text = f"<beans>{beside}<broker {attributes}>{inside}</broker></beans>"
    return read_configuration(text.encode("utf-8"), PATH, {}, {}, skip_unsupported=True)


def obstacles(inside: str, attributes: str = "", beside: str = "") -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        read(inside, attributes, beside)
    return [line.removeprefix(f"{PATH}:") for line in str(raised.value).splitlines()]


def connectors(*elements: str) -> str:
    return f"<transportConnectors>{''.join(elements)}</transportConnectors>"


def link(remote: str) -> str:
    return f"<networkConnectors><networkConnector uri='static:({remote})'/></networkConnectors>"


def what_checking_finds(table: Words, element: Element) -> tuple[bool, int]:
    """Whether it is an obstacle all the same, and how much was left out."""
    findings = Findings("a.xml", skip_unsupported=True)
    decryption = Decryption({})
    Interpreter(findings, Path(), Variables({}, {}, decryption), decryption).check(element, table)
    try:
        findings.raise_if_any()
    except ConfigurationError:
        return True, len(findings.skipped)
    return False, len(findings.skipped)


def test_these_tables_guard_access() -> None:
    assert {name for name, table in TABLES.items() if table.guards} == GUARDED


@pytest.mark.parametrize("name", TABLES)
def test_a_word_that_guards_access_is_never_skipped_and_any_other_is(name: str) -> None:
    table = TABLES[name]
    for word, rule in table.settings.items():
        if rule.kind in (LATER, ONLY):
            element = Element("element", 1, attributes={word: Attribute("no such value", 1)})
            guards = table.guards or f"{word} of <{OWNERS.get(name)}>" in GUARDING_WORDS
            assert what_checking_finds(table, element) == (guards, 0 if guards else 1), word
    for word, rule in table.children.items():
        if rule.kind == LATER:
            element = Element("element", 1, children=[Element(word, 1, text="something")])
            guards = table.guards or f"{word} of <{OWNERS.get(name)}>" in GUARDING_WORDS
            assert what_checking_finds(table, element) == (guards, 0 if guards else 1), word


def test_what_is_left_out_is_told_in_the_order_of_the_file() -> None:
    configuration = read(
        '<proxyConnectors id="a"/>\n'
        + connectors(
            '<transportConnector uri="mqtt://0.0.0.0:1883"/>\n',
            '<transportConnector uri="tcp://127.0.0.1:0?wireFormat.prefixPacketSize=false" discoveryAgent="#x"/>\n',
        )
        + "<plugins><destinationDotFilePlugin/><traceBrokerPathPlugin/></plugins>",
        'slave="true"',
    )
    assert [line.removeprefix(f"{PATH}:") for line in configuration.skipped] == [
        "1: skipped: slave of <broker> with another value than false (later feature: copies of the store on another "
        "broker)",
        "1: skipped: <proxyConnectors> (it asks for proxies)",
        "2: skipped: the transport mqtt:// of mqtt://0.0.0.0:1883 (later feature: MQTT)",
        "3: skipped: discoveryAgent of <transportConnector> (it asks for agents of discovery in place of a URI)",
        "3: skipped: the option wireFormat.prefixPacketSize with another value than true "
        "(it asks for frames without sizes or a limit, which a stream cannot have)",
        "4: skipped: <destinationDotFilePlugin> (it asks for drawings of the broker)",
        "4: skipped: <traceBrokerPathPlugin> (it asks for traces)",
    ]
    (connector,) = configuration.connectors
    assert not connector.options.keys() & {"wireFormat.prefixPacketSize"}


@pytest.mark.parametrize(
    "plugin",
    [
        "<shiroPlugin/>",
        "<shiroPlugin enabled='true'/>",
        "<bean class='org.example.Quotas'/>",
        "<bean xmlns='http://www.springframework.org/schema/beans' class='org.example.Audit'/>",
        "<authorizationPlugin><map><lDAPAuthorizationMap/></map></authorizationPlugin>",
        "<authorizationPlugin><map><bean/></map></authorizationPlugin>",
        "<authorizationPlugin><map><authorizationMap groupClass='org.example.Group'/></map></authorizationPlugin>",
        "<simpleAuthenticationPlugin><userPasswords/></simpleAuthenticationPlugin>",
        "<jaasAuthenticationPlugin discoverLoginConfig='false'/>",
        "<ldapAuthorizationPlugin/>",
        "<noSuchPlugin/>",
    ],
)
def test_a_login_or_a_right_is_never_left_out(plugin: str) -> None:
    assert obstacles(f"<plugins>{plugin}</plugins>")


@pytest.mark.parametrize(
    "element",
    [
        "<messageAuthorizationPolicy/>",
        "<sslContext><sslContext keyStore='a.pem' crlPath='b.pem'/></sslContext>",
        "<sslContext><sslContext keyStore='a.pem' trustManagers='#x'/></sslContext>",
        "<sslContext><sslContext keyStore='a.pem' protocol='SSLv3'/></sslContext>",
        connectors("<transportConnector uri='tcp://127.0.0.1:0'><messageAuthorizationPolicy/></transportConnector>"),
        connectors("<transportConnector uri='tcp://127.0.0.1:0?needClientAuth=true'/>"),
        connectors("<transportConnector uri='ssl://127.0.0.1:0'/>"),
        link("ssl://b.example:1?socket.enabledProtocols=TLSv9"),
        link("ssl://b.example:1?socket.enabledCipherSuites=TLS_NULL"),
        link("nio+ssl://b.example:1?socket.verifyHostName=maybe"),
    ],
)
def test_encryption_is_never_left_out(element: str) -> None:
    assert obstacles(element)


@pytest.mark.parametrize(
    "attributes", ["plugins='#security'", "plugins='x'", "sslContext='#tls'", "messageAuthorizationPolicy='#p'"]
)
def test_a_setting_that_names_a_bean_is_an_obstacle(attributes: str) -> None:
    assert len(obstacles("", attributes)) == 1


@pytest.mark.parametrize(
    "class_name",
    [
        "org.apache.activemq.security.AuthorizationPlugin",
        "org.apache.activemq.security.JaasAuthenticationPlugin",
        "org.apache.activemq.shiro.ShiroPlugin",
        "org.apache.activemq.broker.SslContext",
        "org.example.RoleChecks",
        "org.example.LDAPGroups",
        "",
    ],
)
def test_a_bean_that_may_guard_access_is_never_left_out(class_name: str) -> None:
    (line,) = obstacles("", beside=f"<bean id='x' class='{class_name}'/>")
    assert "Spanwire runs no Java classes" in line


@pytest.mark.parametrize(
    "beside",
    [
        "<import resource='security.xml'/>",
        "<import resource='classpath:org/example/broker-plugins.xml'/>",
        "<import resource='http://192.0.2.1/jetty.xml'/>",
        "<import/>",
        "<http xmlns='http://www.springframework.org/schema/security'/>",
        "<broker/>",
        "<brokr/>",
    ],
)
def test_what_may_hold_what_guards_access_is_never_left_out(beside: str) -> None:
    assert obstacles("", beside=beside)


@pytest.mark.parametrize(
    "beside",
    [
        "<bean class='org.apache.derby.jdbc.EmbeddedDataSource'/>",
        "<bean class='org.apache.activemq.ActiveMQConnectionFactory'/>",
        "<bean class='oracle.jdbc.pool.OracleDataSource'/>",
        "<import resource='conf/camel.xml'/>",
        "<import resource='camel-routes.xml'/>",
    ],
)
def test_what_stands_beside_the_broker_and_guards_nothing_is_left_out_with_a_line(beside: str) -> None:
    configuration = read("", beside=beside)
    assert len(configuration.skipped) == 1
    assert configuration.warnings == ()


def test_a_camel_context_without_routes_is_told() -> None:
    configuration = read("", beside="<camelContext xmlns='http://camel.apache.org/schema/spring'/>")
    assert configuration.routes == ()
    assert [line.partition(": ")[2] for line in configuration.warnings] == [
        "the components of Camel have no effect: there is no route"
    ]


@pytest.mark.parametrize(
    "beside",
    [
        "<import resource='jetty.xml'/>",
        "<import resource='jetty-spring.xml'/>",
        "<import resource='file:/opt/activemq/conf/jetty-demo.xml'/>",
        "<jetty xmlns='http://mortbay.com/schemas/jetty/1.0'><connectors/></jetty>",
    ],
)
def test_a_web_server_without_its_file_or_its_users_is_named(beside: str) -> None:
    text = f"<beans>{beside}<broker/></beans>"
    configuration = read_configuration(text.encode("utf-8"), PATH, {}, {})
    (warning,) = configuration.warnings
    assert "there is no such file" in warning or "<jetty> has no users" in warning


def test_a_detecting_connector_opens_nothing_that_it_does_not_name() -> None:
    uri = "auto://127.0.0.1:0?auto.protocols={}"
    (both,) = read(connectors(f'<transportConnector uri="{uri.format("mqtt,stomp")}"/>')).connectors
    assert both.protocols == ("stomp",)
    assert read(connectors(f'<transportConnector uri="{uri.format("mqtt,amqp")}"/>')).connectors == ()


def test_errors_stay_errors_and_are_all_told() -> None:
    lines = obstacles(
        connectors("<transportConnector uri='mqtt://h:1'/>", "<transportConnector uri='tpc://h:1'/>")
        + "<destinations><queue physicalName=''/></destinations><networkConectors/>",
        "persistent='maybe'",
    )
    assert sorted(lines) == [
        "1: persistent of <broker> is 'maybe', it must be true or false",
        "1: physicalName of <queue> is empty",
        "1: unknown element in <broker> 'networkConectors'; did you mean networkConnectors?",
        "1: unknown transport 'tpc'; did you mean tcp?",
    ]


@pytest.mark.parametrize("uri", ["static:(fanout:(tcp://a:1,tcp://b:2))", "static:fanout:(tcp://a:1,tcp://b:2)"])
def test_a_link_to_all_of_several_brokers_is_left_out(uri: str) -> None:
    configuration = read(f"<networkConnectors><networkConnector uri='{uri}'/></networkConnectors>")
    assert [line.removeprefix(f"{PATH}:") for line in configuration.skipped] == [
        "1: skipped: fanout: of <networkConnector> (it asks for one link to several brokers)"
    ]
    assert configuration.network_connectors == ()


def test_an_empty_name_inside_what_is_left_out_is_an_error_all_the_same() -> None:
    inside = "<proxyConnectors><queue physicalName=''/></proxyConnectors>"
    assert obstacles(inside) == ["1: physicalName of <queue> is empty"]


def test_toml_is_treated_alike() -> None:
    text = b'slave = true\n[[transport_connectors]]\nuri = "amqp://h:1"\n[plugins.shiro_plugin]\n'
    with pytest.raises(ConfigurationError) as raised:
        read_configuration(text, Path("a.toml"), {}, {}, skip_unsupported=True)
    assert str(raised.value).startswith("a.toml:4: <shiroPlugin> is not supported")
    configuration = read_configuration(text.partition(b"[plugins")[0], Path("a.toml"), {}, {}, skip_unsupported=True)
    assert [line.partition(": skipped: ")[0] for line in configuration.skipped] == ["a.toml:1", "a.toml:3"]
