"""Dispatches stored messages to their destinations, large numbers of messages in slices.

A destination gets messages in the order of their storage; other destinations do not wait.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import Alarm, Job
from spanwire.broker.persistence.reply_queue import Arrivals, PendingReply, WithheldMessage, answer

DISPATCH_STEPS: Final = 500  # messages of one slice, and messages of one answer that are dispatched at once
SHARE_STEPS: Final = 100  # steps of a slice for one answer; then the next answer has its share
LAG_POLL_SECONDS: Final = 0.005  # seconds between two checks whether slow consumers have lost enough messages


class Dispatcher(Protocol):
    """Dispatches single messages."""

    def release_one(self, entry: WithheldMessage) -> None:
        """Dispatch a message, unless the destination was removed or the message has expired."""
        ...


class Part:
    """The dispatches of one answer.

    ``messages`` is in reverse order. The part waits for ``ahead`` other parts, each the predecessor at one of
    ``destinations``.
    """

    __slots__ = ("ahead", "destinations", "messages", "reply")

    def __init__(self, reply: PendingReply, destinations: dict[BrokerDestination, None]) -> None:
        self.reply: Final[PendingReply] = reply
        self.destinations: Final[dict[BrokerDestination, None]] = destinations
        self.messages: Final[list[WithheldMessage]] = [] if reply.messages is None else reply.messages
        self.ahead = 0

    def is_held(self) -> bool:
        """Return True if slow consumers must lose messages before the next dispatch."""
        return len(self.messages) > 0 and self.messages[-1].destination.lags


class DeferredDispatch(Job, Alarm):
    """Dispatches and answers everything withheld for the disk. Bounded by the withheld answers.

    Each destination has a separate queue, so that a large commit delays no other destination. Parts without a
    predecessor share the slices. A message to many consumers counts the steps of its fan-out.
    """

    def __init__(self, dispatcher: Dispatcher, context: BrokerContext) -> None:
        self._dispatcher: Final[Dispatcher] = dispatcher
        self._context: Final[BrokerContext] = context
        self._parts: Final[dict[BrokerDestination, deque[Part]]] = {}
        self._ready: Final[deque[Part]] = deque()
        self._sleeps = False  # until the next check of slow consumers
        self.steps = 0

    @property
    def is_busy(self) -> bool:
        """True while messages are not dispatched yet."""
        return len(self._parts) > 0

    def take(self, reply: PendingReply) -> None:
        """Dispatch the messages of ``reply``, then send the answer.

        Both happen now, or in slices behind earlier messages.
        """
        messages = reply.messages
        if messages is not None:
            if len(messages) > DISPATCH_STEPS or (self._parts and self._concerns_any(messages)):
                destinations = (
                    reply.destinations if reply.destinations is not None else [entry.destination for entry in messages]
                )
                self._enter(reply, dict.fromkeys(destinations))
                return
            done = self._release_some(messages)
            if done < len(messages):
                del messages[:done]
                self._enter(reply, dict.fromkeys([entry.destination for entry in messages]))
                return
        elif reply.destinations is not None:
            if reply.arrivals is None or self._parts or not self._enters_all(reply.arrivals):
                self._enter(reply, dict.fromkeys(reply.destinations))
                return
        answer(reply, None)

    def _release_some(self, messages: list[WithheldMessage]) -> int:
        """Dispatch messages at once as long as their fan-outs fit into this turn; return the number."""
        context = self._context
        for index, entry in enumerate(messages):
            if context.first_slices >= DISPATCH_STEPS or entry.destination.lags:
                return index
            before = context.steps
            self._dispatcher.release_one(entry)
            context.first_slices += context.steps - before
        return len(messages)

    def _enters_all(self, arrivals: Arrivals) -> bool:
        """Append messages, and return True if no message is left after one slice."""
        end = self.steps + DISPATCH_STEPS
        while self.steps < end:
            steps = arrivals.enter(end - self.steps)
            if steps == 0:
                return True
            self.steps += steps
        return False

    def _concerns_any(self, messages: list[WithheldMessage]) -> bool:
        for entry in messages:
            if entry.destination in self._parts:
                return True
        return False

    def _enter(self, reply: PendingReply, destinations: dict[BrokerDestination, None]) -> None:
        part = Part(reply, destinations)
        part.messages.reverse()  # dispatch releases each message, so that freeing takes slices, too
        for destination in destinations:
            parts = self._parts.get(destination)
            if parts is None:
                parts = deque()
                self._parts[destination] = parts
            elif parts:
                part.ahead += 1
            parts.append(part)
        if part.ahead == 0:
            self._ready.append(part)
            self._context.schedule(self)

    def wake(self) -> None:
        """Look again whether slow consumers have lost enough messages."""
        self._sleeps = False
        if self._ready:
            self._context.schedule(self)

    def work(self) -> bool:
        """Do one slice.

        Returns:
            True if parts are left.
        """
        end = self.steps + DISPATCH_STEPS
        held = 0  # parts in a row that wait for slow consumers
        while self._ready and self.steps < end and held < len(self._ready):
            part = self._ready.popleft()
            if part.is_held():
                self.steps += 1
                held += 1
                self._ready.append(part)
                continue
            held = 0
            try:
                is_done = self._dispatch(part, min(end, self.steps + SHARE_STEPS))
            except Exception:  # a message that cannot be dispatched must not strand the others
                self._ready.append(part)
                self._context.schedule(self)
                raise
            if is_done:
                self._leave(part)
                answer(part.reply, None)
            else:
                self._ready.append(part)
        if self._ready and held == len(self._ready):
            if not self._sleeps:
                self._sleeps = True
                self._context.wake_at(self, self._context.monotonic + LAG_POLL_SECONDS)
            return False
        return len(self._ready) > 0

    def _dispatch(self, part: Part, end: int) -> bool:
        """Dispatch some messages of ``part``.

        Returns:
            True if no message is left.
        """
        messages = part.messages
        arrivals = part.reply.arrivals
        self.steps += 1
        while arrivals is not None:
            if self.steps >= end:
                return False
            steps = arrivals.enter(end - self.steps)
            if steps == 0:
                break
            self.steps += steps
        while messages:
            if self.steps >= end or part.is_held():
                return False
            before = self._context.steps
            self._dispatcher.release_one(messages.pop())
            self.steps += 1 + self._context.steps - before
        return True

    def _leave(self, part: Part) -> None:
        """Remove ``part`` from the queues of all destinations, and start parts without a predecessor."""
        for destination in part.destinations:
            parts = self._parts[destination]
            parts.popleft()
            if not parts:
                del self._parts[destination]
                continue
            following = parts[0]
            following.ahead -= 1
            if following.ahead == 0:
                self._ready.append(following)
