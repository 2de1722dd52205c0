"""Distributed transactions with JMS providers in Java: ONCE_AND_ONLY_ONCE between ActiveMQ's client and Spanwire."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from spanwire import client
from spanwire.bridges.model.definition import ConnectionFactory, Target
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.providers.jvm.provider import JvmProvider
from spanwire.bridges.providers.jvm.xa_connections import JvmXaTarget
from spanwire.bridges.xa.outcomes import Outcome, outcome_of
from spanwire.client import Serialized
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import XaError
from spanwire.model.ids import XaTransactionId
from spanwire.model.secret import Secret
from spanwire.testing import Broker
from spanwire.testing.queue import wait_until
from tests.interop.test_jvm_bridges import artemis_factory
from tests.service.started import TIMEOUT_S, spanwire
from tests.support.bridge_dialogue import text_messages
from tests.support.broker_process import COMMAND
from tests.support.classic import classic_broker
from tests.support.distributions import ArtemisProcess
from tests.support.java_clients import ACTIVEMQ, activemq_jars
from tests.support.peers import require

XA: Final = "org.apache.activemq.ActiveMQXAConnectionFactory"
JAVA_STRING: Final = bytes.fromhex("aced000574000161")  # "a", serialized by Java
ARTEMIS_XA: Final = "org.apache.activemq.artemis.jms.client.ActiveMQXAConnectionFactory"
KILLS: Final = 3
COUNT: Final = 1_000
PROGRESS: Final = 203  # messages from one kill to the next, which is no whole number of batches
FILE: Final = """
[connectionFactories.java]
provider = "jvm"
factoryClass = "{factory}"
[connectionFactories.java.properties]
brokerURL = "{java}"
[bridges.b]
{source}ConnectionFactory = "java"
{target}ConnectionFactory = "{near}"
sourceDestination = "queue://A"
targetDestination = "queue://B"
qualityOfServiceMode = "ONCE_AND_ONLY_ONCE"
maxBatchSize = 5
maxRetries = {retries}
"""
FROM_JAVA: Final = ("source", "target")
TO_JAVA: Final = ("target", "source")


@pytest.fixture(scope="session")
def jars(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    require("activemq-client", "jpype")
    return activemq_jars(tmp_path_factory.mktemp("jars"))


def arguments(
    directory: Path, jars: tuple[str, ...], java: str, near: str, sides: tuple[str, str], factory: str = XA,
    retries: int = 0,
) -> list[str]:  # fmt: skip
    """The command that runs the bridge, for `spanwire`."""
    source, target = sides
    words = {"java": java, "near": near, "source": source, "target": target, "factory": factory}
    (directory / "b.toml").write_text(FILE.format(retries=retries, **words))
    return ["bridge", "run", str(directory / "b.toml"), "--jars", str(Path(jars[0]).parent)]


def send(url: str, count: int) -> None:
    with client.connect(url) as connection, connection.session("transacted") as session:
        producer = session.create_producer("queue://A")
        for number in range(count):
            producer.send(str(number), {"n": number})
        session.commit()


def texts(url: str, queue: str) -> list[str]:
    with client.connect(url) as connection, connection.session() as session:
        consumer = session.create_consumer(f"queue://{queue}")
        found: list[str] = []
        while (message := consumer.receive(1.0)) is not None:
            found.append(str(message.body))
        return found


@pytest.mark.parametrize("sides", [FROM_JAVA, TO_JAVA], ids=["from java", "to java"])
def test_a_batch_is_one_transaction_of_java_and_spanwire(
    tmp_path: Path, jars: tuple[str, ...], sides: tuple[str, str]
) -> None:
    with Broker() as far, Broker() as near:
        source, target = (far.url, near.url) if sides == FROM_JAVA else (near.url, far.url)
        send(source, 12)
        done = spanwire(*arguments(tmp_path, jars, far.url, near.url, sides), "--until-empty")
        assert done.returncode == 0, done.stderr
        assert "received 12, forwarded 12" in done.stdout
        assert texts(target, "B") == [str(number) for number in range(12)]
        assert texts(source, "A") == []


def test_a_factory_without_distributed_transactions_is_refused_by_name(tmp_path: Path, jars: tuple[str, ...]) -> None:
    with Broker() as far, Broker() as near:
        done = spanwire(*arguments(tmp_path, jars, far.url, near.url, FROM_JAVA, ACTIVEMQ), "--until-empty")
        assert done.returncode == 1
        assert f"{ACTIVEMQ} has no distributed transactions, which ONCE_AND_ONLY_ONCE needs" in done.stderr
        assert "name the XA class of its provider" in done.stderr


def test_a_message_that_cannot_cross_is_a_dead_letter_and_the_others_cross(
    tmp_path: Path, jars: tuple[str, ...]
) -> None:
    with Broker() as far, Broker() as near:
        with client.connect(far.url) as connection, connection.session() as session:
            producer = session.create_producer("queue://A")
            for body in ("one", Serialized(JAVA_STRING), "two"):
                producer.send(body)
        done = spanwire(*arguments(tmp_path, jars, far.url, near.url, FROM_JAVA, retries=5), "--until-empty")
        assert done.returncode == 0, done.stderr
        assert texts(near.url, "B") == ["one", "two"]
        with client.connect(far.url) as connection, connection.session() as session:
            dead = session.create_consumer("queue://A.DLQ").receive(TIMEOUT_S)
        assert dead is not None and "object" in str(dead.properties["dlqDeliveryFailureCause"]).lower()
        assert texts(far.url, "A") == []


def asked(jars: tuple[str, ...], url: str, scenario: Callable[[JvmXaTarget], Awaitable[None]]) -> None:
    async def run() -> None:
        java = JavaFactory(XA, (("brokerURL", Secret(url)),), jars=jars)
        factory = ConnectionFactory(url, provider="jvm", java=java)
        target = await JvmProvider().open_xa_target(Target(factory, Destination(QUEUE, "B")))
        assert isinstance(target, JvmXaTarget)
        try:
            await scenario(target)
        finally:
            await target.close()

    asyncio.run(run())


def test_prepared_branches_are_listed_settled_and_then_unknown(jars: tuple[str, ...]) -> None:
    first, second = (XaTransactionId(-7, bytes([0, 255, number]), b"\x80b") for number in (1, 2))

    async def scenario(target: JvmXaTarget) -> None:
        for branch in (first, second):
            await target.send(branch, text_messages(2))
            assert await target.prepare(branch)
        assert sorted(map(str, await target.prepared_branches())) == sorted(map(str, (first, second)))
        await target.commit(first)
        await target.roll_back(second)
        assert await target.prepared_branches() == []
        with pytest.raises(XaError) as unknown:
            await target.commit(second)
        assert outcome_of(unknown.value) is Outcome.GONE
        target.check()  # the connection can be used further

    with Broker() as broker:
        asked(jars, broker.url, scenario)
        assert len(texts(broker.url, "B")) == 2


def crossed(near: str, sides: tuple[str, str]) -> int:
    """Messages that have crossed, by the queue of the broker that does not belong to Java."""
    with client.connect(near) as connection, connection.session() as session:
        pending = sum(1 for _ in session.create_browser("queue://B" if sides == FROM_JAVA else "queue://A"))
    return pending if sides == FROM_JAVA else COUNT - pending


@pytest.mark.long
@pytest.mark.parametrize("sides", [FROM_JAVA, TO_JAVA], ids=["from java", "to java"])
def test_a_killed_bridge_between_java_and_spanwire_loses_and_doubles_nothing(
    tmp_path: Path, jars: tuple[str, ...], sides: tuple[str, str]
) -> None:
    require("activemq-broker")
    with classic_broker(tmp_path / "classic") as classic:
        survives_kills(tmp_path, jars, classic.openwire_uri(), sides, XA)


@pytest.mark.long
@pytest.mark.parametrize("sides", [FROM_JAVA, TO_JAVA], ids=["from java", "to java"])
def test_a_killed_bridge_between_artemis_client_and_spanwire_loses_and_doubles_nothing(
    tmp_path: Path, artemis_home: Path, sides: tuple[str, str]
) -> None:
    directory = tmp_path / "jars"
    directory.mkdir()
    with ArtemisProcess(artemis_home, tmp_path / "artemis") as artemis:
        java = artemis_factory(artemis_home, artemis, directory).java
        assert java is not None
        survives_kills(tmp_path, java.jars, artemis.openwire_uri(), sides, ARTEMIS_XA)


def survives_kills(directory: Path, jars: tuple[str, ...], java: str, sides: tuple[str, str], factory: str) -> None:
    """Kill the bridge three times, run it to the end, and count at both brokers."""
    with Broker() as near:
        source, target = (java, near.url) if sides == FROM_JAVA else (near.url, java)
        send(source, COUNT)
        words = arguments(directory, jars, java, near.url, sides, factory, retries=-1)
        for number in range(1, KILLS + 1):
            process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                assert wait_until(lambda goal=number * PROGRESS: crossed(near.url, sides) >= goal, TIMEOUT_S)  # type: ignore[misc]
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
        assert crossed(near.url, sides) < COUNT
        done = spanwire(*words, "--until-empty")
        assert done.returncode == 0, done.stderr
        assert sorted(map(int, texts(target, "B"))) == list(range(COUNT))
        assert texts(source, "A") == []
