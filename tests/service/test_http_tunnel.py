"""OpenWire over HTTP with real sockets: both shells of the client, TLS, links of brokers, a registry by HTTP."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spanwire.client import blocking
from spanwire.model.errors import JmsError
from spanwire.tls.settings import ClientTlsSettings, TrustStore
from tests.service.started import Started
from tests.service.test_networks import Linked, eventually, links, send_and_receive
from tests.support.certificates import Authority
from tests.support.client_shells import SHELLS, opened
from tests.support.ports import free_port

PASSWORD: Final = "c4n4ry-st0re"
PATIENCE_S: Final = 30


class Tunnelled(Started):
    """A broker with connectors for http and https."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        authority = Authority()
        self.key_store: Final = authority.issue().write_pkcs12(directory / "broker.p12", PASSWORD)
        self.trust: Final = authority.write_certificate(directory / "authority.pem")

    def text(self) -> str:
        store = f'<sslContext><sslContext keyStore="file:{self.key_store}" keyStorePassword="{PASSWORD}"/></sslContext>'
        connectors = '<transportConnector uri="http://127.0.0.1:0"/><transportConnector uri="https://127.0.0.1:0"/>'
        text = super().text().replace("<transportConnectors>", f"{store}<transportConnectors>")
        return text.replace("</transportConnectors>", f"{connectors}</transportConnectors>")

    def url(self, scheme: str) -> str:
        return f"{scheme}://127.0.0.1:{self.ports[scheme]}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tunnelled]:
    with Tunnelled(tmp_path_factory.mktemp("http")) as started:
        yield started


@pytest.mark.large
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_python_client_sends_and_receives(broker: Tunnelled, scheme: str, shell: str) -> None:
    bodies = [str(number) + " \u20ac" * 1000 for number in range(20)] + ["x" * 300_000]
    tls = ClientTlsSettings(TrustStore(broker.trust)) if scheme == "https" else None

    async def scenario() -> None:
        async with opened(shell, broker.url(scheme), tls=tls) as connection, connection.session() as session:
            producer = await session.create_producer(f"queue://{shell}.{scheme}")
            for body in bodies:
                await producer.send(body, properties={"n": 1})
            consumer = await session.create_consumer(f"queue://{shell}.{scheme}", prefetch=10)
            received = [await consumer.receive(PATIENCE_S) for _ in bodies]
            assert [message.body for message in received] == bodies
            assert received[0].properties["n"] == 1

    asyncio.run(scenario())


def test_messages_pass_between_tcp_and_http(broker: Tunnelled) -> None:
    assert send_and_receive(broker.broker_url, broker.url("http"), "MIXED.1", ["a", "b"]) == ["a", "b"]
    assert send_and_receive(broker.url("http"), broker.broker_url, "MIXED.2", ["c"]) == ["c"]


def test_a_refusal_has_its_class_and_text_over_http(broker: Tunnelled) -> None:
    with blocking.connect(broker.url("http"), client_id="taken"):
        with pytest.raises(JmsError, match="taken") as caught:
            blocking.connect(broker.url("http"), client_id="taken").close()
    assert type(caught.value).__name__ == "InvalidClientIdError"


def test_what_is_no_such_connector_is_told_in_one_line(broker: Tunnelled) -> None:
    with pytest.raises(JmsError, match="is the broker started") as caught:
        blocking.connect(f"http://127.0.0.1:{free_port()}")
    assert "\n" not in str(caught.value)
    with pytest.raises(JmsError) as foreign:
        blocking.connect(f"http://127.0.0.1:{broker.ports['tcp']}")
    assert "does not speak OpenWire over HTTP" in str(foreign.value)


def test_a_client_notices_that_its_broker_has_gone(tmp_path: Path) -> None:
    with Tunnelled(tmp_path / "b") as dying:
        connection = blocking.connect(dying.url("http"))
        session = connection.session()
        consumer = session.create_consumer("queue://A")
        ended: list[Exception] = []

        def receive() -> None:
            try:
                consumer.receive(PATIENCE_S)
            except JmsError as error:
                ended.append(error)

        thread = threading.Thread(target=receive)
        thread.start()
        dying.kill()
        thread.join(PATIENCE_S)
    assert len(ended) == 1


@pytest.mark.large
@pytest.mark.parametrize("duplex", ["false", "true"])
def test_brokers_are_linked_over_http(broker: Tunnelled, tmp_path: Path, duplex: str) -> None:
    uri = f"static:({broker.url('http')})?initialReconnectDelay=100"
    with Linked(tmp_path / "near", uri, more=f' duplex="{duplex}"') as near:
        assert eventually(lambda: [link["state"] for link in links(near)] == ["running"])
        queue = f"LINK.{duplex}"
        assert send_and_receive(near.broker_url, broker.broker_url, queue, ["one", "two"]) == ["one", "two"]
        if duplex == "true":
            assert send_and_receive(broker.broker_url, near.broker_url, "LINK.BACK", ["b"]) == ["b"]


def test_brokers_find_each_other_through_a_registry_by_http(tmp_path: Path) -> None:
    registry = f"http://127.0.0.1:{free_port()}/discovery-registry/tested"
    agent = f"{registry}?updateInterval=200&amp;startEmbeddRegistry=true"
    with Announcing(tmp_path / "far", agent) as far:
        uri = f"{registry}?updateInterval=200&amp;initialReconnectDelay=100"
        with Linked(tmp_path / "near", uri) as near:
            assert eventually(lambda: [link["state"] for link in links(near)] == ["running"])
            assert send_and_receive(near.broker_url, far.broker_url, "FOUND", ["f"]) == ["f"]
        with blocking.connect(f"discovery:({registry})") as connection, connection.session() as session:
            session.create_producer("queue://FOUND").send("by a client")


class Announcing(Started):
    """A broker that announces its OpenWire connector."""

    def __init__(self, directory: Path, agent: str) -> None:
        super().__init__(directory)
        self._agent: Final = agent

    def text(self) -> str:
        return super().text().replace('name="openwire"', f'name="openwire" discoveryUri="{self._agent}"')


def test_a_socket_of_another_protocol_is_closed_with_an_answer(broker: Tunnelled) -> None:
    with socket.create_connection(("127.0.0.1", broker.ports["http"]), PATIENCE_S) as plain:
        plain.sendall(b"CONNECT\naccept-version:1.2\n\n\0\r\n\r\n")
        assert plain.recv(1000).startswith(b"HTTP/1.1 400 ")
