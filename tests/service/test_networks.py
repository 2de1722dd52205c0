"""Network connectors over real sockets: the samples of the documents, TLS, reasons and delays in the log, status."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from spanwire.client import blocking
from tests.service.started import Started, StompClient, spanwire
from tests.support.certificates import Authority
from tests.support.ports import free_port

SAMPLES: Final = Path(__file__).parents[1] / "vectors" / "configurations"
PATIENCE_S: Final = 60.0
PASSWORD: Final = "c4n4ry-st0re"


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now."""
    return [free_port() for _ in range(count)]


def eventually(what: Callable[[], bool]) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Sample(Started):
    """A sample as it stands, on ports that are free."""

    def __init__(self, directory: Path, name: str, ports: dict[str, int]) -> None:
        super().__init__(directory, arguments=("--allow-anonymous", "--data-directory", str(directory / "data")))
        self._name: Final = name
        self._replaced: Final = ports

    def text(self) -> str:
        text = (SAMPLES / self._name).read_text("utf-8")
        for documented, port in self._replaced.items():
            text = text.replace(f":{documented}", f":{port}")
        return text.replace("{", "{{").replace("}", "}}")


class Linked(Started):
    """A broker with one network connector."""

    def __init__(self, directory: Path, uri: str, inside: str = "", more: str = "") -> None:
        super().__init__(directory)
        self._uri: Final = uri
        self._inside: Final = inside
        self._more: Final = more

    def text(self) -> str:
        connector = (
            f'<networkConnectors><networkConnector name="link" uri="{self._uri}"{self._more}/></networkConnectors>'
        )
        text = super().text().replace('"tested"', '"near"')
        return text.replace("  <transportConnectors>", f"  {connector}{self._inside}<transportConnectors>")


def links(broker: Started) -> list[dict[str, object]]:
    return broker.network("network_connectors")


def send_and_receive(near: str, far: str, queue: str, texts: list[str]) -> list[object]:
    """Sends at one broker, receives at the other."""
    with blocking.connect(near) as sender, blocking.connect(far) as receiver:
        with sender.session() as out, receiver.session() as back:
            producer = out.create_producer(f"queue://{queue}")
            for text in texts:
                producer.send(text)
            consumer = back.create_consumer(f"queue://{queue}")
            messages = [consumer.receive(PATIENCE_S) for _ in texts]
    return [None if message is None else message.body for message in messages]


@pytest.mark.large
def test_the_connectors_of_the_documents_forward_from_a_to_b_and_from_b_to_a(tmp_path: Path) -> None:
    a, b = free_ports(2)
    ports = {"61001": a, "61002": b}
    with Sample(tmp_path / "a", "01-single-connector.xml", ports):
        with Sample(tmp_path / "b", "02-two-way-connector.xml", ports):
            one, other = f"tcp://127.0.0.1:{a}", f"tcp://127.0.0.1:{b}"
            assert send_and_receive(one, other, "FORTH", ["f"]) == ["f"]
            assert send_and_receive(other, one, "BACK", ["b"]) == ["b"]


def test_three_connectors_of_the_documents_are_three_links(tmp_path: Path) -> None:
    a, b = free_ports(2)
    ports = {"61001": a, "61002": b}
    with Sample(tmp_path / "b", "02-two-way-connector.xml", ports):
        with Sample(tmp_path / "s", "04-three-connectors.xml", ports) as sample:
            assert eventually(lambda: [link["state"] for link in links(sample)] == ["running"] * 3)
            names = [link["name"] for link in links(sample)]
            assert names == ["link01ToBrokerB", "link02ToBrokerB", "link03ToBrokerB"]


@pytest.mark.large
def test_a_duplex_connector_carries_both_directions_and_both_ends_show_the_link(tmp_path: Path) -> None:
    with Started(tmp_path / "far") as far:
        uri = f"static:(tcp://127.0.0.1:{far.ports['tcp']})?initialReconnectDelay=100"
        with Linked(tmp_path / "near", uri, more=' duplex="true" useCompression="true"') as near:
            assert eventually(lambda: [link["state"] for link in links(far)] == ["running"])
            assert send_and_receive(near.broker_url, far.broker_url, "FORTH", ["f"]) == ["f"]
            assert send_and_receive(far.broker_url, near.broker_url, "BACK", ["b"]) == ["b"]
            (here,), (there,) = links(near), links(far)
            assert (here["remote"], there["remote"], here["duplex"], there["duplex"]) == ("tested", "near", True, True)
            assert (here["enqueued"], there["enqueued"]) == (1, 1)
            shown = spanwire("network", "map", "--data-directory", str(far.data)).stdout
            assert "  <-> near by link (" in shown
            for broker in (near, far):  # what holds for a link is seen at both ends
                shown = spanwire("query", "-QNetworkConnector=link", "--data-directory", str(broker.data)).stdout
                assert "\nUseCompression = True\n" in shown
                assert "\nPrefetchSize = 1000\n" in shown
            near.kill()
            assert eventually(lambda: [link["state"] for link in links(far)] == ["waiting"])
            (gone,) = links(far)
            assert (gone["remote"], gone["reason"], gone["enqueued"]) == ("near", "the connection was closed", 1)


def settings(broker: Started) -> list[dict[str, object]]:
    return broker.network("network_settings")


def test_the_destinations_of_durable_subscriptions_of_a_connector_are_seen(tmp_path: Path) -> None:
    with Started(tmp_path / "far") as far:
        uri = f"static:(tcp://127.0.0.1:{far.ports['tcp']})?initialReconnectDelay=100"
        with Linked(tmp_path / "near", uri) as near:
            assert [one["durableDestinations"] for one in settings(near)] == [[]]
            with blocking.connect(far.broker_url, client_id="c") as connection, connection.session() as session:
                session.create_durable_subscriber("topic://T", "s")
                assert eventually(lambda: [one["durableDestinations"] for one in settings(near)] == [["topic://T"]])


@pytest.mark.large
def test_a_connector_without_auto_start_waits_for_an_operator_who_may_also_stop_it(tmp_path: Path) -> None:
    with Started(tmp_path / "far") as far:
        uri = f"static:(tcp://127.0.0.1:{far.ports['tcp']})?initialReconnectDelay=100"
        with Linked(tmp_path / "near", uri, more=' autoStart="false"') as near:
            here = ("--data-directory", str(near.data))
            assert [link["state"] for link in links(near)] == ["stopped"]
            assert spanwire("network", "start", "link", *here).returncode == 0
            assert eventually(lambda: [link["state"] for link in links(near)] == ["running"])
            assert send_and_receive(near.broker_url, far.broker_url, "FORTH", ["f"]) == ["f"]
            stopped = spanwire("network", "stop", "link", *here)
            assert stopped.stdout == f"network connector link: tcp://127.0.0.1:{far.ports['tcp']} stopped\n"
            (link,) = links(near)
            assert (link["state"], link["demand"], link["enqueued"]) == ("stopped", 0, 1)
            assert spanwire("network", "start", "link", "link", *here).returncode == 0
            assert eventually(lambda: [link["state"] for link in links(near)] == ["running"])
            assert send_and_receive(near.broker_url, far.broker_url, "FORTH", ["g"]) == ["g"]
            refused = spanwire("network", "stop", "other", *here)
            assert refused.returncode != 0
            assert refused.stderr == "spanwire network: unknown network connector other; known are link\n"


class Near(Started):
    """A broker of its own name without network connectors."""

    def text(self) -> str:
        return super().text().replace('"tested"', '"near"')


@pytest.mark.large
def test_an_operator_adds_and_removes_a_network_connector(tmp_path: Path) -> None:
    with Started(tmp_path / "far") as far, Near(tmp_path / "near") as near:
        here = ("--data-directory", str(near.data))
        uri = f"static:(tcp://127.0.0.1:{far.ports['tcp']})"
        words = ("network", "add", uri, "--link", "toFar", "--set")
        shown = spanwire(*words, "remotePassword=canary", *here)
        assert (shown.returncode, "canary" in shown.stderr) == (2, False)
        secret = {"SPANWIRE_LINK_PASSWORD": "canary"}
        added = spanwire(*words, "remoteUserName=far", *here, environment=secret)
        assert (added.returncode, added.stderr) == (0, "")
        assert added.stdout.startswith(f"network connector toFar: tcp://127.0.0.1:{far.ports['tcp']} ")
        assert eventually(lambda: [link["state"] for link in links(near)] == ["running"])
        assert send_and_receive(near.broker_url, far.broker_url, "FORTH", ["f"]) == ["f"]
        taken = spanwire("network", "add", uri, "--link", "toFar", *here)
        assert taken.stderr == "spanwire network: there is a network connector toFar already\n"
        refused = spanwire("network", "add", "static:(vm://far)", *here)
        assert (refused.returncode, links(near)[1:]) == (1, [])
        assert "vm: is no address of one broker" in refused.stderr
        removed = spanwire("network", "remove", "toFar", *here)
        assert removed.stdout == f"network connector toFar: tcp://127.0.0.1:{far.ports['tcp']} removed\n"
        assert links(near) == []
        near.awaits('network-remove {"connectors": ["toFar"]} done')
        assert not any("canary" in line for line in near.errors)


def test_a_remote_broker_that_is_down_is_one_line_and_a_state(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    uri = f"static:(tcp://127.0.0.1:{port})?initialReconnectDelay=100"
    with Linked(tmp_path / "near", uri) as near:
        near.awaits("next try in")
        tries = [line.partition("network connector ")[2].rstrip() for line in near.errors if "next try in" in line]
        assert tries == [f"link: tcp://127.0.0.1:{port}: connection refused; next try in 0.1 s [link-failed]"]
        (link,) = links(near)
        assert link["state"] in ("waiting", "connecting")
        assert link["reason"] == "connection refused"
        shown = spanwire("status", "--data-directory", str(near.data)).stdout
        assert f"network connector link: tcp://127.0.0.1:{port} " in shown
        assert " (connection refused) for " in shown
        assert " s, reconnects 0, demand 0, enqueued 0, dequeued 0, in flight 0" in shown


def test_a_port_that_speaks_another_protocol_is_named_so(tmp_path: Path) -> None:
    with Started(tmp_path / "far") as far:
        with Linked(tmp_path / "near", f"static:(tcp://127.0.0.1:{far.ports['stomp']})") as near:
            assert eventually(lambda: any("next try in" in line for line in near.errors))
            (line, *_) = [line for line in near.errors if "next try in" in line]
            assert "the port is a STOMP port; OpenWire is usually at port 61616" in line


def test_an_encrypted_link_trusts_what_its_trust_store_says_and_nobody_else(tmp_path: Path) -> None:
    authority = Authority()
    trust = authority.write_certificate(tmp_path / "authority.pem")
    key_store = authority.issue().write_pkcs12(tmp_path / "broker.p12", PASSWORD)
    stores = f'<sslContext><sslContext keyStore="file:{key_store}" keyStorePassword="{PASSWORD}"/></sslContext>'

    class Encrypted(Started):
        def text(self) -> str:
            text = super().text().replace("  <transportConnectors>", f"  {stores}<transportConnectors>")
            return text.replace("tcp://", "ssl://")

    with Encrypted(tmp_path / "far") as far:
        uri = f"static:(ssl://127.0.0.1:{far.ports['ssl']})"
        with Linked(tmp_path / "stranger", uri) as stranger:
            assert eventually(lambda: any("next try in" in line for line in stranger.errors))
            (line, *_) = [line for line in stranger.errors if "next try in" in line]
            assert "the certificate of the remote broker is refused" in line
        inside = f'<sslContext><sslContext trustStore="file:{trust}"/></sslContext>'
        with Linked(tmp_path / "near", uri, inside) as near:
            with StompClient(far.ports["stomp"]) as consumer, StompClient(near.ports["stomp"]) as producer:
                consumer.transact("SUBSCRIBE\nid:1\ndestination:/queue/TLS\nreceipt:s\n\n", "s")
                producer.transact("SEND\ndestination:/queue/TLS\npersistent:true\nreceipt:r\n\nsecret", "r")
                assert consumer.receive().endswith("secret")
            assert eventually(lambda: [link["state"] for link in links(near)] == ["running"])


def test_a_broker_stops_while_its_remote_broker_is_away(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with Linked(tmp_path / "near", f"static:(tcp://127.0.0.1:{port})") as near:
        assert near.stop() == 0
        assert not any("Traceback" in line for line in near.errors)


def test_both_brokers_stop_in_order_with_the_link_between_them(tmp_path: Path) -> None:
    with Started(tmp_path / "far") as far:
        with Linked(tmp_path / "near", f"static:(tcp://127.0.0.1:{far.ports['tcp']})") as near:
            assert eventually(lambda: [link["state"] for link in links(near)] == ["running"])
            assert near.stop() == 0
            assert far.stop() == 0
            assert not any("Traceback" in line or "Error" in line for line in near.errors + far.errors)
