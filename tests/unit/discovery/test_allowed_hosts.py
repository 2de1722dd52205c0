"""Which hosts gossip may name, and which bounds follow from the seeds."""

from __future__ import annotations

import pytest

from spanwire.discovery.addresses.allowed_hosts import MAX_ENTRIES, AllowedHosts, networks_of
from spanwire.discovery.groups.gossip_settings import parse_gossip
from spanwire.model.errors import ConfigurationError


@pytest.mark.parametrize(
    ("entry", "host", "allowed"),
    [
        ("10.1.0.0/16", "10.1.255.1", True),
        ("10.1.0.0/16", "10.2.0.1", False),
        ("10.1.0.0/16", "::ffff:10.1.0.7", True),  # the same address, written for IPv6
        ("::/0", "::ffff:169.254.169.254", False),
        ("10.1.0.5", "10.1.0.5", True),
        ("2001:db8::/32", "2001:db8::1", True),
        ("*.example.org", "a.example.org", True),
        ("*.example.org", "A.EXAMPLE.ORG.", True),
        ("*.example.org", "a.b.example.org", False),
        ("*.example.org", "example.org", False),
        ("*.example.org", "a.example.org.evil.net", False),
        ("*.example.org", "aXexample.org", False),
        ("broker*", "broker12", True),
        ("broker*", "broker.evil.net", False),
        ("*", "localhost", True),
        ("*", "127.0.0.1", False),
        ("*", "2130706433", False),  # a resolver reads 127.0.0.1
        ("*", "0x7f000001", False),
        ("*.*", "127.1", False),
        ("*.*.*.*", "0x7f.0.0.1", False),
        ("*.*.*.*", "0177.0.0.01", False),
        ("localhost", "localhost", True),
        ("localhost", "localhos", False),
    ],
)  # fmt: skip
def test_a_host_is_allowed(entry: str, host: str, *, allowed: bool) -> None:
    assert AllowedHosts((entry,)).allows(host) is allowed


def test_no_entry_allows_nobody() -> None:
    assert not AllowedHosts(()).allows("10.0.0.1")


@pytest.mark.parametrize("entry", ["10.1.0.1/16", "10.1.0", "a b", "a/8", "", "http://a"])
def test_an_entry_is_refused(entry: str) -> None:
    with pytest.raises(ConfigurationError, match="no network and no pattern"):
        AllowedHosts((entry,))


def test_a_long_list_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at most 64"):
        AllowedHosts(("10.0.0.1",) * (MAX_ENTRIES + 1))


@pytest.mark.parametrize(
    ("seeds", "networks"),
    [
        (["10.1.2.3"], ("10.1.2.0/24",)),
        (["2001:db8::5"], ("2001:db8::/64",)),
        (["127.0.0.1"], ("localhost", "127.0.0.0/8", "::1/128")),
        (["localhost"], ("localhost", "127.0.0.0/8", "::1/128")),
        (["broker-0.Brokers.example.org", "10.1.2.3"], ("*.brokers.example.org", "10.1.2.0/24")),
    ],
)  # fmt: skip
def test_the_seeds_bound_the_others(seeds: list[str], networks: tuple[str, ...]) -> None:
    assert networks_of(seeds) == networks
    assert all(AllowedHosts(networks).allows(seed) for seed in seeds)


def test_a_name_without_a_domain_needs_networks() -> None:
    with pytest.raises(ConfigurationError, match="needs networks=…, the hosts that may be linked, because broker1"):
        networks_of(["broker1"])


def test_a_uri_has_its_parts() -> None:
    uri = parse_gossip("gossip:(tcp://a:1,tcp://b:2)?max=7&networks=10.0.0.0/8,*.b.org&maxReconnectDelay=5000")
    assert uri.seeds == ("tcp://a:1", "tcp://b:2")
    assert (uri.max_links, uri.networks, uri.reconnect) == (7, ("10.0.0.0/8", "*.b.org"), "maxReconnectDelay=5000")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gossip:tcp://a:1", "names seeds in parentheses"),
        ("gossip:()", "names no broker"),
        ("gossip:(tcp://a:1)?max=0", "max of gossip: is a number of links from 1 to 100"),
        ("gossip:(tcp://a:1)?max=101", "max of gossip"),
        ("gossip:(tcp://a:1)?networks=", "networks of gossip: is empty"),
        ("gossip:(tcp://a:1)?networks=10.0.0.1/8", "is no network"),
        ("gossip:(tcp://a:1)?password=x", "has no option 'password'"),
    ],
)  # fmt: skip
def test_a_uri_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason.replace("(", r"\(")):
        parse_gossip(text)
