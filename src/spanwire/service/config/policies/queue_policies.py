"""Interprets the settings of a ``policyEntry`` for the dispatch of queues."""

from __future__ import annotations

from typing import Final

from spanwire.broker.policy.policy_entry import (
    BUCKET_GROUPS,
    CACHED_GROUPS,
    DEFAULT_GROUPS,
    MAX_SIMPLE_GROUPS,
    SIMPLE_GROUPS,
    GroupMap,
    QueuePolicy,
)
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import Settings

MAX_GROUPS: Final = 1_000_000  # remembered message groups of one queue; take about 100 MiB
MAX_START_MS: Final = 24 * 3600 * 1000
MAX_STARTERS: Final = 100_000
SIZES: Final = {BUCKET_GROUPS: "bucketCount", CACHED_GROUPS: "cacheSize"}


def queue_policy(settings: Settings, findings: Findings) -> QueuePolicy:
    """Return the queue settings of an entry."""
    return QueuePolicy(
        prioritized_messages=settings.flag("prioritizedMessages", False),
        use_consumer_priority=settings.flag("useConsumerPriority", True),
        strict_order_dispatch=settings.flag("strictOrderDispatch", False),
        all_consumers_exclusive=settings.flag("allConsumersExclusiveByDefault", False),
        time_before_dispatch_starts_ms=settings.number("timeBeforeDispatchStarts", 0, 0, MAX_START_MS),
        consumers_before_dispatch_starts=settings.number("consumersBeforeDispatchStarts", 0, 0, MAX_STARTERS),
        lazy_dispatch=settings.flag("lazyDispatch", False),
        groups=group_map(settings, findings),
    )


def group_map(settings: Settings, findings: Findings) -> GroupMap:
    """Interpret ``cached``, ``cached?cacheSize=N``, ``bucket``, ``bucket?bucketCount=N`` or ``simple``."""
    text = settings.text("messageGroupMapFactoryType") or CACHED_GROUPS
    kind, _, options = text.partition("?")
    kind = kind.lower()
    if kind == SIMPLE_GROUPS and not options:
        return GroupMap(kind, MAX_SIMPLE_GROUPS)
    name, _, value = options.partition("=")
    if kind in SIZES and not options:
        return GroupMap(kind, DEFAULT_GROUPS)
    if kind in SIZES and name == SIZES[kind] and value.isascii() and value.isdigit() and 0 < int(value) <= MAX_GROUPS:
        return GroupMap(kind, int(value))
    findings.error(
        settings.element.line,
        f"messageGroupMapFactoryType {text!r} is none of cached, cached?cacheSize=N, bucket, bucket?bucketCount=N, "
        f"simple (N from 1 to {MAX_GROUPS})",
    )
    return GroupMap()
