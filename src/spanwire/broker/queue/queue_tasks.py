"""Long work on a queue's backlog, a slice of some messages at a time: expiry, purge, and the end of a queue."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination_events import EXPIRED_NEWS
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageReference
from spanwire.broker.queue.page import CHUNK_MESSAGES, KEPT, PACKED_MESSAGES, SLICE_MESSAGES, TAKEN, Chunk, Packed
from spanwire.broker.queue.pending_list import MessageLine
from spanwire.broker.queue.pending_messages import MAX_PAGE_BYTES, Backlog
from spanwire.broker.queue.scan_position import LineCursor
from spanwire.model.destination import SUBSCRIPTION
from spanwire.model.message import Message

BEHIND_POLL_SECONDS: Final = 0.02  # between two looks whether the disk is still too far behind
DUES_PER_LOOK: Final = 64  # due times of packed messages that are read through in the time of a look at one message
UNBOUNDED: Final = 1 << 62  # bytes of a page that is not read


class LineWalk:
    """One walk from the front of a line to where its end was at the beginning."""

    __slots__ = ("cursor", "line", "mark")

    def __init__(self, line: MessageLine) -> None:
        self.line: Final[MessageLine] = line
        self.cursor: Final[LineCursor] = line.open(False)
        self.mark: Final[LineCursor] = line.open_end()

    def chunk(self) -> Chunk | None:
        """The piece to look at next, from the cursor's offset on; None when the walk is over."""
        chunk = self.line.chunk_at(self.cursor)
        return chunk if chunk is not None and self.cursor.is_before(self.mark) else None

    def end(self, chunk: Chunk, budget: int) -> int:
        """Up to which index of ``chunk`` one slice may go."""
        end = min(len(chunk), self.cursor.offset + budget)
        if self.cursor.place == self.mark.place:
            end = min(end, self.mark.offset)
        return end

    def close(self) -> None:
        """The walk is over."""
        self.line.close(self.cursor)
        self.line.close(self.mark)


class ExpiryWalk:
    """Finds the messages whose time is over, in memory and on the disk, and hands them to ``home.expire``.

    Those on the disk are taken out of the line by their due times and read only if the policy wants dead letters or
    somebody listens. ``pending`` counts those that are being read.
    """

    def __init__(self, home: BrokerDestination, backlog: Backlog, context: BrokerContext) -> None:
        self._home: Final[BrokerDestination] = home
        self._backlog: Final[Backlog] = backlog
        self._context: Final[BrokerContext] = context
        self._walks: list[LineWalk] = []
        self._reads: Final[dict[int, list[int]]] = {}
        self._waits = False  # for the disk, which is behind with the dead letters
        self._page_bytes = UNBOUNDED  # that may still be read with this page
        self.pending = 0

    def start(self) -> bool:
        """Begin, unless it is under way or there is nothing to look at."""
        if self._walks:
            return False
        self._walks = [LineWalk(line) for line in self._backlog.lines if line.count > 0]
        return len(self._walks) > 0

    def is_under_way(self) -> bool:
        """Whether there is more to look at."""
        return len(self._walks) > 0

    def stop(self) -> None:
        """Forget the walk."""
        for walk in self._walks:
            walk.close()
        self._walks = []

    def work(self) -> bool:
        """One slice; False when there is nothing more to do before the store answers, or no room for dead letters."""
        if self._walks and self._lacks_room():
            self.stop()
        if self._walks and self._context.is_behind() and self._leaves_letters():
            if not self._waits:
                self._waits = True
                self._context.wake_at(self._home, self._context.monotonic + BEHIND_POLL_SECONDS)
            return False
        budget = SLICE_MESSAGES
        due: list[int] = []
        self._page_bytes = MAX_PAGE_BYTES if self._reads_expired() else UNBOUNDED
        while budget > 0 and self._page_bytes > 0 and self._walks and not self._reads:
            walk = self._walks[0]
            chunk = walk.chunk()
            if chunk is None:
                walk.close()
                self._walks.pop(0)
                continue
            if chunk.packed is None:
                budget -= self._in_memory(walk, chunk, budget)
            else:
                budget -= self._on_disk(walk, chunk, due, budget)
        if due:
            self._remove(due)
        return len(self._walks) > 0 and not self._reads

    def wake(self) -> bool:
        """A wait for the disk is over; whether there was one."""
        waited = self._waits
        self._waits = False
        return waited and len(self._walks) > 0

    def _in_memory(self, walk: LineWalk, chunk: Chunk, budget: int) -> int:
        cursor = walk.cursor
        start = cursor.offset
        end = walk.end(chunk, budget)
        found: list[MessageReference] = []
        for index in range(start, end):
            item = chunk.items[index]
            if item is not None and item.message.is_expired(self._context.wall_ms):
                found.append(item)
                chunk.items[index] = None
        cursor.offset = end
        if found:
            walk.line.taken(chunk, len(found))
            for reference in found:
                self._home.expire(reference)
        return end - start

    def _on_disk(self, walk: LineWalk, chunk: Chunk, due: list[int], budget: int) -> int:
        """A packed piece in which nothing is due is passed by as a whole."""
        packed = chunk.packed
        assert packed is not None
        cursor = walk.cursor
        wall_ms = self._context.wall_ms
        if chunk.reading or packed.earliest == 0 or packed.earliest > wall_ms:
            cursor.offset = len(chunk)
            return 1
        start = cursor.offset
        end = walk.end(chunk, PACKED_MESSAGES)
        found: list[int] = []
        for index in range(start, end):
            if 0 < packed.dues[index] <= wall_ms:
                found.append(index)
                if len(found) == budget:
                    end = index + 1
                    break
        found = self._page_of(packed, found, len(due) > 0)
        if self._page_bytes <= 0:
            end = found[-1] + 1 if found else start
        cursor.offset = end
        if end == len(chunk):
            packed.note_earliest_after(wall_ms)
        for index in found:
            number = walk.line.take_packed(chunk, index)
            if number == KEPT:
                self._home.expire(packed.kept.pop(index))
            elif number != TAKEN:
                due.append(number)
        return len(found) + (end - start) // DUES_PER_LOOK + 1

    def _page_of(self, packed: Packed, found: list[int], is_begun: bool) -> list[int]:
        """As many of the expired messages at these indexes as are read together; those on the disk must be read if they
        leave dead letters.
        """
        store = self._context.store
        if self._page_bytes == UNBOUNDED or store is None:
            return found
        numbers = [packed.numbers[index] for index in found]
        sizes = store.sizes(self._home.destination, numbers)
        for place in range(len(found)):
            if sizes[place] > self._page_bytes and (place > 0 or is_begun):
                self._page_bytes = 0
                return found[:place]
            self._page_bytes = max(1, self._page_bytes - sizes[place])
        return found

    def _remove(self, due: list[int]) -> None:
        home = self._home
        store = self._context.store
        assert store is not None
        if self._reads_expired():
            self.pending += len(due)
            self._reads[self._context.fetch(home, home.destination, due)] = due
            return
        for sequence in due:
            self._backlog.forget(sequence)
            home.expired += 1
            home.dequeued += 1
            store.remove(home.destination, sequence)

    def _reads_expired(self) -> bool:
        """Whether somebody wants to know what expired on the disk."""
        if self._leaves_letters():
            return True
        news = self._context.news
        if self._home.destination.kind == SUBSCRIPTION:
            return False  # they would be told under their topics' names, which only the messages know
        return news is not None and news.has_listeners(EXPIRED_NEWS, self._home.destination)

    def _leaves_letters(self) -> bool:
        strategy = self._home.policy.dead_letter
        return strategy.process_expired and strategy.target(self._home.destination) is not None

    def _lacks_room(self) -> bool:
        """Whether dead letters would find no room on the disk; then what is over its time stays where it is."""
        store = self._context.store
        return store is not None and not store.has_room() and self._leaves_letters()

    def fetched(self, request: int, messages: list[Message | None]) -> bool:
        """The store's answer; False if somebody else asked."""
        due = self._reads.pop(request, None)
        if due is None:
            return False
        self.pending -= len(due)
        sizes = [message.size for message in messages if message is not None]
        self._backlog.note_page(len(sizes), sum(sizes))
        home = self._home
        for place, message in enumerate(messages):
            sequence = due[place]
            self._backlog.forget(sequence)
            if message is not None and not home.removed:
                home.hold(message)
                home.expire(MessageReference(home, message, sequence, 0, 0))
        if self._walks:
            self._context.schedule(home)
        return True


class Purge:
    """Removes what waits in a queue at the moment of the call, without reading it."""

    def __init__(self, home: BrokerDestination, backlog: Backlog, context: BrokerContext) -> None:
        self._home: Final[BrokerDestination] = home
        self._backlog: Final[Backlog] = backlog
        self._context: Final[BrokerContext] = context
        self._walks: list[LineWalk] = []

    def start(self) -> None:
        """Begin; what a purge that is under way has not reached yet is part of this one."""
        self.stop()
        self._walks = [LineWalk(line) for line in self._backlog.lines if line.count > 0]

    def is_under_way(self) -> bool:
        """Whether there is more to remove."""
        return len(self._walks) > 0

    def stop(self) -> None:
        """Forget the walk."""
        for walk in self._walks:
            walk.close()
        self._walks = []

    def work(self) -> bool:
        """One slice; False when there is nothing more to do before a page that is being read is here."""
        budget = SLICE_MESSAGES
        while budget > 0 and self._walks:
            walk = self._walks[0]
            chunk = walk.chunk()
            if chunk is None:
                walk.close()
                self._walks.pop(0)
                continue
            if chunk.reading:
                return False
            start = walk.cursor.offset
            end = walk.end(chunk, budget)
            walk.cursor.offset = end
            budget -= end - start
            if chunk.packed is None:
                self._from_memory(walk.line, chunk, start, end)
            else:
                self._from_disk(walk.line, chunk, start, end)
        return len(self._walks) > 0

    def _from_memory(self, line: MessageLine, chunk: Chunk, start: int, end: int) -> None:
        gone = [item for item in chunk.items[start:end] if item is not None]
        for index in range(start, end):
            chunk.items[index] = None
        line.taken(chunk, len(gone))
        for reference in gone:
            self._home.discard(reference)

    def _from_disk(self, line: MessageLine, chunk: Chunk, start: int, end: int) -> None:
        packed = chunk.packed
        store = self._context.store
        assert packed is not None
        home = self._home
        for index in range(start, end):
            number = line.take_packed(chunk, index) if packed.numbers[index] != TAKEN else TAKEN
            if number == KEPT:
                home.discard(packed.kept.pop(index))
            elif number != TAKEN and store is not None:
                self._backlog.forget(number)
                home.dequeued += 1
                store.remove(home.destination, number)


class Leftovers:
    """What waited in a queue that was removed, in the store as a whole: forgotten a piece at a time."""

    def __init__(self, home: BrokerDestination, backlog: Backlog) -> None:
        self._home: Final[BrokerDestination] = home
        self._pieces: Final[list[Chunk]] = backlog.clear()  # the first one last
        self._pieces.reverse()

    def is_under_way(self) -> bool:
        """Whether there is more to forget."""
        return len(self._pieces) > 0

    def work(self) -> bool:
        """One slice; False when nothing is left. A piece on the disk has nothing to be forgotten but what only memory
        has.
        """
        budget = CHUNK_MESSAGES
        while self._pieces and budget > 0:
            chunk = self._pieces.pop()
            packed = chunk.packed
            gone = chunk.items if packed is None else [*packed.kept.values(), *chunk.returned]
            for reference in gone:
                if reference is not None:
                    self._home.release(reference.message)
            budget -= len(gone) + 1
        return len(self._pieces) > 0
