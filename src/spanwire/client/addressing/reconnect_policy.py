"""What the options of ``failover:``, ``discovery:`` and ``fanout:`` mean; their names are ActiveMQ's."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from spanwire.client.addressing.options import DECIMAL, FLAG, NO_TIMEOUT, NUMBER, TEXT, Known, Options

CACHE_BYTES: Final = 128 * 1024  # of one-way sends that trackMessages keeps for the next broker, ActiveMQ's default
MAX_ACK_COUNT: Final = 64  # brokers of one fanout: URL

logger = logging.getLogger(__name__)

RECONNECT: Final[Known] = {
    "backOffMultiplier": (DECIMAL, ""),
    "initialReconnectDelay": (NUMBER, ""),
    "maxReconnectAttempts": (NUMBER, ""),
    "maxReconnectDelay": (NUMBER, ""),
    "reconnectDelayExponent": (DECIMAL, ""),  # backOffMultiplier, as ActiveMQ's code calls it
    "useExponentialBackOff": (FLAG, ""),
    "warnAfterReconnectAttempts": (NUMBER, ""),
}
FAILOVER: Final[Known] = {
    **RECONNECT,
    "backup": (FLAG, ""),
    "backupPoolSize": (NUMBER, ""),
    "maxCacheSize": (NUMBER, ""),
    "maxPullCacheSize": (NUMBER, ""),
    "priorityBackup": (FLAG, ""),
    "priorityURIs": (TEXT, ""),
    "randomize": (FLAG, ""),
    "rebalanceUpdateURIs": (FLAG, ""),
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
    """ActiveMQ's failover: how often and how soon. Attempts of -1 mean no limit, 0 that there is no reconnect.

    ``priority`` are the URLs to prefer, with none of them the first address is; ``cache_bytes`` of one-way sends are
    kept for the next broker, ``tells`` says that each address is worth a line of the log, ``keeps_producers`` that an
    open transaction outlives its broker though a producer that sent in it is closed.
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
    """How sends are spread: nothing leaves before ``min_ack_count`` brokers are there, and a request is done when so
    many have answered.
    """

    min_ack_count: int = 2
    fan_out_queues: bool = False


def reconnect_policy(options: Options, randomize: bool = True, tells: bool = False) -> ReconnectPolicy:
    """The options of ``failover:``. ``randomize`` is what holds without a word."""
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
    """The options of ``fanout:`` that are not those of failover."""
    base = FanoutPolicy()
    return FanoutPolicy(
        min_ack_count=options.number("minAckCount", base.min_ack_count, 1, MAX_ACK_COUNT),
        fan_out_queues=options.flag("fanOutQueues", base.fan_out_queues),
    )
