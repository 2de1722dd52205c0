"""The rules by which messages and subscriptions travel through a network of brokers.

A message carries the ids of the brokers that have forwarded it (its broker path), a subscription those of the brokers
that it stands for. Each hop appends the id of the broker that is left. Rules and numbers are those of Apache ActiveMQ's
network connectors (Networks of Brokers; NetworkBridgeFilter, DemandForwardingBridge).
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import Destination

NO_PATH: Final[tuple[str, ...]] = ()
UNLIMITED_TTL: Final = -1
MAX_PATH: Final = 64  # brokers that a message or a subscription came through; more is a loop or a forgery
DEFAULT_PRIORITY_BASE: Final = -5  # of network consumers on queues: whoever is nearer comes first
BRIDGE_DURABLE_PREFIX: Final = "NC-DS_"  # ActiveMQ's, of the names of durable subscriptions of bridges
UNNAMED: Final = "localhost"  # ActiveMQ's default brokerName, which many brokers have because nobody gave them one
NEAR_PATH: Final = 1  # brokers between: a direct neighbour's own consumer
MIN_CONSUMER_PRIORITY: Final = -128  # a Java byte


def within(hops: int, ttl: int) -> bool:
    """Whether one more hop is allowed after ``hops``; with a negative ``ttl`` the longest path is the only limit."""
    return hops < MAX_PATH and (ttl < 0 or hops < ttl)


def lets_through(
    destination: Destination, excluded: tuple[Destination, ...], included: tuple[Destination, ...]
) -> bool:
    """Whether a connector with these lists of names and patterns forwards what is in ``destination``: nothing that is
    excluded, and of included ones, if there are any, no others.
    """
    for pattern in excluded:
        if pattern.matches(destination):
            return False
    for pattern in included:
        if pattern.matches(destination):
            return True
    return not included


class Refusals:
    """How often a bridge was refused a message, by reason; a queue may ask about the same message several times.

    ``path``: its target has seen the message; ``ttl``: it has no hop left; ``excluded``: the lists of the connector say
    no; ``replay``: it may go back, but not yet; ``rate``: enough went in this time.
    """

    __slots__ = ("excluded", "path", "rate", "replay", "ttl")

    def __init__(self) -> None:
        self.path = 0
        self.ttl = 0
        self.excluded = 0
        self.replay = 0
        self.rate = 0

    def add(self, other: Refusals) -> None:
        """Count those of ``other``, too."""
        self.path += other.path
        self.ttl += other.ttl
        self.excluded += other.excluded
        self.replay += other.replay
        self.rate += other.rate

    def by_reason(self) -> dict[str, int]:
        """The reasons there were."""
        counts = {
            "path": self.path,
            "ttl": self.ttl,
            "excluded": self.excluded,
            "replay": self.replay,
            "rate": self.rate,
        }
        return {reason: count for reason, count in counts.items() if count > 0}


class NetworkFilter:
    """Which messages one bridge may take: those that its target has not seen and that have hops left, of destinations
    that its connector lets through.
    """

    __slots__ = ("excluded", "included", "message_ttl", "refusals", "target_broker_id")

    def __init__(
        self,
        target_broker_id: str,
        message_ttl: int,
        excluded: tuple[Destination, ...] = (),
        included: tuple[Destination, ...] = (),
    ) -> None:
        self.target_broker_id: Final[str] = target_broker_id
        self.message_ttl: Final[int] = message_ttl
        self.excluded: Final[tuple[Destination, ...]] = excluded
        self.included: Final[tuple[Destination, ...]] = included
        self.refusals: Final[Refusals] = Refusals()

    def covers(self, destination: Destination) -> bool:
        """Whether a subscription to a pattern takes anything from ``destination``, which the pattern matches."""
        return lets_through(destination, self.excluded, self.included)

    def passes(self, path: tuple[str, ...]) -> bool:
        """Whether a message that came along ``path`` may go to the target; counts those that may not."""
        if self.target_broker_id in path:
            self.refusals.path += 1
            return False
        if not within(len(path), self.message_ttl):
            self.refusals.ttl += 1
            return False
        return True


def demand_passes(path: tuple[str, ...], own_broker_id: str, consumer_ttl: int) -> bool:
    """Whether a subscription that came along ``path`` is demand for the broker of ``own_broker_id``: it has hops left
    and does not stand for a consumer of that broker.
    """
    return within(len(path), consumer_ttl) and own_broker_id not in path


def network_priority(path: tuple[str, ...], base: int) -> int:
    """The consumer priority of a subscription that stands for the brokers of ``path``: 1 → -5, 2 → -8, 3 → -9 …"""
    hops = len(path)
    return base if hops <= NEAR_PATH else max(base - (hops + 1), MIN_CONSUMER_PRIORITY)
