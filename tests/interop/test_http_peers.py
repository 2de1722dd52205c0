"""OpenWire over HTTP with activemq-http: its Java client against us, our clients and links against its broker.

The jars come from Maven Central (`make peers-maven`); without them all tests here are skipped.
"""

from __future__ import annotations

import asyncio
import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from spanwire.client import blocking
from spanwire.protocols.openwire.xstream.writer import XmlWriter
from tests.interop.conftest import assert_alike
from tests.interop.test_java_sessions import SCENARIOS as TCP_SCENARIOS
from tests.service.started import Started
from tests.service.test_networks import Linked, eventually, links, send_and_receive
from tests.support.client_shells import SHELLS, opened
from tests.support.java import JavaProcess
from tests.support.openwire_structures import load_vectors
from tests.support.peers import HTTP_JARS, require
from tests.support.ports import free_port

pytestmark = [pytest.mark.long]

HERE: Final = Path(__file__).parent
PATIENCE_S: Final = 60
# XStream creates exceptions by reflection.
OPENED: Final = [
    word for package in ("lang", "util", "io") for word in ("--add-opens", f"java.base/java.{package}=ALL-UNNAMED")
]
# A connection over HTTP has no socket to break, and Java's transport for HTTP refuses options of "tcp" in its address.
OF_SOCKETS: Final = frozenset({"connection-gone", "options", "idle"})
SCENARIOS: Final = tuple(scenario for scenario in TCP_SCENARIOS if scenario not in OF_SOCKETS)


class HttpStarted(Started):
    """A broker with a connector for http."""

    def text(self) -> str:
        connector = '<transportConnector uri="http://127.0.0.1:0"/></transportConnectors>'
        return super().text().replace("</transportConnectors>", connector)

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['http']}"


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs a Java program of these tests with activemq-http."""
    require("activemq-http")
    classes = tmp_path_factory.mktemp("classes")
    sources = [str(path) for folder in ("java", "java_http") for path in sorted((HERE / folder).glob("*.java"))]
    jars = f"{HTTP_JARS}/*"
    subprocess.run(["javac", "-nowarn", "-encoding", "UTF-8", "-cp", jars, "-d", str(classes), *sources], check=True)
    return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *OPENED, "-cp", f"{classes}:{jars}"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpStarted]:
    require("activemq-http")
    with HttpStarted(tmp_path_factory.mktemp("http")) as started:
        yield started


class Classic:
    """Where a running broker of Java listens."""

    def __init__(self) -> None:
        self.http_url: Final = f"http://127.0.0.1:{free_port()}"
        self.tcp_url: Final = f"tcp://127.0.0.1:{free_port()}"


@contextmanager
def classic(java: list[str], name: str = "classic", *uri: str) -> Iterator[Classic]:
    """A real broker with connectors for http and tcp, and a network connector if a URI is given."""
    made = Classic()
    ports = [url.rpartition(":")[2] for url in (made.http_url, made.tcp_url)]
    with subprocess.Popen(
        [*java, "HttpBroker", name, *ports, *uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        try:
            yield made
        finally:
            process.kill()


def exchange(java: list[str], role: str, url: str, queue: str, count: int) -> subprocess.Popen[str]:
    """A running sender or receiver that is connected."""
    command = [*java, "Exchange", role, url, queue, str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def numbers(process: subprocess.Popen[str]) -> list[str]:
    """The numbers of the messages that a process reports until it is done."""
    lines = process.communicate(timeout=PATIENCE_S)[0].splitlines()
    assert lines[-1].startswith("done ")
    return lines[:-1]


@pytest.mark.parametrize("scheme", ["tcp", "http"])
def test_one_consumer_gets_ten_messages_over_tcp_and_ten_over_http(
    java: list[str], broker: HttpStarted, scheme: str
) -> None:
    urls = {"tcp": broker.broker_url, "http": broker.http_url}
    consumer = exchange(java, "receive", urls[scheme], f"TEST.FOO.{scheme}", 20)
    for url in (broker.broker_url, broker.http_url):
        assert numbers(exchange(java, "send", url, f"TEST.FOO.{scheme}", 10)) == []
    assert numbers(consumer) == [str(number) for number in range(10)] * 2


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("peer", ["spanwire", "classic"])
def test_our_client_and_java_s_client_exchange_messages_over_http(
    java: list[str], broker: HttpStarted, shell: str, peer: str
) -> None:
    async def scenario(http_url: str, tcp_url: str) -> None:
        queue = f"EXCHANGE.{shell}.{peer}"
        async with opened(shell, http_url) as connection, connection.session() as session:
            receiving = exchange(java, "receive", tcp_url, queue, 10)
            producer = await session.create_producer(f"queue://{queue}")
            for number in range(10):
                await producer.send(f"Message: {number} \u20ac")
            assert await asyncio.to_thread(numbers, receiving) == [str(number) for number in range(10)]
            consumer = await session.create_consumer(f"queue://{queue}")
            sending = exchange(java, "send", http_url, queue, 10)
            messages = [await consumer.receive(PATIENCE_S) for _ in range(10)]
            assert [message.body.split(" ")[1] for message in messages] == [str(number) for number in range(10)]
            await asyncio.to_thread(numbers, sending)

    if peer == "spanwire":
        asyncio.run(scenario(broker.http_url, broker.broker_url))
        return
    with classic(java) as other:
        asyncio.run(scenario(other.http_url, other.tcp_url))


@pytest.fixture(scope="module")
def observer(java: list[str]) -> Iterator[JavaProcess]:
    """The Java client's scenarios with activemq-http, ready to be asked."""
    with JavaProcess(HERE, "Interop", java) as process:
        yield process


@pytest.fixture(scope="module")
def other(java: list[str]) -> Iterator[Classic]:
    """A real broker for all scenarios: each leaves messages, so each is asked once."""
    with classic(java) as started:
        yield started


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_java_s_client_sees_over_http_what_it_sees_of_classic_over_tcp(
    observer: JavaProcess, broker: HttpStarted, other: Classic, scenario: str
) -> None:
    ours = observer.ask(scenario, broker.http_url)
    assert ours
    assert_alike(ours, observer.ask(scenario, other.tcp_url))


def test_java_reads_every_command_as_we_write_it(java: list[str]) -> None:
    cases = [case for case in load_vectors("xstream")["cases"] if case["back"] is not None]
    texts = [XmlWriter().text(bytes.fromhex(case["frame"])) for case in cases]
    questions = "".join([f"frame {base64.b64encode(text).decode()}\n" for text in texts])
    process = subprocess.run([*java, "XmlForms"], input=questions, text=True, capture_output=True, timeout=PATIENCE_S)
    assert [line.lower() for line in process.stdout.splitlines()] == [case["back"] for case in cases]


@pytest.mark.parametrize("duplex", ["false", "true"])
def test_we_link_ourselves_to_classic_over_http(java: list[str], tmp_path: Path, duplex: str) -> None:
    with classic(java) as other:
        uri = f"static:({other.http_url})?initialReconnectDelay=100"
        with Linked(tmp_path / "near", uri, more=f' duplex="{duplex}"') as near:
            assert eventually(lambda: [link["state"] for link in links(near)] == ["running"])
            assert send_and_receive(near.broker_url, other.tcp_url, "LINK", ["one", "two"]) == ["one", "two"]
            if duplex == "true":
                assert send_and_receive(other.tcp_url, near.broker_url, "BACK", ["b"]) == ["b"]


def test_classic_links_itself_to_us_over_http(java: list[str], broker: HttpStarted) -> None:
    with classic(java, "linking", f"static:({broker.http_url})") as other:
        assert send_and_receive(other.tcp_url, broker.broker_url, "FROM.CLASSIC", ["one", "two"]) == ["one", "two"]


def test_java_reads_a_refusal_as_an_exception_of_jms(java: list[str], broker: HttpStarted) -> None:
    with blocking.connect(broker.http_url, client_id="taken"):
        url = f"{broker.http_url}?jms.clientID=taken"
        process = subprocess.run(
            [*java, "Exchange", "send", url, "Q", "1"], text=True, capture_output=True, timeout=PATIENCE_S
        )
    assert "javax.jms.JMSException" in process.stderr
    assert "taken" in process.stderr
