"""Settings by destination: a `PolicyEntry` applies to every destination that its pattern matches."""

from __future__ import annotations

from dataclasses import dataclass, field

from spanwire.broker.policy.advisory_policy import AdvisoryPolicy
from spanwire.broker.policy.queue_policy import QueuePolicy
from spanwire.broker.policy.slow_consumer_policy import SlowConsumerPolicy
from spanwire.broker.policy.topic_policy import CLIENT_ID_FILTER, TopicPolicy
from spanwire.broker.reserved_destinations import is_control
from spanwire.model.destination import QUEUE, TOPIC, Destination, check_name
from spanwire.model.errors import InvalidDestinationError

DEFAULT_EXPIRE_PERIOD_MS = 30_000
DEFAULT_DEAD_LETTER_QUEUE = "ActiveMQ.DLQ"
DEFAULT_WARNING_INTERVAL_MS = 30_000  # milliseconds; blockedProducerWarningInterval, as in ActiveMQ
DEFAULT_CURSOR_MARK = 70  # percent; cursorMemoryHighWaterMark
DEFAULT_STORE_MARK = 100  # percent; storeUsageHighWaterMark
DEFAULT_INACTIVE_MS = 60_000  # milliseconds; inactiveTimeoutBeforeGC, as in ActiveMQ


@dataclass(frozen=True)
class IndividualNames:
    """Names of individual dead letter destinations: the destination's own name between prefix and suffix.

    Corresponds to ActiveMQ's individual strategy. The dead letter destination is a queue, or a topic if
    ``queue_for_queues`` or ``queue_for_topics`` is false. With ``per_durable_subscriber`` each durable subscription has
    a destination of its own; the name ends with client id and name of the subscription.
    """

    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    queue_suffix: str = ""
    topic_suffix: str = ""
    queue_for_queues: bool = True
    queue_for_topics: bool = True
    per_durable_subscriber: bool = False

    def made(self, destination: Destination) -> bool:
        """Return True for a dead letter destination of this strategy. Dead letters of such a destination are not sent
        again.
        """
        name = destination.name
        if self.queue_for_queues == destination.is_queue:
            if name.startswith(self.queue_prefix) and name.endswith(self.queue_suffix):
                return True
        if self.queue_for_topics == destination.is_queue:
            return name.startswith(self.topic_prefix) and name.endswith(self.topic_suffix)
        return False

    def of(self, destination: Destination, subscription_key: str) -> Destination:
        """Return the dead letter destination of ``destination``. The resulting name may be invalid."""
        if destination.is_queue:
            kind = QUEUE if self.queue_for_queues else TOPIC
            return Destination(kind, self.queue_prefix + destination.name + self.queue_suffix)
        name = self.topic_prefix + destination.name
        if self.per_durable_subscriber and subscription_key:
            name += "." + subscription_key
        return Destination(QUEUE if self.queue_for_topics else TOPIC, name + self.topic_suffix)


@dataclass(frozen=True)
class DeadLetterStrategy:
    """Handling of expired and undeliverable messages.

    All dead letters go into one queue. With ``individual`` each destination has its own; temporary destinations share
    the one queue in any case. With ``discards`` dead letters are dropped. Dead letters expire after ``expiration_ms``;
    0 means never.
    """

    queue_name: str = DEFAULT_DEAD_LETTER_QUEUE
    process_expired: bool = True
    process_non_persistent: bool = False
    individual: IndividualNames | None = None
    discards: bool = False
    expiration_ms: int = 0

    def target(self, destination: Destination, subscription_key: str = "") -> Destination | None:
        """Return the queue or topic for dead letters of ``destination``.

        ``subscription_key`` names the durable subscription, if any.

        Returns:
            None if ``destination`` is itself a dead letter destination, or if dead letters are discarded.
        """
        if self.discards:
            return None
        shared = Destination(QUEUE, self.queue_name)
        names = self.individual
        if destination == shared:
            return None
        if names is None or destination.is_temporary:
            return shared
        if names.made(destination):
            return None
        target = names.of(destination, subscription_key)
        try:
            check_name(target.name)
        except InvalidDestinationError:
            return shared
        return shared if target.is_pattern or target.is_composite or is_control(target) else target


@dataclass(frozen=True)
class PolicyEntry:
    """Settings of all destinations that ``destination``, a name or wildcard pattern, matches.

    - ``memory_limit_bytes`` 0 applies only the broker's limit.
    - ``expire_messages_period_ms`` 0 turns the expiry scan off. Messages still expire when their turn comes.
    - A prefetch of -1 keeps the consumer's own prefetch.
    - Without ``prefetch_extension`` all messages not finally acknowledged count against the prefetch, also messages
      delivered to the application or acknowledged in an open transaction.
    - Without ``producer_flow_control`` the destination's memory limit blocks no send. A queue then writes
      non-persistent messages to the store above ``cursor_memory_high_water_mark`` percent; other messages use the
      broker's memory.
    - ``send_fail_if_no_space`` None and ``send_fail_after_ms`` -1 apply the broker's settings: a blocked send is
      refused, at once or after a time.
    - Persistent sends wait once ``store_usage_high_water_mark`` percent of the store's limit are in use.
    - ``max_destinations`` limits the destinations that clients may create under the pattern; -1 sets no limit.
    - With ``gc_inactive`` a destination unused for ``inactive_timeout_ms`` is removed (`Upkeep`).
      ``gc_with_network_consumers`` ignores the consumers of bridges.
    """

    destination: Destination
    memory_limit_bytes: int = 0
    queue_prefetch: int = -1
    topic_prefetch: int = -1
    queue_browser_prefetch: int = -1
    prefetch_extension: bool = True
    expire_messages_period_ms: int = DEFAULT_EXPIRE_PERIOD_MS
    dispatch_before_sync: bool = True
    producer_flow_control: bool = True
    send_fail_if_no_space: bool | None = None
    send_fail_after_ms: int = -1
    blocked_producer_warning_interval_ms: int = DEFAULT_WARNING_INTERVAL_MS
    cursor_memory_high_water_mark: int = DEFAULT_CURSOR_MARK
    store_usage_high_water_mark: int = DEFAULT_STORE_MARK
    max_destinations: int = -1
    gc_inactive: bool = False
    inactive_timeout_ms: int = DEFAULT_INACTIVE_MS
    gc_with_network_consumers: bool = False
    dead_letter: DeadLetterStrategy = field(default_factory=DeadLetterStrategy)
    queue: QueuePolicy = field(default_factory=QueuePolicy)
    advisories: AdvisoryPolicy = field(default_factory=AdvisoryPolicy)
    topic: TopicPolicy = field(default_factory=TopicPolicy)
    slow_consumers: SlowConsumerPolicy | None = None


class PolicyMap:
    """Finds the entry of a destination: the most specific matching pattern, otherwise a default entry."""

    def __init__(self, entries: list[PolicyEntry] | None = None) -> None:
        self._entries: list[PolicyEntry] = []
        self.replace(entries if entries is not None else [])
        self._queue_default = PolicyEntry(Destination(0, ">"))
        self._topic_default = PolicyEntry(Destination(TOPIC, ">"))

    def replace(self, entries: list[PolicyEntry]) -> None:
        """Replace all entries."""
        self._entries = sorted(entries, key=_wildcards_last)

    @property
    def entry_count(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def lowest_store_mark(self) -> int:
        """Return the lowest store mark of all entries, in percent."""
        return min([DEFAULT_STORE_MARK, *[entry.store_usage_high_water_mark for entry in self._entries]])

    def expiry_periods(self) -> list[int]:
        """Return the distinct periods of the expiry scan, in milliseconds."""
        entries = [*self._entries, self._queue_default, self._topic_default]
        return sorted({entry.expire_messages_period_ms for entry in entries if entry.expire_messages_period_ms > 0})

    def filters_by_client_id(self) -> bool:
        """Return True if a topic may restrict messages to one client id."""
        for entry in self._entries:
            dispatch = entry.topic.dispatch
            if dispatch is not None and dispatch.kind == CLIENT_ID_FILTER:
                return True
        return False

    def tells_of_dispatches(self) -> bool:
        """Return True if a destination publishes advisories about dispatches."""
        return any(entry.advisories.dispatched for entry in self._entries)

    def entry_for(self, destination: Destination) -> PolicyEntry:
        """Return the entry for ``destination``. Entries for queues or topics do not apply to temporary destinations."""
        for entry in self._entries:
            if entry.destination.matches(destination):
                return entry
        return self._queue_default if destination.is_queue else self._topic_default


def _wildcards_last(entry: PolicyEntry) -> tuple[int, int, int]:
    return wildcards_last(entry.destination)


def wildcards_last(pattern: Destination) -> tuple[int, int, int]:
    """Return a sort key: exact names first, then patterns from the most to the least specific."""
    elements = pattern.elements
    stars = sum(1 for element in elements if element in ("*", ">"))
    return (1 if elements[-1] == ">" else 0, stars, -len(elements))
