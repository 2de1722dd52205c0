"""A queue that keeps the last message of each key, as "Last-Value Queues" of ActiveMQ Artemis do.

The key is the text of a property. Messages without it are kept, as in any queue.

*One of a key waits.* Of the pending messages with one key only the newest stays. A message in flight is not replaced:
it belongs to its consumer. If it returns, and a newer one of its key waits, it is removed; without a newer one it waits
again.

*Crashes.* The store has the new message before the removal of the older one, so no crash loses both. It may leave both;
so a start reads the stored messages, removes the older ones, and dispatches and shows to browsers only then. The same
look is taken at messages that an exactly-once cursor releases.

Replaced messages leave no dead letters.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.history.departures import REPLACED as DEPARTED
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.persistence.duplicate_ids import digest_of
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.queue.page import MAX_PAGE_MESSAGES, NEVER_LOADED, NOT_STORED, Page
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.pending_messages import MAX_PAGE_BYTES
from spanwire.broker.queue.queue import Queue
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.ids import ProducerId
from spanwire.model.ledger import REPLACED
from spanwire.model.message import Message

PROPERTY: Final = "_AMQ_LVQ_NAME"  # Artemis' Message.HDR_LAST_VALUE_NAME
IDLE_KEYS: Final = 1_000  # keys without a pending message that are remembered; some 300 bytes each
KEYS_TIDIED: Final = 4  # keys looked at for each new message beyond these: more than one, so that they become fewer


def key_property(policy: QueuePolicy) -> str:
    """Return the name of the property that has the key, empty for a queue that keeps all messages."""
    return policy.last_value_key or (PROPERTY if policy.last_value else "")


class LastValue:
    """The newest message of a key: its id, and its sequence in the store, 0 for one in memory alone."""

    __slots__ = ("id_sequence", "producer_id", "sequence", "text_view")

    def __init__(self, message: Message, sequence: int) -> None:
        self.sequence: Final[int] = sequence
        self.producer_id: Final[ProducerId] = message.producer_id
        self.id_sequence: Final[int] = message.sequence
        self.text_view: Final[str | None] = message.text_view

    def is_of(self, reference: MessageReference) -> bool:
        """Return True if ``reference`` is to this message."""
        if self.sequence > 0 or reference.sequence > 0:
            return self.sequence == reference.sequence
        message = reference.message
        return (
            message.sequence == self.id_sequence
            and message.producer_id == self.producer_id
            and message.text_view == self.text_view
        )


class Location:
    """The location of a pending message: an index in a page, or among messages that return to a page."""

    __slots__ = ("index", "is_returned", "page", "pending_list")

    def __init__(self, pending_list: PendingList, page: Page, index: int, is_returned: bool) -> None:
        self.pending_list: Final[PendingList] = pending_list
        self.page: Final[Page] = page
        self.index: Final[int] = index
        self.is_returned: Final[bool] = is_returned

    def order(self) -> int:
        """Return the dispatch order, `NEVER_LOADED` for a message that was not in memory since the start."""
        page = self.page
        if self.is_returned:
            return page.returned[self.index].order
        paged_out = page.paged_out
        if paged_out is None:
            item = page.items[self.index]
            assert item is not None
            return item.order
        return paged_out.orders[self.index] if len(paged_out.orders) > 0 else NEVER_LOADED


class LastValueQueue(Queue):
    """A queue whose pending messages have different keys."""

    def __init__(
        self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext
    ) -> None:
        super().__init__(destination, policy, usage, context)
        self._values_context: Final[BrokerContext] = context
        self._property: Final[str] = key_property(policy.queue)
        self._values: Final[OrderedDict[bytes, LastValue]] = OrderedDict()
        self._newest = 0  # the largest sequence so far
        self._is_ascending = True  # messages came in the order of their sequences
        self._unchecked: Final[deque[int]] = deque()  # sequences of stored messages whose keys are not known
        self._reading: list[int] = []
        self._request = 0
        self._waiting_jobs: Final[dict[Job, None]] = {}

    def takes_stored(self) -> bool:
        """Return False: each message may replace another."""
        return False

    def accept(self, message: Message, sequence: int) -> None:
        """Remove the pending message of the same key, and append ``message``."""
        if sequence > 0:
            if sequence < self._newest:
                self._is_ascending = False
            else:
                self._newest = sequence
        key = self._key(message)
        if len(key) > 0:
            before = self._values.get(key)
            if before is not None:
                location = self._find(before)
                if location is not None:
                    self._replace(location, before)
            self._values[key] = LastValue(message, sequence)
            self._tidy()
        super().accept(message, sequence)

    def replaced_bytes(self, message: Message) -> int:
        """Return the bytes of the pending message with the same key, 0 for one that only the store has."""
        key = self._key(message)
        value = self._values.get(key) if len(key) > 0 else None
        location = None if value is None else self._find(value)
        if location is None:
            return 0
        page, index = location.page, location.index
        if location.is_returned:
            return page.returned[index].message.size
        paged_out = page.paged_out
        if paged_out is None:
            item = page.items[index]
            return 0 if item is None else item.message.size
        return paged_out.in_memory[index].message.size if paged_out.numbers[index] == NOT_STORED else 0

    def take_back(self, references: list[MessageReference]) -> None:
        """Take a former consumer's messages back, but for those with a newer one of their key."""
        if self.removed or len(references) == 0:
            super().take_back(references)
            return
        references.sort(key=_order_of)
        kept: list[MessageReference] = []
        returned: set[bytes] = set()
        for reference in reversed(references):
            key = self._key(reference.message)
            if len(key) == 0:
                kept.append(reference)
            elif key in returned or self._is_old(key, reference):
                self._note_replaced(reference)
                self.settle(reference, REPLACED)
            else:
                returned.add(key)
                self._values[key] = LastValue(reference.message, reference.sequence)
                kept.append(reference)
        kept.reverse()
        super().take_back(kept)

    def _is_old(self, key: bytes, reference: MessageReference) -> bool:
        """Return True if a newer message of the key waits. An older one is removed."""
        value = self._values.get(key)
        location = None if value is None else self._find(value)
        if value is None or location is None:
            return False
        if location.order() > reference.order:
            return True
        self._replace(location, value)
        return False

    def recover(self, recovered: RecoveredDestination, clean: bool) -> None:
        """Append the messages of the store, and begin to look at their keys."""
        super().recover(recovered, clean)
        self._check(recovered.sequences)

    def dispatch_released(self, sequences: array[int]) -> None:
        """Dispatch messages that a cursor has released, unless newer ones of their keys came meanwhile."""
        self._check(sequences)
        super().dispatch_released(sequences)

    def defers(self, job: Job) -> bool:
        """Return True while stored messages may have the same key; ``job`` then goes on later."""
        if self._request == 0:
            return False
        self._waiting_jobs[job] = None
        return True

    def drop(self) -> None:
        """Forget all pending messages and their keys."""
        self._unchecked.clear()
        self._values.clear()
        super().drop()
        self._end_check()

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take the store's answer to a read: messages whose keys were not known, or those of a page."""
        if request != self._request:
            super().on_fetched(request, messages)
            return
        for index, message in enumerate(messages):
            if message is not None:
                self._learn(message, self._reading[index])
        self._request = 0
        self._read_unchecked()

    def _check(self, sequences: array[int]) -> None:
        """Look at the keys of stored messages; dispatch and browsers wait meanwhile."""
        if len(sequences) == 0 or self._values_context.store is None:
            return
        self._newest = max(self._newest, sequences[-1])
        self._unchecked.extend(sequences)
        if self._request == 0:
            self.hold_back()
            self._read_unchecked()

    def _read_unchecked(self) -> None:
        """Ask the store for the next messages, or end the look."""
        unchecked = self._unchecked
        if len(unchecked) == 0:
            self._end_check()
            self.let_go()
            return
        wanted = [unchecked.popleft() for _ in range(min(len(unchecked), MAX_PAGE_MESSAGES))]
        sizes = self._values_context.store_usage.sizes(self.name, wanted)
        size = 0
        for count, each in enumerate(sizes):
            size += each
            if size > MAX_PAGE_BYTES and count > 0:
                unchecked.extendleft(reversed(wanted[count:]))
                del wanted[count:]
                break
        self._reading = wanted
        self._request = self._values_context.fetch(self, self.name, wanted)

    def _end_check(self) -> None:
        self._request = 0
        self._reading = []
        for job in self._waiting_jobs:
            self._values_context.schedule(job)
        self._waiting_jobs.clear()

    def _learn(self, message: Message, sequence: int) -> None:
        """Note the key of a pending, stored message, and remove the older message of the key."""
        key = self._key(message)
        if len(key) == 0:
            return
        mine = LastValue(message, sequence)
        before = self._values.get(key)
        if before is not None and before.sequence != sequence:
            location = self._find(before)
            if location is not None and 0 < before.sequence < sequence:
                self._replace(location, before)
            elif location is not None:
                own = self._find(mine)
                if own is not None:
                    self._replace(own, mine)
                return
        self._values[key] = mine

    def _key(self, message: Message) -> bytes:
        """Return the digest of the message's key, empty without a key."""
        formats = self._values_context.formats
        assert formats is not None
        try:
            properties = formats.properties(message)
        except (JmsError, ProtocolError):
            return b""  # properties that cannot be decoded: the message is kept
        entry = properties.get(self._property) or properties.get(PROPERTY)
        if entry is None:
            return b""
        value = entry[1]
        if isinstance(value, bool):
            return digest_of("true" if value else "false")
        if isinstance(value, str) or isinstance(value, int) or isinstance(value, float):
            return digest_of(str(value))
        return b""

    def _find(self, value: LastValue) -> Location | None:
        """Return the location of a message, None if it is not pending."""
        location = self._look(value, self._is_ascending)
        if location is None and not self._is_ascending:
            location = self._look(value, False)
        return location

    def _look(self, value: LastValue, skips: bool) -> Location | None:
        """Search page by page; with ``skips`` leave out pages whose last sequence is too small."""
        sequence = value.sequence
        for pending_list in self.pending.lists:
            if pending_list.count == 0:
                continue
            for page in pending_list.snapshot(pending_list.count):
                if page.live == 0:
                    continue
                for index, reference in enumerate(page.returned):
                    if value.is_of(reference):
                        return Location(pending_list, page, index, True)
                if skips and sequence > 0 and 0 < _last_sequence(page) < sequence:
                    continue
                index = _index_in(page, value)
                if index >= 0:
                    return Location(pending_list, page, index, False)
        return None

    def _replace(self, location: Location, value: LastValue) -> None:
        """Remove a pending message."""
        pending_list, page, index = location.pending_list, location.page, location.index
        if location.is_returned:
            reference = page.returned[index]
            pending_list.take_returned(page, index)
        elif page.paged_out is None:
            item = page.items[index]
            assert item is not None
            reference = item
            pending_list.take(page, index)
        elif page.paged_out.numbers[index] == NOT_STORED:
            reference = page.paged_out.in_memory.pop(index)
            pending_list.remove_paged_out(page, index)
        else:
            self._replace_unread(pending_list, page, index)
            return
        self._note_replaced(reference)
        self.discard(reference, REPLACED)

    def _replace_unread(self, pending_list: PendingList, page: Page, index: int) -> None:
        """Remove a message that only the store has."""
        context = self._values_context
        store = context.store
        assert store is not None
        number = pending_list.remove_unread(page, index)
        store.remove(self.name, number, REPLACED)
        self.note_removed(number, REPLACED)
        self.replaced += 1
        context.departures.note_sweep(DEPARTED, self.name, 1, context.wall_ms)

    def _note_replaced(self, reference: MessageReference) -> None:
        context = self._values_context
        self.replaced += 1
        context.departures.note(
            reference.message, DEPARTED, self.name, context.wall_ms, None, reference.redelivery_count
        )

    def _tidy(self) -> None:
        """Forget keys without a pending message, the oldest first, if there are many."""
        values = self._values
        left = KEYS_TIDIED
        while left > 0 and len(values) > self.pending.waiting() + IDLE_KEYS:
            key, value = values.popitem(last=False)
            if self._find(value) is not None:
                values[key] = value
            left -= 1


def _last_sequence(page: Page) -> int:
    """Return the sequence of the last message of a page, 0 if it has none in the store."""
    paged_out = page.paged_out
    if paged_out is not None:
        for index in range(len(paged_out.numbers) - 1, -1, -1):
            number = paged_out.numbers[index]
            if number > 0:
                return number
            if number == NOT_STORED:
                return 0
        return 0
    for index in range(len(page.items) - 1, -1, -1):
        item = page.items[index]
        if item is not None:
            return item.sequence
    return 0


def _index_in(page: Page, value: LastValue) -> int:
    """Return the index of a message in a page, -1 if it is not there."""
    paged_out = page.paged_out
    if paged_out is None:
        items = page.items
        for index in range(page.start, len(items)):
            item = items[index]
            if item is not None and value.is_of(item):
                return index
        return -1
    if value.sequence > 0:
        try:
            return paged_out.numbers.index(value.sequence)
        except ValueError:
            return -1
    for index, reference in paged_out.in_memory.items():
        if value.is_of(reference):
            return index
    return -1


def _order_of(reference: MessageReference) -> int:
    return reference.order
