"""The broker's side of one consumer: its window, what was dispatched to it and not yet acknowledged, its selector."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final

from spanwire.broker.dispatch.connection_output import Outlet
from spanwire.broker.dispatch.evaluation_context import BoundMessageValues
from spanwire.broker.dispatch.fan_out import selector_steps
from spanwire.broker.dispatch.in_flight_index import NOWHERE, OutIndex
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

MAX_PREFETCH: Final = 32_766  # largest window a consumer may ask for; ActiveMQ's own default for topics
TRIM_AT: Final = 1_024  # acknowledged slots of ``dispatched``, at the front or elsewhere, before the list is cut
NEAR: Final = 64  # slots that are looked at one by one for an acknowledged message; what is further is in an index


_NOWHERE: Final = Destination(QUEUE, "-")
# Stands in the slots of acknowledged references until they are cut, so that no message outlives its acknowledgement.
GONE: Final = MessageReference(
    BrokerDestination(_NOWHERE, PolicyEntry(_NOWHERE), MemoryUsage(0)),
    Message(0, b"", 0, 0, 0, _NOWHERE, MessageId(ProducerId("-", 0, 0), 0), False, 0, 0, 0),
    0,
    0,
    0,
)

_NOTHING_PENDING: Final[deque[MessageReference]] = deque()  # of all that consume from a queue alone


def _pending_of(destination: Destination) -> deque[MessageReference]:
    """Where what a new subscription cannot take yet waits; of a queue it waits in the queue."""
    if destination.is_queue and not destination.is_composite:
        return _NOTHING_PENDING
    return deque()


class Subscription:
    """One consumer.

    ``dispatched[first:]`` are the references it has and did not acknowledge, in dispatch order, with `GONE` in the
    slots of those that were acknowledged before others; each went out under a number of its own. The window closes when
    as many as ``prefetch_size`` are out; ``extension`` are those the client told us it has handed to the application
    already. One that ``keeps_window`` has no extension, and what it acknowledged in a transaction counts as out until
    that ends: its ``extension`` is negative then. ``pending`` serves topics only: what a subscriber cannot take yet.
    Deciding what to dispatch is left to `Queue`, `Topic` and `Browse`.
    """

    def __init__(
        self,
        info: ConsumerInfo,
        consumer: MessageConsumer,
        outlet: Outlet,
        principal: Principal,
        selector: Selector | None,
        values: BoundMessageValues,
        automatic: bool,
    ) -> None:
        self.info: Final[ConsumerInfo] = info
        self.consumer: Final[MessageConsumer] = consumer
        self.outlet: Final[Outlet] = outlet
        self.principal: Final[Principal] = principal
        self.selector: Final[Selector | None] = selector
        self.automatic: Final[bool] = automatic
        self.network_filter: Final[NetworkFilter | None] = info.network_filter
        self.bridge_condition: MessageCondition | None = None
        self.no_local_connection: Final[str | None] = info.consumer_id.connection_id if info.no_local else None
        self.readable: MessageCondition | None = None  # of a durable one with a line that others may have filled
        self.is_filtered = info.no_local or info.network_filter is not None  # by more than its selector
        self.values: Final[BoundMessageValues] = values
        self.pulls: bool = info.prefetch_size == 0
        self.prefetch_size = min(max(info.prefetch_size, 0), MAX_PREFETCH)
        self.dispatched: list[MessageReference] = []
        self.first = 0
        self.gone = 0  # slots of ``dispatched`` that are `GONE`, those before ``first`` among them
        self.taken_at = 0  # the number of the oldest reference that was taken last
        self.taken_apart: list[int] | None = None  # the numbers of all that were taken, where they are not in a row
        self._base = 0  # the number of the first slot, or what it would be without gaps
        self._numbers: list[int] = []  # of the first slots, where gaps were closed before them
        self._index: OutIndex | None = None
        self.steps = 0  # slots looked at because acknowledgements came out of order
        self._told = 0  # the number behind those that ``extension`` counts
        self.extension = 0
        self.keeps_window = False
        self.client_id = ""  # of its connection
        self.pulled = 0
        self.pull_deadline = 0.0
        self.started = False
        self.removed = False
        self.refilling = False  # a job looks where messages wait for it
        self.leaving = False  # its connection is gone; it takes nothing more
        self.left = False  # it is removed, and has nothing any more
        self.discarding = False  # messages that wait for it are being given up
        self.homes: Final[dict[BrokerDestination, None]] = {}
        self.shared: Final[bool] = info.destination.is_pattern or info.destination.is_composite
        self.busy: Final[dict[BrokerDestination, None]] = {}  # its homes in which messages wait, if it is ``shared``
        self.pending: Final[deque[MessageReference]] = _pending_of(info.destination)
        self.weight: Final[int] = 1 + selector_steps(info.selector)  # of the steps of each message of its topics
        self.dispatched_total = 0
        self.acknowledged_total = 0

    @property
    def dispatched_count(self) -> int:
        """How many messages are out and not acknowledged."""
        return len(self.dispatched) - self.gone

    def can_take(self) -> bool:
        """Whether one more message may be dispatched now."""
        if not self.outlet.writable or not self.started:
            return False
        if self.pulls:
            return self.pulled > 0
        return len(self.dispatched) - self.gone < self.prefetch_size + self.extension

    def accepts(self, reference: MessageReference) -> bool:
        """Whether selector, no-local, a bridge's filter and the rights of its user let the message through."""
        if self.is_filtered and not self._passes(reference):
            return False
        return self.selector is None or self.selects(reference)

    def read_only(self, readable: MessageCondition) -> None:
        """Take nothing but what ``readable`` lets through. To be called before it is attached."""
        self.readable = readable
        self.is_filtered = True

    def _passes(self, reference: MessageReference) -> bool:
        if self.readable is not None and not self.readable.lets_through(reference):
            return False
        condition = self.bridge_condition
        if condition is None:
            return self.lets_through(reference.message)
        return condition.lets_through(reference)  # only of bridges, which have no no-local

    def lets_through(self, message: Message) -> bool:
        """Whether no-local and a bridge's filter let the message through, where there is no condition besides."""
        network_filter = self.network_filter
        if network_filter is not None and not network_filter.passes(message.broker_path):
            return False
        connection_id = self.no_local_connection
        return connection_id is None or message.message_id.producer_id.connection_id != connection_id

    def selects(self, reference: MessageReference) -> bool:
        """Whether the selector matches, or there is none."""
        selector = self.selector
        if selector is None:
            return True
        message = reference.message
        matches = self.values.matches(selector, message, reference.redelivery_count)
        if message.properties_cache is not None:
            reference.home.count_forms(message)
        return matches

    def group_sequence(self, message: Message) -> int:
        """The place of ``message`` in its group, negative when it closes it."""
        return self.values.group_sequence(message)

    def first_for_consumer(self, message: Message) -> Message:
        """``message`` saying that it is the first of its group for this consumer."""
        return self.values.first_for_consumer(message)

    def dispatch(self, reference: MessageReference) -> None:
        """Send ``reference`` to the consumer and remember it until it is acknowledged."""
        self.dispatched.append(reference)
        self.dispatched_total += 1
        if self.pulls:
            self.pulled -= 1
        message = reference.message
        self.consumer.dispatch(message, reference.order, reference.redelivery_count)
        if message.converted is not None:
            reference.home.count_forms(message)
        self.outlet.add(message.size)

    def newest(self) -> MessageReference:
        """What was dispatched last; during a dispatch, that."""
        return self.dispatched[-1]

    def drain(self, wall_ms: int) -> None:
        """Dispatch what waits here as far as the window goes (topics)."""
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
        """The first ``count`` dispatched references if they run from ``first`` (None: any) to ``last`` (the usual
        acknowledgement), else None.
        """
        end = self.first + count
        if count <= 0 or end > len(self.dispatched):
            return None
        if first is not None and not self.dispatched[self.first].message.message_id.equals(first):
            return None
        if not self.dispatched[end - 1].message.message_id.equals(last):
            return None
        if self.gone > self.first:
            return None  # some were acknowledged before those in front of them: `take_range` sorts that out
        taken = self.dispatched[self.first : end]
        self._drop_front(end, count)
        return taken

    def front_producer(self) -> ProducerId | None:
        """Who sent the oldest message that is out."""
        if self.first == len(self.dispatched):
            return None
        return self.dispatched[self.first].message.message_id.producer_id

    def take_run(self, producer_id: ProducerId, sequences: list[int]) -> list[MessageReference]:
        """The oldest dispatched references, as far as they are messages of this producer with these sequences."""
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
        """All dispatched references from ``first`` (None: the oldest) to ``last``; raises `IllegalStateError` if one is
        unknown.
        """
        start = self.first if first is None else self._find(first, self.first)
        return self._take_between(start, self._find(last, start) + 1)

    def take_shown(self, first: MessageId | None, last: MessageId) -> list[MessageReference]:
        """For a browser: those from ``first``, or from the oldest if that is not out, to ``last`` that are out."""
        end = self._search(last, self.first) + 1
        if end == 0:
            return []
        start = NOWHERE if first is None else self._search(first, self.first)
        return self._take_between(start if NOWHERE < start < end else self.first, end)

    def take_one(self, message_id: MessageId) -> MessageReference:
        """The dispatched reference of this id; raises `IllegalStateError` if there is none."""
        position = self._find(message_id, self.first)
        reference = self.dispatched[position]
        if position == self.first:
            self._drop_front(position + 1, 1)
        else:
            self._drop_inside(position)
            self._close_gaps()
        return reference

    def take_all(self) -> list[MessageReference]:
        """Everything that is out, for a consumer that leaves."""
        taken = self.dispatched[self.first :]
        if self.gone > self.first:
            taken = [reference for reference in taken if reference is not GONE]
        self._clear()
        self.extension = 0
        return taken

    def all_out(self) -> list[MessageReference]:
        """Everything that is out, in the order in which it went out."""
        return [reference for reference in self.dispatched[self.first :] if reference is not GONE]

    def out_of_last(self, count: int) -> list[MessageReference]:
        """What of the ``count`` messages that went out last is still out."""
        start = max(self.first, self._at(self._base + len(self.dispatched) - count))
        return [reference for reference in self.dispatched[start:] if reference is not GONE]

    def find(self, message_id: MessageId) -> MessageReference | None:
        """The dispatched reference of this id; None if there is none."""
        position = self._search(message_id, self.first)
        return None if position == NOWHERE else self.dispatched[position]

    def take_back(self, references: list[MessageReference]) -> None:
        """References of a rolled back transaction, for a consumer that leaves: their order does not matter any more."""
        self.dispatched.extend(references)

    def put_back(self, references: list[MessageReference], numbers: list[int]) -> None:
        """References of a rolled back transaction: still with the client, in the places that their numbers say."""
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
        """The number behind the first ``count`` that are out; 0 if none are."""
        told = 0
        for position in range(self.first, len(self.dispatched)):
            if count == 0:
                break
            if self.dispatched[position] is not GONE:
                told = self._number(position) + 1
                count -= 1
        return told

    def _put_in(self, references: list[MessageReference], numbers: list[int], lowest: int, following: int) -> None:
        """Each in the slot of its number: there is one for each number, of which most are out."""
        slots = [GONE] * (following - lowest)
        for position in range(self.first, len(self.dispatched)):
            slots[self._number(position) - lowest] = self.dispatched[position]
        for place, number in enumerate(numbers):
            slots[number - lowest] = references[place]
        self.dispatched = slots
        self._numbers = []
        self._base = lowest

    def _sort_in(self, references: list[MessageReference], numbers: list[int], following: int) -> None:
        """All in order, without slots between them: few of many are out."""
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
        """The client has handed everything up to ``last`` to the application: the window moves on."""
        if self.keeps_window:
            self._find(last, self.first)
            return
        start = max(self.first, self._at(self._told)) if self.extension > 0 else self.first
        end = self._search(last, start) + 1
        if end == 0:
            self._find(last, self.first)  # the window had moved so far before
            return
        if self.gone == self.first:
            self.extension += end - start
        else:
            self.extension += sum([reference is not GONE for reference in self.dispatched[start:end]])
        self._told = self._number(end - 1) + 1

    def acknowledged_later(self, count: int) -> None:
        """``count`` references were acknowledged in a transaction, which has not ended yet."""
        if self.keeps_window:
            self.extension -= count

    def transaction_ended(self, count: int) -> None:
        """The transaction in which ``count`` references were acknowledged has ended."""
        if self.keeps_window:
            self.extension = min(0, self.extension + count)

    def in_range(self, first: MessageId | None, last: MessageId) -> list[MessageReference]:
        """The dispatched references from ``first`` to ``last``, which stay dispatched."""
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
        """The first position from ``start`` on; `NOWHERE` when it is not out there."""
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

    def _known(self) -> OutIndex:
        """The index, with all that is out in it."""
        index = self._index
        if index is None or index.size > 2 * self.dispatched_count + NEAR:
            index = OutIndex(self._number(self.first))
            self._index = index
        start = max(self.first, self._at(index.through))
        self.steps += len(self.dispatched) - start
        for position in range(start, len(self.dispatched)):
            if self.dispatched[position] is not GONE:
                index.add(self.dispatched[position].message.message_id, self._number(position))
        index.through = self._base + len(self.dispatched)
        return index

    def _number(self, position: int) -> int:
        """The number under which the reference at ``position`` went out."""
        return self._numbers[position] if position < len(self._numbers) else self._base + position

    def _at(self, number: int) -> int:
        """The first position whose number is not below ``number``."""
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
        """The references up to the position ``end``, ``count`` of them, are gone."""
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
        """The reference at ``position``, behind the oldest one, is gone."""
        self.taken_at = self._number(position)
        self.taken_apart = None
        self.dispatched[position] = GONE
        self.gone += 1
        self.acknowledged_total += 1
        if self.extension > 0 and self.taken_at < self._told:
            self._shrink_extension(1)

    def _close_gaps(self) -> None:
        """Drop the slots of what is gone when they are more than the others."""
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
        """``count`` of the references that the application was known to have are gone."""
        if count > 0:
            self.extension = max(0, self.extension - count)
