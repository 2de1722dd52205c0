"""Parameters of a JMS bridge with the names, meanings and limits of ActiveMQ Artemis and HornetQ.

Files of bridges in TOML and ``jmsBridge`` of route files have the same parameters, defaults and limits:

- ``failureRetryInterval``: milliseconds between two attempts; -1 for pauses that grow, with ``maxRetries`` -1 or 0.
- ``maxRetries``: attempts in a row after a failure; -1 for no limit.
- ``failoverTimeout``: milliseconds after the loss of a broker in which attempts do not count as retries.
- ``messageIDHeader``: the property with the list of ids that ``addMessageIDInHeader`` appends to.
- ``maxBatchTime``: milliseconds without a new message after which a smaller batch is sent; -1 for full batches alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spanwire.routes.readers.nodes import Mapping

ID_LIST: Final = "ACTIVEMQ_BRIDGE_MSG_ID_LIST"  # property of addMessageIDInHeader
FOREVER: Final = -1
DEFAULT_INTERVAL_MS: Final = 1_000  # milliseconds between two attempts to connect
MAX_BATCH_SIZE: Final = 100_000  # messages; in the broker's memory until the commit
MAX_MS: Final = 3_600_000  # milliseconds; an hour, beyond which a mistake in the unit is likely
MAX_RETRIES: Final = 1_000_000
BOOLEANS: Final = {"true": True, "false": False}
# Parameters of both kinds of files; each kind has its own words for source and target.
WORDS: Final = (
    "sourceUsername",
    "sourcePassword",
    "targetUsername",
    "targetPassword",
    "selector",
    "failureRetryInterval",
    "maxRetries",
    "qualityOfServiceMode",
    "maxBatchSize",
    "maxBatchTime",
    "subscriptionName",
    "clientID",
    "addMessageIDInHeader",
    "messageIDHeader",
    "failoverTimeout",
)
PROPERTY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class BridgeParameters:
    """The numbers and flags of a bridge. None stands for a parameter without a value."""

    max_retries: int
    interval_ms: int
    batch_size: int | None
    quiet_ms: int | None
    appends_id: bool
    id_list: str = ID_LIST
    failover_ms: int = 0


def read_parameters(words: Mapping) -> BridgeParameters:
    """Return the parameters of a bridge.

    Raises:
        ConfigurationError: a parameter is no number within the limits, or does not fit another parameter.
    """
    retries = _number(words, "maxRetries", FOREVER, FOREVER, MAX_RETRIES)
    interval_ms = _number(words, "failureRetryInterval", DEFAULT_INTERVAL_MS, FOREVER, MAX_MS)
    if interval_ms == 0 or (interval_ms == FOREVER and retries > 0):
        raise words.entries["failureRetryInterval"].location.error(
            f"failureRetryInterval is {interval_ms}; it must be at least 1, or -1 with maxRetries -1 or 0 for pauses "
            "that grow from 1 s to 60 s"
        )
    return BridgeParameters(
        retries,
        interval_ms,
        _batch_size(words),
        _quiet_time(words),
        _appends_id(words),
        _id_list(words),
        _number(words, "failoverTimeout", 0, 0, MAX_MS),
    )


def _batch_size(words: Mapping) -> int | None:
    if words.text("maxBatchSize") is None:
        return None
    return _number(words, "maxBatchSize", 1, 1, MAX_BATCH_SIZE)


def _quiet_time(words: Mapping) -> int | None:
    if words.text("maxBatchTime") is None:
        return None
    millis = _number(words, "maxBatchTime", FOREVER, FOREVER, MAX_MS)
    if millis == 0:
        raise words.entries["maxBatchTime"].location.error("maxBatchTime is 0; it must be -1 or at least 1")
    return millis


def _appends_id(words: Mapping) -> bool:
    text = words.text("addMessageIDInHeader")
    value = BOOLEANS.get("false" if text is None else text.lower())
    if value is None:
        location = words.entries["addMessageIDInHeader"].location
        raise location.error(f"addMessageIDInHeader is {(text or '')[:60]!r}, neither true nor false")
    return value


def _id_list(words: Mapping) -> str:
    name = words.text("messageIDHeader")
    if name is None:
        return ID_LIST
    location = words.entries["messageIDHeader"].location
    if PROPERTY.fullmatch(name) is None or name.startswith("JMS"):
        raise location.error(f"messageIDHeader is {name[:60]!r}; write letters, digits, _ and $, and no name of JMS")
    if not _appends_id(words):
        raise location.error("messageIDHeader is for addMessageIDInHeader = true; set that, or remove it")
    return name


def _number(words: Mapping, name: str, default: int, low: int, high: int) -> int:
    text = words.text(name)
    if text is None:
        return default
    location = words.entries[name].location
    try:
        value = int(text)
    except ValueError:
        raise location.error(f"{name} is {text[:60]!r}, not a whole number") from None
    if not low <= value <= high:
        raise location.error(f"{name} is {value}; it must lie between {low} and {high}")
    return value
