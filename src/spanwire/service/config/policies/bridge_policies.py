"""Interprets the settings of a ``policyEntry`` for bridges that consume from its queues."""

from __future__ import annotations

from typing import Final

from spanwire.broker.policy.policy_entry import DEFAULT_RATE_DURATION_MS, BridgePolicy
from spanwire.documents.element import Element
from spanwire.service.config.security.security import Inner
from spanwire.service.config.tables import attribute_table as words
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import Settings

MAX_DELAY_MS: Final = 24 * 3600 * 1000
MAX_RATE: Final = 1_000_000_000  # messages in one period; far above any real rate


def bridge_policy(entry: Element, inner: Inner, findings: Findings) -> BridgePolicy | None:
    """Return the last ``conditionalNetworkBridgeFilterFactory`` of an entry; None if missing or without effect."""
    policy: BridgePolicy | None = None
    for factory in inner(entry, "networkBridgeFilterFactory", words.BRIDGE_FILTERS):
        inner(factory, "defaultNetworkBridgeFilterFactory", words.WITHOUT_SETTINGS)  # the default behaviour
        for element in inner(factory, "conditionalNetworkBridgeFilterFactory", words.CONDITIONAL_BRIDGE_FILTER):
            settings = Settings(element, findings)
            policy = BridgePolicy(
                replays=settings.flag("replayWhenNoConsumers", False),
                replay_delay_ms=settings.number("replayDelay", 0, -MAX_DELAY_MS, MAX_DELAY_MS),
                rate_limit=settings.number("rateLimit", 0, 0, MAX_RATE),
                rate_duration_ms=settings.number("rateDuration", DEFAULT_RATE_DURATION_MS, 1, MAX_DELAY_MS),
                selector_aware=settings.flag("selectorAware", False),
            )
    return None if policy is None or not (policy.replays or policy.rate_limit) else policy
