"""Camel routes between Spanwire and brokers of other systems."""

from __future__ import annotations

import time
from typing import Final

import pytest

from spanwire import client
from spanwire.testing import Broker
from tests.support.mosquitto import PASSWORD, USER, MosquittoProcess
from tests.support.mqtt_client import MqttClient

WAIT_S: Final = 120.0  # processes start slowly beside other tests on two processors
NEAR: Final = """\
<beans>
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="near">
    <transportConnectors><transportConnector uri="tcp://127.0.0.1:0"/></transportConnectors>
  </broker>
  <bean id="things" class="org.apache.camel.component.jms.JmsComponent">
    <property name="brokerURL" value="{url}"/>
    <property name="userName" value="{user}"/><property name="password" value="{password}"/>
  </bean>
  <camelContext xmlns="http://camel.apache.org/schema/spring">
    <route id="in">
      <from uri="things:topic:sensors/+"/>
      <choice>
        <when><simple>${{body}} &gt; 20</simple><to uri="activemq:queue:WARM"/></when>
        <otherwise><to uri="activemq:queue:COOL"/></otherwise>
      </choice>
    </route>
    <route id="out">
      <from uri="activemq:queue:COMMANDS"/>
      <setBody><simple>do ${{body}}</simple></setBody>
      <to uri="things:topic:commands/1"/>
    </route>
  </camelContext>
</beans>
"""


def first(things: MqttClient, topic: str) -> bytes:
    """The body of the first message of a topic."""
    deadline = time.monotonic() + WAIT_S
    while not (messages := things.messages(topic)):
        assert time.monotonic() < deadline, "no message came"
    return bytes(messages[0].payload)


@pytest.mark.smoke
def test_routes_take_from_mosquitto_and_send_there(mosquitto: MosquittoProcess) -> None:
    things, route = (MqttClient(mosquitto.port, name) for name in ("things", "spanwire.in"))
    things.subscribe("commands/1")
    route.subscribe("sensors/+")  # the session of the route keeps what is published before the route runs
    route.close()
    things.publish("sensors/1", [b"19", b"21"], ContentType="text/plain")
    text = NEAR.format(url=mosquitto.url, user=USER, password=PASSWORD)
    try:
        with Broker(text) as broker, client.connect(broker.url) as connection, connection.session() as session:
            session.create_producer("queue://COMMANDS").send("stop")
            warm, cool = session.create_consumer("queue://WARM"), session.create_consumer("queue://COOL")
            assert (message := warm.receive(WAIT_S)) is not None and message.body == "21"
            assert (message := cool.receive(WAIT_S)) is not None and message.body == "19"
            assert first(things, "commands/1") == b"do stop"
    finally:
        things.close()
