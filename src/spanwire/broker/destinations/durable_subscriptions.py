"""Durable subscriptions: created by the first consumer, kept after the last, deleted on request.

The rules come from JMS 1.1, "Durable Subscription", and from ActiveMQ. `spanwire.broker.topic.durable_subscription` has
the messages and the selector of a subscription.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.advisories.advisory_topics import Advisories
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.destinations.destination_factory import new_durable_queue
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.pattern_index import check_compared
from spanwire.broker.destinations.remote_subscribers import RemoteSubscribers
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.metadata import REMOTE_SUBSCRIBERS, SUBSCRIPTIONS
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.policy.fan_out import COPY_STEPS, selector_steps
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.ports import ADMIN, READ, Principal
from spanwire.broker.queue.queue import Queue
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.security.audit_log import printable
from spanwire.broker.topic.client_id_filter import FilteredDurableSubscription
from spanwire.broker.topic.durable_recovery import DurableRecovery
from spanwire.broker.topic.durable_subscription import (
    DurableSubscription,
    ReadableMessages,
    SubscriptionTerms,
    decode_number,
    decode_principal,
    decode_terms,
    encode_terms,
    subscription_destination,
    subscription_key,
)
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import Destination
from spanwire.model.errors import InvalidDestinationError, JmsError, ResourceAllocationError
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message
from spanwire.selector.expression import Selector
from spanwire.selector.parser import parse_selector

MAX_DURABLE_SUBSCRIPTIONS: Final = 10_000  # of one broker; each copies messages while the subscriber is away
MAX_DURABLE_PATTERNS: Final = 20_000  # wildcards of all of them; comparing a new topic takes 0.3 microseconds for each
MAX_SERVED: Final = 1_000_000  # topics of all durable subscriptions together, some 120 bytes each

logger = logging.getLogger(__name__)


class DurableSubscriptions:
    """All durable subscriptions of one broker. Callers check the right to read of new consumers."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        policies: PolicyMap,
        usage: MemoryUsage,
        access: AccessControl,
        values: MessageEvaluationContext,
        advisories: Advisories | None,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._policies: Final[PolicyMap] = policies
        self._usage: Final[MemoryUsage] = usage
        self._access: Final[AccessControl] = access
        self._values: Final[MessageEvaluationContext] = values
        self._advisories: Final[Advisories | None] = advisories
        self.remote_subscribers: Final[RemoteSubscribers] = RemoteSubscribers(context)

    def queues(self) -> list[Queue]:
        """Return the queues of all subscriptions."""
        return [durable.queue for durable in self._map.durables.values()]

    def claim(self, state: ConnectionState, info: ConsumerInfo, selector: Selector | None) -> DurableSubscription:
        """Return the durable subscription for a new consumer, found or made.

        A subscription with another selector or topic is deleted and made again.

        Raises:
            JmsError: the subscription is in use, there is no client id, or the user lacks a right.
        """
        terms = self._terms(state, info)
        durable = self._map.durables.get(terms.key)
        if durable is not None and durable.active:
            raise JmsError(
                f"Durable consumer is in use for client: {terms.client_id} and subscriptionName: {terms.name}"
            )
        if durable is not None and durable.terms.agrees_with(terms):
            self._hand_over(state, durable)
            return durable
        for part in terms.topic.parts():
            self._access.check_create(state, part)
        served = self._map.served - (0 if durable is None else len(durable.topics))
        if served >= MAX_SERVED and any(part.is_pattern for part in terms.topic.parts()):
            raise ResourceAllocationError(
                f"durable subscriptions get messages of {served} topics together, as many as they may: "
                f"use narrower wildcards or fewer subscriptions"
            )
        self._check_patterns(terms.topic, durable)
        self._map.fan_out.check(terms.topic.parts(), COPY_STEPS + selector_steps(terms.selector), durable)
        if durable is not None:
            self._check_right(state, durable, ADMIN, "remove")
            _check_cursors(durable)
            self._delete(durable, state.connection_id)
        elif len(self._map.durables) >= MAX_DURABLE_SUBSCRIPTIONS:
            raise ResourceAllocationError(
                f"the broker is at its maximum of {MAX_DURABLE_SUBSCRIPTIONS} durable subscriptions: "
                f"unsubscribe those that nobody needs"
            )
        made = self._make(terms, state.principal, selector)
        if info.network_subscription:
            self.remote_subscribers.begin(terms.key)
        return made

    def _check_patterns(self, topic: Destination, replaced: DurableSubscription | None) -> None:
        """Check the cost of the wildcards of ``topic``: comparisons now, and later with each new topic.

        Raises:
            ResourceAllocationError: there are too many topics or wildcards.
        """
        patterns = len([part for part in topic.parts() if part.is_pattern])
        check_compared(patterns, patterns * len(self._map.topics))
        others = self._map.fan_out.patterns - (0 if replaced is None else len(replaced.patterns))
        if patterns > 1 and others + patterns > MAX_DURABLE_PATTERNS:
            raise ResourceAllocationError(
                f"the broker is at its maximum of {MAX_DURABLE_PATTERNS} wildcards of durable subscriptions: use one "
                f"wildcard in each subscription, or unsubscribe those that nobody needs"
            )

    def _hand_over(self, state: ConnectionState, durable: DurableSubscription) -> None:
        """Make the principal of a connection the new owner of ``durable``.

        Raises:
            AuthorizationError: another user may not read all topics of the subscription.
        """
        before, principal = durable.principal, state.principal
        if before is not None:
            if before.name == principal.name and before.groups == principal.groups:
                return
            check_compared(len(durable.patterns), len(durable.patterns) * len(self._map.topics))
            self._check_right(state, durable, READ, "read from")
        durable.principal = principal
        durable.is_checked = False
        self._context.metadata.put_metadata(
            SUBSCRIPTIONS, _key(durable.terms), encode_terms(durable.terms, principal, durable.number)
        )
        if durable.has_pattern:
            self._map.serve(durable)

    def _check_right(self, state: ConnectionState, durable: DurableSubscription, action: str, verb: str) -> None:
        """Check that the connection's user may use ``durable``.

        The subscription is kept for the user, or the user has the right on all its topics.

        Raises:
            AuthorizationError: the user has no such right; the audit log notes the refusal.
        """
        if durable.is_kept_for(state.principal):
            return
        terms = durable.terms
        for part in terms.topic.parts():
            if not self._access.may_all(state.principal, action, part):
                name, client_id = printable(terms.name), printable(terms.client_id)
                self._access.refuse(state, f"{verb}: durable subscription {name} of client {client_id}")

    def _terms(self, state: ConnectionState, info: ConsumerInfo) -> SubscriptionTerms:
        client_id = state.info.client_id
        name = info.subscription_name
        if not client_id or name is None:
            raise JmsError(
                "You cannot create a durable subscriber without specifying a unique clientID on a Connection"
            )
        for part in info.destination.parts():
            if part.is_temporary:
                raise JmsError("A durable subscription cannot be created for a temporary topic.")
            if part.is_queue:
                raise InvalidDestinationError(f"a durable subscription needs topics; {part} is none")
            if part.is_advisory:
                raise JmsError("Cannot create a durable subscription for an advisory Topic")
        selector = info.selector.strip() if info.selector is not None else ""
        return SubscriptionTerms(client_id, name, info.destination, selector or None, info.no_local)

    def _make(self, terms: SubscriptionTerms, principal: Principal, selector: Selector | None) -> DurableSubscription:
        store = self._context.store
        destination = subscription_destination(terms)
        number = self._context.newest_durable + 1
        self._context.metadata.put_metadata(SUBSCRIPTIONS, _key(terms), encode_terms(terms, principal, number))
        if store is not None:
            store.add_destination(destination)
        return self._enter(terms, principal, selector, destination, number)

    def _enter(
        self,
        terms: SubscriptionTerms,
        principal: Principal | None,
        selector: Selector | None,
        destination: Destination,
        number: int,
    ) -> DurableSubscription:
        policy = self._policies.entry_for(terms.topic.parts()[0])
        queue = new_durable_queue(destination, policy, self._usage, self._context, terms.topic.parts()[0])
        queue.slow_consumers = self._map.slow_consumers(policy)
        durable = self._made(terms, principal, selector, queue)
        durable.number = number
        durable.offline_since = self._context.monotonic
        self._map.durables[terms.key] = durable
        self._map.fan_out.enter(durable)
        self._map.serve(durable)
        return durable

    def _made(
        self, terms: SubscriptionTerms, principal: Principal | None, selector: Selector | None, queue: Queue
    ) -> DurableSubscription:
        values, access = self._values, self._access
        if not self._policies.filters_by_client_id():
            return DurableSubscription(terms, principal, selector, queue, values, access)
        formats = self._context.formats
        return FilteredDurableSubscription(terms, principal, selector, queue, values, access, self._policies, formats)

    def attach(self, durable: DurableSubscription, subscription: Subscription) -> None:
        """Attach the consumer; dispatch begins when the consumer is started.

        Pending messages that the user may not read stay in the queue.
        """
        queue = durable.queue
        if queue.waiting() + queue.withheld + queue.in_flight == 0 and not queue.is_held:
            durable.is_checked = True
        elif durable.has_pattern and not durable.is_checked:
            subscription.read_only(ReadableMessages(durable))
        durable.connection_id = subscription.info.consumer_id.connection_id
        durable.active = True
        queue.attach(subscription)
        if subscription.info.retroactive and queue.waiting() == 0 and not queue.is_held:
            self._recover_kept(durable)

    def _recover_kept(self, durable: DurableSubscription) -> None:
        """Give a retroactive subscriber without pending messages all retained messages of the topics.

        Memory is the limit. The first slice is done now. The result includes messages delivered before. The store does
        not keep these copies.
        """
        messages: list[Message] = []
        for topic in durable.topics:
            assert isinstance(topic, Topic)
            messages.extend(topic.kept_messages())
        if messages:
            DurableRecovery(durable, messages, self._context).start()

    def release(self, subscription: Subscription) -> None:
        """Note that the consumer was removed; unacknowledged messages return to the queue separately."""
        durable = self._map.durables.get(
            subscription_key(subscription.client_id, subscription.info.subscription_name or "")
        )
        if durable is not None and durable.queue in subscription.destinations:
            durable.active = False
            durable.offline_since = self._context.monotonic

    def unsubscribe(self, state: ConnectionState, name: str) -> None:
        """Delete a client's subscription with all pending messages.

        Raises:
            InvalidDestinationError: there is no such subscription.
            AuthorizationError: the subscription belongs to another user, and the client's user lacks the right
                ``admin``.
            JmsError: the subscription has a consumer.
        """
        client_id = state.info.client_id or ""
        durable = self._map.durables.get(subscription_key(client_id, name))
        if durable is not None:
            self._check_right(state, durable, ADMIN, "remove")
        self.remove(client_id, name, state.connection_id)

    def pending(self, client_id: str, name: str) -> int:
        """Return the number of unacknowledged messages of a subscription, 0 if no such subscription exists."""
        durable = self._map.durables.get(subscription_key(client_id, name))
        return 0 if durable is None else durable.queue.waiting() + durable.queue.in_flight

    def remove(self, client_id: str, name: str, connection_id: str = "") -> None:
        """Delete a subscription of any client; ``connection_id`` names the requesting connection.

        Raises:
            InvalidDestinationError: there is no such subscription.
            JmsError: the subscription has a consumer or a cursor.
        """
        durable = self._map.durables.get(subscription_key(client_id, name))
        if durable is None:
            raise InvalidDestinationError(
                f"No durable subscription exists for clientID: {client_id} and subscriptionName: {name}"
            )
        if durable.active:
            raise JmsError("Durable consumer is in use")
        _check_cursors(durable)
        self._delete(durable, connection_id)

    def remove_offline(self, timeout_ms: int, at_most: int) -> bool:
        """Delete at most ``at_most`` subscriptions without a subscriber for ``timeout_ms``.

        The time counts from the broker's start at the earliest.

        Returns:
            True if there are more.
        """
        since = self._context.monotonic - timeout_ms / 1000
        gone = [
            durable
            for durable in self._map.durables.values()
            if not durable.active
            and durable.offline_since <= since
            and durable.queue.in_flight == 0
            and durable.queue.cursors == 0
        ]
        for durable in gone[:at_most]:
            logger.info(
                "durable subscription %s of client %s: no subscriber for %d ms: deleted",
                printable(durable.terms.name),
                printable(durable.terms.client_id),
                timeout_ms,
            )
            self._delete(durable, "")
        return len(gone) > at_most

    def _delete(self, durable: DurableSubscription, connection_id: str) -> None:
        store = self._context.store
        durable.queue.removed = True
        durable.queue.drop()
        key = durable.terms.key
        del self._map.durables[key]
        self._map.fan_out.leave(durable)
        self.remote_subscribers.forget(key)
        self._context.metadata.discard_metadata(SUBSCRIPTIONS, _key(durable.terms))
        if store is not None:
            store.remove_destination(durable.queue.name)
        self._map.serve_no_more(durable)
        if self._advisories is not None:
            self._advisories.subscription_removed(durable.terms, connection_id)

    def recover(
        self, metadata: dict[int, dict[bytes, bytes]], subscriptions: list[RecoveredDestination], clean: bool
    ) -> None:
        """Restore subscriptions from the store.

        A crash amid unsubscribing leaves a queue without a description; remove the queue.
        """
        values = list(metadata.get(SUBSCRIPTIONS, {}).values())
        for number, value in zip(_numbers(values), values, strict=True):
            terms = decode_terms(value)
            selector = None if terms.selector is None else parse_selector(terms.selector)
            self._enter(terms, decode_principal(value), selector, subscription_destination(terms), number)
        self.remote_subscribers.recover(metadata.get(REMOTE_SUBSCRIBERS, {}), set(self._map.durables))
        for entry in subscriptions:
            durable = self._map.durables.get(entry.destination.name)
            if durable is not None:
                durable.queue.recover(entry, clean)
                durable.is_checked = False  # rights may have changed meanwhile
            elif self._context.store is not None:
                self._context.store.remove_destination(entry.destination)


def _key(terms: SubscriptionTerms) -> bytes:
    """Return the key of a subscription in the store."""
    return terms.key.encode("utf-8", "surrogatepass")


def _numbers(values: list[bytes]) -> list[int]:
    """Return the number of each stored subscription; those without get the lowest free numbers."""
    numbers = [decode_number(value) for value in values]
    used = set(numbers)
    lowest = 0
    for index, number in enumerate(numbers):
        if number == 0:
            lowest += 1
            while lowest in used:
                lowest += 1
            numbers[index] = lowest
    return numbers


def _check_cursors(durable: DurableSubscription) -> None:
    if durable.queue.cursors > 0:
        raise JmsError(
            f"Durable subscription {printable(durable.terms.name)} of client {printable(durable.terms.client_id)} "
            f"still has a cursor: release it first"
        )
