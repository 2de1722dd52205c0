"""A durable subscription: terms that survive the consumer, and a queue of messages.

The queue is a `Queue` with a name that clients cannot use (``subscription://``). Pages on disk, redelivery, expiry and
dead letters therefore work as in any queue. Selection takes place at the send: messages that do not match the selector
never enter the queue.
"""

from __future__ import annotations

import json
from typing import Final

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.message_reference import MessageCondition, MessageReference
from spanwire.broker.policy.fan_out import COPY_STEPS, selector_steps
from spanwire.broker.ports import Principal
from spanwire.broker.queue.queue import Queue
from spanwire.broker.security.access_control import AccessControl
from spanwire.model.destination import SUBSCRIPTION, Destination, parse_destination
from spanwire.model.errors import InvalidClientIdError, JmsError, StoreError
from spanwire.model.message import Message
from spanwire.selector.expression import Selector

UNREADABLE: Final = "a durable subscription in the store cannot be read: stop the broker and run spanwire store check"
MAX_KEY_BYTES: Final = 1000  # client id and name together; the largest key of the store, less the length in front


class SubscriptionTerms:
    """The request of a durable subscriber. ``topic`` may be a wildcard pattern or a composite."""

    __slots__ = ("client_id", "name", "no_local", "selector", "topic")

    def __init__(self, client_id: str, name: str, topic: Destination, selector: str | None, no_local: bool) -> None:
        self.client_id: Final[str] = client_id
        self.name: Final[str] = name
        self.topic: Final[Destination] = topic
        self.selector: Final[str | None] = selector
        self.no_local: Final[bool] = no_local

    @property
    def key(self) -> str:
        """The key of the subscription, unique over all client ids and names.

        The texts may contain any characters.
        """
        return subscription_key(self.client_id, self.name)

    def agrees_with(self, other: SubscriptionTerms) -> bool:
        """Return True if both terms ask for the same messages.

        Otherwise the subscriptions differ (JMS 1.1, "Durable Subscription").
        """
        return self.topic == other.topic and self.selector == other.selector and self.no_local == other.no_local


def subscription_key(client_id: str, name: str) -> str:
    """Return the key of a subscription.

    Raises:
        InvalidClientIdError: the key is too long for the store.
    """
    key = f"{len(client_id)}:{client_id}:{name}"
    if len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        raise InvalidClientIdError(
            f"client id and name of a durable subscription have more than {MAX_KEY_BYTES} bytes together; shorten them"
        )
    return key


class DurableSubscription:
    """The terms, the compiled selector, and the queue of unacknowledged messages.

    ``connection_id`` names the connection of the current or last consumer. ``principal`` is the last subscriber, None
    in a store from before Spanwire kept principals; the next subscriber then takes over. ``is_checked`` says that the
    principal was allowed to read all pending messages on arrival; otherwise each message is checked again for the
    subscriber.
    """

    def __init__(
        self,
        terms: SubscriptionTerms,
        principal: Principal | None,
        selector: Selector | None,
        queue: Queue,
        values: MessageEvaluationContext,
        access: AccessControl,
    ) -> None:
        self.terms: Final[SubscriptionTerms] = terms
        self.queue: Final[Queue] = queue
        self.principal = principal
        self.is_checked = True
        self.topics: Final[dict[BrokerDestination, None]] = {}  # topics that feed the subscription
        self.connection_id = ""
        self.active = False
        self.offline_since = 0.0  # monotonic seconds; valid while not active
        self._selector: Final[Selector | None] = selector
        self._values: Final[MessageEvaluationContext] = values
        self._access: Final[AccessControl] = access
        self.weight: Final[int] = COPY_STEPS + selector_steps(terms.selector)  # steps for each message
        parts = terms.topic.parts()
        self.names: Final[dict[str, None]] = {part.qualified_name: None for part in parts if not part.is_pattern}
        self.patterns: Final[list[Destination]] = [part for part in parts if part.is_pattern]
        self.has_pattern: Final[bool] = len(self.patterns) > 0
        self.number = 0  # place among all durable subscriptions, the oldest first; kept in the store

    def covers(self, topic: Destination) -> bool:
        """Return True if messages to ``topic`` are for this subscription.

        The topic is a part of the subscription by name, or matches a pattern and the principal may read the topic. The
        right to a name is checked when the consumer is added.
        """
        return topic.qualified_name in self.names or (self._matches(topic) and self.may_read(topic))

    def _matches(self, topic: Destination) -> bool:
        for pattern in self.patterns:
            if pattern.matches(topic):
                return True
        return False

    def may_read(self, topic: Destination) -> bool:
        """Return True if the principal may read ``topic``."""
        principal = self.principal
        return principal is None or self._access.may_read(principal, topic)

    def lets_through(self, reference: MessageReference) -> bool:
        """Return True if the principal may read one of the topics through which the message came.

        True also if the message came through another destination and has kept the address of the other destination.
        """
        is_theirs = False
        for topic in reference.message.destination.parts():
            if self.covers(topic):
                return True
            is_theirs = is_theirs or self._matches(topic)
        return not is_theirs

    def is_kept_for(self, principal: Principal) -> bool:
        """Return True if ``principal`` is the user who subscribed last; groups may have changed."""
        return self.principal is not None and self.principal.name == principal.name

    def wants(self, message: Message) -> bool:
        """Return True if ``message`` matches the selector and was not sent by the subscriber's own connection
        (noLocal).
        """
        if self.terms.no_local and message.producer_id.connection_id == self.connection_id:
            return False
        selector = self._selector
        return selector is None or self._values.matches(selector, message, message.redelivery_count)


def subscription_destination(terms: SubscriptionTerms) -> Destination:
    """Return the destination under which the store keeps the messages of a subscription."""
    return Destination(SUBSCRIPTION, terms.key)


def encode_terms(terms: SubscriptionTerms, principal: Principal | None = None, number: int = 0) -> bytes:
    """Encode terms for the store, as JSON; a given principal adds user and groups, a ``number`` above 0 itself."""
    fields: dict[str, object] = {
        "client_id": terms.client_id,
        "name": terms.name,
        "topic": terms.topic.qualified_name,
        "selector": terms.selector,
        "no_local": terms.no_local,
    }
    if principal is not None:
        fields["user"] = principal.name
        fields["groups"] = sorted(principal.groups)
    if number > 0:
        fields["number"] = number
    return json.dumps(fields).encode("ascii")


def decode_terms(value: bytes) -> SubscriptionTerms:
    """Return the terms from the store.

    Raises:
        StoreError: ``value`` does not come from `encode_terms`.
    """
    try:
        record = json.loads(value)
        client_id: str = record["client_id"]
        name: str = record["name"]
        topic: str = record["topic"]
        selector: str | None = record["selector"]
        no_local: bool = record["no_local"]
        return SubscriptionTerms(client_id, name, parse_destination(topic), selector, no_local)
    except (ValueError, KeyError, TypeError, JmsError):
        raise StoreError(UNREADABLE) from None


def decode_principal(value: bytes) -> Principal | None:
    """Return the principal that `encode_terms` added, None if absent.

    Raises:
        StoreError: ``value`` does not come from `encode_terms`.
    """
    try:
        record: dict[str, object] = json.loads(value)
        if "user" not in record:
            return None
        user, groups = record["user"], record["groups"]
        if isinstance(user, str) and isinstance(groups, list):
            return Principal(user, frozenset(groups))
    except (ValueError, KeyError, TypeError):
        pass
    raise StoreError(UNREADABLE)


def decode_number(value: bytes) -> int:
    """Return the number that `encode_terms` added, 0 in a store from before Spanwire kept numbers.

    Raises:
        StoreError: ``value`` does not come from `encode_terms`.
    """
    try:
        record: dict[str, object] = json.loads(value)
        number = record.get("number", 0)
        if isinstance(number, int) and number >= 0:
            return number
    except (ValueError, AttributeError, TypeError):  # the compiled build refuses a list with TypeError
        pass
    raise StoreError(UNREADABLE)


class ReadableMessages(MessageCondition):
    """Selects the messages that the user of a durable subscription may read now."""

    def __init__(self, durable: DurableSubscription) -> None:
        self._durable: Final[DurableSubscription] = durable

    def lets_through(self, reference: MessageReference) -> bool:
        """Return True if the user may read the message's topic."""
        return self._durable.lets_through(reference)
