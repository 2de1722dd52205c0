"""Options of ``failover:``, ``discovery:`` and ``fanout:`` URLs, with ActiveMQ's names."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from spanwire.client.addressing.options import DECIMAL, FLAG, NO_TIMEOUT, NUMBER, TEXT, Known, Options

CACHE_BYTES: Final = 128 * 1024  # bytes of one-way sends that trackMessages keeps; ActiveMQ's default
MAX_ACK_COUNT: Final = 64  # brokers of one fanout: URL

logger = logging.getLogger(__name__)

RECONNECT: Final[Known] = {
    "backOffMultiplier": (DECIMAL, ""),
    "initialReconnectDelay": (NUMBER, ""),
    "maxReconnectAttempts": (NUMBER, ""),
    "maxReconnectDelay": (NUMBER, ""),
    "reconnectDelayExponent": (DECIMAL, ""),  # ActiveMQ's other name of backOffMultiplier
    "useExponentialBackOff": (FLAG, ""),
    "warnAfterReconnectAttempts": (NUMBER, ""),
}
FAILOVER: Final[Known] = {
    **RECONNECT,
    "backup": (FLAG, ""),
    "backupPoolSize": (NUMBER, ""),
    "maxCacheSize": (NUMBER, ""),
    "maxPullCacheSize": (NUMBER, ""),
    "nestedExtraQueryOptions": (TEXT, "none"),
    "priorityBackup": (FLAG, ""),
    "priorityURIs": (TEXT, ""),
    "randomize": (FLAG, ""),
    "rebalanceUpdateURIs": (FLAG, ""),
    "reconnectDelay": (NUMBER, ""),
    "reconnectSupported": (FLAG, ""),
    "startupMaxReconnectAttempts": (NUMBER, ""),
    "timeout": (NUMBER, ""),
    "trackMessages": (FLAG, ""),
    "trackTransactionProducers": (FLAG, ""),
    "updateURIsSupported": (FLAG, ""),
    "updateURIsURL": (TEXT, "none"),
    "useReconnectDelay": (FLAG, "true"),
}
FANOUT: Final[Known] = {**RECONNECT, "fanOutQueues": (FLAG, ""), "minAckCount": (NUMBER, "")}
DISCOVERY: Final[Known] = {"sendLoginToDiscovered": (FLAG, "")}


@dataclass(frozen=True)
class ReconnectPolicy:
    """ActiveMQ's failover options. -1 attempts stand for no limit, 0 attempts for no reconnect.

    ``priority`` are preferred URLs; without them the first address is preferred. ``cache_bytes`` of one-way sends are
    kept for the next broker. ``tells`` logs each address. ``keeps_producers`` replays open transactions with sends of
    closed producers.
    """

    initial_delay_ms: int = 10
    max_delay_ms: int = 30_000
    use_exponential_back_off: bool = True
    back_off_multiplier: float = 2.0
    max_attempts: int = -1
    startup_max_attempts: int = -1
    randomize: bool = True
    timeout_ms: int = NO_TIMEOUT
    warn_after: int = 10  # attempts between two lines in the log
    prefers: bool = False
    priority: tuple[str, ...] = ()
    takes_updates: bool = True
    takes_rebalance: bool = True
    cache_bytes: int = 0
    tells: bool = False
    keeps_producers: bool = True


NO_RECONNECT: Final = ReconnectPolicy(
    max_attempts=0, startup_max_attempts=0, randomize=False, takes_updates=False, takes_rebalance=False
)


@dataclass(frozen=True)
class FanoutPolicy:
    """Options of ``fanout:``.

    ``min_ack_count`` brokers must be connected before a send, and must answer each request.
    """

    min_ack_count: int = 2
    fan_out_queues: bool = False


def reconnect_policy(options: Options, randomize: bool = True, tells: bool = False) -> ReconnectPolicy:
    """Return the options of ``failover:``. ``randomize`` is the default of the option of this name."""
    base = ReconnectPolicy()
    attempts = options.number("maxReconnectAttempts", base.max_attempts, -1)
    if not options.flag("reconnectSupported", True):
        attempts = 0
    startup = options.number("startupMaxReconnectAttempts", -1, -1)
    multiplier = options.decimal("reconnectDelayExponent", base.back_off_multiplier)
    if options.flag("backup", False):
        logger.warning("%s: backup has no effect: no connection is kept in reserve", options.where)
    priority = options.words("priorityURIs")
    return ReconnectPolicy(
        initial_delay_ms=options.number("initialReconnectDelay", base.initial_delay_ms),
        max_delay_ms=options.number("maxReconnectDelay", base.max_delay_ms),
        use_exponential_back_off=options.flag("useExponentialBackOff", base.use_exponential_back_off),
        back_off_multiplier=options.decimal("backOffMultiplier", multiplier),
        max_attempts=attempts,
        startup_max_attempts=attempts if startup < 0 else startup,
        randomize=options.flag("randomize", randomize),
        timeout_ms=options.number("timeout", base.timeout_ms, NO_TIMEOUT),
        warn_after=options.number("warnAfterReconnectAttempts", base.warn_after, -1),
        prefers=options.flag("priorityBackup", bool(priority)) and attempts != 0,
        priority=priority,
        takes_updates=options.flag("updateURIsSupported", True) and attempts != 0,
        takes_rebalance=options.flag("rebalanceUpdateURIs", True) and attempts != 0,
        cache_bytes=options.number("maxCacheSize", CACHE_BYTES) if options.flag("trackMessages", False) else 0,
        tells=tells,
        keeps_producers=options.flag("trackTransactionProducers", True),
    )


def fanout_policy(options: Options) -> FanoutPolicy:
    """Return the options that only ``fanout:`` has."""
    base = FanoutPolicy()
    return FanoutPolicy(
        min_ack_count=options.number("minAckCount", base.min_ack_count, 1, MAX_ACK_COUNT),
        fan_out_queues=options.flag("fanOutQueues", base.fan_out_queues),
    )
