"""What a discovered URI may say, and what counts of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.discovery.addresses.address import SCHEMES, DiscoveredAddress, read_address


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_transport_that_brokers_use_is_read(scheme: str) -> None:
    found = read_address(f"{scheme}://some-host.example:61616")
    assert found == DiscoveredAddress(scheme, "some-host.example", 61616)
    assert found is not None and found.is_encrypted == ("ssl" in scheme)


def test_an_ipv6_address_keeps_its_brackets_in_the_uri_alone() -> None:
    found = read_address("tcp://[fe80::1]:5")
    assert found is not None and (found.host, found.uri) == ("fe80::1", "tcp://[fe80::1]:5")


@pytest.mark.parametrize(
    "text",
    [
        "stomp://h:61613",
        "vm://broker?brokerConfig=xbean:http://evil/x.xml",
        "xbean:http://evil/x.xml",
        "file:///etc/passwd",
        "http://h:80",
        "failover:(tcp://a:1,tcp://b:2)",
        "static:(vm://x)",
        "masterslave:(tcp://a:1,vm://x)",
        "tcp://h:1?brokerConfig=(xbean:x)",
        "tcp://user:secret@h:1",
        "tcp://h",
        "tcp://h:0",
        "tcp://h:65536",
        "tcp://h:1/path",
        "tcp://-h:1",
        "tcp://h:1,tcp://g:2",
        "TCP://h:1",
        "",
    ],
)
def test_what_is_no_address_of_a_broker_is_nothing(text: str) -> None:
    assert read_address(text) is None


@pytest.mark.parametrize(("said", "counts"), [("0", 1_000), ("5000", 5_000), ("999999999", 300_000), ("-1", 30_000)])
def test_of_the_options_the_time_of_silence_counts_within_bounds(said: str, counts: int) -> None:
    found = read_address(f"ssl://h:1?socket.verifyHostName=false&wireFormat.maxInactivityDuration={said}")
    assert found == DiscoveredAddress("ssl", "h", 1, counts)


@given(st.text(max_size=60) | st.from_regex(r"(tcp|ssl|vm|static):[/(a-z:0-9.,)?=&\[\]]{0,40}", fullmatch=True))
def test_whatever_is_read_leads_to_a_host_and_a_port_by_a_known_transport(text: str) -> None:
    found = read_address(text)
    if found is not None:
        assert found.scheme in SCHEMES and found.host and 0 < found.port < 65536
        assert read_address(found.uri) == DiscoveredAddress(found.scheme, found.host, found.port)
