"""Interprets the settings of a ``policyEntry`` for topics and slow consumers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spanwire.broker.policy.policy_entry import DEFAULT_SLOW_MS, SlowConsumerPolicy
from spanwire.broker.policy.topic_policy import (
    CLIENT_ID_FILTER,
    DEFAULT_KEPT_BYTES,
    DEFAULT_KEPT_COUNT,
    DEFAULT_KEPT_MS,
    DEFAULT_MULTIPLIER,
    FIXED_COUNT,
    FIXED_SIZE,
    LAST_IMAGE,
    LOWEST_PRIORITY,
    OLDEST,
    PRIORITY,
    PRIORITY_NETWORK,
    RETAINED,
    TIMED,
    UNIQUE_PROPERTY,
    DispatchPolicy,
    EvictionPolicy,
    PendingLimit,
    RecoveryPolicy,
    TopicPolicy,
)
from spanwire.documents.element import Element
from spanwire.service.config.security.security import Inner
from spanwire.service.config.tables import attribute_table as words
from spanwire.service.config.tables import policy_attributes as attributes
from spanwire.service.config.tables.attributes import AttributeTable
from spanwire.service.config.tables.handling import Words
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import Settings, as_flag

MAX_DAY_MS: Final = 24 * 3600 * 1000
MAX_MULTIPLIER: Final = 10_000.0  # highest multiple of the prefetch
MULTIPLIER: Final = re.compile(r"[0-9]{1,5}(\.[0-9]{1,9})?", re.ASCII)
EVICTIONS: Final[dict[str, Words]] = {
    OLDEST: words.OLDEST,
    LOWEST_PRIORITY: words.OLDEST,
    UNIQUE_PROPERTY: words.UNIQUE_PROPERTY,
}
RECOVERIES: Final[dict[str, Words]] = {
    "noSubscriptionRecoveryPolicy": words.RECOVERY_WITHOUT_SETTINGS,
    FIXED_COUNT: words.FIXED_COUNT,
    FIXED_SIZE: words.FIXED_SIZE,
    LAST_IMAGE: words.RECOVERY_WITHOUT_SETTINGS,
    TIMED: words.TIMED,
    RETAINED: words.RETAINED,
}
LIMITS: Final[dict[str, tuple[AttributeTable, int]]] = {
    FIXED_COUNT: (attributes.RECOVERED_COUNT, DEFAULT_KEPT_COUNT),
    FIXED_SIZE: (attributes.RECOVERED_BYTES, DEFAULT_KEPT_BYTES),
    TIMED: (attributes.RECOVERED_TIME, DEFAULT_KEPT_MS),
}
OF_TOPICS_ALONE: Final = {
    "pendingMessageLimitStrategy": "a queue keeps its messages",
    "messageEvictionStrategy": "a queue keeps its messages",
    "subscriptionRecoveryPolicy": "a queue has no messages for consumers to come",
}


@dataclass(frozen=True, slots=True)
class TopicPolicyInterpreter:
    """Interprets the topic settings of an entry."""

    findings: Findings
    inner: Inner

    def topic_policy(self, entry: Element) -> TopicPolicy:
        """Return the topic settings of an entry; warn about topic settings in an entry for queues."""
        settings = Settings(entry, self.findings)
        values = attributes.TOPIC.values(settings)
        if "queue" in entry.attributes or as_flag(entry.value("tempQueue") or ""):
            self.inner(entry, "dispatchPolicy", words.DISPATCH)
            for name, reason in OF_TOPICS_ALONE.items():
                child = entry.child(name)
                if child is not None:
                    self.findings.warn(child.line, f"<{name}> has no effect: {reason}")
            return TopicPolicy(**{**values, "audits_copies": True})  # only a topic can tell copies apart
        return TopicPolicy(
            recovery=self._recovery(entry, "subscriptionRecoveryPolicy"),
            pending_limit=self._pending_limit(entry),
            eviction=self._eviction(entry),
            dispatch=self._dispatch(entry),
            **values,
        )

    def _dispatch(self, entry: Element) -> DispatchPolicy | None:
        policy: DispatchPolicy | None = None
        for element in self.inner(entry, "dispatchPolicy", words.DISPATCH):
            for kind in (PRIORITY, PRIORITY_NETWORK):
                if self.inner(element, kind, words.WITHOUT_SETTINGS):
                    policy = DispatchPolicy(kind)
            for chosen in self.inner(element, CLIENT_ID_FILTER, words.CLIENT_ID_FILTER):
                values = attributes.CLIENT_ID_FILTER.values(Settings(chosen, self.findings))
                policy = DispatchPolicy(CLIENT_ID_FILTER, **values)
        return policy

    def slow_consumers(self, entry: Element) -> SlowConsumerPolicy | None:
        """Return the strategy for slow consumers, or None."""
        policy: SlowConsumerPolicy | None = None
        for element in self.inner(entry, "slowConsumerStrategy", words.SLOW_CONSUMERS):
            for slow in self.inner(element, "abortSlowConsumerStrategy", words.ABORT_SLOW):
                policy = SlowConsumerPolicy(**attributes.SLOW_CONSUMERS.values(Settings(slow, self.findings)))
            for slow in self.inner(element, "abortSlowAckConsumerStrategy", words.ABORT_SLOW_ACK):
                settings = Settings(slow, self.findings)
                values = {"max_since_ack_ms": DEFAULT_SLOW_MS, **attributes.SLOW_CONSUMERS.values(settings)}
                policy = SlowConsumerPolicy(**{**values, **attributes.SLOW_ACKS.values(settings)})
        return policy

    def _pending_limit(self, entry: Element) -> PendingLimit | None:
        limit: PendingLimit | None = None
        for element in self.inner(entry, "pendingMessageLimitStrategy", words.PENDING_LIMIT):
            for constant in self.inner(element, "constantPendingMessageLimitStrategy", words.CONSTANT_LIMIT):
                limit = PendingLimit(**attributes.PENDING_LIMIT.values(Settings(constant, self.findings)))
            for rate in self.inner(element, "prefetchRatePendingMessageLimitStrategy", words.PREFETCH_RATE):
                limit = PendingLimit(multiplier=self._multiplier(rate))
        return limit

    def _multiplier(self, element: Element) -> float:
        text = Settings(element, self.findings).text("multiplier")
        if text is None:
            return DEFAULT_MULTIPLIER
        if not MULTIPLIER.fullmatch(text) or float(text) > MAX_MULTIPLIER:
            self.findings.error(
                element.attributes["multiplier"].line,
                f"multiplier of <{element.name}> is {text[:40]!r}, it must be a number such as 0.5, at most "
                f"{MAX_MULTIPLIER:.0f}",
            )
            return DEFAULT_MULTIPLIER
        return float(text)

    def _eviction(self, entry: Element) -> EvictionPolicy:
        policy = EvictionPolicy()
        for element in self.inner(entry, "messageEvictionStrategy", words.EVICTION):
            for kind, table in EVICTIONS.items():
                for strategy in self.inner(element, kind, table):
                    settings = Settings(strategy, self.findings)
                    values = attributes.EVICTION.values(settings)
                    if kind == UNIQUE_PROPERTY:
                        values |= attributes.EVICTION_BY_PROPERTY.values(settings)
                        if not values.get("property_name"):
                            self.findings.error(strategy.line, f"<{kind}> has no propertyName")
                    policy = EvictionPolicy(kind, **values)
        return policy

    def _recovery(self, holder: Element, name: str) -> RecoveryPolicy | None:
        """Return one recovery policy; for a retained-message policy with a wrapped policy, the wrapped policy.

        Retained messages are kept beside any other policy, so the outer policy has no further effect.
        """
        recovery_policy: RecoveryPolicy | None = None
        for element in self.inner(holder, name, words.RECOVERY):
            for kind, table in RECOVERIES.items():
                for policy in self.inner(element, kind, table):
                    recovery_policy = self._one_recovery(kind, policy)
                    if kind == RETAINED and policy.child("wrapped") is not None:
                        recovery_policy = self._recovery(policy, "wrapped") or recovery_policy
        return recovery_policy

    def _one_recovery(self, kind: str, element: Element) -> RecoveryPolicy | None:
        settings = Settings(element, self.findings)
        if kind in LIMITS:
            table, default = LIMITS[kind]
            return RecoveryPolicy(kind, table.values(settings).get("limit", default))
        return RecoveryPolicy(kind) if kind in (LAST_IMAGE, RETAINED) else None
