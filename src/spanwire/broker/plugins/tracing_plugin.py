"""Notes the steps of traced messages, from send to acknowledge (W3C Trace Context, OpenTelemetry).

A message is traced if its sender says so (the flag *sampled* of its ``traceparent``), or if this broker has begun a
trace for it. Bodies, user names and addresses are never noted. The context of a message is never changed: the spans of
all brokers are children of the sender's span.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from spanwire.broker.advisories.message_advisories import AdvisedConsumer
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.following.mark_observer import DispatchTap
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.plugins.broker_filter import BrokerFilter
from spanwire.broker.ports import MessageConsumer
from spanwire.broker.reserved_destinations import is_control
from spanwire.model.acks import EXPIRED_ACK, INDIVIDUAL_ACK, POISON_ACK, STANDARD_ACK, MessageAck, SequenceRun
from spanwire.model.destination import Destination
from spanwire.model.environment import Environment, Time
from spanwire.model.errors import IllegalStateError, JmsError, ProtocolError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message
from spanwire.model.message_view import STRING_VALUE
from spanwire.model.observation.span_records import ACKNOWLEDGE, DISPATCH, FORWARD, SEND, STORE, SpanRecord, SpanRecords
from spanwire.model.observation.trace_context import TRACEPARENT, TRACESTATE, TraceContext, context_of

MAX_ARRIVALS: Final = 10_000  # traced messages whose arrival is known; older ones show no time in the queue
MAX_UNACKNOWLEDGED: Final = 1_000  # traced messages of one consumer whose acknowledgement will be noted
MAX_UNSYNCED: Final = 10_000  # traced messages on their way to the disk; further ones have no step `STORE`
NAME: Final = TRACEPARENT.encode()
ENDING: Final = (STANDARD_ACK, POISON_ACK, EXPIRED_ACK, INDIVIDUAL_ACK)  # after these a message is gone
OUTCOMES: Final = {POISON_ACK: "rejected", EXPIRED_ACK: "expired"}
TRACE_OCTETS: Final = 16
SPAN_OCTETS: Final = 8
DICE_OCTETS: Final = 4

# Attributes beside those of the conventions.
BROKER: Final = "messaging.spanwire.broker.name"
REDELIVERED: Final = "messaging.spanwire.redelivery_count"
OUTCOME: Final = "messaging.spanwire.acknowledge.outcome"
CLIENT: Final = "messaging.client.id"
SIZE: Final = "messaging.message.envelope.size"


@dataclass(frozen=True)
class TracingSettings:
    """The notes of a broker that traces, and the share of messages for which it begins a trace."""

    records: SpanRecords = field(default_factory=SpanRecords)
    sampling_rate: float = 0.0


class TracedMessage:
    """A traced message on its way to the disk, or at a consumer, since ``since_ms``; without its body."""

    __slots__ = ("context", "destination", "message_id", "since_ms")

    def __init__(self, context: TraceContext, message: Message, since_ms: int) -> None:
        self.context: Final[TraceContext] = context
        self.destination: Final[Destination] = message.destination
        self.message_id: Final[MessageId] = message.message_id
        self.since_ms: Final[int] = since_ms


class TracingFilter(BrokerFilter):
    """Notes what happens to traced messages. The innermost filter: it sees messages as the broker does."""

    def __init__(
        self,
        settings: TracingSettings,
        context: BrokerContext,
        unsynced: UnsyncedBytes,
        formats: MessageFormats,
        environment: Environment,
        broker_name: str,
    ) -> None:
        self._records: Final[SpanRecords] = settings.records
        self._threshold: Final[int] = int(settings.sampling_rate * (1 << 8 * DICE_OCTETS))
        self._context: Final[BrokerContext] = context
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._formats: Final[MessageFormats] = formats
        self._environment: Final[Environment] = environment
        self._broker_name: Final[str] = broker_name
        self._arrivals: Final[dict[MessageId, int]] = {}
        self._unsynced_messages: Final[deque[tuple[int, TracedMessage]]] = deque()
        self._sent: TraceContext | None = None  # context of the message between `send` and `sent`
        self._root = ""  # id of its span if this broker has begun the trace
        self._unsynced_before = 0  # bytes

    def wrap_consumer(self, info: ConsumerInfo, consumer: MessageConsumer, automatic: bool) -> MessageConsumer:
        """Note each dispatch to a consumer; a browser only looks."""
        if info.browser:
            return consumer
        return TracedConsumer(consumer, self, FORWARD if info.network_filter is not None else ACKNOWLEDGE, automatic)

    def send(self, state: ConnectionState, message: Message, now: Time) -> Message:
        """Find the context of a message, or begin a trace for it."""
        context = self._context_in(message)
        self._root = ""
        if context is None and self._threshold > 0 and self._begins_trace(state, message):
            context, message = self._with_new_trace(message)
        self._sent = context if context is not None and context.is_sampled else None
        self._unsynced_before = self._unsynced.count
        return message

    def sent(self, state: ConnectionState, message: Message, is_transacted: bool, error: JmsError | None) -> None:
        """Note a message that the broker has taken, or refused with ``error``."""
        context, self._sent = self._sent, None
        if context is None:
            return
        now_ms = self._context.wall_ms
        span_id = self._root or self._new_id(SPAN_OCTETS)
        record = self._record(SEND, TracedMessage(context, message, now_ms), span_id)
        record.attributes[CLIENT] = state.info.client_id or state.connection_id
        record.attributes[SIZE] = len(message.raw)
        if error is not None:
            record.error = type(error).__name__
        self._records.add(record)
        if error is not None:
            return
        if len(self._arrivals) >= MAX_ARRIVALS:
            del self._arrivals[next(iter(self._arrivals))]
        self._arrivals[message.message_id] = now_ms
        store = self._context.store
        if (
            store is not None
            and self._unsynced.count != self._unsynced_before
            and len(self._unsynced_messages) < MAX_UNSYNCED
        ):
            parent = TraceContext(context.trace_id, span_id, context.flags, context.state)
            self._unsynced_messages.append((store.position(), TracedMessage(parent, message, now_ms)))

    def stored(self, position: int) -> None:
        """Note the traced messages that a power failure cannot take any more."""
        unsynced = self._unsynced_messages
        while unsynced and unsynced[0][0] <= position:
            self._records.add(self._record(STORE, unsynced.popleft()[1], ""))

    def acknowledge(self, subscription: Subscription, ack: MessageAck) -> None:
        """Note the traced messages of an acknowledgement after which they are gone."""
        consumer = traced_in(subscription.consumer)
        if consumer is None or not consumer.unacknowledged or ack.ack_type not in ENDING:
            return
        outcome = OUTCOMES.get(ack.ack_type, "")
        if ack.ack_type == INDIVIDUAL_ACK or ack.count == 1:
            self._acknowledged(subscription, consumer, ack.last, outcome)
            return
        try:
            references = subscription.in_flight.in_range(ack.first, ack.last)
        except IllegalStateError:
            return  # the broker refuses the acknowledgement
        for reference in references:
            self._acknowledged(subscription, consumer, reference.message.message_id, outcome)

    def acknowledge_run(self, subscription: Subscription, producer_id: ProducerId, sequences: SequenceRun) -> None:
        """Note the traced messages of single acknowledgements."""
        consumer = traced_in(subscription.consumer)
        if consumer is not None and consumer.unacknowledged:
            for index in range(sequences.size):
                self._acknowledged(subscription, consumer, MessageId(producer_id, sequences.at(index)), "")

    def acknowledge_numbered(self, subscription: Subscription, numbers: SequenceRun) -> None:
        """Note the traced messages of single acknowledgements by numbers."""
        consumer = traced_in(subscription.consumer)
        if consumer is not None and consumer.unacknowledged:
            for index in range(numbers.size):
                reference = subscription.in_flight.find_number(numbers.at(index))
                if reference is not None:
                    self._acknowledged(subscription, consumer, reference.message.message_id, "")

    def dispatched(self, message: Message, redelivery_count: int) -> TraceContext | None:
        """Note a dispatch, and return the context of a traced message."""
        context = self._context_in(message)
        if context is None or not context.is_sampled:
            return None
        now_ms = self._context.wall_ms
        came_ms = now_ms if redelivery_count > 0 else self._arrivals.get(message.message_id, now_ms)
        record = self._record(DISPATCH, TracedMessage(context, message, came_ms), "")
        record.attributes[REDELIVERED] = redelivery_count
        self._records.add(record)
        return context

    @property
    def now_ms(self) -> int:
        """The time of the current input in wall milliseconds."""
        return self._context.wall_ms

    def _acknowledged(
        self, subscription: Subscription, consumer: TracedConsumer, message_id: MessageId, outcome: str
    ) -> None:
        entry = consumer.unacknowledged.pop(message_id, None)
        if entry is None:
            return
        record = self._record(consumer.last_step, entry, "")
        record.attributes[CLIENT] = subscription.client_id
        if outcome:
            record.attributes[OUTCOME] = outcome
        self._records.add(record)

    def _record(self, step: int, message: TracedMessage, span_id: str) -> SpanRecord:
        record = SpanRecord(
            step,
            message.context,
            span_id,
            message.since_ms,
            self._context.wall_ms,
            message.destination.qualified_name,
            str(message.message_id),
        )
        record.attributes[BROKER] = self._broker_name
        return record

    def _context_in(self, message: Message) -> TraceContext | None:
        """Return the context that a message carries. A message without one costs two searches for a word."""
        raw = message.raw
        if raw.find(NAME, 0, message.content_start) < 0 and raw.find(NAME, message.properties_start) < 0:
            return None
        properties = message.properties_cache
        if properties is None:
            try:
                properties = self._formats.format(message.format_id).properties(message)
            except (JmsError, ProtocolError):
                return None  # the message is refused, or not, by whoever needs its properties
        return context_of(properties)

    def _begins_trace(self, state: ConnectionState, message: Message) -> bool:
        """Return True for the configured share of clients' messages. A message's first broker decides."""
        if state.forwards or message.broker_path or message.destination.is_advisory or is_control(message.destination):
            return False
        return int.from_bytes(self._environment.random_bytes(DICE_OCTETS), "big") < self._threshold

    def _with_new_trace(self, message: Message) -> tuple[TraceContext | None, Message]:
        """Return a new context, and the message that carries it. One of an unknown form stays as it is."""
        context = TraceContext(self._new_id(TRACE_OCTETS), self._new_id(SPAN_OCTETS))
        message_format = self._formats.format(message.format_id)
        try:
            view = message_format.view(message)
            view.properties[TRACEPARENT] = (STRING_VALUE, context.traceparent())
            view.properties.pop(TRACESTATE, None)
            changed = message_format.encode_from_view(view)
        except (JmsError, ProtocolError):
            return None, message
        self._root = context.span_id
        return context, changed

    def _new_id(self, octets: int) -> str:
        return self._environment.random_bytes(octets).hex()


class TracedConsumer(MessageConsumer):
    """Notes the dispatches to one consumer, and knows the traced messages that it has not acknowledged.

    ``last_step`` is `ACKNOWLEDGE`, or `FORWARD` for the consumer of a bridge to another broker. An ``automatic``
    consumer acknowledges nothing.
    """

    def __init__(self, consumer: MessageConsumer, tracing: TracingFilter, last_step: int, automatic: bool) -> None:
        self._consumer: Final[MessageConsumer] = consumer
        self._tracing: Final[TracingFilter] = tracing
        self.last_step: Final[int] = last_step
        self._limit: Final[int] = 0 if automatic else MAX_UNACKNOWLEDGED
        self.unacknowledged: Final[dict[MessageId, TracedMessage]] = {}

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Note the dispatch of a traced message, then dispatch."""
        context = self._tracing.dispatched(message, redelivery_count)
        if context is not None and len(self.unacknowledged) < self._limit:
            self.unacknowledged[message.message_id] = TracedMessage(context, message, self._tracing.now_ms)
        self._consumer.dispatch(message, sequence, redelivery_count)

    def dispatch_end(self) -> None:
        """End a pull without result."""
        self._consumer.dispatch_end()

    def close(self, reason: JmsError) -> None:
        """End the consumer for the broker's reason."""
        self._consumer.close(reason)

    def switch_to_pull(self) -> bool:
        """Switch the client to pull mode."""
        return self._consumer.switch_to_pull()


def traced_in(consumer: MessageConsumer) -> TracedConsumer | None:
    """Return the traced consumer inside of the consumers for advisories and for `spanwire.broker.following`."""
    while isinstance(consumer, (AdvisedConsumer, DispatchTap)):
        consumer = consumer.inner
    return consumer if isinstance(consumer, TracedConsumer) else None
