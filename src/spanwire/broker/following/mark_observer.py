"""The observer before a destination, and the tap before a consumer, while messages are followed."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.dispatch.destination_events import DestinationObserver
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import MessageConsumer
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError
from spanwire.model.message import Message


class Watching(Protocol):
    """Takes the sights of observers and taps."""

    def came(self, destination: Destination, message: Message, sequence: int) -> None:
        """See a message before its dispatch; ``sequence`` is the sequence in the store, 0 if not stored."""
        ...

    def went(self, destination: Destination, message: Message, way: int) -> None:
        """See the exit of a message by a way out of the ledger."""
        ...

    def joined(self, destination: Destination, subscription: Subscription) -> None:
        """See a new consumer."""
        ...

    def dispatched(self, subscription: Subscription, message: Message, redelivery_count: int) -> None:
        """See a dispatch."""
        ...


class MarkObserver(DestinationObserver):
    """Shows the messages of one destination to the follower, and passes all events on to ``inner``."""

    def __init__(self, inner: DestinationObserver | None, destination: Destination, watching: Watching) -> None:
        self.inner: DestinationObserver | None = inner
        self._destination: Final[Destination] = destination
        self._watching: Final[Watching] = watching

    def before_accept(self, message: Message, sequence: int) -> None:
        """Show a message."""
        self._watching.came(self._destination, message, sequence)
        if self.inner is not None:
            self.inner.before_accept(message, sequence)

    def after_accept(self, message: Message, is_wanted: bool) -> None:
        """Pass the event on."""
        if self.inner is not None:
            self.inner.after_accept(message, is_wanted)

    def sees_removals(self) -> bool:
        """Return True: each message is shown."""
        return True

    def message_removed(self, message: Message, way: int) -> None:
        """Show the end of a message."""
        self._watching.went(self._destination, message, way)
        if self.inner is not None:
            self.inner.message_removed(message, way)

    def message_discarded(self, subscription: Subscription, message: Message) -> None:
        """Pass the event on."""
        if self.inner is not None:
            self.inner.message_discarded(subscription, message)

    def consumer_added(self, subscription: Subscription) -> None:
        """Show a consumer before the first message."""
        self._watching.joined(self._destination, subscription)
        if self.inner is not None:
            self.inner.consumer_added(subscription)

    def consumer_removed(self, subscription: Subscription) -> None:
        """Pass the event on."""
        if self.inner is not None:
            self.inner.consumer_removed(subscription)


class DispatchTap(MessageConsumer):
    """Shows the dispatches to one consumer, and passes all calls on."""

    def __init__(self, inner: MessageConsumer, subscription: Subscription, watching: Watching) -> None:
        self.inner: Final[MessageConsumer] = inner
        self._subscription: Final[Subscription] = subscription
        self._watching: Final[Watching] = watching

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Show a dispatch, then dispatch."""
        self._watching.dispatched(self._subscription, message, redelivery_count)
        self.inner.dispatch(message, sequence, redelivery_count)

    def dispatch_end(self) -> None:
        """End a pull without result."""
        self.inner.dispatch_end()

    def close(self, reason: JmsError) -> None:
        """End the consumer for the broker's reason."""
        self.inner.close(reason)

    def switch_to_pull(self) -> bool:
        """Switch the client to pull mode."""
        return self.inner.switch_to_pull()


def behind_mark(observer: DestinationObserver | None) -> DestinationObserver | None:
    """Return the observer of a destination's policy or statistics, also behind a mark."""
    return observer.inner if isinstance(observer, MarkObserver) else observer
