"""What the control destination does with cursors and sinks, in memory; whoever asks may be stopped at any request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.pipeline.link.control_answers import (
    BegunSink,
    CommitResult,
    ControlError,
    FencedError,
    NotHeldError,
    Part,
    Reservation,
)


@dataclass
class FakeCursor:
    """A cursor on the one queue."""

    epoch: int
    run: str
    start: int = 0
    messages: list[object] = field(default_factory=list)  # what it holds, the first has the number `start`

    @property
    def end(self) -> int:
        return self.start + len(self.messages)


@dataclass
class FakeSink:
    """A sink: staged rows by batch, partition and attempt."""

    epoch: int
    run: str
    last: int = -1
    staged: dict[tuple[int, int, int], list[object]] = field(default_factory=dict)


class FakeControl:
    """The broker; it outlives its clients."""

    def __init__(self, waiting: Iterable[object] = ()) -> None:
        self.waiting = list(waiting)
        self.cursors: dict[str, FakeCursor] = {}
        self.sinks: dict[str, FakeSink] = {}
        self.delivered: list[object] = []
        self.commits = 0
        self.steps = 0
        self.stop: Callable[[int, bool], None] = lambda step, is_done: None

    def open_cursor(
        self, name: str, queue: str, run: str, *, exclusive: bool = False, selector: str = ""
    ) -> Reservation:
        number = self._begin()
        found = self.cursors.setdefault(name, FakeCursor(0, ""))
        if found.run != run:
            found.epoch, found.run = found.epoch + 1, run
        self.stop(number, True)
        return Reservation(found.epoch, found.start, found.end)

    def open_subscription_cursor(
        self, name: str, client_id: str, subscription: str, run: str, *, exclusive: bool = False, selector: str = ""
    ) -> Reservation:
        wanted = f"?{selector}" if selector else ""
        return self.open_cursor(f"{client_id}/{subscription}/{name}{wanted}", "", run, exclusive=exclusive)

    def reserve(
        self, name: str, epoch: int, messages: int, *, max_bytes: int = 0, acknowledge: int | None = None
    ) -> Reservation:
        number = self._begin()
        found = self._cursor(name, epoch)
        if acknowledge is not None:
            if acknowledge > found.end:
                raise NotHeldError("not-held", "not-held: beyond what is held")
            done = max(0, acknowledge - found.start)
            del found.messages[:done]
            found.start += done
        wanted = max(0, messages - len(found.messages))
        found.messages += self.waiting[:wanted]
        del self.waiting[:wanted]
        self.stop(number, True)
        return Reservation(epoch, found.start, found.end, len(self.waiting))

    def read_range(self, name: str, epoch: int, start: int, end: int) -> list[object]:
        number = self._begin()
        found = self._cursor(name, epoch)
        if start < found.start or end > found.end:
            raise NotHeldError("not-held", f"not-held: {start} to {end}")
        self.stop(number, True)
        return found.messages[start - found.start : end - found.start]

    def begin(self, query: str, run: str, target: str = "") -> BegunSink:
        number = self._begin()
        found = self.sinks.setdefault(query, FakeSink(0, ""))
        if found.run != run:
            found.epoch, found.run = found.epoch + 1, run
            found.staged.clear()
        self.stop(number, True)
        return BegunSink(found.epoch, found.last)

    def stage(
        self, query: str, epoch: int, batch: int, partition: int, attempt: int, messages: Iterable[Outgoing]
    ) -> Part:
        rows = [message.body for message in messages]
        number = self._begin()
        self._sink(query, epoch).staged[batch, partition, attempt] = rows
        self.stop(number, True)
        return Part(partition, attempt, len(rows))

    def drop(self, query: str) -> None:
        number = self._begin()
        self.sinks.pop(query, None)
        self.stop(number, True)

    def commit(self, query: str, epoch: int, batch: int, parts: Iterable[Part]) -> CommitResult:
        number = self._begin()
        found = self._sink(query, epoch)
        is_repeated = batch <= found.last
        rows: list[object] = []
        if not is_repeated:
            for part in sorted(parts, key=lambda part: part.partition):
                staged = found.staged.get((batch, part.partition, part.attempt))
                if staged is None or len(staged) != part.messages:
                    raise ControlError("incomplete", "incomplete: a part is not staged")
                rows += staged
            found.last = batch
        self.delivered += rows
        found.staged = {key: staged for key, staged in found.staged.items() if key[0] > batch}
        self.stop(number, True)
        return CommitResult(len(rows), is_repeated)

    def _begin(self) -> int:
        self.steps += 1
        self.stop(self.steps, False)
        return self.steps

    def _cursor(self, name: str, epoch: int) -> FakeCursor:
        found = self.cursors[name]
        if found.epoch != epoch:
            raise FencedError("fenced", f"fenced: epoch {epoch}, now it is {found.epoch}")
        return found

    def _sink(self, query: str, epoch: int) -> FakeSink:
        found = self.sinks[query]
        if found.epoch != epoch:
            raise FencedError("fenced", f"fenced: epoch {epoch}, now it is {found.epoch}")
        return found
