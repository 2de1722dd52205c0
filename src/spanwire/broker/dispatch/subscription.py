"""The broker's side of one consumer: window, dispatched and unacknowledged messages, selector."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final

from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.fan_out import selector_steps
from spanwire.broker.dispatch.in_flight_index import NOWHERE, InFlightIndex
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageCondition, MessageReference
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.ports import MessageConsumer, Principal
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import IllegalStateError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message
from spanwire.model.routing import NetworkFilter
from spanwire.selector.expression import Selector

MAX_PREFETCH: Final = 32_766  # messages; the largest window of a consumer, ActiveMQ's default for topics
TRIM_AT: Final = 1_024  # acknowledged slots; from here on ``dispatched`` is cut, at the front or elsewhere
NEAR: Final = 64  # slots searched one by one for an acknowledged message; an index covers further slots


_NOWHERE: Final = Destination(QUEUE, "-")
# Fills the slots of acknowledged references until the list is cut, so that acknowledged messages leave memory.
GONE: Final = MessageReference(
    BrokerDestination(_NOWHERE, PolicyEntry(_NOWHERE), MemoryUsage(0)),
    Message(0, b"", 0, 0, 0, _NOWHERE, MessageId(ProducerId("-", 0, 0), 0), False, 0, 0, 0),
    0,
    0,
    0,
)

_NOTHING_PENDING: Final[deque[MessageReference]] = deque()  # shared by all consumers of a single queue


def _pending_of(destination: Destination) -> deque[MessageReference]:
    """Return the list of pending messages for a new subscription. Messages of a queue wait in the queue instead."""
    if destination.is_queue and not destination.is_composite:
        return _NOTHING_PENDING
    return deque()


class Subscription:
    """The broker's side of one consumer.

    ``dispatched[first:]`` are the unacknowledged references in dispatch order. `GONE` fills the slots of references
    that were acknowledged early. Each dispatch has a number of its own. At most ``prefetch_size + extension`` messages
    are in flight; ``extension`` counts messages that the client reported as delivered to the application.

    With ``keeps_window`` there is no such extension: messages acknowledged in an open transaction count as in flight,
    and ``extension`` is 0 or negative. ``pending`` holds messages of topics that the subscriber cannot take yet.
    `Queue`, `Topic` and `Browse` decide about dispatch.
    """

    def __init__(
        self,
        info: ConsumerInfo,
        consumer: MessageConsumer,
        output: ConnectionOutput,
        principal: Principal,
        selector: Selector | None,
        values: MessageEvaluationContext,
        automatic: bool,
    ) -> None:
        self.info: Final[ConsumerInfo] = info
        self.consumer: Final[MessageConsumer] = consumer
        self.output: Final[ConnectionOutput] = output
        self.principal: Final[Principal] = principal
        self.selector: Final[Selector | None] = selector
        self.automatic: Final[bool] = automatic
        self.network_filter: Final[NetworkFilter | None] = info.network_filter
        self.bridge_condition: MessageCondition | None = None
        self.no_local_connection: Final[str | None] = info.consumer_id.connection_id if info.no_local else None
        self.readable: MessageCondition | None = None  # read rights of a durable subscription's user
        self.is_filtered = info.no_local or info.network_filter is not None  # by more than the selector
        self.values: Final[MessageEvaluationContext] = values
        self.pulls: bool = info.prefetch_size == 0
        self.prefetch_size = min(max(info.prefetch_size, 0), MAX_PREFETCH)
        self.dispatched: list[MessageReference] = []
        self.first = 0
        self.gone = 0  # slots of ``dispatched`` with `GONE`, including slots before ``first``
        self.taken_at = 0  # number of the oldest reference in the last removal
        self.taken_apart: list[int] | None = None  # numbers in the last removal, unless consecutive
        self._base = 0  # number minus position, for all slots behind ``_numbers``
        self._numbers: list[int] = []  # numbers of the first slots, after gaps were closed
        self._index: InFlightIndex | None = None
        self.steps = 0  # slots searched because of acknowledgements out of order
        self._told = 0  # number behind the last message that ``extension`` counts
        self.extension = 0
        self.keeps_window = False
        self.client_id = ""  # of the connection
        self.pulled = 0
        self.pull_deadline = 0.0
        self.started = False
        self.removed = False
        self.refilling = False  # a job searches the destinations for pending messages
        self.leaving = False  # the connection has ended; no further dispatch
        self.left = False  # removed, and all messages given back
        self.discarding = False  # pending messages are being discarded
        self.homes: Final[dict[BrokerDestination, None]] = {}
        self.shared: Final[bool] = info.destination.is_pattern or info.destination.is_composite
        self.busy: Final[dict[BrokerDestination, None]] = {}  # destinations with pending messages, if ``shared``
        self.pending: Final[deque[MessageReference]] = _pending_of(info.destination)
        self.weight: Final[int] = 1 + selector_steps(info.selector)  # steps for each message of a topic
        self.dispatched_total = 0
        self.acknowledged_total = 0

    @property
    def dispatched_count(self) -> int:
        """The number of messages dispatched and not acknowledged."""
        return len(self.dispatched) - self.gone

    def can_take(self) -> bool:
        """Return True if one more message may be dispatched now."""
        if not self.output.writable or not self.started:
            return False
        if self.pulls:
            return self.pulled > 0
        return len(self.dispatched) - self.gone < self.prefetch_size + self.extension

    def accepts(self, reference: MessageReference) -> bool:
        """Return True if selector, no-local, bridge filter and the user's rights let the message through."""
        if self.is_filtered and not self._passes(reference):
            return False
        return self.selector is None or self.selects(reference)

    def read_only(self, readable: MessageCondition) -> None:
        """Take only messages accepted by ``readable``. Call before the subscription is attached."""
        self.readable = readable
        self.is_filtered = True

    def _passes(self, reference: MessageReference) -> bool:
        if self.readable is not None and not self.readable.lets_through(reference):
            return False
        condition = self.bridge_condition
        if condition is None:
            return self.lets_through(reference.message)
        return condition.lets_through(reference)  # only bridges have a condition, and bridges have no no-local

    def lets_through(self, message: Message) -> bool:
        """Return True if no-local and the bridge's filter let the message through. Further conditions are not
        evaluated.
        """
        network_filter = self.network_filter
        if network_filter is not None and not network_filter.passes(message.broker_path):
            return False
        connection_id = self.no_local_connection
        return connection_id is None or message.message_id.producer_id.connection_id != connection_id

    def selects(self, reference: MessageReference) -> bool:
        """Return True if the selector matches, or without a selector."""
        selector = self.selector
        if selector is None:
            return True
        message = reference.message
        matches = self.values.matches(selector, message, reference.redelivery_count)
        if message.properties_cache is not None:
            reference.home.count_forms(message)
        return matches

    def group_sequence(self, message: Message) -> int:
        """Return the position of ``message`` in its group; a negative position closes the group."""
        return self.values.group_sequence(message)

    def first_for_consumer(self, message: Message) -> Message:
        """Return ``message`` marked as the first of its group for this consumer."""
        return self.values.first_for_consumer(message)

    def dispatch(self, reference: MessageReference) -> None:
        """Send ``reference`` to the consumer and keep the reference until its acknowledgement."""
        self.dispatched.append(reference)
        self.dispatched_total += 1
        if self.pulls:
            self.pulled -= 1
        message = reference.message
        self.consumer.dispatch(message, reference.order, reference.redelivery_count)
        if message.converted is not None:
            reference.home.count_forms(message)
        self.output.add(message.size)

    def newest(self) -> MessageReference:
        """Return the last dispatched reference; during a dispatch, the current reference."""
        return self.dispatched[-1]

    def drain(self, wall_ms: int) -> None:
        """Dispatch pending messages of topics as far as the window allows."""
        pending = self.pending
        while pending and self.can_take():
            reference = pending.popleft()
            home = reference.home
            if reference.message.is_expired(wall_ms):
                home.expired += 1
                home.release(reference.message)
                continue
            home.dispatched += 1
            self.dispatch(reference)

    def take_front(self, count: int, first: MessageId | None, last: MessageId) -> list[MessageReference] | None:
        """Remove and return the first ``count`` dispatched references, the usual acknowledgement.

        Returns:
            None if a reference was acknowledged out of order, or the range is not ``first`` (None: any) to ``last``.
        """
        end = self.first + count
        if count <= 0 or end > len(self.dispatched):
            return None
        if first is not None and not self.dispatched[self.first].message.message_id.equals(first):
            return None
        if not self.dispatched[end - 1].message.message_id.equals(last):
            return None
        if self.gone > self.first:
            return None  # acknowledged out of order: `take_range` handles the gaps
        taken = self.dispatched[self.first : end]
        self._drop_front(end, count)
        return taken

    def front_producer(self) -> ProducerId | None:
        """Return the producer of the oldest message in flight, or None."""
        if self.first == len(self.dispatched):
            return None
        return self.dispatched[self.first].message.message_id.producer_id

    def take_run(self, producer_id: ProducerId, sequences: list[int]) -> list[MessageReference]:
        """Remove and return the oldest references as far as they match this producer and these sequences."""
        dispatched = self.dispatched
        place = self.first
        end = len(dispatched)
        for sequence in sequences:
            if place == end:
                break
            message_id = dispatched[place].message.message_id
            if message_id.sequence != sequence or message_id.text_view is not None:
                break
            maker = message_id.producer_id
            if maker is not producer_id and maker != producer_id:
                break
            if dispatched[place] is GONE:
                break
            place += 1
        taken = dispatched[self.first : place]
        if taken:
            self._drop_front(place, len(taken))
        return taken

    def take_range(self, first: MessageId | None, last: MessageId) -> list[MessageReference]:
        """Remove and return all dispatched references from ``first`` (None: the oldest) to ``last``.

        Raises:
            IllegalStateError: one of the two messages is not in flight.
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
        """Remove and return the dispatched reference of this id.

        Raises:
            IllegalStateError: the message is not in flight.
        """
        position = self._find(message_id, self.first)
        reference = self.dispatched[position]
        if position == self.first:
            self._drop_front(position + 1, 1)
        else:
            self._drop_inside(position)
            self._close_gaps()
        return reference

    def take_all(self) -> list[MessageReference]:
        """Remove and return all references in flight, for a consumer that leaves."""
        taken = self.dispatched[self.first :]
        if self.gone > self.first:
            taken = [reference for reference in taken if reference is not GONE]
        self._clear()
        self.extension = 0
        return taken

    def all_out(self) -> list[MessageReference]:
        """Return all references in flight, in dispatch order."""
        return [reference for reference in self.dispatched[self.first :] if reference is not GONE]

    def out_of_last(self, count: int) -> list[MessageReference]:
        """Return the references still in flight among the last ``count`` dispatched."""
        start = max(self.first, self._at(self._base + len(self.dispatched) - count))
        return [reference for reference in self.dispatched[start:] if reference is not GONE]

    def find(self, message_id: MessageId) -> MessageReference | None:
        """Return the dispatched reference of this id, or None."""
        position = self._search(message_id, self.first)
        return None if position == NOWHERE else self.dispatched[position]

    def take_back(self, references: list[MessageReference]) -> None:
        """Append references of a rolled back transaction, for a consumer that leaves. The order does not matter."""
        self.dispatched.extend(references)

    def put_back(self, references: list[MessageReference], numbers: list[int]) -> None:
        """Insert references of a rolled back transaction at the positions of their numbers. The client still has the
        messages.
        """
        following = self._base + len(self.dispatched)
        self.steps += len(self.dispatched) - self.first + len(references)
        lowest = min(numbers, default=following)
        if self.first < len(self.dispatched):
            lowest = min(lowest, self._number(self.first))
        count = self.dispatched_count + len(references)
        if following - lowest <= 2 * count + TRIM_AT:
            self._put_in(references, numbers, lowest, following)
            self.gone = following - lowest - count
        else:
            self._sort_in(references, numbers, following)
        self.first = 0
        while self.first < len(self.dispatched) and self.dispatched[self.first] is GONE:
            self.first += 1
        self._index = None
        self._told = self._told_through(max(self.extension, 0))

    def _told_through(self, count: int) -> int:
        """Return the number behind the first ``count`` references in flight; 0 if none is in flight."""
        told = 0
        for position in range(self.first, len(self.dispatched)):
            if count == 0:
                break
            if self.dispatched[position] is not GONE:
                told = self._number(position) + 1
                count -= 1
        return told

    def _put_in(self, references: list[MessageReference], numbers: list[int], lowest: int, following: int) -> None:
        """Insert each reference in the slot of its number, with one slot per number. Used if most slots are in use."""
        slots = [GONE] * (following - lowest)
        for position in range(self.first, len(self.dispatched)):
            slots[self._number(position) - lowest] = self.dispatched[position]
        for place, number in enumerate(numbers):
            slots[number - lowest] = references[place]
        self.dispatched = slots
        self._numbers = []
        self._base = lowest

    def _sort_in(self, references: list[MessageReference], numbers: list[int], following: int) -> None:
        """Insert all references in order, without empty slots. Used if few of many numbers are in flight."""
        out: dict[int, MessageReference] = {}
        for position in range(self.first, len(self.dispatched)):
            if self.dispatched[position] is not GONE:
                out[self._number(position)] = self.dispatched[position]
        for place, reference in enumerate(references):
            out[numbers[place]] = reference
        self._numbers = sorted(out)
        self.dispatched = [out[number] for number in self._numbers]
        self._base = following - len(self.dispatched)
        self.gone = 0

    def delivered(self, last: MessageId) -> None:
        """Advance the window: the client delivered all messages up to ``last`` to the application."""
        if self.keeps_window:
            self._find(last, self.first)
            return
        start = max(self.first, self._at(self._told)) if self.extension > 0 else self.first
        end = self._search(last, start) + 1
        if end == 0:
            self._find(last, self.first)  # raises if unknown; otherwise the window has passed ``last`` already
            return
        if self.gone == self.first:
            self.extension += end - start
        else:
            self.extension += sum([reference is not GONE for reference in self.dispatched[start:end]])
        self._told = self._number(end - 1) + 1

    def acknowledged_later(self, count: int) -> None:
        """Count ``count`` references as acknowledged in an open transaction."""
        if self.keeps_window:
            self.extension -= count

    def transaction_ended(self, count: int) -> None:
        """Release the window slots of ``count`` references after the end of their transaction."""
        if self.keeps_window:
            self.extension = min(0, self.extension + count)

    def in_range(self, first: MessageId | None, last: MessageId) -> list[MessageReference]:
        """Return the dispatched references from ``first`` to ``last`` without removing the references."""
        start = self.first if first is None else self._find(first, self.first)
        end = self._find(last, start) + 1
        return [reference for reference in self.dispatched[start:end] if reference is not GONE]

    def _find(self, message_id: MessageId, start: int) -> int:
        position = self._search(message_id, start)
        if position == NOWHERE:
            raise IllegalStateError(
                f"Could not correlate acknowledgment with dispatched message: {message_id} is not out at consumer "
                f"{self.info.consumer_id}"
            )
        return position

    def _search(self, message_id: MessageId, start: int) -> int:
        """Return the first position of the message from ``start`` on, or `NOWHERE`."""
        dispatched = self.dispatched
        end = len(dispatched)
        near = min(start + NEAR, end)
        for position in range(start, near):
            reference = dispatched[position]
            if reference.message.message_id.equals(message_id) and reference is not GONE:
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
            out = position < len(self.dispatched) and self._number(position) == number
            if out and self.dispatched[position] is not GONE:
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
        if index is None or index.size > 2 * self.dispatched_count + NEAR:
            index = InFlightIndex(self._number(self.first))
            self._index = index
        start = max(self.first, self._at(index.through))
        self.steps += len(self.dispatched) - start
        for position in range(start, len(self.dispatched)):
            if self.dispatched[position] is not GONE:
                index.add(self.dispatched[position].message.message_id, self._number(position))
        index.through = self._base + len(self.dispatched)
        return index

    def _number(self, position: int) -> int:
        """Return the dispatch number of the reference at ``position``."""
        return self._numbers[position] if position < len(self._numbers) else self._base + position

    def _at(self, number: int) -> int:
        """Return the first position whose number is at least ``number``."""
        numbers = self._numbers
        if numbers and number <= numbers[-1]:
            return bisect_left(numbers, number)
        return min(max(number - self._base, len(numbers)), len(self.dispatched))

    def _take_between(self, start: int, end: int) -> list[MessageReference]:
        taken = self.dispatched[start:end]
        if self.gone > self.first:
            taken = [reference for reference in taken if reference is not GONE]
        if start == self.first:
            self._drop_front(end, len(taken))
            return taken
        self.taken_at = self._number(start)
        apart: list[int] = []
        for position in range(start, end):
            if self.dispatched[position] is not GONE:
                apart.append(self._number(position))
                self._drop_inside(position)
        self.taken_apart = apart
        self._close_gaps()
        return taken

    def _drop_front(self, end: int, count: int) -> None:
        """Drop the references before the position ``end``, ``count`` in number."""
        dispatched = self.dispatched
        self.taken_at = self._number(self.first)
        self.taken_apart = None
        if self._numbers or end - self.first > count:
            self.taken_apart = [
                self._number(position) for position in range(self.first, end) if dispatched[position] is not GONE
            ]
        for position in range(self.first, end):
            dispatched[position] = GONE
        self.first = end
        self.gone += count
        self.acknowledged_total += count
        if self.extension > 0:
            self._shrink_extension(count)
        while self.gone > self.first and dispatched[self.first] is GONE:
            self.first += 1
        if self.first == len(dispatched):
            self._clear()
        elif self.first >= TRIM_AT:
            del dispatched[: self.first]
            del self._numbers[: self.first]
            self._base += self.first
            self.gone -= self.first
            self.first = 0

    def _drop_inside(self, position: int) -> None:
        """Drop the reference at ``position``, which is not the oldest."""
        self.taken_at = self._number(position)
        self.taken_apart = None
        self.dispatched[position] = GONE
        self.gone += 1
        self.acknowledged_total += 1
        if self.extension > 0 and self.taken_at < self._told:
            self._shrink_extension(1)

    def _close_gaps(self) -> None:
        """Remove the empty slots once at least `TRIM_AT` slots and half of all slots are empty."""
        if self.gone - self.first < TRIM_AT or 2 * (self.gone - self.first) < len(self.dispatched) - self.first:
            return
        following = self._base + len(self.dispatched)
        self.steps += len(self.dispatched) - self.first
        kept = [
            position for position in range(self.first, len(self.dispatched)) if self.dispatched[position] is not GONE
        ]
        self._numbers = [self._number(position) for position in kept]
        self.dispatched = [self.dispatched[position] for position in kept]
        self._base = following - len(self.dispatched)
        self.first = 0
        self.gone = 0

    def _clear(self) -> None:
        self._base += len(self.dispatched)
        self.dispatched = []
        self.first = 0
        self.gone = 0
        if self._numbers:
            self._numbers = []
        self._index = None

    def _shrink_extension(self, count: int) -> None:
        """Reduce the extension after ``count`` messages known to the application are acknowledged."""
        if count > 0:
            self.extension = max(0, self.extension - count)
