"""Where a group meets, from the URI."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from spanwire.discovery.agents.multicast import MulticastAgent
from spanwire.discovery.groups.beacon import Beacon
from spanwire.discovery.groups.group import MulticastSettings, parse_multicast
from spanwire.model.errors import ConfigurationError


def test_default_stands_for_the_address_that_activemq_uses() -> None:
    assert parse_multicast("multicast://default") == MulticastSettings("239.255.2.3", 6155, "default")


def test_the_group_is_an_option_and_the_host_an_address() -> None:
    assert parse_multicast("multicast://default?group=sales").group == "sales"
    found = parse_multicast("multicast://224.1.2.3:6255?group=a.b&keepAliveInterval=100&timeToLive=3")
    assert (found.host, found.port, found.group) == ("224.1.2.3", 6255, "a.b")
    assert parse_multicast("multicast://default?keepAliveInterval=1&timeToLive=0").keep_alive_ms == 1
    assert (found.keep_alive_ms, found.time_to_live, found.loopback) == (100, 3, True)


def test_a_name_in_place_of_the_host_is_a_group_at_the_default_address() -> None:
    assert parse_multicast("multicast://NEGroup") == MulticastSettings("239.255.2.3", 6155, "NEGroup")


def test_options_that_say_when_to_try_again_are_left_to_others() -> None:
    assert parse_multicast("multicast://default?initialReconnectDelay=7&maxReconnectAttempts=x") == MulticastSettings()


def test_loop_back_mode_is_java_s_name_for_switching_it_off() -> None:
    assert not parse_multicast("multicast://default?loopBackMode=true").loopback
    assert parse_multicast("multicast://default?loopBackMode=false").loopback


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("multicast:default", "no address of the multicast agent"),
        ("tcp://default", "no address of the multicast agent"),
        ("multicast://10.0.0.1", "no multicast address"),
        ("multicast://group1:6155", "no multicast address"),
        ("multicast://group1?group=group2", "no multicast address"),
        ("multicast://some.host", "no multicast address"),
        ("multicast://default:99999", "port"),
        ("multicast://default?gruop=x", "no option 'gruop'"),
        ("multicast://default?group=", "discovery group"),
        ("multicast://default?keepAliveInterval=soon", "keepAliveInterval"),
        ("multicast://default?timeToLive=256", "timeToLive"),
        ("multicast://default?mcInterface=eth0", "interface"),
        ("multicast://default?networkInterface=eth0", "write interface=ADDRESS"),
    ],
)
def test_a_uri_that_makes_no_sense_says_so(text: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong):
        parse_multicast(text)


class Told:
    """A listener."""

    def __init__(self) -> None:
        self.on_beacon: list[str] = []

    def on_found(self, uri: str) -> None:
        self.on_beacon.append(f"+{uri}")

    def on_lost(self, uri: str) -> None:
        self.on_beacon.append(f"-{uri}")


def test_a_member_that_is_of_no_use_and_one_that_is_silent_are_lost() -> None:
    told = Told()

    async def scenario() -> None:
        agent = MulticastAgent(MulticastSettings(keep_alive_ms=0), told)
        agent.ignore("tcp://me:1")
        for uri in ("tcp://a:1", "tcp://b:1", "tcp://me:1"):
            agent.datagram_received(Beacon("default", uri).encode(), ("127.0.0.1", 1))
        agent.on_failure("tcp://a:1", 0.0)
        assert told.on_beacon == ["+tcp://a:1", "+tcp://b:1", "-tcp://a:1"]
        beat = asyncio.get_running_loop().create_task(agent._send_beacons())
        for _ in range(10):  # it is looked for with each beat, and has been silent for longer than ten of no length
            await asyncio.sleep(0)
        beat.cancel()
        agent.stop()

    asyncio.run(scenario())
    assert told.on_beacon[-1] == "-tcp://b:1"


class Wire:
    """A datagram transport that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def sendto(self, data: bytes, address: tuple[str, int]) -> None:
        self.sent.append(data)


def test_a_withdrawn_connector_says_farewell_once() -> None:
    agent, wire = MulticastAgent(MulticastSettings()), Wire()
    agent._transport = cast(asyncio.DatagramTransport, wire)
    agent.announce("tcp://a:1")
    agent.announce("tcp://b:1")
    for _ in range(2):
        agent.withdraw("tcp://a:1")
    assert wire.sent[2:] == [Beacon("default", "tcp://a:1", alive=False).encode()]
    assert agent._announced.uris() == ("tcp://b:1",)


def test_a_group_that_cannot_be_reached_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    agent = MulticastAgent(MulticastSettings())
    for _ in range(3):
        agent.error_received(OSError(101, "Network is unreachable"))
    assert caplog.messages == ["discovery: 239.255.2.3:6155 cannot be reached: [Errno 101] Network is unreachable"]


def test_a_member_that_only_announces_hears_nobody_and_may_be_told_of_anybody() -> None:
    agent = MulticastAgent(MulticastSettings())
    agent.announce("tcp://me:1")
    agent.datagram_received(Beacon("default", "tcp://a:1").encode(), ("127.0.0.1", 1))
    agent.on_failure("tcp://a:1", 0.0)
    agent.stop()
    assert agent._announced.uris() == ()
