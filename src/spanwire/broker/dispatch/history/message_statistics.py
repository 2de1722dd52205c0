"""Statistics of the messages of a destination: sizes, and times since the send.

They cost each message some steps, so an operator switches them on. A destination without them pays nothing: they are an
observer (`spanwire.broker.dispatch.destination_events`) in front of the observer of its policy.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination_events import DestinationObserver
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.model.ids import MessageId
from spanwire.model.message import Message


class Distribution:
    """Count, sum, least and greatest of some whole numbers."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.least = 0
        self.greatest = 0

    def add(self, value: int) -> None:
        """Add a number."""
        if self.count == 0 or value < self.least:
            self.least = value
        if value > self.greatest:
            self.greatest = value
        self.count += 1
        self.total += value

    def join(self, other: Distribution) -> None:
        """Add the numbers of ``other``."""
        if other.count == 0:
            return
        if self.count == 0 or other.least < self.least:
            self.least = other.least
        self.greatest = max(self.greatest, other.greatest)
        self.count += other.count
        self.total += other.total

    def average(self) -> float:
        """Return the average, 0.0 without numbers."""
        return self.total / self.count if self.count > 0 else 0.0

    def reset(self) -> None:
        """Forget all numbers."""
        self.count = self.total = self.least = self.greatest = 0


class LastMessage:
    """Id, timestamp and time of the last message that came or went; the id is None before the first one."""

    __slots__ = ("message_id", "seen_ms", "timestamp_ms")

    def __init__(self) -> None:
        self.message_id: MessageId | None = None
        self.timestamp_ms = 0
        self.seen_ms = 0

    def note(self, message: Message, wall_ms: int) -> None:
        """Take a message."""
        self.message_id = message.message_id
        self.timestamp_ms = message.timestamp_ms
        self.seen_ms = wall_ms

    def reset(self) -> None:
        """Forget the message."""
        self.message_id = None
        self.timestamp_ms = self.seen_ms = 0


class MessageStatistics(DestinationObserver):
    """Counts the messages of one destination from now on, and passes all events on to ``inner``.

    ``sizes`` are bytes as in the memory limit. ``held_ms`` are milliseconds from the message's timestamp to its removal
    from a queue, or to its dispatch by a topic; messages without a timestamp do not count. ``entered`` is the last
    message that came, ``left`` the last one that was removed from a queue.
    """

    def __init__(self, inner: DestinationObserver | None, context: BrokerContext, is_topic: bool) -> None:
        self._is_topic: Final[bool] = is_topic
        self.inner: DestinationObserver | None = inner
        self._context: Final[BrokerContext] = context
        self.sizes: Final[Distribution] = Distribution()
        self.held_ms: Final[Distribution] = Distribution()
        self.entered: Final[LastMessage] = LastMessage()
        self.left: Final[LastMessage] = LastMessage()

    def reset(self) -> None:
        """Begin anew."""
        self.sizes.reset()
        self.held_ms.reset()
        self.entered.reset()
        self.left.reset()

    def before_accept(self, message: Message, sequence: int) -> None:
        """Count the size, and in a topic the time since the send."""
        self.sizes.add(message.size)
        self.entered.note(message, self._context.wall_ms)
        if self._is_topic:
            self._count_time(message)
        if self.inner is not None:
            self.inner.before_accept(message, sequence)

    def after_accept(self, message: Message, is_wanted: bool) -> None:
        """Pass the event on."""
        if self.inner is not None:
            self.inner.after_accept(message, is_wanted)

    def sees_removals(self) -> bool:
        """Return True: the time of each message counts."""
        return True

    def message_removed(self, message: Message, way: int) -> None:
        """Count the time since the send; the time in a topic ended with the dispatch."""
        if not self._is_topic:
            self._count_time(message)
            self.left.note(message, self._context.wall_ms)
        if self.inner is not None:
            self.inner.message_removed(message, way)

    def _count_time(self, message: Message) -> None:
        if message.timestamp_ms > 0:
            self.held_ms.add(max(0, self._context.wall_ms - message.timestamp_ms))

    def message_discarded(self, subscription: Subscription, message: Message) -> None:
        """Pass the event on."""
        if self.inner is not None:
            self.inner.message_discarded(subscription, message)

    def consumer_added(self, subscription: Subscription) -> None:
        """Pass the event on."""
        if self.inner is not None:
            self.inner.consumer_added(subscription)

    def consumer_removed(self, subscription: Subscription) -> None:
        """Pass the event on."""
        if self.inner is not None:
            self.inner.consumer_removed(subscription)
