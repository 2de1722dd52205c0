"""A Camel route in Spanwire's configuration between Spanwire and ActiveMQ Classic, in both directions."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire import client
from spanwire.testing import Broker
from tests.support.broker_process import BrokerProcess

WAIT_S: Final = 40.0
NEAR: Final = """\
<beans>
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="near">
    <transportConnectors><transportConnector uri="tcp://127.0.0.1:0"/></transportConnectors>
  </broker>
  <bean id="far" class="org.apache.activemq.camel.component.ActiveMQComponent">
    <property name="configuration">
      <bean class="org.apache.camel.component.jms.JmsConfiguration">
        <property name="connectionFactory">
          <bean class="org.apache.activemq.ActiveMQConnectionFactory"><property name="brokerURL" value="{}"/></bean>
        </property>
      </bean>
    </property>
  </bean>
  <camelContext xmlns="http://camel.apache.org/schema/spring">
    <route>
      <from uri="far:queue:CAMEL.IN"/>
      <setHeader name="JMSPriority"><constant>7</constant></setHeader>
      <choice>
        <when><simple>${{header.n}} &gt; 5</simple><to uri="activemq:queue:LARGE"/></when>
        <otherwise><setBody><simple>back ${{body}}</simple></setBody><to uri="far:queue:CAMEL.BACK"/></otherwise>
      </choice>
    </route>
  </camelContext>
</beans>
"""


@pytest.mark.smoke
def test_a_route_takes_from_classic_and_sends_to_both_brokers(classic: BrokerProcess) -> None:
    far = classic.openwire_uri()
    with client.connect(far) as connection, connection.session() as session, Broker(NEAR.format(far)) as broker:
        producer = session.create_producer("queue://CAMEL.IN")
        producer.send("é", properties={"n": 7})
        producer.send("small", properties={"n": 5})
        back = session.create_consumer("queue://CAMEL.BACK").receive(WAIT_S)
        assert back is not None and (back.body, back.properties["n"], back.priority) == ("back small", 5, 7)
        with client.connect(broker.url) as near, near.session() as near_session:
            large = near_session.create_consumer("queue://LARGE").receive(WAIT_S)
        assert large is not None and (large.body, large.properties["n"]) == ("é", 7)
