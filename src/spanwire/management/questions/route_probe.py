"""``spanwire trace --dry-run``: asks hop by hop for each broker's decision about an unsent message.

The question goes from broker to broker over the links' logins, like questions why. The question is never a message of a
queue, so no message is delivered. Brokers other than Spanwire are not asked: there the answer ends.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.following.probe import Probe
from spanwire.management.questions.questions import NetworkSource, View
from spanwire.management.questions.traces import traced_destination
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.model.message_view import BOOLEAN_VALUE, DOUBLE_VALUE, LONG_VALUE, STRING_VALUE, PropertyValue
from spanwire.model.routing import MAX_PATH
from spanwire.transports.base import Clock

ACTION: Final = "route"
MAX_HOPS: Final = 100  # brokers asked for one dry run; a topic may fan out to all brokers of a network
MAX_PROPERTIES: Final = 100  # properties of the message
MAX_NAME: Final = 300  # characters of a name
Hop = Callable[[str, tuple[str, ...]], Awaitable[View]]


class RouteProbe:
    """Answers dry runs of one broker."""

    def __init__(self, broker: Broker, clock: Clock, network: NetworkSource | None) -> None:
        self._broker: Final = broker
        self._clock: Final = clock
        self._network: Final = network
        self._probe: Final = Probe(broker.assembly, broker.formats)

    async def dry_run(self, arguments: Mapping[str, object]) -> View:
        """Return the hops of a message to ``destination``, sent at the broker ``from`` with ``properties``.

        Raises:
            ConfigurationError: an argument is invalid
        """
        destination = traced_destination(arguments.get("destination"))
        start = arguments.get("from") or self._broker.name
        if not isinstance(start, str) or len(start) > MAX_NAME:
            raise ConfigurationError("from is the name of a broker")
        properties = arguments.get("properties") or {}
        if isinstance(properties, str):
            properties = _object(properties)
        typed(properties)

        async def ask(name: str, path: tuple[str, ...]) -> View:
            question = {
                "target": name, "destination": destination.qualified_name, "properties": properties, "path": list(path),
            }  # fmt: skip
            return await self._hop(name, json.dumps(question))

        hops = await walked(start, ask)
        return {
            "broker": self._broker.name,
            "destination": destination.qualified_name,
            "hops": hops,
            "delivered": any(one["end"] == "delivered" for one in hops),
        }

    async def _hop(self, name: str, text: str) -> View:
        """Ask one broker: directly the own broker, or another broker over the network."""
        rows = await self.own(text) if name == self._broker.name else []
        if not rows and self._network is not None:
            rows = await self._network.ask_everywhere(ACTION, text)
        found = [row for row in rows if row["broker"] == name]
        if found:
            return found[0]
        return silent_hop(name, "it cannot be asked from here: this broker has opened no link that leads to it")

    async def own(self, text: str) -> list[View]:
        """Return the broker's own decisions, an empty list for a question to another broker.

        Args:
            text: the question as JSON, with ``target``, ``destination``, ``properties`` and ``path``, ids of brokers.

        Raises:
            ConfigurationError: the text has another form.
        """
        content = _object(text)
        path, properties = content.get("path"), content.get("properties")
        if content.get("target") != self._broker.name:
            return []
        if not isinstance(path, list) or len(path) > MAX_PATH or not all(isinstance(one, str) for one in path):
            raise ConfigurationError(f"path is a list of at most {MAX_PATH} ids of brokers")
        destination = traced_destination(content.get("destination"))
        try:
            message = self._probe.message(destination, typed(properties), tuple(path))
        except JmsError as error:
            raise ConfigurationError(str(error)) from error
        hop = self._probe.ask(destination, message, self._clock.now())
        links = () if self._network is None else self._network.link_descriptions()
        names = {link.remote_id: link.remote for link in links if link.remote_id and link.remote}
        answers = [{**one.row(), "target": names.get(one.target_id, one.target_id)} for one in hop.answers]
        closed: list[View] = []
        asked = {one.target_id for one in hop.answers}
        for link in links:
            if link.remote_id not in asked or not link.remote_id:
                reason = link.reason or "no consumer is known beyond it, or it does not forward this destination"
                state = "" if link.state == "running" else f"it is {link.state}: "
                closed.append({"location": link.title, "target": link.remote, "text": f"{state}{reason}"})
        return [{
            "kind": "hop", "broker": self._broker.name, "id": self._broker.broker_id, "silence": "",
            "held": hop.held, "forwards": hop.forwards, "answers": answers, "closed": closed, "untold": hop.untold,
        }]  # fmt: skip


async def walked(start: str, ask: Hop) -> list[View]:
    """Return the hops of a message from the broker ``start`` on.

    Each hop has ``way``, the brokers before the hop, and ``end``.

    Args:
        start: the name of the first broker.
        ask: returns the decisions of a named broker about a message with a path through brokers of the given ids.
    """
    hops: list[View] = []
    front: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [(start, (), ())]
    while front and len(hops) < MAX_HOPS:
        name, path, way = front.pop(0)
        hop = await ask(name, path)
        taken = [one for one in _rows(hop.get("answers")) if one.get("taken") is True]
        hops.append({**hop, "way": list(way), "end": _end(hop, taken)})
        for one in taken:
            if one.get("target_id") and len(path) < MAX_PATH:
                front.append((str(one.get("target")), (*path, str(hop.get("id"))), (*way, name)))
    if front:
        hops.append({**silent_hop(front[0][0], f"further brokers are not asked after {MAX_HOPS}"),
                     "way": list(front[0][2]), "end": "unknown"})  # fmt: skip
    return hops


def silent_hop(name: str, reason: str) -> View:
    """Return the hop of a silent broker."""
    return {
        "kind": "hop", "broker": name, "id": "", "silence": reason, "held": "", "forwards": [], "answers": [],
        "closed": [], "untold": 0,
    }  # fmt: skip


def typed(properties: object) -> dict[str, PropertyValue]:
    """Return properties with types. Raises `ConfigurationError`."""
    if not isinstance(properties, dict) or len(properties) > MAX_PROPERTIES:
        raise ConfigurationError(f"properties are an object of at most {MAX_PROPERTIES} names")
    found: dict[str, PropertyValue] = {}
    for name, value in properties.items():
        if isinstance(value, bool):
            found[name] = (BOOLEAN_VALUE, value)
        elif isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
            found[name] = (LONG_VALUE, value)
        elif isinstance(value, float):
            found[name] = (DOUBLE_VALUE, value)
        elif isinstance(value, str):
            found[name] = (STRING_VALUE, value)
        else:
            raise ConfigurationError(f"the property {str(name)[:60]} is a text, a number, true or false")
    return found


def _end(hop: View, taken: Sequence[Mapping[str, object]]) -> str:
    """Return the end of the way at a hop: delivered, held, unknown; "" for a way that goes on."""
    if hop.get("silence"):
        return "unknown"
    if any(not one.get("target_id") for one in taken):
        return "delivered"
    if taken:
        return ""
    return "forwarded" if hop.get("forwards") else "held"


def _rows(rows: object) -> list[dict[str, object]]:
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _object(text: str) -> dict[str, object]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError("this is no JSON") from error
    if not isinstance(content, dict):
        raise ConfigurationError("this is no JSON object")
    return content
