"""What brokers tell by the statistics plugin, as an operator reads it."""

from __future__ import annotations

import pytest

from spanwire.cli.network.network import asked, beyond, is_asked, is_tls
from spanwire.cli.network.network_map import Login, ask, lines
from spanwire.network.reports.statistics import BrokerReport, ReportedDemand, ReportedLink, read

B = {"brokerName": "B", "brokerId": "ID:b"}
BRIDGE = {
    **B,
    "destinationName": "ORDERS",
    "clientId": "to_C_C_inbound_B",
    "dispatchedQueueSize": 3,
    "dequeueCounter": 40,
}
ANSWERS: list[dict[str, object]] = [
    {**B, "size": 120, "consumerCount": 4},
    BRIDGE,
    {**BRIDGE, "destinationName": "A", "dispatchedQueueSize": 0},
    {**B, "destinationName": "ActiveMQ.Advisory.Consumer.>", "clientId": "toB_A_outbound", "dispatchedQueueSize": 0},
    {**B, "destinationName": "X", "clientId": None},
    {**B, "destinationName": "queue://ORDERS", "size": 103},
    {**B, "size": 120, "consumerCount": 4},
]


def told(answers: list[dict[str, object]]) -> BrokerReport:
    broker = BrokerReport("tcp://b:1")
    read(broker, answers)
    return broker


def test_bridges_are_known_by_their_client_ids() -> None:
    assert told(ANSWERS).links == [
        ReportedLink("A", "toB", incoming=True),
        ReportedLink("C", "to_C", demand=[ReportedDemand("ORDERS", 100, 3, 40), ReportedDemand("A", 0, 0, 40)]),
    ]


def test_a_broker_is_read_from_top_to_bottom() -> None:
    assert lines(told(ANSWERS)) == [
        "broker B (id ID:b) at tcp://b:1: 120 messages, 4 consumers",
        "  <-- A by toB",
        "  --> C by to_C: 3 on their way",
        "    wants A: 0 waiting, 0 on their way",
        "    wants ORDERS: 100 waiting, 3 on their way",
    ]


def test_what_a_broker_does_not_tell_is_said() -> None:
    assert lines(told(ANSWERS[:1])) == [
        "broker B (id ID:b) at tcp://b:1: 120 messages, 4 consumers",
        '  does not report its links; an ActiveMQ does with useJmx="true"',
    ]
    assert lines(BrokerReport("tcp://b:1", silence="is down")) == ["broker at tcp://b:1 is down"]


def test_a_broker_that_is_not_there_costs_a_line() -> None:
    (line,) = lines(ask("tcp://127.0.0.1:1", Login()))
    assert line.startswith("broker at tcp://127.0.0.1:1 cannot be asked: ")


@pytest.mark.parametrize(
    ("address", "has_login", "asked"),
    [
        ("tcp://listed:1", False, True),
        ("tcp://listed:1", True, True),
        ("tcp://found:1", False, True),
        ("tcp://found:1", True, False),
        ("tcp://listed:2", True, False),
        ("vm://b", False, False),
    ],
)
def test_a_login_is_sent_to_listed_brokers_alone(address: str, has_login: bool, asked: bool) -> None:
    assert is_asked(address, "static:(tcp://listed:1,tcp://listed:26)", has_login) is asked


@pytest.mark.parametrize("has_login", [False, True])
def test_a_broker_that_has_opened_its_link_itself_is_not_asked_at_the_port_it_called_from(has_login: bool) -> None:
    links: list[dict[str, object]] = [{"uri": "tcp://listed:1"}, {"uri": "tcp://caller:53144"}]
    connectors: list[dict[str, object]] = [
        {"uri": "static:(tcp://listed:1)", "autoStart": True},
        {"uri": "tcp://caller:53144", "autoStart": None},
    ]
    assert asked(links, connectors, has_login) == ["tcp://listed:1"]


def test_stores_are_for_addresses_of_tls() -> None:
    assert [is_tls(one) for one in ("tcp://a:1", "ssl://a:1", "nio+ssl://a:1")] == [False, True, True]


def test_ways_are_told_by_names_where_they_are_known() -> None:
    assert beyond([["ID:b", "ID:c"]], {"ID:b": "B"}) == ["    leads on: B -> ID:c"]
