"""What waited for the disk goes to its destinations, a slice at a time where it is much.

Messages for a destination that a slice has not reached yet wait behind it, whatever they waited for; all others pass.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from spanwire.broker.context import BrokerContext
from spanwire.broker.policy import PolicyEntry
from spanwire.broker.reference import BrokerDestination
from spanwire.broker.usage import MemoryUsage
from spanwire.broker.waiting import Waiting, WithheldMessage, answer
from spanwire.model.destination import QUEUE, Destination

RELEASE_STEPS: Final = 500  # messages of one slice; a topic hands them on in slices of its own

_NOWHERE: Final = Destination(QUEUE, "-")


class Releaser(Protocol):
    """Who hands on a message that waited."""

    def release_one(self, entry: WithheldMessage) -> None:
        """Dispatch it, if its destination is still there and its time is not over."""
        ...


class Releasing(BrokerDestination):
    """The line of what is safe and not handed on yet. Bounded by what waited for the disk. A job of the broker and no
    place for messages.
    """

    def __init__(self, releaser: Releaser, context: BrokerContext) -> None:
        super().__init__(_NOWHERE, PolicyEntry(_NOWHERE), MemoryUsage(0))
        self._releaser: Final[Releaser] = releaser
        self._context: Final[BrokerContext] = context
        self._line: Final[deque[Waiting]] = deque()
        self._homes: Final[dict[BrokerDestination, int]] = {}  # for how many in the line they are destinations
        self.steps = 0

    @property
    def is_busy(self) -> bool:
        """Return True if something stands in the line."""
        return len(self._line) > 0

    def take(self, waiting: Waiting) -> None:
        """Hand on the messages of ``waiting``, then answer it: now, or behind those of the line."""
        messages = waiting.messages
        if messages is not None:
            if len(messages) > RELEASE_STEPS or (self._line and self._concerns_any(messages)):
                self._append(waiting, messages)
                return
            for entry in messages:
                self._releaser.release_one(entry)
        answer(waiting, None)

    def _concerns_any(self, messages: list[WithheldMessage]) -> bool:
        return any(entry.home in self._homes for entry in messages)

    def _append(self, waiting: Waiting, messages: list[WithheldMessage]) -> None:
        homes = waiting.homes
        if homes is None:
            homes = {}
            for entry in messages:
                homes[entry.home] = 1
            waiting.homes = homes
        for home in homes:
            self._homes[home] = self._homes.get(home, 0) + 1
        messages.reverse()  # each is let go when it is handed on, so that freeing them takes slices, too
        self._line.append(waiting)
        if len(self._line) == 1 and self.work():
            self._context.schedule(self)

    def work(self) -> bool:
        """One slice; True while there is more."""
        end = self.steps + RELEASE_STEPS
        while self._line and self.steps < end:
            waiting = self._line[0]
            messages = waiting.messages
            assert messages is not None
            if messages:
                if messages[-1].home.is_behind:
                    return True  # as a send would wait
                self.steps += 1
                self._releaser.release_one(messages.pop())
                continue
            self._line.popleft()
            self._forget(waiting)
            answer(waiting, None)
        return len(self._line) > 0

    def _forget(self, waiting: Waiting) -> None:
        homes = waiting.homes
        assert homes is not None
        for home in homes:
            left = self._homes[home] - 1
            if left > 0:
                self._homes[home] = left
            else:
                del self._homes[home]
