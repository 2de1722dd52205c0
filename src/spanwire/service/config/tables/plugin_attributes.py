"""Attributes of the plug-ins inside of ``plugins``."""

from __future__ import annotations

from typing import Final

from spanwire.broker.plugins.discarding_plugin import DiscardingSettings
from spanwire.broker.plugins.event_log import EventLogSettings
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.plugins.redelivery_plugin import (
    LEAST_DELAY_MS,
    NO_MAXIMUM,
    RedeliveryPolicy,
    RedeliverySettings,
)
from spanwire.broker.plugins.timestamp_plugin import TimeStampSettings
from spanwire.broker.scheduler.schedule import MAX_DELAY_MS
from spanwire.service.config.model import RuntimeSettings
from spanwire.service.config.tables.attributes import FLAG, MAX_INT, Attribute, AttributeTable, number

MAX_PERIOD_MS: Final = 24 * 3600 * 1000  # milliseconds between two checks of the configuration; a day
DELAY: Final = number("milliseconds", LEAST_DELAY_MS, MAX_DELAY_MS)

DISCARDING: Final = AttributeTable(
    DiscardingSettings,
    Attribute("dropAll", FLAG, "drop_all"),
    Attribute("dropTemporaryTopics", FLAG, "drop_temporary_topics"),
    Attribute("dropTemporaryQueues", FLAG, "drop_temporary_queues"),
    Attribute("reportInterval", number("messages", 0, MAX_INT), "report_interval"),
)
PERSISTENCE: Final = AttributeTable(PluginSettings, Attribute("persistenceFlag", FLAG, "persistent", "`false`"))
USER_NAMES: Final = AttributeTable(PluginSettings, Attribute("populateJMSXUserID", FLAG, "names_user"))
RUNTIME: Final = AttributeTable(
    RuntimeSettings, Attribute("checkPeriod", number("milliseconds", 0, MAX_PERIOD_MS), "check_period_ms", "on request")
)
TIME_STAMPS: Final = AttributeTable(
    TimeStampSettings,
    Attribute("zeroExpirationOverride", number("milliseconds", 0, MAX_DELAY_MS), "zero_expiration_ms", "off"),
    Attribute("ttlCeiling", number("milliseconds", 0, MAX_DELAY_MS), "ttl_ceiling_ms", "off"),
    Attribute("futureOnly", FLAG, "future_only"),
    Attribute("processNetworkMessages", FLAG, "network_messages"),
)
EVENT_LOG: Final = AttributeTable(
    EventLogSettings,
    Attribute("logAll", FLAG, "everything"),
    Attribute("logConnectionEvents", FLAG, "connections"),
    Attribute("logSessionEvents", FLAG, "sessions"),
    Attribute("logProducerEvents", FLAG, "producers"),
    Attribute("logConsumerEvents", FLAG, "consumers"),
    Attribute("logTransactionEvents", FLAG, "transactions"),
    Attribute("logInternalEvents", FLAG, "internal"),
    Attribute("perDestinationLogger", FLAG, "per_destination"),
)
REDELIVERY: Final = AttributeTable(
    RedeliverySettings,
    Attribute("fallbackToDeadLetter", FLAG, "falls_back"),
    Attribute("sendToDlqIfMaxRetriesExceeded", FLAG, "dead_letter_in_the_end"),
)
REDELIVERY_POLICY: Final = AttributeTable(
    RedeliveryPolicy,
    Attribute("maximumRedeliveries", number("times", NO_MAXIMUM, MAX_INT), "maximum_redeliveries"),
    Attribute("initialRedeliveryDelay", DELAY, "initial_delay_ms"),
    Attribute("redeliveryDelay", DELAY, "delay_ms"),
    Attribute("maximumRedeliveryDelay", number("milliseconds", -1, MAX_DELAY_MS), "maximum_delay_ms", "no limit"),
    Attribute("useExponentialBackOff", FLAG, "exponential"),
    Attribute("useCollisionAvoidance", FLAG, "collision_avoidance"),
    Attribute("collisionAvoidancePercent", number("percent", 0, 100), "collision_percent"),
)
