"""What an operator is told, and that it goes into JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from spanwire.broker.admin.destination_details import DestinationDetails, destination_details
from spanwire.broker.admin.ledger_views import LedgerLinkView, LedgerView
from spanwire.broker.admin.totals import SLICE, Totals
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
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.xa_branch import Branch
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.slow_consumer_strategy import SlowConsumerWatch
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.scheduler.schedule import Job
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.management.views import TOTALS, BrokerView, percent
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.model.info import ProducerInfo
from spanwire.transports.base import ConnectorSettings


class Clock:
    def __init__(self) -> None:
        self.monotonic = 50.0

    def now(self) -> Time:
        return Time(self.monotonic, 0)


class Broker:
    name = "orders"
    broker_id = "ID:b"

    def find_destination(self, destination: Destination) -> BrokerDestination | None:
        return next((one for one in Things().destinations() if one.name == destination), None)


class Things:
    """Duck-typed to `spanwire.management.views.OverviewSource`. Counts the views made."""

    made = 0

    def destinations(self) -> list[BrokerDestination]:
        found: list[BrokerDestination] = []
        for name in ("A", "B", "GONE"):
            destination = Destination(QUEUE, name)
            found.append(BrokerDestination(destination, PolicyEntry(destination), MemoryUsage(0)))
        found[2].removed = True
        return found

    def destination_view(self, destination: BrokerDestination) -> DestinationView:
        return DestinationView(destination.name.qualified_name, 1, 0, 5, 4, 4, 0, 2, 1, 100, 0)

    def durables(self) -> list[DurableSubscription]:
        return [cast(DurableSubscription, ends) for ends in (("a", "1"), ("a", "2"), ("b", "1"))]

    def durable_view(self, durable: DurableSubscription, monotonic: float) -> DurableView:
        client_id, name = cast(tuple[str, str], durable)
        self.made += 1
        return DurableView(client_id, name, "topic://T", None, False, False, int(monotonic), 1, 0, 1, 0, 0)

    def connections(self) -> list[ConnectionState]:
        return [cast(ConnectionState, "ID:c"), cast(ConnectionState, "ID:d")]

    def connection_view(self, state: ConnectionState, wall_ms: int) -> ConnectionView:
        self.made += 1
        return ConnectionView(str(state), "client", "user", "tcp://127.0.0.1:5", "stomp", 1, 1, slow=False)

    def consumers(self, state: ConnectionState) -> list[Subscription]:
        return [cast(Subscription, f"{state}:1:{number}") for number in (1, 2)]

    def consumer_view(self, state: ConnectionState, consumer: Subscription) -> ConsumerView:
        self.made += 1
        return ConsumerView(str(consumer), "client", "user", "tcp://h:5", "queue://A", None, None, 10, 0, 0, 0, False)

    def producers(self, state: ConnectionState) -> list[ProducerInfo]:
        return [cast(ProducerInfo, f"{state}:1:{number}") for number in (1, 2)]

    def producer_view(self, state: ConnectionState, producer: ProducerInfo) -> ProducerView:
        self.made += 1
        return ProducerView(str(producer), None, "user", "tcp://h:5", "queue://A", 0)

    def sessions(self, state: ConnectionState) -> list[SessionView]:
        return [SessionView(str(state), number, None, 1, 0) for number in (-1, 1)]

    def jobs(self) -> list[Job]:
        return []

    def job_view(self, job: Job) -> JobView:
        raise NotImplementedError

    def ledger_views(self) -> Iterator[LedgerView]:
        return iter(())

    def ledger_links(self) -> list[LedgerLinkView]:
        return []

    def branches(self) -> list[Branch]:
        return []

    def branch_view(self, branch: Branch) -> BranchView:
        raise NotImplementedError

    def strategies(self) -> list[SlowConsumerWatch]:
        return []

    def strategy_view(self, watch: SlowConsumerWatch) -> StrategyView:
        raise NotImplementedError

    def destination_details(self, destination: BrokerDestination) -> DestinationDetails:
        return destination_details(destination)

    def totals(self, with_destinations: bool = True) -> Totals:
        return Totals(self.destinations() if with_destinations else [], [], [])

    def statistics_of(self, totals: Totals) -> BrokerStatistics:
        return BrokerStatistics(
            1,
            totals.destinations,
            10,
            8,
            8,
            0,
            2,
            200,
            1000,
            0,
            store_bytes=50,
            store_limit_bytes=200,
            temporary_limit_bytes=100,
        )


class Connector:
    name = "stomp"
    uri = "stomp://127.0.0.1:61613"
    connection_count = 3
    accepted = 4
    refused = 1
    is_started = True
    certificate_expires_s = None
    settings = ConnectorSettings("stomp", "stomp", "127.0.0.1", 61613, "stomp")


def test_the_status_says_who_since_when_and_where() -> None:
    clock = Clock()
    view = BrokerView(Broker(), Things(), [Connector()], clock, lambda: {"persistent": True})
    clock.monotonic += 90.25
    status = asyncio.run(view.status())
    assert (status["name"], status["id"], status["uptime_s"], status["persistent"]) == ("orders", "ID:b", 90.2, True)
    rows = status["connectors"]
    assert isinstance(rows, list)
    (connector,) = rows
    assert (connector["name"], connector["uri"]) == ("stomp", "stomp://127.0.0.1:61613")
    assert (connector["connections"], connector["connections_ever"], connector["refused"]) == (3, 4, 1)
    json.dumps(status)


def test_the_summary_has_no_totals_over_destinations() -> None:
    view = BrokerView(Broker(), Things(), [Connector()], Clock(), dict)
    status, summary = asyncio.run(view.status()), asyncio.run(view.summary())
    assert isinstance(status["statistics"], dict)
    assert isinstance(summary["statistics"], dict)
    assert status["statistics"].keys() - summary["statistics"].keys() == set(TOTALS)
    assert summary.keys() == status.keys()


def test_destinations_and_connections_come_in_order_and_as_json() -> None:
    view = BrokerView(Broker(), Things(), [], Clock(), dict)
    assert [row["destination"] for row in view.destinations()] == ["queue://A", "queue://B"]
    assert next(view.connections())["client_id"] == "client"
    assert [(row["client_id"], row["name"]) for row in view.subscriptions()] == [("a", "1"), ("a", "2"), ("b", "1")]
    assert next(view.consumers())["destination"] == "queue://A"
    assert [row["producer_id"] for row in view.producers()] == ["ID:c:1:1", "ID:c:1:2", "ID:d:1:1", "ID:d:1:2"]
    json.dumps([*view.destinations(), *view.connections(), *view.producers(), *view.subscriptions(), *view.consumers()])


@pytest.mark.parametrize("name", ["connections", "consumers", "producers", "subscriptions"])
def test_a_view_is_made_when_its_turn_comes(name: str) -> None:
    things = Things()
    rows = getattr(BrokerView(Broker(), things, [], Clock(), dict), name)()
    assert things.made == 0
    next(rows)
    assert things.made == 1


def test_the_status_says_how_full_memory_store_and_disk_are(tmp_path: Path) -> None:
    usage = asyncio.run(BrokerView(Broker(), Things(), [], Clock(), dict, tmp_path).status())["usage"]
    assert isinstance(usage, dict)
    assert (usage["memory_percent"], usage["store_percent"], usage["temporary_percent"]) == (20, 25, 50)
    assert usage["disk_free_bytes"] > 0
    assert usage["disk_full"] is False


def test_a_broker_without_a_store_tells_nothing_of_a_disk() -> None:
    usage = asyncio.run(BrokerView(Broker(), Things(), [], Clock(), dict).status())["usage"]
    assert usage == {
        "memory_percent": 20, "store_percent": 0, "temporary_percent": 0, "disk_free_bytes": None, "disk_full": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("used", "limit", "free", "share"),
    [(50, 200, None, 25), (50, 0, 50, 50), (50, 1000, 0, 100), (50, 0, None, 0), (0, 0, 0, 0)],
)
def test_the_share_is_that_of_the_nearer_limit(used: int, limit: int, free: int | None, share: int) -> None:
    assert percent(used, limit, free) == share


def test_a_destination_has_more_alone_than_in_a_list() -> None:
    view = BrokerView(Broker(), Things(), [], Clock(), dict)
    alone = asyncio.run(view.destination({"destination": "queue://A"}))
    assert (alone["pending"], alone["statistics_enabled"], alone["producer_flow_control"]) == (1, False, True)
    assert "statistics_enabled" not in next(view.destinations())
    json.dumps(alone)


@pytest.mark.parametrize("name", ["queue://MISSING", "queue://GONE", "", None, 7, "queue://A,queue://B"])
def test_a_destination_that_is_not_there_is_refused(name: object) -> None:
    with pytest.raises(ConfigurationError, match="no destination"):
        asyncio.run(BrokerView(Broker(), Things(), [], Clock(), dict).destination({"destination": name}))


class ManyThings(Things):
    """More destinations than one turn adds up."""

    def destinations(self) -> list[BrokerDestination]:
        names = [Destination(QUEUE, str(number)) for number in range(3 * SLICE)]
        return [BrokerDestination(name, PolicyEntry(name), MemoryUsage(0)) for name in names]


@pytest.mark.parametrize(("command", "least"), [("status", 3), ("summary", 0)])
def test_totals_are_added_up_over_several_turns(command: str, least: int) -> None:
    view = BrokerView(Broker(), ManyThings(), [], Clock(), dict)

    async def turns() -> int:
        task = asyncio.ensure_future(getattr(view, command)())
        count = 0
        while not task.done():
            await asyncio.sleep(0)
            count += 1
        return count

    assert least <= asyncio.run(turns()) <= least + 3
