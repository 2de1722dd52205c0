"""Commits of sinks that read nothing: what is staged for queues becomes theirs where it lies on the disk.

One unit of the store gives each queue its messages and forgets the batch; when that is safe, they stand at the end of
the queues as messages that only the store has, as after a restart.
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.dispatch.connection_output import Outlet
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import BrokerDestination
from spanwire.broker.exactly_once.sink import Part, line_of
from spanwire.broker.persistence.reply_queue import Waiting
from spanwire.broker.ports import ClientConnection, MessageStore, Transfer
from spanwire.broker.queue.queue import Queue
from spanwire.broker.request_errors import INCOMPLETE, refusal
from spanwire.model.destination import QUEUE, SUBSCRIPTION, Destination
from spanwire.model.errors import SpanwireError

LEAST_STRETCH: Final = 8  # messages for one queue in a row, on average: the store remembers each stretch in 80 bytes
FEW_STRETCHES: Final = 64  # for which that does not matter
RELEASE: Final = 0  # the token of what waits: anything but none


class StoredRun:
    """The messages of one part for one queue, in their order: ``sequences`` in the part's line, with priorities and
    dues (wall milliseconds, 0: never).
    """

    __slots__ = ("dues", "first", "home", "part", "priorities", "sequences")

    def __init__(self, home: Queue, part: Part) -> None:
        self.home: Final[Queue] = home
        self.part: Final[Part] = part
        self.sequences: Final[list[int]] = []
        self.priorities: Final[array[int]] = array("B")
        self.dues: Final[array[int]] = array("q")
        self.first = 0  # of the sequences that it gets

    def take(self, start: int, end: int) -> None:
        """The messages of the part from place ``start`` to ``end``."""
        part = self.part
        self.sequences.extend(part.sequences[start:end])
        self.priorities.extend(part.priorities[start:end])
        self.dues.extend(part.dues[start:end])

    def transfer(self) -> Transfer:
        """What the store is asked for."""
        return Transfer(line_of(self.part.line), self.sequences, self.home.destination)

    @property
    def size(self) -> int:
        """About how many bytes they take."""
        return self.part.bytes // len(self.part.sequences) * len(self.sequences)


class SinkTransfer:
    """What a commit passes on: ``runs`` in the order of partitions, ``orphans`` whose subscription is gone."""

    __slots__ = ("_messages", "_stretches", "orphans", "runs")

    def __init__(self) -> None:
        self._messages = 0
        self._stretches = 0
        self.runs: Final[list[StoredRun]] = []
        self.orphans: Final[list[tuple[Destination, int]]] = []

    def is_worth_it(self) -> bool:
        """Whether what the store has to remember is less than what would be written again."""
        return self._stretches <= FEW_STRETCHES + self._messages // LEAST_STRETCH

    def add(self, part: Part, homes: dict[str, BrokerDestination | None]) -> bool:
        """Take a part; False when one of its queues wants to see each message."""
        self._messages += len(part.targets)
        runs: dict[str, StoredRun] = {}
        start = 0
        while start < len(part.targets):
            target = part.targets[start]
            end = start + 1
            while end < len(part.targets) and part.targets[end] is target:
                end += 1
            self._stretches += 1
            name = target.qualified_name
            home = homes[name]
            if home is None:
                line = line_of(part.line)
                self.orphans.extend([(line, sequence) for sequence in part.sequences[start:end]])
            elif not isinstance(home, Queue) or not home.takes_stored():
                return False
            else:
                run = runs.get(name)
                if run is None:
                    run = StoredRun(home, part)
                    runs[name] = run
                    self.runs.append(run)
                run.take(start, end)
            start = end
        return True

    def check(self, store: MessageStore, parts: list[Part]) -> None:
        """Raises `ControlRefusal` when a message is not in the store. Whether the disk can give it back shows later."""
        for part in parts:
            if 0 in store.sizes(line_of(part.line), part.sequences):
                raise missing(part)

    def waiting(self, position: int, usage: MemoryUsage) -> Waiting:
        """What is to be done when the store, which has been told, has reached ``position``: the queues get their
        messages. Nothing overtakes these.
        """
        for run in self.runs:
            run.home.withheld += 1
        return Waiting(position, Outlet(Arrivals(self.runs), [], usage), RELEASE, None)


class Arrivals(ClientConnection):
    """Who waits for the store in place of a client, and then lets the messages into their queues."""

    def __init__(self, runs: list[StoredRun]) -> None:
        self._runs: Final[list[StoredRun]] = runs

    def completed(self, token: int, error: SpanwireError | None) -> None:
        """All of it is safe, or the store has failed."""
        if error is not None:
            return
        for run in self._runs:
            home = run.home
            home.withheld -= 1
            if not home.removed:
                home.accept_stored(run.first, run.priorities, run.dues, run.size)

    def close_with(self, error: SpanwireError) -> None:
        """Nobody is there to be told."""


def may_pass(part: Part) -> bool:
    """Whether nobody need see the messages of ``part`` now."""
    if not part.is_plain:
        return False
    last: Destination | None = None
    for target in part.targets:
        if target is not last:
            last = target
            if target.kind != QUEUE and target.kind != SUBSCRIPTION:
                return False
    return True


def missing(part: Part) -> SpanwireError:
    """The refusal of a commit of what the store has not, or where it was asked to read it, cannot read."""
    return refusal(
        INCOMPLETE,
        f"a message of part {part.key.text} is missing in the store or cannot be read: stop the broker and run spanwire"
        " store check, or stage the batch again",
    )
