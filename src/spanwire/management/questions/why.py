"""The question ``why``: explains why a message or an object of the broker does not move.

`spanwire.broker.explanation` has the reasons.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.explanation.explainer import Explainer
from spanwire.broker.explanation.explanation import UNKNOWN, Explanation
from spanwire.broker.explanation.links import LinkDescription
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.management.questions.questions import NetworkSource, ReadStored, View
from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.model.message import Message
from spanwire.transports.base import Clock

MESSAGE, QUEUE_KIND, TOPIC, SUBSCRIPTION, CONNECTION, LINK = (
    "message", "queue", "topic", "subscription", "connection", "link",
)  # fmt: skip
KINDS: Final = (MESSAGE, QUEUE_KIND, TOPIC, SUBSCRIPTION, CONNECTION, LINK)
MAX_NAME: Final = 1_000  # characters of a name or id
MAX_NAMED: Final = 10  # objects of one name in a refusal
MAX_WAITING: Final = 4  # searches that wait for another one; each may take ten seconds, and a client waits for sixty


class WhyQuestions:
    """Answers questions about one broker. A question over many messages takes several turns.

    One message is searched for at a time, so that questions leave the disk and the processor to others. Questions of
    other brokers have an object of their own, and do not hold up those of operators.
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        read_stored: ReadStored,
        network: NetworkSource | None,
        began_ms: int,
    ) -> None:
        """Take the sources: ``network`` has the links; ``began_ms`` is the start of the broker."""
        self._broker: Final = broker
        self._clock: Final = clock
        self._read_stored: Final = read_stored
        self._network: Final = network
        self._explainer: Final = Explainer(broker, began_ms)
        self._turn: Final = asyncio.Lock()
        self._searches = 0

    async def why(self, arguments: Mapping[str, object]) -> View:
        """Explain the object ``name`` of a ``kind``; without a kind the first object of the name.

        ``client_id`` names the client of a durable subscription, ``queue`` the only queue with a search of stored
        messages for a message id. With ``network`` the other brokers are asked about the message as well.

        Returns:
            ``broker``, ``kind`` and ``explanations``.

        Raises:
            ConfigurationError: an argument is invalid, there is no such object, or too many searches wait
        """
        name, kind = arguments.get("name"), arguments.get("kind") or ""
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise ConfigurationError(f"name is a text of 1 to {MAX_NAME} characters")
        if kind and kind not in KINDS:
            raise ConfigurationError(f"kind is one of {', '.join(KINDS)}")
        client_id = arguments.get("client_id")
        found = self._found(str(kind), name, client_id if isinstance(client_id, str) else None)
        if found is None and kind not in ("", MESSAGE):
            raise ConfigurationError(f"this broker has no {kind} {name[:80]}")
        if found is None and self._network is not None and arguments.get("network") in (True, "true"):
            rows = await self._network.explain_everywhere(name)
            return {"broker": self._broker.name, "kind": MESSAGE, "explanations": rows}
        if found is None:
            explanations = await self._message(name, arguments.get("queue"))
            if not kind and explanations[0].cause == UNKNOWN:
                explanations[0].sentence = f"this broker has no message, and no {' or '.join(KINDS[1:])}, of this name"
            kind = MESSAGE
        else:
            kind, explanation = await self._object(found)
            explanations = [explanation]
        rows = [explanation.row(self._broker.name) for explanation in explanations]
        return {"broker": self._broker.name, "kind": kind, "explanations": rows}

    def _links(self) -> Sequence[LinkDescription]:
        return () if self._network is None else self._network.link_descriptions()

    def _found(
        self, kind: str, name: str, client_id: str | None
    ) -> BrokerDestination | DurableSubscription | ConnectionState | LinkDescription | None:
        """Return the object of a name; None for a message, or without an object of the name."""
        if kind in ("", QUEUE_KIND, TOPIC):
            destination = self._destination(kind, name)
            if destination is not None:
                return destination
        if kind in ("", SUBSCRIPTION):
            durable = self._durable(name, client_id)
            if durable is not None:
                return durable
        if kind in ("", CONNECTION):
            state = self._connection(name)
            if state is not None:
                return state
        if kind in ("", LINK):
            return self._link(name)
        return None

    def _destination(self, kind: str, name: str) -> BrokerDestination | None:
        kinds = (kind,) if kind else ("queue", "topic")
        for one in kinds:
            text = name if "://" in name else f"{one}://{name}"
            try:
                parsed = parse_destination(text, QUEUE)
            except JmsError as error:
                raise ConfigurationError(str(error)) from error
            if parsed.is_pattern or parsed.is_composite or parsed.is_queue != (one == "queue"):
                continue
            found = self._broker.find_destination(parsed)
            if found is not None and not found.removed:
                return found
        return None

    def _durable(self, name: str, client_id: str | None) -> DurableSubscription | None:
        named = [one for one in self._broker.overview.durables() if one.terms.name == name]
        if client_id is not None:
            named = [one for one in named if one.terms.client_id == client_id]
        if len(named) > 1:
            clients = ", ".join(one.terms.client_id[:60] for one in named[:MAX_NAMED])
            raise ConfigurationError(f"{len(named)} clients have a subscription {name[:80]}: name one of {clients}")
        return named[0] if named else None

    def _connection(self, name: str) -> ConnectionState | None:
        states = self._broker.overview.connections()
        return next((one for one in states if name in (one.connection_id, one.info.client_id)), None)

    def _link(self, name: str) -> LinkDescription | None:
        links = self._links()
        named = [one for one in links if name in (one.name, f"{one.name} {one.uri}")] or [
            one for one in links if name in (one.remote, one.uri)
        ]
        titles = list(dict.fromkeys(f"'{one.name} {one.uri}'" for one in named))
        if len(titles) > 1:
            raise ConfigurationError(
                f"{len(titles)} links are named {name[:80]}: name one of {', '.join(titles[:MAX_NAMED])}"
            )
        return named[0] if named else None

    async def _object(
        self, found: BrokerDestination | DurableSubscription | ConnectionState | LinkDescription
    ) -> tuple[str, Explanation]:
        links, explainer = list(self._links()), self._explainer
        if isinstance(found, LinkDescription):
            return LINK, explainer.link(found, self._clock.now())
        if isinstance(found, ConnectionState):
            return CONNECTION, explainer.connection(found, links, self._clock.now())
        queue = found.queue if isinstance(found, DurableSubscription) else found
        sequence, oldest = (0, None) if not isinstance(queue, Queue) else await self._oldest(queue)
        now = self._clock.now()
        if isinstance(found, DurableSubscription):
            return SUBSCRIPTION, explainer.subscription(found, oldest, sequence, links, now)
        kind = QUEUE_KIND if isinstance(found, Queue) else TOPIC
        return kind, explainer.destination(found, oldest, sequence, links, now)

    async def _oldest(self, queue: Queue) -> tuple[int, Message | None]:
        """Return sequence and message of the oldest pending message, from the store if needed."""
        for sequence, message in queue.oldest(1):
            found = message if message is not None else (await self._read_stored(queue.name, [sequence]))[0]
            return sequence, found
        return 0, None

    async def _message(self, name: str, queue: object) -> list[Explanation]:
        only = parse_destination(queue, QUEUE) if isinstance(queue, str) and queue else None
        if self._searches > MAX_WAITING:
            raise ConfigurationError(f"another search runs, and {MAX_WAITING} wait: try again")
        self._searches += 1
        try:
            async with self._turn:
                return await self._search(name, only)
        finally:
            self._searches -= 1

    async def _search(self, name: str, only: Destination | None) -> list[Explanation]:
        search = self._explainer.search(name, only)
        while search.step():
            await asyncio.sleep(0)
        while (read := search.next_read()) is not None:
            search.take(read, await self._read_stored(read.destination, read.sequences))
            await asyncio.sleep(0)
        return self._explainer.message(name, search, list(self._links()), self._clock.now())
