"""The broker, its connectors, connections and destinations as objects with attributes, in the names of ActiveMQ's
beans, made of the control socket's answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from spanwire.management.control import ControlClient
from spanwire.model.text import escaped

TYPES: Final = (
    "Broker", "Connector", "NetworkConnector", "Connection", "Subscription", "DurableSubscription", "Queue", "Topic",
    "TempQueue", "TempTopic",
)  # fmt: skip
DESTINATION_TYPES: Final = {"queue": "Queue", "topic": "Topic", "temp-queue": "TempQueue", "temp-topic": "TempTopic"}
DESTINATION_ATTRIBUTES: Final = (
    ("QueueSize", "pending"),
    ("EnqueueCount", "enqueued"),
    ("DequeueCount", "dequeued"),
    ("DispatchCount", "dispatched"),
    ("InFlightCount", "in_flight"),
    ("ExpiredCount", "expired"),
    ("ConsumerCount", "consumers"),
    ("ProducerCount", "producers"),
    ("MemoryUsageByteCount", "memory_bytes"),
    ("MemoryLimit", "memory_limit_bytes"),
    ("Paused", "paused"),
    ("DurableSubscriptions", "durable_subscriptions"),
)
SUBSCRIPTION_ATTRIBUTES: Final = (
    ("ClientId", "client_id"),
    ("UserName", "user_name"),
    ("RemoteAddress", "remote_address"),
    ("DestinationName", "destination"),
    ("Selector", "selector"),
    ("SubscriptionName", "durable"),
    ("PrefetchSize", "prefetch_size"),
    ("DispatchedQueueSize", "in_flight"),
    ("DispatchedCounter", "dispatched"),
    ("DequeueCounter", "dequeued"),
    ("Browser", "browser"),
)
DURABLE_ATTRIBUTES: Final = (
    ("ClientId", "client_id"),
    ("SubscriptionName", "name"),
    ("DestinationName", "topic"),
    ("Selector", "selector"),
    ("NoLocal", "no_local"),
    ("Active", "active"),
    ("AwaySeconds", "away_s"),
    ("PendingQueueSize", "pending"),
    ("DispatchedQueueSize", "in_flight"),
    ("EnqueueCounter", "enqueued"),
    ("DequeueCounter", "dequeued"),
    ("DispatchedCounter", "dispatched"),
)
CONNECTION_ATTRIBUTES: Final = (
    ("ClientId", "client_id"),
    ("UserName", "user_name"),
    ("RemoteAddress", "remote_address"),
    ("Protocol", "protocol"),
    ("Consumers", "consumers"),
    ("Producers", "producers"),
    ("Slow", "slow"),
)
BROKER_ATTRIBUTES: Final = (
    ("CurrentConnectionsCount", "connections"),
    ("TotalEnqueueCount", "enqueued"),
    ("TotalDequeueCount", "dequeued"),
    ("TotalMessageCount", "pending"),
    ("DurableTopicSubscriptions", "durable_subscriptions"),
    ("InactiveDurableTopicSubscriptions", "durable_subscriptions_away"),
    ("DurablePendingCount", "durable_pending"),
    ("PreparedTransactionCount", "prepared_transactions"),
    ("ParkedSendCount", "parked_sends"),
    ("MemoryUsageByteCount", "memory_bytes"),
    ("MemoryLimit", "memory_limit_bytes"),
    ("StoreUsageByteCount", "store_bytes"),
    ("StoreLimit", "store_limit_bytes"),
    ("TempLimit", "temporary_limit_bytes"),
)
USAGE_ATTRIBUTES: Final = (
    ("MemoryPercentUsage", "memory_percent"),
    ("StorePercentUsage", "store_percent"),
    ("TempPercentUsage", "temporary_percent"),
    ("DiskFreeByteCount", "disk_free_bytes"),
    ("DiskFull", "disk_full"),
)


@dataclass(frozen=True, slots=True)
class ViewedObject:
    """One thing of the broker: its type, its name, and the attributes it has."""

    type: str
    name: str
    attributes: dict[str, object]

    def text(self, wanted: Sequence[str] = ()) -> str:
        """``Name = value`` lines, with ``wanted`` those of these attributes only; no value can steer a terminal."""
        lines = [f"type = {self.type}", f"Name = {escaped(self.name)}"]
        lines += [
            f"{name} = {escaped(str(value))}" for name, value in self.attributes.items() if not wanted or name in wanted
        ]
        return "\n".join(lines) + "\n"


def all_objects(client: ControlClient, with_consumers: bool = True) -> list[ViewedObject]:
    """Everything, the broker first; consumers, of which there may be many more than of all else, where asked for."""
    status = client.ask("status")
    objects = _broker_objects(status) if isinstance(status, dict) else []
    objects += [
        ViewedObject("Connection", str(row["connection_id"]), _attributes(row, CONNECTION_ATTRIBUTES))
        for row in _rows(client.ask("connections"))
    ]
    if with_consumers:
        objects += [
            ViewedObject("Subscription", str(row["consumer_id"]), _attributes(row, SUBSCRIPTION_ATTRIBUTES))
            for row in _rows(client.ask("consumers"))
        ]
    objects += [
        ViewedObject("DurableSubscription", f"{row['client_id']}:{row['name']}", _attributes(row, DURABLE_ATTRIBUTES))
        for row in _rows(client.ask("subscriptions"))
    ]
    for row in _rows(client.ask("destinations")):
        scheme, _, name = str(row["destination"]).partition("://")
        kind = DESTINATION_TYPES.get(scheme)
        if kind is not None:
            objects.append(ViewedObject(kind, name, _attributes(row, DESTINATION_ATTRIBUTES)))
    return objects


def _broker_objects(status: dict[str, object]) -> list[ViewedObject]:
    attributes: dict[str, object] = {
        "BrokerId": status.get("id"),
        "BrokerVersion": status.get("version"),
        "Uptime": f"{status.get('uptime_s')} s",
        "DataDirectory": status.get("data_directory"),
        "Persistent": status.get("persistent"),
    }
    statistics = status.get("statistics")
    if isinstance(statistics, dict):
        attributes.update(_attributes(statistics, BROKER_ATTRIBUTES))
    usage = status.get("usage")
    if isinstance(usage, dict):
        attributes.update(_attributes(usage, USAGE_ATTRIBUTES))
    objects = [ViewedObject("Broker", str(status.get("name")), attributes)]
    for row in _rows(status.get("connectors")):
        objects.append(
            ViewedObject("Connector", str(row["name"]), {"Uri": row["uri"], "ConnectionCount": row["connections"]})
        )
    settings = {str(row.get("name")): row for row in _rows(status.get("network_settings"))}
    for row in _rows(status.get("network_connectors")):
        shown = {name.title().replace("_", ""): value for name, value in row.items() if name != "name"}
        shown.update(_settings(settings.get(str(row["name"]), {}), shown))
        objects.append(ViewedObject("NetworkConnector", str(row["name"]), shown))
    linked = {viewed.name for viewed in objects if viewed.type == "NetworkConnector"}
    for name in sorted(settings.keys() - linked):  # connectors that have found nobody
        objects.append(ViewedObject("NetworkConnector", name, _settings(settings[name], {})))
    return objects


def _settings(row: dict[str, object], shown: Mapping[str, object]) -> dict[str, object]:
    """The settings of a connector by ActiveMQ's names of its attributes; what a link tells of itself goes before."""
    attributes: dict[str, object] = {}
    for name, value in row.items():
        attribute = name[:1].upper() + name[1:]
        if name != "name" and attribute not in shown:
            attributes[attribute] = ", ".join(str(element) for element in value) if isinstance(value, list) else value
    return attributes


def chosen(
    objects: Sequence[ViewedObject],
    included: Sequence[tuple[str, str]],
    excluded: Sequence[tuple[str, str]],
) -> list[ViewedObject]:
    """Those that match one of ``included`` and none of ``excluded``, pairs of a type and a name with ``*`` and ``?``;
    without any included, all.
    """
    return [
        viewed
        for viewed in objects
        if (not included or any(_matches(viewed, pair) for pair in included))
        and not any(_matches(viewed, pair) for pair in excluded)
    ]


def _matches(viewed: ViewedObject, pair: tuple[str, str]) -> bool:
    return viewed.type == pair[0] and fnmatchcase(viewed.name, pair[1])


def _attributes(row: dict[str, object], names: Sequence[tuple[str, str]]) -> dict[str, object]:
    return {name: row[key] for name, key in names if key in row}


def _rows(answer: object) -> list[dict[str, object]]:
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
