"""Retained messages of topics for later consumers, and their memory.

ActiveMQ has subscriptionRecoveryPolicy.

Retained messages count in the broker's memory, not in the topic's: they never delay a send to the topic. When all
retained messages together reach their share of memory, a topic discards its oldest for a new message.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.jobs import Alarm, Job
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.policy.topic_policy import FIXED_COUNT, FIXED_SIZE, LAST_IMAGE, TIMED, RecoveryPolicy
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message
from spanwire.model.message_view import BOOLEAN_VALUE, BYTES

KEPT_SHARE: Final = 25  # percent of memoryUsage for retained messages of all topics
COUNTED_OVERHEAD: Final = 1_024  # bytes that ActiveMQ counts for a message beside its content and properties
SWEEP_SECONDS: Final = 1.0  # seconds between two searches for outdated messages, as in ActiveMQ
SWEEPS_PER_TURN: Final = 500  # topics trimmed in one turn
RETAIN: Final = "ActiveMQ.Retain"  # property by which a sender marks a message to retain
RETAINED: Final = "ActiveMQ.Retained"  # property of a message retained so
RETAIN_BYTES: Final = b"ActiveMQ.Retain"

logger = logging.getLogger(__name__)


class KeptMessage:
    """A retained message and the monotonic seconds of its arrival."""

    __slots__ = ("message", "since")

    def __init__(self, message: Message, since: float) -> None:
        self.message: Final[Message] = message
        self.since: Final[float] = since


class RecoveryMemory(Job, Alarm):
    """Memory of all retained messages of one broker.

    Messages retained for a limited time have a clock here.
    """

    def __init__(self, usage: MemoryUsage, context: BrokerContext) -> None:
        self.usage: Final[MemoryUsage] = MemoryUsage(usage.limit_bytes * KEPT_SHARE // 100, usage)
        self._context: Final[BrokerContext] = context
        self._timed: Final[dict[KeptMessages, None]] = {}
        self._left: list[KeptMessages] = []
        self._armed = False
        self._warned = False

    def add_timed(self, kept: KeptMessages) -> None:
        """Note that ``kept`` has messages for a limited time."""
        self._timed[kept] = None
        if not self._armed:
            self._armed = True
            self._context.wake_at(self, self._context.monotonic + SWEEP_SECONDS)

    def wake(self) -> None:
        """Trim all topics, a slice at a time."""
        self._left = list(self._timed)
        self._context.schedule(self)

    def work(self) -> bool:
        """Trim some topics and return True while others are left."""
        for _ in range(min(SWEEPS_PER_TURN, len(self._left))):
            kept = self._left.pop()
            if kept.trim() == 0:
                self._timed.pop(kept, None)
        if self._left:
            return True
        self._armed = len(self._timed) > 0
        if self._armed:
            self._context.wake_at(self, self._context.monotonic + SWEEP_SECONDS)
        return False

    def warn_full(self, destination: Destination) -> None:
        """Log the first time that memory is full and a message is discarded."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "what topics keep for consumers to come takes %d %% of memoryUsage: %s gives up its oldest messages; "
                "raise memoryUsage or keep less (subscriptionRecoveryPolicy)",
                KEPT_SHARE,
                destination,
            )


class KeptMessages:
    """Retained messages of one topic, oldest first. `PolicyTopic` chooses the recipients."""

    def __init__(
        self, destination: Destination, policy: RecoveryPolicy, memory: RecoveryMemory, context: BrokerContext
    ) -> None:
        self._destination: Final[Destination] = destination
        self._memory: Final[RecoveryMemory] = memory
        self._context: Final[BrokerContext] = context
        self._messages: Final[deque[KeptMessage]] = deque()
        self._retained: Message | None = None
        self._max_count: Final[int] = _count_limit(policy)
        self._max_bytes: Final[int] = policy.limit if policy.kind == FIXED_SIZE else -1
        self._max_seconds: Final[float] = policy.limit / 1000 if policy.kind == TIMED else -1.0
        self._bytes = 0

    def add(self, message: Message) -> Message:
        """Retain ``message`` as the policy says.

        Returns:
            The message for the subscribers, without the mark of the sender.
        """
        passed_on = message
        if _may_be_marked(message):
            passed_on = self._retain(message)
        if self._max_count != 0 and self._take_room(passed_on):
            self._messages.append(KeptMessage(passed_on.twin(), self._context.monotonic))
            self._bytes += _counted(passed_on)
            self._memory.usage.add(passed_on.size)
            self._cut()
        return passed_on

    def messages(self) -> list[Message]:
        """Return all retained messages without copying, expired messages included, the marked message first."""
        self.trim()
        retained = self._retained
        if retained is None:
            return [kept.message for kept in self._messages]
        others = [kept.message for kept in self._messages if not kept.message.has_id(retained.message_id)]
        return [retained, *others]

    def trim(self) -> int:
        """Discard messages beyond the retention time and return the number of the rest."""
        if self._max_seconds >= 0:
            oldest = self._context.monotonic - self._max_seconds
            while self._messages and self._messages[0].since < oldest:
                self._drop()
        return len(self._messages)

    def clear(self) -> None:
        """Discard all messages, since the topic is removed."""
        while self._messages:
            self._drop()
        self._forget_retained()

    def _cut(self) -> None:
        """Discard messages over the limit."""
        if self._max_count >= 0 and len(self._messages) > self._max_count:
            self._drop()
        while self._max_bytes >= 0 and self._bytes > self._max_bytes:
            self._drop()
        if self._max_seconds >= 0:
            if len(self._messages) == 1:
                self._memory.add_timed(self)
            self.trim()

    def _take_room(self, message: Message) -> bool:
        """Make memory for ``message``. Return False if this topic has no more messages to discard."""
        memory = self._memory.usage
        while memory.limit_bytes > 0 and memory.used_bytes + message.size > memory.limit_bytes:
            self._memory.warn_full(self._destination)
            if not self._messages:
                return False
            self._drop()
        return True

    def _drop(self) -> None:
        gone = self._messages.popleft().message
        self._bytes -= _counted(gone)
        self._memory.usage.add(-gone.size)

    def _retain(self, message: Message) -> Message:
        """Return ``message`` without its mark, and retain the message if the mark says ``true``.

        The message replaces the marked message of before; a message without content only ends the marked one.
        """
        formats = self._context.formats
        if formats is None:
            return message
        try:
            mark = formats.properties(message).get(RETAIN)
            if mark is None or str(mark[1]).lower() != "true":
                return message
            message_format = formats.format(message.format_id)
            view = message_format.view(message)
            view.properties.pop(RETAIN, None)
            # a forwarded message stays unchanged: encoding would lose its broker path
            passed_on = message if message.broker_path else message_format.encode_from_view(view)
            self._forget_retained()
            if view.body is None or (view.kind == BYTES and not view.body):
                return passed_on
            view.properties[RETAINED] = (BOOLEAN_VALUE, True)
            retained = message_format.encode_from_view(view)
        except (JmsError, ProtocolError):
            return message
        if self._take_room(retained):
            self._retained = retained
            self._memory.usage.add(retained.size)
        return passed_on

    def _forget_retained(self) -> None:
        retained = self._retained
        if retained is not None:
            self._memory.usage.add(-retained.size)
            self._retained = None


def _count_limit(policy: RecoveryPolicy) -> int:
    """Return the number of messages to retain; -1: any number, 0: only the marked message."""
    if policy.kind == FIXED_COUNT:
        return policy.limit
    if policy.kind == LAST_IMAGE:
        return 1
    return -1 if policy.kind in (FIXED_SIZE, TIMED) else 0


def _counted(message: Message) -> int:
    """Return the size for a limit in bytes: like ActiveMQ, content, properties and a fixed part."""
    return COUNTED_OVERHEAD + message.tail_start - message.content_start


def _may_be_marked(message: Message) -> bool:
    """Return True if the mark may occur in the properties.

    Properties are between content and tail, or in the head (STOMP).
    """
    raw = message.raw
    if raw.find(RETAIN_BYTES, message.properties_start, message.tail_start) >= 0:
        return True
    return raw.find(RETAIN_BYTES, 0, message.content_start) >= 0
