"""A durable subscription: a description that survives its consumer, and a line of messages like a queue's.

The line is a `Queue` of its own in a place that clients cannot name (``subscription://``); so what a queue can do for a
message that waits (pages on disk, redelivery, expiry, dead letters) holds here as well. Messages are chosen when they
are sent: what the selector does not let through never enters the line.
"""

from __future__ import annotations

import json
from typing import Final

from spanwire.broker.dispatch.evaluation_context import BoundMessageValues
from spanwire.broker.dispatch.fan_out import COPY_STEPS, selector_steps
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageCondition, MessageReference
from spanwire.broker.ports import Principal
from spanwire.broker.queue.queue import Queue
from spanwire.broker.security.access_control import Rights
from spanwire.model.destination import SUBSCRIPTION, Destination, parse_destination
from spanwire.model.errors import InvalidClientIdError, JmsError, StoreError
from spanwire.model.message import Message
from spanwire.selector.expression import Selector

UNREADABLE: Final = "a durable subscription in the store cannot be read: stop the broker and run spanwire store check"
MAX_KEY_BYTES: Final = 1000  # client id and name together: what the store takes as a key, less the length in front


class SubscriptionTerms:
    """What a durable subscriber asked for. ``topic`` may be a wildcard pattern or a composite."""

    __slots__ = ("client_id", "name", "no_local", "selector", "topic")

    def __init__(self, client_id: str, name: str, topic: Destination, selector: str | None, no_local: bool) -> None:
        self.client_id: Final[str] = client_id
        self.name: Final[str] = name
        self.topic: Final[Destination] = topic
        self.selector: Final[str | None] = selector
        self.no_local: Final[bool] = no_local

    @property
    def key(self) -> str:
        """Unique over all client ids and names, whatever they contain."""
        return subscription_key(self.client_id, self.name)

    def agrees_with(self, other: SubscriptionTerms) -> bool:
        """Whether both ask for the same messages. JMS 1.1, "Durable Subscription": else it is another subscription."""
        return self.topic == other.topic and self.selector == other.selector and self.no_local == other.no_local


def subscription_key(client_id: str, name: str) -> str:
    """The key of a subscription; raises `InvalidClientIdError` when no store could hold it."""
    key = f"{len(client_id)}:{client_id}:{name}"
    if len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        raise InvalidClientIdError(
            f"client id and name of a durable subscription have more than {MAX_KEY_BYTES} bytes together; shorten them"
        )
    return key


class DurableSubscription:
    """The terms, the compiled selector, and the line of what was not acknowledged. ``connection_id`` is that of the
    consumer it has, or had last; ``principal`` that of who subscribed last, None in a store written before Spanwire
    kept it: then it is whoever subscribes next. ``is_checked`` says that all in the line came while this principal was
    allowed to read it; else each message is asked for once more when the subscriber is there.
    """

    def __init__(
        self,
        terms: SubscriptionTerms,
        principal: Principal | None,
        selector: Selector | None,
        line: Queue,
        values: BoundMessageValues,
        rights: Rights,
    ) -> None:
        self.terms: Final[SubscriptionTerms] = terms
        self.line: Final[Queue] = line
        self.principal = principal
        self.is_checked = True
        self.topics: Final[dict[BrokerDestination, None]] = {}  # whose messages it gets
        self.connection_id = ""
        self.active = False
        self.offline_since = 0.0  # monotonic seconds, while it is not active
        self._selector: Final[Selector | None] = selector
        self._values: Final[BoundMessageValues] = values
        self._rights: Final[Rights] = rights
        self.weight: Final[int] = COPY_STEPS + selector_steps(terms.selector)  # of the steps of each message
        self._parts: Final[list[Destination]] = terms.topic.parts()
        self.has_pattern: Final[bool] = any(part.is_pattern for part in self._parts)

    def covers(self, topic: Destination) -> bool:
        """Return True if what is sent to ``topic`` is for this subscription: its name is a part of the subscription, or
        falls under a pattern and the principal may read it. The right to a name is checked when its consumer comes.
        """
        for part in self._parts:
            if part.matches(topic) and (not part.is_pattern or self._may_read(topic)):
                return True
        return False

    def _may_read(self, topic: Destination) -> bool:
        principal = self.principal
        return principal is None or self._rights.may_read(principal, topic)

    def lets_through(self, reference: MessageReference) -> bool:
        """Return True if the principal may read one of the topics through which the message came, or it came to them
        through another destination, whose address it has kept.
        """
        is_theirs = False
        for topic in reference.message.destination.parts():
            if self.covers(topic):
                return True
            is_theirs = is_theirs or any(part.matches(topic) for part in self._parts)
        return not is_theirs

    def is_kept_for(self, principal: Principal) -> bool:
        """Return True if ``principal`` is the user who subscribed last; groups may have changed."""
        return self.principal is not None and self.principal.name == principal.name

    def wants(self, message: Message) -> bool:
        """Whether the selector lets ``message`` through and it does not come from the subscriber itself."""
        if self.terms.no_local and message.message_id.producer_id.connection_id == self.connection_id:
            return False
        selector = self._selector
        return selector is None or self._values.matches(selector, message, message.redelivery_count)


def line_of(terms: SubscriptionTerms) -> Destination:
    """Where the store keeps the messages of a subscription."""
    return Destination(SUBSCRIPTION, terms.key)


def encode_terms(terms: SubscriptionTerms, principal: Principal | None = None) -> bytes:
    """As the store keeps them: JSON, with the user and the groups of the principal, if there is one."""
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
    return json.dumps(fields).encode("ascii")


def decode_terms(value: bytes) -> SubscriptionTerms:
    """Raises `StoreError` when ``value`` is not what `encode_terms` gave."""
    try:
        found = json.loads(value)
        client_id: str = found["client_id"]
        name: str = found["name"]
        topic: str = found["topic"]
        selector: str | None = found["selector"]
        no_local: bool = found["no_local"]
        return SubscriptionTerms(client_id, name, parse_destination(topic), selector, no_local)
    except (ValueError, KeyError, TypeError, JmsError):
        raise StoreError(UNREADABLE) from None


def decode_principal(value: bytes) -> Principal | None:
    """Return the principal that `encode_terms` added, None for a value that has none. Raises `StoreError`."""
    try:
        found: dict[str, object] = json.loads(value)
        if "user" not in found:
            return None
        user, groups = found["user"], found["groups"]
        if isinstance(user, str) and isinstance(groups, list):
            return Principal(user, frozenset(groups))
    except (ValueError, KeyError, TypeError):
        pass
    raise StoreError(UNREADABLE)


class ReadableMessages(MessageCondition):
    """Lets through what the user of a durable subscription may read now."""

    def __init__(self, durable: DurableSubscription) -> None:
        self._durable: Final[DurableSubscription] = durable

    def lets_through(self, reference: MessageReference) -> bool:
        """Return True if the user may read the message's topic."""
        return self._durable.lets_through(reference)
