"""Real brokers take back what a source has no room for, in order, and deliver it again to the next consumer."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import Provider
from spanwire.bridges.providers import window as window_module
from spanwire.bridges.providers.inbox import MAX_IN_ORDER
from spanwire.bridges.providers.openwire import source_consumer
from spanwire.bridges.providers.openwire.provider import OpenWireProvider
from spanwire.bridges.providers.stomp import connection as stomp_connection
from spanwire.bridges.providers.stomp.provider import StompProvider
from spanwire.client.protocol.response_correlator import ORDINARY, Request
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.message_view import TEXT
from spanwire.model.secret import Secret
from tests.support.bridge_dialogue import Content
from tests.support.broker_process import BrokerProcess
from tests.support.rabbitmq import RabbitProcess

WAIT_S: Final = 60.0
ROOM: Final = 64 * 1024  # for `MAX_OCTETS` here: a thousandth of the real one
LARGE: Final = 4 * 1024
CREDIT: Final = 150
COUNT: Final = 200  # messages
Q: Final = Destination(QUEUE, "WINDOWS")
T: Final = Destination(TOPIC, "WINDOWS.TOPIC")


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_consumer, "MAX_OCTETS", ROOM)
    monkeypatch.setattr(stomp_connection, "MAX_OCTETS", ROOM)
    monkeypatch.setattr(source_consumer, "MAX_IN_ORDER", ROOM)
    monkeypatch.setattr(stomp_connection, "MAX_IN_ORDER", ROOM)
    monkeypatch.setattr(window_module, "AIM", ROOM // 2)


def is_full(source: Any) -> bool:
    return bool(source._receiver.connection.is_full if hasattr(source, "_receiver") else source._consumer.core.is_full)


async def filled(source: Any) -> None:
    """Await an answer that never comes, until messages have no room."""
    if hasattr(source, "_receiver"):
        source._receiver.connection.receipt()
        waiting = None
    else:
        waiting = asyncio.create_task(source._connection.shared.answer(Request(0, ORDINARY, 0)))
    while not is_full(source):
        await asyncio.sleep(0.05)
    if waiting is not None:
        waiting.cancel()


async def cross(provider: Provider, factory: ConnectionFactory, is_durable: bool) -> None:
    own = Source(factory, T, subscription="windows", client_id="windows") if is_durable else Source(factory, Q)
    source: Any = await provider.open_source(own, CREDIT)
    target = await provider.open_target(Target(factory, own.destination))
    texts = [f"{number:05}" + "x" * LARGE for number in range(COUNT)]
    for start in range(0, COUNT, 50):
        await target.send(
            [BridgeMessage("ID:windows:1", TEXT, Content(text), len(text)) for text in texts[start : start + 50]]
        )
    await filled(source)
    crossed: list[str] = []
    while len(crossed) < COUNT:
        messages = await source.receive(50, ROOM, 5.0)
        crossed += [(message.content.neutral_body() or b"").decode() for message in messages]
        await source.acknowledge()
    assert crossed == texts
    assert await source.receive(50, ROOM, 0.3) == []
    await source.close()
    await target.close()


def run(provider: Provider, factory: ConnectionFactory, is_durable: bool) -> None:
    asyncio.run(asyncio.wait_for(cross(provider, factory, is_durable), WAIT_S))


@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize("protocol", ["openwire", "stomp"])
def test_activemq_takes_messages_back_in_order(protocol: str, is_durable: bool, classic: BrokerProcess) -> None:
    if protocol == "openwire":
        run(OpenWireProvider(), ConnectionFactory(classic.openwire_uri()), is_durable)
    else:
        run(StompProvider(), ConnectionFactory(f"stomp://127.0.0.1:{classic.stomp_port}", provider="stomp"), is_durable)


@pytest.mark.long
@pytest.mark.parametrize("is_durable", [False, True])
def test_artemis_takes_messages_back_in_order(is_durable: bool, artemis: BrokerProcess) -> None:
    """Over OpenWire alone: over STOMP Artemis bounds what it sends ahead by bytes."""
    run(OpenWireProvider(), ConnectionFactory(artemis.openwire_uri()), is_durable)


@pytest.mark.parametrize("is_durable", [False, True])
def test_rabbitmq_takes_messages_back_in_order(is_durable: bool, rabbitmq: RabbitProcess) -> None:
    factory = ConnectionFactory(rabbitmq.stomp_url, "guest", Secret("guest"), provider="stomp")
    run(StompProvider(), factory, is_durable)


async def cross_mixed(provider: Provider, factory: ConnectionFactory) -> None:
    source = await provider.open_source(Source(factory, Q), CREDIT)
    target = await provider.open_target(Target(factory, Q))
    sizes = (100, LARGE // 2, 4 * LARGE)  # the window shrinks and grows while messages that were taken back wait
    texts = [f"{number:05}" + "x" * sizes[number // 60 % 3] for number in range(6 * COUNT)]
    for start in range(0, len(texts), COUNT):
        some = texts[start : start + COUNT]
        await target.send([BridgeMessage("ID:mixed:1", TEXT, Content(text), len(text)) for text in some])
    crossed: list[str] = []
    while len(crossed) < len(texts):
        crossed += [(one.content.neutral_body() or b"").decode() for one in await source.receive(50, ROOM, 5.0)]
        await source.acknowledge()
    assert [text[:5] for text in crossed] == [text[:5] for text in texts]
    await source.close()
    await target.close()


@pytest.mark.parametrize("protocol", ["openwire", "stomp"])
def test_activemq_keeps_the_order_of_messages_of_mixed_sizes(
    protocol: str, classic: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (source_consumer, stomp_connection):
        monkeypatch.setattr(module, "MAX_IN_ORDER", MAX_IN_ORDER)
    if protocol == "openwire":
        asyncio.run(
            asyncio.wait_for(cross_mixed(OpenWireProvider(), ConnectionFactory(classic.openwire_uri())), WAIT_S)
        )
    else:
        factory = ConnectionFactory(f"stomp://127.0.0.1:{classic.stomp_port}", provider="stomp")
        asyncio.run(asyncio.wait_for(cross_mixed(StompProvider(), factory), WAIT_S))


async def send_ahead(provider: Provider, factory: ConnectionFactory) -> None:
    source = await provider.open_source(Source(factory, Q), CREDIT)
    target = await provider.open_target(Target(factory, Q))
    await target.send([BridgeMessage(f"ID:ahead:{n}", TEXT, Content(str(n)), 10) for n in range(CREDIT)])
    received = 0
    while received < CREDIT and (messages := await source.receive(CREDIT, ROOM, 5.0)):
        received += len(messages)
    assert received == CREDIT
    await source.acknowledge()
    await source.close()
    await target.close()


@pytest.mark.long
def test_artemis_sends_small_messages_ahead_over_stomp(artemis: BrokerProcess) -> None:
    factory = ConnectionFactory(f"stomp://127.0.0.1:{artemis.openwire_port}", provider="stomp")
    asyncio.run(asyncio.wait_for(send_ahead(StompProvider(), factory), WAIT_S))
