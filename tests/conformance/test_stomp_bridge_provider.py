"""The STOMP provider keeps the promises of all providers, with a broker of the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from spanwire import client
from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, Provider
from spanwire.bridges.providers.stomp.provider import StompProvider
from spanwire.client import Int
from spanwire.model.errors import JmsError
from spanwire.model.message_view import OBJECT, STREAM
from spanwire.model.secret import Secret
from spanwire.testing import Broker
from tests.conformance.bridge_providers import (
    ALL_HEADERS,
    CREDIT,
    SOURCE,
    TARGET,
    BridgeProviderConformance,
    LocalTransactionConformance,
    ProviderDriver,
    SelectorConformance,
    runs,
    take,
)
from tests.conformance.test_openwire_bridge_provider import SpanwireDriver
from tests.support.bridge_dialogue import Content


class StompDriver(SpanwireDriver):
    """Sends and looks over OpenWire, so that only the provider speaks STOMP."""

    headers = ALL_HEADERS - {"group_id", "group_sequence"}
    typed_properties = False

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._factory = ConnectionFactory(broker.stomp_url, provider="stomp")

    def provider(self) -> Provider:
        return StompProvider()

    def source(self, selector: str | None = None) -> Source:
        return Source(self._factory, SOURCE, selector)

    def target(self) -> Target:
        return Target(self._factory, TARGET)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def driver(broker: Broker) -> ProviderDriver:
    return StompDriver(broker)


class TestStompProvider(BridgeProviderConformance, LocalTransactionConformance, SelectorConformance):
    def test_all_kinds_of_bodies_cross_or_are_refused_by_name(self, broker: Broker, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            with client.connect(broker.url) as connection, connection.session() as session:
                producer = session.create_producer(SOURCE)
                producer.send(b"\0octets")
                producer.send({"n": Int(1), "text": "é"})
                producer.send("a\0b")
            source = await driver.provider().open_source(driver.source(), CREDIT)
            target = await driver.provider().open_target(driver.target())
            await target.send(await take(source, 3))
            for kind in (STREAM, OBJECT):
                with pytest.raises(MessageRefusedError, match="no form in STOMP"):
                    await target.send([BridgeMessage("ID:1", kind, Content(""), 0)])
            await source.close()
            await target.close()
            browsed = broker.browse(TARGET, 10)
            # In a MESSAGE a text with a NUL has a content-length, as bytes have.
            assert [message.body for message in browsed] == [b"\0octets", {"n": 1, "text": "é"}, b"a\0b"]

        runs(scenario)

    def test_the_broker_says_in_one_line_why_it_refuses_a_login(self) -> None:
        async def scenario(url: str) -> None:
            factory = ConnectionFactory(url, "ann", Secret("wrong-word"), provider="stomp")
            with pytest.raises(JmsError) as caught:
                await StompProvider().open_target(Target(factory, TARGET))
            assert url in str(caught.value) and "\n" not in str(caught.value)
            assert "wrong-word" not in str(caught.value)

        with Broker(users={"ann": "right-word"}) as broker:
            asyncio.run(scenario(broker.stomp_url))

    def test_a_connector_of_another_protocol_is_named(self, broker: Broker) -> None:
        async def scenario() -> None:
            factory = ConnectionFactory(broker.url.replace("tcp:", "stomp:"), provider="stomp")
            with pytest.raises(JmsError, match="is it a STOMP connector"):
                await StompProvider().open_target(Target(factory, TARGET))

        runs(scenario)
