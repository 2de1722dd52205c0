"""One link of a network connector: when it tries again and when it gives up."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from itertools import chain, product

import pytest

from spanwire.broker.broker import Broker
from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.groups.gossip_settings import GossipSettings
from spanwire.discovery.groups.group import MulticastSettings
from spanwire.model.environment import Time
from spanwire.model.units import MIB
from spanwire.network.connector.link import DiscoverySettings, Link, LinkView, NetworkConnectorSettings, RemoteAddress
from spanwire.network.connector.network_connector import NetworkConnector
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.gossip.gossip import Gossip
from spanwire.network.gossip.gossip_agent import GossipAgent
from spanwire.network.gossip.kept_members import KeptMembers
from spanwire.network.gossip.members import Members
from spanwire.network.reports.known_brokers import Peer
from spanwire.transports.loop.system_clock import SystemClock
from spanwire.transports.loop.turn import Turn
from tests.support.network_dialogue import Network

PATIENCE_S = 5.0


class SlowClock:
    """Duck-typed to the clock of a `spanwire.transports.loop.turn.Turn`: whatever is done takes half a minute."""

    def __init__(self) -> None:
        self._monotonic = 0.0

    def now(self) -> Time:
        self._monotonic += 30.0
        return Time(self._monotonic, 0)


class ClockTurn:
    """A turn of which only the clock is asked."""

    def __init__(self) -> None:
        self.clock = SlowClock()


async def live(link: Link) -> None:
    """Until the link has given up, or `PATIENCE_S` are over."""
    before = asyncio.all_tasks()
    link.start()
    await asyncio.wait(asyncio.all_tasks() - before, timeout=PATIENCE_S)


def test_attempts_that_take_long_to_fail_count_as_failures_in_a_row(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens
        port = unused.getsockname()[1]
        remote = RemoteAddress(f"tcp://127.0.0.1:{port}", "127.0.0.1", port)
        reconnect = ReconnectSettings(initial_delay_ms=1, max_delay_ms=1, max_attempts=3)
        settings = NetworkConnectorSettings(BridgeSettings(name="link"), (remote,), reconnect)
        link = Link(settings, remote, Network().site("A").broker, "tcp://a:1", ClockTurn(), NetworkRoutes())  # type: ignore[arg-type]
        asyncio.run(live(link))
    assert link.view().state == "given up"
    assert link.view().reason == "connection refused"
    assert (link.view().attempts, link.view().breaks, link.view().local_failures) == (3, 0, 0)
    link.reset()
    assert link.view().attempts == 0
    lines = [
        record.getMessage().partition(f":{port}: ")[2] for record in caplog.records if "link" in record.getMessage()
    ]
    assert lines == ["connection refused; next try in 0.001 s", "connection refused; gave up after 3 tries"]


def test_a_link_to_one_of_several_tries_each_in_order_and_tells_why_none_could_be_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.socket() as one, socket.socket() as two:
        ports = []
        for unused in (one, two):
            unused.bind(("127.0.0.1", 0))  # nobody listens
            ports.append(unused.getsockname()[1])
        first, second = (RemoteAddress(f"tcp://127.0.0.1:{port}", "127.0.0.1", port) for port in ports)
        reconnect = ReconnectSettings(initial_delay_ms=1, max_delay_ms=1, max_attempts=2)
        remote = replace(first, others=(second,))
        settings = NetworkConnectorSettings(BridgeSettings(name="link"), (remote,), reconnect)
        link = Link(settings, remote, Network().site("A").broker, "tcp://a:1", ClockTurn(), NetworkRoutes())  # type: ignore[arg-type]
        asyncio.run(live(link))
    assert link.view().state == "given up"
    assert link.view().reason == (
        f"none of 2 brokers can be used: tcp://127.0.0.1:{ports[0]}: connection refused; "
        f"tcp://127.0.0.1:{ports[1]}: connection refused"
    )
    assert len([record for record in caplog.records if "none of 2 brokers" in record.getMessage()]) == 2


@pytest.mark.parametrize(("static_bridge", "warnings"), [(False, 1), (True, 0)])
def test_a_connector_of_a_broker_without_advisories_says_that_nobody_hears_of_its_consumers(
    static_bridge: bool, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    site = Network().site("A")
    broker = Broker("quiet", "Q", site.network.environment, site.journal, site.formats)
    settings = NetworkConnectorSettings(BridgeSettings(name="link", static_bridge=static_bridge), ())
    connector = NetworkConnector(settings, broker, "tcp://a:1", ClockTurn(), NetworkRoutes())  # type: ignore[arg-type]
    asyncio.run(connector.start())
    lines = [record.getMessage() for record in caplog.records if "advisorySupport" in record.getMessage()]
    assert len(lines) == warnings
    assert all(line.startswith("network connector link: this broker has advisorySupport=") for line in lines)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "the connection was closed before the remote broker said anything; write ssl:// before the host"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "the port expects TLS: write ssl:// before the host"),
        (b"ERROR\nmessage:", "the port is a STOMP port; OpenWire is usually at port 61616"),
        (b"\x00\x00", "the connection was closed"),
    ],
)
def test_a_link_to_a_port_of_another_protocol_says_what_the_port_expects(answer: bytes, reason: str) -> None:
    site = Network().site("A")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(MIB)
        writer.write(answer)
        writer.close()

    async def links() -> LinkView:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        remote = RemoteAddress(f"tcp://127.0.0.1:{port}", "127.0.0.1", port)
        reconnect = ReconnectSettings(initial_delay_ms=1, max_delay_ms=1, max_attempts=1)
        settings = NetworkConnectorSettings(BridgeSettings(name="link"), (remote,), reconnect)
        turn = Turn(asyncio.get_running_loop(), site.broker, SystemClock())
        link = Link(settings, remote, site.broker, "tcp://a:1", turn, NetworkRoutes())
        await live(link)
        server.close()
        return link.view()

    view = asyncio.run(links())
    assert view.reason.startswith(reason)


class Choices:
    """An environment with all pairs of a number below three and one below two; duck-typed to `Environment`."""

    def __init__(self) -> None:
        self._numbers = chain.from_iterable(product(range(3), range(2)))

    def random_bytes(self, count: int) -> bytes:
        return next(self._numbers).to_bytes(count, "big")


class ChoosingBroker:
    """A broker of which only the random numbers are asked."""

    def __init__(self) -> None:
        self.environment = Choices()


def test_a_link_that_shuffles_its_brokers_tries_them_in_every_order() -> None:
    remotes = [RemoteAddress(f"tcp://{name}:1", name, 1) for name in "bcd"]
    remote = replace(remotes[0], others=(remotes[1], remotes[2]), shuffled=True)
    settings = NetworkConnectorSettings(BridgeSettings(name="link"), (remote,))
    link = Link(settings, remote, ChoosingBroker(), "tcp://a:1", ClockTurn(), NetworkRoutes())  # type: ignore[arg-type]
    orders = {"".join(one.host for one in link._addresses()) for _ in range(6)}
    assert orders == {"bcd", "bdc", "cbd", "cdb", "dbc", "dcb"}


def test_a_link_that_has_never_been_up_counts_nothing() -> None:
    remote = RemoteAddress("tcp://b:1", "b", 1)
    settings = NetworkConnectorSettings(BridgeSettings(name="link"), (remote,))
    link = Link(settings, remote, Network().site("A").broker, "tcp://a:1", ClockTurn(), NetworkRoutes())  # type: ignore[arg-type]
    view = link.view()
    assert (view.state, view.remote, view.reason) == ("stopped", "", "")
    assert (view.demand, view.in_flight, view.enqueued, view.dequeued, view.reconnects) == (0, 0, 0, 0, 0)
    assert (view.received, view.failed, view.unserved, view.destinations, view.ways) == (0, 0, 0, (), ())


def test_a_link_that_was_just_started_is_connecting_and_its_state_is_young() -> None:
    remote = RemoteAddress("tcp://b:1", "b", 1)
    settings = NetworkConnectorSettings(BridgeSettings(name="link"), (remote,))
    turn = ClockTurn()
    for _ in range(1_000):
        turn.clock.now()  # the broker has run for long
    link = Link(settings, remote, Network().site("A").broker, "tcp://a:1", turn, NetworkRoutes())  # type: ignore[arg-type]
    assert (link.view().state, link.view().since_s <= 60.0) == ("stopped", True)

    async def starts() -> LinkView:
        link.start()
        view = link.view()
        link.stop()
        return view

    view = asyncio.run(starts())
    assert (view.state, view.since_s) == ("connecting", 30.0)


class KeptAgent:
    """An agent that keeps what it is told; duck-typed to `DiscoveryAgent`."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def start(self) -> None:
        self.heard.append("start")

    def ignore(self, uri: str) -> None:
        self.heard.append(f"ignore {uri}")

    def stop(self) -> None:
        self.heard.append("stop")


def test_the_agent_of_a_connector_starts_when_it_knows_where_this_broker_listens() -> None:
    discovery = DiscoverySettings(MulticastSettings())
    settings = NetworkConnectorSettings(BridgeSettings(name="link"), (), discovery=discovery)
    connector = NetworkConnector(settings, Network().site("A").broker, "tcp://a:1", ClockTurn(), NetworkRoutes())  # type: ignore[arg-type]
    discovered, agent = connector._discovered, KeptAgent()
    assert discovered is not None and discovered._agent is connector._agent is not None
    connector._agent = agent  # type: ignore[assignment]
    asyncio.run(connector.start(["tcp://a:1"]))
    connector.stop()
    assert agent.heard == ["ignore tcp://a:1", "start", "stop"]


def test_a_gossip_connector_that_others_have_linked_is_not_looking_for_brokers() -> None:
    bridge = BridgeSettings(name="mesh", duplex=True, user_name="u")
    discovery = DiscoverySettings(GossipSettings(("127.0.0.1",)), "gossip:(tcp://127.0.0.1:1)")
    settings = NetworkConnectorSettings(bridge, (), discovery=discovery)
    members, kept = Members("a", "ID:a"), KeptMembers(None, lambda: None)

    async def nobody(peer: Peer, text: str) -> str:
        raise AssertionError("there is nobody to be asked")

    def gossip() -> Gossip:
        return Gossip(members, list, list, SlowClock(), nobody, kept)

    broker = Network().site("A").broker
    connector = NetworkConnector(settings, broker, "tcp://a:1", ClockTurn(), NetworkRoutes(), gossip)  # type: ignore[arg-type]
    agent = connector._agent
    assert isinstance(agent, GossipAgent)
    assert [view.state for view in connector.views()] == ["stopped"]
    connector.is_started = True
    assert [view.state for view in connector.views()] == ["looking"]
    agent.tick(0.0, {}, frozenset({"stranger"}))  # a duplex link of a broker that does not gossip
    assert [view.state for view in connector.views()] == ["looking"]
    agent.tick(0.0, {"b": ()}, frozenset({"b"}))
    assert connector.views() == []  # the link of b is a view of its own
    agent.tick(1.0, {}, frozenset())
    assert [view.state for view in connector.views()] == ["looking"]
    assert connector._discovered is not None
    connector._discovered.on_found("tcp://127.0.0.1:2")  # to which the login of the connector is not sent
    agent.tick(2.0, {"b": ()}, frozenset({"b"}))
    assert [(view.uri, view.state, view.remote) for view in connector.views()] == [("tcp://127.0.0.1:2", "waiting", "")]
    agent.tick(3.0, {"b": ("tcp://127.0.0.1:2",)}, frozenset({"b"}))
    assert [(view.uri, view.remote) for view in connector.views()] == [("tcp://127.0.0.1:2", "b")]


def test_a_seed_that_is_not_reached_has_the_name_that_others_tell() -> None:
    seed = RemoteAddress("tcp://127.0.0.1:2", "127.0.0.1", 2)
    discovery = DiscoverySettings(GossipSettings(("127.0.0.1",)), "gossip:(tcp://127.0.0.1:2)")
    settings = NetworkConnectorSettings(BridgeSettings(name="mesh", user_name="u"), (seed,), discovery=discovery)

    async def nobody(peer: Peer, text: str) -> str:
        raise AssertionError("there is nobody to be asked")

    def gossip() -> Gossip:
        return Gossip(Members("a", "ID:a"), list, list, SlowClock(), nobody, KeptMembers(None, lambda: None))

    broker = Network().site("A").broker
    connector = NetworkConnector(settings, broker, "tcp://a:1", ClockTurn(), NetworkRoutes(), gossip)  # type: ignore[arg-type]
    agent = connector._agent
    assert isinstance(agent, GossipAgent)
    assert [view.remote for view in connector.views()] == [""]
    agent.tick(0.0, {"b": ("tcp://127.0.0.1:2",), "c": ("tcp://127.0.0.1:3",)}, frozenset())
    assert {view.remote for view in connector.views() if view.uri == seed.uri} == {"b"}


@pytest.mark.parametrize("end", [False, True])
def test_a_connector_that_is_stopped_tries_none_of_its_brokers_any_more(end: bool) -> None:
    remotes = tuple(RemoteAddress(f"tcp://{name}:1", name, 1) for name in "bc")
    settings = NetworkConnectorSettings(BridgeSettings(name="link"), remotes)
    connector = NetworkConnector(settings, Network().site("A").broker, "tcp://a:1", ClockTurn(), NetworkRoutes())  # type: ignore[arg-type]

    async def scenario() -> set[bool]:
        before = asyncio.all_tasks()
        await connector.start()
        tasks = asyncio.all_tasks() - before
        assert len(tasks) == len(remotes)
        if end:
            connector.end()
        else:
            connector.stop()
        await asyncio.wait(tasks, timeout=PATIENCE_S)
        return {task.cancelled() for task in tasks}

    assert asyncio.run(scenario()) == {True}
    assert [(view.uri, view.state) for view in connector.views()] == [
        ("tcp://b:1", "stopped"),
        ("tcp://c:1", "stopped"),
    ]
