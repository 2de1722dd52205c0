"""A policy entry: settings of the destinations that its pattern matches, as in ActiveMQ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.broker.persistence.duplicate_ids import DEFAULT_ID_CACHE
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy
from spanwire.broker.policy.topic_policy import TopicPolicy
from spanwire.model.destination import Destination

DEFAULT_EXPIRE_PERIOD_MS = 30_000
DEFAULT_WARNING_INTERVAL_MS = 30_000  # milliseconds; blockedProducerWarningInterval, as in ActiveMQ
DEFAULT_CURSOR_MARK = 70  # percent; cursorMemoryHighWaterMark
DEFAULT_STORE_MARK = 100  # percent; storeUsageHighWaterMark
DEFAULT_INACTIVE_MS = 60_000  # milliseconds; inactiveTimeoutBeforeGC, as in ActiveMQ
DEFAULT_SLOW_MS: Final = 30_000  # milliseconds; maxSlowDuration, maxTimeSinceLastAck and checkPeriod, as in ActiveMQ
DEFAULT_RATE_DURATION_MS = 1_000  # milliseconds; ActiveMQ's default

BUCKET_GROUPS = "bucket"
CACHED_GROUPS = "cached"
SIMPLE_GROUPS = "simple"
DEFAULT_GROUPS = 1_024  # buckets, or groups of the cache, as in ActiveMQ
TOGETHER_FROM = 16  # consumers; from here on a shared scan with an index of selectors is worth its cost
MAX_SIMPLE_GROUPS = 100_000  # groups of one queue if the configuration sets no size; about 10 MiB


@dataclass(frozen=True)
class AdvisoryPolicy:
    """Advisories of a destination, each attribute as in ActiveMQ's policy entry.

    The attributes switch on advisories about messages ``delivered`` to the destination, ``dispatched`` to a consumer,
    ``consumed``, or ``discarded`` for a slow subscriber; about ``slow_consumers`` and ``fast_producers``; and about a
    ``full`` destination. With ``no_consumers`` messages without a consumer are themselves sent to the advisory topic.
    With ``whole_messages`` an advisory about a message includes the body.
    """

    delivered: bool = False
    dispatched: bool = False
    consumed: bool = False
    discarded: bool = False
    slow_consumers: bool = False
    fast_producers: bool = False
    full: bool = False
    no_consumers: bool = False
    whole_messages: bool = False

    def is_of_messages(self) -> bool:
        """Return True if the destination itself publishes advisories.

        Advisories about dispatches, fast producers and full destinations are published elsewhere.
        """
        return self.delivered or self.consumed or self.discarded or self.slow_consumers or self.no_consumers


@dataclass(frozen=True)
class SlowConsumerPolicy:
    """Conditions for the abort of a slow consumer.

    A consumer is aborted after ``max_slow_ms`` of slowness, or at the ``max_slow_count``-th slow phase; 0 or less turns
    a condition off. Consumers are checked every ``check_period_ms``.

    A consumer of a topic is slow while more messages than its prefetch are pending. With ``max_since_ack_ms`` a
    consumer of a queue or topic is slow after so long without an acknowledgement of its messages.
    """

    max_slow_count: int = -1
    max_slow_ms: int = DEFAULT_SLOW_MS
    check_period_ms: int = DEFAULT_SLOW_MS
    abort_connection: bool = False
    ignore_network_consumers: bool = True
    max_since_ack_ms: int | None = None
    ignore_idle_consumers: bool = True


@dataclass(frozen=True)
class BridgePolicy:
    """Conditions for the messages of a bridge.

    With ``replays`` a message may return to its previous broker if the queue has no local consumer, or with
    ``selector_aware`` no matching one. The message stays at least ``replay_delay_ms``. At most ``rate_limit`` messages
    go to a bridge in ``rate_duration_ms``; 0 sets no limit.
    """

    replays: bool = False
    replay_delay_ms: int = 0
    rate_limit: int = 0
    rate_duration_ms: int = DEFAULT_RATE_DURATION_MS
    selector_aware: bool = False


@dataclass(frozen=True)
class GroupMap:
    """The map from message groups to owners (``messageGroupMapFactoryType``)."""

    kind: str = CACHED_GROUPS
    size: int = DEFAULT_GROUPS


@dataclass(frozen=True)
class QueuePolicy:
    """Settings of a queue's dispatch, each attribute as in ActiveMQ's policy entry.

    Dispatch starts with ``consumers_before_dispatch_starts`` consumers, or ``time_before_dispatch_starts_ms`` after the
    first consumer (one second if only the number is set). With ``lazy_dispatch`` the queue reads from the disk only for
    consumers with room. From ``look_together_from`` consumers on, some with selectors, the queue finds messages by an
    index of the selectors. ``bridges`` are conditions for the messages of bridges. A queue with a ``ring_size`` above 0
    keeps so many pending messages, the latest ones (`spanwire.broker.queue.ring_queue`). A queue with a
    ``last_value_key`` or with ``last_value`` keeps the last message of each key
    (`spanwire.broker.queue.last_value_queue`).
    """

    prioritized_messages: bool = False
    use_consumer_priority: bool = True
    strict_order_dispatch: bool = False
    all_consumers_exclusive: bool = False
    time_before_dispatch_starts_ms: int = 0
    consumers_before_dispatch_starts: int = 0
    lazy_dispatch: bool = False
    ring_size: int = -1
    last_value: bool = False
    last_value_key: str = ""
    look_together_from: int = TOGETHER_FROM
    groups: GroupMap = field(default_factory=GroupMap)
    bridges: BridgePolicy | None = None


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
    - With ``measures_messages`` sizes and times of messages are measured from the creation of a destination on.
    - ``id_cache_size`` duplicate ids are remembered; 0 compares none (`spanwire.broker.persistence.duplicate_ids`).
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
    measures_messages: bool = False
    id_cache_size: int = DEFAULT_ID_CACHE
