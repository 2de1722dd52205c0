"""The broker's side of one consumer: selector and other conditions, prefetch window, dispatch."""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.in_flight import InFlight
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageCondition, MessageHolder, MessageReference
from spanwire.broker.policy.fan_out import selector_steps
from spanwire.broker.ports import ClientConnection, MessageConsumer, Principal
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.info import ConsumerInfo
from spanwire.model.ledger import ACKNOWLEDGED
from spanwire.model.message import Message
from spanwire.model.routing import NetworkFilter
from spanwire.selector.expression import Selector

MAX_PREFETCH: Final = 32_766  # messages; the largest window of a consumer, ActiveMQ's default for topics

_NOTHING_PENDING: Final[deque[MessageReference]] = deque()  # shared by all consumers of a single queue


def _pending_of(destination: Destination) -> deque[MessageReference]:
    """Return the list of pending messages for a new subscription.

    Messages of a queue wait in the queue instead.
    """
    if destination.is_queue and not destination.is_composite:
        return _NOTHING_PENDING
    return deque()


class DepartedConsumer(MessageConsumer):
    """The consumer of every removed subscription; nothing reaches a client."""

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Do nothing."""

    def dispatch_end(self) -> None:
        """Do nothing."""

    def close(self, reason: JmsError) -> None:
        """Do nothing."""

    def switch_to_pull(self) -> bool:
        """Return False."""
        return False


class DepartedConnection(ClientConnection):
    """The connection of every removed subscription."""

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """Do nothing."""

    def close_with(self, error: SpanwireError) -> None:
        """Do nothing."""


_DEPARTED: Final = DepartedConsumer()
_NO_OUTPUT: Final = ConnectionOutput(DepartedConnection(), [], MemoryUsage(0))


class Attachment:
    """The place of a subscription among others at one destination; a base for the records of destinations."""

    __slots__ = ()


class Subscription:
    """The broker's side of one consumer.

    At most as many messages are in flight as ``prefetch_size`` and the extension of `InFlight` together. ``pending``
    holds messages of topics that the subscriber cannot take yet. `Queue`, `Topic` and `Browse` decide about dispatch.
    """

    def __init__(
        self,
        info: ConsumerInfo,
        consumer: MessageConsumer,
        output: ConnectionOutput,
        principal: Principal,
        selector: Selector | None,
        values: MessageEvaluationContext,
        automatic: bool,
    ) -> None:
        self.info: Final[ConsumerInfo] = info
        self.consumer: MessageConsumer = consumer  # behind a tap while messages are followed
        self.output: ConnectionOutput = output
        self.principal: Final[Principal] = principal
        self.selector: Final[Selector | None] = selector
        self.automatic: Final[bool] = automatic
        self.network_filter: Final[NetworkFilter | None] = info.network_filter
        self.bridge_condition: MessageCondition | None = None
        self.no_local_connection: Final[str | None] = info.consumer_id.connection_id if info.no_local else None
        self.readable: MessageCondition | None = None  # read rights of a durable subscription's user
        self.is_filtered = info.no_local or info.network_filter is not None  # by more than the selector
        self.values: Final[MessageEvaluationContext] = values
        self.pulls: bool = info.prefetch_size == 0
        self.prefetch_size = min(max(info.prefetch_size, 0), MAX_PREFETCH)
        self.in_flight: Final[InFlight] = InFlight(info.consumer_id)
        self.client_id = ""  # of the connection
        self.way = ACKNOWLEDGED  # out of the ledger, of what it acknowledges
        self.pulled = 0
        self.pull_deadline = 0.0
        self.started = False
        self.removed = False
        self.refilling = False  # a job searches the destinations for pending messages
        self.joins = 0  # jobs that still attach destinations, or bring retained messages of topics
        self.leaving = False  # the connection has ended; no further dispatch
        self.is_detached = False  # removed, and all messages given back
        self.discarding = False  # pending messages are being discarded
        self.destinations: Final[dict[MessageHolder, Attachment | None]] = {}
        self.shared: Final[bool] = info.destination.is_pattern or info.destination.is_composite
        self.busy: Final[dict[MessageHolder, None]] = {}  # destinations with pending messages, if ``shared``
        self.yields: Final[dict[MessageHolder, None]] = {}  # queues whose next exclusive consumer waits, if ``shared``
        self.pending: Final[deque[MessageReference]] = _pending_of(info.destination)
        self.weight: Final[int] = 1 + selector_steps(info.selector)  # steps for each message of a topic
        self.dispatched_total = 0
        self.discarded = 0  # pending messages discarded because there were too many
        self.dispatched_before = 0  # of the totals, those from before an operator's reset
        self.acknowledged_before = 0

    @property
    def dispatched_count(self) -> int:
        """The number of messages dispatched and not acknowledged."""
        return self.in_flight.count

    def let_go(self) -> None:
        """Forget the protocol's consumer and connection after the removal.

        The consumer refers to the subscription, and the memory of a cycle would stay until a full garbage collection.
        A prepared branch keeps the subscription, but must not keep the connection.
        """
        self.consumer = _DEPARTED
        self.output = _NO_OUTPUT

    def can_take(self) -> bool:
        """Return True if one more message may be dispatched now."""
        if not self.output.writable or not self.started:
            return False
        if self.pulls:
            return self.pulled > 0
        in_flight = self.in_flight
        return len(in_flight.references) - in_flight.gone < self.prefetch_size + in_flight.extension

    def accepts(self, reference: MessageReference) -> bool:
        """Return True if selector, no-local, bridge filter and the user's rights let the message through."""
        if self.is_filtered and not self._passes(reference):
            return False
        return self.selector is None or self.selects(reference)

    def read_only(self, readable: MessageCondition) -> None:
        """Take only messages accepted by ``readable``. Call before the subscription is attached."""
        self.readable = readable
        self.is_filtered = True

    def _passes(self, reference: MessageReference) -> bool:
        if self.readable is not None and not self.readable.lets_through(reference):
            return False
        condition = self.bridge_condition
        if condition is None:
            return self.lets_through(reference.message)
        return condition.lets_through(reference)  # only bridges have a condition, and bridges have no no-local

    def lets_through(self, message: Message) -> bool:
        """Return True if no-local and the bridge's filter let the message through. Further conditions are not
        evaluated.
        """
        network_filter = self.network_filter
        if network_filter is not None and not network_filter.passes(message.broker_path):
            return False
        connection_id = self.no_local_connection
        return connection_id is None or message.producer_id.connection_id != connection_id

    def selects(self, reference: MessageReference) -> bool:
        """Return True if the selector matches, or without a selector."""
        selector = self.selector
        if selector is None:
            return True
        message = reference.message
        matches = self.values.matches(selector, message, reference.redelivery_count)
        if message.properties_cache is not None:
            reference.destination.count_forms(message)
        return matches

    def group_sequence(self, message: Message) -> int:
        """Return the position of ``message`` in the message group; a negative position closes the group."""
        return self.values.group_sequence(message)

    def first_for_consumer(self, message: Message) -> Message:
        """Return ``message`` marked as the consumer's first message of the group."""
        return self.values.first_for_consumer(message)

    def dispatch(self, reference: MessageReference) -> None:
        """Send ``reference`` to the consumer, and keep the reference until the acknowledgement."""
        self.in_flight.references.append(reference)
        self.dispatched_total += 1
        if self.pulls:
            self.pulled -= 1
        message = reference.message
        self.consumer.dispatch(message, reference.order, reference.redelivery_count)
        if message.converted is not None:
            reference.destination.count_forms(message)
        self.output.add(message.size)

    def drain(self, wall_ms: int) -> None:
        """Dispatch pending messages of topics as far as the window allows."""
        pending = self.pending
        while pending and self.can_take():
            reference = pending.popleft()
            destination = reference.destination
            if reference.message.is_expired(wall_ms):
                destination.drop_expired(reference.message)
                continue
            destination.dispatched += 1
            self.dispatch(reference)
