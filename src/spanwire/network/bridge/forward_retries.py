"""Retries of messages refused by the remote broker: the time of each attempt, and the last attempt.

A refusal does not end the link, and other messages are still forwarded. If all messages in flight were refused, the
window is closed.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.network.demand.demand_subscription import InFlightMessage

FIRST_PAUSE: Final = 1.0  # seconds; each later pause is twice as long, as between the attempts of a link
MAX_TRIES: Final = 6  # attempts over one link within 31 seconds; a restart or an operator may remove the cause
NO_ROOM: Final = "javax.jms.ResourceAllocationException"  # a full broker; the message is valid and retried for ever


class RefusedMessage:
    """A message to be sent again at ``due``, in monotonic seconds, after ``tries`` attempts.

    ``words`` are the words of the first refusal.
    """

    __slots__ = ("due", "entry", "reference", "tries", "words")

    def __init__(self, entry: InFlightMessage, reference: MessageReference, words: str = "") -> None:
        self.words: Final[str] = words
        self.entry: Final[InFlightMessage] = entry
        self.reference: Final[MessageReference] = reference
        self.tries = 0
        self.due = 0.0


class ForwardRetries:
    """The refused messages of one link, never more than are in flight. The caller sends and gives up."""

    def __init__(self) -> None:
        self.messages: Final[dict[InFlightMessage, RefusedMessage]] = {}
        self._queues: Final[list[deque[RefusedMessage]]] = [deque() for _ in range(MAX_TRIES - 1)]

    @property
    def scheduled_count(self) -> int:
        """The number of messages waiting for their next attempt."""
        return sum([len(queue) for queue in self._queues])

    def schedule(self, message: RefusedMessage, cause: str | None, now: float) -> bool:
        """Schedule the next attempt after a refusal by an exception of the class ``cause``.

        Returns:
            False after `MAX_TRIES` attempts.
        """
        message.tries += 1
        if message.tries >= MAX_TRIES:
            if cause != NO_ROOM:
                return False
            message.tries = MAX_TRIES - 1
        self.messages[message.entry] = message
        message.due = now + pause_after(message.tries)
        self._queues[message.tries - 1].append(message)
        return True

    def forget(self, entry: InFlightMessage) -> bool:
        """Forget a message. Returns False if it was never refused."""
        return self.messages.pop(entry, None) is not None

    def next_timeout(self) -> float | None:
        """Return the time of the next attempt; None without attempts."""
        return min([queue[0].due for queue in self._queues if queue], default=None)

    def take_due(self, now: float) -> list[RefusedMessage]:
        """Remove and return the messages due for an attempt."""
        due: list[RefusedMessage] = []
        for queue in self._queues:
            while queue and queue[0].due <= now:
                due.append(queue.popleft())
        return due

    def clear(self) -> None:
        """Forget all messages."""
        self.messages.clear()
        for queue in self._queues:
            queue.clear()


def pause_after(tries: int) -> float:
    """Return the seconds until the next attempt after ``tries`` attempts."""
    pause = FIRST_PAUSE
    for _ in range(tries - 1):
        pause *= 2
    return pause
