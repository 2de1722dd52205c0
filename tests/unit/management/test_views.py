"""What an operator is told, and that it goes into JSON."""

from __future__ import annotations

import json

from spanwire.broker.views import BrokerStatistics, ConnectionView, DestinationView
from spanwire.management.views import BrokerView
from spanwire.model.environment import Time


class Clock:
    def __init__(self) -> None:
        self.monotonic = 50.0

    def now(self) -> Time:
        return Time(self.monotonic, 0)


class Broker:
    name = "orders"
    broker_id = "ID:b"

    def destination_views(self) -> list[DestinationView]:
        return [DestinationView(name, 1, 0, 5, 4, 4, 0, 2, 1, 100, 0) for name in ("queue://B", "queue://A")]

    def connection_views(self) -> list[ConnectionView]:
        return [ConnectionView("ID:c", "client", "user", "tcp://127.0.0.1:5", "stomp", 1, 1, slow=False)]

    def statistics(self) -> BrokerStatistics:
        return BrokerStatistics(1, 2, 10, 8, 8, 0, 2, 200, 1000, 0)


class Connector:
    name = "stomp"
    uri = "stomp://127.0.0.1:61613"
    connection_count = 3


def test_the_status_says_who_since_when_and_where() -> None:
    clock = Clock()
    view = BrokerView(Broker(), [Connector()], clock, {"persistent": True})
    clock.monotonic += 90.25
    status = view.status()
    assert (status["name"], status["id"], status["uptime_s"], status["persistent"]) == ("orders", "ID:b", 90.2, True)
    assert status["connectors"] == [{"name": "stomp", "uri": "stomp://127.0.0.1:61613", "connections": 3}]
    json.dumps(status)


def test_destinations_and_connections_come_in_order_and_as_json() -> None:
    view = BrokerView(Broker(), [], Clock(), {})
    assert [row["destination"] for row in view.destinations()] == ["queue://A", "queue://B"]
    assert view.connections()[0]["client_id"] == "client"
    json.dumps([view.destinations(), view.connections()])
