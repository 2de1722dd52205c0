"""What a policy entry sets for queues alone: order of messages, choice of consumers, start of dispatch, groups."""

from __future__ import annotations

from dataclasses import dataclass, field

from spanwire.broker.policy.bridge_policy import BridgePolicy

BUCKET_GROUPS = "bucket"
CACHED_GROUPS = "cached"
SIMPLE_GROUPS = "simple"
DEFAULT_GROUPS = 1_024  # buckets, and groups of the cache, as ActiveMQ has it
TOGETHER_FROM = 16  # consumers with selectors that look at a queue together; fewer look each for itself
MAX_SIMPLE_GROUPS = 100_000  # groups of one queue where the configuration sets no size; about 10 MiB


@dataclass(frozen=True)
class GroupMap:
    """How the owners of message groups are kept (``messageGroupMapFactoryType``)."""

    kind: str = CACHED_GROUPS
    size: int = DEFAULT_GROUPS


@dataclass(frozen=True)
class QueuePolicy:
    """The tuning of a queue's dispatch, each attribute as ActiveMQ's policy entry has it.

    Dispatch starts when ``consumers_before_dispatch_starts`` are there, or ``time_before_dispatch_starts_ms`` after the
    first of them (one second when only the number is set). With ``lazy_dispatch`` nothing is read from the disk before
    a consumer has room for it. From ``look_together_from`` consumers on, of which some choose, messages are looked up
    in an index of their selectors. ``bridges`` are conditions under which bridges get messages.
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
