"""An index of selectors by the value of a property: finds the candidates for a message.

Most selectors of many consumers on one queue demand a certain value of a property (`Narrowing`). The index files such a
selector under the value. A message costs one lookup for each demanded property, at any number of selectors. Other
selectors are evaluated for every message.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.queue.queue_consumers import QueueConsumer
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message
from spanwire.model.message_view import LONG_VALUE
from spanwire.selector.expression import MessageValues, Narrowing, Selector
from spanwire.selector.numbers import integer_of_text


class SelectorGroup:
    """Consumers with the same selector, or all consumers without a selector, in order of turn.

    A consumer is found by halving. Otherwise consumers that leave together would take the square of their number.
    """

    __slots__ = ("_added", "_turn", "consumers", "narrowing", "selector")

    def __init__(self, selector: Selector | None) -> None:
        self.selector: Final[Selector | None] = selector
        self.consumers: Final[list[QueueConsumer]] = []
        self.narrowing: Narrowing | None = None
        self._turn = 0
        self._added = 0  # consumers so far

    def add(self, consumer: QueueConsumer) -> None:
        """Add a consumer, which is in no other group."""
        self._added += 1
        consumer.number = self._added
        self.consumers.append(consumer)

    def remove(self, consumer: QueueConsumer) -> bool:
        """Remove a consumer. Return False if the group does not have the consumer."""
        consumers = self.consumers
        low, high = 0, len(consumers)
        while low < high:
            middle = (low + high) // 2
            if consumers[middle].number < consumer.number:
                low = middle + 1
            else:
                high = middle
        if low == len(consumers) or consumers[low] is not consumer:
            return False
        del consumers[low]
        self._turn = 0
        return True

    def wants(self, reference: MessageReference) -> bool:
        """Return True if the selector matches."""
        return self.selector is None or self.consumers[0].subscription.selects(reference)

    def next_taker(self, message: Message, full: list[QueueConsumer]) -> QueueConsumer | None:
        """Return the next consumer in turn with room for a message. The selector has matched.

        ``noLocal`` and a bridge's filter still apply. Earlier consumers in turn without room are appended to ``full``.
        """
        consumers = self.consumers
        index = self._turn
        for _ in range(len(consumers)):
            if index >= len(consumers):
                index = 0
            consumer = consumers[index]
            index += 1
            if consumer.subscription.lets_through(message):
                if consumer.subscription.can_take():
                    self._turn = index
                    return consumer
                full.append(consumer)
        return None


class ValueTable:
    """The selector groups that demand a value of one property."""

    __slots__ = ("by_integer", "by_text", "reading")

    def __init__(self) -> None:
        self.by_text: Final[dict[str, dict[SelectorGroup, None]]] = {}
        self.by_integer: Final[dict[int, dict[SelectorGroup, None]]] = {}
        self.reading: Final[dict[SelectorGroup, None]] = {}  # groups that may convert the value to another type

    def size(self, narrowing: Narrowing) -> int:
        """Return the largest number of groups under any of the values."""
        most = 0
        for value in narrowing.values:
            groups: dict[SelectorGroup, None] | None = None
            if isinstance(value, str):
                groups = self.by_text.get(value)
            elif isinstance(value, int):
                groups = self.by_integer.get(value)
            if groups is not None and len(groups) > most:
                most = len(groups)
        return most

    def add(self, group: SelectorGroup, narrowing: Narrowing) -> None:
        """File a group under its values."""
        for value in narrowing.values:
            if isinstance(value, str):
                self.by_text.setdefault(value, {})[group] = None
            elif isinstance(value, int):
                self.by_integer.setdefault(value, {})[group] = None
        if narrowing.reads_texts:
            self.reading[group] = None

    def remove(self, group: SelectorGroup, narrowing: Narrowing) -> None:
        """Remove a group."""
        for value in narrowing.values:
            if isinstance(value, str):
                texts = self.by_text.get(value)
                if texts is not None:
                    texts.pop(group, None)
                    if not texts:
                        del self.by_text[value]
            elif isinstance(value, int):
                integers = self.by_integer.get(value)
                if integers is not None:
                    integers.pop(group, None)
                    if not integers:
                        del self.by_integer[value]
        self.reading.pop(group, None)

    def is_empty(self) -> bool:
        """Return True if no group demands a value of the property."""
        return not self.by_text and not self.by_integer

    def collect(self, value: object, candidates: list[SelectorGroup]) -> None:
        """Append to ``candidates`` the candidate groups for a message with ``value``."""
        if isinstance(value, str):
            texts = self.by_text.get(value)
            if texts is not None:
                candidates.extend(texts)
            if self.reading and self.by_integer:
                self._collect_read(value, candidates)
        elif isinstance(value, int) and not isinstance(value, bool):
            integers = self.by_integer.get(value)
            if integers is not None:
                candidates.extend(integers)
            if self.reading:
                candidates.extend([group for group in self.reading if _demands_text(group)])
        else:  # a floating-point number may equal an integer, a boolean a text
            candidates.extend([group for group in self.reading if _demands_text(group)])
            for groups in self.by_integer.values():
                candidates.extend(groups)
            candidates[:] = list(dict.fromkeys(candidates))  # a group may stand under several integers

    def _collect_read(self, value: str, found: list[SelectorGroup]) -> None:
        number = integer_of_text(value, LONG_VALUE)
        if number is not None:
            integers = self.by_integer.get(number)
            if integers is not None:
                found.extend([group for group in integers if group in self.reading])


class SelectorIndex:
    """Consumers of one scan, grouped by selector. The caller evaluates the selectors."""

    def __init__(self) -> None:
        self._groups: Final[dict[str, SelectorGroup]] = {}
        self._everyone: Final[SelectorGroup] = SelectorGroup(None)
        self._tables: Final[dict[str, ValueTable]] = {}
        self._unknown: Final[dict[SelectorGroup, None]] = {}  # groups evaluated for every message
        self.count = 0

    def add(self, consumer: QueueConsumer) -> None:
        """Add a consumer."""
        self.count += 1
        selector = consumer.subscription.selector
        if selector is None:
            if not self._everyone.consumers:
                self._unknown[self._everyone] = None
            self._everyone.add(consumer)
            return
        group = self._groups.get(selector.text)
        if group is None:
            group = SelectorGroup(selector)
            self._groups[selector.text] = group
            self._file(group, selector)
        group.add(consumer)

    def _file(self, group: SelectorGroup, selector: Selector) -> None:
        """File a group under the demand with the fewest other groups."""
        best: Narrowing | None = None
        fewest = 0
        for narrowing in selector.narrowings():
            table = self._tables.get(narrowing.name)
            size = 0 if table is None else table.size(narrowing)
            if best is None or size < fewest:
                best = narrowing
                fewest = size
        group.narrowing = best
        if best is None:
            self._unknown[group] = None
        else:
            self._tables.setdefault(best.name, ValueTable()).add(group, best)

    def remove(self, consumer: QueueConsumer) -> bool:
        """Remove a consumer. Return False if the index did not have the consumer."""
        selector = consumer.subscription.selector
        group = self._everyone if selector is None else self._groups.get(selector.text)
        if group is None or not group.remove(consumer):
            return False
        self.count -= 1
        if not group.consumers:
            self._drop(group)
        return True

    def _drop(self, group: SelectorGroup) -> None:
        selector = group.selector
        if selector is not None:
            del self._groups[selector.text]
        narrowing = group.narrowing
        if narrowing is None:
            del self._unknown[group]
            return
        table = self._tables[narrowing.name]
        table.remove(group, narrowing)
        if table.is_empty():
            del self._tables[narrowing.name]

    def candidates(self, values: MessageValues) -> list[SelectorGroup]:
        """Return the groups whose selectors can match.

        Each demanded property is read once. A selector that demands an undecodable property matches no message.
        """
        groups = list(self._unknown)
        for name, table in self._tables.items():
            try:
                value = values.value(name)
            except (JmsError, ProtocolError):
                continue
            if value is not None:
                table.collect(value, groups)
        return groups

    def has_room(self) -> bool:
        """Return True if a consumer can take a message."""
        for consumer in self._everyone.consumers:
            if consumer.subscription.can_take():
                return True
        for group in self._groups.values():
            for consumer in group.consumers:
                if consumer.subscription.can_take():
                    return True
        return False

    def everyone(self) -> list[QueueConsumer]:
        """Return all consumers, in no particular order."""
        consumers = self._everyone.consumers.copy()
        for group in self._groups.values():
            consumers.extend(group.consumers)
        return consumers


def _demands_text(group: SelectorGroup) -> bool:
    narrowing = group.narrowing
    return narrowing is not None and isinstance(narrowing.values[0], str)
