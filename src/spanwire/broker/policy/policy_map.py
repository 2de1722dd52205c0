"""The policy map: finds the policy entry of a destination."""

from __future__ import annotations

from spanwire.broker.policy.dead_letter_strategy import DEFAULT_DEAD_LETTER_QUEUE, IndividualNames
from spanwire.broker.policy.policy_entry import DEFAULT_STORE_MARK, PolicyEntry
from spanwire.broker.policy.topic_policy import CLIENT_ID_FILTER
from spanwire.model.destination import TOPIC, Destination


class PolicyMap:
    """Finds the entry of a destination: the most specific matching pattern, otherwise a default entry."""

    def __init__(self, entries: list[PolicyEntry] | None = None) -> None:
        self._entries: list[PolicyEntry] = []
        self._letter_queues: set[str] = set()
        self._letter_names: list[IndividualNames] = []
        self.generation = 0  # grows with each replacement of the entries
        self.replace(entries if entries is not None else [])
        self._queue_default = PolicyEntry(Destination(0, ">"))
        self._topic_default = PolicyEntry(Destination(TOPIC, ">"))

    def takes_dead_letters(self, destination: Destination) -> bool:
        """Return True if a strategy of an entry, or the default one, sends dead letters to ``destination``."""
        if destination.is_queue and destination.name in self._letter_queues:
            return True
        return any(names.made(destination) for names in self._letter_names)

    def replace(self, entries: list[PolicyEntry]) -> None:
        """Replace all entries."""
        self.generation += 1
        self._entries = sorted(entries, key=_wildcards_last)
        strategies = [entry.dead_letter for entry in entries if not entry.dead_letter.discards]
        self._letter_queues = {DEFAULT_DEAD_LETTER_QUEUE, *[strategy.queue_name for strategy in strategies]}
        self._letter_names = [strategy.individual for strategy in strategies if strategy.individual is not None]

    @property
    def entry_count(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def lowest_store_mark(self) -> int:
        """Return the lowest store mark of all entries, in percent."""
        return min([DEFAULT_STORE_MARK, *[entry.store_usage_high_water_mark for entry in self._entries]])

    def expiry_periods(self) -> list[int]:
        """Return the distinct periods of the expiry scan, in milliseconds."""
        entries = [*self._entries, self._queue_default, self._topic_default]
        return sorted({entry.expire_messages_period_ms for entry in entries if entry.expire_messages_period_ms > 0})

    def filters_by_client_id(self) -> bool:
        """Return True if a topic may restrict messages to one client id."""
        for entry in self._entries:
            dispatch = entry.topic.dispatch
            if dispatch is not None and dispatch.kind == CLIENT_ID_FILTER:
                return True
        return False

    def advises_of_dispatches(self) -> bool:
        """Return True if a destination publishes advisories about dispatches."""
        return any(entry.advisories.dispatched for entry in self._entries)

    def entry_for(self, destination: Destination) -> PolicyEntry:
        """Return the entry for ``destination``.

        Entries for queues or topics do not apply to temporary destinations.
        """
        for entry in self._entries:
            if entry.destination.matches(destination):
                return entry
        return self._queue_default if destination.is_queue else self._topic_default


def _wildcards_last(entry: PolicyEntry) -> tuple[int, int, int]:
    return wildcards_last(entry.destination)


def wildcards_last(pattern: Destination) -> tuple[int, int, int]:
    """Return a sort key: exact names first, then patterns from the most to the least specific."""
    elements = pattern.elements
    stars = sum(1 for element in elements if element in ("*", ">"))
    return (1 if elements[-1] == ">" else 0, stars, -len(elements))
