"""Dispatch to consumers that choose: by selectors, ``noLocal``, a bridge's filter, or message groups.

Each consumer evaluates each message once and keeps its scan position. A consumer goes back only after messages returned
to the list or a group lost its owner (`GroupRescan`).
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import QueueBase
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.policy.policy_entry import GroupMap
from spanwire.broker.queue.dispatchers import Dispatcher
from spanwire.broker.queue.message_groups import FIRST, PASS, MessageGroups
from spanwire.broker.queue.page import SLICE_MESSAGES
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.pending_messages import PendingMessages
from spanwire.broker.queue.queue_consumers import QueueConsumer, QueueConsumers
from spanwire.broker.queue.selection.group_rescan import GroupRescan
from spanwire.broker.queue.selection.shared_scan import SharedScan
from spanwire.model.destination import SUBSCRIPTION
from spanwire.model.message import Message


class SelectiveDispatch(Dispatcher):
    """Offers pending messages to consumers with a choice, in slices of `SLICE_MESSAGES`."""

    def __init__(
        self, queue: QueueBase, pending: PendingMessages, consumers: QueueConsumers, context: BrokerContext
    ) -> None:
        super().__init__(queue, pending, consumers, context)
        self._shared_scan: Final[SharedScan] = SharedScan(queue, pending, consumers, context)
        self._is_shared = False
        self._group_rescan: Final[GroupRescan] = GroupRescan(queue, pending.lists, consumers, context)
        self.groups: MessageGroups | None = None
        self.scanned = 0  # messages offered to consumers outside of a shared scan
        self._rescans = False  # all consumers scan some or all of the pending lists again
        self._first = False  # the message being taken is the first of its group for its consumer

    def use_groups(self, kind: GroupMap) -> None:
        """Give message groups owners from now on."""
        self.groups = MessageGroups(kind)

    def forget(self, consumer: QueueConsumer) -> None:
        """Remove a consumer; other consumers may take over the consumer's groups at the next dispatch."""
        self._shared_scan.leave(consumer)
        if self.groups is not None:
            self.groups.forget(consumer)

    def _start_over(self) -> None:
        self._release_groups()
        if self.groups is not None:
            self.groups.freed = False
        self._consumers.start_over()

    def _release_groups(self) -> None:
        """Free closed groups; no consumer needs to go back."""
        self._group_rescan.cancel()
        if self.groups is not None:
            self.groups.release()

    def _rescan_groups(self, groups: MessageGroups) -> None:
        """Let consumers scan again for messages of groups without an owner, if the rescan is due."""
        if self._group_rescan.is_due():
            if self._group_rescan.go_back():
                self._rescans = True
                self._context.schedule(self._queue)  # consumers near the tail may have moved far back
            groups.release()

    def begin(self, anew: bool) -> None:
        """Take the consumers of now; with ``anew`` each consumer scans the whole queue."""
        before = self._is_shared
        count = len(self._consumers.all)
        least = self._queue.policy.queue.look_together_from
        if before and not anew:
            least //= 2  # a new beginning costs a scan of the whole queue
        self._is_shared = self.groups is None and count >= least and self._consumers.may_share_scan()
        if self._is_shared:
            if anew or not before:
                self._consumers.close_positions()
                self._shared_scan.begin()
            else:
                self._shared_scan.join_all()
        elif anew or before:
            self._shared_scan.end()
            self._start_over()
        else:
            self._consumers.open_positions()

    def end(self) -> None:
        """Forget all scan positions: another dispatcher takes over."""
        self._is_shared = False
        self._shared_scan.end()
        self._release_groups()
        self._consumers.close_positions()

    def accept(self, message: Message, sequence: int) -> None:
        """Append ``message`` and offer the message to the consumers near the tail of the pending lists."""
        self._append(message, sequence)
        if self._consumers.all:
            self._offer_added()
        else:
            self._pending.make_room()

    def _must_spill(self, pending_list: PendingList, sequence: int) -> bool:
        """Return True if a new message may not stay in memory; the next message for a waiting consumer may."""
        return super()._must_spill(pending_list, sequence) and not self._awaits_next(pending_list)

    def _awaits_next(self, pending_list: PendingList) -> bool:
        """Return True if a consumer with room has scanned all of ``pending_list``."""
        if self._is_shared:
            return self._shared_scan.awaits_next()
        index = self._pending.lists.index(pending_list)
        for consumer in self._consumers.all:
            if pending_list.is_at_end(consumer.positions[index]) and consumer.subscription.can_take():
                return True
        return False

    def note_paged_in(self) -> None:
        """Scan on in a slice."""
        self._context.schedule(self._queue)

    def _offer_added(self) -> None:
        """Offer a newly appended message; `_dispatch_apart` handles consumers far from the tail."""
        if self._is_shared:
            self._shared_scan.message_added()
            self._stop_sharing()
            return
        sole = self._consumers.sole() if self.groups is None else None
        if sole is not None and self._is_near(sole):
            self._offer_sole(sole)
        elif self.groups is not None or self._consumers.is_hungry():
            self._dispatch_apart(False)
        else:
            self._pending.make_room()

    def _offer_sole(self, consumer: QueueConsumer) -> None:
        """Offer appended messages to a sole consumer near the tail: the usual case of a bridge."""
        budget = SLICE_MESSAGES
        while budget > 0 and consumer.subscription.can_take() and not self._is_through(consumer):
            scanned = self._offer_next(consumer)
            budget -= scanned
            if scanned == 0:
                break
        if budget <= 0:
            self._context.schedule(self._queue)
        self._pending.make_room()

    def _stop_sharing(self) -> None:
        """End the shared scan if a message belongs to a group: then each consumer must scan separately."""
        if self._shared_scan.grouped:
            self.use_groups(self._queue.policy.queue.groups)
            self.begin(False)
            self._context.schedule(self._queue)

    def dispatch(self) -> None:
        """Let the consumers with room scan on from their positions.

        While a slice is scheduled only consumers near the tail scan, so that many calls in one turn cost no more than
        one call.
        """
        is_far_too = not self._context.is_scheduled(self._queue)
        if not self._is_shared:
            self._dispatch_apart(is_far_too)
        elif is_far_too:
            self._shared_scan.dispatch()
            self._stop_sharing()
        else:
            self._offer_added()

    def _dispatch_apart(self, is_far_too: bool) -> None:
        """Let each consumer with room scan on from its position.

        Consumers near the tail come first, so that a deep scan does not delay new messages. Without ``is_far_too`` the
        other consumers wait for a slice of their own.
        """
        consumers = self._consumers
        groups = self.groups
        if groups is not None and groups.freed:
            self._start_over()  # once for all consumers that have left since the last dispatch
        elif groups is not None and self._group_rescan.is_pending:
            self._rescan_groups(groups)
        in_turn = consumers.in_turn(groups is not None)
        if consumers.in_order:
            if not is_far_too and self._context.is_scheduled(self._queue):
                return
            for equals in [in_turn] if consumers.is_strict else _by_priority(in_turn):
                if not self._offer_in_turn(equals, None, consumers.is_strict):
                    break
        else:
            far: list[QueueConsumer] = []
            self._offer_in_turn(in_turn, far, len(in_turn) == 1)
            if far and not is_far_too:
                self._context.schedule(self._queue)
            elif far:
                far.sort(key=_furthest_behind)
                self._offer_in_turn(far, None, False)
        self._pending.make_room()

    def _offer_in_turn(self, in_turn: list[QueueConsumer], far: list[QueueConsumer] | None, in_order: bool) -> bool:
        """Offer one message each in turn, or with ``in_order`` as many as each consumer can take.

        Args:
            far: if given, gets the consumers far from the tail, which are then left out.

        Returns:
            False if a later slice goes on.
        """
        budget = SLICE_MESSAGES
        progress = True
        put_aside = far
        while progress:
            progress = False
            for consumer in in_turn:
                if not consumer.subscription.can_take():
                    continue
                if far is not None and not self._is_near(consumer):
                    if put_aside is not None:
                        put_aside.append(consumer)
                    continue
                scanned = self._offer_next(consumer)
                budget -= scanned
                while in_order and budget > 0 and scanned > 0 and consumer.subscription.can_take():
                    scanned = self._offer_next(consumer)
                    budget -= scanned
                if self._rescans or (scanned > 0 and not self._is_through(consumer)):
                    self._rescans = False
                    progress = True
                if budget <= 0:
                    self._context.schedule(self._queue)
                    return False
            put_aside = None  # one round has found all far consumers
        return True

    def _is_near(self, consumer: QueueConsumer) -> bool:
        for index, pending_list in enumerate(self._pending.lists):
            if not pending_list.is_in_tail(consumer.positions[index]):
                return False
        return True

    def _is_through(self, consumer: QueueConsumer) -> bool:
        for index, pending_list in enumerate(self._pending.lists):
            if not pending_list.is_at_end(consumer.positions[index]):
                return False
        return True

    def _offer_next(self, consumer: QueueConsumer) -> int:
        """Scan for ``consumer`` up to the first accepted message, or up to a page to be read first.

        Returns:
            The number of messages scanned.
        """
        pending = self._pending
        scanned = 0
        for index, pending_list in enumerate(pending.lists):
            position = consumer.positions[index]
            while scanned < SLICE_MESSAGES:
                page = pending_list.page_at(position)
                if page is None:
                    break
                if page.paged_out is not None:
                    if not pending.read_for(pending_list, position, page):
                        return scanned
                    continue
                offset = position.offset
                reference = page.items[offset]
                scanned += 1
                self.scanned += 1
                if reference is None:
                    position.offset += 1
                    continue
                if reference.message.is_expired(self._context.wall_ms):
                    pending_list.take(page, offset)
                    self._queue.expire(reference)
                    continue
                if consumer.subscription.accepts(reference) and self._may_take(consumer, reference):
                    pending_list.take(page, offset)
                    self._queue.note_dispatched()
                    self._consumers.note_taker(consumer)
                    taken = self._as_taken(consumer, reference)
                    taken.dispatched_at = self._context.monotonic
                    consumer.subscription.dispatch(taken)
                    return scanned
                position.offset += 1
        return scanned

    def _may_take(self, consumer: QueueConsumer, reference: MessageReference) -> bool:
        """Return True if the message belongs to no group, or to a group that ``consumer`` owns or gets now.

        A durable subscription has one consumer and no groups.
        """
        group = reference.message.group_id
        if group is None or self._queue.name.kind == SUBSCRIPTION:
            return True
        groups = self.groups
        if groups is None:
            self.use_groups(self._queue.policy.queue.groups)
            groups = self.groups
            assert groups is not None
        offered = groups.offer(consumer, group, consumer.subscription.group_sequence(reference.message))
        self._first = offered == FIRST
        if offered == PASS:
            return False
        self._group_rescan.earn()
        owner = groups.lost
        if owner is not None:
            groups.lost = None
            self._group_rescan.lost(owner)
            self._rescan_groups(groups)
        return True

    def _as_taken(self, consumer: QueueConsumer, reference: MessageReference) -> MessageReference:
        """Return the reference for the dispatch, with a mark on the first message of a group for the consumer."""
        if not self._first or reference.message.group_id is None:
            return reference
        self._first = False
        marked = consumer.subscription.first_for_consumer(reference.message)
        queue = self._queue
        queue.hold(marked)
        queue.release(reference.message)
        return MessageReference(queue, marked, reference.sequence, reference.order, reference.redelivery_count)


def _by_priority(consumers: list[QueueConsumer]) -> list[list[QueueConsumer]]:
    """Return the consumers in lists of equal priority, the best first."""
    groups: list[list[QueueConsumer]] = []
    for consumer in consumers:
        if groups and groups[-1][0].subscription.info.priority == consumer.subscription.info.priority:
            groups[-1].append(consumer)
        else:
            groups.append([consumer])
    return groups


def _furthest_behind(consumer: QueueConsumer) -> int:
    """Return a sort key: consumers deep in the queue scan together, so that each page is read once."""
    return consumer.positions[0].page_number
