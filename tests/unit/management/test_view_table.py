"""The table of views says what the rows of the control socket have."""

from __future__ import annotations

from dataclasses import fields

import pytest

from spanwire.broker.admin.destination_details import DestinationDetails
from spanwire.broker.admin.ledger_views import LedgerLinkView, LedgerView
from spanwire.broker.admin.views import (
    BrokerStatistics,
    ConnectionView,
    ConsumerView,
    DestinationView,
    DurableView,
    ProducerView,
    SessionView,
)
from spanwire.broker.admin.work_views import BranchView, JobView, StrategyView
from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.ledger_tables import LEDGER, LEDGER_LINKS
from spanwire.management.tables.network_tables import LINKS, NETWORK_CONNECTORS
from spanwire.management.tables.view_table import (
    BROKER,
    CONNECTIONS,
    CONNECTORS,
    CONSUMERS,
    PRODUCERS,
    QUEUES,
    SESSIONS,
    SUBSCRIPTIONS,
    SUMMED,
    TOPICS,
    VIEWS,
    rows_of,
    with_averages,
)
from spanwire.management.tables.work_tables import BRANCHES, JOBS, STRATEGIES
from spanwire.management.views import connector_row
from spanwire.network.connector.link import LinkView
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.service.administration.connector_views import bridge_view
from spanwire.transports.base import ConnectorSettings
from tests.support.fake_broker_link import SUMMARY, destination


class Connector:
    """Duck-typed to `spanwire.management.views.ViewedConnector`."""

    name = "stomp"
    uri = "stomp://127.0.0.1:61613"
    connection_count = accepted = refused = 0
    is_started = True
    certificate_expires_s = None
    settings = ConnectorSettings("stomp", "stomp", "127.0.0.1", 61613, "stomp")


@pytest.mark.parametrize(
    ("view", "model"),
    [
        (CONNECTIONS, ConnectionView),
        (CONSUMERS, ConsumerView),
        (PRODUCERS, ProducerView),
        (QUEUES, DestinationView),
        (TOPICS, DestinationView),
        (SUBSCRIPTIONS, DurableView),
        (SESSIONS, SessionView),
        (JOBS, JobView),
        (BRANCHES, BranchView),
        (STRATEGIES, StrategyView),
        (LEDGER, LedgerView),
        (LEDGER_LINKS, LedgerLinkView),
    ],
)
def test_the_table_has_every_field_of_a_view(view: ViewTable, model: type) -> None:
    listed = {attribute.name for attribute in view.attributes if not attribute.detail}
    made = {field.name for field in fields(model)}
    assert made <= listed
    assert listed - made <= {"memory_percent", "average_blocked_ms", "blocked", "blocked_percent"}  # made by `rows_of`


@pytest.mark.parametrize("view", [QUEUES, TOPICS])
def test_the_table_has_every_detail_of_a_destination(view: ViewTable) -> None:
    details = {attribute.name for attribute in view.attributes if attribute.detail}
    assert details == {field.name for field in fields(DestinationDetails)}


def test_the_table_has_what_connectors_show() -> None:
    assert {attribute.name for attribute in CONNECTORS.attributes} == connector_row(Connector()).keys()
    shown = {attribute.name for attribute in NETWORK_CONNECTORS.attributes}
    course = {"started_ms", "stopped_ms", "attempts_failed", "local_failures", "remote_failures"}
    assert shown <= bridge_view(BridgeSettings("to-b")).keys() | {"uri", "autoStart"} | course


def test_a_share_of_no_limit_is_no_share() -> None:
    row = destination("queue://A") | {"memory_bytes": 50, "memory_limit_bytes": 200}
    assert with_averages(row)["memory_percent"] == 25
    assert with_averages(row)["average_blocked_ms"] == 15.0
    assert with_averages(row | {"memory_limit_bytes": 0, "blocked_sends": 0})["memory_percent"] == 0


def test_the_table_has_the_totals_of_the_broker_and_plain_fields_of_links() -> None:
    broker = {attribute.name for attribute in BROKER.attributes}
    assert {field.name for field in fields(BrokerStatistics)} <= broker
    links = {attribute.name for attribute in LINKS.attributes} - {"up"}
    assert links <= {field.name for field in fields(LinkView)}


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_names_and_metrics_of_a_view_are_distinct(view: ViewTable) -> None:
    names = [attribute.name for attribute in view.attributes]
    assert len(set(names)) == len(names)
    assert set(view.keys) <= set(names)
    metrics = [view.metric_name(attribute) for attribute in view.metrics()]
    assert len(set(metrics)) == len(metrics)


def test_a_sum_over_destinations_is_no_second_figure_of_the_broker() -> None:
    metrics = {BROKER.metric_name(attribute) for attribute in BROKER.metrics()}
    assert not metrics & {BROKER.metric_name(attribute) for attribute in QUEUES.attributes if attribute.name in SUMMED}


def test_rows_are_cut_to_the_table() -> None:
    rows = rows_of(QUEUES, [destination("queue://A"), destination("temp-queue://B"), destination("topic://T"), 7])
    assert [row["destination"] for row in rows] == ["queue://A", "temp-queue://B"]
    assert [row["destination"] for row in rows_of(TOPICS, [destination("topic://T")])] == ["topic://T"]
    assert [row["up"] for row in rows_of(LINKS, SUMMARY)] == [True]
    assert rows_of(BROKER, SUMMARY)[0]["memory_percent"] == 20
    assert rows_of(BROKER, None) == []
