"""Index of a consumer's dispatched messages by message id, for messages far from the oldest.

The first acknowledgement out of order builds the index, so that a consumer with ordered acknowledgements pays nothing.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.ids import MessageId

NOWHERE: Final = -1


class InFlightIndex:
    """Dispatch numbers of messages by message id; of several messages with one id the oldest comes first.

    An acknowledged message keeps its entry until a search meets the entry. ``size`` includes such entries.
    """

    def __init__(self, through: int) -> None:
        self.through = through  # the index has every message dispatched before this number
        self._oldest: Final[dict[MessageId, int]] = {}
        self._youngest: Final[dict[MessageId, int]] = {}  # only ids that were dispatched more than once
        self._next: Final[dict[int, int]] = {}  # the number of the next message with the same id

    @property
    def size(self) -> int:
        """The number of entries, including entries of acknowledged messages."""
        return len(self._oldest) + len(self._next)

    def add(self, message_id: MessageId, number: int) -> None:
        """Add a message dispatched under ``number``, the largest number so far."""
        oldest = self._oldest.get(message_id, NOWHERE)
        if oldest == NOWHERE:
            self._oldest[message_id] = number
            return
        self._next[self._youngest.get(message_id, oldest)] = number
        self._youngest[message_id] = number

    def oldest(self, message_id: MessageId) -> int:
        """Return the dispatch number of the oldest message ``message_id``, or `NOWHERE`."""
        return self._oldest.get(message_id, NOWHERE)

    def after(self, number: int) -> int:
        """Return the number of the next message with the same id, or `NOWHERE`."""
        return self._next.get(number, NOWHERE)

    def forget_oldest(self, message_id: MessageId) -> None:
        """Remove the oldest entry of ``message_id``."""
        number = self._oldest.pop(message_id, NOWHERE)
        following = self._next.pop(number, NOWHERE)
        if following != NOWHERE:
            self._oldest[message_id] = following
        else:
            self._youngest.pop(message_id, None)
