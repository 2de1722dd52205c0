"""Messages of a topic for a single client (ActiveMQ's clientIdFilterDispatchPolicy).

A property of the message names the client id.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.topic_policy import CLIENT_ID_FILTER, DispatchPolicy
from spanwire.broker.ports import Principal
from spanwire.broker.queue.queue import Queue
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.topic.durable_subscription import DurableSubscription, SubscriptionTerms
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message
from spanwire.selector.expression import Selector


class ClientIdFilter:
    """Finds the recipients of a message."""

    def __init__(self, formats: MessageFormats | None) -> None:
        self._formats: Final[MessageFormats | None] = formats

    def recipients(
        self, policy: DispatchPolicy | None, topic: Destination, message: Message, subscriptions: list[Subscription]
    ) -> list[Subscription]:
        """Return the recipients of a message to ``topic`` among ``subscriptions``."""
        addressee = None if policy is None else self._addressee(policy, message)
        if policy is None or addressee is None:
            return subscriptions
        if not topic.name.endswith(policy.name_suffix):
            return []
        return [subscription for subscription in subscriptions if subscription.client_id == addressee]

    def lets(self, policy: DispatchPolicy, topic: Destination, message: Message, client_id: str) -> bool:
        """Return True if the client ``client_id`` gets a message to ``topic``."""
        value = self._addressee(policy, message)
        return value is None or (value == client_id and topic.name.endswith(policy.name_suffix))

    def _addressee(self, policy: DispatchPolicy, message: Message) -> object:
        """Return the value of the property, None if absent or if the properties cannot be decoded."""
        if self._formats is None:
            return None
        try:
            entry = self._formats.properties(message).get(policy.client_id_property)
        except (JmsError, ProtocolError):
            return None
        return None if entry is None else entry[1]


class FilteredDurableSubscription(DurableSubscription):
    """A durable subscription on a broker with topics whose messages may be for a single client."""

    def __init__(
        self,
        terms: SubscriptionTerms,
        principal: Principal | None,
        selector: Selector | None,
        queue: Queue,
        values: MessageEvaluationContext,
        access: AccessControl,
        policies: PolicyMap,
        formats: MessageFormats | None,
    ) -> None:
        super().__init__(terms, principal, selector, queue, values, access)
        self._policies: Final[PolicyMap] = policies
        self._filter: Final[ClientIdFilter] = ClientIdFilter(formats)

    def wants(self, message: Message) -> bool:
        """Return True if the message is for this client and matches the selector."""
        return self._is_for_client(message) and super().wants(message)

    def _is_for_client(self, message: Message) -> bool:
        for topic in message.destination.parts():
            if not self.covers(topic):
                continue
            policy = self._policies.entry_for(topic).topic.dispatch
            if policy is not None and policy.kind == CLIENT_ID_FILTER:
                if not self._filter.lets(policy, topic, message, self.terms.client_id):
                    return False
        return True
