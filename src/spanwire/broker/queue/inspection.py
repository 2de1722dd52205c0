"""Inspection of a queue: all that stands between its messages and consumers, for an operator."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.queue.message_groups import MessageGroups
from spanwire.broker.queue.queue_consumers import QueueConsumers

NOT_PAUSED: Final = -1.0  # in place of the time of a pause

# reasons of a queue to dispatch nothing
PAUSED: Final = 1
RESERVED: Final = 2  # for an exclusive cursor
PURGING: Final = 3
RETURNING: Final = 4  # older messages come in slices
STARTING: Final = 5  # waits for its first consumers


class QueueInspection:
    """The state of one queue at one time.

    ``paused_at`` and ``starts_at`` are in monotonic seconds: the time of the pause (`NOT_PAUSED` without one), and the
    time of the first dispatch. ``exclusive`` is the consumer that gets all messages.
    """

    def __init__(
        self,
        paused_at: float,
        reserved: bool,
        purging: bool,
        returning: bool,
        starts_at: float,
        consumers: QueueConsumers,
        groups: MessageGroups | None,
    ) -> None:
        self.paused_at: Final[float] = paused_at
        self.starts_at: Final[float] = starts_at
        self.exclusive: Final[Subscription | None] = consumers.exclusive
        self._consumers: Final[QueueConsumers] = consumers
        self._reserved: Final[bool] = reserved
        self._purging: Final[bool] = purging
        self._returning: Final[bool] = returning
        self._groups: Final[MessageGroups | None] = groups

    def suspension(self, monotonic: float) -> int:
        """Return why the queue dispatches nothing to anybody at a time, 0 if it dispatches."""
        if self.paused_at != NOT_PAUSED:
            return PAUSED
        if self._reserved:
            return RESERVED
        if self._purging:
            return PURGING
        if self._returning:
            return RETURNING
        return STARTING if self.starts_at > monotonic else 0

    def in_turn(self) -> list[Subscription]:
        """Return the consumers in the order in which the next message is offered to them."""
        return [consumer.subscription for consumer in self._consumers.in_turn(self._groups is not None)]

    def group_owner(self, group: str) -> Subscription | None:
        """Return the owner of a message group, or None."""
        return None if self._groups is None else self._groups.owner(group)
