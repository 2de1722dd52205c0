"""Tuning by destination: what a `PolicyEntry` sets holds for every destination its pattern matches."""

from __future__ import annotations

from dataclasses import dataclass, field

from spanwire.model.destination import TEMP_QUEUE, TOPIC, Destination

DEFAULT_EXPIRE_PERIOD_MS = 30_000
DEFAULT_DEAD_LETTER_QUEUE = "ActiveMQ.DLQ"


@dataclass(frozen=True)
class DeadLetterStrategy:
    """Where messages go that expired or that a consumer gave up on (ActiveMQ's shared strategy)."""

    queue_name: str = DEFAULT_DEAD_LETTER_QUEUE
    process_expired: bool = True
    process_non_persistent: bool = False


@dataclass(frozen=True)
class PolicyEntry:
    """The tuning of all destinations that ``destination``, a name or wildcard pattern, matches.

    ``memory_limit_bytes`` 0 means that only the broker's limit holds; ``expire_messages_period_ms`` 0 turns the scan
    off (messages still expire when their turn comes); a prefetch of -1 leaves the consumer's own. Of the messages of a
    topic that wait for a slow consumer the oldest are discarded over ``pending_message_limit``; -1 keeps them all.
    """

    destination: Destination
    memory_limit_bytes: int = 0
    queue_prefetch: int = -1
    topic_prefetch: int = -1
    queue_browser_prefetch: int = -1
    expire_messages_period_ms: int = DEFAULT_EXPIRE_PERIOD_MS
    dispatch_before_sync: bool = True
    pending_message_limit: int = -1
    dead_letter: DeadLetterStrategy = field(default_factory=DeadLetterStrategy)


class PolicyMap:
    """Finds the entry for a destination: the most specific pattern that matches, else the default entries."""

    def __init__(self, entries: list[PolicyEntry] | None = None) -> None:
        given = entries if entries is not None else []
        self._entries: list[PolicyEntry] = sorted(given, key=_wildcards_last)
        self._queue_default = PolicyEntry(Destination(0, ">"))
        self._topic_default = PolicyEntry(Destination(TOPIC, ">"))

    def entry_for(self, destination: Destination) -> PolicyEntry:
        """The tuning of ``destination``; temporary destinations take that of their permanent kind."""
        kind = destination.kind
        probe = destination if kind < TEMP_QUEUE else Destination(kind - TEMP_QUEUE, destination.name)
        for entry in self._entries:
            if entry.destination.matches(probe):
                return entry
        return self._queue_default if probe.is_queue else self._topic_default


def _wildcards_last(entry: PolicyEntry) -> tuple[int, int, int]:
    """Sorts exact names first, then patterns by how much they pin down."""
    elements = entry.destination.elements
    stars = sum(1 for element in elements if element in ("*", ">"))
    return (1 if elements[-1] == ">" else 0, stars, -len(elements))
