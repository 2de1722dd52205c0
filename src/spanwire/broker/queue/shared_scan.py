"""Dispatch to many consumers that choose: those that have come equally far down the line look at it together.

A party of consumers has one place in the line, and an index over its selectors finds for each message the few that may
want it; the others cost nothing. Where all that want a message have no room for it, they stay behind as a party of
their own and the rest goes on; at the end of the line parties become one again.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageReference
from spanwire.broker.queue.page import SLICE_MESSAGES, Chunk
from spanwire.broker.queue.pending_list import MessageLine
from spanwire.broker.queue.pending_messages import Backlog
from spanwire.broker.queue.queue_consumers import QueueConsumer, QueueConsumers
from spanwire.broker.queue.scan_position import LineCursor
from spanwire.broker.queue.selector_index import SelectorGroup, SelectorIndex

BEGIN_INTERVAL: Final = 1.0  # seconds after which newcomers begin though those before them are not at the end yet


class Party:
    """Consumers with one place in the line. ``stuck``: the next message is for them and none had room for it."""

    __slots__ = ("cursor", "gone", "index", "stuck")

    def __init__(self, cursor: LineCursor) -> None:
        self.cursor: Final[LineCursor] = cursor
        self.index: Final[SelectorIndex] = SelectorIndex()
        self.stuck = False
        self.gone = False


class LookingTogether:
    """Shows the one line of ``home`` to its consumers, each message once to each party.

    ``grouped`` becomes true when a message belongs to a group: then each consumer has to look for itself, which is left
    to `Looking`.
    """

    def __init__(
        self, home: BrokerDestination, backlog: Backlog, consumers: QueueConsumers, context: BrokerContext
    ) -> None:
        self._home: Final[BrokerDestination] = home
        self._backlog: Final[Backlog] = backlog
        self._line: Final[MessageLine] = backlog.lines[0]
        self._consumers: Final[QueueConsumers] = consumers
        self._context: Final[BrokerContext] = context
        self._parties: Final[list[Party]] = []
        self._of: Final[dict[QueueConsumer, Party]] = {}
        self._lead: Party | None = None  # that at the end of the line
        self._newcomers: Party | None = None  # that which has not begun
        self._latest: Party | None = None  # that which began last
        self._latest_began = 0.0
        self.grouped = False

    # -- who looks -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """All look at the whole line."""
        self.end()
        self.join_all()

    def end(self) -> None:
        """Nobody looks any more."""
        for party in self._parties:
            self._line.close(party.cursor)
        self._parties.clear()
        self._of.clear()
        self._lead = None
        self._newcomers = None
        self._latest = None
        self.grouped = False

    def join_all(self) -> None:
        """Consumers that do not look yet look at the whole line."""
        if len(self._of) < len(self._consumers.all):
            for consumer in self._consumers.all:
                if consumer not in self._of:
                    self._join(consumer)

    def _join(self, consumer: QueueConsumer) -> None:
        party = self._lead
        if party is None or self._line.count > 0:
            party = self._newcomers
            if party is None:
                party = self._open()
                self._newcomers = party
        self._put(consumer, party)

    def leave(self, consumer: QueueConsumer) -> None:
        """A consumer less."""
        party = self._of.pop(consumer, None)
        if party is not None:
            party.index.remove(consumer)
            if party.index.count == 0:
                self._close(party)

    def _open(self) -> Party:
        party = Party(self._line.open(True))
        self._parties.append(party)
        return party

    def _close(self, party: Party) -> None:
        party.gone = True
        self._line.close(party.cursor)
        self._parties.remove(party)
        if self._lead is party:
            self._lead = None
        if self._newcomers is party:
            self._newcomers = None
        if self._latest is party:
            self._latest = None

    def _put(self, consumer: QueueConsumer, party: Party) -> None:
        party.index.add(consumer)
        party.stuck = False
        self._of[consumer] = party

    def awaits_next(self) -> bool:
        """Whether somebody has looked at all there is, and waits for what comes."""
        lead = self._lead
        return lead is not None and self._line.is_at_end(lead.cursor)

    # -- looking -------------------------------------------------------------------------------------------------------

    def came(self) -> None:
        """A message came in at the end: it is for those who wait there, or for newcomers, who may begin in a slice."""
        lead = self._lead
        if lead is not None:
            self._advance(lead, SLICE_MESSAGES)
            self._backlog.make_room()
        if lead is None or self._newcomers is not None:
            self._context.schedule(self._home)

    def go_on(self) -> None:
        """Let all that can take messages look on, those that are furthest first. Newcomers wait until those before them
        are through, so that a thousand that come one after the other do not all go through the depths for themselves.
        """
        active = [party for party in self._parties if not party.stuck or party.index.has_room()]
        if len(active) > 1:
            active.sort(key=_furthest_first)
        budget = SLICE_MESSAGES
        for party in active:
            if party.gone:
                continue  # it came to the end and met others there
            if self._newcomers is party:
                if self._may_not_begin():
                    continue
                self._newcomers = None
                self._latest = party
                self._latest_began = self._context.monotonic
            budget = self._advance(party, budget)
            if budget <= 0 or self.grouped:
                self._context.schedule(self._home)
                break
        self._backlog.make_room()

    def _may_not_begin(self) -> bool:
        latest = self._latest
        if latest is None or latest is self._lead or latest.stuck:
            return False
        return self._context.monotonic < self._latest_began + BEGIN_INTERVAL

    def _advance(self, party: Party, budget: int) -> int:
        """Look on until the end, a message that is on the disk, or one for which nobody has room; gives what is left of
        the budget.
        """
        line = self._line
        cursor = party.cursor
        party.stuck = False
        while budget > 0:
            chunk = line.chunk_at(cursor)
            if chunk is None:
                self._reached_end(party)
                return budget
            if chunk.packed is not None:
                if not self._backlog.read_for(line, cursor, chunk):
                    return budget
                continue
            budget -= 1
            reference = chunk.items[cursor.offset]
            if reference is None:
                cursor.offset += 1
            elif reference.message.is_expired(self._context.wall_ms):
                line.take(chunk, cursor.offset)
                self._home.expire(reference)
            elif reference.message.group_id is not None:
                self.grouped = True
                return budget
            elif not self._offer(party, chunk, reference):
                return budget
        self._context.schedule(self._home)
        return budget

    def _reached_end(self, party: Party) -> None:
        """There all become one party. One that was there before and has more to look at now is behind."""
        lead = self._lead
        if lead is None or lead is party or self._line.chunk_at(lead.cursor) is not None:
            self._lead = party
            return
        smaller, larger = (party, lead) if party.index.count < lead.index.count else (lead, party)
        self._lead = larger
        for consumer in smaller.index.everyone():
            self._put(consumer, larger)
        self._close(smaller)

    def _offer(self, party: Party, chunk: Chunk, reference: MessageReference) -> bool:
        """Give the message to one that wants it and has room, or pass it by; False when nobody of the party can go on
        before there is room.
        """
        cursor = party.cursor
        full: list[QueueConsumer] = []
        taker = self._taker(party.index, reference, full)
        if taker is not None:
            self._line.take(chunk, cursor.offset)
            self._home.note_dispatched()
            self._consumers.took(taker)
            taker.subscription.dispatch(reference)
            return True
        if full:
            if len(full) == party.index.count:
                party.stuck = True
                return False
            self._leave_behind(party, full)
        cursor.offset += 1
        return True

    def _taker(
        self, index: SelectorIndex, reference: MessageReference, full: list[QueueConsumer]
    ) -> QueueConsumer | None:
        """The next in turn that wants the message and has room; those that want it and have none are put into
        ``full``.
        """
        best: QueueConsumer | None = None
        for group in self._candidates(index, reference):
            if group.wants(reference):
                found = group.next_taker(reference.message, full)
                if found is not None and (
                    best is None or self._consumers.turns_until(found) < self._consumers.turns_until(best)
                ):
                    best = found
        return best

    def _candidates(self, index: SelectorIndex, reference: MessageReference) -> list[SelectorGroup]:
        values = self._consumers.all[0].subscription.values
        message = reference.message
        values.bind(message, reference.redelivery_count)
        found = index.candidates(values)
        values.release()
        if message.properties_cache is not None:
            self._home.count_forms(message)
        return found

    def _leave_behind(self, party: Party, full: list[QueueConsumer]) -> None:
        behind = Party(self._line.open_beside(party.cursor))
        self._parties.append(behind)
        for consumer in full:
            party.index.remove(consumer)
            self._put(consumer, behind)
        behind.stuck = True


def _furthest_first(party: Party) -> tuple[int, int]:
    return -party.cursor.place, -party.cursor.offset
