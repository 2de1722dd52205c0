"""Tuning by destination: what a `PolicyEntry` sets holds for every destination its pattern matches."""

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
DEFAULT_WARNING_INTERVAL_MS = 30_000  # blockedProducerWarningInterval, as ActiveMQ has it
DEFAULT_CURSOR_MARK = 70  # cursorMemoryHighWaterMark
DEFAULT_STORE_MARK = 100  # storeUsageHighWaterMark
DEFAULT_INACTIVE_MS = 60_000  # inactiveTimeoutBeforeGC, as ActiveMQ has it


@dataclass(frozen=True)
class IndividualNames:
    """How the dead letter queue of each destination is called: its own name between these (ActiveMQ's individual
    strategy). It is a topic without ``queue_for_queues`` or ``queue_for_topics``; with ``per_durable_subscriber`` each
    durable subscription has its own, whose name ends with client id and name of the subscription.
    """

    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    queue_suffix: str = ""
    topic_suffix: str = ""
    queue_for_queues: bool = True
    queue_for_topics: bool = True
    per_durable_subscriber: bool = False

    def made(self, destination: Destination) -> bool:
        """Whether this is such a dead letter destination, whose own messages do not go round."""
        name = destination.name
        if self.queue_for_queues == destination.is_queue:
            if name.startswith(self.queue_prefix) and name.endswith(self.queue_suffix):
                return True
        if self.queue_for_topics == destination.is_queue:
            return name.startswith(self.topic_prefix) and name.endswith(self.topic_suffix)
        return False

    def of(self, destination: Destination, subscription_key: str) -> Destination:
        """The dead letter destination of ``destination``, which may have no usable name."""
        if destination.is_queue:
            kind = QUEUE if self.queue_for_queues else TOPIC
            return Destination(kind, self.queue_prefix + destination.name + self.queue_suffix)
        name = self.topic_prefix + destination.name
        if self.per_durable_subscriber and subscription_key:
            name += "." + subscription_key
        return Destination(QUEUE if self.queue_for_topics else TOPIC, name + self.topic_suffix)


@dataclass(frozen=True)
class DeadLetterStrategy:
    """Where messages go that expired or that a consumer gave up on: all into one queue, or with ``individual`` those of
    each destination into their own. Temporary destinations, which come and go, share the one in any case. A strategy
    that ``discards`` keeps none. Dead letters expire after ``expiration_ms``, or never if that is 0.
    """

    queue_name: str = DEFAULT_DEAD_LETTER_QUEUE
    process_expired: bool = True
    process_non_persistent: bool = False
    individual: IndividualNames | None = None
    discards: bool = False
    expiration_ms: int = 0

    def target(self, destination: Destination, subscription_key: str = "") -> Destination | None:
        """The queue or topic for what dies in ``destination``, in the durable subscription of this key if there is one;
        None if that is a dead letter queue itself, or keeps nothing.
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
    """The tuning of all destinations that ``destination``, a name or wildcard pattern, matches.

    ``memory_limit_bytes`` 0 means that only the broker's limit holds; ``expire_messages_period_ms`` 0 turns the scan
    off (messages still expire when their turn comes); a prefetch of -1 leaves the consumer's own. Without
    ``prefetch_extension`` what a consumer has not acknowledged for good counts against its prefetch, also what it has
    delivered, or acknowledged in a transaction that is open.

    Without ``producer_flow_control`` the destination's memory limit holds no send up: what is not persistent goes to
    the store when ``cursor_memory_high_water_mark`` percent of it are in use (queues), or takes the broker's memory.
    ``send_fail_if_no_space`` None and ``send_fail_after_ms`` -1 leave it to the broker whether a send that has to wait
    is refused, at once or after a time. Persistent sends wait once ``store_usage_high_water_mark`` percent of the
    store's limit are in use. ``max_destinations`` -1 sets no limit to the destinations that clients may make under it.

    With ``gc_inactive`` a destination that nobody has used for ``inactive_timeout_ms`` is removed (`Upkeep`);
    ``gc_with_network_consumers`` leaves the consumers of bridges out of account.
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
    """Finds the entry for a destination: the most specific pattern that matches, else the default entries."""

    def __init__(self, entries: list[PolicyEntry] | None = None) -> None:
        self._entries: list[PolicyEntry] = []
        self.replace(entries if entries is not None else [])
        self._queue_default = PolicyEntry(Destination(0, ">"))
        self._topic_default = PolicyEntry(Destination(TOPIC, ">"))

    def replace(self, entries: list[PolicyEntry]) -> None:
        """These entries from now on."""
        self._entries = sorted(entries, key=_wildcards_last)

    @property
    def entry_count(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def lowest_store_mark(self) -> int:
        """The lowest of all marks of the store."""
        return min([DEFAULT_STORE_MARK, *[entry.store_usage_high_water_mark for entry in self._entries]])

    def expiry_periods(self) -> list[int]:
        """After how many milliseconds each queues are looked through for expired messages; each period once."""
        entries = [*self._entries, self._queue_default, self._topic_default]
        return sorted({entry.expire_messages_period_ms for entry in entries if entry.expire_messages_period_ms > 0})

    def filters_by_client_id(self) -> bool:
        """Whether some topic's messages may be for one client alone."""
        for entry in self._entries:
            dispatch = entry.topic.dispatch
            if dispatch is not None and dispatch.kind == CLIENT_ID_FILTER:
                return True
        return False

    def tells_of_dispatches(self) -> bool:
        """Whether any destination tells which consumers its messages go to."""
        return any(entry.advisories.dispatched for entry in self._entries)

    def entry_for(self, destination: Destination) -> PolicyEntry:
        """The tuning of ``destination``; an entry for queues or topics says nothing of temporary ones."""
        for entry in self._entries:
            if entry.destination.matches(destination):
                return entry
        return self._queue_default if destination.is_queue else self._topic_default


def _wildcards_last(entry: PolicyEntry) -> tuple[int, int, int]:
    return wildcards_last(entry.destination)


def wildcards_last(pattern: Destination) -> tuple[int, int, int]:
    """Sorts exact names first, then patterns by how much they pin down."""
    elements = pattern.elements
    stars = sum(1 for element in elements if element in ("*", ">"))
    return (1 if elements[-1] == ">" else 0, stars, -len(elements))
