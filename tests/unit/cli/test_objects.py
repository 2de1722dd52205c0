"""The objects of query and bstat: which attributes they have, which are chosen, how they look."""

from __future__ import annotations

from typing import cast

from spanwire.cli.objects import ViewedObject, all_objects, chosen
from spanwire.management.control_client import ControlClient

STATUS = {
    "name": "b", "id": "ID:b", "version": "1", "uptime_s": 2.0, "data_directory": "/d", "persistent": True,
    "connectors": [{"name": "openwire", "uri": "tcp://h:1", "connections": 1}],
    "network_connectors": [{"name": "link", "uri": "static:(tcp://h:2)", "state": "up", "in_flight": 0}],
    "network_settings": [
        {"name": "link", "uri": "static:(tcp://h:2)", "networkTTL": 3, "excludedDestinations": ["queue://A", "topic://B"]},
        {"name": "looking", "uri": "multicast://default", "networkTTL": 1, "excludedDestinations": []},
    ],
    "statistics": {"connections": 1, "enqueued": 5, "dequeued": 4, "pending": 1, "memory_bytes": 9,
                   "memory_limit_bytes": 100, "store_bytes": 7, "store_limit_bytes": 70, "durable_subscriptions": 1},
    "usage": {"memory_percent": 9, "store_percent": 10, "temporary_percent": 3, "disk_free_bytes": 63,
              "disk_full": True},
}  # fmt: skip
QUEUE = {
    "destination": "queue://Q", "pending": 3, "in_flight": 1, "enqueued": 5, "dequeued": 2, "dispatched": 3,
    "expired": 0, "consumers": 1, "producers": 0, "memory_bytes": 7, "memory_limit_bytes": 0,
}  # fmt: skip
CONNECTION = {"connection_id": "ID:c", "client_id": "c", "user_name": "u", "remote_address": "tcp://h:3",
              "protocol": "stomp 1.2", "consumers": 1, "producers": 0, "slow": False}  # fmt: skip

DURABLE = {"client_id": "c", "name": "s", "topic": "topic://T", "selector": None, "no_local": False, "active": False,
           "away_s": 5, "pending": 500, "in_flight": 0, "enqueued": 500, "dequeued": 0, "dispatched": 0}  # fmt: skip
CONSUMER = {"consumer_id": "ID:c:1:1", "client_id": "c", "user_name": "u", "remote_address": "tcp://h:3",
            "destination": "queue://Q", "selector": None, "durable": None, "prefetch_size": 10, "in_flight": 1,
            "dispatched": 3, "dequeued": 2, "browser": False}  # fmt: skip
PRODUCER = {"producer_id": "ID:c:1:1", "client_id": "c", "user_name": "u", "remote_address": "tcp://h:3",
            "destination": "queue://Q", "window_bytes": 0}  # fmt: skip


class Client:
    """Duck-typed to the part of `ControlClient` that is asked."""

    def ask(self, command: str) -> object:
        return {
            "status": STATUS,
            "connections": [CONNECTION],
            "consumers": [CONSUMER],
            "producers": [PRODUCER],
            "subscriptions": [DURABLE],
            "destinations": [QUEUE],
        }[command]


def objects() -> list[ViewedObject]:
    return all_objects(cast(ControlClient, Client()))


def test_everything_has_activemqs_names_with_the_broker_first() -> None:
    found = {each.type: each for each in objects()}
    assert list(found) == [
        "Broker", "Connector", "NetworkConnector", "Connection", "Subscription", "Producer",
        "DurableSubscription", "Queue",
    ]  # fmt: skip
    broker = found["Broker"].attributes
    assert broker["TotalEnqueueCount"] == 5
    assert (broker["StoreUsageByteCount"], broker["StoreLimit"], broker["StorePercentUsage"]) == (7, 70, 10)
    assert (broker["MemoryPercentUsage"], broker["TempPercentUsage"], broker["DiskFull"]) == (9, 3, True)
    assert found["DurableSubscription"].name == "c:s"
    assert found["DurableSubscription"].attributes["PendingQueueSize"] == 500
    assert found["Subscription"].attributes["DestinationName"] == "queue://Q"
    assert found["Connector"].attributes == {"URI": "tcp://h:1", "ConnectionCount": 1}
    linked, looking = [each for each in objects() if each.type == "NetworkConnector"]
    assert (linked.name, linked.attributes["InFlight"], linked.attributes["NetworkTTL"]) == ("link", 0, 3)
    assert linked.attributes["ExcludedDestinations"] == "queue://A, topic://B"
    assert (looking.name, looking.attributes["Uri"]) == ("looking", "multicast://default")
    assert found["Connection"].attributes["ClientId"] == "c"
    assert found["Producer"].attributes["ProducerWindowSize"] == 0
    assert found["Queue"].attributes["QueueSize"] == 3
    assert found["Queue"].name == "Q"


def test_a_choice_goes_by_type_and_name() -> None:
    queues = [ViewedObject("Queue", name, {}) for name in ("A.1", "A.2", "B")]
    topic = ViewedObject("Topic", "A.1", {})
    everything = [*queues, topic]
    assert chosen(everything, [], []) == everything
    assert chosen(everything, [("Queue", "A.*")], []) == queues[:2]
    assert chosen(everything, [("Queue", "A.?")], [("Queue", "*2")]) == queues[:1]
    assert chosen(everything, [], [("Queue", "*")]) == [topic]


def test_text_has_a_line_for_each_attribute_and_steers_no_terminal() -> None:
    each = ViewedObject("Queue", "a\x1b[2J", {"QueueSize": 1, "EnqueueCount": 2})
    assert each.text() == "type = Queue\nName = a\\u001b[2J\nQueueSize = 1\nEnqueueCount = 2\n"
    assert each.text(["EnqueueCount"]) == "type = Queue\nName = a\\u001b[2J\nEnqueueCount = 2\n"
