"""Native JMS bridges of Spanwire to ActiveMQ Classic: requests and replies in both directions."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import pytest

from spanwire import client
from spanwire.management.control_client import ControlClient
from spanwire.testing import Broker
from tests.service.started import Started
from tests.service.test_durable_bridges import NAMES, Bridges, publish
from tests.support.broker_process import BrokerProcess

WAIT_S: Final = 40.0
NEAR: Final = """\
<beans>
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="near">
    <jmsBridgeConnectors>
      <jmsQueueConnector outboundQueueConnectionFactory="#far">
        <inboundQueueBridges><inboundQueueBridge inboundQueueName="NATIVE.IN"/></inboundQueueBridges>
        <outboundQueueBridges><outboundQueueBridge outboundQueueName="NATIVE.OUT"/></outboundQueueBridges>
      </jmsQueueConnector>
    </jmsBridgeConnectors>
    <transportConnectors><transportConnector uri="tcp://127.0.0.1:0"/></transportConnectors>
  </broker>
  <bean id="far" class="org.apache.activemq.pool.PooledConnectionFactory">
    <property name="connectionFactory">
      <bean class="org.apache.activemq.ActiveMQConnectionFactory">
        <property name="brokerURL" value="{}"/>
      </bean>
    </property>
  </bean>
</beans>
"""


class Followed(Started):
    """A broker of `NEAR` as a process."""

    def __init__(self, directory: Path, far: str) -> None:
        super().__init__(directory)
        self._far: Final = far

    def text(self) -> str:
        bridges, factory = NEAR.format(self._far).partition("<transportConnectors>")[::2]
        head, end, _ = super().text().partition("</broker>")
        connectors = bridges.partition("<jmsBridgeConnectors>")[2]
        return f"<beans>{head}<jmsBridgeConnectors>{connectors}{end}{factory.partition('</broker>')[2]}"


def answer_one(url: str, queue: str) -> None:
    with client.connect(url) as connection, connection.session() as session:
        request = session.create_consumer(queue).receive(WAIT_S)
        assert request is not None
        assert request.properties["n"] == 7
        session.reply(request, f"re: {request.body}", {"n": 8})


@pytest.mark.parametrize("queue", ["queue://NATIVE.IN", "queue://NATIVE.OUT"])
def test_a_request_crosses_and_its_reply_returns(classic: BrokerProcess, queue: str) -> None:
    far = classic.openwire_uri()
    with Broker(NEAR.format(far)) as broker:
        requester, responder = (far, broker.url) if queue.endswith("IN") else (broker.url, far)
        answering = threading.Thread(target=answer_one, args=(responder, queue))
        answering.start()
        with client.connect(requester) as connection, connection.session() as session:
            reply = session.request(queue, "é", {"n": 7}, timeout=WAIT_S)
        answering.join(WAIT_S)
        assert not answering.is_alive()
        assert reply is not None and (reply.body, reply.properties["n"]) == ("re: é", 8)


def test_a_trace_ends_at_a_bridge_to_classic_which_is_asked_and_sent_nothing(
    classic: BrokerProcess, tmp_path: Path
) -> None:
    far = classic.openwire_uri()
    with Followed(tmp_path, far) as broker, client.connect(far) as connection, connection.session() as session:
        consumer = session.create_consumer("queue://NATIVE.OUT")
        asked = session.create_consumer("queue://ActiveMQ.Spanwire.Control")
        control = ControlClient(broker.data, WAIT_S)
        trace = control.ask("trace", destination="queue://NATIVE.OUT", seconds=20)
        assert isinstance(trace, dict)
        with client.connect(broker.broker_url) as near, near.session() as sender:
            sender.create_producer("queue://NATIVE.OUT").send("one")
        assert consumer.receive(WAIT_S) is not None
        assert asked.receive(1.0) is None
        answer = control.ask("observations", trace=trace["trace"])
        assert isinstance(answer, dict)
        (silent,) = [one["silence"] for one in answer["brokers"] if one["silence"]]
        assert "is no Spanwire, and tells nothing of single messages" in silent


@pytest.mark.parametrize("is_inward", [True, False], ids=["from classic", "to classic"])
def test_durable_bridges_of_one_client_id_share_its_connection_with_classic(
    classic: BrokerProcess, is_inward: bool
) -> None:
    far = classic.openwire_uri()
    with Broker() as broker:
        source, target = (far, broker.url) if is_inward else (broker.url, far)
        bridges = Bridges(source, target)

        async def scenario() -> None:
            bridges.hosted.command("pause", ["orders"])
            await bridges.until(lambda status: status.state.value == "paused", "orders")
            publish(source, "1")
            await bridges.until(lambda status: status.forwarded == 1, "prices")
            bridges.hosted.command("resume", ["orders"])
            await bridges.until(lambda status: status.forwarded == 1)

        bridges.play(scenario)
        with client.connect(target) as connection, connection.session() as session:
            for name in NAMES:
                message = session.create_consumer(f"queue://{name}").receive(WAIT_S)
                assert message is not None and message.body == "1"
        with client.connect(f"{far}?jms.clientID=c") as connection, connection.session() as session:
            if is_inward:  # classic serves other tests
                for name in NAMES:
                    session.unsubscribe(name)
