"""The AMQP 1.0 provider keeps the promises of all providers, with RabbitMQ's plug-in and with Artemis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from spanwire import client
from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import Provider
from spanwire.bridges.providers.inbox import MAX_OCTETS
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES,
    BYTES_VALUE,
    CHAR_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LONG_VALUE,
    MAP,
    NULL_VALUE,
    OBJECT,
    PLAIN,
    SHORT_VALUE,
    STREAM,
    STRING_VALUE,
    TEXT,
    PropertyValue,
)
from spanwire.model.secret import Secret
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map, encode_map, encode_stream
from tests.conformance.bridge_providers import (
    ALL_HEADERS,
    CREDIT,
    MANY,
    QUIET_S,
    SOURCE,
    TARGET,
    WAIT_S,
    BridgeProviderConformance,
    LocalTransactionConformance,
    SelectorConformance,
    UnlimitedBatchConformance,
    bodies,
    neutral_message,
    runs,
    take,
)
from tests.support.broker_process import BrokerProcess
from tests.support.peers import require_library
from tests.support.rabbit_client import RabbitClient
from tests.support.rabbitmq import RabbitProcess

GONE = Destination(QUEUE, "NO.SUCH.QUEUE")
DEAD = Destination(QUEUE, SOURCE.name + ".DLQ")
pytestmark = pytest.mark.long


def provider() -> Provider:
    require_library("proton")
    from spanwire.bridges.providers.amqp.provider import AmqpProvider  # noqa: PLC0415 -- the library may be missing

    return AmqpProvider()


class AmqpDriver:
    """The ends of a bridge at one broker."""

    headers = ALL_HEADERS
    typed_properties = True

    def __init__(self, url: str, user: str) -> None:
        self.factory = ConnectionFactory(url, user, Secret(user), provider="amqp")

    def provider(self) -> Provider:
        return provider()

    def texts(self, destination: Destination) -> list[str]:
        raise NotImplementedError

    def source(self, selector: str | None = None) -> Source:
        return Source(self.factory, SOURCE, selector)

    def target(self) -> Target:
        return Target(self.factory, TARGET)

    def beginning(self) -> Target:
        return Target(self.factory, SOURCE)

    def end(self) -> Source:
        return Source(self.factory, TARGET)


class RabbitDriver(AmqpDriver):
    marks_redelivery = True

    def __init__(self, broker: RabbitProcess) -> None:
        super().__init__(broker.amqp_url, "guest")
        self._broker = broker
        self.client = RabbitClient(f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/")
        for queue in (SOURCE.name, TARGET.name):
            self.client.declare(queue)
            self.client.delete(queue + ".DLQ")

    def send(self, destination: Destination, texts: list[str], properties: dict[str, int] | None = None) -> None:
        octets = [text.encode() for text in texts]
        self.client.send(destination.name, octets, content_type="text/plain", headers=dict(properties or {}))

    def texts(self, destination: Destination) -> list[str]:
        return [message.body.decode() for message in self.client.look(destination.name)]

    def pending(self, destination: Destination) -> int:
        return self._broker.messages(destination.name)

    def dead_letters(self) -> list[str]:
        return self.texts(DEAD)

    def stop(self) -> None:
        self._broker.kill()


class ArtemisDriver(AmqpDriver):
    """Artemis, beside the provider reached by our own client over OpenWire."""

    marks_redelivery = False  # a message that is given back does not count as delivered

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(f"amqp://127.0.0.1:{broker.openwire_port}", "admin")
        self._broker = broker
        self.url = f"tcp://127.0.0.1:{broker.openwire_port}"
        with client.connect(self.url) as connection, connection.session() as session:
            for destination in (SOURCE, TARGET, DEAD):
                consumer = session.create_consumer(destination)
                while consumer.receive(QUIET_S) is not None:
                    pass

    def send(self, destination: Destination, texts: list[str], properties: dict[str, int] | None = None) -> None:
        with client.connect(self.url) as connection, connection.session() as session:
            producer = session.create_producer(destination)
            for text in texts:
                producer.send(text, properties)

    def texts(self, destination: Destination) -> list[str]:
        with client.connect(self.url) as connection, connection.session() as session:
            return [str(message.body) for message in session.create_browser(destination)]

    def pending(self, destination: Destination) -> int:
        question = {"_AMQ_ResourceName": f"queue.{destination.name}", "_AMQ_Attribute": "messageCount"}
        with client.connect(self.url) as connection, connection.session() as session:
            reply = session.request("queue://activemq.management", "", question, timeout=30)
        assert reply is not None
        return int(str(reply.body).strip("[]"))

    def dead_letters(self) -> list[str]:
        return self.texts(DEAD)

    def stop(self) -> None:
        self._broker.kill()


def message(kind: int, body: bytes | None) -> BridgeMessage:
    class Body:
        def neutral_body(self) -> bytes | None:
            return body

        def property_values(self) -> dict[str, PropertyValue]:
            return {}

    return BridgeMessage("ID:1", kind, Body(), len(body or b""))


@pytest.fixture
def rabbit_driver(rabbitmq: RabbitProcess) -> Iterator[RabbitDriver]:
    yield RabbitDriver(rabbitmq)
    if not rabbitmq.is_running:
        rabbitmq.start()


@pytest.fixture
def artemis_driver(artemis: BrokerProcess) -> Iterator[ArtemisDriver]:
    yield ArtemisDriver(artemis)
    if artemis._process is None:
        artemis.start()


class TestBothBrokers:
    """Promises of the provider with every broker of AMQP 1.0, beside those of all providers."""

    @pytest.fixture(params=["rabbit_driver", "artemis_driver"])
    def driver(self, request: pytest.FixtureRequest) -> AmqpDriver:
        found: AmqpDriver = request.getfixturevalue(request.param)
        return found

    def test_all_kinds_of_bodies_return_as_what_they_were(self, driver: AmqpDriver) -> None:
        async def scenario() -> None:
            everything: dict[str, PropertyValue] = {
                "byte": (BYTE_VALUE, -1),
                "short": (SHORT_VALUE, -300),
                "long": (LONG_VALUE, 2**40),
                "float": (FLOAT_VALUE, 0.5),
                "double": (DOUBLE_VALUE, 0.1),
                "char": (CHAR_VALUE, "é"),
                "bytes": (BYTES_VALUE, b"\0\xff"),
                "null": (NULL_VALUE, None),
            }
            sent = [
                message(TEXT, "é".encode()),
                message(TEXT, b""),
                message(BYTES, b"\0\xff"),
                message(MAP, encode_map(everything)),
                message(STREAM, encode_stream([*everything.values()])),
                message(OBJECT, b"\xac\xed\x00\x05"),
                message(PLAIN, None),
            ]
            target = await driver.provider().open_target(driver.target())
            await target.send(sent)
            source = await driver.provider().open_source(driver.end(), CREDIT)
            found = await take(source, len(sent))
            assert [(one.kind, one.content.neutral_body()) for one in found] == [
                (one.kind, one.content.neutral_body()) for one in sent
            ]
            await source.acknowledge()
            await source.close()
            await target.close()

        runs(scenario)

    def test_large_messages_wait_at_the_broker_until_there_is_room(self, driver: AmqpDriver) -> None:
        async def scenario() -> None:
            target = await driver.provider().open_target(driver.target())
            for _ in range(9):
                await target.send([message(BYTES, bytes([number]) * 1_000_000) for number in range(10)])
            source = await driver.provider().open_source(driver.end(), CREDIT)
            await asyncio.sleep(QUIET_S)
            found = await take(source, 1)
            inbox = source._receiver.link.inbox  # type: ignore[attr-defined]
            assert inbox.octets <= MAX_OCTETS + 1_000_100
            while len(found) < 90:
                found += await source.receive(10, 10 * MANY, WAIT_S)
            assert [(one.content.neutral_body() or b"")[:1] for one in found] == [bytes([n]) for n in range(10)] * 9
            await source.acknowledge()
            await source.close()
            await target.close()
            assert driver.texts(TARGET) == []

        runs(scenario)

    def test_a_dead_letter_keeps_body_and_properties_beside_its_cause(self, driver: AmqpDriver) -> None:
        async def scenario() -> None:
            first = await driver.provider().open_target(driver.beginning())
            await first.send([neutral_message("bad")])
            source = await driver.provider().open_source(driver.source(), CREDIT)
            (before,) = await take(source, 1)
            await source.dead_letter("too\nlarge")
            dead = await driver.provider().open_source(Source(driver.factory, DEAD), CREDIT)
            (after,) = await take(dead, 1)
            notes = {"dlqDeliveryFailureCause": "too large", "originalDestination": str(SOURCE)}
            values = after.property_values()
            assert {name: values.pop(name)[1] for name in notes} == notes
            assert values == before.property_values()
            assert (bodies([after]), after.correlation_id, after.reply_to) == (["bad"], "c", before.reply_to)
            for party in (first, source, dead):
                await party.close()

        runs(scenario)


class TestRabbit(BridgeProviderConformance, UnlimitedBatchConformance):
    """RabbitMQ 3 with its plug-in."""

    @pytest.fixture
    def driver(self, rabbit_driver: RabbitDriver) -> RabbitDriver:
        return rabbit_driver

    def test_a_refused_login_is_one_line_without_the_password(self, driver: AmqpDriver) -> None:
        async def scenario() -> None:
            factory = ConnectionFactory(driver.factory.url, "nobody", Secret("wrong-word"), provider="amqp")
            with pytest.raises(JmsError, match="unauthorized-access") as refusal:
                await driver.provider().open_target(Target(factory, TARGET))
            assert "\n" not in str(refusal.value) and "wrong-word" not in str(refusal.value)

        runs(scenario)

    def test_a_text_is_readable_for_clients_of_amqp_0_9_1(self, driver: RabbitDriver) -> None:
        async def scenario() -> None:
            target = await driver.provider().open_target(driver.target())
            await target.send([neutral_message("text é")])
            await target.close()
            (found,) = await asyncio.to_thread(driver.client.look, TARGET.name)
            assert (found.body.decode(), found.content_type, found.delivery_mode) == ("text é", "text/plain", 2)
            assert (found.correlation_id, found.reply_to, found.priority) == ("c", "REPLIES", 7)

        runs(scenario)

    def test_a_missing_source_is_named_and_a_missing_target_is_created(self, driver: RabbitDriver) -> None:
        async def scenario() -> None:
            driver.client.delete(GONE.name)
            with pytest.raises(JmsError, match=r"no queue 'NO\.SUCH\.QUEUE'") as refusal:
                await driver.provider().open_source(Source(driver.factory, GONE), CREDIT)
            assert "\n" not in str(refusal.value)
            target = await driver.provider().open_target(Target(driver.factory, GONE))
            await target.send([neutral_message("kept")])
            await target.close()
            driver.stop()
            driver._broker.start()
            assert driver.texts(GONE) == ["kept"]
            driver.client.delete(GONE.name)

        runs(scenario)

    def test_the_dead_letters_of_a_name_with_a_slash_have_the_whole_name(self, driver: RabbitDriver) -> None:
        async def scenario() -> None:
            queue, dead = Destination(QUEUE, "conformance/slash"), Destination(QUEUE, "conformance/slash.DLQ")
            driver.client.declare(queue.name)
            driver.send(queue, ["no reader"])
            source = await driver.provider().open_source(Source(driver.factory, queue), CREDIT)
            await take(source, 1)
            await source.dead_letter("cause")
            await source.close()
            assert driver.texts(dead) == ["no reader"]
            for each in (queue, dead):
                driver.client.delete(each.name)

        runs(scenario)

    def test_a_queue_with_arguments_is_a_target_under_its_name(self, driver: RabbitDriver) -> None:
        async def scenario() -> None:
            driver.client.declare(
                "conformance-arguments", arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
            )
            queue = Destination(QUEUE, "conformance-arguments")
            target = await driver.provider().open_target(Target(driver.factory, queue))
            await target.send([neutral_message("first")])
            with pytest.raises(JmsError):  # the plug-in ends the connection at the queue's refusal
                await target.send([neutral_message("second"), neutral_message("third")])
            await target.close()
            assert driver.texts(queue)[:1] == ["first"]
            driver.client.delete(queue.name)

        runs(scenario)

    def test_topics_are_routing_keys_of_the_exchange_of_the_url(self, driver: RabbitDriver) -> None:
        async def scenario() -> None:
            url = f"{driver.factory.url}?exchange=amq.topic"
            factory = ConnectionFactory(url, "guest", Secret("guest"), provider="amqp")
            source = await driver.provider().open_source(Source(factory, Destination(TOPIC, "prices.*")), CREDIT)
            target = await driver.provider().open_target(Target(driver.factory, Destination(TOPIC, "prices.tea")))
            await target.send([neutral_message("now")])
            assert bodies(await take(source, 1)) == ["now"]
            await source.acknowledge()
            missing = ConnectionFactory(f"{driver.factory.url}?exchange=nowhere", provider="amqp")
            with pytest.raises(JmsError, match="no exchange 'nowhere'"):
                await driver.provider().open_target(Target(missing, Destination(TOPIC, "prices.tea")))
            await source.close()
            await target.close()

        runs(scenario)

    def test_what_the_plug_in_cannot_do_is_refused(self, driver: RabbitDriver) -> None:
        async def scenario() -> None:
            opened = driver.provider()
            topic = Source(driver.factory, Destination(TOPIC, "prices"), None, "name", "client")
            with pytest.raises(JmsError, match="keeps no subscription"):
                await opened.open_source(topic, CREDIT)
            with pytest.raises(JmsError, match="remove selector"):
                await opened.open_source(driver.source("n = 2"), CREDIT)
            with pytest.raises(ConfigurationError, match="use DUPLICATES_OK"):
                await opened.open_transaction(driver.source(), driver.target(), CREDIT)
            nowhere = ConnectionFactory(driver.factory.url + "/nowhere", "guest", Secret("guest"), provider="amqp")
            with pytest.raises(JmsError, match="nowhere"):
                await opened.open_target(Target(nowhere, TARGET))

        runs(scenario)


class TestArtemis(
    BridgeProviderConformance, UnlimitedBatchConformance, SelectorConformance, LocalTransactionConformance
):
    """ActiveMQ Artemis."""

    @pytest.fixture
    def driver(self, artemis_driver: ArtemisDriver) -> ArtemisDriver:
        return artemis_driver

    def test_a_durable_subscription_keeps_what_comes_while_the_bridge_is_away(self, driver: ArtemisDriver) -> None:
        async def scenario() -> None:
            topic = Source(driver.factory, Destination(TOPIC, "PRICES"), None, "all", "conformance")
            await (await driver.provider().open_source(topic, CREDIT)).close()
            target = await driver.provider().open_target(Target(driver.factory, Destination(TOPIC, "PRICES")))
            await target.send([neutral_message("kept")])
            again = await driver.provider().open_source(topic, CREDIT)
            assert bodies(await take(again, 1)) == ["kept"]
            with pytest.raises(JmsError, match="Consumer Limit"):
                await driver.provider().open_source(topic, CREDIT)
            await again.acknowledge()
            await again.close()
            await target.close()

        runs(scenario)

    def test_a_qualified_name_is_one_queue_of_a_topic(self, driver: ArtemisDriver) -> None:
        async def scenario() -> None:
            durable = Source(driver.factory, Destination(TOPIC, "NEWS"), None, "all", "qualified")
            await (await driver.provider().open_source(durable, CREDIT)).close()
            target = await driver.provider().open_target(Target(driver.factory, Destination(TOPIC, "NEWS")))
            await target.send([neutral_message("kept")])
            queue = Destination(QUEUE, "NEWS::qualified.all")
            source = await driver.provider().open_source(Source(driver.factory, queue), CREDIT)
            assert bodies(await take(source, 1)) == ["kept"]
            await source.dead_letter("no reader")
            dead = Destination(QUEUE, "qualified.all.DLQ")
            assert driver.texts(dead) == ["kept"]
            await source.close()
            await target.close()

        runs(scenario)

    def test_a_message_of_openwire_arrives_with_its_kind_and_types(self, driver: ArtemisDriver) -> None:
        async def scenario() -> None:
            with client.connect(driver.url) as connection, connection.session() as session:
                session.create_producer(SOURCE).send({"n": 7, "text": "é"}, {"flag": True, "long": 2**40}, priority=8)
            source = await driver.provider().open_source(driver.source(), CREDIT)
            (found,) = await take(source, 1)
            body = decode_map(found.content.neutral_body() or b"", UNBOUNDED)
            assert (found.kind, body) == (MAP, {"n": (INT_VALUE, 7), "text": (STRING_VALUE, "é")})
            values = found.property_values()
            assert (values["flag"], values["long"]) == ((BOOLEAN_VALUE, True), (LONG_VALUE, 2**40))
            assert (found.priority, found.persistent) == (8, True)
            await source.acknowledge()
            await source.close()

        runs(scenario)

    def test_a_message_of_amqp_is_read_by_openwire_with_its_kind_and_types(self, driver: ArtemisDriver) -> None:
        async def scenario() -> None:
            sent = message(MAP, encode_map({"n": (INT_VALUE, 7), "text": (STRING_VALUE, "é")}))
            sent.properties = {"flag": (BOOLEAN_VALUE, True), "short": (SHORT_VALUE, 3)}
            target = await driver.provider().open_target(driver.target())
            await target.send([sent])
            await target.close()

        runs(scenario)
        with client.connect(driver.url) as connection, connection.session() as session:
            found = session.create_consumer(TARGET).receive(WAIT_S)
        assert found is not None
        assert (found.body, found.properties["flag"], found.properties["short"]) == ({"n": 7, "text": "é"}, True, 3)

    def test_a_wrong_selector_is_named(self, driver: ArtemisDriver) -> None:
        async def scenario() -> None:
            with pytest.raises(JmsError, match="Invalid filter") as refusal:
                await driver.provider().open_source(driver.source("n = = 2"), CREDIT)
            assert "\n" not in str(refusal.value)

        runs(scenario)
