"""Native JMS bridges of Spanwire to ActiveMQ Classic: requests and replies in both directions."""

from __future__ import annotations

import threading
from typing import Final

import pytest

from spanwire import client
from spanwire.testing import Broker
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
