"""Dispatches stored messages to their destinations, large numbers of messages in slices.

Messages for a destination wait behind messages that were stored earlier and not dispatched yet; other messages pass.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.persistence.reply_queue import PendingReply, WithheldMessage, answer

DISPATCH_STEPS: Final = 500  # messages of one slice, and messages of one answer that are dispatched at once
SHARE_STEPS: Final = 100  # steps of a slice for one answer; then the next answer has its share


class Dispatcher(Protocol):
    """Dispatches single messages."""

    def release_one(self, entry: WithheldMessage) -> None:
        """Dispatch a message, unless the destination was removed or the message has expired."""
        ...


class Part:
    """The dispatches of one answer.

    ``messages`` is in reverse order. The part waits for ``ahead`` other parts, each the predecessor at one of
    ``homes``.
    """

    __slots__ = ("ahead", "homes", "messages", "waiting")

    def __init__(self, waiting: PendingReply, homes: dict[BrokerDestination, None]) -> None:
        self.waiting: Final[PendingReply] = waiting
        self.homes: Final[dict[BrokerDestination, None]] = homes
        self.messages: Final[list[WithheldMessage]] = [] if waiting.messages is None else waiting.messages
        self.ahead = 0


class DeferredDispatch(Job):
    """Dispatches and answers everything withheld for the disk. Bounded by the withheld answers.

    Each destination has a separate queue, so that a large commit
    delays no other destination. Parts without a predecessor share the slices.
    """

    def __init__(self, dispatcher: Dispatcher, context: BrokerContext) -> None:
        self._dispatcher: Final[Dispatcher] = dispatcher
        self._context: Final[BrokerContext] = context
        self._lines: Final[dict[BrokerDestination, deque[Part]]] = {}
        self._ready: Final[deque[Part]] = deque()
        self.steps = 0

    @property
    def is_busy(self) -> bool:
        """True while messages are not dispatched yet."""
        return len(self._lines) > 0

    def take(self, waiting: PendingReply) -> None:
        """Dispatch the messages of ``waiting``, then send the answer.

        Both happen now, or in slices behind messages that may not be overtaken.
        """
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

    def _enter(self, waiting: PendingReply, homes: dict[BrokerDestination, None]) -> None:
        part = Part(waiting, homes)
        part.messages.reverse()  # dispatch releases each message, so that freeing takes slices, too
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
        """Do one slice.

        Returns:
            True if parts are left.
        """
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
        """Dispatch some messages of ``part``.

        Returns:
            True if no message is left.
        """
        messages = part.messages
        self.steps += 1
        while messages:
            if self.steps >= end:
                return False
            self.steps += 1
            self._dispatcher.release_one(messages.pop())
        return True

    def _leave(self, part: Part) -> None:
        """Remove ``part`` from the queues of its destinations and start parts without a predecessor."""
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
