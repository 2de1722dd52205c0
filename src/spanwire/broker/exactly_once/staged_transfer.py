"""Commits of sinks without reads: staged messages become messages of the queues in place on the disk.

One unit of the store gives each queue its messages and removes the parts. After the sync the messages are appended to
the queues as paged-out messages, as after a restart.
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.exactly_once.sink import Part, staging_destination
from spanwire.broker.persistence.reply_queue import PendingReply
from spanwire.broker.persistence.store_unit import Transfer
from spanwire.broker.ports import ClientConnection, StoreUsage
from spanwire.broker.queue.queue import Queue
from spanwire.broker.request_errors import INCOMPLETE, refusal
from spanwire.model.destination import QUEUE, SUBSCRIPTION, Destination
from spanwire.model.errors import SpanwireError

LEAST_STRETCH: Final = (
    8  # average messages of a stretch (consecutive, for one queue): each stretch takes 80 bytes in the store
)
FEW_STRETCHES: Final = 64  # stretches that cost little at any length
RELEASE: Final = 0  # token of a transfer; any value but NO_TOKEN calls `Arrivals.on_completed`


class StoredRun:
    """The messages of one part for one queue, in order.

    ``sequences`` belong to the staging destination, ``dues`` are expirations in wall milliseconds (0: never).
    """

    __slots__ = ("dues", "first", "part", "priorities", "queue", "sequences")

    def __init__(self, queue: Queue, part: Part) -> None:
        self.queue: Final[Queue] = queue
        self.part: Final[Part] = part
        self.sequences: Final[list[int]] = []
        self.priorities: Final[array[int]] = array("B")
        self.dues: Final[array[int]] = array("q")
        self.first = 0  # the first sequence that the messages get in the queue

    def take(self, start: int, end: int) -> None:
        """Add the copies of the part from index ``start`` up to, but without, ``end``."""
        part = self.part
        self.sequences.extend(part.sequences[start:end])
        self.priorities.extend(part.priorities[start:end])
        self.dues.extend(part.dues[start:end])

    def transfer(self) -> Transfer:
        """Return the transfer for the store."""
        return Transfer(staging_destination(self.part.number), self.sequences, self.queue.name)

    @property
    def size(self) -> int:
        """Approximate bytes of the messages."""
        return self.part.bytes // len(self.part.sequences) * len(self.sequences)


class StagedTransfer:
    """All messages of one commit: ``runs`` in the order of partitions, ``orphans`` for subscriptions now gone."""

    __slots__ = ("_messages", "_stretches", "orphans", "runs")

    def __init__(self) -> None:
        self._messages = 0
        self._stretches = 0
        self.runs: Final[list[StoredRun]] = []
        self.orphans: Final[list[tuple[Destination, int]]] = []

    def is_worth_it(self) -> bool:
        """Return True if notes about the moved messages cost the store less than rewriting the messages."""
        return self._stretches <= FEW_STRETCHES + self._messages // LEAST_STRETCH

    def add(self, part: Part, targets: dict[str, BrokerDestination | None]) -> bool:
        """Add a part. Return False if a queue of the part must see each message."""
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
            queue = targets[name]
            if queue is None:
                staging = staging_destination(part.number)
                self.orphans.extend([(staging, sequence) for sequence in part.sequences[start:end]])
            elif not isinstance(queue, Queue) or not queue.takes_stored():
                return False
            else:
                run = runs.get(name)
                if run is None:
                    run = StoredRun(queue, part)
                    runs[name] = run
                    self.runs.append(run)
                run.take(start, end)
            start = end
        return True

    def check(self, store: StoreUsage, parts: list[Part]) -> None:
        """Check that the store has all messages. Damaged messages are found by a later read.

        Raises:
            ControlRefusal: a message is missing.
        """
        for part in parts:
            if 0 in store.sizes(staging_destination(part.number), part.sequences):
                raise missing(part)

    def reply(self, position: int, usage: MemoryUsage) -> PendingReply:
        """Return the pending reply that appends the messages to their queues once the store reaches ``position``.

        Until then no other message may overtake them.
        """
        for run in self.runs:
            run.queue.withheld += 1
        reply = PendingReply(position, ConnectionOutput(Arrivals(self.runs), [], usage), RELEASE, None)
        reply.destinations = [run.queue for run in self.runs]
        return reply


class Arrivals(ClientConnection):
    """Waits for the store in place of a client and appends the messages to their queues."""

    def __init__(self, runs: list[StoredRun]) -> None:
        self._runs: Final[list[StoredRun]] = runs

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """Append the messages, unless the store has failed."""
        if error is not None:
            return
        for run in self._runs:
            queue = run.queue
            queue.withheld -= 1
            if not queue.removed:
                queue.accept_stored(run.first, run.priorities, run.dues, run.size)

    def close_with(self, error: SpanwireError) -> None:
        """Take no action: no client is connected."""


def may_transfer(part: Part) -> bool:
    """Return True if the broker need not see any message of ``part`` now."""
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
    """Return the refusal of a commit with a message that the store lacks or cannot read."""
    return refusal(
        INCOMPLETE,
        f"a message of part {part.key.text} is missing in the store or cannot be read: stop the broker and run spanwire"
        " store check, or stage the batch again",
    )
