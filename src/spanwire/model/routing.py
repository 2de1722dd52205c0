"""Rules of forwarding messages and subscriptions in a network of brokers.

A message carries its broker path: the ids of the brokers that have forwarded the message. A network subscription
carries the ids of the brokers between its consumer and this broker. Each hop appends the id of the sending broker.
Rules and numbers are those of Apache ActiveMQ's network connectors (Networks of Brokers; NetworkBridgeFilter,
DemandForwardingBridge).
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import Destination

NO_PATH: Final[tuple[str, ...]] = ()
UNLIMITED_TTL: Final = -1
NO_HOPS: Final = 0  # a TTL that no message passes
MAX_COUNTED: Final = 1_000  # destinations with counts of their own; answers over temporary queues have no end
MAX_PATH: Final = 64  # brokers in a path; a longer path is a loop or a forgery
DEFAULT_PRIORITY_BASE: Final = -5  # priority of network consumers on queues; nearer consumers come first
BRIDGE_DURABLE_PREFIX: Final = "NC-DS_"  # ActiveMQ's prefix for names of durable subscriptions of bridges
UNNAMED: Final = "localhost"  # ActiveMQ's default brokerName, shared by all brokers without a configured name
NEAR_PATH: Final = 1  # brokers in the path of a direct neighbour's own consumer
MIN_CONSUMER_PRIORITY: Final = -128  # a Java byte


def within(hops: int, ttl: int) -> bool:
    """Return True if a further hop is allowed after ``hops`` hops.

    A negative ``ttl`` leaves only `MAX_PATH`.
    """
    return hops < MAX_PATH and (ttl < 0 or hops < ttl)


def lets_through(
    destination: Destination, excluded: tuple[Destination, ...], included: tuple[Destination, ...]
) -> bool:
    """Return True if a connector forwards messages of ``destination``.

    The lists contain the connector's names and patterns.

    An excluded destination is never forwarded. If ``included`` is not empty, only matching destinations are forwarded.
    """
    for pattern in excluded:
        if pattern.matches(destination):
            return False
    for pattern in included:
        if pattern.matches(destination):
            return True
    return not included


class DestinationCounts:
    """Counts a link's messages in one direction by destination.

    ``by_name`` has `MAX_COUNTED` destinations at most, and ``others`` counts the messages of further destinations.
    """

    __slots__ = ("by_name", "others")

    def __init__(self) -> None:
        self.by_name: Final[dict[str, int]] = {}
        self.others = 0

    def count(self, destination: Destination) -> None:
        """Count a message."""
        counts = self.by_name
        name = destination.qualified_name
        before = counts.get(name, 0)
        if before == 0 and len(counts) >= MAX_COUNTED:
            self.others += 1
        else:
            counts[name] = before + 1

    def reset(self, name: str | None = None) -> None:
        """Set the count of a destination to 0, without a ``name`` all counts."""
        if name is None:
            self.by_name.clear()
            self.others = 0
        elif name in self.by_name:
            self.by_name[name] = 0

    def shrink(self, most: int) -> None:
        """Keep the ``most`` destinations with most messages; ``others`` counts the rest from now on."""
        counts = self.by_name
        if len(counts) <= most:
            return
        for name in sorted(counts, key=counts.__getitem__, reverse=True)[most:]:
            self.others += counts.pop(name)


class Refusals:
    """Counts a bridge's refused messages by reason; a queue may ask several times about the same message.

    - ``path``: the target broker has already seen the message
    - ``ttl``: the message has no hop left
    - ``excluded``: the connector's lists of destinations exclude the message
    - ``replay``: the message may return to its sender, but not yet
    - ``rate``: the limit of messages per time is reached
    """

    __slots__ = ("excluded", "path", "rate", "replay", "ttl")

    def __init__(self) -> None:
        self.path = 0
        self.ttl = 0
        self.excluded = 0
        self.replay = 0
        self.rate = 0

    def add(self, other: Refusals) -> None:
        """Add the counts of ``other``."""
        self.path += other.path
        self.ttl += other.ttl
        self.excluded += other.excluded
        self.replay += other.replay
        self.rate += other.rate

    def subtract(self, other: Refusals) -> None:
        """Subtract the counts of ``other``."""
        self.path -= other.path
        self.ttl -= other.ttl
        self.excluded -= other.excluded
        self.replay -= other.replay
        self.rate -= other.rate

    def by_reason(self) -> dict[str, int]:
        """Return the counts above zero by reason."""
        counts = {
            "path": self.path,
            "ttl": self.ttl,
            "excluded": self.excluded,
            "replay": self.replay,
            "rate": self.rate,
        }
        return {reason: count for reason, count in counts.items() if count > 0}


class NetworkFilter:
    """Decides which messages a bridge may forward, by broker path, hops and destination."""

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

    @property
    def passes_nothing(self) -> bool:
        """True if no message has a hop left."""
        return self.message_ttl == NO_HOPS

    def covers(self, destination: Destination) -> bool:
        """Return True if a wildcard subscription receives messages of ``destination``.

        The pattern of the subscription matches the destination.
        """
        return lets_through(destination, self.excluded, self.included)

    def passes(self, path: tuple[str, ...]) -> bool:
        """Return True if a message with broker path ``path`` may go to the target; count refused messages."""
        if self.target_broker_id in path:
            self.refusals.path += 1
            return False
        if not within(len(path), self.message_ttl):
            self.refusals.ttl += 1
            return False
        return True


def demand_passes(path: tuple[str, ...], own_broker_id: str, consumer_ttl: int) -> bool:
    """Return True if a subscription with path ``path`` is demand for the broker of ``own_broker_id``.

    The subscription must have a hop left and must not represent a consumer of the broker itself.
    """
    return within(len(path), consumer_ttl) and own_broker_id not in path


def network_priority(path: tuple[str, ...], base: int) -> int:
    """Return the consumer priority of a subscription with the brokers of ``path``.

    One broker means -5, two mean -8, three mean -9, and so on.
    """
    hops = len(path)
    return base if hops <= NEAR_PATH else max(base - (hops + 1), MIN_CONSUMER_PRIORITY)
