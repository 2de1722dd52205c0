"""Advisories on their way to many listeners: in order, and a slice at a time.

A client may announce a thousand consumers in one packet, and each of them may be news to thousands of listeners.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from spanwire.broker.context import BrokerContext
from spanwire.broker.policy import PolicyEntry
from spanwire.broker.reference import BrokerDestination
from spanwire.broker.topic import PER_STEP, FanOut, Topic
from spanwire.broker.usage import MemoryUsage
from spanwire.model.destination import ADVISORY_PREFIX, TOPIC, Destination
from spanwire.model.message import Message

TOLD_AT_ONCE: Final = 50  # listeners of a topic that are told in the turn in which something happens
TELLING_STEPS: Final = 500  # listeners that are told in one slice
MAX_UNTOLD: Final = 10_000  # advisories that wait for their slice, some KiB each; beyond it the oldest is told at once


class Handing(Protocol):
    """Who looks after the listeners."""

    def handed(self) -> None:
        """All listeners have an advisory."""
        ...


class Telling(BrokerDestination):
    """The line of advisories that are told in slices. A job of the broker and no place for messages of clients."""

    def __init__(self, handing: Handing, context: BrokerContext) -> None:
        everything = Destination(TOPIC, ADVISORY_PREFIX + ">")
        super().__init__(everything, PolicyEntry(everything), MemoryUsage(0))
        self._handing: Final[Handing] = handing
        self._context: Final[BrokerContext] = context
        self._untold: Final[deque[tuple[Topic, Message]]] = deque()
        self._topic: Topic | None = None  # whose listeners are being told
        self._fan_out: FanOut | None = None

    def tell(self, topic: Topic, message: Message) -> None:
        """Hand ``message`` on, at once where few listen and nothing waits before it."""
        self._context.steps += len(topic.subscriptions) // PER_STEP
        if not self._untold and self._fan_out is None and len(topic.subscriptions) <= TOLD_AT_ONCE:
            topic.accept(message)
            self._handing.handed()
            return
        if len(self._untold) >= MAX_UNTOLD:
            self._tell_some(len(topic.subscriptions))
        self._untold.append((topic, message))
        self._context.schedule(self)

    def _tell_some(self, at_most: int) -> None:
        """Go on with the oldest advisory, for about ``at_most`` steps."""
        left = at_most
        while left > 0:
            topic, fan_out = self._topic, self._fan_out
            if topic is None or fan_out is None:
                if not self._untold:
                    return
                topic, message = self._untold.popleft()
                fan_out = topic.begin(message)
                left -= 1
                if fan_out is None:
                    continue
                self._topic, self._fan_out = topic, fan_out
            left -= topic.go_on(fan_out, left)
            if fan_out.is_over:
                self._topic = self._fan_out = None
                self._handing.handed()

    def work(self) -> bool:
        """One slice; True while more wait."""
        self._tell_some(TELLING_STEPS)
        return self._fan_out is not None or len(self._untold) > 0
