"""What an operator is told, and that it goes into JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spanwire.broker.admin.views import (
    BrokerStatistics,
    ConnectionView,
    ConsumerView,
    DestinationView,
    DurableView,
    ProducerView,
)
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.management.views import TOTALS, BrokerView, percent
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.environment import Time


class Clock:
    def __init__(self) -> None:
        self.monotonic = 50.0

    def now(self) -> Time:
        return Time(self.monotonic, 0)


class Broker:
    name = "orders"
    broker_id = "ID:b"


class Things:
    """Duck-typed to `spanwire.management.views.ViewedThings`."""

    def destinations(self) -> list[BrokerDestination]:
        found: list[BrokerDestination] = []
        for name in ("A", "B", "GONE"):
            destination = Destination(QUEUE, name)
            found.append(BrokerDestination(destination, PolicyEntry(destination), MemoryUsage(0)))
        found[2].removed = True
        return found

    def destination_view(self, destination: BrokerDestination) -> DestinationView:
        return DestinationView(destination.name.qualified_name, 1, 0, 5, 4, 4, 0, 2, 1, 100, 0)

    def connection_views(self) -> list[ConnectionView]:
        return [ConnectionView("ID:c", "client", "user", "tcp://127.0.0.1:5", "stomp", 1, 1, slow=False)]

    def durable_views(self, monotonic: float) -> list[DurableView]:
        return [
            DurableView(client_id, name, "topic://T", None, False, False, int(monotonic), 1, 0, 1, 0, 0)
            for client_id, name in (("b", "1"), ("a", "2"), ("a", "1"))
        ]

    def consumer_views(self) -> list[ConsumerView]:
        return [ConsumerView("ID:c:1:1", "client", "user", "tcp://h:5", "queue://A", None, None, 10, 0, 0, 0, False)]

    def producer_views(self) -> list[ProducerView]:
        return [ProducerView(f"ID:c:1:{number}", None, "user", "tcp://h:5", "queue://A", 0) for number in (2, 1)]

    def statistics(self, with_totals: bool = True) -> BrokerStatistics:
        return BrokerStatistics(
            1, 2, 10, 8, 8, 0, 2, 200, 1000, 0, store_bytes=50, store_limit_bytes=200, temporary_limit_bytes=100
        )


class Connector:
    name = "stomp"
    uri = "stomp://127.0.0.1:61613"
    connection_count = 3


def test_the_status_says_who_since_when_and_where() -> None:
    clock = Clock()
    view = BrokerView(Broker(), Things(), [Connector()], clock, {"persistent": True})
    clock.monotonic += 90.25
    status = view.status()
    assert (status["name"], status["id"], status["uptime_s"], status["persistent"]) == ("orders", "ID:b", 90.2, True)
    assert status["connectors"] == [{"name": "stomp", "uri": "stomp://127.0.0.1:61613", "connections": 3}]
    json.dumps(status)


def test_the_summary_has_no_totals_over_destinations() -> None:
    view = BrokerView(Broker(), Things(), [Connector()], Clock(), {})
    status, summary = view.status(), view.summary()
    assert isinstance(status["statistics"], dict)
    assert isinstance(summary["statistics"], dict)
    assert status["statistics"].keys() - summary["statistics"].keys() == set(TOTALS)
    assert summary.keys() == status.keys()


def test_destinations_and_connections_come_in_order_and_as_json() -> None:
    view = BrokerView(Broker(), Things(), [], Clock(), {})
    assert [row["destination"] for row in view.destinations()] == ["queue://A", "queue://B"]
    assert next(view.connections())["client_id"] == "client"
    assert [(row["client_id"], row["name"]) for row in view.subscriptions()] == [("a", "1"), ("a", "2"), ("b", "1")]
    assert next(view.consumers())["destination"] == "queue://A"
    assert [row["producer_id"] for row in view.producers()] == ["ID:c:1:1", "ID:c:1:2"]
    json.dumps([*view.destinations(), *view.connections(), *view.producers(), *view.subscriptions(), *view.consumers()])


def test_the_status_says_how_full_memory_store_and_disk_are(tmp_path: Path) -> None:
    usage = BrokerView(Broker(), Things(), [], Clock(), {}, tmp_path).status()["usage"]
    assert isinstance(usage, dict)
    assert (usage["memory_percent"], usage["store_percent"], usage["temporary_percent"]) == (20, 25, 50)
    assert usage["disk_free_bytes"] > 0
    assert usage["disk_full"] is False


def test_a_broker_without_a_store_tells_nothing_of_a_disk() -> None:
    usage = BrokerView(Broker(), Things(), [], Clock(), {}).status()["usage"]
    assert usage == {
        "memory_percent": 20, "store_percent": 0, "temporary_percent": 0, "disk_free_bytes": None, "disk_full": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("used", "limit", "free", "share"),
    [(50, 200, None, 25), (50, 0, 50, 50), (50, 1000, 0, 100), (50, 0, None, 0), (0, 0, 0, 0)],
)
def test_the_share_is_that_of_the_nearer_limit(used: int, limit: int, free: int | None, share: int) -> None:
    assert percent(used, limit, free) == share
