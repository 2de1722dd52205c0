"""Each attribute and operation of ActiveMQ's beans is there, or the page about Jolokia says why it is not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from spanwire.management.beans import executions as kinds
from spanwire.management.beans.operations import ANSWERS, BRIDGE_PARAMETERS, EXECUTABLE, WRITABLE
from spanwire.management.tables.attributes import BOOLEAN, INTEGER, LIST, NUMBER, OBJECT, ViewTable
from spanwire.management.tables.network_tables import LINKS
from spanwire.management.tables.view_table import (
    BROKER,
    CONNECTIONS,
    CONSUMERS,
    PRODUCERS,
    QUEUES,
    STATUS_PARTS,
    SUBSCRIPTIONS,
    VIEWS,
)
from spanwire.management.tables.work_tables import BRANCHES, JOBS, LINK_DESTINATIONS, STRATEGIES
from spanwire.web.routes import application
from tests.support.fake_broker_link import FakeBrokerLink

ROOT = Path(__file__).parents[3]
KNOWN = json.loads((ROOT / "tests/vectors/activemq-beans.json").read_text())
PAGE = (ROOT / "docs/operations/jolokia.md").read_text()
NAME = "org.apache.activemq:type=Broker,brokerName=orders"
TOPIC = "destinationType=Topic,destinationName=T"
QUEUE = "destinationType=Queue,destinationName=A"
LINK = "connector=networkConnectors,networkConnectorName=n,networkBridge=u"
# ActiveMQ's bean → the name of one here, and its kind
BEANS = {
    "Broker": ("", kinds.BROKER),
    "Destination": (QUEUE, kinds.QUEUE),
    "Queue": (QUEUE, kinds.QUEUE),
    "Topic": (TOPIC, kinds.TOPIC),
    "Connector": ("connector=clientConnectors,connectorName=n", kinds.CONNECTOR),
    "Connection": (
        "connector=clientConnectors,connectorName=n,connectionViewType=clientId,connectionName=c",
        kinds.CONNECTION,
    ),
    "NetworkConnector": ("connector=networkConnectors,networkConnectorName=n", kinds.NETWORK_CONNECTOR),
    "NetworkBridge": (LINK, kinds.LINK),
    "NetworkDestination": (f"{LINK},direction=outbound,{QUEUE}", kinds.LINK),
    "Subscription": (f"{QUEUE},endpoint=Consumer,clientId=c,consumerId=q", kinds.CONSUMER),
    "TopicSubscription": (f"{TOPIC},endpoint=Consumer,clientId=c,consumerId=t", kinds.CONSUMER),
    "DurableSubscription": (f"{TOPIC},endpoint=Consumer,clientId=c,consumerId=Durable(c_s)", kinds.SUBSCRIPTION),
    "Producer": (f"{QUEUE},endpoint=Producer,clientId=c,producerId=p", kinds.PRODUCER),
    "JobScheduler": ("service=JobScheduler,name=JMS", kinds.SCHEDULER),
    "Health": ("service=Health", kinds.HEALTH),
    "Log4JConfig": ("service=Log4JConfiguration", kinds.LOGGING),
    "PersistenceAdapter": ("service=PersistenceAdapter,instanceName=n", ""),
    "AbortSlowConsumerStrategy": ("service=SlowConsumerStrategy,instanceName=queue_//A", kinds.STRATEGY),
    "AbortSlowAckConsumerStrategy": ("service=SlowConsumerStrategy,instanceName=queue_//A", kinds.STRATEGY),
    "RecoveredXATransaction": ("transactionType=RecoveredXaTransaction,xid=x", kinds.BRANCH),
    "JmsConnector": ("connector=jmsConnectors,jmsConnectors=n", kinds.JMS_BRIDGE),
    "ProxyConnector": ("", ""),
}
VALUES: dict[str, object] = {INTEGER: 1, NUMBER: 1.0, BOOLEAN: True, LIST: [], OBJECT: {}}


def row_of(view: ViewTable, **values: object) -> dict[str, object]:
    """A row with all attributes of a view, which other tests compare with those that the broker makes."""
    return {attribute.name: VALUES.get(attribute.type, "x") for attribute in view.attributes} | values


class FullLink(FakeBrokerLink):
    """A broker with an object of each kind, and each attribute of it."""

    def __init__(self) -> None:
        super().__init__()
        parts = {part: [row_of(view, name="n", uri="u")] for view in VIEWS if (part := STATUS_PARTS.get(view.name))}
        parts[STATUS_PARTS[LINKS.name]][0]["accepted"] = False
        self.answers |= {
            "summary": {**row_of(BROKER, name="orders"), "statistics": {}, "usage": {}, **parts},
            "destinations": [row_of(QUEUES, destination="queue://A"), row_of(QUEUES, destination="topic://T")],
            CONNECTIONS.command: [row_of(CONNECTIONS, client_id="c", connector="n")],
            CONSUMERS.command: [
                row_of(CONSUMERS, destination="queue://A", durable=None, client_id="c", consumer_id="q"),
                row_of(CONSUMERS, destination="topic://T", durable=None, client_id="c", consumer_id="t"),
                row_of(CONSUMERS, destination="topic://T", durable="s", client_id="c", consumer_id="d"),
            ],
            SUBSCRIPTIONS.command: [row_of(SUBSCRIPTIONS, topic="topic://T", client_id="c", name="s")],
            PRODUCERS.command: [row_of(PRODUCERS, destination="queue://A", client_id="c", producer_id="p")],
            JOBS.command: [row_of(JOBS)],
            BRANCHES.command: [row_of(BRANCHES, xid="x", global_id="ff", branch_qualifier="ff")],
            STRATEGIES.command: [row_of(STRATEGIES, name="queue://A")],
            LINK_DESTINATIONS.command: [
                row_of(LINK_DESTINATIONS, name="n", uri="u", accepted=False, direction="outbound",
                       destination="queue://A")
            ],
            "log-level": [{"logger": "root", "level": "info"}],
        }  # fmt: skip

    async def ask(self, command: str, **arguments: object) -> object:
        if command == "bridge-parameters":
            return {"broker": "orders", "bridge": "n", "parameters": dict.fromkeys(BRIDGE_PARAMETERS, "x")}
        if command == "destination":
            return row_of(QUEUES, destination=arguments["destination"])
        return await super().ask(command, **arguments)


def shown(bean: str) -> set[str]:
    """The attributes that one bean shows."""
    client = TestClient(application(FullLink(), is_loopback=True), base_url="http://127.0.0.1:8161")
    name = f"{NAME},{bean}" if bean else NAME
    answer = client.post("/api/jolokia", json={"type": "read", "mbean": name}, auth=("anna", "a-word")).json()
    return set(answer["value"])


def listed(title: str, bean: str) -> set[str]:
    """The names that a table of the page has for a bean."""
    section = re.split(r"^#+ ", PAGE.partition(f"# {title}\n")[2], flags=re.M)[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ")]
    return {name for first, names in rows if first.strip() == bean for name in re.findall(r"`([^`]+)`", names)}


@pytest.mark.parametrize("bean", sorted(KNOWN["attributes"]))
def test_an_attribute_is_shown_or_the_page_says_why_it_is_not(bean: str) -> None:
    assert set(KNOWN["attributes"][bean]) - shown(BEANS[bean][0]) == listed("Attributes that are not there", bean)


@pytest.mark.parametrize("bean", sorted(KNOWN["writable"]))
def test_an_attribute_is_written_or_the_page_says_why_it_is_not(bean: str) -> None:
    name, kind = BEANS[bean]
    kept = {one for one in KNOWN["writable"][bean] if one in shown(name)} - WRITABLE.get(kind, {}).keys()
    if bean == "Destination":
        kept -= WRITABLE[kinds.TOPIC].keys()
    assert kept == listed("Attributes that cannot be written", bean)


@pytest.mark.parametrize("bean", sorted(KNOWN["operations"]))
def test_an_operation_exists_or_the_page_says_why_it_does_not(bean: str) -> None:
    kind = BEANS[bean][1]
    there = {f"{name}({count})" for name, count in {**EXECUTABLE.get(kind, {}), **ANSWERS.get(kind, {})}}
    assert set(KNOWN["operations"][bean]) - there == listed("Operations that are not there", bean)


def test_every_bean_of_activemq_is_looked_at() -> None:
    assert {bean for names in KNOWN.values() for bean in names} <= BEANS.keys()
