"""Settings of a policy entry for queues: order of messages, choice of consumers, start of dispatch, groups."""

from __future__ import annotations

from dataclasses import dataclass, field

from spanwire.broker.policy.bridge_policy import BridgePolicy

BUCKET_GROUPS = "bucket"
CACHED_GROUPS = "cached"
SIMPLE_GROUPS = "simple"
DEFAULT_GROUPS = 1_024  # buckets, or groups of the cache, as in ActiveMQ
TOGETHER_FROM = 16  # consumers; from here on a shared scan with an index of selectors is worth its cost
MAX_SIMPLE_GROUPS = 100_000  # groups of one queue if the configuration sets no size; about 10 MiB


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
    index of the selectors. ``bridges`` are conditions for the messages of bridges.
    """

    prioritized_messages: bool = False
    use_consumer_priority: bool = True
    strict_order_dispatch: bool = False
    all_consumers_exclusive: bool = False
    time_before_dispatch_starts_ms: int = 0
    consumers_before_dispatch_starts: int = 0
    lazy_dispatch: bool = False
    look_together_from: int = TOGETHER_FROM
    groups: GroupMap = field(default_factory=GroupMap)
    bridges: BridgePolicy | None = None
