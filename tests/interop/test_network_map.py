"""``spanwire network map`` over a row of brokers with a Classic in its middle, from the first of them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from spanwire.management.control_client import ControlClient
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.classic import classic_command
from tests.support.peers import require
from tests.support.stomp_socket import StompSocket

PATIENCE_S: Final = 30.0
MANAGED: Final = '    <managementContext><managementContext createConnector="false"/></managementContext>\n'
PLUGIN: Final = "    <plugins><statisticsBrokerPlugin/></plugins>\n"
CONNECTOR: Final = """\
    <networkConnectors>
      <networkConnector name="{name}" uri="static:(tcp://127.0.0.1:{port})?initialReconnectDelay=200" networkTTL="2"/>
    </networkConnectors>
"""


def managed_classic(directory: Path) -> list[str]:
    """Classic with JMX, of which it makes the statistics of consumers, but without a port for it."""
    path = directory / "activemq.xml"
    path.write_text(path.read_text("utf-8").replace('useJmx="false"', 'useJmx="true"'), "utf-8")
    return classic_command(directory)


def mapped(broker: BrokerProcess, *more: str) -> str:
    command = [sys.executable, "-m", "spanwire", "network", "map", "--data-directory", str(broker.directory / "data")]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def told(broker: BrokerProcess, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(mapped(broker, "--json", *more))
    return found


def crosses(far: BrokerProcess, near: BrokerProcess, queue: str, count: int) -> StompSocket:
    """Sends messages to a consumer at the other end, which is left open: it is the demand."""
    consumer = StompSocket(far.stomp_port)
    consumer.connect("1.1")
    consumer.type(f"SUBSCRIBE\nid:1\nack:auto\ndestination:/queue/{queue}\nreceipt:s\n\n\0")
    answer = consumer.receive(PATIENCE_S)
    assert answer is not None and answer.command == "RECEIPT"
    with StompSocket(near.stomp_port) as sender:
        sender.connect("1.1")
        for number in range(count):
            sender.type(f"SEND\ndestination:/queue/{queue}\npersistent:true\nreceipt:{number}\n\nm\0")
            assert sender.receive(PATIENCE_S) is not None
    for _ in range(count):
        assert consumer.receive(PATIENCE_S) is not None
    return consumer


def test_the_first_broker_of_a_row_shows_what_the_others_tell(tmp_path: Path) -> None:
    require("activemq-broker")
    with BrokerProcess(spanwire_command(), tmp_path / "c", name="brokerC", inside=PLUGIN) as c:
        to_c = MANAGED + CONNECTOR.format(name="toC", port=c.openwire_port) + PLUGIN  # in the order of its schema
        with BrokerProcess(managed_classic, tmp_path / "b", name="brokerB", inside=to_c) as b:
            to_b = CONNECTOR.format(name="toB", port=b.openwire_port)
            with BrokerProcess(spanwire_command(), tmp_path / "a", name="brokerA", inside=to_b) as a:
                stays = crosses(c, a, "MAP", 5)
                at_c = ("--at", f"tcp://127.0.0.1:{c.openwire_port}")
                until = time.monotonic() + PATIENCE_S
                found = told(a, "--ask", *at_c)
                while forwarded(found) != [5] and time.monotonic() < until:
                    time.sleep(0.2)
                    found = told(a, "--ask", *at_c)
                assert forwarded(found) == [5]
                ends, middle = found["brokers"]
                assert (middle["name"], ends["name"]) == ("brokerB", "brokerC")
                assert [(link["remote"], link["connector"]) for link in links(middle, incoming=False)] == [
                    ("brokerC", "toC")
                ]
                assert ("brokerA", "toB") in [(one["remote"], one["connector"]) for one in links(middle, incoming=True)]
                assert [(one["remote"], one["connector"]) for one in links(ends, incoming=True)] == [("brokerB", "toC")]
                (here,) = found["links"]
                assert (here["remote"], here["waiting"]) == ("brokerB", {"queue://MAP": 0})
                text = mapped(a, "--ask", *at_c)
                assert "\n    wants queue://MAP: 0 waiting\n" in text
                assert f"\nbroker brokerB (id {middle['broker_id']}) at tcp://127.0.0.1:{b.openwire_port}: " in text
                assert "\n  --> brokerC by toC: " in text
                assert "\n    wants MAP: 0 waiting, " in text
                classic = reported(a)["brokerB"]
                assert classic["kind"] == "activemq"
                assert ("toC", "brokerC", 5) in [
                    (one["name"], one["remote"], one["dequeued"]) for one in links(classic, incoming=False)
                ]
                assert stays.beats == 0


def reported(broker: BrokerProcess) -> dict[str, Any]:
    """The brokers that the map of the console has, once the linked one has told."""
    until = time.monotonic() + PATIENCE_S
    while True:
        answer: Any = ControlClient(broker.directory / "data", PATIENCE_S).ask("network")
        rows = {row["name"]: row for row in answer["brokers"]}
        if rows.get("brokerB", {}).get("links") or time.monotonic() > until:
            return rows
        time.sleep(0.2)


def links(broker: dict[str, Any], *, incoming: bool) -> list[dict[str, Any]]:
    return [link for link in broker["links"] if link["incoming"] is incoming]


def forwarded(found: dict[str, Any]) -> list[int]:
    """How many messages the broker in the middle says that it forwarded."""
    return [
        demand["forwarded"]
        for broker in found["brokers"]
        if broker["name"] == "brokerB"
        for link in links(broker, incoming=False)
        for demand in link["demand"]
        if demand["destination"] == "MAP"
    ]
