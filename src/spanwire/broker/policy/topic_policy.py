"""What a policy entry sets for topics alone: what consumers to come get, how much waits for those that are slow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

# What a topic keeps for consumers to come (ActiveMQ's subscriptionRecoveryPolicy).
FIXED_COUNT: Final = "fixedCountSubscriptionRecoveryPolicy"  # so many messages
FIXED_SIZE: Final = "fixedSizedSubscriptionRecoveryPolicy"  # so many bytes
LAST_IMAGE: Final = "lastImageSubscriptionRecoveryPolicy"  # the last message
TIMED: Final = "timedSubscriptionRecoveryPolicy"  # those of the last so many milliseconds
RETAINED: Final = "retainedMessageSubscriptionRecoveryPolicy"  # the last one that its sender marked

DEFAULT_KEPT_COUNT: Final = 100  # maximumSize of the fixed count, as ActiveMQ has it
DEFAULT_KEPT_BYTES: Final = 65_536  # maximumSize of the fixed size
DEFAULT_KEPT_MS: Final = 60_000  # recoverDuration

# Which of the messages that wait for a slow consumer goes first (ActiveMQ's messageEvictionStrategy).
OLDEST: Final = "oldestMessageEvictionStrategy"
LOWEST_PRIORITY: Final = "oldestMessageWithLowestPriorityEvictionStrategy"
UNIQUE_PROPERTY: Final = "uniquePropertyMessageEvictionStrategy"

# Who gets a topic's messages, and in which order (ActiveMQ's dispatchPolicy), where that is not all in any order.
PRIORITY: Final = "priorityDispatchPolicy"
PRIORITY_NETWORK: Final = "priorityNetworkDispatchPolicy"
CLIENT_ID_FILTER: Final = "clientIdFilterDispatchPolicy"

DEFAULT_CLIENT_ID_PROPERTY: Final = "PTP_CLIENTID"  # ptpClientId, as ActiveMQ has it
DEFAULT_CLIENT_ID_SUFFIX: Final = ".PTP"  # ptpSuffix

DEFAULT_EXPIRED_MARK: Final = 1_000  # evictExpiredMessagesHighWatermark
DEFAULT_MULTIPLIER: Final = 0.5  # of the prefetch, where it sets the limit of what waits


@dataclass(frozen=True)
class RecoveryPolicy:
    """What of a topic's messages is kept for consumers to come. ``limit`` counts messages, bytes or milliseconds, as
    ``kind`` has it. Beside it the last message that its sender marked with ``ActiveMQ.Retain`` is kept.
    """

    kind: str
    limit: int = 0


@dataclass(frozen=True)
class PendingLimit:
    """How many messages may wait for a consumer beyond those that are out at it: ``messages`` (-1: as many as it asks
    for itself, else any number), or ``multiplier`` times its prefetch.
    """

    messages: int = -1
    multiplier: float | None = None


@dataclass(frozen=True)
class EvictionPolicy:
    """Which message goes when too many wait. Of those over ``expired_mark`` an expired one goes first."""

    kind: str = OLDEST
    property_name: str | None = None
    expired_mark: int = DEFAULT_EXPIRED_MARK


@dataclass(frozen=True)
class DispatchPolicy:
    """To whom a message goes first, or at all.

    By `PRIORITY` to the consumers of the highest priority first; by `PRIORITY_NETWORK` only to the best of those
    bridges that stand for the same consumer; by `CLIENT_ID_FILTER`, where the message has ``client_id_property``, only
    to the client of that id, and only in topics whose name ends with ``name_suffix``.
    """

    kind: str
    client_id_property: str = DEFAULT_CLIENT_ID_PROPERTY
    name_suffix: str = DEFAULT_CLIENT_ID_SUFFIX


@dataclass(frozen=True)
class TopicPolicy:
    """The tuning of a topic, each attribute as ActiveMQ's policy entry has it; ``durable_prefetch`` -1 leaves a durable
    subscriber its own. With ``audits_copies`` (enableAudit) a message that comes over several routes of a network is
    taken once.
    """

    durable_prefetch: int = -1
    always_retroactive: bool = False
    recovery: RecoveryPolicy | None = None
    pending_limit: PendingLimit | None = None
    eviction: EvictionPolicy = field(default_factory=EvictionPolicy)
    dispatch: DispatchPolicy | None = None
    audits_copies: bool = True
