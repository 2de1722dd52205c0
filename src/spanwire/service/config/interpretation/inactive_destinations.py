"""Interprets the attributes of ``broker`` about the removal of unused objects."""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.inactive_destinations import DEFAULT_OFFLINE_CHECK_MS, NEVER, UpkeepSettings
from spanwire.service.config.values.values import Settings

MAX_INT: Final = 2**31 - 1
MAX_PERIOD_MS: Final = 365 * 24 * 3600 * 1000  # a year


def upkeep(settings: Settings) -> UpkeepSettings:
    """Return the settings for removing idle destinations and inactive durable subscriptions; never by default."""
    return UpkeepSettings(
        settings.number("schedulePeriodForDestinationPurge", 0, 0, MAX_INT),
        settings.number("maxPurgedDestinationsPerSweep", 0, 0, MAX_INT),
        settings.number("offlineDurableSubscriberTimeout", NEVER, NEVER, MAX_PERIOD_MS),
        settings.number("offlineDurableSubscriberTaskSchedule", DEFAULT_OFFLINE_CHECK_MS, NEVER, MAX_PERIOD_MS),
        settings.flag("enableMessageExpirationOnActiveDurableSubs", False),
    )
