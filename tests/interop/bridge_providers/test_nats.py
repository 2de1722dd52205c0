"""The NATS providers keep the promises of all providers, with a server of NATS and JetStream."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from spanwire import client
from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import Provider
from spanwire.bridges.providers.nats.provider import CoreNatsProvider, NatsProvider
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import JmsError
from spanwire.model.message_view import BYTES, STRING_VALUE, TEXT
from spanwire.model.secret import Secret
from tests.conformance.bridge_providers import (
    ALL_HEADERS,
    CREDIT,
    MANY,
    QUIET_S,
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
    MOMENTS,
    TEXTS,
    WAIT_S,
    assert_quality,
    inward,
    outward,
    run_with_killed_peer,
    send,
    started,
    words_of,
)
from tests.support.bridge_dialogue import Content
from tests.support.bridge_peers import NatsPeer
from tests.support.broker_process import BrokerProcess
from tests.support.nats_client import NatsClient
from tests.support.nats_server import PASSWORD, USER, NatsProcess

NUMBERS: Final = itertools.count()


class NatsDriver:
    headers = ALL_HEADERS
    typed_properties = False
    marks_redelivery: bool | None = None  # 2.9 counts no delivery that a bridge gave back

    def __init__(self, server: NatsProcess) -> None:
        self._server = server
        self.client = NatsClient(server.port)
        self.factory = ConnectionFactory(server.url, USER, Secret(PASSWORD), provider="nats")
        run = next(NUMBERS)
        self.streams = {SOURCE: f"SOURCE-{run}", TARGET: f"TARGET-{run}"}
        self.subjects = {SOURCE: f"source.{run}", TARGET: f"target.{run}"}
        for destination, stream in self.streams.items():
            self.client.create(stream, self.subjects[destination])

    def provider(self) -> Provider:
        return NatsProvider()

    def subject(self, destination: Destination) -> Destination:
        return Destination(TOPIC, self.subjects[destination])

    def source(self, selector: str | None = None) -> Source:
        return Source(self.factory, self.subject(SOURCE), selector, "bridge")

    def target(self) -> Target:
        return Target(self.factory, self.subject(TARGET))

    def beginning(self) -> Target:
        return Target(self.factory, self.subject(SOURCE))

    def end(self) -> Source:
        return Source(self.factory, self.subject(TARGET), None, "end")

    def send(self, destination: Destination, texts: list[str], properties: dict[str, int] | None = None) -> None:
        self.client.publish(
            self.subjects[destination], [text.encode() for text in texts], **{"content-type": "text/plain"}
        )

    def texts(self, destination: Destination) -> list[str]:
        return [message.data.decode() for message in self.client.messages(self.subjects[destination])]

    def pending(self, destination: Destination) -> int | None:
        return self.client.pending(self.streams[destination], "bridge")

    def dead_letters(self) -> list[str]:
        return [message.data.decode() for message in self.client.messages(f"{self.subjects[SOURCE]}.DLQ")]

    def stop(self) -> None:
        self._server.kill()


@pytest.fixture
def driver(nats: NatsProcess) -> Iterator[NatsDriver]:
    yield NatsDriver(nats)
    if not nats.is_running:
        nats.start()


class TestNatsProvider(BridgeProviderConformance):
    def test_a_batch_that_is_sent_again_is_stored_once(self, driver: NatsDriver) -> None:
        async def scenario() -> None:
            batch = [neutral_message("a"), neutral_message("b")]  # a producer elsewhere gave both the same id
            own = BridgeMessage("", TEXT, Content("c", {"_AMQ_DUPL_ID": (STRING_VALUE, "bridge/1")}), 1)
            for _ in range(2):
                target = await driver.provider().open_target(driver.target())
                await target.send([*batch, own])
                await target.close()
            assert driver.texts(TARGET) == ["a", "b", "c"]

        runs(scenario)

    def test_texts_that_no_header_keeps_cross_as_well(self, driver: NatsDriver) -> None:
        async def scenario() -> None:
            texts = {"lines": "one\r\ntwo", "spaces": "  x ", "größe": "9", "Nats-Rollup": "all", "plain": "é"}
            values = {name: (STRING_VALUE, text) for name, text in texts.items()}
            target = await driver.provider().open_target(driver.target())
            await target.send([neutral_message("before")])
            await target.send([BridgeMessage("1", BYTES, Content("x", dict(values)), 1)])
            await target.close()
            assert driver.texts(TARGET) == ["before", "x"]  # a command would have removed the first
            source = await driver.provider().open_source(driver.end(), CREDIT)
            _, message = await take(source, 2)
            del values["Nats-Rollup"]
            assert message.property_values() == values
            await source.close()

        runs(scenario)

    def test_a_source_without_a_name_hears_what_comes_while_it_is_there(self, driver: NatsDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, ["before"])
            source = await driver.provider().open_source(Source(driver.factory, driver.subject(SOURCE)), CREDIT)
            await asyncio.to_thread(driver.send, SOURCE, ["now"])
            (message,) = await take(source, 1)
            assert (bodies([message]), message.message_id) == (["now"], f"{driver.streams[SOURCE]}-2")
            await source.acknowledge()
            await source.close()
            assert driver.client.consumers(driver.streams[SOURCE]) == []

        runs(scenario)

    def test_a_source_passes_over_its_own_dead_letters(self, driver: NatsDriver) -> None:
        async def scenario() -> None:
            driver.client.create("ALL", "all.>")
            pattern = Source(driver.factory, Destination(TOPIC, "all.>"), None, "bridge")
            driver.client.publish("all.x", [b"bad"], **{"Nats-Msg-Id": "1"})
            source = await driver.provider().open_source(pattern, 1)
            await take(source, 1)
            await source.dead_letter("refused")
            assert await source.receive(1, MANY, QUIET_S) == []
            driver.client.publish("all.x", [b"good"])
            assert bodies(await take(source, 1)) == ["good"]
            await source.close()
            (dead,) = driver.client.messages("all.x.DLQ")
            assert (dead.data, dead.headers["dlqDeliveryFailureCause"]) == (b"bad", "refused")

        runs(scenario)

    def test_messages_in_work_longer_than_the_stream_waits_are_not_delivered_again(self, driver: NatsDriver) -> None:
        async def scenario() -> None:
            driver.client.add_consumer(
                driver.streams[SOURCE], durable_name="bridge", filter_subject=driver.subjects[SOURCE], ack_wait=0.6
            )
            driver.send(SOURCE, ["a", "b"])
            source = await driver.provider().open_source(driver.source(), CREDIT)
            await take(source, 2)
            assert await source.receive(1, MANY, 2.0) == []
            await source.acknowledge()
            await source.close()
            assert driver.pending(SOURCE) == 0

        runs(scenario)

    def test_a_message_larger_than_the_stream_takes_is_refused_alone(self, driver: NatsDriver) -> None:
        driver.client.create(driver.streams[TARGET], driver.subjects[TARGET], max_msg_size=2_000)

        async def scenario() -> None:
            target = await driver.provider().open_target(driver.target())
            with pytest.raises(JmsError, match="the server takes 2000"):
                await target.send([neutral_message("x" * 2_000)])
            await target.send([neutral_message("x")])
            await target.close()

        runs(scenario)

    @pytest.mark.parametrize(
        ("words", "error"),
        [
            ({"ack_policy": "none"}, "acknowledgement of each message"),
            ({"max_deliver": 3}, "gives a message up after 3 deliveries"),
            ({"deliver_subject": "push.x"}, "pushes messages"),
            ({"max_ack_pending": 5}, "lets 5 messages wait"),
            ({"filter_subject": None}, None),
        ],
    )
    def test_a_consumer_that_would_lose_messages_is_refused(
        self, words: dict[str, Any], error: str | None, driver: NatsDriver
    ) -> None:
        wished = {"durable_name": "bridge", "filter_subject": driver.subjects[SOURCE], **words}
        driver.client.add_consumer(driver.streams[SOURCE], **wished)

        async def scenario() -> None:
            if error is not None:
                with pytest.raises(JmsError, match=error) as caught:
                    await driver.provider().open_source(driver.source(), CREDIT)
                assert "\n" not in str(caught.value)
            else:
                await (await driver.provider().open_source(driver.source(), CREDIT)).close()

        runs(scenario)

    def test_what_is_missing_is_said_in_one_line(self, driver: NatsDriver) -> None:
        async def scenario() -> None:
            nowhere = Destination(TOPIC, "nowhere")
            with pytest.raises(JmsError, match="no stream has the subject nowhere"):
                await driver.provider().open_target(Target(driver.factory, nowhere))
            driver.client.create("FIRST", "several.a")
            driver.client.create("SECOND", "several.b")
            with pytest.raises(JmsError, match="in several streams"):
                await driver.provider().open_source(Source(driver.factory, Destination(TOPIC, "several.*")), CREDIT)
            wrong = ConnectionFactory(driver.factory.url, USER, Secret("wrong-word"), provider="nats")
            with pytest.raises(JmsError, match="uthorization") as caught:
                await driver.provider().open_target(Target(wrong, nowhere))
            assert "wrong-word" not in str(caught.value) and "\n" not in str(caught.value)
            secure = ConnectionFactory(driver.factory.url.replace("nats:", "nats+ssl:"), USER, Secret(PASSWORD))
            with pytest.raises(JmsError, match="offers no TLS"):
                await driver.provider().open_target(Target(secure, nowhere))

        runs(scenario)

    def test_a_stream_that_is_removed_ends_source_and_target(self, driver: NatsDriver) -> None:
        async def scenario() -> None:
            source = await driver.provider().open_source(driver.end(), CREDIT)
            target = await driver.provider().open_target(driver.target())
            driver.client.create(driver.streams[TARGET], "elsewhere")
            with pytest.raises(JmsError, match="no stream takes the message"):
                await target.send([neutral_message("x")])
            with pytest.raises(JmsError, match="delivers no more"):
                await source.receive(1, MANY, 30.0)
            await source.close()
            await target.close()

        runs(scenario)


class TestCoreNats:
    def test_messages_cross_while_both_sides_are_there(self, driver: NatsDriver, tmp_path: Path) -> None:
        async def scenario() -> None:
            provider, subject = CoreNatsProvider(), Destination(TOPIC, "core.x")
            source = await provider.open_source(Source(driver.factory, Destination(TOPIC, "core.>")), CREDIT)
            target = await provider.open_target(Target(driver.factory, subject))
            await target.send([neutral_message("a"), neutral_message("b")])
            assert bodies(await take(source, 2)) == ["a", "b"]
            await source.dead_letter("refused")
            assert await source.receive(1, MANY, QUIET_S) == []
            await source.acknowledge()
            await asyncio.to_thread(driver.stop)
            with pytest.raises(JmsError):
                await target.send([neutral_message("c")])
            with pytest.raises(JmsError):
                await source.receive(1, MANY, 30.0)
            await source.close()
            await target.close()

        runs(scenario)

    @pytest.mark.long
    @pytest.mark.timeout(KILLS_S)
    def test_a_killed_target_loses_at_most_a_batch_with_each_kill_and_doubles_nothing(
        self, nats: NatsProcess, spanwire: BrokerProcess, tmp_path: Path
    ) -> None:
        peer, name = CorePeer(nats), "core-target"
        peer.create(name)
        send(spanwire, name, TEXTS)
        text = outward(peer, spanwire, name, *words_of("AT_MOST_ONCE"))
        run_with_killed_peer(text, tmp_path, "Send", nats.kill, nats.start)
        assert_quality("AT_MOST_ONCE", Counter(peer.take(name)), len(MOMENTS))

    @pytest.mark.long
    @pytest.mark.timeout(KILLS_S)
    def test_a_killed_source_loses_what_the_bridge_has_not_sent_and_nothing_after_its_return(
        self, nats: NatsProcess, spanwire: BrokerProcess, tmp_path: Path
    ) -> None:
        peer, name = CorePeer(nats), "core-source"
        peer.create(name)
        text = inward(peer, spanwire, name, *words_of("AT_MOST_ONCE"))
        process = started(text, tmp_path, [], None)
        received: list[str] = []
        with client.connect(spanwire.openwire_uri()) as connection, connection.session() as session:
            consumer = session.create_consumer(f"queue://{name}")

            def await_text(text: str) -> None:
                while not received or received[-1] != text:
                    message = consumer.receive(WAIT_S)
                    assert message is not None, f"{text} does not arrive"
                    received.append(message.text)

            for number in range(KILLS):
                peer.send(name, [f"{number}-{text}" for text in TEXTS[:FEW]])
                await_text(f"{number}-{FEW // 2}")  # the bridge is at work
                nats.kill()
                try:
                    process.wait_until(lambda line: "retrying after a failure" in line, WAIT_S)
                finally:
                    nats.start()
                process.wait_until(lambda line: "bridge test: running" in line, WAIT_S)
            peer.send(name, TEXTS[:FEW])
            await_text(TEXTS[FEW - 1])
        assert process.end(signal.SIGTERM) == 0
        assert received[-FEW:] == TEXTS[:FEW]
        assert max(Counter(received).values()) == 1


class CorePeer(NatsPeer):
    """Core NATS, with streams beside that collect what is published."""

    def factory(self, password: str | None = None) -> str:
        """Return the table with the user of the test."""
        return super().factory(password).replace('"nats"', '"nats-core"')

    def source(self, name: str) -> str:
        """Return the subject ``NAME.in`` as a source."""
        return f'sourceConnectionFactory = "peer"\nsourceDestination = "topic://{name}.in"\n'
