"""Messages of a topic for one client alone (ActiveMQ's clientIdFilterDispatchPolicy): a property of the message names
its client id.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.evaluation_context import BoundMessageValues
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import PolicyMap
from spanwire.broker.policy.topic_policy import CLIENT_ID_FILTER, DispatchPolicy
from spanwire.broker.ports import Principal
from spanwire.broker.queue.queue import Queue
from spanwire.broker.security.access_control import Rights
from spanwire.broker.topic.durable_subscription import DurableSubscription, SubscriptionTerms
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message
from spanwire.selector.expression import Selector


class ClientIdFilter:
    """Finds out for whom a message is."""

    def __init__(self, formats: MessageFormats | None) -> None:
        self._formats: Final[MessageFormats | None] = formats

    def recipients(
        self, policy: DispatchPolicy | None, topic: Destination, message: Message, subscriptions: list[Subscription]
    ) -> list[Subscription]:
        """Those of ``subscriptions`` that get a message to ``topic``."""
        addressee = None if policy is None else self._addressee(policy, message)
        if policy is None or addressee is None:
            return subscriptions
        if not topic.name.endswith(policy.name_suffix):
            return []
        return [subscription for subscription in subscriptions if subscription.client_id == addressee]

    def lets(self, policy: DispatchPolicy, topic: Destination, message: Message, client_id: str) -> bool:
        """Whether the client of this id gets a message to ``topic``."""
        value = self._addressee(policy, message)
        return value is None or (value == client_id and topic.name.endswith(policy.name_suffix))

    def _addressee(self, policy: DispatchPolicy, message: Message) -> object:
        """What the message has in the property; None also where its properties cannot be decoded."""
        if self._formats is None:
            return None
        try:
            entry = self._formats.properties(message).get(policy.client_id_property)
        except (JmsError, ProtocolError):
            return None
        return None if entry is None else entry[1]


class FilteredDurableSubscription(DurableSubscription):
    """A durable subscription on a broker with topics whose messages may be for one client alone."""

    def __init__(
        self,
        terms: SubscriptionTerms,
        principal: Principal | None,
        selector: Selector | None,
        line: Queue,
        values: BoundMessageValues,
        rights: Rights,
        policies: PolicyMap,
        formats: MessageFormats | None,
    ) -> None:
        super().__init__(terms, principal, selector, line, values, rights)
        self._policies: Final[PolicyMap] = policies
        self._filter: Final[ClientIdFilter] = ClientIdFilter(formats)

    def wants(self, message: Message) -> bool:
        """Whether the message is for this client, and the selector lets it through."""
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
