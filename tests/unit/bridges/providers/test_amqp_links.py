"""Links of the AMQP 1.0 provider in dialogue with a broker that misbehaves: refusals, damage, silence and loss."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import pytest

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, PartlySentError
from spanwire.bridges.providers.amqp import sections
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.model.message_view import TEXT
from tests.support.bridge_dialogue import Content
from tests.support.virtual_loop import VirtualLoop

pytest.importorskip("proton", reason="this Python has no package proton (make amqp)")

from spanwire.bridges.providers.amqp import links, parties
from spanwire.bridges.providers.amqp.connection import AmqpConnection
from spanwire.bridges.providers.amqp.coordinator import Coordinator
from spanwire.bridges.providers.amqp.parties import AmqpSource, AmqpTarget, attach_sender, open_receiver
from spanwire.bridges.providers.amqp.provider import AmqpProvider
from tests.support.amqp_broker import FACTORY, AmqpBroker

ORDERS: Final = Destination(QUEUE, "ORDERS")
FIRST: Final = sections.data_section(b"first")
SECOND: Final = sections.data_section(b"second")


def runs(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a dialogue; the clock leaps to the next timer."""
    loop = VirtualLoop(lambda _: None)
    try:
        loop.run_until_complete(scenario)
    finally:
        loop.close()


async def source_at(broker: AmqpBroker, selector: str | None = None, credit: int = 10) -> AmqpSource:
    connection = await broker.connect()
    coordinator = Coordinator(connection)
    await coordinator.attach()
    return AmqpSource(await open_receiver(connection, Source(FACTORY, ORDERS, selector), credit), coordinator)


async def target_at(broker: AmqpBroker) -> AmqpTarget:
    connection = await broker.connect()
    return AmqpTarget(connection, Target(FACTORY, ORDERS), await attach_sender(connection, ORDERS, creates=True))


def kept(connection: AmqpConnection) -> int:
    """Return the number of links that Proton keeps."""
    link, count = connection.session.connection.link_head(0), 0
    while link is not None:
        link, count = link.next(0), count + 1
    return count


def texts(*words: str) -> list[BridgeMessage]:
    return [BridgeMessage(f"ID:{word}", TEXT, Content(word), 1) for word in words]


def test_a_refused_attach_has_the_broker_s_reason() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        broker.refusals["ORDERS"] = "amqp:not-found"
        with pytest.raises(JmsError, match=r"amqp://broker:5672: ORDERS: no ORDERS \(amqp:not-found\)"):
            await target_at(broker)

    runs(scenario())


def test_a_broker_without_transactions_is_no_source() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        broker.refusals[""] = "amqp:not-implemented"
        with pytest.raises(JmsError, match=r"no transactions \(amqp:not-implemented\)"):
            await source_at(broker)

    runs(scenario())


def test_a_selector_that_the_broker_does_not_confirm_is_refused() -> None:
    async def scenario() -> None:
        await source_at(AmqpBroker(), "n = 2")
        broker = AmqpBroker()
        broker.echoes_filters = False
        with pytest.raises(JmsError, match="the broker has no selectors"):
            await source_at(broker, "n = 2")

    runs(scenario())


def test_a_message_in_parts_is_one_and_an_aborted_one_is_none() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        source = await source_at(broker)
        await asyncio.sleep(0)
        broker.send(FIRST[:4], is_whole=False)
        assert await source.receive(1, 100, 1.0) == []
        broker.send(FIRST[4:])
        (message,) = await source.receive(1, 100, 1.0)
        assert message.content.neutral_body() == b"first"
        broker.send(b"half", is_whole=False)
        broker.send(b"", is_aborted=True)
        broker.send(SECOND)
        (message,) = await source.receive(1, 100, 1.0)
        assert message.content.neutral_body() == b"second"

    runs(scenario())


def test_a_broker_that_forgets_messages_before_they_are_acknowledged_is_refused() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        source = await source_at(broker)
        await asyncio.sleep(0)
        broker.send(FIRST, is_settled=True)
        with pytest.raises(JmsError, match="forgets messages"):
            await source.receive(1, 100, 1.0)
        with pytest.raises(JmsError, match="forgets messages"):
            source.check()

    runs(scenario())


def test_a_message_that_is_too_large_ends_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        source = await source_at(broker)
        await asyncio.sleep(0)
        broker.send(bytes(101), is_whole=False)
        with pytest.raises(JmsError, match="more than 100 bytes"):
            await source.receive(1, 100, 1.0)

    monkeypatch.setattr(links, "MAX_MESSAGE", 100)
    runs(scenario())


def test_aborted_messages_give_their_credit_back() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        source = await source_at(broker, credit=2)
        await asyncio.sleep(0)
        for _ in range(5):
            broker.send(b"half", is_whole=False)
            broker.send(b"", is_aborted=True)
            await asyncio.sleep(1)
        for octets in (FIRST, SECOND):
            broker.send(octets)
        assert len(await source.receive(2, 100, 1.0)) == 2

    runs(scenario())


def test_an_acknowledgement_at_rabbitmq_leaves_no_link_behind() -> None:
    async def scenario() -> None:
        broker = AmqpBroker("RabbitMQ")
        connection = await broker.connect()
        source = AmqpSource(await open_receiver(connection, Source(FACTORY, ORDERS), 10), None)
        await asyncio.sleep(0)
        for _ in range(20):
            broker.send(FIRST)
            await source.receive(1, 100, 1.0)
            await source.acknowledge()
        await asyncio.sleep(1)
        assert (len(broker.detached), kept(connection)) == (20, 1)
        broker.send(SECOND)
        (message,) = await source.receive(1, 100, 1.0)
        assert message.content.neutral_body() == b"second"
        await source.close()

    runs(scenario())


@pytest.mark.parametrize(
    ("name", "creates", "where"),
    [
        ("A/B %20", True, "/queue/A%2FB %20"),  # it decodes the slash alone there
        ("A/B %20", False, "/queues/A%2FB%20%2520"),
        ("A%2FB", True, "/queues/A%252FB"),
    ],
)
def test_rabbitmq_4_creates_a_missing_queue_by_an_address_of_version_3(name: str, creates: bool, where: str) -> None:
    async def scenario() -> None:
        broker = AmqpBroker("RabbitMQ", "4.0.5")
        await attach_sender(await broker.connect(), Destination(QUEUE, name), creates)
        assert [link.remote_target.address for link in broker.links.values()] == [where]

    runs(scenario())


def test_a_target_at_rabbitmq_4_that_takes_no_old_addresses_is_a_queue_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers: list[AmqpBroker] = []

    async def connect(_: ConnectionFactory) -> AmqpConnection:
        broker = AmqpBroker("RabbitMQ", "4.2.0")
        broker.refusals["/queue/ORDERS"] = "amqp:not-allowed"
        brokers.append(broker)
        return await broker.connect()

    async def scenario() -> None:
        monkeypatch.setattr(parties, "connect", connect)
        await parties.open_sender(FACTORY, ORDERS)
        assert [link.remote_target.address for link in brokers[1].links.values()] == ["/queues/ORDERS"]

    runs(scenario())


def test_a_topic_of_rabbitmq_4_is_no_source() -> None:
    async def scenario() -> None:
        connection = await AmqpBroker("RabbitMQ", "4.0.5").connect()
        with pytest.raises(JmsError, match=r"RabbitMQ 4\.0\.5 has no topics as sources over AMQP 1\.0; bind a queue"):
            await open_receiver(connection, Source(FACTORY, Destination(TOPIC, "prices.*")), 10)

    runs(scenario())


def test_a_link_that_the_broker_has_detached_before_is_dropped_too() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        connection = await broker.connect()
        sender = await attach_sender(connection, ORDERS, creates=True)
        broker.detach("ORDERS")
        await asyncio.sleep(1)
        with pytest.raises(JmsError, match="closed the connection or the link"):
            sender.check()
        sender.detach()
        connection.flush()
        await asyncio.sleep(1)
        assert (len(broker.detached), kept(connection)) == (1, 0)
        await connection.close()

    runs(scenario())


def test_a_link_of_the_broker_s_own_is_closed_with_a_reason() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        connection = await broker.connect()
        source = AmqpSource(await open_receiver(connection, Source(FACTORY, ORDERS), 10), None)
        await asyncio.sleep(0)
        broker.attach("strange")
        await asyncio.sleep(1)
        assert (broker.detached, kept(connection)) == (["strange: amqp:not-allowed"], 1)
        broker.send(FIRST)
        (message,) = await source.receive(1, 100, 1.0)
        assert message.content.neutral_body() == b"first"
        source.check()

    runs(scenario())


def test_an_acknowledgement_ends_with_the_commit_and_unacknowledged_messages_are_released() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        source = await source_at(broker)
        await asyncio.sleep(0)
        for octets in (FIRST, SECOND):
            broker.send(octets)
        assert len(await source.receive(1, 100, 1.0)) == 1
        await source.acknowledge()
        assert broker.dispositions[:1] == [links.TRANSACTIONAL]
        assert len(await source.receive(1, 100, 1.0)) == 1
        await source.close()
        assert broker.dispositions[-1] == links.RELEASED

    runs(scenario())


def test_a_broker_that_has_fallen_silent_counts_as_lost() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        source = await source_at(broker)
        await asyncio.sleep(0)
        broker.send(FIRST)
        await source.receive(1, 100, 1.0)
        broker.is_silent = True
        with pytest.raises(JmsError, match="idle-timeout"):
            await source.acknowledge()

    runs(scenario())


def test_a_rejected_message_is_refused_unless_one_behind_it_was_stored() -> None:
    def refuse(word: bytes) -> Any:
        return lambda octets: (links.REJECTED, "amqp:precondition-failed") if word in octets else (links.ACCEPTED, None)

    async def scenario() -> None:
        broker = AmqpBroker()
        target = await target_at(broker)
        broker.outcome = refuse(b"last")
        with pytest.raises(PartlySentError, match="not this one") as refusal:
            await target.send(texts("first", "last"))
        assert refusal.value.index == 1
        broker.outcome = refuse(b"first")
        with pytest.raises(JmsError, match="a message was not stored") as error:
            await target.send(texts("first", "last"))
        assert not isinstance(error.value, MessageRefusedError)
        broker.outcome = lambda _: (links.REJECTED, "amqp:resource-limit-exceeded")
        with pytest.raises(JmsError, match="is the queue full") as error:
            await target.send(texts("first"))
        assert not isinstance(error.value, MessageRefusedError)
        broker.outcome = lambda _: (links.RELEASED, None)
        with pytest.raises(JmsError, match="gave the message back"):
            await target.send(texts("first"))

    runs(scenario())


@pytest.mark.parametrize(
    "state",
    [links.RELEASED, links.MODIFIED, 0, links.DECLARED + 1, 0x23, 0x99],
    ids=["released", "modified", "settled without an outcome", "transactional", "received", "unknown"],
)
def test_a_message_with_an_odd_outcome_is_sent_again(state: int) -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        target = await target_at(broker)
        broker.outcome = lambda octets: (state if b"odd" in octets else links.ACCEPTED, None)
        for words in (("first", "odd"), ("odd", "last")):
            with pytest.raises(JmsError, match="a message was not stored: the broker gave the message back") as error:
                await target.send(texts(*words))
            assert not isinstance(error.value, MessageRefusedError)
        await target.send(texts("first", "last"))  # the link goes on
        assert not target._link._waiting

    runs(scenario())


def test_a_send_waits_for_credit_and_outcomes_up_to_a_time() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        broker.credit = 2
        target = await target_at(broker)
        sending = asyncio.create_task(target.send(texts("a", "b", "c")))
        await asyncio.sleep(1)
        assert (len(broker.received), sending.done()) == (2, False)
        (link,) = broker.links.values()
        link.flow(1)
        broker.flush()
        await sending
        assert len(broker.received) == 3
        with pytest.raises(JmsError, match="credit is missing for 300 seconds"):
            await target.send(texts("d"))

    runs(scenario())


def test_a_broker_without_an_outcome_fails_the_send_after_a_time() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        broker.outcome = lambda _: None
        target = await target_at(broker)
        with pytest.raises(JmsError, match="the outcome of a send is missing for 300 seconds"):
            await target.send(texts("a"))

    runs(scenario())


def test_a_message_larger_than_the_broker_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        target = await target_at(broker)
        with pytest.raises(MessageRefusedError, match="and the broker takes") as refusal:
            await target.send(texts("short", "long" * 1_000))
        assert (refusal.value.index, broker.received) == (1, [])

    monkeypatch.setattr("spanwire.bridges.providers.amqp.parties.MAX_MESSAGE", 500)
    runs(scenario())


def test_a_lost_connection_ends_whatever_waits() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        source = await source_at(broker)
        receiving = asyncio.create_task(source.receive(1, 1, 1_000.0))
        await asyncio.sleep(1)
        broker.end()
        with pytest.raises(JmsError, match="the connection to amqp://broker:5672 was lost"):
            await receiving
        with pytest.raises(JmsError, match="was lost"):
            await source.acknowledge()
        await source.close()

    runs(scenario())


def test_octets_of_another_protocol_are_an_error_of_one_line() -> None:
    async def scenario() -> None:
        broker = AmqpBroker()
        connection = await broker.connect()
        connection.data_received(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(JmsError) as error:
            connection.check()
        assert "\n" not in str(error.value)

    runs(scenario())


def test_sources_and_urls_that_can_never_work_are_refused_at_the_check() -> None:
    provider = AmqpProvider()
    topic = Destination(TOPIC, "PRICES")
    with pytest.raises(ConfigurationError, match="subscriptionName is for topics"):
        provider.check_source(Source(FACTORY, ORDERS, None, "name", "client"))
    with pytest.raises(ConfigurationError, match="needs a client id"):
        provider.check_source(Source(FACTORY, topic, None, "name"))
    provider.check_source(Source(FACTORY, topic, None, "name", "client"))
    provider.check_target(Target(FACTORY, topic))
