"""Links to brokers that were found: which of them, how many, and what the agent is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spanwire.discovery.groups.group import MulticastSettings
from spanwire.model.environment import Time
from spanwire.model.secret import Secret
from spanwire.network.connector.discovered_links import (
    MAX_LINKS,
    MAX_NEW_LINKS,
    MAX_REASONS,
    MAX_REPORTS,
    DiscoveredLinks,
)
from spanwire.network.connector.link import DiscoverySettings, NetworkConnectorSettings
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.tls.settings import ClientTlsSettings, TrustStore
from tests.support.network_dialogue import Network

OPEN = BridgeSettings(name="found")
WITH_LOGIN = replace(OPEN, user_name="u", password=Secret("p"))
TRUSTING = DiscoverySettings(MulticastSettings(), tls=ClientTlsSettings(TrustStore(Path("trust.pem"))))
PATIENCE_S = 5.0


class SteppingClock:
    """A second more for each ``step``."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> Time:
        return Time(self.seconds, 0)


class ClockTurn:
    """A turn of which only the clock is asked."""

    def __init__(self) -> None:
        self.clock = SteppingClock()


class Told:
    """An agent that keeps what it is told."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, float]] = []
        self.ignored: list[str] = []

    def on_failure(self, uri: str, lived: float) -> None:
        self.failures.append((uri, lived))

    def ignore(self, uri: str) -> None:
        self.ignored.append(uri)


class Scene:
    def __init__(self, bridge: BridgeSettings = OPEN, discovery: DiscoverySettings = TRUSTING) -> None:
        self.turn = ClockTurn()
        self.agent = Told()
        settings = NetworkConnectorSettings(bridge, (), discovery=discovery)
        broker = Network().site("A").broker
        self.links = DiscoveredLinks(settings, discovery, broker, "tcp://a:1", self.turn, NetworkRoutes())  # type: ignore[arg-type]
        self.links.set_agent(self.agent)

    def runs(self, act: Callable[[], None]) -> None:
        """``act`` within a loop; no link gets as far as a socket."""

        async def inside() -> None:
            act()
            self.links.stop()

        asyncio.run(inside())


def found_by(bridge: BridgeSettings, discovery: DiscoverySettings, uri: str) -> bool:
    """Whether there is a link then."""
    scene = Scene(bridge, discovery)
    scene.runs(lambda: scene.links.on_found(uri))
    assert scene.agent.failures == []
    return uri in scene.links.links


@pytest.mark.parametrize("uri", ["stomp://b:1", "vm://b", "static:(tcp://b:1)", "tcp://b:1/x", "tcp://u:p@b:1"])
def test_s37_what_is_no_address_of_a_broker_gets_no_link(uri: str) -> None:
    assert not found_by(OPEN, TRUSTING, uri)


@pytest.mark.parametrize("uri", ["tcp://b:1", "ssl://b:1", "nio+ssl://b:1"])
def test_without_a_login_every_broker_gets_a_link(uri: str) -> None:
    assert found_by(OPEN, TRUSTING, uri)


@pytest.mark.parametrize(
    "bridge",
    [
        WITH_LOGIN,
        replace(OPEN, user_name="u"),
        replace(OPEN, remote_user_name="u"),
        replace(OPEN, remote_password=Secret("p")),
    ],
)
def test_s38_a_login_goes_to_no_unverified_broker_unless_the_configuration_says_so(
    bridge: BridgeSettings,
) -> None:
    believing = DiscoverySettings(MulticastSettings())
    assert not found_by(bridge, TRUSTING, "tcp://b:1")
    assert not found_by(bridge, believing, "ssl://b:1")
    assert found_by(bridge, TRUSTING, "ssl://b:1")
    assert found_by(bridge, replace(TRUSTING, sends_login=True), "tcp://b:1")
    assert found_by(bridge, replace(believing, sends_login=True), "ssl://b:1")


def test_s38_options_of_a_found_uri_do_not_touch_tls() -> None:
    scene = Scene(WITH_LOGIN)
    uri = "ssl://b:1?socket.verifyHostName=false&wireFormat.maxInactivityDuration=5000"
    scene.runs(lambda: scene.links.on_found(uri))
    remote = scene.links.links[uri]._remote
    assert remote.tls == TRUSTING.tls and remote.tls is not None and remote.tls.verify_host_name
    assert (remote.uri, remote.max_inactivity_ms) == ("ssl://b:1", 5000)


def test_what_is_not_used_is_told_in_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    for number in range(MAX_REPORTS * 3):
        scene.links.on_found(f"stomp://b:{number + 1}")
    lines = [record.getMessage() for record in caplog.records if "is not used" in record.getMessage()]
    assert len(lines) == MAX_REPORTS and lines[-1].endswith("others are not reported")


def test_only_so_many_links_begin_in_a_second_and_the_others_are_found_later() -> None:
    scene = Scene()

    def act() -> None:
        for number in range(MAX_NEW_LINKS + 5):
            scene.links.on_found(f"tcp://b{number}:1")

    scene.runs(act)
    assert len(scene.links.links) == MAX_NEW_LINKS
    assert scene.agent.failures == [(f"tcp://b{MAX_NEW_LINKS + number}:1", 0.0) for number in range(5)]


def test_a_connector_has_only_so_many_links() -> None:
    scene = Scene()

    def act() -> None:
        for number in range(MAX_LINKS + 1):
            scene.turn.clock.seconds += 1
            scene.links.on_found(f"tcp://b{number}:1")

    scene.runs(act)
    assert len(scene.links.links) == MAX_LINKS
    assert scene.agent.failures == [(f"tcp://b{MAX_LINKS}:1", 0.0)]


def test_one_address_gets_one_link_however_it_is_written() -> None:
    scene = Scene()

    def act() -> None:
        scene.links.on_found("tcp://b:1")
        scene.links.on_found("nio://b:1?x=y")

    scene.runs(act)
    assert list(scene.links.links) == ["tcp://b:1"]
    assert scene.agent.failures == [("nio://b:1?x=y", 0.0)]


def test_a_broker_that_was_discovered_and_refused_is_told_of_until_it_is_lost() -> None:
    links = Scene().links
    assert links.note_failure("tcp://b:1", "two brokers have one name", 0)
    assert not links.note_failure("tcp://b:1", "two brokers have one name", 0)
    links.on_found("stomp://c:2")
    view = links.idle_view()
    assert (view.state, view.reason) == (
        "looking",
        "tcp://b:1: two brokers have one name; stomp://c:2: it is no address of a broker that speaks OpenWire",
    )
    links.on_lost("tcp://b:1")
    links.on_lost("stomp://c:2")
    view = links.idle_view()
    assert (view.state, view.reason) == ("looking", "no broker was discovered")


def test_a_broker_that_would_be_sent_the_login_in_clear_has_a_view_until_it_is_lost() -> None:
    scene = Scene(WITH_LOGIN)

    def act() -> None:
        for uri in ("tcp://b:1", "stomp://c:1", "ssl://d:1"):
            scene.links.on_found(uri)

    scene.runs(act)
    (view,) = scene.links.unusable_views()
    assert (view.uri, view.state) == ("tcp://b:1", "waiting")
    assert view.reason.startswith("it would be sent the login of the connector without TLS")
    scene.links.on_lost("tcp://b:1")
    assert scene.links.unusable_views() == []
    for number in range(2 * MAX_REPORTS):
        scene.links.on_found(f"tcp://b:{number + 1}")
    assert len(scene.links.unusable_views()) == MAX_REPORTS


def test_a_lost_broker_has_no_link_any_more_and_there_is_room_again() -> None:
    scene = Scene()

    def act() -> None:
        scene.links.on_found("tcp://b:1")
        scene.links.on_lost("tcp://b:1")
        scene.links.on_lost("tcp://b:1")

    scene.runs(act)
    assert scene.links.links == {}
    assert scene.links.idle_view().state == "looking"


def test_a_link_that_fails_is_told_to_the_agent_once(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    async def inside(uri: str) -> None:
        before = asyncio.all_tasks()
        scene.links.on_found(uri)
        await asyncio.wait(asyncio.all_tasks() - before, timeout=PATIENCE_S)

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens
        uri = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        asyncio.run(inside(uri))
    assert scene.agent.failures == [(uri, 0.0)]
    assert scene.links.links == {}
    assert f"network connector found: discovered {uri}: connection refused" in caplog.text


def test_a_link_that_does_not_come_up_is_told_once_for_each_reason_and_one_that_was_up_each_time() -> None:
    links = Scene().links
    told = [
        links.note_failure("tcp://b:1", reason, lived) for reason, lived in (("x", 0), ("x", 0), ("y", 0), ("y", 9))
    ]
    assert told == [True, False, True, True]
    for number in range(MAX_REASONS):
        assert links.note_failure(f"tcp://made-up:{number}", "x", 0)
    assert len(links._reasons) <= MAX_REASONS


def test_a_link_that_leads_back_to_this_broker_ends_quietly_for_good(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    async def inside() -> None:
        scene.links.on_found("tcp://b:1")
        link = scene.links.links["tcp://b:1"]
        link.stop()
        link._leads_to_itself = True
        assert await link._wait_for_retry(0.0)

    asyncio.run(inside())
    assert (scene.agent.ignored, scene.agent.failures, scene.links.links) == (["tcp://b:1"], [], {})
    assert {record.levelname for record in caplog.records if "tcp://b:1" in record.getMessage()} <= {"INFO"}


def test_what_is_known_of_one_broker_is_not_forgotten_when_another_fails() -> None:
    links = Scene().links
    told = [links.note_failure(f"tcp://{host}:1", "refused", 0) for host in ("b", "c", "b", "c")]
    assert told == [True, True, False, False]


def test_a_link_that_fails_again_for_the_same_reason_writes_no_second_line(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    async def inside(uri: str) -> None:
        for _ in range(3):
            before = asyncio.all_tasks()
            scene.links.on_found(uri)
            await asyncio.wait(asyncio.all_tasks() - before, timeout=PATIENCE_S)

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens
        uri = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        asyncio.run(inside(uri))
    assert scene.agent.failures == [(uri, 0.0)] * 3
    assert len([line for line in caplog.messages if "connection refused" in line]) == 1
