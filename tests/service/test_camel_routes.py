"""Camel's routes in the configuration of a broker, run by the process of its bridges."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spanwire import client
from spanwire.testing import Broker
from spanwire.testing.queue import wait_until
from tests.service.started import TIMEOUT_S, Started

SAMPLES: Final = Path(__file__).parents[1] / "vectors" / "configurations"
IMPORT: Final = '<import resource="{}"/>'


class Routing(Started):
    """A broker with elements beside it."""

    def __init__(self, directory: Path, beside: str, *arguments: str) -> None:
        super().__init__(directory, arguments=arguments)
        self._beside: Final = beside

    def text(self) -> str:
        return f"<beans>{super().text()}{self._beside}</beans>"


def send(url: str, destination: str, *texts: str) -> None:
    with client.connect(url) as connection, connection.session() as session:
        producer = session.create_producer(destination)
        for text in texts:
            producer.send(text)


def received(url: str, destination: str, count: int = 1) -> list[object]:
    with client.connect(url) as connection, connection.session() as session:
        consumer = session.create_consumer(destination)
        messages = [consumer.receive(TIMEOUT_S) for _ in range(count)]
        return [None if message is None else message.body for message in messages]


def test_the_four_documented_routes_run_as_they_are(tmp_path: Path) -> None:
    sample = SAMPLES / "25-camel-four-routes.xml"
    with Broker() as far:
        url = f"camel.component.websphere.brokerURL={far.url}"
        with Routing(tmp_path, IMPORT.format(sample), "-D", url) as broker:
            assert wait_until(lambda: {row["state"] for row in broker.network("bridges")} == {"running"}, TIMEOUT_S)
            send(broker.broker_url, "queue://QueueA", "out")
            assert received(far.url, "queue://QueueA") == ["out"]
            send(far.url, "queue://QueueX", "in")
            assert received(broker.broker_url, "queue://QueueX") == ["in"]
            for source, target, topic in (
                (broker.broker_url, far.url, "topic://TopicA"),
                (far.url, broker.broker_url, "topic://TopicX"),
            ):
                with client.connect(target) as connection, connection.session() as session:
                    consumer = session.create_consumer(topic)
                    send(source, topic, "news")
                    message = consumer.receive(TIMEOUT_S)
                assert message is not None and message.body == "news"
