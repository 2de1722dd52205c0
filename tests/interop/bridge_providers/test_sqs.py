"""The SQS provider keeps the promises of all providers, with moto's server."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, Provider
from spanwire.bridges.providers.sqs import parties
from spanwire.bridges.providers.sqs.provider import SqsProvider
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import JmsError
from spanwire.model.message_view import BYTES, STRING_VALUE, TEXT, PropertyValue
from spanwire.model.secret import Secret
from tests.conformance.bridge_providers import (
    ALL_HEADERS,
    CREDIT,
    MANY,
    SOURCE,
    TARGET,
    BridgeProviderConformance,
    bodies,
    neutral_message,
    runs,
    take,
)
from tests.interop.bridge_providers.test_peers import (
    FEW,
    KILLS,
    KILLS_S,
    MODES,
    MOMENTS,
    TEXTS,
    assert_quality,
    run_with_killed_peer,
    run_with_kills,
    send,
    words_of,
)
from tests.interop.bridge_providers.test_peers import take as taken
from tests.support.bridge_dialogue import Content
from tests.support.broker_process import BrokerProcess
from tests.support.sqs_server import PASSWORD, USER, SqsProcess

NUMBERS: Final = itertools.count()


class SqsDriver:
    headers = ALL_HEADERS
    typed_properties = False
    marks_redelivery = True

    def __init__(self, server: SqsProcess) -> None:
        self.server = server
        self.factory = ConnectionFactory(server.url, USER, Secret(PASSWORD), provider="sqs")
        run = next(NUMBERS)
        self.queues = {SOURCE: f"source-{run}", TARGET: f"target-{run}"}
        for queue in self.queues.values():
            server.create(queue)

    def provider(self) -> Provider:
        return SqsProvider()

    def queue(self, destination: Destination) -> Destination:
        return Destination(QUEUE, self.queues[destination])

    def source(self, selector: str | None = None) -> Source:
        return Source(self.factory, self.queue(SOURCE), selector)

    def target(self) -> Target:
        return Target(self.factory, self.queue(TARGET))

    def beginning(self) -> Target:
        return Target(self.factory, self.queue(SOURCE))

    def end(self) -> Source:
        return Source(self.factory, self.queue(TARGET))

    def send(self, destination: Destination, texts: list[str], properties: dict[str, int] | None = None) -> None:
        self.server.send(self.queues[destination], texts)

    def texts(self, destination: Destination) -> list[str]:
        return [message["Body"] for message in self.server.messages(self.queues[destination])]

    def pending(self, destination: Destination) -> int | None:
        return self.server.count(self.queues[destination])

    def dead_letters(self) -> list[str]:
        return [message["Body"] for message in self.server.messages(f"{self.queues[SOURCE]}-DLQ")]

    def stop(self) -> None:
        self.server.kill()


@pytest.fixture(scope="module")
def sqs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsProcess]:
    with SqsProcess(tmp_path_factory.mktemp("sqs")) as server:
        yield server


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsProcess]:
    with SqsProcess(tmp_path_factory.mktemp("durable-sqs"), is_durable=True) as server:
        yield server


@pytest.fixture
def driver(sqs: SqsProcess) -> SqsDriver:
    if not sqs.is_running:
        sqs.start()
    return SqsDriver(sqs)


@pytest.mark.long
class TestSqsProvider(BridgeProviderConformance):
    def test_a_fifo_queue_keeps_the_order_and_drops_what_comes_again(self, driver: SqsDriver) -> None:
        driver.server.create("ordered.fifo", FifoQueue="true")

        async def scenario() -> None:
            for _ in range(2):
                target = await driver.provider().open_target(Target(driver.factory, Destination(QUEUE, "ordered.fifo")))
                await target.send([neutral_message(str(number)) for number in range(12)])
                await target.close()
            source = await driver.provider().open_source(
                Source(driver.factory, Destination(QUEUE, "ordered.fifo")), CREDIT
            )
            messages = await take(source, 10)  # a group gives no more until these are acknowledged
            await source.acknowledge()
            messages += await take(source, 2)
            assert bodies(messages) == [str(number) for number in range(12)]
            assert {message.group_id for message in messages} == {"g"}
            await source.acknowledge()
            assert await source.receive(1, MANY, 0.5) == []
            await source.close()

        runs(scenario)

    def test_messages_in_work_stay_invisible(self, driver: SqsDriver, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parties, "VISIBILITY_S", 2)

        async def scenario() -> None:
            driver.send(SOURCE, ["a"])
            source = await driver.provider().open_source(driver.source(), CREDIT)
            await take(source, 1)
            assert await source.receive(1, MANY, 4.0) == []
            await source.acknowledge()
            await source.close()
            assert driver.pending(SOURCE) == 0

        runs(scenario)


def test_more_texts_and_other_bodies_than_sqs_takes_cross_as_well(driver: SqsDriver) -> None:
    async def scenario() -> None:
        values: dict[str, PropertyValue] = {f"p{number}": (STRING_VALUE, f"{number}") for number in range(20)}
        values |= {"": (STRING_VALUE, "x"), "größe": (STRING_VALUE, ""), "lines": (STRING_VALUE, "a\0\nb")}
        target = await driver.provider().open_target(driver.target())
        await target.send([BridgeMessage("1", BYTES, Content("\0", values), 1)])
        await target.send([BridgeMessage("2", TEXT, Content("", {}), 1)])
        with pytest.raises(MessageRefusedError, match="SQS takes 262144"):
            await target.send([neutral_message("x" * 262_144)])
        await target.close()
        source = await driver.provider().open_source(driver.end(), CREDIT)
        first, second = sorted(await take(source, 2), key=lambda message: message.message_id)
        assert (first.kind, bodies([first]), first.property_values()) == (BYTES, ["\0"], values)
        assert bodies([second]) == [""]
        await source.acknowledge()
        await source.close()

    runs(scenario)


def test_a_missing_queue_is_one_line(driver: SqsDriver) -> None:
    async def scenario() -> None:
        with pytest.raises(JmsError, match="NonExistentQueue") as caught:
            await driver.provider().open_target(Target(driver.factory, Destination(QUEUE, "nowhere")))
        assert "\n" not in str(caught.value) and PASSWORD not in str(caught.value)

    runs(scenario)


@pytest.mark.long
@pytest.mark.timeout(KILLS_S)
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_bridge_to_sqs_keeps_its_quality(
    mode: str, driver: SqsDriver, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    name = driver.queues[TARGET]
    send(spanwire, name, TEXTS[:FEW])
    run_with_kills(bridge(mode, driver.server, spanwire, name), tmp_path)
    assert_quality(mode, arrived(driver.server, name), KILLS, count=FEW)


@pytest.mark.long
@pytest.mark.timeout(KILLS_S)
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_server_of_sqs_as_a_target_keeps_the_quality(
    mode: str, durable: SqsProcess, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    name = f"target-{mode}"
    durable.create(name)
    send(spanwire, name, TEXTS[:FEW])
    text = bridge(mode, durable, spanwire, name)
    run_with_killed_peer(text, tmp_path, "Send", durable.kill, durable.start)
    assert_quality(mode, arrived(durable, name), len(MOMENTS), count=FEW)


@pytest.mark.long
@pytest.mark.timeout(KILLS_S)
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_server_of_sqs_as_a_source_keeps_the_quality(
    mode: str, durable: SqsProcess, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    name = f"source-{mode}"
    durable.create(name)
    durable.send(name, TEXTS[:FEW])
    text = bridge(mode, durable, spanwire, name, is_inward=True)
    run_with_killed_peer(text, tmp_path, "Acknowledge", durable.kill, durable.start)
    assert_quality(mode, Counter(taken(spanwire, name)), len(MOMENTS), count=FEW)


def bridge(mode: str, server: SqsProcess, near: BrokerProcess, name: str, is_inward: bool = False) -> str:
    """The file of a bridge between queues of the same name, to SQS or from there."""
    source, target = ("peer", "near") if is_inward else ("near", "peer")
    words = "\n".join(words_of(mode))
    return (
        f'[connectionFactories.near]\nurl = "{near.openwire_uri()}"\n[connectionFactories.peer]\n'
        f'url = "{server.url}"\nprovider = "sqs"\nuserName = "{USER}"\npassword = "{PASSWORD}"\n[bridges.test]\n'
        f'sourceConnectionFactory = "{source}"\nsourceDestination = "queue://{name}"\n'
        f'targetConnectionFactory = "{target}"\ntargetDestination = "queue://{name}"\n{words}\n'
    )


def arrived(server: SqsProcess, name: str) -> Counter[str]:
    """Take the texts of a queue."""
    return Counter(message["Body"] for message in server.messages(name, is_kept=False))
