"""Kinds of definitions: the fields with the name of an object, and the other fields with defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Value = bool | int | str | list[str] | dict[str, str]
Values = dict[str, Value]
Key = tuple[str, ...]
LEFT_OUT: Final = "left_out"
STARTED: Final = "started"
SETTINGS: Final = "settings"
WARNING_MS: Final = 30_000  # blockedProducerWarningInterval of a destination without a policy


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. ``keys`` are texts; a field without a value in a document has the default."""

    name: str
    plural: str
    keys: tuple[str, ...]
    defaults: Values

    def title(self, key: Key) -> str:
        """Return the name of an object for people."""
        return " ".join([self.name.replace("_", " "), *key])


# A document says only those that it wants to set.
LIMITS: Final = Kind(
    "limits",
    "limits",
    (),
    {"memory_limit_bytes": 0, "store_limit_bytes": 0, "temporary_limit_bytes": 0, "maximum_uncommitted": 0},
)
DESTINATION: Final[Values] = {
    "memory_limit_bytes": 0,
    "producer_flow_control": True,
    "blocked_warning_ms": WARNING_MS,
    "statistics_enabled": False,
}
QUEUE: Final = Kind("queue", "queues", ("name",), {"paused": False, **DESTINATION})
TOPIC: Final = Kind("topic", "topics", ("name",), {**DESTINATION, "audits_copies": True})
SUBSCRIPTION: Final = Kind(
    "subscription", "subscriptions", ("client_id", "name"), {"topic": "", "selector": "", "no_local": False}
)
CONNECTOR: Final = Kind("connector", "connectors", ("name",), {"uri": "", STARTED: True, SETTINGS: {}, LEFT_OUT: []})
LISTS: Final = ("excludedDestinations", "dynamicallyIncludedDestinations", "staticallyIncludedDestinations")
NETWORK_CONNECTOR: Final = Kind(
    "network_connector",
    "network connectors",
    ("name",),
    {"uri": "", STARTED: True, SETTINGS: {}, **{name: [] for name in LISTS}, LEFT_OUT: []},
)
STRATEGY: Final = Kind(
    "strategy",
    "strategies for slow consumers",
    ("name",),
    {"max_slow_count": -1, "max_slow_ms": 30_000, "max_since_ack_ms": 0, "ignores_idle": True, "ignores_network": True},
)
BRIDGE: Final = Kind("bridge", "bridges", ("name",), {"paused": False})
LOGGER: Final = Kind("logger", "loggers", ("name",), {"level": "info"})
# In the order in which they are made: a subscription needs its topic, and clients come when all is there.
KINDS: Final = {
    kind.name: kind
    for kind in (
        LIMITS,
        QUEUE,
        TOPIC,
        SUBSCRIPTION,
        STRATEGY,
        BRIDGE,
        LOGGER,
        CONNECTOR,
        NETWORK_CONNECTOR,
    )
}
