"""Dispatch where consumers choose: by selectors, noLocal, a bridge's filter, or message groups.

Each consumer looks at each message once; what it passes by it does not look at again, unless something comes back into
the line or a group loses its owner (`Handover`).
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageReference
from spanwire.broker.policy.queue_policy import GroupMap
from spanwire.broker.queue.group_rescan import Handover
from spanwire.broker.queue.message_groups import FIRST, PASS, MessageGroups
from spanwire.broker.queue.page import SLICE_MESSAGES
from spanwire.broker.queue.pending_list import MessageLine
from spanwire.broker.queue.pending_messages import Backlog
from spanwire.broker.queue.queue_consumers import QueueConsumer, QueueConsumers
from spanwire.broker.queue.shared_scan import LookingTogether
from spanwire.model.destination import SUBSCRIPTION


class Looking:
    """Shows the backlog of ``home`` to its consumers, a slice of `SLICE_MESSAGES` at a time."""

    def __init__(
        self, home: BrokerDestination, backlog: Backlog, consumers: QueueConsumers, context: BrokerContext
    ) -> None:
        self._home: Final[BrokerDestination] = home
        self._backlog: Final[Backlog] = backlog
        self._consumers: Final[QueueConsumers] = consumers
        self._context: Final[BrokerContext] = context
        self._together: Final[LookingTogether] = LookingTogether(home, backlog, consumers, context)
        self._is_together = False
        self._handover: Final[Handover] = Handover(home, backlog.lines, consumers, context)
        self.groups: MessageGroups | None = None
        self.looks = 0  # how many messages were shown to a consumer that looks for itself
        self._started_over = False  # all consumers look again at some or all of the line
        self._first = False  # the message being taken is the first of its group for its consumer

    def use_groups(self, kind: GroupMap) -> None:
        """A message belongs to a group: from now on groups have owners."""
        self.groups = MessageGroups(kind)

    def forget(self, consumer: QueueConsumer) -> None:
        """The consumer is gone: others may take over its groups."""
        self._together.leave(consumer)
        groups = self.groups
        if groups is not None:
            groups.forget(consumer)
            if groups.freed:
                groups.freed = False
                self._start_over()
                self._started_over = True

    def _start_over(self) -> None:
        self._go_free()
        self._consumers.start_over()

    def _go_free(self) -> None:
        """What was closed is free, and nobody goes back."""
        self._handover.cancel()
        if self.groups is not None:
            self.groups.release()

    def _hand_over(self, groups: MessageGroups) -> None:
        """Let those look again that passed by what is free now, if that may be."""
        if self._handover.is_due():
            if self._handover.go_back():
                self._started_over = True
                self._context.schedule(self._home)  # those that were near the end may be far from it now
            groups.release()

    def begin(self, anew: bool) -> None:
        """Consumers came or went: from now on those that are here look, ``anew`` at the whole line."""
        before = self._is_together
        count = len(self._consumers.all)
        least = self._home.policy.queue.look_together_from
        if before and not anew:
            least //= 2  # beginning anew costs a look at everything
        self._is_together = self.groups is None and count >= least and self._consumers.may_look_together()
        if self._is_together:
            if anew or not before:
                self._consumers.close_cursors()
                self._together.begin()
            else:
                self._together.join_all()
        elif anew or before:
            self._together.end()
            self._start_over()
        else:
            self._consumers.open_cursors()

    def end(self) -> None:
        """All take what comes: nobody looks any more."""
        self._is_together = False
        self._together.end()
        self._go_free()
        self._consumers.close_cursors()

    def awaits_next(self, line: MessageLine) -> bool:
        """Whether somebody who can take messages has looked at all of this line."""
        if self._is_together:
            return self._together.awaits_next()
        place = self._backlog.lines.index(line)
        for consumer in self._consumers.all:
            if line.is_at_end(consumer.cursors[place]) and consumer.subscription.can_take():
                return True
        return False

    def came(self) -> None:
        """A message came in."""
        if self._is_together:
            self._together.came()
            self._go_apart()
            return
        sole = self._consumers.sole() if self.groups is None else None
        if sole is not None and self._is_near(sole):
            self._offer_sole(sole)
        elif self.groups is not None or self._consumers.is_hungry():
            self._go_on_apart(False)
        else:
            self._backlog.make_room()  # as ever after a look

    def _offer_sole(self, consumer: QueueConsumer) -> None:
        """What `_go_on_apart` does for one consumer that is near the end, as the bridge of most queues is."""
        budget = SLICE_MESSAGES
        while budget > 0 and consumer.subscription.can_take() and not self._is_through(consumer):
            looked = self._offer_next(consumer)
            budget -= looked
            if looked == 0:
                break
        if budget <= 0:
            self._context.schedule(self._home)
        self._backlog.make_room()

    def _go_apart(self) -> None:
        """Where a message belongs to a group, each has to look for itself."""
        if self._together.grouped:
            self.use_groups(self._home.policy.queue.groups)
            self.begin(False)
            self._context.schedule(self._home)

    def go_on(self, is_far_too: bool) -> None:
        """Let those that can take messages look on from where they stopped. While a slice of this is to come anyway
        only those near the end do, so that many calls in one turn cost no more than one.
        """
        if not self._is_together:
            self._go_on_apart(is_far_too)
        elif is_far_too:
            self._together.go_on()
            self._go_apart()
        else:
            self.came()

    def _go_on_apart(self, is_far_too: bool) -> None:
        """Let each consumer that can take messages look on from where it stopped. Those that are near the end come
        first, so that one that looks through the depths does not hold up what has just come in; without ``is_far_too``
        those have to wait for a slice of their own.
        """
        consumers = self._consumers
        if self._handover.is_pending and self.groups is not None:
            self._hand_over(self.groups)
        in_turn = consumers.in_turn(self.groups is not None)
        if consumers.in_order:
            if not is_far_too and self._context.is_scheduled(self._home):
                return
            for equals in [in_turn] if consumers.is_strict else _by_priority(in_turn):
                if not self._look(equals, None, consumers.is_strict):
                    break
        else:
            far: list[QueueConsumer] = []
            self._look(in_turn, far, len(in_turn) == 1)
            if far and not is_far_too:
                self._context.schedule(self._home)
            elif far:
                far.sort(key=_furthest_behind)
                self._look(far, None, False)
        self._backlog.make_room()

    def _look(self, in_turn: list[QueueConsumer], far: list[QueueConsumer] | None, in_order: bool) -> bool:
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
                if self._started_over or (looked > 0 and not self._is_through(consumer)):
                    self._started_over = False
                    progress = True
                if budget <= 0:
                    self._context.schedule(self._home)
                    return False
            put_aside = None  # all are there
        return True

    def _is_near(self, consumer: QueueConsumer) -> bool:
        for place, line in enumerate(self._backlog.lines):
            if not line.is_in_tail(consumer.cursors[place]):
                return False
        return True

    def _is_through(self, consumer: QueueConsumer) -> bool:
        for place, line in enumerate(self._backlog.lines):
            if not line.is_at_end(consumer.cursors[place]):
                return False
        return True

    def _offer_next(self, consumer: QueueConsumer) -> int:
        """Show ``consumer`` the lines until it takes one message; gives how many messages it looked at. It waits where
        the next one must be read first.
        """
        backlog = self._backlog
        looked = 0
        for place, line in enumerate(backlog.lines):
            cursor = consumer.cursors[place]
            while looked < SLICE_MESSAGES:
                chunk = line.chunk_at(cursor)
                if chunk is None:
                    break
                if chunk.packed is not None:
                    if not backlog.read_for(line, cursor, chunk):
                        return looked
                    continue
                offset = cursor.offset
                reference = chunk.items[offset]
                looked += 1
                self.looks += 1
                if reference is None:
                    cursor.offset += 1
                    continue
                if reference.message.is_expired(self._context.wall_ms):
                    line.take(chunk, offset)
                    self._home.expire(reference)
                    continue
                if consumer.subscription.accepts(reference) and self._may_take(consumer, reference):
                    line.take(chunk, offset)
                    self._home.note_dispatched()
                    self._consumers.took(consumer)
                    consumer.subscription.dispatch(self._as_taken(consumer, reference))
                    return looked
                cursor.offset += 1
        return looked

    def _may_take(self, consumer: QueueConsumer, reference: MessageReference) -> bool:
        """Whether the message belongs to no group, or to one that is or becomes the consumer's. What waits for a
        durable subscriber has one consumer and no groups.
        """
        group = reference.message.group_id
        if group is None or self._home.destination.kind == SUBSCRIPTION:
            return True
        groups = self.groups
        if groups is None:
            self.use_groups(self._home.policy.queue.groups)
            groups = self.groups
            assert groups is not None
        offered = groups.offer(consumer, group, consumer.subscription.group_sequence(reference.message))
        self._first = offered == FIRST
        if offered == PASS:
            return False
        self._handover.earn()
        owner = groups.lost
        if owner is not None:
            groups.lost = None
            self._handover.lost(owner)
            self._hand_over(groups)
        return True

    def _as_taken(self, consumer: QueueConsumer, reference: MessageReference) -> MessageReference:
        """The message as this consumer gets it: the first of a group for it says so."""
        if not self._first or reference.message.group_id is None:
            return reference
        self._first = False
        marked = consumer.subscription.first_for_consumer(reference.message)
        home = self._home
        home.hold(marked)
        home.release(reference.message)
        return MessageReference(home, marked, reference.sequence, reference.order, reference.redelivery_count)


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
    return consumer.cursors[0].place
