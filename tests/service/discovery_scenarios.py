"""What happens inside the network namespaces of `test_discovery.py`: ``python -m … SCENARIO DIRECTORY``.

Ends with 0, or with an AssertionError. Several brokers, one machine, nobody else within reach.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import Final, Self

import pytest

from spanwire.client import aio, blocking
from spanwire.discovery.agents.fabric import find_uris
from spanwire.discovery.groups.agent_settings import FabricSettings
from spanwire.discovery.groups.beacon import Beacon
from spanwire.discovery.groups.group import DEFAULT_HOST, DEFAULT_PORT
from spanwire.model.errors import JmsError
from tests.service.started import Started, spanwire
from tests.service.test_networks import eventually, free_ports, send_and_receive
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority
from tests.support.classic import classic_command
from tests.support.zookeeper import ZooKeeper

USER: Final = "bridge-user"
PASSWORD: Final = "c4n4ry-f0und"
LOGIN: Final = f'userName="{USER}" password="{PASSWORD}"'
USERS: Final = (
    f'<plugins><simpleAuthenticationPlugin><users><authenticationUser username="{USER}" password="{PASSWORD}" '
    'groups="all"/></users></simpleAuthenticationPlugin></plugins>'
)
LET_IN: Final = USERS.replace(
    "<simpleAuthenticationPlugin>", '<simpleAuthenticationPlugin anonymousAccessAllowed="true">'
)


class Announced(Started):
    """A broker that announces its OpenWire and its STOMP connector, and looks for others."""

    def __init__(
        self, directory: Path, name: str, group: str = "default", more: str = "", inside: str = "", scheme: str = "tcp"
    ) -> None:
        super().__init__(directory, arguments=("--allow-anonymous",))
        self._name: Final = name
        self._group: Final = group
        self._more: Final = more
        self._inside: Final = inside
        self._scheme: Final = scheme
        self.agent = ""

    def text(self) -> str:
        agent = self.agent or f"multicast://default?group={self._group}"
        text = super().text().replace('"tested"', f'"{self._name}"').replace('}"/>', f'}}" discoveryUri="{agent}"/>')
        text = text.replace('uri="tcp://', f'uri="{self._scheme}://')
        connector = f'<networkConnector name="found" uri="{agent}" {self._more}/>'
        connectors = f"<networkConnectors>{connector}</networkConnectors>{self._inside}"
        return text.replace("  <transportConnectors>", f"  {connectors}<transportConnectors>")


def rows(broker: Started) -> list[dict[str, object]]:
    return broker.network("network_connectors")


def linked_to(broker: Started) -> list[str]:
    """The names of the brokers to which there is a link that is up."""
    return sorted(str(row["remote"]) for row in rows(broker) if row["state"] == "running")


def operate(broker: Started, *arguments: str) -> None:
    done = spanwire(*arguments, "--data-directory", str(broker.data))
    assert done.returncode == 0, done.stderr


class Rogue:
    """Says whatever it wants to the group, and listens where it says; keeps what it is sent. With ``tls`` it speaks it
    and keeps what comes out of it.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls: Final = tls
        self.heard: Final[list[bytes]] = []
        self._listener: Final = socket.create_server(("127.0.0.1", 0))
        self._sender: Final = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.port: Final = int(self._listener.getsockname()[1])
        self.connections = 0
        self._thread: Final = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._sender.close()

    def says(self, data: bytes) -> None:
        self._sender.sendto(data, (DEFAULT_HOST, DEFAULT_PORT))

    def announces(self, uri: str) -> None:
        self.says(Beacon("default", uri).encode())

    def _listen(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            accepted.settimeout(1)
            try:
                if self._tls is not None:
                    accepted = self._tls.wrap_socket(accepted, server_side=True)
                while data := accepted.recv(65536):
                    self.heard.append(data)
            except OSError:
                pass
            finally:
                accepted.close()


def brokers_find_each_other_and_not_themselves(directory: Path) -> None:
    with (
        Announced(directory / "a", "A") as a,
        Announced(directory / "b", "B") as b,
        Announced(directory / "c", "C") as c,
    ):
        assert eventually(lambda: linked_to(a) == ["B", "C"]), (rows(a), a.errors)
        assert eventually(lambda: linked_to(b) == ["A", "C"]), (rows(b), b.errors)
        assert eventually(lambda: linked_to(c) == ["A", "B"]), (rows(c), c.errors)
        uris = {row["uri"] for row in rows(a)}
        assert uris == {f"tcp://127.0.0.1:{one.ports['tcp']}" for one in (b, c)}
        assert send_and_receive(a.broker_url, b.broker_url, "FORTH", ["f"]) == ["f"]
        assert send_and_receive(b.broker_url, a.broker_url, "BACK", ["b"]) == ["b"]
        assert eventually(lambda: any("stomp://" in line and "is not used" in line for line in a.errors)), a.errors
        for one in (a, b, c):
            assert one.stop() == 0
            assert not any("Traceback" in line for line in one.errors), one.errors


def a_broker_that_leaves_is_lost_and_found_when_it_comes_back(directory: Path) -> None:
    with Announced(directory / "a", "A") as a, Announced(directory / "b", "B") as b:
        assert eventually(lambda: linked_to(a) == ["B"])
        assert b.stop() == 0
        assert eventually(lambda: [row["state"] for row in rows(a)] == ["looking"]), rows(a)
        b.start()
        assert eventually(lambda: linked_to(a) == ["B"]), rows(a)
        b.kill()
        assert eventually(lambda: [row["state"] for row in rows(a)] == ["looking"]), rows(a)
        b.start()
        assert eventually(lambda: linked_to(a) == ["B"]), rows(a)
        operate(b, "connector", "stop", "openwire")
        assert eventually(lambda: [row["state"] for row in rows(a)] == ["looking"]), rows(a)
        operate(b, "connector", "start", "openwire")
        assert eventually(lambda: linked_to(a) == ["B"]), rows(a)


def another_name_of_the_broker_itself_is_no_other_broker(directory: Path) -> None:
    with Announced(directory / "a", "A") as a, Rogue() as rogue:
        port = a.ports["tcp"]
        rogue.announces(f"tcp://localhost:{port}")
        assert eventually(lambda: any("is this broker itself" in line for line in a.errors)), a.errors
        for _ in range(3):
            rogue.says(Beacon("default", f"tcp://localhost:{port}", alive=False).encode())
            rogue.announces(f"tcp://localhost:{port}")
        rogue.announces("tcp://last/")
        assert eventually(lambda: any("tcp://last/ is not used" in line for line in a.errors)), a.errors
        assert [row["state"] for row in rows(a)] == ["looking"]
        assert len([line for line in a.errors if f"discovered tcp://localhost:{port}" in line]) == 1, a.errors


def groups_do_not_hear_each_other(directory: Path) -> None:
    with Announced(directory / "a", "A", "x") as a, Announced(directory / "b", "B", "y") as b:
        with Announced(directory / "c", "C", "x") as c:
            assert eventually(lambda: linked_to(a) == ["C"] and linked_to(c) == ["A"])
            assert linked_to(b) == []


def whatever_a_rogue_announces_no_login_reaches_it(directory: Path) -> None:
    trust = Authority().write_certificate(directory / "trust.pem")
    inside = f'<sslContext><sslContext trustStore="file:{trust}"/></sslContext>'
    with Announced(directory / "a", "A", more=LOGIN, inside=LET_IN + inside) as a, Rogue() as rogue:
        port = rogue.port
        for data in (
            b"",
            b"\xff" * 9000,
            b"default.ActiveMQ-4.alive.%x",
            b"default.ActiveMQ-4.alive.%x%" + b"a" * 8000,
        ):
            rogue.says(data)
        for uri in (
            f"tcp://127.0.0.1:{port}",
            f"vm://x?brokerConfig=xbean:http://127.0.0.1:{port}/x.xml",
            f"xbean:http://127.0.0.1:{port}/x.xml",
            f"static:(tcp://127.0.0.1:{port})",
            f"failover:(tcp://127.0.0.1:{port})",
            f"masterslave:(tcp://127.0.0.1:{port},tcp://127.0.0.1:{port})",
            f"http://127.0.0.1:{port}",
            f"tcp://{USER}:x@127.0.0.1:{port}",
        ):
            rogue.announces(uri)
        assert eventually(lambda: sum("is not used" in line for line in a.errors) >= 8), a.errors
        assert rogue.connections == 0
        rogue.announces(f"ssl://127.0.0.1:{port}?verifyHostName=false&socket.verifyHostName=false")
        assert eventually(lambda: rogue.connections == 1)
        assert eventually(lambda: any("discovered ssl://127.0.0.1" in line for line in a.errors)), a.errors
        assert PASSWORD.encode() not in b"".join(rogue.heard)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(Authority("Rogue").issue().write_pem(directory / "rogue.pem"))
        with Rogue(tls) as posing:
            posing.announces(f"ssl://127.0.0.1:{posing.port}?verifyHostName=false&socket.verifyHostName=false")
            assert eventually(lambda: any("certificate of the remote broker is refused" in line for line in a.errors))
            assert (posing.connections, posing.heard) == (1, [])
        assert not any(PASSWORD in line or "Traceback" in line for line in a.errors)
        assert a.stop() == 0
    more = f'{LOGIN} sendLoginToDiscovered="true"'
    with Announced(directory / "b", "B", more=more, inside=LET_IN) as b, Rogue() as rogue:
        rogue.announces(f"tcp://127.0.0.1:{rogue.port}")
        assert eventually(lambda: rogue.connections == 1), b.errors
        b.awaits("any host in reach of the group can request the login")


def a_login_reaches_a_verified_broker(directory: Path) -> None:
    authority = Authority()
    trust = authority.write_certificate(directory / "trust.pem")
    key_store = authority.issue().write_pkcs12(directory / "broker.p12", PASSWORD)
    stores = (
        f'<sslContext><sslContext keyStore="file:{key_store}" keyStorePassword="{PASSWORD}" '
        f'trustStore="file:{trust}"/></sslContext>'
    )
    with Announced(directory / "a", "A", more=LOGIN, inside=USERS + stores, scheme="ssl") as a:
        with Announced(directory / "b", "B", more=LOGIN, inside=USERS + stores, scheme="ssl") as b:
            assert eventually(lambda: linked_to(a) == ["B"]), (rows(a), a.errors)
            assert eventually(lambda: linked_to(b) == ["A"]), (rows(b), b.errors)


class Led(Started):
    """A broker with one link to whichever of two is master."""

    def __init__(self, directory: Path, ports: list[int]) -> None:
        super().__init__(directory)
        self._uris: Final = ",".join(f"tcp://127.0.0.1:{port}" for port in ports)

    def text(self) -> str:
        uri = f"masterslave:({self._uris})?initialReconnectDelay=100"
        connectors = f'<networkConnectors><networkConnector uri="{uri}"/></networkConnectors>'
        text = super().text().replace('"tested"', '"led"')
        return text.replace("  <transportConnectors>", f"  {connectors}<transportConnectors>")


def one_link_leads_to_the_master_and_then_to_the_next(directory: Path) -> None:
    ports = free_ports(2)
    first, second = Started(directory / "one"), Started(directory / "two")
    first.ports["tcp"], second.ports["tcp"] = ports
    with Led(directory / "led", ports) as led, second:

        def uris() -> list[object]:
            return [row["uri"] for row in rows(led) if row["state"] == "running"]

        assert eventually(lambda: uris() == [f"tcp://127.0.0.1:{ports[1]}"]), (rows(led), led.errors)
        second.kill()
        assert eventually(lambda: any("none of 2 brokers can be used: " in line for line in led.errors)), led.errors
        with first:
            second.start()
            assert eventually(lambda: len(uris()) == 1), led.errors
            assert send_and_receive(led.broker_url, str(uris()[0]), "Q", ["one"]) == ["one"]


def classic_and_spanwire_find_each_other(directory: Path) -> None:
    agent = "multicast://default?group=default"
    inside = f'<networkConnectors><networkConnector name="seen" uri="{agent}"/></networkConnectors>\n'
    announcing = f'trace=false" discoveryUri="{agent}'  # an attribute behind the options of each connector's uri
    classic = BrokerProcess(
        classic_command, directory / "classic", name="classic", inside=inside, connectors=announcing
    )
    with Announced(directory / "near", "near") as near, classic:
        assert eventually(lambda: linked_to(near) == ["classic"]), (rows(near), near.errors, classic.log[-20:])
        assert eventually(lambda: any("near" in line and "established" in line for line in classic.log)), classic.log
        there = f"tcp://127.0.0.1:{classic.openwire_port}"
        assert send_and_receive(near.broker_url, there, "FORTH", ["f"]) == ["f"]
        assert send_and_receive(there, near.broker_url, "BACK", ["b"]) == ["b"]
        classic.stop()
        assert eventually(lambda: [row["state"] for row in rows(near)] == ["looking"]), (rows(near), near.errors)


def a_client_finds_a_broker_and_another_one_when_that_is_gone(directory: Path) -> None:
    url = "discovery:(multicast://default)?initialReconnectDelay=100&maxReconnectDelay=1000"
    with pytest.raises(JmsError, match="no broker was discovered in group default"):
        blocking.connect(f"{url}&maxReconnectAttempts=1")
    with Announced(directory / "a", "A") as a, Announced(directory / "b", "B") as b:
        with blocking.connect(url) as connection, connection.session() as session:
            first, other = (a, "B") if connection.broker_name == "A" else (b, "A")
            session.create_producer("queue://Q").send("one")
            first.kill()
            producer = session.create_producer("queue://R")
            producer.send("two")
            assert connection.broker_name == other
            consumer = session.create_consumer("queue://R")
            message = consumer.receive(60.0)
            assert message is not None and message.body == "two"
            assert consumer.receive(0.1) is None
    asyncio.run(_asynchronously(directory, url))


async def _asynchronously(directory: Path, url: str) -> None:
    with Announced(directory / "c", "C"):
        async with aio.connect(url) as connection, connection.session() as session:
            assert connection.broker_name == "C"
            await (await session.create_producer("queue://Q")).send("one")


def a_client_sends_its_login_to_no_rogue(directory: Path) -> None:
    url = "discovery:(multicast://default)?maxReconnectAttempts=1"
    with Rogue() as rogue:
        stop = threading.Event()

        def announce() -> None:
            while not stop.wait(0.1):
                for uri in (f"tcp://127.0.0.1:{rogue.port}", f"ssl://127.0.0.1:{rogue.port}", "vm://x"):
                    rogue.announces(uri)

        speaker = threading.Thread(target=announce)
        speaker.start()
        try:
            with pytest.raises(JmsError, match="none of 2 discovered brokers may be sent the login"):
                blocking.connect(url, USER, PASSWORD)
        finally:
            stop.set()
            speaker.join()
        assert (rogue.connections, rogue.heard) == (0, [])


def peers_share_their_messages(directory: Path) -> None:
    log = Heard()
    with (
        blocking.connect("peer://group/broker1?persistent=false") as one,
        blocking.connect("peer://group/broker2?persistent=false") as other,
        one.session() as near,
        other.session() as far,
    ):
        consumer = near.create_consumer("queue://TEST.FOO")
        producer = far.create_producer("queue://TEST.FOO")
        for number in range(100):
            producer.send(f"Message: {number}")
        for number in range(100):
            message = consumer.receive(60.0)
            assert message is not None and message.body == f"Message: {number}"
    assert log.has("Establishing network connection between from vm://broker2 to tcp://127.0.0.1:")
    assert log.has("Network connection between vm://broker2 and broker1 has been established.")


class Heard(logging.Handler):
    """What was logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: Final[list[str]] = []
        logger = logging.getLogger("spanwire")
        logger.setLevel(logging.INFO)
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def has(self, beginning: str) -> bool:
        return any(line.startswith(beginning) for line in self.lines)


def a_fanout_reaches_all_that_announce_themselves(directory: Path) -> None:
    url = "fanout:(multicast://default?group=fans)?minAckCount=2"
    with Announced(directory / "a", "A", "fans") as a, Announced(directory / "b", "B", "fans") as b:
        addresses = [f"tcp://127.0.0.1:{broker.ports['tcp']}" for broker in (a, b)]
        with blocking.connect(addresses[0]) as here, blocking.connect(addresses[1]) as there:
            consumers = [connection.session().create_consumer("topic://T") for connection in (here, there)]
            with blocking.connect(url) as connection, connection.session() as session:
                session.create_producer("topic://T").send("all", wait=True)
                for consumer in consumers:
                    message = consumer.receive(60.0)
                    assert message is not None and message.body == "all"


def zeroconf_finds_brokers_that_multicast_announces_and_the_other_way_round(directory: Path) -> None:
    """The configuration of the guide: the broker says multicast, the client zeroconf."""
    url = "discovery:(zeroconf://NEGroup)?initialReconnectDelay=100&maxReconnectDelay=500&maxReconnectAttempts=20"
    with Announced(directory / "a", "A", "NEGroup") as a:
        with blocking.connect(url) as connection:
            assert connection.broker_name == "A"
        other = Announced(directory / "b", "B", "NEGroup")
        other.agent = "rendezvous://NEGroup"
        with other:
            assert eventually(lambda: "running" in states(other) and "running" in states(a))


def states(broker: Started) -> list[object]:
    return [row["state"] for row in rows(broker)]


def brokers_of_a_fabric_find_each_other_and_clients_them(directory: Path) -> None:
    with ZooKeeper(directory / "zookeeper") as registry:
        agent = f"fabric://nwBrokers?zookeeper.url={registry.hosts}"
        url = f"discovery:({agent})?initialReconnectDelay=100&maxReconnectDelay=500&maxReconnectAttempts=20"
        a, b = Announced(directory / "a", "A"), Announced(directory / "b", "B")
        a.agent = b.agent = agent
        with a, b:
            assert eventually(lambda: "running" in states(a) and "running" in states(b))
            with blocking.connect(url) as connection, connection.session() as session:
                first = {"A": a, "B": b}[str(connection.broker_name)]
                session.create_producer("queue://Q").send("one")
                first.kill()
                session.create_producer("queue://R").send("two")
                assert {connection.broker_name} == {"A", "B"} - {"A" if first is a else "B"}
        assert eventually(lambda: find_uris(FabricSettings("nwBrokers", registry.hosts)) == [])


SCENARIOS: Final = (
    brokers_of_a_fabric_find_each_other_and_clients_them,
    zeroconf_finds_brokers_that_multicast_announces_and_the_other_way_round,
    a_fanout_reaches_all_that_announce_themselves,
    peers_share_their_messages,
    a_client_finds_a_broker_and_another_one_when_that_is_gone,
    a_client_sends_its_login_to_no_rogue,
    brokers_find_each_other_and_not_themselves,
    a_broker_that_leaves_is_lost_and_found_when_it_comes_back,
    another_name_of_the_broker_itself_is_no_other_broker,
    groups_do_not_hear_each_other,
    whatever_a_rogue_announces_no_login_reaches_it,
    a_login_reaches_a_verified_broker,
    one_link_leads_to_the_master_and_then_to_the_next,
    classic_and_spanwire_find_each_other,
)

if __name__ == "__main__":
    {scenario.__name__: scenario for scenario in SCENARIOS}[sys.argv[1]](Path(sys.argv[2]))
