"""The OpenWire provider keeps the promises of all providers, with a broker of the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from spanwire import client
from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.ports import Provider
from spanwire.bridges.providers.openwire.provider import OpenWireProvider
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import AuthenticationError
from spanwire.testing import Broker
from tests.conformance.bridge_providers import (
    ALL_HEADERS,
    SOURCE,
    TARGET,
    BridgeProviderConformance,
    EagerConformance,
    LocalTransactionConformance,
    ProviderDriver,
    ReplyConformance,
    SelectorConformance,
    UnlimitedBatchConformance,
    take,
)

LOCKED: Final = """\
<broker xmlns="http://activemq.apache.org/schema/core">
  <plugins><simpleAuthenticationPlugin><users>
    <authenticationUser username="u" password="p" groups="g"/>
  </users></simpleAuthenticationPlugin></plugins>
  <transportConnectors><transportConnector uri="tcp://127.0.0.1:0"/></transportConnectors>
</broker>
"""


def test_a_refused_login_names_the_broker_without_the_password() -> None:
    async def scenario(url: str) -> None:
        factory = ConnectionFactory(f"{url}?jms.password=canary", "u")
        with pytest.raises(AuthenticationError, match=r"^tcp://127.0.0.1:\d+\?…: User name .u. or password is invalid"):
            await OpenWireProvider().open_target(Target(factory, TARGET))

    with Broker(LOCKED) as broker:
        asyncio.run(scenario(broker.url))


class SpanwireDriver:
    headers = ALL_HEADERS
    typed_properties = True
    marks_redelivery = True

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._factory = ConnectionFactory(broker.url)

    def provider(self) -> Provider:
        return OpenWireProvider()

    def source(self, selector: str | None = None) -> Source:
        return Source(self._factory, SOURCE, selector)

    def target(self) -> Target:
        return Target(self._factory, TARGET)

    def beginning(self) -> Target:
        return Target(self._factory, SOURCE)

    def end(self) -> Source:
        return Source(self._factory, TARGET)

    def send(self, destination: Destination, texts: list[str], properties: dict[str, int] | None = None) -> None:
        with client.connect(self._broker.url) as connection, connection.session() as session:
            producer = session.create_producer(destination)
            for text in texts:
                producer.send(text, properties)

    def texts(self, destination: Destination) -> list[str]:
        return [str(message.body) for message in self._broker.browse(destination, 1_000)]

    def pending(self, destination: Destination) -> int:
        view = self._broker.view(destination)
        return 0 if view is None else view.pending

    def dead_letters(self) -> list[str]:
        return self.texts(parse_destination("ActiveMQ.DLQ"))

    def stop(self) -> None:
        self._broker.kill()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def driver(broker: Broker) -> ProviderDriver:
    return SpanwireDriver(broker)


class TestOpenWireProvider(
    BridgeProviderConformance,
    EagerConformance,
    LocalTransactionConformance,
    ReplyConformance,
    SelectorConformance,
    UnlimitedBatchConformance,
):
    def test_the_broker_dispatches_no_more_than_the_credit_ahead(self, broker: Broker, driver: ProviderDriver) -> None:
        async def scenario() -> None:
            driver.send(SOURCE, [str(number) for number in range(50)])
            source = await driver.provider().open_source(driver.source(), 10)
            await take(source, 1)
            view = broker.view(SOURCE)
            assert view is not None and 0 < view.in_flight <= 10
            await source.close()

        asyncio.run(scenario())
