"""Interprets options of ``failover:(uri,uri)``, a network connector's link to one of several brokers.

ActiveMQ's failover transport honours the options. Spanwire's network connector reconnects by the options of the
connector, and messages wait in queues meanwhile. So most options are fulfilled already or have no effect.
"""

from __future__ import annotations

from typing import Final

from spanwire.service.config.tables.uri_options import FLAG, NUMBERS, TEXT
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import NUMBER, as_flag

NESTED: Final = "nested."
RANDOMIZE: Final = "randomize"
PRIORITY: Final = "priorityBackup"
DECIMAL: Final = "a number"
STATIC: Final = "the options of static: decide when the link is retried"
WAITS: Final = "messages wait in their queues while the link is down"
ORDERED: Final = "the brokers are tried in their order, and an active link stays"
UNACKNOWLEDGED: Final = "unacknowledged messages stay in their queue and are sent again"
LISTED: Final = "the link goes to brokers of this list alone"
# name → (kind of value, fulfilled values, reason why other values have no effect)
FIXED: Final[dict[str, tuple[str, tuple[str, ...], str]]] = {
    "backOffMultiplier": (DECIMAL, (), STATIC),
    "backup": (FLAG, ("false",), "no connection is kept in reserve"),
    "backupPoolSize": (NUMBERS, (), "no connection is kept in reserve"),
    "initialReconnectDelay": (NUMBERS, (), STATIC),
    "maxCacheSize": (NUMBERS, (), UNACKNOWLEDGED),
    "maxPullCacheSize": (NUMBERS, (), UNACKNOWLEDGED),
    "maxReconnectAttempts": (NUMBERS, ("0",), STATIC),
    "maxReconnectDelay": (NUMBERS, (), STATIC),
    "minConnectTime": (NUMBERS, (), STATIC),
    PRIORITY: (FLAG, ("false",), ORDERED),
    "nestedExtraQueryOptions": (TEXT, (), "write the options behind each address, or with nested. before them"),
    "priorityURIs": (TEXT, (), ORDERED),
    RANDOMIZE: (FLAG, ("true", "false"), ""),
    "rebalanceUpdateURIs": (FLAG, ("false",), LISTED),
    "reconnectDelay": (NUMBERS, (), STATIC),
    "reconnectDelayExponent": (DECIMAL, (), STATIC),
    "reconnectSupported": (FLAG, ("true",), STATIC),
    "startupMaxReconnectAttempts": (NUMBERS, ("0",), STATIC),
    "timeout": (NUMBERS, ("-1",), WAITS),
    "trackMessages": (FLAG, ("true", "false"), ""),
    "trackTransactionProducers": (FLAG, ("true", "false"), ""),
    "updateURIsSupported": (FLAG, ("false",), LISTED),
    "updateURIsURL": (TEXT, ("none",), LISTED),
    "useExponentialBackOff": (FLAG, (), STATIC),
    "useReconnectDelay": (FLAG, ("true",), STATIC),
    "warnAfterReconnectAttempts": (NUMBERS, (), "each attempt that fails for a new reason is worth a line"),
}


class FailoverOptions:
    """The options of a ``failover:`` URI; faults and ineffective options are in ``findings``."""

    def __init__(self, query: str, line: int, findings: Findings) -> None:
        self._nested: Final[list[str]] = []
        self._values: Final[dict[str, str]] = {}
        for pair in (part for part in query.split("&") if part):
            name, _, value = pair.partition("=")
            value = value.strip()
            if name.startswith(NESTED):
                self._nested.append(pair.removeprefix(NESTED))
            elif name not in FIXED:
                findings.unknown(line, "option of failover:", name, FIXED, spelt=True)
            else:
                self._take(name, value, line, findings)

    def _take(self, name: str, value: str, line: int, findings: Findings) -> None:
        kind, holds, reason = FIXED[name]
        if not _is_of_kind(kind, value):
            findings.error(line, f"the option {name} of failover: must be {kind}")
            return
        self._values[name] = value.lower()
        if value.lower() not in holds:
            findings.warn(line, f"the option {name} of failover: has no effect in a network connector: {reason}")

    @property
    def shuffles(self) -> bool:
        """Return True if the brokers are tried in any order; preferred brokers fix the order."""
        if self._values.get(PRIORITY) == "true" or "priorityURIs" in self._values:
            return False
        return self._values.get(RANDOMIZE, "true") == "true"

    def nested(self, uri: str) -> str:
        """Return the URI of a broker with the options for all brokers."""
        if not self._nested:
            return uri
        return f"{uri}{'&' if '?' in uri else '?'}{'&'.join(self._nested)}"


def _is_of_kind(kind: str, value: str) -> bool:
    if kind == FLAG:
        return as_flag(value) is not None
    if kind == NUMBERS:
        return NUMBER.fullmatch(value) is not None
    return kind == TEXT or value.replace(".", "", 1).isdecimal()
