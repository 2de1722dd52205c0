"""Settings of a policy entry for topics: messages kept for new consumers, limits for slow consumers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

# Kinds of `RecoveryPolicy` (ActiveMQ's subscriptionRecoveryPolicy).
FIXED_COUNT: Final = "fixedCountSubscriptionRecoveryPolicy"  # keeps a number of messages
FIXED_SIZE: Final = "fixedSizedSubscriptionRecoveryPolicy"  # keeps a number of bytes
LAST_IMAGE: Final = "lastImageSubscriptionRecoveryPolicy"  # keeps the last message
TIMED: Final = "timedSubscriptionRecoveryPolicy"  # keeps the messages of the last milliseconds
RETAINED: Final = "retainedMessageSubscriptionRecoveryPolicy"  # keeps the last message marked by a producer

DEFAULT_KEPT_COUNT: Final = 100  # messages; maximumSize of the fixed count, as in ActiveMQ
DEFAULT_KEPT_BYTES: Final = 65_536  # bytes; maximumSize of the fixed size
DEFAULT_KEPT_MS: Final = 60_000  # milliseconds; recoverDuration

# Kinds of `EvictionPolicy` (ActiveMQ's messageEvictionStrategy).
OLDEST: Final = "oldestMessageEvictionStrategy"
LOWEST_PRIORITY: Final = "oldestMessageWithLowestPriorityEvictionStrategy"
UNIQUE_PROPERTY: Final = "uniquePropertyMessageEvictionStrategy"

# Kinds of `DispatchPolicy` (ActiveMQ's dispatchPolicy). Without one all consumers get messages in any order.
PRIORITY: Final = "priorityDispatchPolicy"
PRIORITY_NETWORK: Final = "priorityNetworkDispatchPolicy"
CLIENT_ID_FILTER: Final = "clientIdFilterDispatchPolicy"

DEFAULT_CLIENT_ID_PROPERTY: Final = "PTP_CLIENTID"  # ptpClientId, as in ActiveMQ
DEFAULT_CLIENT_ID_SUFFIX: Final = ".PTP"  # ptpSuffix

DEFAULT_EXPIRED_MARK: Final = 1_000  # messages; evictExpiredMessagesHighWatermark
DEFAULT_MULTIPLIER: Final = 0.5  # times the prefetch; limit of pending messages


@dataclass(frozen=True)
class RecoveryPolicy:
    """Messages of a topic kept for new consumers.

    ``limit`` counts messages, bytes or milliseconds, depending on ``kind``. In addition the topic keeps the last
    message with the property ``ActiveMQ.Retain``.
    """

    kind: str
    limit: int = 0


@dataclass(frozen=True)
class PendingLimit:
    """Number of messages that may wait for a consumer beyond the messages in flight.

    ``messages`` is the number (-1: the consumer's own limit). ``multiplier`` sets a multiple of the prefetch instead.
    """

    messages: int = -1
    multiplier: float | None = None


@dataclass(frozen=True)
class EvictionPolicy:
    """The choice of the message to evict.

    Above ``expired_mark`` pending messages an expired message goes first.
    """

    kind: str = OLDEST
    property_name: str | None = None
    expired_mark: int = DEFAULT_EXPIRED_MARK


@dataclass(frozen=True)
class DispatchPolicy:
    """The order or choice of consumers for each message.

    - `PRIORITY`: consumers with the highest priority first.
    - `PRIORITY_NETWORK`: of several bridges for the same consumer only the best.
    - `CLIENT_ID_FILTER`: a message with ``client_id_property`` only to the client of this id, in topics whose name ends
      with ``name_suffix``.
    """

    kind: str
    client_id_property: str = DEFAULT_CLIENT_ID_PROPERTY
    name_suffix: str = DEFAULT_CLIENT_ID_SUFFIX


@dataclass(frozen=True)
class TopicPolicy:
    """Settings of a topic, each attribute as in ActiveMQ's policy entry.

    ``durable_prefetch`` -1 keeps a durable subscriber's own prefetch. With ``audits_copies`` (enableAudit) the topic
    takes a message only once, although the message arrives over several routes of a network.
    """

    durable_prefetch: int = -1
    always_retroactive: bool = False
    recovery: RecoveryPolicy | None = None
    pending_limit: PendingLimit | None = None
    eviction: EvictionPolicy = field(default_factory=EvictionPolicy)
    dispatch: DispatchPolicy | None = None
    audits_copies: bool = True
