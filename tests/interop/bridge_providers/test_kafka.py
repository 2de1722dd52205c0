"""The Kafka provider keeps the promises of all providers, with a server of Apache Kafka."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final

import pytest
from aiokafka.producer import message_accumulator, producer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.ports import Provider
from spanwire.bridges.providers.kafka.provider import KafkaProvider
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import JmsError
from tests.conformance.bridge_providers import (
    ALL_HEADERS,
    CREDIT,
    SOURCE,
    TARGET,
    BridgeProviderConformance,
    LocalTransactionConformance,
    UnlimitedBatchConformance,
    bodies,
    neutral_message,
    runs,
    take,
)
from tests.interop.bridge_providers.test_peers import BATCH, COUNT, run_with_kills
from tests.support.bridge_peers import KafkaPeer
from tests.support.kafka import KafkaProcess
from tests.support.kafka_client import KafkaClient

NUMBERS: Final = itertools.count()


class ForeignKey(str):
    """A header key that is sent as octets that are not UTF-8."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        return b"\xff" + super().encode()


class KafkaDriver:
    headers = ALL_HEADERS
    typed_properties = False
    marks_redelivery = False

    def __init__(self, broker: KafkaProcess) -> None:
        self._broker = broker
        self._client = KafkaClient(broker.servers)
        self._factory = ConnectionFactory(f"kafka://{broker.servers}", provider="kafka")
        run = next(NUMBERS)
        self._topics = {SOURCE: f"source-{run}", TARGET: f"target-{run}"}
        for topic in self._topics.values():
            self._client.create(topic)

    def provider(self) -> Provider:
        return KafkaProvider()

    def _topic(self, destination: Destination) -> Destination:
        return Destination(TOPIC, self._topics[destination])

    def source(self, selector: str | None = None) -> Source:
        return Source(self._factory, self._topic(SOURCE), selector, "bridge")

    def target(self) -> Target:
        return Target(self._factory, self._topic(TARGET))

    def beginning(self) -> Target:
        return Target(self._factory, self._topic(SOURCE))

    def end(self) -> Source:
        return Source(self._factory, self._topic(TARGET), None, "end")

    def send(self, destination: Destination, texts: list[str], properties: dict[str, int] | None = None) -> None:
        octets = [text.encode() for text in texts]
        self._client.send(self._topics[destination], octets, [("content-type", b"text/plain")])

    def texts(self, destination: Destination) -> list[str]:
        return [record.value.decode() for record in self._client.records(self._topics[destination])]

    def pending(self, destination: Destination) -> int | None:
        if destination == SOURCE:
            return self._client.lag(self._topics[SOURCE], "bridge")
        return len(self.texts(destination))

    def dead_letters(self) -> list[str]:
        return [record.value.decode() for record in self._client.records(f"{self._topics[SOURCE]}.DLQ")]

    def stop(self) -> None:
        self._broker.kill()


@pytest.fixture
def driver(kafka: KafkaProcess) -> KafkaDriver:
    if not kafka.is_running:
        kafka.start()
    return KafkaDriver(kafka)


@pytest.mark.long
class TestKafkaProvider(BridgeProviderConformance, LocalTransactionConformance, UnlimitedBatchConformance):
    def test_a_batch_that_was_not_committed_is_never_seen(self, driver: KafkaDriver) -> None:
        async def scenario() -> None:
            link = await driver.provider().open_transaction(driver.source(), driver.target(), CREDIT)
            await link.send([neutral_message("half")])
            await link.close()
            target = await driver.provider().open_target(driver.target())
            await target.send([neutral_message("whole")])
            source = await driver.provider().open_source(driver.end(), CREDIT)
            assert bodies(await take(source, 1)) == ["whole"]
            await source.close()
            await target.close()

        runs(scenario)

    def test_a_later_transaction_of_the_group_fences_the_earlier(self, driver: KafkaDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["a"])
            first = await driver.provider().open_transaction(driver.source(), driver.target(), CREDIT)
            await first.send(await take(first, 1))
            second = await driver.provider().open_transaction(driver.source(), driver.target(), CREDIT)
            with pytest.raises(JmsError):
                await first.commit()
            await first.close()
            await second.send(await take(second, 1))
            await second.commit()
            await second.close()
            assert driver.texts(TARGET) == ["a"]

        runs(scenario)

    def test_the_group_of_a_message_is_the_key_of_its_record(self, driver: KafkaDriver) -> None:
        async def scenario() -> None:
            target = await driver.provider().open_target(driver.target())
            await target.send([neutral_message("text")])
            await target.close()
            (record,) = driver._client.records(driver._topics[TARGET])
            assert (record.key, record.value) == (b"g", b"text")
            assert dict(record.headers)["content-type"] == b"text/plain"

        runs(scenario)

    def test_a_header_key_that_is_not_utf8_holds_up_no_record(
        self, driver: KafkaDriver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in (message_accumulator, producer):  # the compiled builder takes no subclass of str
            monkeypatch.setattr(module, "DefaultRecordBatchBuilder", _DefaultRecordBatchBuilderPy)

        async def scenario() -> None:
            driver.send(SOURCE, ["a"])
            driver._client.send(driver._topics[SOURCE], [b"b"], [(ForeignKey("key"), b"x")])
            driver.send(SOURCE, ["c"])
            link = await driver.provider().open_transaction(driver.source(), driver.target(), CREDIT)
            await link.send(await take(link, 3))
            await link.commit()
            await link.close()
            assert driver.texts(TARGET) == ["a", "b", "c"]
            _, foreign, _ = driver._client.records(driver._topics[TARGET])
            assert dict(foreign.headers)[r"\xffkey"] == b"x"

        runs(scenario)

    def test_a_killed_bridge_within_kafka_loses_and_doubles_nothing(self, kafka: KafkaProcess, tmp_path: Path) -> None:
        peer, client = KafkaPeer(kafka), KafkaClient(kafka.servers)
        peer.create("within")
        texts = [str(number) for number in range(COUNT)]
        peer.send("within", texts)
        sides = peer.source("within") + peer.target("within")
        mode = f'qualityOfServiceMode = "ONCE_AND_ONLY_ONCE"\nmaxBatchSize = {BATCH}\n'
        run_with_kills(f"{peer.factory()}[bridges.test]\n{sides}{mode}", tmp_path)
        assert [record.value.decode() for record in client.records("within.out")] == texts
