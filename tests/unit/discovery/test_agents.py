"""The agents that need an extra: their URIs, and what of a stranger's word they take."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import ConnectionLoss, NoNodeError
from zeroconf import ServiceInfo, ServiceStateChange

from spanwire.discovery.agents import fabric
from spanwire.discovery.agents.agent_factory import make_agent, twin_settings
from spanwire.discovery.agents.fabric import MAX_NODE_BYTES, FabricAgent, hosts_of, services
from spanwire.discovery.agents.presence import Presence
from spanwire.discovery.agents.zeroconf import TYPE, Instances, ZeroconfAgent, service_info
from spanwire.discovery.groups.agent_settings import FabricSettings, ZeroconfSettings, parse_agent
from spanwire.discovery.groups.group import MulticastSettings
from spanwire.model.errors import ConfigurationError, JmsError


class Told:
    """A listener."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_found(self, uri: str) -> None:
        self.heard.append(f"+{uri}")

    def on_lost(self, uri: str) -> None:
        self.heard.append(f"-{uri}")


@pytest.mark.parametrize(
    ("uri", "settings"),
    [
        ("zeroconf://sales", ZeroconfSettings("sales")),
        ("rendezvous://sales", ZeroconfSettings("sales")),
        ("zeroconf:sales", ZeroconfSettings("sales")),
        ("zeroconf://default?group=sales&initialReconnectDelay=5", ZeroconfSettings("sales")),
        ("zeroconf:", ZeroconfSettings("default")),
        ("fabric://sales?zookeeper.url=a,b:2181", FabricSettings("sales", "a,b:2181")),
        ("multicast://sales", MulticastSettings(group="sales")),
    ],
)
def test_an_agent_says_where_to_look(uri: str, settings: object) -> None:
    assert parse_agent(uri) == settings


@pytest.mark.parametrize(
    ("uri", "wrong"),
    [
        ("zeroconf://a/b", "needs the name of a group"),
        ("zeroconf://a?group=b%20c", "letters, digits"),
        ("zeroconf://a?zookeeper.url=b", "has no option 'zookeeper.url'"),
        ("fabric://a?zookeeper.url=b;c", "no list of hosts"),
        ("static:(tcp://a:1)", "static: is no discovery agent"),
    ],
)
def test_an_agent_that_makes_no_sense_says_so(uri: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong):
        parse_agent(uri)


def test_of_multicast_and_zeroconf_each_is_announced_by_the_other_too() -> None:
    assert twin_settings(MulticastSettings(group="sales")) == ZeroconfSettings("sales")
    assert twin_settings(ZeroconfSettings("sales")) == MulticastSettings(group="sales")
    assert twin_settings(FabricSettings("sales")) is None


def test_a_registry_that_nobody_has_named_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOOKEEPER_URL", raising=False)
    with pytest.raises(ConfigurationError, match=r"add \?zookeeper.url=host:2181, or set ZOOKEEPER_URL"):
        hosts_of(FabricSettings("sales"))
    monkeypatch.setenv("ZOOKEEPER_URL", "h:2181")
    assert hosts_of(FabricSettings("sales")) == "h:2181"
    assert hosts_of(FabricSettings("sales", "other:1")) == "other:1"


def test_a_registry_that_is_down_keeps_nobody_from_starting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fabric, "WAIT_SECONDS", 0.1)

    async def scenario() -> None:
        agent = make_agent(FabricSettings("sales", "127.0.0.1:1"), Told())
        await agent.start()
        agent.announce("tcp://a:1")
        agent.stop()

    asyncio.run(scenario())
    assert (
        "fabric: no connection to the registry at 127.0.0.1:1; is ZooKeeper running? Connecting is repeated"
        in caplog.text
    )


class Directory:
    """A registry, duck-typed to the clients of ZooKeeper and zeroconf as far as they register."""

    connected = True

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}
        self.created = 0

    def ensure_path(self, path: str) -> None: ...

    def create(self, path: str, data: bytes, *, ephemeral: bool, sequence: bool) -> str:
        assert ephemeral and sequence
        self.created += 1
        self.nodes[f"{path}{self.created:010}"] = services(data)[0]
        return f"{path}{self.created:010}"

    def delete(self, path: str) -> None:
        if path not in self.nodes:
            raise NoNodeError
        del self.nodes[path]

    def register_service(self, info: ServiceInfo) -> None:
        self.nodes[info.name] = info.decoded_properties["uri"] or ""

    def unregister_service(self, info: ServiceInfo) -> None:
        del self.nodes[info.name]

    def stop(self) -> None: ...

    def close(self) -> None: ...


def test_a_withdrawn_connector_leaves_the_registry_and_may_come_back() -> None:
    for settings, client in ((FabricSettings("sales", "h:1"), "_client"), (ZeroconfSettings("sales"), "_zeroconf")):
        agent, registry = make_agent(settings), Directory()
        with ThreadPoolExecutor(1) as worker:
            vars(agent).update({client: registry, "_worker": worker})
            agent.announce("tcp://127.0.0.1:1")
            agent.announce("tcp://127.0.0.1:2")
            agent.withdraw("tcp://127.0.0.1:1")
            agent.withdraw("tcp://127.0.0.1:9")
        assert list(registry.nodes.values()) == ["tcp://127.0.0.1:2"]
        with ThreadPoolExecutor(1) as worker:
            vars(agent)["_worker"] = worker
            agent.announce("tcp://127.0.0.1:1")
        assert list(registry.nodes.values()) == ["tcp://127.0.0.1:2", "tcp://127.0.0.1:1"]


def test_all_agents_have_one_shape() -> None:
    async def scenario() -> None:
        for settings in (MulticastSettings(), ZeroconfSettings(), FabricSettings(hosts="h:1")):
            agent = make_agent(settings, Told())
            agent.ignore("tcp://a:1")
            agent.on_failure("tcp://a:1", 0.0)
            agent.stop()
            agent.stop()

    asyncio.run(scenario())


def test_comings_and_goings_are_told_once_each() -> None:
    async def scenario() -> list[str]:
        told = Told()
        presence = Presence("sales", told)
        presence.start()
        presence.ignore("tcp://me:1")
        for there in (
            ["tcp://a:1", "tcp://me:1"],
            ["tcp://a:1", "tcp://b:1"],
            ["tcp://b:1"],
            ["tcp://b:1", "x" * 2_000],
        ):
            presence.update_from_thread(there)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        presence.stop()
        presence.update_from_thread(["tcp://c:1"])
        await asyncio.sleep(0)
        return told.heard

    assert asyncio.run(scenario()) == ["+tcp://a:1", "+tcp://b:1", "-tcp://a:1"]


def test_whoever_is_no_use_is_lost_and_not_found_again_at_once() -> None:
    async def scenario() -> list[str]:
        told = Told()
        presence = Presence("sales", told)
        presence.start()
        presence.update_from_thread(["tcp://a:1"])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        presence.on_failure("tcp://a:1", 0.0)
        presence.update_from_thread(["tcp://a:1"])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        presence.stop()
        return told.heard

    assert asyncio.run(scenario()) == ["+tcp://a:1", "-tcp://a:1"]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (
            json.dumps({"id": "x", "container": "y", "services": ["tcp://a:1", "ssl://b:2"]}).encode(),
            ["tcp://a:1", "ssl://b:2"],
        ),
        (b'{"services": ["tcp://a:1", 7, null]}', ["tcp://a:1"]),
        (b'{"services": "tcp://a:1"}', []),
        (b'["tcp://a:1"]', []),
        (b"", []),
        (b"\xff", []),
        (b'{"services": ["' + b"x" * MAX_NODE_BYTES + b'"]}', []),
    ],
)
def test_a_node_of_the_registry_says_where_its_broker_is(data: bytes, found: list[str]) -> None:
    assert services(data) == found


NODES = st.lists(
    st.none() | st.text(max_size=10) | st.integers() | st.lists(st.text(max_size=5), max_size=2), max_size=5
)


@given(st.binary(max_size=50) | NODES.map(lambda value: json.dumps({"services": value}).encode()))
def test_no_node_of_the_registry_does_harm(data: bytes) -> None:
    assert all(isinstance(uri, str) for uri in services(data))


def test_a_record_of_zeroconf_has_the_real_port_and_its_group() -> None:
    info = service_info("sales", "tcp://127.0.0.1:61716")
    assert (info.type, info.port, info.parsed_addresses()) == (TYPE, 61716, ["127.0.0.1"])
    assert info.properties == {b"group": b"sales", b"uri": b"tcp://127.0.0.1:61716"}
    assert (
        info.name
        == service_info("sales", "tcp://127.0.0.1:61716").name
        != service_info("x", "tcp://127.0.0.1:61716").name
    )


@pytest.mark.parametrize(
    ("properties", "uri"),
    [
        ({b"group": b"sales", b"uri": b"tcp://a:1"}, "tcp://a:1"),
        ({b"group": b"other", b"uri": b"tcp://a:1"}, ""),
        ({b"group": b"sales", b"uri": b"\xff"}, ""),
        ({b"group": b"sales"}, ""),
        ({}, ""),
    ],
)
def test_a_record_of_another_group_or_of_nonsense_is_nobody(properties: dict[bytes, bytes], uri: str) -> None:
    info = ServiceInfo(TYPE, f"x.{TYPE}", port=1, properties=properties)
    assert Instances("sales", None)._uri(info) == uri
    assert Instances("sales", None)._uri(None) == ""


class Records:
    """What responders know, and what is registered with them; duck-typed to `zeroconf.Zeroconf`."""

    def __init__(self) -> None:
        self.known: dict[str, dict[bytes, bytes]] = {}
        self.registered: list[ServiceInfo] = []

    def get_service_info(self, service_type: str, name: str, timeout: int) -> ServiceInfo | None:
        properties = self.known.get(name)
        return None if properties is None else ServiceInfo(service_type, name, port=1, properties=properties)

    def register_service(self, info: ServiceInfo) -> None:
        self.registered.append(info)


@pytest.mark.parametrize("watched", [False, True])
def test_instances_come_and_go_also_where_nobody_listens(watched: bool) -> None:
    records, told = Records(), Told()
    records.known[f"x.{TYPE}"] = {b"group": b"sales", b"uri": b"tcp://a:1"}

    async def scenario() -> None:
        presence = Presence("sales", told)
        presence.start()
        instances = Instances("sales", presence if watched else None)
        for name, change in (
            (f"x.{TYPE}", ServiceStateChange.Added),
            (f"nobody.{TYPE}", ServiceStateChange.Added),
            (f"x.{TYPE}", ServiceStateChange.Removed),
        ):
            instances.on_change(records, TYPE, name, change)  # type: ignore[arg-type]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            told.heard.append(" ".join(instances.uris.values()))
        presence.stop()

    asyncio.run(scenario())
    found = ["tcp://a:1", "tcp://a:1", ""]
    assert told.heard == (["+tcp://a:1", *found[:2], "-tcp://a:1", ""] if watched else found)


class AtOnce:
    """A worker that does everything at once; duck-typed to `ThreadPoolExecutor`."""

    def submit(self, work: Callable[..., None], *words: object) -> None:
        work(*words)


def test_a_connector_is_registered_with_the_responder_when_it_is_announced() -> None:
    agent, records = ZeroconfAgent(ZeroconfSettings("sales")), Records()
    agent._zeroconf, agent._worker = records, AtOnce()  # type: ignore[assignment]
    agent.announce("tcp://127.0.0.1:61616")
    assert [info.properties[b"uri"] for info in records.registered] == [b"tcp://127.0.0.1:61616"]


class Registry:
    """ZooKeeper, as a client of it; duck-typed to `KazooClient`."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.nodes: list[bytes] = []
        self.failure = failure
        self.connected = True
        self.ended: list[str] = []

    def start(self, timeout: float) -> None:
        if isinstance(self.failure, OSError):
            raise self.failure

    def ensure_path(self, path: str) -> None:
        self.get_children(path)

    def create(self, path: str, data: bytes, ephemeral: bool, sequence: bool) -> None:
        assert ephemeral and sequence
        self.nodes.append(data)

    def get_children(self, path: str) -> list[str]:
        if self.failure is not None:
            raise self.failure
        return [str(number) for number in range(len(self.nodes))]

    def get(self, path: str) -> tuple[bytes, None]:
        if self.failure is not None:
            raise self.failure
        return self.nodes[int(path.rpartition("/")[2])], None

    def stop(self) -> None:
        self.ended.append("stop")

    def close(self) -> None:
        self.ended.append("close")


def test_a_connector_is_registered_in_the_registry_once_when_it_is_announced() -> None:
    agent, registry = FabricAgent(FabricSettings("sales", "h:1")), Registry()
    agent._client, agent._worker = registry, AtOnce()  # type: ignore[assignment]
    agent.announce("tcp://a:1")
    agent.announce("ssl://a:2")
    assert [services(data) for data in registry.nodes] == [["tcp://a:1"], ["ssl://a:2"]]


@pytest.mark.parametrize("settings", [ZeroconfSettings("sales"), FabricSettings("sales", "h:1")])
def test_a_broker_does_not_find_what_it_announces_itself(settings: ZeroconfSettings | FabricSettings) -> None:
    async def scenario() -> list[str]:
        told = Told()
        agent = make_agent(settings, told)
        assert isinstance(agent, ZeroconfAgent | FabricAgent)
        agent._presence.start()
        agent.announce("tcp://me:1")
        agent._presence.update_from_thread(["tcp://me:1", "tcp://a:1"])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        agent.stop()
        agent._presence.update_from_thread(["tcp://b:1"])  # the thread of the registry goes on for a moment
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return told.heard

    assert asyncio.run(scenario()) == ["+tcp://a:1"]


@pytest.mark.parametrize("failure", [None, NoNodeError(), ConnectionLoss(), OSError(111, "refused")])
def test_a_look_into_the_registry_closes_its_connection(
    failure: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(failure)
    monkeypatch.setattr(fabric, "KazooClient", lambda hosts, timeout: registry)
    registry.nodes.append(b'{"services": ["tcp://a:1"]}')
    if failure is None or isinstance(failure, NoNodeError):
        assert fabric.find_uris(FabricSettings("sales", "h:1")) == (["tcp://a:1"] if failure is None else [])
    else:
        why = "is ZooKeeper running" if isinstance(failure, OSError) else "does not answer: ConnectionLoss"
        with pytest.raises(JmsError, match=why):
            fabric.find_uris(FabricSettings("sales", "h:1"))
    assert registry.ended == ["stop", "close"]


def test_failures_of_the_registry_are_told_with_their_kind_when_they_say_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent, registry = FabricAgent(FabricSettings("sales", "h:1")), Registry(ConnectionLoss())
    agent._client, agent._worker = registry, AtOnce()  # type: ignore[assignment]
    agent.announce("tcp://a:1")
    agent._watch()
    assert fabric.read_nodes(registry, "/sales", ["7"]) == []
    assert caplog.messages == [
        "fabric: a connector cannot be registered: ConnectionLoss",
        f"fabric: {FabricSettings('sales', 'h:1').description} cannot be watched: ConnectionLoss",
        "fabric: /sales/7 cannot be read: ConnectionLoss",
    ]
