"""Bridges through JMS clients in Java: as a program, with ActiveMQ Classic, and with Artemis and its own client."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire import client
from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.ports import WrongConnectionError
from spanwire.bridges.providers.jvm.host import JvmHost
from spanwire.bridges.providers.jvm.provider import JvmProvider
from spanwire.client import Byte, Float, Short
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import JmsError
from spanwire.model.secret import Secret
from spanwire.testing import Broker
from spanwire.testing.queue import wait_until
from tests.conformance.bridge_providers import (
    ALL_HEADERS,
    SOURCE,
    TARGET,
    BridgeProviderConformance,
    LocalTransactionConformance,
    ProviderDriver,
    ReplyConformance,
    SelectorConformance,
    UnlimitedBatchConformance,
    take,
)
from tests.interop.test_jvm_bridge_provider import DEAD, factory
from tests.service.started import Started, spanwire
from tests.support import distributions
from tests.support.broker_process import BrokerProcess
from tests.support.classic import classic_broker
from tests.support.java import compile_java
from tests.support.java_clients import ACTIVEMQ, activemq_jars
from tests.support.peers import require

ARTEMIS_JARS: Final = (
    "artemis-commons", "artemis-core-client", "artemis-jms-client", "artemis-selector", "commons-beanutils",
    "commons-collections", "commons-lang3", "commons-logging", "jakarta.jms-api", "jctools", "jgroups", "netty",
    "slf4j-api",
)  # fmt: skip
ARTEMIS_FACTORY: Final = "org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory"
FILE: Final = """
[connectionFactories.java]
provider = "jvm"
factoryClass = "{factory}"
[connectionFactories.java.properties]
{property} = "{far}"
[bridges.in]
sourceConnectionFactory = "java"
sourceDestination = "queue://A"
targetConnectionFactory = "{near}"
targetDestination = "queue://B"
maxRetries = 0
"""

# As IBM MQ's client, which finds its own parts by the class loader of the thread.
BY_THREAD: Final = """
public class ByThread extends org.apache.activemq.ActiveMQConnectionFactory {
    public ByThread() throws ClassNotFoundException {
        Thread.currentThread().getContextClassLoader().loadClass("ByThread");
    }
}
"""

# A class whose jar is not there is needed, and Java runs out of memory once, while it loads a class.
NEEDY: Final = """
public class Needy extends org.apache.activemq.ActiveMQConnectionFactory {
    public Needy() { new Missing(); }
}
class Missing {}
"""
TIRED: Final = """
public class Tired extends org.apache.activemq.ActiveMQConnectionFactory {
    static {
        if (new java.io.File("%s").delete()) throw new OutOfMemoryError("Java heap space");
    }
}
"""


@pytest.fixture(scope="session")
def jars(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    require("activemq-client", "jpype")
    return activemq_jars(tmp_path_factory.mktemp("jars"))


def jars_with(tmp_path: Path, name: str, source: str) -> tuple[str, ...]:
    """Return ActiveMQ's jars and one with a class; other classes of its source are in no jar."""
    require("activemq-client", "jpype", "java")
    sources, directory = tmp_path / "sources", tmp_path / "jars"
    sources.mkdir()
    directory.mkdir()
    (sources / f"{name}.java").write_text(source, "utf-8")
    jars = activemq_jars(directory)
    classes = compile_java(sources, tmp_path / "classes")
    with zipfile.ZipFile(directory / "own.jar", "w") as jar:
        jar.write(classes / f"{name}.class", f"{name}.class")
    return (*jars, str(directory / "own.jar"))


def run_file(tmp_path: Path, jars: tuple[str, ...], **words: str) -> subprocess.CompletedProcess[str]:
    values = {"factory": ACTIVEMQ, "property": "brokerURL", **words}
    (tmp_path / "bridge.toml").write_text(FILE.format(**values))
    directory = str(Path(jars[0]).parent)
    return spanwire("bridge", "run", str(tmp_path / "bridge.toml"), "--until-empty", "--jars", directory)


def java_processes() -> list[str]:
    found = subprocess.run(
        ["ps", "-o", "args", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False
    )
    return [line for line in found.stdout.splitlines() if "spanwire bridge jvm" in line]


def test_a_bridge_from_java_keeps_bodies_and_properties(tmp_path: Path, jars: tuple[str, ...]) -> None:
    bodies: list[Any] = [
        "text é 😀",
        "",
        b"\x00\xff",
        {"i": 1, "s": Short(2), "b": b"x", "n": None},
        [True, 1.5, "t"],
        None,
    ]
    properties: dict[str, Any] = {
        "i": 1,
        "l": 1 << 40,
        "d": 0.5,
        "t": "é",
        "b": True,
        "s": Short(3),
        "y": Byte(-1),
        "f": Float(0.25),
    }
    with Broker() as far, Broker() as near:
        with client.connect(far.url) as connection, connection.session() as session:
            producer = session.create_producer("queue://A")
            for body in bodies:
                producer.send(body, properties)
        done = run_file(tmp_path, jars, far=far.url, near=near.url)
        assert done.returncode == 0, done.stderr
        assert "received 6, forwarded 6" in done.stdout
        received = near.browse(Destination(QUEUE, "B"), 10)
        expected = ["text é 😀", "", b"\x00\xff", {"i": 1, "s": 2, "b": b"x", "n": None}, [True, 1.5, "t"], None]
        assert [message.body for message in received] == expected
        assert all(message.properties == received[0].properties for message in received)
        assert received[0].properties == {**properties, "s": 3, "y": -1, "f": 0.25}


@pytest.mark.long
def test_a_client_that_loads_its_classes_by_the_thread_s_class_loader_works(tmp_path: Path) -> None:
    jars = jars_with(tmp_path, "ByThread", BY_THREAD)
    with Broker() as far, Broker() as near:
        with client.connect(far.url) as connection, connection.session() as session:
            session.create_producer("queue://A").send("text")
        done = run_file(tmp_path, jars, factory="ByThread", far=far.url, near=near.url)
        assert done.returncode == 0, done.stdout
        assert [message.body for message in near.browse(Destination(QUEUE, "B"), 10)] == ["text"]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"factory": "com.acme.Nothing"}, "the class com.acme.Nothing cannot be loaded from the jars"),
        ({"factory": "java.util.ArrayList"}, "has no property 'brokerURL'"),
        ({"factory": "java.lang.Thread", "property": "name"}, "java.lang.Thread is no ConnectionFactory of javax.jms"),
        ({"property": "brokerUrll"}, "ActiveMQConnectionFactory has no property 'brokerUrll'; did you mean brokerURL"),
        (
            {"property": "closeTimeout"},
            "the property closeTimeout of org.apache.activemq.ActiveMQConnectionFactory is of",
        ),
        ({"far": "tcp://127.0.0.1:1"}, "Could not connect to broker URL: tcp://127.0.0.1:1"),
        ({"far": "nonsense"}, "nonsense"),
        ({"property": "brokerURL", "wrong": "tcp://a b:1"}, "refuses its value: IllegalArgumentException: Invalid"),
    ],
)
@pytest.mark.long
def test_a_mistake_is_one_clear_line(tmp_path: Path, jars: tuple[str, ...], words: dict[str, str], fault: str) -> None:
    with Broker() as near:
        far = words.get("wrong", "tcp://127.0.0.1:1")
        done = run_file(tmp_path, jars, **{"far": far, "near": near.url, **words})
    assert done.returncode == 1
    assert fault in done.stdout
    is_away = "far" in words  # a broker that is away may come back
    assert ("correct its connection factory" in done.stderr) is not is_away
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.long
def test_a_class_whose_jar_is_missing_ends_the_attempts(tmp_path: Path) -> None:
    jars = jars_with(tmp_path, "Needy", NEEDY)
    with Broker() as near:
        done = run_file(tmp_path, jars, factory="Needy", far="tcp://127.0.0.1:1", near=near.url)
    assert done.returncode == 1
    assert "NoClassDefFoundError: Missing" in done.stdout
    assert "correct its connection factory" in done.stderr


@pytest.mark.long
def test_a_name_service_whose_jar_is_missing_ends_the_attempts(jars: tuple[str, ...]) -> None:
    environment = (("java.naming.factory.initial", Secret("com.acme.Names")),)
    lost = ConnectionFactory(
        "", provider="jvm", java=JavaFactory(None, jndi_name="cf", environment=environment, jars=jars)
    )

    async def scenario() -> None:
        with pytest.raises(WrongConnectionError, match="NoInitialContextException: Cannot instantiate class"):
            await JvmProvider().open_target(Target(lost, TARGET))

    asyncio.run(scenario())


@pytest.mark.long
def test_java_that_ran_out_of_memory_at_a_class_is_started_again(tmp_path: Path) -> None:
    """The class would stay broken in the same machine."""
    mark = tmp_path / "mark"
    mark.touch()
    jars = jars_with(tmp_path, "Tired", TIRED % mark)

    async def scenario(url: str) -> None:
        java = JavaFactory("Tired", (("brokerURL", Secret(url)),), jars=jars)
        provider, end = JvmProvider(), Target(ConnectionFactory(url, provider="jvm", java=java), TARGET)
        with pytest.raises(JmsError, match="OutOfMemoryError: Java heap space; Java is started again") as caught:
            await provider.open_target(end)
        assert not isinstance(caught.value, WrongConnectionError)
        (host,) = _hosts_of(provider)
        assert host._task is not None
        await host._task
        target = await provider.open_target(end)
        await target.send([])
        await target.close()

    with Broker() as broker:
        asyncio.run(scenario(broker.url))


@pytest.mark.long
def test_a_host_that_is_killed_fails_its_links_and_the_next_one_has_another(jars: tuple[str, ...]) -> None:
    async def scenario(url: str) -> None:
        provider, end = JvmProvider(), Target(factory(url, jars), TARGET)
        target, other = await provider.open_target(end), await provider.open_target(end)
        host = next(iter(_hosts_of(provider)))
        assert host._process is not None  # one process for both connections
        host._process.kill()
        for one in (target, other):
            with pytest.raises(JmsError, match="Java has ended with status -9"):
                await one.send([])
            with pytest.raises(JmsError):
                one.check()
            await one.close()
        again = await provider.open_target(end)
        await again.send([])
        await again.close()

    with Broker() as broker:
        asyncio.run(scenario(broker.url))
    assert java_processes() == []


def _hosts_of(provider: JvmProvider) -> list[JvmHost]:
    from spanwire.bridges.providers.jvm import provider as module  # noqa: PLC0415 -- its hosts are no part of the port

    return list(module._hosts[asyncio.get_running_loop()].values())


@pytest.mark.long
def test_an_object_message_becomes_a_dead_letter_without_being_read(tmp_path: Path, jars: tuple[str, ...]) -> None:
    with Broker() as far, Broker() as near:
        with client.connect(far.url) as connection, connection.session() as session:
            session.create_producer("queue://A").send(client.Serialized(b"\xac\xed\x00\x05t\x00\x01x"))
            session.create_producer("queue://A").send("good")
        done = run_file(tmp_path, jars, far=far.url, near=near.url)
        assert "dead letters 1" in done.stdout and "would have to be deserialized" in done.stdout
        (dead,) = far.browse(Destination(QUEUE, "A.DLQ"), 10)
        assert dead.kind == "object"
        assert "would have to be deserialized" in str(dead.properties["dlqDeliveryFailureCause"])
        assert dead.properties["originalDestination"] == "queue://A"
        assert [message.body for message in near.browse(Destination(QUEUE, "B"), 10)] == ["good"]


@pytest.mark.long
def test_a_durable_subscription_keeps_what_comes_while_the_bridge_is_away(jars: tuple[str, ...]) -> None:
    topic = Destination(TOPIC, "T")

    async def scenario(broker: Broker) -> None:
        source = Source(factory(broker.url, jars), topic, None, "s", "c")
        first = await JvmProvider().open_source(source, 10)
        await first.close()
        with client.connect(broker.url) as connection, connection.session() as session:
            session.create_producer(topic).send("kept")
        again = await JvmProvider().open_source(source, 10)
        assert len(await take(again, 1)) == 1
        await again.acknowledge()
        await again.close()

    with Broker() as broker:
        asyncio.run(scenario(broker))


class NativeBridge(Started):
    """A broker with a native bridge through Java."""

    def __init__(self, directory: Path, far_url: str, jars: str) -> None:
        super().__init__(directory, arguments=("--jars", jars))
        self._far_url: Final = far_url

    def text(self) -> str:
        java = f'<java class="{ACTIVEMQ}"><prop key="brokerURL" value="{self._far_url}"/></java>'
        factory = f"<outboundQueueConnectionFactory>{java}</outboundQueueConnectionFactory>"
        bridges = (
            '<inboundQueueBridges><inboundQueueBridge inboundQueueName="A" localQueueName="B"/></inboundQueueBridges>'
        )
        connector = f'<jmsQueueConnector name="far">{factory}{bridges}</jmsQueueConnector>'
        return super().text().replace("{inside}", f"<jmsBridgeConnectors>{connector}</jmsBridgeConnectors>")


@pytest.mark.long
def test_a_native_bridge_through_java_forwards_requests_and_replies(tmp_path: Path, jars: tuple[str, ...]) -> None:
    with Broker() as far, NativeBridge(tmp_path / "near", far.url, str(Path(jars[0]).parent)) as near:

        def answer() -> None:
            with client.connect(near.broker_url) as connection, connection.session() as session:
                message = session.create_consumer("queue://B").receive(60)
                assert message is not None
                session.reply(message, f"re: {message.body}")

        responder = threading.Thread(target=answer)
        responder.start()
        with client.connect(far.url) as connection, connection.session() as session:
            reply = session.request("queue://A", "one", timeout=60)
        responder.join(60)
        assert reply is not None and reply.body == "re: one"
        assert wait_until(lambda: near.network("bridges")[0]["forwarded"] == 1, 60)
        assert near.network("bridges")[0]["source"] == f"queue://A at jvm:{ACTIVEMQ}"


def test_a_broker_does_not_start_without_the_jars_of_its_bridges(tmp_path: Path) -> None:
    broker = NativeBridge(tmp_path / "near", "tcp://127.0.0.1:1", str(tmp_path / "no"))
    broker.directory.mkdir()
    broker.configuration.write_text(broker.text().format(data=broker.data, openwire=1, stomp=2, attributes=""), "utf-8")
    checked = spanwire("config", "check", str(broker.configuration))
    assert "bridge far.inbound.A: the provider jvm needs --jars DIRECTORY" in checked.stdout
    started = spanwire("start", str(broker.configuration), "--jars", str(tmp_path / "no"))
    assert started.returncode != 0
    assert f"the directory of jars {tmp_path / 'no'}: No such file or directory" in started.stderr


class PeerDriver:
    """A broker of another project, reached by its JMS client, and by our own client beside that."""

    headers = ALL_HEADERS
    typed_properties = True
    marks_redelivery = True

    def __init__(self, broker: BrokerProcess, java: ConnectionFactory) -> None:
        self._broker = broker
        self._java = java
        self._url = f"tcp://127.0.0.1:{broker.openwire_port}"
        for destination in (SOURCE, TARGET, DEAD):
            self._drain(destination)

    def _drain(self, destination: Destination) -> None:
        with client.connect(self._url) as connection, connection.session() as session:
            consumer = session.create_consumer(destination)
            while consumer.receive(0.3) is not None:
                pass

    def provider(self) -> JvmProvider:
        return JvmProvider()

    def source(self, selector: str | None = None) -> Source:
        return Source(self._java, SOURCE, selector)

    def target(self) -> Target:
        return Target(self._java, TARGET)

    def beginning(self) -> Target:
        return Target(self._java, SOURCE)

    def end(self) -> Source:
        return Source(self._java, TARGET)

    def send(self, destination: Destination, texts: list[str], properties: dict[str, int] | None = None) -> None:
        with client.connect(self._url) as connection, connection.session() as session:
            producer = session.create_producer(destination)
            for text in texts:
                producer.send(text, properties)

    def texts(self, destination: Destination) -> list[str]:
        with client.connect(self._url) as connection, connection.session() as session:
            return [str(message.body) for message in session.create_browser(destination)]

    def pending(self, destination: Destination) -> int:
        return len(self.texts(destination))

    def dead_letters(self) -> list[str]:
        return self.texts(DEAD)

    def stop(self) -> None:
        self._broker.kill()


def artemis_factory(
    home: Path, broker: BrokerProcess, directory: Path, name: str = ARTEMIS_FACTORY
) -> ConnectionFactory:
    """The factory of Artemis' client, with its jars in a directory that nobody else may write."""
    jars = [jar for beginning in ARTEMIS_JARS for jar in sorted((home / "lib").glob(f"{beginning}-*.jar"))]
    for jar in jars:
        shutil.copyfile(jar, directory / jar.name)
    url = f"tcp://127.0.0.1:{broker.openwire_port}"
    paths = tuple(str(directory / jar.name) for jar in jars)
    java = JavaFactory(name, (("brokerURL", Secret(url)),), jars=paths)
    return ConnectionFactory(url, provider="jvm", java=java)


class ArtemisDriver(PeerDriver):
    """Artemis, whose browsers do not show what is on its way to a consumer; its management counts that as well."""

    def pending(self, destination: Destination) -> int:
        question = {"_AMQ_ResourceName": f"queue.{destination.name}", "_AMQ_Attribute": "messageCount"}
        with client.connect(self._url) as connection, connection.session() as session:
            reply = session.request("queue://activemq.management", "", question, timeout=30)
        assert reply is not None
        return int(str(reply.body).strip("[]"))


@pytest.mark.long
def test_a_send_that_a_full_disk_holds_up_ends_and_its_receipts_return(artemis_home: Path, tmp_path: Path) -> None:
    """Java's client waits for good, and would keep the messages of its connection."""
    broker = distributions.ArtemisProcess(artemis_home, tmp_path / "artemis")
    broker.start()
    driver = ArtemisDriver(broker, artemis_factory(artemis_home, broker, tmp_path))
    driver.send(SOURCE, ["a"])
    broker.stop()
    broker.largest_disk_usage = 0
    broker.start()

    async def scenario() -> None:
        transaction = await JvmProvider().open_transaction(driver.source(), driver.target(), 10)
        messages = await take(transaction, 1)
        transaction._send_s = 2.0  # type: ignore[attr-defined]
        with pytest.raises(JmsError, match="a broker with a full disk or memory lets producers wait"):
            while True:  # until Artemis has looked at its disk
                await transaction.send(messages)
        await transaction.close()
        source = await JvmProvider().open_source(driver.source(), 10)
        assert [message.is_redelivered for message in await take(source, 1)] == [True]
        await source.close()

    try:
        asyncio.run(asyncio.wait_for(scenario(), 120))
    finally:
        broker.kill()


def restarted(broker: BrokerProcess) -> BrokerProcess:
    """The broker, started again after a test that has ended it."""
    if broker._process is None:
        broker.start()
    return broker


@pytest.mark.long
class TestClassic(
    BridgeProviderConformance,
    UnlimitedBatchConformance,
    SelectorConformance,
    ReplyConformance,
    LocalTransactionConformance,
):
    """ActiveMQ Classic with its own client."""

    @pytest.fixture(scope="class")
    def peer(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
        require("activemq-broker")
        with classic_broker(tmp_path_factory.mktemp("classic")) as broker:
            yield broker

    @pytest.fixture
    def driver(self, peer: BrokerProcess, jars: tuple[str, ...]) -> ProviderDriver:
        broker = restarted(peer)
        return PeerDriver(broker, factory(f"tcp://127.0.0.1:{broker.openwire_port}", jars))


@pytest.mark.long
class TestArtemis(
    BridgeProviderConformance,
    UnlimitedBatchConformance,
    SelectorConformance,
    ReplyConformance,
    LocalTransactionConformance,
):
    """ActiveMQ Artemis with its client of JMS 2.0, over its core protocol."""

    @pytest.fixture(scope="class")
    def peer(self, artemis_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
        with distributions.ArtemisProcess(artemis_home, tmp_path_factory.mktemp("artemis")) as broker:
            yield broker

    @pytest.fixture
    def driver(self, artemis_home: Path, peer: BrokerProcess, tmp_path: Path) -> ProviderDriver:
        broker = restarted(peer)
        return ArtemisDriver(broker, artemis_factory(artemis_home, broker, tmp_path))
