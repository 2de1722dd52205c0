"""Native JMS bridges of a broker: started, watched, operated and stopped with it."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import Final

from spanwire import client
from spanwire.management.control_client import ControlClient
from spanwire.testing import Broker
from spanwire.testing.queue import wait_until
from tests.service.started import TIMEOUT_S, Started, spanwire

BRIDGES: Final = """\
  <jmsBridgeConnectors>
    <jmsQueueConnector name="far" outboundQueueConnectionFactory="#far">{policy}
      <inboundQueueBridges><inboundQueueBridge inboundQueueName="A" localQueueName="FROM.A"/></inboundQueueBridges>
      <outboundQueueBridges><outboundQueueBridge outboundQueueName="X"/></outboundQueueBridges>
    </jmsQueueConnector>
  </jmsBridgeConnectors>
"""
BEAN: Final = """\
<bean id="far" class="org.apache.activemq.ActiveMQConnectionFactory"><property name="brokerURL" value="{}"/></bean>
"""
POLICY: Final = '<reconnectionPolicy maxReconnectAttempts="1" initialReconnectDelay="1"/>'
INBOUND: Final = "far.inbound.A"


class Bridged(Started):
    """A broker with two bridges to another broker."""

    def __init__(self, directory: Path, far_url: str, policy: str = "") -> None:
        super().__init__(directory)
        self._far_url: Final = far_url
        self._policy: Final = policy

    def text(self) -> str:
        head, end, tail = super().text().partition("</broker>")
        bridges = BRIDGES.replace("{policy}", self._policy)
        return f"<beans>{head}{bridges}{end}{tail}{BEAN.format(self._far_url)}</beans>"

    def bridge(self, name: str = INBOUND) -> dict[str, object]:
        (row,) = [row for row in self.network("bridges") if row["name"] == name]
        return row

    def awaits_bridge(self, key: str, value: object, name: str = INBOUND) -> dict[str, object]:
        assert wait_until(lambda: self.bridge(name)[key] == value, TIMEOUT_S), self.bridge(name)
        return self.bridge(name)

    def children(self) -> list[int]:
        return [int(text) for text in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]


def send(url: str, queue: str, text: str) -> None:
    with client.connect(url) as connection, connection.session() as session:
        session.create_producer(f"queue://{queue}").send(text)


def received(url: str, queue: str) -> str:
    with client.connect(url) as connection, connection.session() as session:
        message = session.create_consumer(f"queue://{queue}").receive(TIMEOUT_S)
        assert message is not None
        return str(message.body)


def test_messages_cross_in_both_directions_also_after_a_kill_of_the_child(tmp_path: Path) -> None:
    with Broker() as far, Bridged(tmp_path, far.url) as broker:
        send(far.url, "A", "in")
        assert received(broker.broker_url, "FROM.A") == "in"
        (child,) = broker.children()
        os.kill(child, signal.SIGHUP)  # ignored, so the end is that of the kill
        os.kill(child, signal.SIGKILL)
        broker.awaits("the process of the bridges has ended: exit status -9")
        send(broker.broker_url, "X", "out")
        assert received(far.url, "X") == "out"
        row = broker.awaits_bridge("state", "running")
        assert row["source"] == f"queue://A at {far.url}"
        assert row["target"] == "queue://FROM.A at vm:"
        assert broker.stop() == 0
        assert sum("has ended" in line for line in broker.errors) == 1


def test_a_request_that_crosses_gets_its_reply(tmp_path: Path) -> None:
    with Broker() as far, Bridged(tmp_path, far.url) as broker:

        def answer() -> None:
            with client.connect(broker.broker_url) as connection, connection.session() as session:
                consumer = session.create_consumer("queue://FROM.A")
                for _ in range(2):
                    message = consumer.receive(TIMEOUT_S)
                    assert message is not None and message.reply_to is not None and message.reply_to.is_temporary
                    session.reply(message, f"re: {message.body}")

        responder = threading.Thread(target=answer)
        responder.start()
        with client.connect(far.url) as connection, connection.session() as session:
            for text in ("one", "two"):
                reply = session.request("queue://A", text, timeout=TIMEOUT_S)
                assert reply is not None and reply.body == f"re: {text}"
        responder.join(TIMEOUT_S)
        assert not responder.is_alive()


def test_a_paused_bridge_stays_paused_over_a_restart_of_the_broker(tmp_path: Path) -> None:
    with Broker() as far, Bridged(tmp_path, far.url) as broker:
        broker.awaits_bridge("state", "running")
        directory = ("--data-directory", str(broker.data))
        done = spanwire("bridge", "pause", INBOUND, *directory)
        assert (done.returncode, done.stdout) == (0, f"bridge {INBOUND}: running, pause under way\n")
        broker.awaits_bridge("state", "paused")
        assert broker.stop() == 0
        broker.start()
        broker.awaits_bridge("state", "paused")
        send(far.url, "A", "later")
        assert spanwire("bridge", "resume", INBOUND, *directory).returncode == 0
        assert received(broker.broker_url, "FROM.A") == "later"
        broker.awaits_bridge("forwarded", 1)
        listed = json.loads(spanwire("bridge", "list", "--json", *directory).stdout)
        assert [(row["name"], row["forwarded"]) for row in listed] == [(INBOUND, 1), ("far.outbound.X", 0)]
        shown = spanwire("bridge", "list", *directory).stdout.splitlines()
        assert shown[0].split() == "name state since received forwarded batches retries dead letters lag".split()
        assert "running for" in spanwire("status", *directory).stdout


SAMPLES: Final = Path(__file__).parents[1] / "vectors" / "configurations"


class Documented(Started):
    """A documented configuration, with the addresses of this test."""

    def __init__(self, directory: Path, sample: str, far_url: str) -> None:
        super().__init__(directory)
        text = (SAMPLES / sample).read_text("utf-8").replace("localhost:61234", "127.0.0.1:{openwire}")
        self._text: Final = text.replace("vm://localBroker?create=false", far_url)

    def text(self) -> str:
        return self._text.replace('persistent="false"', 'persistent="false" dataDirectory="{data}"')


def test_the_documented_six_bridges_of_queues_and_of_topics_run(tmp_path: Path) -> None:
    with Broker() as far:
        for sample, kind in (("33-six-queue-bridges.xml", "queue"), ("38-six-topic-bridges.xml", "topic")):
            with Documented(tmp_path / kind, sample, far.url) as broker:
                broker.awaits(": running, ", 6)
                for number, letter in enumerate("ABCXYZ"):
                    source, target = (far.url, broker.broker_url) if number < 3 else (broker.broker_url, far.url)
                    name = f"{kind}://{kind.capitalize()}{letter}"
                    with client.connect(target) as connection, connection.session() as session:
                        consumer = session.create_consumer(name)
                        with client.connect(source) as other, other.session() as sender:
                            sender.create_producer(name).send(letter)
                        message = consumer.receive(TIMEOUT_S)
                    assert message is not None and message.body == letter


TOPICS: Final = """\
  <jmsBridgeConnectors>
    <jmsTopicConnector name="far" outboundTopicConnectionFactory="#far" outboundClientId="bridge">
      <inboundTopicBridges>
        <inboundTopicBridge inboundTopicName="A" localTopicName="FROM.A" consumerName="s" selector="n = 1"/>
      </inboundTopicBridges>
    </jmsTopicConnector>
  </jmsBridgeConnectors>
"""


class Converted(Bridged):
    """A broker whose inbound bridge has a message convertor."""

    def __init__(self, directory: Path, far_url: str, convertor: str) -> None:
        super().__init__(directory, far_url)
        self.convertors: Final = directory / "convertors"
        self.convertors.mkdir(mode=0o755)
        (self.convertors / "orders.py").write_text(convertor)
        self._arguments = ("--convertors", str(self.convertors))

    def text(self) -> str:
        return super().text().replace('name="far"', 'name="far" inboundMessageConvertor="#orders"')


CONVERTOR: Final = """\
def convert(message):
    if message.body == "bad":
        raise ValueError("an order has a number")
    message.body = {"order": int(message.body)}
    message.properties["from"] = "far"
"""


def test_a_convertor_changes_messages_and_one_that_it_refuses_is_a_dead_letter(tmp_path: Path) -> None:
    with Broker() as far, Converted(tmp_path, far.url, CONVERTOR) as broker:
        for text in ("1", "bad", "2"):
            send(far.url, "A", text)
        with client.connect(broker.broker_url) as connection, connection.session() as session:
            consumer = session.create_consumer("queue://FROM.A")
            messages = [consumer.receive(TIMEOUT_S), consumer.receive(TIMEOUT_S)]
        assert [(m.body, m.properties) for m in messages if m] == [({"order": n}, {"from": "far"}) for n in (1, 2)]
        row = broker.awaits_bridge("dead_letters", 1)
        assert "the convertor orders has failed at orders.py:3: ValueError: an order has a number" in str(
            row["last_error"]
        )
        with client.connect(far.url) as connection, connection.session() as session:
            dead = session.create_consumer("queue://ActiveMQ.DLQ").receive(TIMEOUT_S)
        assert dead is not None and dead.body == "bad"
        assert "an order has a number" in dead.properties["dlqDeliveryFailureCause"]


def test_a_broker_without_its_convertor_does_not_start(tmp_path: Path) -> None:
    broker = Converted(tmp_path, "tcp://127.0.0.1:1", CONVERTOR)
    broker.configuration.write_text(
        broker.text().format(data=broker.data, openwire=1, stomp=2, attributes="", inside=""), "utf-8"
    )
    checked = spanwire("config", "check", str(broker.configuration))
    assert (checked.returncode, checked.stdout.count("obstacle: ")) == (1, 1)
    assert "needs --convertors DIRECTORY with the file orders.py" in checked.stdout
    assert re.search(r"obstacle: \S+\.xml:[1-9]\d*: bridge ", checked.stdout)
    broker.convertors.chmod(0o777)
    started = spanwire("start", str(broker.configuration), "--convertors", str(broker.convertors))
    assert started.returncode != 0
    assert f"chmod go-w {broker.convertors}" in started.stderr


class BridgedTopics(Bridged):
    """A broker with a durable subscription at another broker."""

    def text(self) -> str:
        return super().text().replace(BRIDGES.replace("{policy}", ""), TOPICS)


def test_a_durable_subscription_keeps_messages_for_a_bridge_that_is_paused(tmp_path: Path) -> None:
    with Broker() as far, BridgedTopics(tmp_path, far.url) as broker:
        broker.awaits_bridge("state", "running")
        client_of_broker = ControlClient(broker.data, TIMEOUT_S)
        client_of_broker.ask("bridge-pause", bridges=[INBOUND])
        broker.awaits_bridge("state", "paused")
        with client.connect(far.url) as connection, connection.session() as session:
            producer = session.create_producer("topic://A")
            for number in (2, 1):
                producer.send(f"n = {number}", {"n": number})
        with client.connect(broker.broker_url) as connection, connection.session() as session:
            consumer = session.create_consumer("topic://FROM.A")
            client_of_broker.ask("bridge-resume", bridges=[INBOUND])
            message = consumer.receive(TIMEOUT_S)
            assert message is not None and message.body == "n = 1"


def test_a_bridge_that_gave_up_says_so_in_log_status_and_metric_and_is_restarted(tmp_path: Path) -> None:
    with Broker() as far:
        url = far.url
        far.stop()
        with Bridged(tmp_path, url, POLICY) as broker:
            broker.awaits(f"bridge {INBOUND}: failed, all 1 retries are used up")
            row = broker.awaits_bridge("gave_up", True)
            assert (row["state"], row["retries"]) == ("failed", 2)
            directory = ("--data-directory", str(broker.data))
            done = spanwire("bridge", "status", INBOUND, *directory)
            assert done.returncode == 1
            assert "failed for" in done.stdout and "start it again with spanwire bridge restart" in done.stdout
            assert f'spanwire_bridge_gave_up{{bridge="{INBOUND}"}} 1.0' in spanwire("metrics", *directory).stdout
            assert "bridges: 2 of 2 have used up all retries" in spanwire("health", *directory).stdout
            far.start()
            assert spanwire("bridge", "restart", INBOUND, *directory).returncode == 0
            broker.awaits_bridge("state", "running")


def test_a_broker_without_a_connector_for_its_bridges_says_what_to_add(tmp_path: Path) -> None:
    class WithoutOpenWire(Bridged):
        def text(self) -> str:
            return super().text().replace('<transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire}"/>', "")

    with WithoutOpenWire(tmp_path, "tcp://127.0.0.1:1") as broker:
        broker.awaits(f"bridges do not start: {INBOUND}")
        assert broker.bridge()["state"] == "stopped"
        done = spanwire("bridge", "restart", INBOUND, "--data-directory", str(broker.data))
        assert done.returncode == 1
        assert 'add <transportConnector name="bridges" uri="tcp://127.0.0.1:61616"/>' in done.stderr
        assert ControlClient(broker.data, TIMEOUT_S).ask("ping")
