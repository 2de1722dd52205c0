"""The table of views says what the rows of the control socket have."""

from __future__ import annotations

from dataclasses import fields

import pytest

from spanwire.broker.admin.views import (
    BrokerStatistics,
    ConnectionView,
    ConsumerView,
    DestinationView,
    DurableView,
    ProducerView,
)
from spanwire.management.view_table import (
    BROKER,
    CONNECTIONS,
    CONSUMERS,
    LINKS,
    PRODUCERS,
    QUEUES,
    SUBSCRIPTIONS,
    SUMMED,
    TOPICS,
    VIEWS,
    ViewTable,
    rows_of,
)
from spanwire.network.connector.link import LinkView
from tests.support.fake_broker_link import SUMMARY, destination


@pytest.mark.parametrize(
    ("view", "model"),
    [
        (CONNECTIONS, ConnectionView),
        (CONSUMERS, ConsumerView),
        (PRODUCERS, ProducerView),
        (QUEUES, DestinationView),
        (TOPICS, DestinationView),
        (SUBSCRIPTIONS, DurableView),
    ],
)
def test_the_table_has_every_field_of_a_view(view: ViewTable, model: type) -> None:
    assert {attribute.name for attribute in view.attributes} == {field.name for field in fields(model)}


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
