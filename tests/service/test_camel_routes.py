"""Camel's routes in the configuration of a broker, run by the process of its bridges."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spanwire import client
from spanwire.management.control_client import ControlClient
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

    def reports(self, name: str, word: str, value: object) -> bool:
        """True if the row of a route has the value."""
        return any(row["name"] == name and row[word] == value for row in self.network("bridges"))


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


STEPS: Final = """
<bean id="joined" class="org.apache.camel.processor.aggregate.StringAggregationStrategy"/>
<camelContext xmlns="http://camel.apache.org/schema/spring">
  <errorHandler id="dlc" type="DeadLetterChannel" deadLetterUri="activemq:queue:FAILED"/>
  <route id="orders" errorHandlerRef="dlc">
    <from uri="activemq:queue:IN"/>
    <log message="got ${{body}}"/>
    <choice>
      <when><simple>${{header.price}} &gt; 15</simple><to uri="activemq:queue:LARGE"/></when>
      <otherwise><to uri="activemq:queue:SMALL"/></otherwise>
    </choice>
    <aggregate completionSize="2" completionTimeout="60000" aggregationStrategy="joined">
      <correlationExpression><header>region</header></correlationExpression>
      <to uri="activemq:queue:SUMS"/>
    </aggregate>
  </route>
  <route id="resting" autoStartup="false"><from uri="activemq:queue:REST"/><to uri="activemq:queue:RESTED"/></route>
</camelContext>
"""


def test_steps_branches_and_groups_run_in_the_broker_and_survive_its_restart(tmp_path: Path) -> None:
    with Routing(tmp_path, STEPS) as broker:
        url = broker.broker_url
        with client.connect(url) as connection, connection.session() as session:
            producer = session.create_producer("queue://IN")
            producer.send("a", properties={"price": 5, "region": "us"})
            producer.send("b", properties={"price": 50})  # without a region, so it cannot be gathered
        assert received(url, "queue://SMALL") == ["a"]
        assert received(url, "queue://FAILED") == ["b"]
        orders, resting = ("orders", "dead_letters", 1), ("resting", "state", "paused")
        assert wait_until(lambda: broker.reports(*orders) and broker.reports(*resting), TIMEOUT_S)
        broker.awaits("route orders: got a")
        broker.stop()
        broker.start()
        with client.connect(url) as connection, connection.session() as session:
            session.create_producer("queue://IN").send("c", properties={"price": 5, "region": "us"})
        assert received(url, "queue://SUMS") == ["ac"]
        send(url, "queue://REST", "later")
        ControlClient(broker.data, TIMEOUT_S).ask("bridge-resume", bridges=["resting"])
        assert received(url, "queue://RESTED") == ["later"]


DEPLOYED: Final = """\
- route:
    id: dropped
    from: {uri: "activemq:queue:IN", steps: [{setBody: {simple: "VERSION ${body}"}}, {to: "activemq:queue:OUT"}]}
"""


def test_a_file_is_dropped_in_changed_and_deleted_while_the_broker_runs(tmp_path: Path) -> None:
    directory = tmp_path / "deploy"
    directory.mkdir(mode=0o755)
    file = directory / "orders.yaml"
    with Routing(tmp_path / "broker", "", "--deploy", str(directory)) as broker:
        assert broker.network("bridges") == []
        file.write_text(DEPLOYED.replace("VERSION", "1"))
        send(broker.broker_url, "queue://IN", "a")
        assert received(broker.broker_url, "queue://OUT") == ["1 a"]
        file.write_text(DEPLOYED.replace("VERSION", "2"))
        broker.awaits("deployed orders.yaml: dropped", 2)
        assert wait_until(lambda: broker.reports("dropped", "received", 0), TIMEOUT_S)  # another bridge
        send(broker.broker_url, "queue://IN", "b")
        assert received(broker.broker_url, "queue://OUT") == ["2 b"]
        file.unlink()
        broker.awaits("orders.yaml is no longer deployed: dropped")
        assert broker.network("bridges") == []


SLOW: Final = "{throttle: {constant: 200, timePeriodMillis: 500}}, {setBody:"
ROUND: Final = 400
MANY: Final = 20_000  # minutes of the slow route


@pytest.mark.long
def test_a_changed_file_takes_the_place_of_its_route_under_load_without_a_loss_or_a_copy(tmp_path: Path) -> None:
    directory = tmp_path / "deploy"
    directory.mkdir(mode=0o755)
    file = directory / "orders.yaml"
    slow = DEPLOYED.replace("{setBody:", SLOW)
    with Routing(tmp_path / "broker", "", "--deploy", str(directory)) as broker:
        file.write_text(slow.replace("VERSION", "1"))
        broker.awaits("deployed orders.yaml: dropped")
        sent = 0
        texts: list[str] = []
        while not texts or texts[-1][0] == "1":  # more waits than was received, so the change comes in the middle
            assert sent < MANY, "the changed route did not take over"
            send(broker.broker_url, "queue://IN", *map(str, range(sent, sent + ROUND)))
            if not texts:
                file.write_text(slow.replace("VERSION", "2"))
            sent += ROUND
            texts += map(str, received(broker.broker_url, "queue://OUT", ROUND // 2))
        texts += map(str, received(broker.broker_url, "queue://OUT", sent - len(texts)))
        assert [text.partition(" ")[2] for text in texts] == [str(number) for number in range(sent)]
        assert {text[0] for text in texts} == {"1", "2"}
        with client.connect(broker.broker_url) as connection, connection.session() as session:
            assert session.create_consumer("queue://OUT").receive(0.2) is None


RECEIVERS: Final = """
<camelContext xmlns="http://camel.apache.org/schema/spring">
  <route id="many"><from uri="activemq:queue:IN?concurrentConsumers=4"/><setHeader name="a"><constant>b</constant>
    </setHeader><to uri="activemq:queue:OUT"/></route>
</camelContext>
"""


def test_a_route_with_several_receivers_takes_each_message_once(tmp_path: Path) -> None:
    with Routing(tmp_path, RECEIVERS) as broker:
        assert wait_until(lambda: broker.reports("many", "state", "running"), TIMEOUT_S)
        texts = [str(number) for number in range(400)]
        send(broker.broker_url, "queue://IN", *texts)
        assert sorted(map(str, received(broker.broker_url, "queue://OUT", 400))) == sorted(texts)
        queues = ControlClient(broker.data, TIMEOUT_S).ask("destination", destination="queue://IN")
        assert isinstance(queues, dict) and queues["consumers"] == 4
        assert wait_until(lambda: broker.reports("many", "forwarded", 400), TIMEOUT_S)
