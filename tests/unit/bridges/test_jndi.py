"""Names of JNDI: environments, the contexts inside of them, references, and the addresses of directories."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.files.definition_json import definition_of, plain_definition
from spanwire.bridges.jndi.environment import ACTIVEMQ, check_name, read_environment
from spanwire.bridges.jndi.local_names import LocalNames
from spanwire.bridges.jndi.references import MAX_ADDRESSES, destination_of, factory_of, read_addresses
from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.bridges.model.directory import Directory
from spanwire.ldap.ldap_url import LdapUrl, parse_ldap_url
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.routes.readers.placeholders import Placeholders

INITIAL = "java.naming.factory.initial"
URL = "java.naming.provider.url"
CLASSIC = "org.apache.activemq.jndi.ActiveMQInitialContextFactory"
ARTEMIS = "org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory"
LDAP = "com.sun.jndi.ldap.LdapCtxFactory"


def local(properties: dict[str, str], initial: str = CLASSIC) -> LocalNames:
    context = read_environment({INITIAL: initial, **properties})
    assert not isinstance(context, Directory)
    return context


def directory(properties: dict[str, str]) -> Directory:
    context = read_environment({INITIAL: LDAP, URL: "ldap://far/o=x", **properties})
    assert isinstance(context, Directory)
    return context


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(ConfigurationError) as raised:
        act()
    return str(raised.value)


def test_a_factory_has_the_url_of_the_environment_and_its_own_properties() -> None:
    names = local(
        {
            URL: "tcp://far:1",
            "connectionFactoryNames": "one, two",
            "connection.two.java.naming.provider.url": "tcp://far:2",
            "connection.two.userName": "u",
            "connection.two.password": "p",
        }
    )
    one, two = names.factory("one"), names.factory("two")
    assert (one.url, one.user_name, two.url, two.user_name) == ("tcp://far:1", None, "tcp://far:2", "u")
    assert two.password is not None and two.password.reveal() == "p"
    assert "connectionFactoryNames has one, two" in refusal(lambda: names.factory("ConnectionFactory"))


def test_without_names_and_a_url_the_defaults_of_activemq_apply() -> None:
    for name in ("ConnectionFactory", "QueueConnectionFactory", "TopicConnectionFactory"):
        assert local({}).factory(name).url == "failover:(tcp://localhost:61616)"
    assert local({"brokerURL": "tcp://b:1"}).factory("ConnectionFactory").url == "tcp://b:1"


def test_artemis_has_a_property_for_each_factory() -> None:
    names = local({"connectionFactory.orders": "tcp://far:1", URL: "tcp://far:2"}, ARTEMIS)
    assert (names.factory("orders").url, names.factory("ConnectionFactory").url) == ("tcp://far:1", "tcp://far:2")
    assert "no property connectionFactory.bills" in refusal(lambda: names.factory("bills"))


@pytest.mark.parametrize("initial", [CLASSIC, ARTEMIS])
def test_destinations_have_names_of_their_own_or_dynamic_ones(initial: str) -> None:
    names = local({"queue.inbox": "shop.orders", "topic.news": "shop.news"}, initial)
    assert names.destination("inbox") == Destination(QUEUE, "shop.orders")
    assert names.destination("news") == Destination(TOPIC, "shop.news")
    assert names.destination("dynamicQueues/A") == Destination(QUEUE, "A")
    assert names.destination("dynamicTopics/A") == Destination(TOPIC, "A")
    assert names.destination("other") is None


@pytest.mark.parametrize("initial", [*sorted(ACTIVEMQ), ARTEMIS])
def test_an_entry_comes_before_what_hornetq_binds(initial: str) -> None:
    context = read_environment({INITIAL: initial, "queue./queue/a": "own"})
    assert not isinstance(context, Directory)
    assert context.destination("/queue/a") == Destination(QUEUE, "own")
    assert context.destination("/queue/b") == Destination(QUEUE, "b")
    assert context.destination("/topic/b") == Destination(TOPIC, "b")
    assert context.destination("/queue/") is None
    assert context.destination("queue/b") is None


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, "has no java.naming.factory.initial; known are"),
        ({INITIAL: "com.acme.Factory"}, "com.acme.Factory is unknown; known are"),
        ({INITIAL: LDAP}, "has no java.naming.provider.url; write ldap://host/o=company"),
        ({INITIAL: LDAP, URL: "rmi://far/x"}, "rmi: brings Java objects and classes from another machine"),
        ({INITIAL: CLASSIC, URL: "corbaname:iiop:far"}, "corbaname: brings Java objects"),
        ({INITIAL: LDAP, URL: "IIOP://far"}, "iiop: brings Java objects"),
        ({INITIAL: "com.sun.jndi.rmi.registry.RegistryContextFactory"}, "rmi: brings Java objects"),
        ({INITIAL: "org.jnp.interfaces.NamingContextFactory", URL: "far:1099"}, "rmi: brings Java objects"),
        (
            {INITIAL: LDAP, URL: "ldap://far", "com.sun.jndi.ldap.object.trustURLCodebase": "true"},
            "trustURLCodebase lets a directory supply Java classes",
        ),
        (
            {INITIAL: LDAP, URL: "ldap://far", "java.naming.factory.object": "com.acme.F"},
            "java.naming.factory.object lets a directory choose Java classes",
        ),
        ({INITIAL: LDAP, URL: "ldap://a/o=x ldap://b/o=x"}, "a directory has one URL here"),
        ({INITIAL: LDAP, URL: "ldap://u:p@far/o=x"}, "has no login; write java.naming.security.principal"),
        ({INITIAL: LDAP, URL: "ldap://far:x/"}, "'x' is no port of a directory"),
        ({INITIAL: LDAP, URL: "ldap://far/o=x?cn"}, "remove ? and what follows"),
        ({INITIAL: LDAP, URL: "http://far/"}, "is no URL of a directory"),
        ({INITIAL: LDAP, URL: "ldap://far", "java.naming.security.principal": "cn=a"}, "has no java.naming.security"),
        (
            {INITIAL: LDAP, URL: "ldap://far", "java.naming.security.authentication": "DIGEST-MD5"},
            "'digest-md5' is not supported; write simple or none",
        ),
        ({INITIAL: LDAP, URL: "ldap://far", "jnp.timeout": "0"}, "jnp.timeout is '0'; it must be a number of milli"),
        ({INITIAL: LDAP, URL: "ldap://far", "jnp.sotimeout": "9s"}, "jnp.sotimeout is '9s'"),
    ],
)
def test_an_environment_that_is_wrong_or_asks_for_classes_is_refused(properties: dict[str, str], words: str) -> None:
    assert words in refusal(lambda: read_environment(properties))


@pytest.mark.parametrize("name", ["rmi://far/x", "ldap://far/cn=x", "corbaloc:x", "", " ", "java:comp/env/x"])
def test_a_name_that_leads_out_of_the_directory_is_refused(name: str) -> None:
    assert refusal(lambda: check_name(name))


def test_names_of_directories_and_contexts_are_taken_as_they_are() -> None:
    for name in ("cn=Q", "ConnectionFactory", "dynamicQueues/a:b", "cn=a:b"):
        assert check_name(f" {name} ") == name


def test_a_directory_has_login_and_time_limits() -> None:
    plain = directory({})
    assert (plain.url, plain.user_name, plain.connect_timeout_ms, plain.read_timeout_ms) == (
        "ldap://far:389/o=x",
        None,
        10_000,
        18_000,
    )
    full = directory(
        {
            "java.naming.security.principal": "cn=a",
            "java.naming.security.credentials": "p",
            "java.naming.security.protocol": "ssl",
            "jnp.timeout": "100",
            "com.sun.jndi.ldap.read.timeout": "200",
        }
    )
    assert (full.url, full.user_name, full.connect_timeout_ms, full.read_timeout_ms) == (
        "ldaps://far:389/o=x",
        "cn=a",
        100,
        200,
    )
    anonymous = directory({"java.naming.security.principal": "cn=a", "java.naming.security.authentication": "none"})
    assert anonymous.user_name is None


def test_an_address_of_a_directory_is_read_and_written() -> None:
    assert parse_ldap_url("ldap://h/o=a%20b,c=us").entry("cn=Q").base == "cn=Q,o=a b,c=us"
    assert parse_ldap_url("ldaps://[::1]/") == LdapUrl("::1", 636, True, "")
    assert str(parse_ldap_url("ldap://[::1]:1389/o=x")) == "ldap://[::1]:1389/o=x"
    assert parse_ldap_url("ldap:///o=x").host == "localhost"


@given(st.text(alphabet="abcé=, +", max_size=20), st.booleans(), st.integers(1, 65535))
def test_an_address_reads_as_it_was_written(base: str, is_secure: bool, port: int) -> None:
    url = LdapUrl("host", port, is_secure, base.strip())
    assert parse_ldap_url(str(url).replace(" ", "%20")) == url


def test_a_reference_has_its_properties_as_texts() -> None:
    values = read_addresses(["#0#brokerURL#tcp://far:1?a=#b", "|1|userName|u", "#2#password#", "#3#raw##rO0ABQ=="])
    assert values == {"brokerURL": "tcp://far:1?a=#b", "userName": "u", "password": ""}
    factory = factory_of("org.apache.activemq.ActiveMQXAConnectionFactory", values)
    assert (factory.url, factory.user_name, factory.password) == ("tcp://far:1?a=#b", "u", None)
    queue = destination_of("org.apache.activemq.command.ActiveMQQueue", {"physicalName": "A"})
    assert queue == Destination(QUEUE, "A")


@pytest.mark.parametrize("address", ["", "#", "#x#a#b", "#0#a", "brokerURL"])
def test_a_malformed_address_of_a_reference_is_refused(address: str) -> None:
    assert "malformed javaReferenceAddress" in refusal(lambda: read_addresses([address]))


def test_a_reference_has_only_so_many_addresses() -> None:
    addresses = [f"#{number}#a{number}#b" for number in range(MAX_ADDRESSES + 1)]
    assert f"more than {MAX_ADDRESSES} addresses" in refusal(lambda: read_addresses(addresses))


def test_another_object_is_no_factory() -> None:
    assert "com.ibm.mq.jms.MQQueueConnectionFactory" in refusal(
        lambda: factory_of("com.ibm.mq.jms.MQQueueConnectionFactory", {"HOST": "far"})
    )
    assert "has no address brokerURL" in refusal(
        lambda: factory_of("org.apache.activemq.ActiveMQConnectionFactory", {})
    )
    assert "no queue or topic" in refusal(lambda: destination_of("java.lang.String", {"physicalName": "A"}))


FILE = """
[connectionFactories.here]
jndiName = "{name}"
{more}
[connectionFactories.here.jndi]
"java.naming.factory.initial" = "{initial}"
"java.naming.provider.url" = "{url}"
"queue.inbox" = "shop.orders"
[bridges.b]
sourceConnectionFactory = "here"
sourceDestination = "{source}"
targetConnectionFactory = "tcp://far:2"
targetDestination = "queue://B"
"""


def from_file(initial: str = CLASSIC, url: str = "tcp://far:1", **words: str) -> BridgeDefinition:
    values = {"name": "ConnectionFactory", "source": "queue://A", "more": "", **words}
    text = FILE.format(initial=initial, url=url, **values)
    (definition,) = read_bridges(text.encode(), "f.toml", Placeholders({}, {}))
    return definition


def test_a_file_of_bridges_looks_up_factory_and_destination() -> None:
    plain = from_file(source="jndi:inbox", more='userName = "me"')
    assert (plain.source.factory.url, plain.source.factory.user_name) == ("tcp://far:1", "me")
    assert plain.source.destination == Destination(QUEUE, "shop.orders")
    found = from_file(LDAP, "ldap://d/o=x", name="cn=CF", source="jndi:cn=Q")
    factory = found.source.factory
    assert (factory.url, factory.provider) == ("ldap://d:389/cn=CF,o=x", "ldap")
    assert factory.directory is not None and factory.directory.finds_destinations
    assert definition_of(plain_definition(found)) == found


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"source": "jndi:outbox"}, "f.toml:11: the JNDI environment has neither queue.outbox nor topic.outbox"),
        ({"name": "Other"}, "f.toml:3: the JNDI environment has no connection factory 'Other'"),
        ({"name": "rmi:x"}, "f.toml:3: the name rmi:x is refused"),
        ({"more": 'url = "tcp://x:1"'}, "f.toml:4: url and jndi exclude each other"),
        ({"url": "vm://x"}, "vm: is a broker inside another process"),
        ({"initial": "x.Y"}, "f.toml:5: java.naming.factory.initial x.Y is unknown"),
    ],
)
def test_a_fault_of_a_file_has_its_line(words: dict[str, str], fault: str) -> None:
    assert fault in refusal(lambda: from_file(**words))
