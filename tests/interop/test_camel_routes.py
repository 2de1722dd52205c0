"""Camel routes between Spanwire and ActiveMQ Classic, and routes whose process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
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


COUNT: Final = 600
BATCH: Final = 20
KILLS: Final = 4
GATHERING: Final = """\
- route:
    id: r
    deadLetter: "near:queue:DEAD"
    from:
      uri: "near:queue:IN?maxRowsPerBatch=20"
      steps:
        - idempotentConsumer: {header: n}
        - wireTap: "near:queue:TAP"
        - aggregate:
            {correlationExpression: {header: k}, completionSize: 7, completionTimeout: 2000, aggregationStrategy: json}
        - to: "near:queue:OUT"
"""


def running(file: Path, url: str) -> subprocess.Popen[str]:
    """A route that has said that it runs."""
    command = [sys.executable, "-P", "-m", "spanwire", "bridge", "run", str(file), "--broker", f"near={url}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stderr is not None
    assert any("running" in line for line in process.stderr)
    return process


def bodies(url: str, queue: str, wait_s: float) -> Counter[str]:
    """All bodies of a queue, until none comes any more."""
    found: Counter[str] = Counter()
    with client.connect(url) as connection, connection.session() as session:
        consumer = session.create_consumer(queue)
        while (message := consumer.receive(wait_s)) is not None:
            found[str(message.body)] += 1
    return found


@pytest.mark.long
def test_a_killed_route_loses_nothing_and_puts_each_message_into_one_group(tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_text(GATHERING)
    with Broker() as broker:
        with client.connect(broker.url) as connection, connection.session("transacted") as session:
            producer = session.create_producer("queue://IN")
            for number in range(COUNT):
                producer.send(str(number), properties={"n": number, "k": number % 13})
            session.commit()
        for kill in range(KILLS):
            victim = running(file, broker.url)
            time.sleep(0.05 + 0.05 * kill)  # the moment of the kill, which no condition could choose
            victim.send_signal(signal.SIGKILL)
            victim.communicate()
        last = running(file, broker.url)
        try:
            groups = bodies(broker.url, "queue://OUT", 6.0)
            taps = bodies(broker.url, "queue://TAP", 1.0)
        finally:
            last.send_signal(signal.SIGTERM)
            last.communicate()
    members = Counter(member for group in groups for member in json.loads(group))
    assert sorted(members, key=int) == sorted(taps, key=int) == [str(number) for number in range(COUNT)]
    assert set(members.values()) == {1}
    assert sum(taps.values()) <= COUNT + KILLS * BATCH
