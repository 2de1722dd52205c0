"""Dispatch where consumers choose: by selectors, noLocal, a bridge's filter, or message groups.

Each consumer scanned at each message once; what it passes by it does not look at again, unless something comes back into
the pending_list or a group loses its owner (`GroupRescan`).
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageReference
from spanwire.broker.policy.queue_policy import GroupMap
from spanwire.broker.queue.group_rescan import GroupRescan
from spanwire.broker.queue.message_groups import FIRST, PASS, MessageGroups
from spanwire.broker.queue.page import SLICE_MESSAGES
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.pending_messages import PendingMessages
from spanwire.broker.queue.queue_consumers import QueueConsumer, QueueConsumers
from spanwire.broker.queue.shared_scan import SharedScan
from spanwire.model.destination import SUBSCRIPTION


class SelectiveDispatch:
    """Shows the pending_messages of ``queue`` to its consumers, a slice of `SLICE_MESSAGES` at a time."""

    def __init__(
        self,
        queue: BrokerDestination,
        pending_messages: PendingMessages,
        consumers: QueueConsumers,
        context: BrokerContext,
    ) -> None:
        self._queue: Final[BrokerDestination] = queue
        self._pending_messages: Final[PendingMessages] = pending_messages
        self._consumers: Final[QueueConsumers] = consumers
        self._context: Final[BrokerContext] = context
        self._shared_scan: Final[SharedScan] = SharedScan(queue, pending_messages, consumers, context)
        self._is_shared = False
        self._group_rescan: Final[GroupRescan] = GroupRescan(queue, pending_messages.pending_lists, consumers, context)
        self.groups: MessageGroups | None = None
        self.scanned = 0  # how many messages were shown to a consumer that scanned for itself
        self._rescans = False  # all consumers look again at some or all of the pending_list
        self._first = False  # the message being note_removed is the first of its group for its consumer

    def use_groups(self, kind: GroupMap) -> None:
        """A message belongs to a group: from now on groups have owners."""
        self.groups = MessageGroups(kind)

    def forget(self, consumer: QueueConsumer) -> None:
        """The consumer is gone: others may take over its groups."""
        self._shared_scan.leave(consumer)
        groups = self.groups
        if groups is not None:
            groups.forget(consumer)
            if groups.freed:
                groups.freed = False
                self._start_over()
                self._rescans = True

    def _start_over(self) -> None:
        self._release_groups()
        self._consumers.start_over()

    def _release_groups(self) -> None:
        """What was closed is free, and nobody goes back."""
        self._group_rescan.cancel()
        if self.groups is not None:
            self.groups.release()

    def _rescan_groups(self, groups: MessageGroups) -> None:
        """Let those look again that passed by what is free now, if that may be."""
        if self._group_rescan.is_due():
            if self._group_rescan.go_back():
                self._rescans = True
                self._context.schedule(self._queue)  # those that were near the end may be far from it now
            groups.release()

    def begin(self, anew: bool) -> None:
        """Consumers message_added or went: from now on those that are here look, ``anew`` at the whole pending_list."""
        before = self._is_shared
        count = len(self._consumers.all)
        least = self._queue.policy.queue.look_together_from
        if before and not anew:
            least //= 2  # beginning anew costs a look at everything
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
        """All take what comes: nobody scanned any more."""
        self._is_shared = False
        self._shared_scan.end()
        self._release_groups()
        self._consumers.close_positions()

    def awaits_next(self, pending_list: PendingList) -> bool:
        """Whether somebody who can take messages has looked at all of this pending_list."""
        if self._is_shared:
            return self._shared_scan.awaits_next()
        place = self._pending_messages.pending_lists.index(pending_list)
        for consumer in self._consumers.all:
            if pending_list.is_at_end(consumer.positions[place]) and consumer.subscription.can_take():
                return True
        return False

    def message_added(self) -> None:
        """A message message_added in."""
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
            self._pending_messages.make_room()  # as ever after a look

    def _offer_sole(self, consumer: QueueConsumer) -> None:
        """What `_dispatch_apart` does for one consumer that is near the end, as the bridge of most queues is."""
        budget = SLICE_MESSAGES
        while budget > 0 and consumer.subscription.can_take() and not self._is_through(consumer):
            looked = self._offer_next(consumer)
            budget -= looked
            if looked == 0:
                break
        if budget <= 0:
            self._context.schedule(self._queue)
        self._pending_messages.make_room()

    def _stop_sharing(self) -> None:
        """Where a message belongs to a group, each has to look for itself."""
        if self._shared_scan.grouped:
            self.use_groups(self._queue.policy.queue.groups)
            self.begin(False)
            self._context.schedule(self._queue)

    def dispatch(self, is_far_too: bool) -> None:
        """Let those that can take messages look on from where they stopped. While a slice of this is to come anyway
        only those near the end do, so that many calls in one turn cost no more than one.
        """
        if not self._is_shared:
            self._dispatch_apart(is_far_too)
        elif is_far_too:
            self._shared_scan.dispatch()
            self._stop_sharing()
        else:
            self.message_added()

    def _dispatch_apart(self, is_far_too: bool) -> None:
        """Let each consumer that can take messages look on from where it stopped. Those that are near the end come
        first, so that one that scanned through the depths does not hold up what has just come in; without ``is_far_too``
        those have to wait for a slice of their own.
        """
        consumers = self._consumers
        if self._group_rescan.is_pending and self.groups is not None:
            self._rescan_groups(self.groups)
        in_turn = consumers.in_turn(self.groups is not None)
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
        self._pending_messages.make_room()

    def _offer_in_turn(self, in_turn: list[QueueConsumer], far: list[QueueConsumer] | None, in_order: bool) -> bool:
        """One message each in turn, or ``in_order`` as many as each can take; those that are ``far`` from the end are
        only put there, if there is such a list. False when a later slice goes on.
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
                looked = self._offer_next(consumer)
                budget -= looked
                while in_order and budget > 0 and looked > 0 and consumer.subscription.can_take():
                    looked = self._offer_next(consumer)
                    budget -= looked
                if self._rescans or (looked > 0 and not self._is_through(consumer)):
                    self._rescans = False
                    progress = True
                if budget <= 0:
                    self._context.schedule(self._queue)
                    return False
            put_aside = None  # all are there
        return True

    def _is_near(self, consumer: QueueConsumer) -> bool:
        for place, pending_list in enumerate(self._pending_messages.pending_lists):
            if not pending_list.is_in_tail(consumer.positions[place]):
                return False
        return True

    def _is_through(self, consumer: QueueConsumer) -> bool:
        for place, pending_list in enumerate(self._pending_messages.pending_lists):
            if not pending_list.is_at_end(consumer.positions[place]):
                return False
        return True

    def _offer_next(self, consumer: QueueConsumer) -> int:
        """Show ``consumer`` the pending_lists until it takes one message; gives how many messages it looked at. It waits where
        the next one must be read first.
        """
        pending_messages = self._pending_messages
        looked = 0
        for place, pending_list in enumerate(pending_messages.pending_lists):
            position = consumer.positions[place]
            while looked < SLICE_MESSAGES:
                page = pending_list.page_at(position)
                if page is None:
                    break
                if page.paged_out is not None:
                    if not pending_messages.read_for(pending_list, position, page):
                        return looked
                    continue
                offset = position.offset
                reference = page.items[offset]
                looked += 1
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
                    consumer.subscription.dispatch(self._as_taken(consumer, reference))
                    return looked
                position.offset += 1
        return looked

    def _may_take(self, consumer: QueueConsumer, reference: MessageReference) -> bool:
        """Whether the message belongs to no group, or to one that is or becomes the consumer's. What waits for a
        durable subscriber has one consumer and no groups.
        """
        group = reference.message.group_id
        if group is None or self._queue.destination.kind == SUBSCRIPTION:
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
        """The message as this consumer gets it: the first of a group for it says so."""
        if not self._first or reference.message.group_id is None:
            return reference
        self._first = False
        marked = consumer.subscription.first_for_consumer(reference.message)
        queue = self._queue
        queue.hold(marked)
        queue.release(reference.message)
        return MessageReference(queue, marked, reference.sequence, reference.order, reference.redelivery_count)


def _by_priority(consumers: list[QueueConsumer]) -> list[list[QueueConsumer]]:
    """Those of the same priority together, the best first."""
    found: list[list[QueueConsumer]] = []
    for consumer in consumers:
        if found and found[-1][0].subscription.info.priority == consumer.subscription.info.priority:
            found[-1].append(consumer)
        else:
            found.append([consumer])
    return found


def _furthest_behind(consumer: QueueConsumer) -> int:
    """Those that look through the depths go together, so that each page is read once for all of them."""
    return consumer.positions[0].place
