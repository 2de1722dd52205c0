"""The unacknowledged messages of one consumer in dispatch order, and the use of the window."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from mypy_extensions import i64

from spanwire.broker.dispatch.in_flight_index import NOWHERE, InFlightIndex
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageHolder, MessageReference
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.acks import SequenceRun
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import IllegalStateError
from spanwire.model.ids import ConsumerId, MessageId, ProducerId
from spanwire.model.message import Message

TRIM_AT: Final = 1_024  # acknowledged slots; from here on ``references`` is cut, at the front or elsewhere
NEAR: Final = 64  # slots searched one by one for an acknowledged message; an index covers further slots

_NOWHERE: Final = Destination(QUEUE, "-")
# Fills the slots of acknowledged references until the list is cut, so that acknowledged messages leave memory.
GONE: Final = MessageReference(
    MessageHolder(_NOWHERE, PolicyEntry(_NOWHERE), MemoryUsage(0)),
    Message(0, b"", 0, 0, 0, _NOWHERE, ProducerId("-", 0, 0), 0, False, 0, 0, 0),
    0,
    0,
    0,
)


class InFlight:
    """The references dispatched to one consumer and not acknowledged.

    ``references[first:]`` are in dispatch order. `GONE` fills the slots of references that were acknowledged early.
    Dispatches are numbered from 0. ``extension`` counts the messages in flight that the client has reported as
    delivered to the application; the broker may dispatch as many messages in addition.

    With ``keeps_window`` the window has no extension: messages acknowledged in an open transaction count as in flight,
    and ``extension`` is 0 or negative. The consumer's `Subscription` appends to ``references``.
    """

    def __init__(self, consumer_id: ConsumerId) -> None:
        self._consumer_id: Final[ConsumerId] = consumer_id
        self.references: list[MessageReference] = []
        self.first = 0
        self.gone = 0  # slots of ``references`` with `GONE`, including slots before ``first``
        self.taken_at = 0  # number of the oldest reference in the last removal
        self.taken_apart: list[int] | None = None  # numbers in the last removal, unless consecutive
        self._base = 0  # number minus position, for all slots behind ``_numbers``
        self._numbers: list[int] = []  # numbers of the first slots, after gaps were closed
        self._index: InFlightIndex | None = None
        self.steps = 0  # slots searched because of acknowledgements out of order
        self._reported = 0  # number behind the last message that ``extension`` counts
        self.extension = 0
        self.keeps_window = False
        self.acknowledged_total = 0

    @property
    def count(self) -> int:
        """The number of messages in flight."""
        return len(self.references) - self.gone

    def newest(self) -> MessageReference:
        """Return the last dispatched reference; during a dispatch, the current reference."""
        return self.references[-1]

    @property
    def newest_number(self) -> int:
        """The number of the last dispatch; during a dispatch, of the current one."""
        return self._base + len(self.references) - 1

    def take_front(self, count: int, first: MessageId | None, last: MessageId) -> list[MessageReference] | None:
        """Remove and return the first ``count`` dispatched references, the usual acknowledgement.

        Returns:
            None if a reference was acknowledged out of order, or the range is not ``first`` (None: any) to ``last``.
        """
        end = self.first + count
        if count <= 0 or end > len(self.references):
            return None
        if first is not None and not self.references[self.first].message.has_id(first):
            return None
        if not self.references[end - 1].message.has_id(last):
            return None
        if self.gone > self.first:
            return None  # acknowledged out of order: `take_range` handles the gaps
        taken = self.references[self.first : end]
        self._drop_front(end, count)
        return taken

    def front_producer(self) -> ProducerId | None:
        """Return the producer of the oldest message in flight, or None."""
        if self.first == len(self.references):
            return None
        return self.references[self.first].message.producer_id

    def take_run(self, producer_id: ProducerId, sequences: SequenceRun) -> list[MessageReference]:
        """Remove and return the oldest references that match the producer and the run of sequences."""
        references = self.references
        start: i64 = self.first
        end: i64 = len(references)
        end = min(end, start + sequences.size)
        ranged: i64 = start + sequences.ranged
        sequence: i64 = sequences.first
        index = start
        while index < end:
            reference = references[index]
            message = reference.message
            if index >= ranged:
                sequence = sequences.at(index - start)
            if message.sequence != sequence or message.text_view is not None:
                break
            sequence += sequences.step
            maker = message.producer_id
            if maker is not producer_id and maker != producer_id:
                break
            if reference is GONE:
                break
            index += 1
        taken = references[start:index]
        if taken:
            self._drop_front(index, len(taken))
        return taken

    def take_range(self, first: MessageId | None, last: MessageId) -> list[MessageReference]:
        """Remove and return all dispatched references from ``first`` (None: the oldest) to ``last``.

        Raises:
            IllegalStateError: ``first`` or ``last`` is not in flight.
        """
        start = self.first if first is None else self._find(first, self.first)
        return self._take_between(start, self._find(last, start) + 1)

    def take_shown(self, first: MessageId | None, last: MessageId) -> list[MessageReference]:
        """Remove and return a browser's references up to ``last``.

        The range starts at ``first``, or at the oldest reference if ``first`` is not in flight.
        """
        end = self._search(last, self.first) + 1
        if end == 0:
            return []
        start = NOWHERE if first is None else self._search(first, self.first)
        return self._take_between(start if NOWHERE < start < end else self.first, end)

    def take_one(self, message_id: MessageId) -> MessageReference:
        """Remove and return the dispatched reference of ``message_id``.

        Raises:
            IllegalStateError: the message is not in flight.
        """
        return self._take_at(self._find(message_id, self.first))

    def take_numbered(self, numbers: SequenceRun) -> list[MessageReference]:
        """Remove and return the references with the given dispatch numbers.

        The first number without a message in flight ends the run.
        """
        start: i64 = self.first
        if numbers.is_consecutive and numbers.at(0) == self._number(start) and self.gone == start and not self._numbers:
            end: i64 = len(self.references)
            end = min(end, start + numbers.size)
            front = self.references[start:end]
            if front:
                self._drop_front(end, len(front))
            return front
        taken: list[MessageReference] = []
        index: i64 = 0
        while index < numbers.size:
            position = self._numbered(numbers.at(index))
            if position == NOWHERE:
                break
            taken.append(self._take_at(position))
            index += 1
        return taken

    def _take_at(self, position: int) -> MessageReference:
        """Remove and return the reference at ``position``."""
        reference = self.references[position]
        if position == self.first:
            self._drop_front(position + 1, 1)
        else:
            self._drop_inside(position)
            self._close_gaps()
        return reference

    def take_all(self) -> list[MessageReference]:
        """Remove and return all references in flight, for a consumer that leaves."""
        taken = self.references[self.first :]
        if self.gone > self.first:
            taken = [reference for reference in taken if reference is not GONE]
        self._clear()
        self.extension = 0
        return taken

    def all_out(self) -> list[MessageReference]:
        """Return all references in flight, in dispatch order."""
        return [reference for reference in self.references[self.first :] if reference is not GONE]

    def out_of_last(self, count: int) -> list[MessageReference]:
        """Return the references still in flight among the last ``count`` dispatched."""
        start = max(self.first, self._at(self._base + len(self.references) - count))
        return [reference for reference in self.references[start:] if reference is not GONE]

    def find(self, message_id: MessageId) -> MessageReference | None:
        """Return the dispatched reference of ``message_id``, or None."""
        position = self._search(message_id, self.first)
        return None if position == NOWHERE else self.references[position]

    def find_number(self, number: int) -> MessageReference | None:
        """Return the reference with the dispatch number ``number``, or None."""
        position = self._numbered(number)
        return None if position == NOWHERE else self.references[position]

    def take_back(self, references: list[MessageReference]) -> None:
        """Append references of a rolled back transaction, for a consumer that leaves.

        The order does not matter.
        """
        self.references.extend(references)

    def put_back(self, references: list[MessageReference], numbers: list[int]) -> None:
        """Insert references of a rolled back transaction at the positions of their numbers.

        The client still has the messages.
        """
        following = self._base + len(self.references)
        self.steps += len(self.references) - self.first + len(references)
        lowest = min(numbers, default=following)
        if self.first < len(self.references):
            lowest = min(lowest, self._number(self.first))
        count = self.count + len(references)
        if following - lowest <= 2 * count + TRIM_AT:
            self._put_in(references, numbers, lowest, following)
            self.gone = following - lowest - count
        else:
            self._sort_in(references, numbers, following)
        self.first = 0
        while self.first < len(self.references) and self.references[self.first] is GONE:
            self.first += 1
        self._index = None
        self._reported = self._reported_through(max(self.extension, 0))

    def _reported_through(self, count: int) -> int:
        """Return the number behind the first ``count`` references in flight; 0 if none is in flight."""
        reported = 0
        for position in range(self.first, len(self.references)):
            if count == 0:
                break
            if self.references[position] is not GONE:
                reported = self._number(position) + 1
                count -= 1
        return reported

    def _put_in(self, references: list[MessageReference], numbers: list[int], lowest: int, following: int) -> None:
        """Insert each reference in the slot of its number, with one slot per number.

        Used if most slots are in use.
        """
        slots = [GONE] * (following - lowest)
        for position in range(self.first, len(self.references)):
            slots[self._number(position) - lowest] = self.references[position]
        for index, number in enumerate(numbers):
            slots[number - lowest] = references[index]
        self.references = slots
        self._numbers = []
        self._base = lowest

    def _sort_in(self, references: list[MessageReference], numbers: list[int], following: int) -> None:
        """Insert all references in order, without empty slots. Used if few of many numbers are in flight."""
        out: dict[int, MessageReference] = {}
        for position in range(self.first, len(self.references)):
            if self.references[position] is not GONE:
                out[self._number(position)] = self.references[position]
        for index, reference in enumerate(references):
            out[numbers[index]] = reference
        self._numbers = sorted(out)
        self.references = [out[number] for number in self._numbers]
        self._base = following - len(self.references)
        self.gone = 0

    def delivered(self, last: MessageId, count: int = 0) -> None:
        """Advance the window: the client delivered all messages up to ``last`` to the application.

        ``count`` is how many the client says there are since its last report, 0 for unknown.
        """
        if self.keeps_window:
            self._find(last, self.first)
            return
        start = max(self.first, self._at(self._reported)) if self.extension > 0 else self.first
        end = start + count
        if not self._ends_with(last, start, end):
            end = self._search(last, start) + 1
        if end == 0:
            self._find(last, self.first)  # raises if unknown; otherwise the window has passed ``last`` already
            return
        if self.gone == self.first:
            self.extension += end - start
        else:
            self.extension += sum([reference is not GONE for reference in self.references[start:end]])
        self._reported = self._number(end - 1) + 1

    def _ends_with(self, last: MessageId, start: int, end: int) -> bool:
        """Return True if ``last`` is right before ``end``, where no search is needed."""
        if not start < end <= len(self.references):
            return False
        reference = self.references[end - 1]
        return reference is not GONE and reference.message.has_id(last)

    def acknowledged_later(self, count: int) -> None:
        """Count ``count`` references as acknowledged in an open transaction."""
        if self.keeps_window:
            self.extension -= count

    def transaction_ended(self, count: int) -> None:
        """Release the window slots of ``count`` references after the end of the transaction."""
        if self.keeps_window:
            self.extension = min(0, self.extension + count)

    def in_range(self, first: MessageId | None, last: MessageId) -> list[MessageReference]:
        """Return the dispatched references from ``first`` to ``last`` without removing the references."""
        start = self.first if first is None else self._find(first, self.first)
        end = self._find(last, start) + 1
        return [reference for reference in self.references[start:end] if reference is not GONE]

    def _find(self, message_id: MessageId, start: int) -> int:
        position = self._search(message_id, start)
        if position == NOWHERE:
            raise IllegalStateError(
                f"Could not correlate acknowledgment with dispatched message: {message_id} is not out at consumer "
                f"{self._consumer_id}"
            )
        return position

    def _search(self, message_id: MessageId, start: int) -> int:
        """Return the first position of the message from ``start`` on, or `NOWHERE`."""
        references = self.references
        end = len(references)
        near = min(start + NEAR, end)
        for position in range(start, near):
            reference = references[position]
            if reference.message.has_id(message_id) and reference is not GONE:
                return position
        return NOWHERE if near == end else self._search_far(message_id, start)

    def _search_far(self, message_id: MessageId, start: int) -> int:
        index = self._known()
        number = index.oldest(message_id)
        is_oldest = True
        while number != NOWHERE:
            self.steps += 1
            position = self._at(number)
            following = index.after(number)
            out = position < len(self.references) and self._number(position) == number
            if out and self.references[position] is not GONE:
                if position >= start:
                    return position
                is_oldest = False
            elif is_oldest:
                index.forget_oldest(message_id)
            number = following
        return NOWHERE

    def _known(self) -> InFlightIndex:
        """Return the index with all references in flight."""
        index = self._index
        if index is None or index.size > 2 * self.count + NEAR:
            index = InFlightIndex(self._number(self.first))
            self._index = index
        start = max(self.first, self._at(index.through))
        self.steps += len(self.references) - start
        for position in range(start, len(self.references)):
            if self.references[position] is not GONE:
                index.add(self.references[position].message.message_id, self._number(position))
        index.through = self._base + len(self.references)
        return index

    def _number(self, position: int) -> int:
        """Return the dispatch number of the reference at ``position``."""
        return self._numbers[position] if position < len(self._numbers) else self._base + position

    def _numbered(self, number: int) -> int:
        """Return the position of the reference in flight with the dispatch number ``number``, or `NOWHERE`."""
        position = self._at(number)
        if position < self.first or position >= len(self.references) or self._number(position) != number:
            return NOWHERE
        return NOWHERE if self.references[position] is GONE else position

    def _at(self, number: int) -> int:
        """Return the first position with a dispatch number of at least ``number``."""
        numbers = self._numbers
        if numbers and number <= numbers[-1]:
            return bisect_left(numbers, number)
        return min(max(number - self._base, len(numbers)), len(self.references))

    def _take_between(self, start: int, end: int) -> list[MessageReference]:
        taken = self.references[start:end]
        if self.gone > self.first:
            taken = [reference for reference in taken if reference is not GONE]
        if start == self.first:
            self._drop_front(end, len(taken))
            return taken
        self.taken_at = self._number(start)
        apart: list[int] = []
        for position in range(start, end):
            if self.references[position] is not GONE:
                apart.append(self._number(position))
                self._drop_inside(position)
        self.taken_apart = apart
        self._close_gaps()
        return taken

    def _drop_front(self, end: int, count: int) -> None:
        """Drop the references before the position ``end``, ``count`` in number."""
        references = self.references
        self.taken_at = self._number(self.first)
        self.taken_apart = None
        if self._numbers or end - self.first > count:
            self.taken_apart = [
                self._number(position) for position in range(self.first, end) if references[position] is not GONE
            ]
        references[self.first : end] = [GONE] * (end - self.first)
        self.first = end
        self.gone += count
        self.acknowledged_total += count
        if self.extension > 0:
            self._shrink_extension(count)
        while self.gone > self.first and references[self.first] is GONE:
            self.first += 1
        if self.first == len(references):
            self._clear()
        elif self.first >= TRIM_AT:
            del references[: self.first]
            del self._numbers[: self.first]
            self._base += self.first
            self.gone -= self.first
            self.first = 0

    def _drop_inside(self, position: int) -> None:
        """Drop the reference at ``position``, which is not the oldest."""
        self.taken_at = self._number(position)
        self.taken_apart = None
        self.references[position] = GONE
        self.gone += 1
        self.acknowledged_total += 1
        if self.extension > 0 and self.taken_at < self._reported:
            self._shrink_extension(1)

    def _close_gaps(self) -> None:
        """Remove the empty slots once at least `TRIM_AT` slots and half of all slots are empty."""
        if self.gone - self.first < TRIM_AT or 2 * (self.gone - self.first) < len(self.references) - self.first:
            return
        following = self._base + len(self.references)
        self.steps += len(self.references) - self.first
        positions = [
            position for position in range(self.first, len(self.references)) if self.references[position] is not GONE
        ]
        self._numbers = [self._number(position) for position in positions]
        self.references = [self.references[position] for position in positions]
        self._base = following - len(self.references)
        self.first = 0
        self.gone = 0

    def _clear(self) -> None:
        self._base += len(self.references)
        self.references = []
        self.first = 0
        self.gone = 0
        if self._numbers:
            self._numbers = []
        self._index = None

    def _shrink_extension(self, count: int) -> None:
        """Reduce the extension after ``count`` messages known to the application are acknowledged."""
        if count > 0:
            self.extension = max(0, self.extension - count)
