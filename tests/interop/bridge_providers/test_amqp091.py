"""The AMQP 0-9-1 provider keeps the promises of all providers, with RabbitMQ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, Provider
from spanwire.bridges.providers.amqp091.parties import AmqpSource
from spanwire.bridges.providers.amqp091.provider import Amqp091Provider
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import JmsError
from spanwire.model.message_view import BYTES, MAP, OBJECT, STREAM, TEXT
from spanwire.model.units import MIB
from spanwire.protocols.primitive_map import encode_map, encode_stream
from tests.conformance.bridge_providers import (
    ALL_HEADERS,
    CREDIT,
    QUIET_S,
    SOURCE,
    TARGET,
    BridgeProviderConformance,
    bodies,
    neutral_message,
    runs,
    take,
)
from tests.support.rabbit_client import RabbitClient
from tests.support.rabbitmq import RabbitProcess

GONE = Destination(QUEUE, "NO.SUCH.QUEUE")
COUNT = 1_000
CREDIT_OF_WINDOWS = 80
WAIT_S = 5.0


class RabbitDriver:
    headers = ALL_HEADERS
    typed_properties = True
    marks_redelivery = True

    def __init__(self, broker: RabbitProcess) -> None:
        self._broker = broker
        self._factory = ConnectionFactory(broker.amqp_url, provider="amqp091")
        self._client = RabbitClient(f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/")
        for queue in (SOURCE.name, TARGET.name):
            self._client.declare(queue)
            self._client.delete(queue + ".DLQ")

    def provider(self) -> Provider:
        return Amqp091Provider()

    def source(self, selector: str | None = None) -> Source:
        return Source(self._factory, SOURCE, selector)

    def target(self) -> Target:
        return Target(self._factory, TARGET)

    def beginning(self) -> Target:
        return Target(self._factory, SOURCE)

    def end(self) -> Source:
        return Source(self._factory, TARGET)

    def send(self, destination: Destination, texts: list[str], properties: dict[str, int] | None = None) -> None:
        octets = [text.encode() for text in texts]
        self._client.send(destination.name, octets, content_type="text/plain", headers=dict(properties or {}))

    def texts(self, destination: Destination) -> list[str]:
        return [message.body.decode() for message in self._client.look(destination.name)]

    def pending(self, destination: Destination) -> int:
        return self._broker.messages(destination.name)

    def dead_letters(self) -> list[str]:
        return self.texts(Destination(QUEUE, SOURCE.name + ".DLQ"))

    def stop(self) -> None:
        self._broker.kill()


@pytest.fixture
def driver(rabbitmq: RabbitProcess) -> Iterator[RabbitDriver]:
    yield RabbitDriver(rabbitmq)
    if not rabbitmq.is_running:
        rabbitmq.start()


def message(kind: int, body: bytes) -> BridgeMessage:
    class Body:
        def neutral_body(self) -> bytes | None:
            return body

        def property_values(self) -> dict[str, tuple[int, object]]:
            return {}

    return BridgeMessage("ID:1", kind, Body(), len(body))


@pytest.mark.long
class TestAmqp091Provider(BridgeProviderConformance):
    def test_a_missing_queue_is_named_at_the_connection(self, driver: RabbitDriver) -> None:
        async def scenario() -> None:
            factory = driver.source().factory
            for opened in (
                Amqp091Provider().open_source(Source(factory, GONE), CREDIT),
                Amqp091Provider().open_target(Target(factory, GONE)),
            ):
                with pytest.raises(JmsError, match=r"no queue 'NO\.SUCH\.QUEUE'") as caught:
                    await opened
                assert "\n" not in str(caught.value)

        runs(scenario)

    def test_a_missing_virtual_host_is_named(self, driver: RabbitDriver) -> None:
        async def scenario() -> None:
            factory = ConnectionFactory(driver.source().factory.url + "/nowhere", provider="amqp091")
            with pytest.raises(JmsError, match="refuses the virtual host 'nowhere'"):
                await Amqp091Provider().open_target(Target(factory, TARGET))

        runs(scenario)

    def test_a_queue_that_is_deleted_under_way_is_an_error_of_both_sides(self, driver: RabbitDriver) -> None:
        async def scenario() -> None:
            source = await driver.provider().open_source(driver.source(), CREDIT)
            target = await driver.provider().open_target(driver.beginning())
            await asyncio.to_thread(driver._client.delete, SOURCE.name)
            with pytest.raises(JmsError, match="there is no queue"):
                await target.send([neutral_message("lost")])
            with pytest.raises(JmsError, match="was deleted"):
                await source.receive(1, 1, 5.0)
            await source.close()
            await target.close()

        runs(scenario)

    @pytest.mark.parametrize("kind", ["classic", "quorum"])
    def test_messages_of_many_windows_keep_the_order_of_their_queue(self, driver: RabbitDriver, kind: str) -> None:
        async def scenario() -> None:
            queue = Destination(QUEUE, f"windows-{kind}")
            await asyncio.to_thread(driver._client.declare, queue.name, arguments={"x-queue-type": kind})
            texts = [str(number) for number in range(COUNT)]
            await asyncio.to_thread(driver.send, queue, texts)
            source = await driver.provider().open_source(Source(driver.source().factory, queue), CREDIT_OF_WINDOWS)
            assert isinstance(source, AmqpSource)
            received: list[str] = []
            channels = {source._channel}
            while len(received) < COUNT:
                found = bodies(await source.receive(CREDIT_OF_WINDOWS // 4, MIB, WAIT_S))
                assert found, f"nothing comes behind {len(received)} messages"
                received += found
                source._window.is_closed = True
                await source.acknowledge()
                channels.add(source._channel)
            assert received == texts
            assert len(channels) >= COUNT // CREDIT_OF_WINDOWS and not source._window._is_ignored
            source.check()
            await source.close()
            assert await asyncio.to_thread(driver.texts, queue) == []
            await asyncio.to_thread(driver._client.delete, queue.name)

        runs(scenario)

    def test_messages_of_a_topic_and_a_deleted_queue_are_seen_behind_the_first_window(
        self, driver: RabbitDriver
    ) -> None:
        async def scenario() -> None:
            factory = driver.source().factory
            target = await driver.provider().open_target(Target(factory, Destination(TOPIC, "windows.a")))
            source = await driver.provider().open_source(Source(factory, Destination(TOPIC, "windows.*")), CREDIT)
            assert isinstance(source, AmqpSource)
            for text in ("a", "b", "c"):
                await target.send([neutral_message(text)])
                assert bodies(await take(source, 1)) == [text]
                source._window.is_closed = True
                await source.acknowledge()
            assert await source.receive(1, MIB, 0) == []
            await source._channel.queue_delete(source._queue)
            with pytest.raises(JmsError, match="was deleted"):
                await source.receive(1, MIB, WAIT_S)
            await source.close()
            await target.close()

        runs(scenario)

    def test_a_durable_subscription_of_a_topic_keeps_what_comes_while_the_bridge_is_away(
        self, driver: RabbitDriver
    ) -> None:
        async def scenario() -> None:
            factory = driver.source().factory
            topic = Source(factory, Destination(TOPIC, "prices.*"), subscription="conformance-prices")
            await (await driver.provider().open_source(topic, CREDIT)).close()
            target = await driver.provider().open_target(Target(factory, Destination(TOPIC, "prices.tea")))
            await target.send([neutral_message("kept")])
            plain = await driver.provider().open_source(Source(factory, Destination(TOPIC, "prices.#")), CREDIT)
            assert await plain.receive(1, 1, QUIET_S) == []
            again = await driver.provider().open_source(topic, CREDIT)
            assert bodies(await take(again, 1)) == ["kept"]
            await again.acknowledge()
            for party in (again, plain, target):
                await party.close()
            driver._client.delete("conformance-prices")

        runs(scenario)

    def test_all_kinds_of_bodies_return_as_what_they_were(self, driver: RabbitDriver) -> None:
        async def scenario() -> None:
            sent = [
                message(TEXT, "é".encode()),
                message(BYTES, b"\0\xff"),
                message(MAP, encode_map({"n": (5, 1), "text": (9, "é")})),
                message(STREAM, encode_stream([(5, 1), (9, "é")])),
                message(OBJECT, b"\xac\xed\x00\x05"),
            ]
            target = await driver.provider().open_target(driver.target())
            await target.send(sent)
            source = await driver.provider().open_source(driver.end(), CREDIT)
            found = await take(source, len(sent))
            assert [(one.kind, one.content.neutral_body()) for one in found] == [
                (one.kind, one.content.neutral_body()) for one in sent
            ]
            await source.close()
            await target.close()

        runs(scenario)

    def test_properties_that_fill_more_than_a_frame_are_refused(self, driver: RabbitDriver) -> None:
        async def scenario() -> None:
            target = await driver.provider().open_target(driver.target())
            big = message(TEXT, b"")
            big.properties = {"big": (9, "x" * 200_000)}
            with pytest.raises(MessageRefusedError, match="the properties have"):
                await target.send([big])
            await target.send([neutral_message("next")])
            assert driver.texts(TARGET) == ["next"]
            await target.close()

        runs(scenario)
