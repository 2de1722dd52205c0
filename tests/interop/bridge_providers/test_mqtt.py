"""The MQTT provider keeps the promises of all providers, with Mosquitto."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.ports import Provider
from spanwire.bridges.providers.mqtt.connection import NO_SESSION, MqttConnection
from spanwire.bridges.providers.mqtt.parties import MqttSource
from spanwire.bridges.providers.mqtt.provider import MqttProvider
from spanwire.bridges.providers.window import Window
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import JmsError
from spanwire.model.secret import Secret
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
from tests.interop.bridge_providers.test_peers import (
    BATCH,
    COUNT,
    FEW,
    KILLS_S,
    MODES,
    MOMENTS,
    TEXTS,
    empty,
    inward,
    outward,
    run_with_killed_peer,
    send,
    words_of,
)
from tests.interop.bridge_providers.test_peers import take as taken
from tests.support.bridge_peers import MosquittoPeer
from tests.support.broker_process import BrokerProcess
from tests.support.mosquitto import PASSWORD, USER, MosquittoProcess
from tests.support.mqtt_client import MqttClient

IN: Final = "conformance/source"
OUT: Final = "conformance/target"
TOPICS: Final = {SOURCE: IN, TARGET: OUT}


class MosquittoDriver:
    headers = ALL_HEADERS
    typed_properties = False
    marks_redelivery = True

    def __init__(self, broker: MosquittoProcess) -> None:
        self._broker = broker
        self._factory = ConnectionFactory(broker.url, USER, Secret(PASSWORD), provider="mqtt")
        self.collector = MqttClient(broker.port, "collector")
        for client_id, topic in (("bridge", IN), ("end", OUT)):
            self._reset(client_id, topic)
        for topic in (OUT, f"{IN}.DLQ"):
            self.collector.subscribe(topic)
            self.collector.messages(topic)
            self.collector.forget(topic)

    def _reset(self, client_id: str, topic: str) -> None:
        """Empty the session of a bridge, and subscribe it."""
        session = MqttClient(self._broker.port, client_id)
        session.subscribe(topic)
        session.messages(topic)
        session.close()

    @property
    def port(self) -> int:
        return self._broker.port

    def provider(self) -> Provider:
        return MqttProvider()

    def source(self, selector: str | None = None) -> Source:
        return Source(self._factory, Destination(TOPIC, IN), selector, "session", "bridge")

    def target(self) -> Target:
        return Target(self._factory, Destination(TOPIC, OUT))

    def beginning(self) -> Target:
        return Target(self._factory, Destination(TOPIC, IN))

    def end(self) -> Source:
        return Source(self._factory, Destination(TOPIC, OUT), None, "session", "end")

    def send(self, destination: Destination, texts: list[str], properties: dict[str, int] | None = None) -> None:
        self.collector.publish(TOPICS[destination], [text.encode() for text in texts], ContentType="text/plain")

    def texts(self, destination: Destination) -> list[str]:
        return [message.payload.decode() for message in self.collector.messages(TOPICS[destination])]

    def pending(self, destination: Destination) -> int | None:
        return None

    def dead_letters(self) -> list[str]:
        return [message.payload.decode() for message in self.collector.messages(f"{IN}.DLQ")]

    def stop(self) -> None:
        self._broker.stop()


@pytest.fixture
def driver(mosquitto: MosquittoProcess) -> Iterator[MosquittoDriver]:
    made = MosquittoDriver(mosquitto)
    yield made
    made.collector.close()
    if not mosquitto.is_running:
        mosquitto.start()


@pytest.mark.long
class TestMqttProvider(BridgeProviderConformance):
    def test_headers_of_mqtt_cross_both_ways(self, driver: MosquittoDriver) -> None:
        async def scenario() -> None:
            target = await driver.provider().open_target(driver.target())
            message = neutral_message("text")
            message.reply_to = Destination(TOPIC, "replies/1")
            await target.send([message])
            await target.close()
            (packet,) = driver.collector.messages(OUT)
            own = packet.properties
            assert (own.ContentType, own.CorrelationData, own.ResponseTopic) == ("text/plain", b"c", "replies/1")
            assert ("JMSType", "t") in own.UserProperty and packet.qos == 1 and not packet.retain
            driver.collector.publish(
                IN, [b"\xff"], CorrelationData=b"\xfe", ResponseTopic="r", UserProperty=[("a", "b")]
            )
            source = await driver.provider().open_source(driver.source(), CREDIT)
            (found,) = await take(source, 1)
            assert (found.correlation_id, found.reply_to) == ("fe", Destination(TOPIC, "r"))
            assert found.property_values() == {"a": (9, "b")}
            await source.acknowledge()
            await source.close()

        runs(scenario)

    def test_a_source_without_a_session_hears_what_comes_while_it_is_there(self, driver: MosquittoDriver) -> None:
        async def scenario() -> None:
            plain = Source(driver.source().factory, Destination(TOPIC, "conformance/+"))
            source = await driver.provider().open_source(plain, CREDIT)
            driver.send(SOURCE, ["now"])
            assert bodies(await take(source, 1)) == ["now"]
            await source.close()

        runs(scenario)

    def test_a_source_of_mqtt_without_a_session_leaves_none_behind(self, driver: MosquittoDriver) -> None:
        async def scenario() -> None:
            plain = Source(driver.source().factory, Destination(TOPIC, IN))
            source = await driver.provider().open_source(plain, CREDIT)
            assert isinstance(source, MqttSource)
            name = source._connection.client_id
            await source.close()
            again = MqttConnection(plain.factory, name, NO_SESSION, Window(CREDIT), is_resumed=True)
            await again.open()
            driver.send(SOURCE, ["none"])
            assert await again.inbox.take(1, 1_000, QUIET_S) == []
            await again.close()

        runs(scenario)

    def test_a_lost_source_of_a_shared_subscription_takes_no_messages_of_its_group(
        self, driver: MosquittoDriver
    ) -> None:
        async def scenario() -> None:
            shared = Source(driver.source().factory, Destination(TOPIC, f"$share/group/{IN}"))
            lost, kept = [await driver.provider().open_source(shared, CREDIT) for _ in range(2)]
            assert isinstance(lost, MqttSource)
            lost._connection._client.socket().shutdown(socket.SHUT_RDWR)
            texts = [str(number) for number in range(10)]
            driver.send(SOURCE, texts)
            assert bodies(await take(kept, len(texts))) == texts
            await kept.acknowledge()
            for source in (kept, lost):
                await source.close()

        runs(scenario)

    def test_a_source_receives_further_messages_with_the_next_window(self, driver: MosquittoDriver) -> None:
        async def scenario() -> None:
            for wanted in (driver.source(), Source(driver.source().factory, Destination(TOPIC, IN))):
                source = await driver.provider().open_source(wanted, CREDIT)
                assert isinstance(source, MqttSource)
                driver.send(SOURCE, ["a", "b"])
                assert bodies(await take(source, 1)) == ["a"]
                assert bodies(await take(source, 1)) == ["b"]
                former = source._connection
                former.window.is_closed = True
                driver.send(SOURCE, ["c"])
                await source.acknowledge()
                driver.send(SOURCE, ["d"])
                assert bodies(await take(source, 2)) == ["c", "d"]
                assert source._connection is not former
                await source.acknowledge()
                await source.close()

        runs(scenario)

    def test_a_message_of_quality_2_returns_until_it_is_acknowledged(self, driver: MosquittoDriver) -> None:
        async def scenario() -> None:
            session = MqttClient(driver.port, "bridge")
            session.subscribe(IN, quality=2)
            session.close()
            driver.collector.publish(IN, [b"once"], quality=2)
            for _ in range(2):
                source = await driver.provider().open_source(driver.source(), CREDIT)
                assert bodies(await take(source, 1)) == ["once"]
                await source.close()
            source = await driver.provider().open_source(driver.source(), CREDIT)
            await take(source, 1)
            await source.acknowledge()
            await source.close()
            empty = await driver.provider().open_source(driver.source(), CREDIT)
            assert await empty.receive(1, 1_000, QUIET_S) == []
            await empty.close()

        runs(scenario)

    def test_a_refused_login_is_one_line(self, mosquitto: MosquittoProcess) -> None:
        async def scenario() -> None:
            factory = ConnectionFactory(mosquitto.url, USER, Secret("wrong-word"), provider="mqtt")
            with pytest.raises(JmsError, match="Not authorized|Bad user name") as caught:  # noqa: RUF043
                await MqttProvider().open_target(Target(factory, Destination(TOPIC, "t")))
            assert "\n" not in str(caught.value) and mosquitto.url in str(caught.value)

        runs(scenario)


@pytest.mark.long
@pytest.mark.timeout(KILLS_S)
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_target_loses_what_came_since_it_stored_its_sessions_and_no_more(
    mode: str, mosquitto: MosquittoProcess, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    peer, name = MosquittoPeer(mosquitto), f"killed-target-{mode}"
    peer.create(name)
    text = outward(peer, spanwire, name, *words_of(mode))
    send(spanwire, name, TEXTS[:FEW])
    empty(text, None)
    mosquitto.store()
    send(spanwire, name, TEXTS[FEW:])
    run_with_killed_peer(text, tmp_path, "Send", mosquitto.kill, mosquitto.start)
    counts = Counter(peer.take(name))
    lost = [number for number in range(COUNT) if str(number) not in counts]
    assert lost == list(range(FEW, FEW + len(lost)))
    assert counts.total() - len(counts) <= (len(MOMENTS) * BATCH if mode == "DUPLICATES_OK" else 0)


@pytest.mark.long
@pytest.mark.timeout(KILLS_S)
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_source_delivers_again_what_it_had_delivered_since_it_stored_its_sessions(
    mode: str, mosquitto: MosquittoProcess, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    peer, name = MosquittoPeer(mosquitto), f"killed-source-{mode}"
    peer.create(name)
    peer.send(name, TEXTS)
    mosquitto.store()
    text = inward(peer, spanwire, name, *words_of(mode))
    run_with_killed_peer(text, tmp_path, "Acknowledge", mosquitto.kill, mosquitto.start)
    counts = Counter(taken(spanwire, name))
    assert COUNT - len(counts) <= (len(MOMENTS) * BATCH if mode == "AT_MOST_ONCE" else 0)
    doubled = [number for number in range(COUNT) if counts[str(number)] > 1]
    assert doubled == list(range(len(doubled)))  # of the first ones, which came before the last kill
