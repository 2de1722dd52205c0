"""The messages of one queue that wait for a consumer, oldest first.

A line is a row of pieces (`Chunk`): those at which consumers are, or where new messages come in, are in memory, the
others are packed to eight bytes for each message. A reader of the line keeps its place in a `LineCursor`: the number of
a piece, counted from the beginning of time, and an index into it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.queue.page import CHUNK_MESSAGES, NEVER_LOADED, PACKED_MESSAGES, SLICE_MESSAGES, Chunk, Packed
from spanwire.broker.queue.scan_position import LineCursor

LEAST_CHUNKS: Final = 64  # pieces below which the empty ones among them are not worth looking for
PASSED_LOOKS: Final = 64  # pieces behind readers that are looked at for some to be packed
MAX_PIECES_BACK: Final = 20  # looked through for the youngest stored message: 10,000 messages at most


class MessageLine:
    """Appends at the end, takes from the front or from where a cursor stands, puts back by order.

    Knows nothing of consumers, the store or memory accounting. ``count`` are all waiting messages, ``loaded`` those of
    pieces in memory.
    """

    __slots__ = ("_base", "_chunks", "_compact_at", "_cursors", "count", "epoch", "loaded")

    def __init__(self) -> None:
        self._chunks: list[Chunk] = [Chunk()]
        self._base = 0
        self._compact_at = LEAST_CHUNKS
        self._cursors: list[LineCursor] = []
        self.count = 0
        self.loaded = 0
        self.epoch = 0

    # -- in ------------------------------------------------------------------------------------------------------------

    def append(self, reference: MessageReference) -> None:
        """The youngest message, in memory."""
        tail = self._chunks[-1]
        if tail.packed is not None or len(tail.items) >= CHUNK_MESSAGES:
            tail = Chunk()
            self._add(tail)
        tail.items.append(reference)
        tail.live += 1
        self.count += 1
        self.loaded += 1

    def append_packed(self, number: int, due_ms: int) -> None:
        """The youngest message, which only the store has."""
        self._packed_tail(number, due_ms)

    def append_kept(self, number: int, reference: MessageReference) -> None:
        """The youngest message, which the store does not have, behind others that are packed."""
        packed = self._packed_tail(number, reference.message.expiration_ms)
        packed.kept[len(packed.numbers) - 1] = reference

    def _packed_tail(self, number: int, due_ms: int) -> Packed:
        tail = self._chunks[-1]
        packed = tail.packed
        if packed is None or tail.reading or len(packed.numbers) >= PACKED_MESSAGES or len(packed.orders) > 0:
            packed = Packed(array("q"))
            tail = Chunk()
            tail.packed = packed
            tail.live = 1
            self._add(tail)
        else:
            tail.live += 1
        packed.add(number, due_ms)
        self.count += 1
        return packed

    def extend(self, sequences: array[int], expiring: array[int], dues: array[int]) -> None:
        """Recovered messages by ascending sequence; ``dues`` are the wall milliseconds of those in ``expiring``."""
        for start in range(0, len(sequences), PACKED_MESSAGES):
            packed = Packed(sequences[start : start + PACKED_MESSAGES])
            numbers = packed.numbers
            first = bisect_left(expiring, numbers[0])
            last = bisect_left(expiring, numbers[-1] + 1)
            if first < last:
                packed.dues = array("q", bytes(8 * len(numbers)))
                for place in range(first, last):
                    index = bisect_left(numbers, expiring[place])
                    if index < len(numbers) and numbers[index] == expiring[place]:
                        packed.dues[index] = dues[place]
                packed.note_earliest()
            chunk = Chunk()
            chunk.packed = packed
            chunk.live = len(numbers)
            self._add(chunk)
            self.count += len(numbers)

    def _add(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        if len(self._chunks) >= self._compact_at:
            self._compact()
        if self._chunks[0].live == 0:
            self._settle_head()

    def give_back(self, references: list[MessageReference]) -> None:
        """Put ``references``, by ascending order, back where they were; cursors that look back go there."""
        self.epoch += 1
        self.count += len(references)
        self.loaded += len(references)
        lowest = -1
        done = 0
        index = 0
        while done < len(references):
            order = references[done].order
            while index < len(self._chunks) and self._chunks[index].highest() < order:
                index += 1
            inside = index < len(self._chunks) and self._chunks[index].lowest() < order
            if inside and self._chunks[index].packed is not None and not self._chunks[index].reading:
                index = self._open_inside(index, order)
                inside = False
            bound = NEVER_LOADED
            if index < len(self._chunks):
                bound = self._chunks[index].highest() if inside else self._chunks[index].lowest()
            end = done + 1
            while end < len(references) and references[end].order < bound:
                end += 1
            if inside:
                self._merge(index, references[done:end])
            else:
                self._insert(index, references[done:end])
            lowest = index if lowest < 0 else lowest
            done = end
        self._look_back(lowest)

    def _look_back(self, lowest: int) -> None:
        """Something came back, first into the piece at ``lowest``."""
        first = self._base + lowest
        for cursor in self._cursors:
            if cursor.looks_back and cursor.place >= first:
                cursor.place = first
                cursor.offset = 0
        self._settle_head()

    def give_back_packed(self, numbers: array[int], orders: array[int], dues: array[int]) -> None:
        """The same with messages that only the store has, by ascending order; ``dues`` are 0 for those that do not
        expire.
        """
        self.epoch += 1
        self.count += len(numbers)
        lowest = -1
        done = 0
        index = 0
        while done < len(numbers):
            while index < len(self._chunks) and self._chunks[index].highest() < orders[done]:
                index += 1
            index = self._part_at(index, orders[done])
            bound = NEVER_LOADED if index == len(self._chunks) else self._chunks[index].bound()
            end = min(max(bisect_left(orders, bound, done), done + 1), done + PACKED_MESSAGES)
            packed = Packed(array("q"))
            for place in range(done, end):
                packed.add(numbers[place], dues[place])
            packed.orders = orders[done:end]
            chunk = Chunk()
            chunk.packed = packed
            chunk.live = end - done
            self._insert_chunk(index, chunk)
            lowest = index if lowest < 0 else lowest
            index += 1
            done = end
        self._look_back(lowest)

    def _part_at(self, index: int, order: int) -> int:
        """Make room for ``order`` in the piece at ``index``; gives the index before which it belongs. A piece that is
        being read stays whole.
        """
        if index == len(self._chunks) or self._chunks[index].reading or self._chunks[index].lowest() >= order:
            return index
        chunk = self._chunks[index]
        if chunk.packed is not None:
            return self._open_inside(index, order)
        count = 0
        for place, item in enumerate(chunk.items):
            if item is not None and item.order < order:
                count = place + 1
        rest = Chunk()
        rest.load(chunk.items[count:])
        rest.epoch = chunk.epoch
        chunk.items = chunk.items[:count]
        chunk.live -= rest.live
        self._insert_rest(index, count, rest)
        return index + 1

    def _open_inside(self, index: int, order: int) -> int:
        """Make room for ``order`` in a packed piece; gives the index before which it belongs."""
        packed = self._chunks[index].packed
        assert packed is not None
        self._cut(index, bisect_left(packed.orders, order))
        return index + 1

    def _merge(self, index: int, references: list[MessageReference]) -> None:
        chunk = self._chunks[index]
        chunk.epoch = self.epoch
        if chunk.reading:
            chunk.returned.extend(references)
            chunk.live += len(references)
        else:
            chunk.load(self._merged(index, chunk.items, references))

    def _merged(
        self, index: int, items: list[MessageReference | None], references: list[MessageReference]
    ) -> list[MessageReference | None]:
        """``references`` among ``items``, which are or become those of the piece at ``index``, by their orders."""
        merged: list[MessageReference | None] = list(references)
        merged.extend([item for item in items if item is not None])
        merged.sort(key=_order_of)
        for cursor in self._cursors:
            if cursor.place == self._base + index:
                cursor.offset = _moved(items, cursor.offset, merged)
        return merged

    # -- out -----------------------------------------------------------------------------------------------------------

    def peek(self) -> MessageReference | None:
        """The oldest message; None when there is none, or when it is not in memory."""
        if self.loaded == 0:
            return None
        head = self._chunks[0]
        if head.packed is not None:
            return None
        return head.items[head.start]

    def pop(self) -> None:
        """Remove the oldest message, which is in memory."""
        head = self._chunks[0]
        items = head.items
        start = head.start
        items[start] = None
        head.live -= 1
        self.count -= 1
        self.loaded -= 1
        if head.live == 0:
            self._settle_head()
            return
        start += 1
        while items[start] is None:
            start += 1
        head.start = start

    def take(self, chunk: Chunk, index: int) -> None:
        """Remove one message of a piece in memory."""
        chunk.items[index] = None
        chunk.live -= 1
        self.count -= 1
        self.loaded -= 1
        if chunk.live == 0:
            chunk.items = chunk.items if chunk is self._chunks[-1] else []
        if chunk is self._chunks[0]:
            self._settle_head()

    def taken(self, chunk: Chunk, count: int) -> None:
        """``count`` messages of a piece in memory were replaced by None."""
        if count > 0:
            chunk.live -= count
            self.count -= count
            self.loaded -= count
            if chunk is self._chunks[0]:
                self._settle_head()

    def take_packed(self, chunk: Chunk, index: int) -> int:
        """Remove one message of a packed piece; gives its number."""
        packed = chunk.packed
        assert packed is not None
        chunk.live -= 1
        self.count -= 1
        number = packed.take(index)
        if chunk.live == 0 and chunk is self._chunks[0]:
            self._settle_head()
        return number

    def _settle_head(self) -> None:
        """Keep the oldest message at the front: pieces before it go."""
        chunks = self._chunks
        gone = 0
        while gone < len(chunks) - 1 and chunks[gone].live == 0:
            gone += 1
        if gone > 0:
            del chunks[:gone]
            self._base += gone
        head = chunks[0]
        if head.packed is not None:
            if head.live == 0:
                chunks[0] = Chunk()
                self._base += 1
            return
        if head.live == 0:
            if head.items:
                head.items = []
                head.start = 0
                self._base += 1
            return
        while head.items[head.start] is None:
            head.start += 1

    # -- cursors -------------------------------------------------------------------------------------------------------

    def open(self, looks_back: bool) -> LineCursor:
        """A new reader, at the front."""
        cursor = LineCursor(self._base, looks_back)
        self._cursors.append(cursor)
        return cursor

    def open_end(self) -> LineCursor:
        """A mark behind the youngest message."""
        cursor = self.open(False)
        cursor.place = self._base + len(self._chunks) - 1
        cursor.offset = len(self._chunks[-1])
        return cursor

    def open_beside(self, cursor: LineCursor) -> LineCursor:
        """A new reader that has looked at the same messages as another."""
        other = self.open(cursor.looks_back)
        other.place = cursor.place
        other.offset = cursor.offset
        other.seen = cursor.seen
        other.epoch = cursor.epoch
        return other

    def close(self, cursor: LineCursor) -> None:
        """The reader is gone."""
        if cursor in self._cursors:
            self._cursors.remove(cursor)

    def chunk_at(self, cursor: LineCursor) -> Chunk | None:
        """The piece in which ``cursor`` has more to look at, at its offset; None at the end."""
        chunks = self._chunks
        if cursor.place < self._base:
            cursor.place = self._base
            cursor.offset = 0
        index = cursor.place - self._base
        while True:
            chunk = chunks[index]
            if cursor.offset < len(chunk) and not (cursor.offset == 0 and self._has_seen(cursor, chunk)):
                return chunk
            if index == len(chunks) - 1:
                cursor.epoch = self.epoch
                return None
            highest = chunk.highest()
            if cursor.seen < highest < NEVER_LOADED:
                cursor.seen = highest
            index += 1
            cursor.place += 1
            cursor.offset = 0

    def _has_seen(self, cursor: LineCursor, chunk: Chunk) -> bool:
        return chunk.live == 0 or (chunk.epoch <= cursor.epoch and chunk.highest() <= cursor.seen)

    def is_at_end(self, cursor: LineCursor) -> bool:
        """Whether there is nothing behind ``cursor``."""
        index = cursor.place - self._base
        return self.count == 0 or (index == len(self._chunks) - 1 and cursor.offset >= len(self._chunks[index]))

    def is_in_tail(self, cursor: LineCursor) -> bool:
        """Whether ``cursor`` is in the youngest piece or at its edge, or not far from it."""
        last = len(self._chunks) - 1
        index = cursor.place - self._base
        if last == 0 or index >= last or self.count <= SLICE_MESSAGES:
            return True
        return index == last - 1 and cursor.offset >= len(self._chunks[index])

    def start_over(self, cursor: LineCursor) -> None:
        """Look at everything again."""
        cursor.place = self._base
        cursor.offset = 0
        cursor.seen = -1

    # -- pieces --------------------------------------------------------------------------------------------------------

    def is_blocked(self) -> bool:
        """Whether the oldest message is not in memory, and not being read."""
        head = self._chunks[0]
        return self.count > 0 and head.packed is not None and not head.reading

    def first_packed(self, limit: int) -> Chunk | None:
        """The first packed piece that is not being read, among the ``limit`` first pieces."""
        for index in range(min(limit, len(self._chunks))):
            chunk = self._chunks[index]
            if chunk.packed is not None and not chunk.reading:
                return chunk
        return None

    def next_packed(self, cursor: LineCursor, limit: int) -> Chunk | None:
        """The same among the ``limit`` pieces from ``cursor`` on that it has not seen."""
        first = max(cursor.place - self._base, 0)
        for index in range(first, min(first + limit, len(self._chunks))):
            chunk = self._chunks[index]
            if chunk.packed is not None and not chunk.reading and not self._has_seen(cursor, chunk):
                return chunk
        return None

    def cut(self, chunk: Chunk, count: int) -> None:
        """Shorten a packed piece to ``count`` messages; the rest is a piece behind it."""
        if len(chunk) > count:
            self._cut(self._chunks.index(chunk), count)

    def _cut(self, index: int, count: int) -> None:
        chunk = self._chunks[index]
        packed = chunk.packed
        assert packed is not None
        is_whole = chunk.live == len(packed.numbers)
        rest = Chunk()
        rest.packed = packed.split(count)
        rest.live = len(rest.packed.numbers) if is_whole else rest.packed.live()
        rest.epoch = chunk.epoch
        chunk.live -= rest.live
        self._insert_rest(index, count, rest)

    def _insert_rest(self, index: int, count: int, rest: Chunk) -> None:
        """The piece at ``index`` was cut: it has ``count`` messages now, ``rest`` the others."""
        place = self._base + index
        for cursor in self._cursors:
            if cursor.place > place:
                cursor.place += 1
            elif cursor.place == place and cursor.offset >= count:
                cursor.place += 1
                cursor.offset -= count
        self._chunks.insert(index + 1, rest)

    def _insert(self, index: int, references: list[MessageReference]) -> None:
        chunk = Chunk()
        chunk.load(list(references))
        self._insert_chunk(index, chunk)

    def _insert_chunk(self, index: int, chunk: Chunk) -> None:
        chunk.epoch = self.epoch
        place = self._base + index
        for cursor in self._cursors:
            if cursor.place >= place:
                cursor.place += 1
        self._chunks.insert(index, chunk)

    def load(self, chunk: Chunk, items: list[MessageReference | None]) -> None:
        """The messages of a packed piece are in memory now."""
        before = chunk.live
        returned = chunk.returned
        if returned:
            chunk.returned = []
            items = self._merged(self._chunks.index(chunk), items, returned)
        chunk.load(items)
        self.loaded += chunk.live - len(returned)
        self.count += chunk.live - before
        self._settle_head()

    def pack_passed(self, at_most: int) -> list[MessageReference]:
        """Pack up to ``at_most`` pieces in memory that some reader has passed by and at which no reader is; gives the
        references that left memory. Those right behind the last reader go first.
        """
        left: list[MessageReference] = []
        before = -1
        looks = PASSED_LOOKS
        for place in sorted({cursor.place - self._base for cursor in self._cursors}):
            index = min(place, len(self._chunks) - 1) - 1
            while index > before and looks > 0 and at_most > 0:
                chunk = self._chunks[index]
                if chunk.packed is None and chunk.live > 0:
                    left.extend(chunk.pack())
                    self.loaded -= chunk.live
                    at_most -= 1
                looks -= 1
                index -= 1
            before = max(before, place)
        return left

    def _compact(self) -> None:
        """Drop the empty pieces in the middle."""
        kept: list[Chunk] = []
        places: list[int] = []  # the new index for each old one
        for chunk in self._chunks:
            places.append(len(kept))
            if chunk.live > 0 or chunk is self._chunks[-1]:
                kept.append(chunk)
        for cursor in self._cursors:
            index = cursor.place - self._base
            if index >= 0:
                if self._chunks[index].live == 0 and index < len(self._chunks) - 1:
                    cursor.offset = 0
                cursor.place = self._base + places[index]
        self._chunks = kept
        self._compact_at = max(LEAST_CHUNKS, 2 * len(kept))

    # -- everything ----------------------------------------------------------------------------------------------------

    def snapshot(self, limit: int) -> list[Chunk]:
        """The first pieces that hold ``limit`` messages together, or all."""
        found: list[Chunk] = []
        messages = 0
        for chunk in self._chunks:
            if messages >= limit:
                break
            found.append(chunk)
            messages += chunk.live
        return found

    def last_sequence(self) -> int:
        """The sequence of the youngest message that the store has; 0 when the last `MAX_PIECES_BACK` pieces know
        none.
        """
        for chunk in reversed(self._chunks[-MAX_PIECES_BACK:]):
            found = chunk.last_sequence()
            if found > 0:
                return found
        return 0

    def clear(self) -> list[Chunk]:
        """Remove and give everything."""
        found = [chunk for chunk in self._chunks if chunk.live > 0]
        self._base += len(self._chunks)
        self._chunks = [Chunk()]
        self.count = 0
        self.loaded = 0
        return found


def _moved(old: list[MessageReference | None], offset: int, new: list[MessageReference | None]) -> int:
    """Where in ``new`` the first message of ``old`` from ``offset`` on stands."""
    for place in range(offset, len(old)):
        if old[place] is not None:
            return new.index(old[place])
    return len(new)


def _order_of(reference: MessageReference | None) -> int:
    assert reference is not None
    return reference.order
