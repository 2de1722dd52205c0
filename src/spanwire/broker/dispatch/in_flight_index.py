"""Finds a message among those that a consumer has, by its id, when it is not near the front.

Built when a consumer acknowledges out of order for the first time, so that one that acknowledges in order pays nothing.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.ids import MessageId

NOWHERE: Final = -1


class OutIndex:
    """The numbers under which messages went out, by message id; of several with one id the oldest comes first.

    Entries of messages that have gone stay until they are asked for; ``size`` says how many there are in all.
    """

    def __init__(self, through: int) -> None:
        self.through = through  # every message that went out before this number is known
        self._oldest: Final[dict[MessageId, int]] = {}
        self._youngest: Final[dict[MessageId, int]] = {}  # of ids that went out more than once
        self._next: Final[dict[int, int]] = {}  # the number of the next message with the same id

    @property
    def size(self) -> int:
        """How many entries there are, those of messages that have gone among them."""
        return len(self._oldest) + len(self._next)

    def add(self, message_id: MessageId, number: int) -> None:
        """A message went out under ``number``, the largest so far."""
        oldest = self._oldest.get(message_id, NOWHERE)
        if oldest == NOWHERE:
            self._oldest[message_id] = number
            return
        self._next[self._youngest.get(message_id, oldest)] = number
        self._youngest[message_id] = number

    def oldest(self, message_id: MessageId) -> int:
        """The number of the oldest message with this id; `NOWHERE` when there is none."""
        return self._oldest.get(message_id, NOWHERE)

    def after(self, number: int) -> int:
        """The number of the next message with the same id; `NOWHERE` when there is none."""
        return self._next.get(number, NOWHERE)

    def forget_oldest(self, message_id: MessageId) -> None:
        """The oldest message with this id has gone."""
        number = self._oldest.pop(message_id, NOWHERE)
        following = self._next.pop(number, NOWHERE)
        if following != NOWHERE:
            self._oldest[message_id] = following
        else:
            self._youngest.pop(message_id, None)
