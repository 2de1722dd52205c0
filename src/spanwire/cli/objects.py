"""The broker's objects with the attribute names of ActiveMQ's MBeans.

Answers of the control socket are the source.

Objects are the broker, its connectors, connections, subscriptions and destinations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from spanwire.management.control_client import ControlClient
from spanwire.management.tables.attributes import ViewTable
from spanwire.management.tables.view_table import (
    BROKER,
    CONNECTIONS,
    CONNECTORS,
    CONSUMERS,
    PRODUCERS,
    QUEUES,
    SUBSCRIPTIONS,
    broker_row,
    rows_of,
    with_averages,
)
from spanwire.model.text import escaped

TYPES: Final = (
    "Broker", "Connector", "NetworkConnector", "Connection", "Subscription", "Producer", "DurableSubscription",
    "Queue", "Topic", "TempQueue", "TempTopic",
)  # fmt: skip
DESTINATION_TYPES: Final = {"queue": "Queue", "topic": "Topic", "temp-queue": "TempQueue", "temp-topic": "TempTopic"}


@dataclass(frozen=True, slots=True)
class ViewedObject:
    """An object of the broker: type, name and attributes."""

    type: str
    name: str
    attributes: dict[str, object]

    def text(self, wanted: Sequence[str] = ()) -> str:
        """Return ``Name = value`` lines, restricted to ``wanted`` unless empty.

        Values cannot steer a terminal.
        """
        lines = [f"type = {self.type}", f"Name = {escaped(self.name)}"]
        lines += [
            f"{name} = {escaped(str(value))}" for name, value in self.attributes.items() if not wanted or name in wanted
        ]
        return "\n".join(lines) + "\n"


def all_objects(client: ControlClient, with_consumers: bool = True) -> list[ViewedObject]:
    """Return all objects, the broker first.

    Consumers and producers are optional, because there may be very many.
    """
    status = client.ask("status")
    objects = _broker_objects(status) if isinstance(status, dict) else []
    objects += [
        ViewedObject("Connection", str(row["connection_id"]), _attributes(row, CONNECTIONS))
        for row in _rows(client.ask("connections"))
    ]
    if with_consumers:
        objects += [
            ViewedObject("Subscription", str(row["consumer_id"]), _attributes(row, CONSUMERS))
            for row in _rows(client.ask("consumers"))
        ]
        objects += [
            ViewedObject("Producer", str(row["producer_id"]), _attributes(row, PRODUCERS))
            for row in _rows(client.ask("producers"))
        ]
    objects += [
        ViewedObject("DurableSubscription", f"{row['client_id']}:{row['name']}", _attributes(row, SUBSCRIPTIONS))
        for row in _rows(client.ask("subscriptions"))
    ]
    for row in _rows(client.ask("destinations")):
        scheme, _, name = str(row["destination"]).partition("://")
        kind = DESTINATION_TYPES.get(scheme)
        if kind is not None:
            objects.append(ViewedObject(kind, name, _attributes(with_averages(row), QUEUES)))
    return objects


def _broker_objects(status: dict[str, object]) -> list[ViewedObject]:
    attributes: dict[str, object] = {
        "Uptime": f"{status.get('uptime_s')} s",
    }
    attributes.update(_attributes(broker_row(status), BROKER))
    objects = [ViewedObject("Broker", str(status.get("name")), attributes)]
    for row in rows_of(CONNECTORS, status):
        attributes = _attributes(row, CONNECTORS)
        objects.append(ViewedObject("Connector", str(attributes.pop("Name")), attributes))
    settings = {str(row.get("name")): row for row in _rows(status.get("network_settings"))}
    for row in _rows(status.get("network_connectors")):
        shown = {name.title().replace("_", ""): value for name, value in row.items() if name != "name"}
        shown.update(_settings(settings.get(str(row["name"]), {}), shown))
        objects.append(ViewedObject("NetworkConnector", str(row["name"]), shown))
    linked = {viewed.name for viewed in objects if viewed.type == "NetworkConnector"}
    for name in sorted(settings.keys() - linked):  # connectors without a link
        objects.append(ViewedObject("NetworkConnector", name, _settings(settings[name], {})))
    return objects


def _settings(row: dict[str, object], shown: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of a connector by ActiveMQ's attribute names, without the names in ``shown``."""
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
    """Return the objects that match a pair in ``included`` and no pair in ``excluded``.

    A pair is a type and a name with ``*`` and ``?``. An empty ``included`` matches all objects.
    """
    return [
        viewed
        for viewed in objects
        if (not included or any(_matches(viewed, pair) for pair in included))
        and not any(_matches(viewed, pair) for pair in excluded)
    ]


def _matches(viewed: ViewedObject, pair: tuple[str, str]) -> bool:
    return viewed.type == pair[0] and fnmatchcase(viewed.name, pair[1])


def _attributes(row: dict[str, object], view: ViewTable) -> dict[str, object]:
    return {name: row[key] for name, key in view.beans() if key in row}


def _rows(answer: object) -> list[dict[str, object]]:
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
