"""Messages that the disk has go to their destinations, a slice at a time where they are many.

Messages for a destination wait behind those that were safe before them and have not reached it yet; all others pass.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import BrokerDestination
from spanwire.broker.persistence.reply_queue import Waiting, WithheldMessage, answer
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.destination import QUEUE, Destination

DISPATCH_STEPS: Final = 500  # messages of one slice, and of one answer that are dispatched at once
SHARE_STEPS: Final = 100  # of a slice for one answer, before another one has its share

_NOWHERE: Final = Destination(QUEUE, "-")


class Dispatcher(Protocol):
    """Hands on single messages."""

    def release_one(self, entry: WithheldMessage) -> None:
        """Dispatch it, if its destination is still there and its time is not over."""
        ...


class Part:
    """What is dispatched for one answer: ``messages``, the next one at the end. It waits for as many others as it has
    ``ahead`` of it at one of its ``homes``.
    """

    __slots__ = ("ahead", "homes", "messages", "waiting")

    def __init__(self, waiting: Waiting, homes: dict[BrokerDestination, None]) -> None:
        self.waiting: Final[Waiting] = waiting
        self.homes: Final[dict[BrokerDestination, None]] = homes
        self.messages: Final[list[WithheldMessage]] = [] if waiting.messages is None else waiting.messages
        self.ahead = 0


class DeferredDispatch(BrokerDestination):
    """Dispatches and answers what waited for the disk. Bounded by what waited. A job of the broker and no place for
    messages.

    Each destination has a line of its own, so that a commit of many messages holds up nobody elsewhere; those that
    wait for nobody share the slices.
    """

    def __init__(self, dispatcher: Dispatcher, context: BrokerContext) -> None:
        super().__init__(_NOWHERE, PolicyEntry(_NOWHERE), MemoryUsage(0))
        self._dispatcher: Final[Dispatcher] = dispatcher
        self._context: Final[BrokerContext] = context
        self._lines: Final[dict[BrokerDestination, deque[Part]]] = {}
        self._ready: Final[deque[Part]] = deque()
        self.steps = 0

    @property
    def is_busy(self) -> bool:
        """Return True if something has not reached its destination yet."""
        return len(self._lines) > 0

    def take(self, waiting: Waiting) -> None:
        """Dispatch the messages of ``waiting``, then answer it: now, or in slices behind what they may not overtake."""
        messages = waiting.messages
        if messages is not None:
            if len(messages) > DISPATCH_STEPS or (self._lines and self._concerns_any(messages)):
                homes = waiting.homes if waiting.homes is not None else [entry.home for entry in messages]
                self._enter(waiting, dict.fromkeys(homes))
                return
            for entry in messages:
                self._dispatcher.release_one(entry)
        elif waiting.homes is not None and self._lines:
            for home in waiting.homes:
                if home in self._lines:
                    self._enter(waiting, dict.fromkeys(waiting.homes))
                    return
        answer(waiting, None)

    def _concerns_any(self, messages: list[WithheldMessage]) -> bool:
        for entry in messages:
            if entry.home in self._lines:
                return True
        return False

    def _enter(self, waiting: Waiting, homes: dict[BrokerDestination, None]) -> None:
        part = Part(waiting, homes)
        part.messages.reverse()  # each is let go when it is dispatched, so that freeing them takes slices, too
        for home in homes:
            line = self._lines.get(home)
            if line is None:
                line = deque()
                self._lines[home] = line
            elif line:
                part.ahead += 1
            line.append(part)
        if part.ahead == 0:
            self._ready.append(part)
            self._context.schedule(self)

    def work(self) -> bool:
        """One slice; True while there is more."""
        end = self.steps + DISPATCH_STEPS
        while self._ready and self.steps < end:
            part = self._ready.popleft()
            try:
                is_done = self._dispatch(part, min(end, self.steps + SHARE_STEPS))
            except Exception:  # a message that cannot be dispatched must not strand the others
                self._ready.append(part)
                self._context.schedule(self)
                raise
            if is_done:
                self._leave(part)
                answer(part.waiting, None)
            else:
                self._ready.append(part)
        return len(self._ready) > 0

    def _dispatch(self, part: Part, end: int) -> bool:
        """Some more messages of ``part``; True when that were all."""
        messages = part.messages
        self.steps += 1
        while messages:
            if self.steps >= end:
                return False
            self.steps += 1
            self._dispatcher.release_one(messages.pop())
        return True

    def _leave(self, part: Part) -> None:
        """Its destinations are free for the next ones."""
        for home in part.homes:
            line = self._lines[home]
            line.popleft()
            if not line:
                del self._lines[home]
                continue
            following = line[0]
            following.ahead -= 1
            if following.ahead == 0:
                self._ready.append(following)
