"""Broker URLs: what of them is shown to people."""

from __future__ import annotations

import pytest

from spanwire.client.addressing.address import parse_url
from spanwire.client.addressing.redaction import MAX_URL, redacted
from spanwire.model.errors import ConfigurationError


@pytest.mark.parametrize(
    "url",
    [
        "tcp://h:1?jms.password=s3c,r3t&x=1",
        "tcp://h:1?jms.password=s3c)r3t&x=1",
        "tcp://h:1?jms.password=a&r3t&x=1",
        "tcp://h:1?jms.password=s3c&r3t@x=1",
        "tcp://u:s3c/r3t@h:1",
        "tcp://u:s3c@r3t@h:1",
        "tcp://u:s3c?r3t@h:1",
        "tcp://u:s3c,r3t@h:1",
        "tcp://u:s3c(r3t@h:1",
        "failover:(tcp://a:1?soTimeout=s3c,tcp://b:2)?jms.password=a)r3t&x=1",
        "failover:(tcp://a:1,tcp://u:s3c@r3t@b:2)",
        "failover:(tcp://a:1,tcp://u:s3c?r3t@b:2)",
        "failover:tcp://u:s3c/r3t@a:1,tcp://b:2",
        "u:s3c?r3t@h:1",
        "u:s3c@r3t@h:1",
    ],
)
def test_no_part_of_a_secret_in_a_url_stands_in_its_error(url: str) -> None:
    assert "s3c" not in redacted(url)
    assert "r3t" not in redacted(url)
    with pytest.raises(ConfigurationError) as raised:
        parse_url(url)
    assert "s3c" not in str(raised.value)
    assert "r3t@" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("tcp://localhost:61616", "tcp://localhost:61616"),
        ("tcp://my host:x", "tcp://my host:x"),
        ("ssl://[::1]:61617?verifyHostName=false", "ssl://[::1]:61617?…"),
        ("tcp://u:p@h:1?a=b", "tcp://…@h:1?…"),
        ("failover:(tcp://a:1?x=1,tcp://b:2)?y=2", "failover:(tcp://a:1?…,tcp://b:2)?…"),
        ("failover:(tcp://a:1,tcp://b:2?x=1)", "failover:(tcp://a:1,tcp://b:2?…)"),
    ],
)
def test_a_url_is_recognized_in_its_error(url: str, shown: str) -> None:
    assert redacted(url) == shown


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://h:8161/path", "is no broker URL"),
        ("http://h:1?verifyHostName=false", "verifyHostName is an option of ssl://"),
        ("ws://h:1", "WebSocket is for STOMP in browsers"),
        ("wss://h:1?x=1", "WebSocket is for STOMP in browsers"),
        ("stomp://h:61613", "STOMP is for other clients"),
        ("stomp+ssl://h:61614", "STOMP is for other clients"),
        ("broker:(tcp://h:1)", "it configures a broker; write vm:(broker:(…))"),
        ("xbean:activemq.xml", "it configures a broker"),
        ("properties:x", "it configures a broker"),
        ("multicast://default", "an agent is no transport; write discovery:(agent)"),
        ("zeroconf://default", "an agent is no transport"),
        ("fabric://default", "an agent is no transport"),
        ("rendezvous://default", "an agent is no transport"),
        ("udp://h:1", "a datagram may be lost without an answer; write tcp://host:port"),
        ("tcp://u:p@h:1", "give user_name= and password= to connect, or write ?jms.userName=USER"),
        ("failover:(tcp://a:1,tcp://u:p@h:1)", "give user_name= and password= to connect"),
        ("ssl://h:1?trustStore=t.p12", "a store is not in the URL: write --trustStore to a command, tls="),
        ("failover:(ssl://h:1?socket.keyStorePassword=x)", "write --keyStore to a command"),
        ("tcp:(tcp://a:1)", "is no broker URL; write tcp://host:61616"),
        ("failover:(tcp://a:1?x=1", "the parentheses of the failover: uri do not match"),
        ("failover:(failover:(tcp://a:1)?randomize=false)", "the option randomize belongs to the outermost list"),
        ("failover:" * 20 + "tcp://a:1", "more than 8 lists inside each other"),
        ("failover:(" + ",".join(f"static:(tcp://a:{n},tcp://b:{n})" for n in range(1, 41)) + ")", "names 80 brokers"),
    ],
)
def test_a_url_that_leads_to_no_broker_says_what_to_write(url: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_url(url)
    assert reason in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("tcp://h:1", ["tcp://h:1"]),
        ("nio://h:1", ["nio://h:1"]),
        ("auto+nio+ssl://[::1]:1?verifyHostName=false", ["auto+nio+ssl://[::1]:1"]),
        ("failover:tcp://a:1", ["tcp://a:1"]),
        ("failover://tcp://a:1,tcp://b:2", ["tcp://a:1", "tcp://b:2"]),
        ("failover:(static:(tcp://a:1,tcp://b:2),tcp://c:3)?randomize=false", ["tcp://a:1", "tcp://b:2", "tcp://c:3"]),
        ("failover:(failover:(failover:(ssl://a:1)))", ["ssl://a:1"]),
        ("masterslave:(tcp://a:1,tcp://b:2)", ["tcp://a:1", "tcp://b:2"]),
        ("vm://x?broker.persistent=false", ["vm://x"]),
        ("failover:(vm://x,tcp://a:1)", ["vm://x", "tcp://a:1"]),
        ("peer://group/x", ["peer://group/x"]),
        ("vm:(broker:(tcp://localhost:6000)?persistent=false)?marshal=false", ["vm:(broker:(tcp://localhost:6000)?…"]),
    ],
)
def test_the_addresses_of_a_url(url: str, found: list[str]) -> None:
    assert [address.url for address in parse_url(url).addresses] == found


def test_nested_options_hold_for_each_address_and_its_own_before_them() -> None:
    url = parse_url(
        "failover:(tcp://a:1,tcp://b:2?connectionTimeout=7)?nested.connectionTimeout=5&nested.tcpNoDelay=false"
    )
    assert [one.settings.connect_timeout_ms for one in url.addresses] == [5, 7]
    assert [one.settings.tcp_no_delay for one in url.addresses] == [False, False]


def test_masterslave_keeps_its_order_and_failover_does_not() -> None:
    assert not parse_url("masterslave:(tcp://a:1,tcp://b:2)").reconnect.randomize
    assert not parse_url("discovery:(masterslave:(tcp://a:1,tcp://b:2))").reconnect.randomize
    assert parse_url("failover:(tcp://a:1,tcp://b:2)").reconnect.randomize


def test_stores_are_of_use_where_tls_may_be_spoken() -> None:
    for url in (
        "ssl://a:1",
        "failover:(tcp://a:1,ssl://b:2)",
        "fanout:(ssl://a:1,tcp://b:2)",
        "discovery:(multicast://x)",
    ):
        assert parse_url(url).may_use_tls
    assert not parse_url("fanout:(tcp://a:1,tcp://b:2)").may_use_tls


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("tcp://h", "tcp://h:61616"),
        ("tcp://h/", "tcp://h:61616"),
        ("nio://h?tcpNoDelay=true", "nio://h:61616"),
        ("ssl://h", "ssl://h:61617"),
        ("tcp://[::1]", "tcp://[::1]:61616"),
        ("tcp://h:7/", "tcp://h:7"),
        ("tcp://:7", "tcp://:7"),
    ],
)
def test_a_url_without_a_port_means_the_usual_one(url: str, told: str) -> None:
    (address,) = parse_url(url).addresses
    assert address.url == told
    assert address.port == int(told.rpartition(":")[2])


@pytest.mark.parametrize(
    ("url", "port", "is_secure"),
    [("http://h", 80, False), ("https://h", 443, True), ("http://h:8080", 8080, False)],
)
def test_openwire_over_http_has_the_ports_of_http(url: str, port: int, is_secure: bool) -> None:
    (address,) = parse_url(url).addresses
    assert address.is_tunnelled
    assert (address.port, address.is_secure) == (port, is_secure)
    assert not parse_url("tcp://h").addresses[0].is_tunnelled


def test_s25_nothing_is_shown_of_a_url_that_is_too_long_to_search_for_secrets() -> None:
    assert redacted("tcp://user:" + "/" * MAX_URL + "s3cr3t@host:1") == "…"
    assert redacted("//" * 1_000_000) == "…"
