"""Holds messages of a link back until the disk has them.

A broker may dispatch a message before the sync. A link must not forward it so early. If this broker then lost its
power, the broker before it on the way would send the message again, with a new number here. The broker behind could not
recognise the second copy, and its consumers might get a settled message again.

On a full disk a sync may not come before messages leave, and a link may be the only way out. So messages pass then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.jobs import Alarm
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.persistence.reply_queue import Arrivals, PendingReply, ReplyQueue
from spanwire.broker.ports import NO_TOKEN

LOOK_SECONDS: Final = 1.0  # between two looks whether the disk has become full while messages are held


class HeldMessage:
    """A message in flight that waits for the sync of ``position``, 0 for a message that the store does not get."""

    __slots__ = ("consumer", "position", "redelivery_count", "reference")

    def __init__(self, consumer: object, reference: MessageReference, redelivery_count: int, position: int) -> None:
        self.consumer: Final[object] = consumer
        self.reference: Final[MessageReference] = reference
        self.redelivery_count: Final[int] = redelivery_count
        self.position: Final[int] = position


class SyncGate(Arrivals, Alarm):
    """The messages of a link that are not synced yet, in order. Bounded by the windows of the link's consumers."""

    def __init__(
        self,
        context: BrokerContext,
        replies: ReplyQueue,
        output: ConnectionOutput,
        release: Callable[[HeldMessage], None],
    ) -> None:
        """``release`` takes each message after its sync; ``output`` is the link's, marked for a flush."""
        self._context: Final[BrokerContext] = context
        self._replies: Final[ReplyQueue] = replies
        self._output: Final[ConnectionOutput] = output
        self._release: Final[Callable[[HeldMessage], None]] = release
        self._held: Final[deque[HeldMessage]] = deque()
        self._position = 0  # of the store, when it was last asked
        self._covered = 0  # dispatch order of the newest message at that time
        self._awaited = 0  # the last position that a reply waits for
        self._looks = False  # at the disk, soon

    def __len__(self) -> int:
        return len(self._held)

    def lets_through(self, reference: MessageReference) -> bool:
        """Return True if a message may pass now, because no earlier one is held and it need not or cannot be synced."""
        if self._held:
            return False
        return self._replies.is_stored(self._position_of(reference)) or not self._context.store_usage.has_room()

    def hold(self, consumer: object, reference: MessageReference, redelivery_count: int) -> None:
        """Release a message once the disk has it, behind the messages held before.

        ``consumer`` is handed back with the message.
        """
        position = self._position_of(reference)
        self._held.append(HeldMessage(consumer, reference, redelivery_count, position))
        if position > self._awaited:
            self._awaited = position
            reply = PendingReply(position, self._output, NO_TOKEN, None)
            reply.destinations = []
            reply.arrivals = self
            self._replies.add(reply)
        self._look_later()

    def _look_later(self) -> None:
        if not self._looks:
            self._looks = True
            self._context.wake_at(self, self._context.monotonic + LOOK_SECONDS)

    def wake(self) -> None:
        """Release all messages if the disk is full, otherwise look again later while messages are held."""
        self._looks = False
        if self._held and self._context.store_usage.has_room():
            self._look_later()
            return
        while self._held:
            self._release_first()

    def _position_of(self, reference: MessageReference) -> int:
        """Return a position of the store that covers a message, 0 if the store does not get the message.

        The store is asked once for all messages so far, because it counts each question as one more waiting client.
        Later changes, such as acknowledgements, then delay no message that was stored before them.
        """
        store = self._context.store
        if store is None or reference.sequence <= 0:
            return 0
        if reference.order > self._covered:
            self._position = store.position()
            self._covered = self._context.order
        return self._position

    def enter(self, at_most: int) -> int:
        """Release the synced messages, ``at_most`` now; see `Arrivals.enter`."""
        count = 0
        held = self._held
        while held and count < at_most and self._replies.is_stored(held[0].position):
            self._release_first()
            count += 1
        return count

    def _release_first(self) -> None:
        message = self._held.popleft()
        self._release(message)
        self._output.add(message.reference.message.size)  # a flush since the dispatch has set the count back

    def clear(self) -> None:
        """Forget all messages, because the link has ended."""
        self._held.clear()
