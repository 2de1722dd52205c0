"""Brokers that a client looks for: the URL, what of a found one counts, who gets the login, when to look again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spanwire.client.addressing.address import BrokerAddress, BrokerUrl, discovered_address, parse_url
from spanwire.client.addressing.reconnect_policy import ReconnectPolicy
from spanwire.client.io.broker_lookup import may_send_login
from spanwire.client.protocol.transport.failover import Failover
from spanwire.discovery.groups.group import MulticastSettings
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.tls.settings import ClientTlsSettings, TrustStore
from tests.support.client_dialogue import Still

MULTICAST = "discovery:(multicast://default)"
TRUSTING = ClientTlsSettings(TrustStore(Path("trust.pem")))


def found(uri: str, url: str = MULTICAST) -> BrokerAddress:
    address = discovered_address(uri, parse_url(url))
    assert address is not None
    return address


@pytest.mark.parametrize(
    "url",
    [
        "discovery:(multicast://default?group=a)",
        "discovery://(multicast://default?group=a)",
        "discovery:multicast://default?group=a",
        "discovery:(multicast://default)?group=a",
        "discovery:(multicast://a)",
    ],
)
def test_a_group_is_where_a_client_looks(url: str) -> None:
    parsed = parse_url(url)
    assert (parsed.addresses, parsed.group) == ((), MulticastSettings(group="a"))


def test_without_options_a_client_tries_again_as_the_tables_say() -> None:
    policy = parse_url(MULTICAST).reconnect
    assert policy == ReconnectPolicy()
    assert (policy.initial_delay_ms, policy.max_delay_ms, policy.max_attempts) == (10, 30_000, -1)
    assert (policy.use_exponential_back_off, policy.back_off_multiplier) == (True, 2.0)


def test_options_of_discovery_are_read() -> None:
    policy = parse_url(
        f"{MULTICAST}?initialReconnectDelay=100&maxReconnectDelay=200&useExponentialBackOff=false&backOffMultiplier=3"
        "&maxReconnectAttempts=4"
    ).reconnect
    assert policy == ReconnectPolicy(100, 200, False, 3.0, 4, 4)


@pytest.mark.parametrize(
    "url",
    [
        "discovery:(static:(tcp://a:1,tcp://b:2))?maxReconnectDelay=7",
        "discovery:(static://(tcp://a:1,tcp://b:2))?maxReconnectDelay=7",
        "discovery:(simple://(tcp://a:1,tcp://b:2))?maxReconnectDelay=7",
        "discovery:static:(tcp://a:1,tcp://b:2)?maxReconnectDelay=7",
        "static:(tcp://a:1,tcp://b:2)?maxReconnectDelay=7",
        "simple://(tcp://a:1,tcp://b:2)?maxReconnectDelay=7",
    ],
)
def test_a_list_is_known_from_the_start(url: str) -> None:
    parsed = parse_url(url)
    assert ([address.url for address in parsed.addresses], parsed.group) == (["tcp://a:1", "tcp://b:2"], None)
    assert (parsed.reconnect.max_delay_ms, parsed.reconnect.randomize) == (7, True)


@pytest.mark.parametrize("option", ["connectionTimeout=77", "discovered.connectionTimeout=77"])
def test_options_of_addresses_hold_for_each_that_is_found(option: str) -> None:
    assert found("tcp://h:1", f"{MULTICAST}?{option}").settings.connect_timeout_ms == 77
    assert parse_url(f"static:(tcp://h:1)?{option}").addresses[0].settings.connect_timeout_ms == 77


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("discovery:(tcp://a:1)", "names no agent"),
        ("discovery:()", "names no agent"),
        ("discovery:(zeroconf://a b)", "needs the name of a group"),
        ("discovery:(fabric://a?zookeeper.url=a b)", "no list of hosts"),
        ("discovery:(masterslave:(tcp://a:1))", "two brokers at least"),
        ("discovery:(multicast://a,multicast://b)", "names no agent"),
        ("multicast://default", "an agent is no transport"),
        ("failover:(multicast://default)", "an agent is no transport"),
        ("discovery:(multicast://10.0.0.1)", "no multicast address"),
        ("discovery:(multicast://default", "parentheses"),
        ("discovery:(static:(vm:x,discovery:(multicast://default)))", "an agent is no transport"),
        (f"{MULTICAST}?maxReconnectDelays=1", "did you mean maxReconnectDelay"),
        (f"{MULTICAST}?discovered.conectionTimeout=1", "unknown option 'conectionTimeout'"),
        (f"{MULTICAST}?discovered.verifyHostName=false", "verifyHostName is an option of ssl://"),
    ],
)
def test_a_url_that_cannot_be_meant_says_so(url: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong):
        parse_url(url)


def test_no_secret_of_a_url_is_in_its_error() -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_url("discovery:(static:(tcp://u:c4n4ry@a:1))?jms.password=c4n4ry&x=y")
    assert "c4n4ry" not in str(raised.value)


@pytest.mark.parametrize("uri", ["stomp://h:1", "vm://x?brokerConfig=xbean:http://evil/", "failover:(tcp://h:1)", "x"])
def test_what_a_client_does_not_speak_is_passed_over(uri: str) -> None:
    assert discovered_address(uri, parse_url(MULTICAST)) is None


def test_options_of_a_found_uri_do_not_count() -> None:
    address = found("ssl://h:1?verifyHostName=false&connectionTimeout=1")
    assert (address.url, address.settings) == ("ssl://h:1", found("ssl://h:1").settings)
    assert address.settings.verify_host_name is None


@pytest.mark.parametrize(
    ("uri", "tls", "more", "may"),
    [
        ("tcp://h:1", TRUSTING, "", False),
        ("ssl://h:1", None, "", False),
        ("ssl://h:1", ClientTlsSettings(), "", False),
        ("ssl://h:1", replace(TRUSTING, verify_host_name=False), "", False),
        ("ssl://h:1", TRUSTING, "", True),
        ("tcp://h:1", None, "?sendLoginToDiscovered=true", True),
    ],
)
def test_s38_a_login_is_for_those_whom_tls_has_verified(
    uri: str, tls: ClientTlsSettings | None, more: str, may: bool
) -> None:
    for login in (("u", "p"), ("u", None), (None, "p")):
        url: BrokerUrl = parse_url(MULTICAST + more, *login)
        address = discovered_address(uri, url)
        assert address is not None
        assert may_send_login(address, url, tls) == may
    assert may_send_login(found(uri), parse_url(MULTICAST), tls)


def failover_of(options: str = "") -> Failover:
    parsed = parse_url(f"{MULTICAST}?randomize=false{options}")
    return Failover(parsed.addresses, parsed.reconnect, Still())


def test_a_client_looks_first_and_again_when_all_that_was_found_was_of_no_use() -> None:
    failover = failover_of()
    failover.begin(True, 0.0)
    assert failover.needs_discovery
    failover.set_addresses((found("tcp://a:1"), found("tcp://b:1")))
    for host in ("a", "b"):
        assert not failover.needs_discovery
        address = failover.next_address()
        assert address is not None and address.host == host
        failover.on_failed(JmsError("no"), 0.0)
    assert failover.needs_discovery


def test_after_a_lost_connection_what_was_found_before_does_not_count() -> None:
    failover = failover_of()
    failover.begin(True, 0.0)
    failover.set_addresses((found("tcp://a:1"),))
    failover.next_address()
    failover.begin(False, 100.0)
    assert failover.needs_discovery
    failover.set_addresses((found("tcp://a:1"), found("tcp://b:1")))
    address = failover.next_address()
    assert address is not None and address.host == "b"  # the one that was lost stands last


def test_looking_in_vain_is_an_attempt_and_the_waits_grow() -> None:
    failover = failover_of("&maxReconnectAttempts=3&initialReconnectDelay=100")
    failover.begin(True, 0.0)
    due = []
    while failover.needs_discovery:
        due.append(failover.due_at())
        failover.on_failed(JmsError("nobody there"), failover.due_at())
    assert due == [0.0, 0.1, pytest.approx(0.3)]
    assert failover.next_address() is None
    assert str(failover.exhausted_error()) == "nobody there"
