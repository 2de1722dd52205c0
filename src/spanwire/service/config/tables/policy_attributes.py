"""Attributes of ``policyEntry`` and of the strategies inside."""

from __future__ import annotations

from typing import Any, Final

from spanwire.broker.dispatch.subscription import MAX_PREFETCH
from spanwire.broker.persistence.duplicate_ids import MAX_ID_CACHE
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy, IndividualNames
from spanwire.broker.policy.policy_entry import (
    BUCKET_GROUPS,
    CACHED_GROUPS,
    DEFAULT_GROUPS,
    DEFAULT_SLOW_MS,
    MAX_SIMPLE_GROUPS,
    SIMPLE_GROUPS,
    AdvisoryPolicy,
    BridgePolicy,
    GroupMap,
    PolicyEntry,
    QueuePolicy,
    SlowConsumerPolicy,
)
from spanwire.broker.policy.topic_policy import (
    DEFAULT_KEPT_BYTES,
    DEFAULT_KEPT_COUNT,
    DEFAULT_KEPT_MS,
    DispatchPolicy,
    EvictionPolicy,
    PendingLimit,
    RecoveryPolicy,
    TopicPolicy,
)
from spanwire.broker.scheduler.schedule import MAX_DELAY_MS
from spanwire.model.destination import QUEUE as QUEUE_KIND
from spanwire.service.config.tables.attributes import (
    FLAG,
    MAX_INT,
    SIZE,
    STRIPPED,
    Attribute,
    AttributeTable,
    Kind,
    affix_of,
    clamped,
    number,
)
from spanwire.service.config.values.values import MAX_LONG, Settings

MAX_DAY_MS: Final = 24 * 3600 * 1000
MAX_GROUPS: Final = 1_000_000  # remembered message groups of one queue; take about 100 MiB
MAX_STARTERS: Final = 100_000  # consumers that a queue may wait for
MAX_RATE: Final = 1_000_000_000  # messages in one period; far above any real rate
GROUP_SIZES: Final = {BUCKET_GROUPS: "bucketCount", CACHED_GROUPS: "cacheSize"}
OF_CONSUMER: Final = "the consumer's own"
OF_USAGE: Final = "that of `systemUsage`"


def read_group_map(settings: Settings, name: str, default: Any) -> object:
    """Interpret ``cached``, ``cached?cacheSize=N``, ``bucket``, ``bucket?bucketCount=N`` or ``simple``."""
    text = settings.text(name) or CACHED_GROUPS
    kind, _, options = text.partition("?")
    kind = kind.lower()
    if kind == SIMPLE_GROUPS and not options:
        return GroupMap(kind, MAX_SIMPLE_GROUPS)
    option, _, value = options.partition("=")
    size = GROUP_SIZES.get(kind)
    if size is not None and not options:
        return GroupMap(kind, DEFAULT_GROUPS)
    if size is not None and option == size and value.isascii() and value.isdigit() and 0 < int(value) <= MAX_GROUPS:
        return GroupMap(kind, int(value))
    settings.error(
        f"{name} {text!r} is none of cached, cached?cacheSize=N, bucket, bucket?bucketCount=N, "
        f"simple (N from 1 to {MAX_GROUPS})"
    )
    return default


AFFIX: Final = affix_of(QUEUE_KIND, pattern=False)
GROUP_MAP: Final = Kind("`cached?cacheSize=N`, `bucket?bucketCount=N` or `simple`", read_group_map)

ENTRY: Final = AttributeTable(
    PolicyEntry,
    Attribute("memoryLimit", SIZE, "memory_limit_bytes", "the broker's limit alone"),
    Attribute("queuePrefetch", clamped("messages", 0, MAX_PREFETCH), "queue_prefetch", OF_CONSUMER),
    Attribute("topicPrefetch", clamped("messages", 0, MAX_PREFETCH + 1), "topic_prefetch", OF_CONSUMER),
    Attribute("queueBrowserPrefetch", clamped("messages", 0, MAX_PREFETCH), "queue_browser_prefetch", OF_CONSUMER),
    Attribute("usePrefetchExtension", FLAG, "prefetch_extension"),
    Attribute("expireMessagesPeriod", number("milliseconds", 0, MAX_DAY_MS), "expire_messages_period_ms"),
    Attribute("producerFlowControl", FLAG, "producer_flow_control"),
    Attribute("sendFailIfNoSpace", FLAG, "send_fail_if_no_space", OF_USAGE),
    Attribute("sendFailIfNoSpaceAfterTimeout", number("milliseconds", -1, MAX_INT), "send_fail_after_ms", OF_USAGE),
    Attribute(
        "blockedProducerWarningInterval", number("milliseconds", -1, MAX_INT), "blocked_producer_warning_interval_ms"
    ),
    Attribute("cursorMemoryHighWaterMark", number("percent", 1, 100), "cursor_memory_high_water_mark"),
    Attribute("storeUsageHighWaterMark", number("percent", 1, 100), "store_usage_high_water_mark"),
    Attribute("maxDestinations", number("destinations", -1, MAX_INT), "max_destinations", "no limit"),
    Attribute("gcInactiveDestinations", FLAG, "gc_inactive"),
    Attribute("inactiveTimoutBeforeGC", number("milliseconds", 1, MAX_LONG), "inactive_timeout_ms"),  # Classic's typo
    Attribute("inactiveTimeoutBeforeGC", number("milliseconds", 1, MAX_LONG), "inactive_timeout_ms"),
    Attribute("gcWithNetworkConsumers", FLAG, "gc_with_network_consumers"),
    Attribute("advancedMessageStatisticsEnabled", FLAG, "measures_messages"),
    Attribute("idCacheSize", number("ids", 0, MAX_ID_CACHE), "id_cache_size"),  # id-cache-size of Artemis
)
QUEUE: Final = AttributeTable(
    QueuePolicy,
    Attribute("prioritizedMessages", FLAG, "prioritized_messages"),
    Attribute("useConsumerPriority", FLAG, "use_consumer_priority"),
    Attribute("strictOrderDispatch", FLAG, "strict_order_dispatch"),
    Attribute("allConsumersExclusiveByDefault", FLAG, "all_consumers_exclusive"),
    Attribute("timeBeforeDispatchStarts", number("milliseconds", 0, MAX_DAY_MS), "time_before_dispatch_starts_ms"),
    Attribute(
        "consumersBeforeDispatchStarts", number("consumers", 0, MAX_STARTERS), "consumers_before_dispatch_starts"
    ),
    Attribute("lazyDispatch", FLAG, "lazy_dispatch"),
    Attribute("ringSize", number("messages", -1, MAX_INT), "ring_size", "no ring"),  # ring-size of Artemis
    Attribute("lastValue", FLAG, "last_value"),  # last-value of Artemis
    Attribute("lastValueKey", STRIPPED, "last_value_key", "`_AMQ_LVQ_NAME` with `lastValue`"),
    Attribute("messageGroupMapFactoryType", GROUP_MAP, "groups", f"`cached?cacheSize={DEFAULT_GROUPS}`"),
)
TOPIC: Final = AttributeTable(
    TopicPolicy,
    Attribute("durableTopicPrefetch", clamped("messages", 0, MAX_PREFETCH), "durable_prefetch", OF_CONSUMER),
    Attribute("alwaysRetroactive", FLAG, "always_retroactive"),
    Attribute("enableAudit", FLAG, "audits_copies"),
)
ADVISORIES: Final = AttributeTable(
    AdvisoryPolicy,
    Attribute("advisoryForDelivery", FLAG, "delivered"),
    Attribute("advisoryForDispatched", FLAG, "dispatched"),
    Attribute("advisoryForConsumed", FLAG, "consumed"),
    Attribute("advisoryForDiscardingMessages", FLAG, "discarded"),
    Attribute("advisoryForSlowConsumers", FLAG, "slow_consumers"),
    Attribute("advisoryForFastProducers", FLAG, "fast_producers"),
    Attribute("advisoryWhenFull", FLAG, "full"),
    Attribute("sendAdvisoryIfNoConsumers", FLAG, "no_consumers"),
    Attribute("includeBodyForAdvisory", FLAG, "whole_messages"),
)
PENDING_LIMIT: Final = AttributeTable(
    PendingLimit, Attribute("limit", number("messages", -1, MAX_INT), "messages", OF_CONSUMER)
)
EVICTION: Final = AttributeTable(
    EvictionPolicy, Attribute("evictExpiredMessagesHighWatermark", number("messages", 0, MAX_INT), "expired_mark")
)
EVICTION_BY_PROPERTY: Final = AttributeTable(
    EvictionPolicy, Attribute("propertyName", STRIPPED, "property_name", "required")
)
CLIENT_ID_FILTER: Final = AttributeTable(
    DispatchPolicy,
    Attribute("ptpClientId", STRIPPED, "client_id_property"),
    Attribute("ptpSuffix", STRIPPED, "name_suffix"),
)
RECOVERED_COUNT: Final = AttributeTable(
    RecoveryPolicy, Attribute("maximumSize", number("messages", 1, MAX_INT), "limit", f"`{DEFAULT_KEPT_COUNT}`")
)
RECOVERED_BYTES: Final = AttributeTable(
    RecoveryPolicy, Attribute("maximumSize", number("bytes", 1, MAX_INT), "limit", f"`{DEFAULT_KEPT_BYTES}`")
)
RECOVERED_TIME: Final = AttributeTable(
    RecoveryPolicy, Attribute("recoverDuration", number("milliseconds", 1, MAX_INT), "limit", f"`{DEFAULT_KEPT_MS}`")
)
BRIDGES: Final = AttributeTable(
    BridgePolicy,
    Attribute("replayWhenNoConsumers", FLAG, "replays"),
    Attribute("replayDelay", number("milliseconds", -MAX_DAY_MS, MAX_DAY_MS), "replay_delay_ms"),
    Attribute("rateLimit", number("messages", 0, MAX_RATE), "rate_limit"),
    Attribute("rateDuration", number("milliseconds", 1, MAX_DAY_MS), "rate_duration_ms"),
    Attribute("selectorAware", FLAG, "selector_aware"),
)
SLOW_CONSUMERS: Final = AttributeTable(
    SlowConsumerPolicy,
    Attribute("maxSlowCount", number("times", -1, MAX_INT), "max_slow_count"),
    Attribute("maxSlowDuration", number("milliseconds", -1, MAX_INT), "max_slow_ms"),
    Attribute("checkPeriod", number("milliseconds", 1, MAX_DAY_MS), "check_period_ms"),
    Attribute("abortConnection", FLAG, "abort_connection"),
    Attribute("ignoreNetworkConsumers", FLAG, "ignore_network_consumers"),
)
SLOW_ACKS: Final = AttributeTable(
    SlowConsumerPolicy,
    Attribute("maxTimeSinceLastAck", number("milliseconds", -1, MAX_INT), "max_since_ack_ms", f"`{DEFAULT_SLOW_MS}`"),
    Attribute("ignoreIdleConsumers", FLAG, "ignore_idle_consumers"),
)
DEAD_LETTERS: Final = AttributeTable(
    DeadLetterStrategy,
    Attribute("processExpired", FLAG, "process_expired"),
    Attribute("processNonPersistent", FLAG, "process_non_persistent"),
    Attribute("expiration", number("milliseconds", 0, MAX_DELAY_MS), "expiration_ms"),
)
INDIVIDUAL_NAMES: Final = AttributeTable(
    IndividualNames,
    Attribute("queuePrefix", AFFIX, "queue_prefix"),
    Attribute("topicPrefix", AFFIX, "topic_prefix"),
    Attribute("queueSuffix", AFFIX, "queue_suffix", "empty"),
    Attribute("topicSuffix", AFFIX, "topic_suffix", "empty"),
    Attribute("useQueueForQueueMessages", FLAG, "queue_for_queues"),
    Attribute("useQueueForTopicMessages", FLAG, "queue_for_topics"),
    Attribute("destinationPerDurableSubscriber", FLAG, "per_durable_subscriber"),
)
