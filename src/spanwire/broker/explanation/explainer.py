"""Answers the question why about a message or an object of one broker.

The caller drives the search and reads the requested messages from the store (`spanwire.management.questions.why`).
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.explanation.departure_reasons import explain_unknown
from spanwire.broker.explanation.explanation import Explanation
from spanwire.broker.explanation.links import LinkDescription
from spanwire.broker.explanation.location_reasons import LocationReasons
from spanwire.broker.explanation.locations import Gone, WantedId
from spanwire.broker.explanation.message_search import MessageSearch
from spanwire.broker.explanation.object_reasons import ObjectReasons
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.ids import MessageId
from spanwire.model.message import Message

MAX_EXPLAINED: Final = 20  # locations explained in one answer; further ones are counted


class Explainer:
    """Explains one broker. ``began_ms`` is the start of the broker in milliseconds since 1970."""

    def __init__(self, broker: Broker, began_ms: int) -> None:
        self._broker: Final[Broker] = broker
        self._values: Final[MessageEvaluationContext] = MessageEvaluationContext(broker.formats)
        self._began_ms: Final[int] = began_ms

    def search(self, message_id: str, queue: Destination | None = None) -> MessageSearch:
        """Return the search for a message; ``queue`` limits the reads from the store."""
        return MessageSearch(self._broker.assembly, WantedId(message_id), queue)

    def message(
        self, message_id: str, search: MessageSearch, links: list[LinkDescription], now: Time
    ) -> list[Explanation]:
        """Return the explanations of all locations found by a search, or of the absence of a location."""
        subject = f"message {message_id}"
        reasons = LocationReasons(self._broker.assembly, self._broker.formats, self._values, links, now)
        found = [location for location in search.locations if not isinstance(location, Gone)]
        found.extend([location for location in search.locations if isinstance(location, Gone)])
        if not found:
            explanation = explain_unknown(
                self._broker.assembly.context.departures, self._began_ms, subject, now, self._is_stored(message_id)
            )
            explanations = [explanation]
        else:
            explanations = [reasons.explain(location, subject) for location in found[:MAX_EXPLAINED]]
        if search.left_unread > 0:
            text = f"{search.left_unread} stored messages were not compared; name the queue to compare them"
            explanations[0].saw(text, "store", now.wall_ms)
        if len(found) > MAX_EXPLAINED:
            explanations[0].saw(
                f"the message is in {len(found)} locations; {MAX_EXPLAINED} are explained", "broker", now.wall_ms
            )
        return explanations

    def _is_stored(self, message_id: str) -> bool:
        wanted = WantedId(message_id)
        producer = wanted.producer
        audit = self._broker.assembly.producer_audit
        return producer is not None and audit.is_stored(MessageId(producer, wanted.sequence))

    def destination(
        self, found: BrokerDestination, oldest: Message | None, sequence: int, links: list[LinkDescription], now: Time
    ) -> Explanation:
        """Return why messages of a queue or topic do not move; ``oldest`` is the oldest pending message."""
        name = found.name.qualified_name
        reasons = self._reasons(links, now)
        if isinstance(found, Queue):
            return reasons.queue(found, oldest, sequence, f"queue {name}")
        assert isinstance(found, Topic)
        return reasons.topic(found, f"topic {name}")

    def subscription(
        self, found: DurableSubscription, oldest: Message | None, sequence: int, links: list[LinkDescription], now: Time
    ) -> Explanation:
        """Return why messages of a durable subscription do not move."""
        subject = f"subscription {found.terms.name} of client {found.terms.client_id}"
        return self._reasons(links, now).subscription(found, oldest, sequence, subject)

    def connection(self, state: ConnectionState, links: list[LinkDescription], now: Time) -> Explanation:
        """Return the obstacles of a connection."""
        return self._reasons(links, now).connection(state, f"connection {state.connection_id}")

    def link(self, link: LinkDescription, now: Time) -> Explanation:
        """Return why messages do not cross a link."""
        return self._reasons([link], now).link(link, link.title)

    def _reasons(self, links: list[LinkDescription], now: Time) -> ObjectReasons:
        return ObjectReasons(self._broker.assembly, self._values, links, now)
