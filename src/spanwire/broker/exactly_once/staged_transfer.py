"""Commits of sinks without reads: staged messages become messages of the queues in place on the disk.

One unit of the store gives each queue its messages and removes the parts. After the sync the messages are appended to
the queues as paged-out messages, as after a restart.
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.connections.transaction import TransactedSend
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.exactly_once.batch_targets import BatchTargets
from spanwire.broker.exactly_once.sink import Part, staging_destination
from spanwire.broker.persistence.reply_queue import Arrivals, PendingReply
from spanwire.broker.persistence.store_unit import LEAST_STRETCH, StoreUnit, UnitTransfer
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import QUEUE, SUBSCRIPTION, TOPIC, Destination

FEW_STRETCHES: Final = 64  # stretches that cost little at any length
ENTERED_IN_STEP: Final = 4  # messages that a queue gets in the time of one step
RUN_STEPS: Final = 4  # steps of the dispatch to the consumers of a queue


class StoredRun:
    """The messages of one commit for one queue, in order.

    ``dues`` are expirations in wall milliseconds (0: never), ``size`` is the approximate bytes of all messages.
    """

    __slots__ = ("dues", "entered", "part", "priorities", "queue", "size", "transfer")

    def __init__(self, queue: Queue, part: Part, transfer: UnitTransfer) -> None:
        self.queue: Final[Queue] = queue
        self.priorities: Final[array[int]] = array("B")
        self.dues: Final[array[int]] = array("q")
        self.size = 0
        self.part = part  # the last part with messages for the queue
        self.transfer = transfer  # of this part
        self.entered = 0  # messages that the queue has

    def take(self, start: int, end: int) -> None:
        """Add the copies of the part from index ``start`` up to, but without, ``end``."""
        part = self.part
        self.transfer.add(part.sequences[start:end].tolist())
        self.priorities.extend(part.priorities[start:end])
        self.dues.extend(part.dues[start:end])
        self.size += part.bytes // len(part.sequences) * (end - start)

    def enter(self, at_most: int) -> None:
        """Append at most ``at_most`` of the messages to the queue."""
        queue = self.queue
        start = self.entered
        end = min(len(self.dues), start + at_most)
        self.entered = end
        if not queue.removed:
            first = self.transfer.additions.first + start
            size = self.size * (end - start) // len(self.dues)
            queue.accept_stored(first, self.priorities[start:end], self.dues[start:end], size)


class StagedTransfer(Arrivals):
    """All messages of one commit, gathered a slice at a time.

    ``unit`` moves the messages, and removes those that nobody gets: for durable subscriptions that are gone, and for
    topics without other subscribers.
    """

    def __init__(self, targets: BatchTargets) -> None:
        self._targets: Final[BatchTargets] = targets
        self.unit: Final[StoreUnit] = StoreUnit()
        self._runs: Final[list[StoredRun]] = []
        self._by_name: Final[dict[str, StoredRun | None]] = {}  # None if nobody gets the messages
        self._unheard: Final[dict[Topic, int]] = {}  # with the number of messages
        self._topic: Topic | None = None  # the target, if it is unheard
        self._part: Part | None = None
        self._staging = staging_destination(0)
        self._target: Destination | None = None
        self._run: StoredRun | None = None  # of the target
        self._next_arrival = 0
        self.stretches = 0

    def is_worth_it(self, messages: int) -> bool:
        """Return True if notes about the moved messages cost the store less than rewriting all ``messages``."""
        return self.stretches <= FEW_STRETCHES + messages // LEAST_STRETCH

    def take(self, part: Part, start: int, end: int) -> bool:
        """Add the copies of a part from index ``start`` up to, but without, ``end``.

        Returns:
            False if the broker must see a message.
        """
        if part is not self._part:
            if not part.is_plain:
                return False
            self._part = part
            self._staging = staging_destination(part.number)
            self._target = None
        targets = part.targets
        while start < end:
            target = targets[start]
            stop = start + 1
            while stop < end and targets[stop] is target:
                stop += 1
            if target is not self._target:
                self.stretches += 1
                if not self._begin(part, target):
                    return False
            run = self._run
            topic = self._topic
            if topic is not None:
                self._unheard[topic] = self._unheard.get(topic, 0) + stop - start
            if run is None:
                self.unit.remove_all(self._staging, part.sequences[start:stop].tolist())
            else:
                run.take(start, stop)
            start = stop
        return True

    def _begin(self, part: Part, target: Destination) -> bool:
        """Begin a stretch, and return False if the queue of ``target`` must see each message."""
        self._topic = None
        if target.kind == TOPIC:
            return self._begin_topic(target)
        if target.kind != QUEUE and target.kind != SUBSCRIPTION:
            return False
        name = target.qualified_name
        if name not in self._by_name:
            queue = self._targets.resolve(target)
            if queue is None:
                self._by_name[name] = None
            elif not isinstance(queue, Queue) or not queue.takes_stored():
                return False
            else:
                run = StoredRun(queue, part, self.unit.transfer(self._staging, queue.name))
                self._by_name[name] = run
                self._runs.append(run)
        self._target = target
        self._run = self._by_name[name]
        if self._run is not None and self._run.part is not part:
            self._run.part = part
            self._run.transfer = self.unit.transfer(self._staging, self._run.queue.name)
        return True

    def _begin_topic(self, target: Destination) -> bool:
        """Begin a stretch, and return False if somebody must see each message of a topic."""
        topic = self._targets.resolve(target)
        if not isinstance(topic, Topic) or not topic.is_unheard():
            return False
        self._target = target
        self._topic = topic
        self._run = None
        return True

    def is_current(self) -> bool:
        """Return True unless a destination was removed, or must see each message from now on."""
        for run in self._runs:
            if run.queue.removed or not run.queue.takes_stored():
                return False
        for topic in self._unheard:
            if topic.removed or not topic.is_unheard():
                return False
        return True

    def withhold(self, reply: PendingReply) -> None:
        """Let ``reply`` append the messages to their queues. Until then no other message may overtake them."""
        for topic, count in self._unheard.items():
            topic.enqueued += count
        destinations: list[BrokerDestination] = []
        for run in self._runs:
            run.queue.withheld += 1
            destinations.append(run.queue)
        reply.arrivals = self
        reply.destinations = destinations

    def enter(self, at_most: int) -> int:
        """Append messages to their queues; see `Arrivals.enter`."""
        if self._next_arrival == len(self._runs):
            return 0
        run = self._runs[self._next_arrival]
        start = run.entered
        run.enter(at_most * ENTERED_IN_STEP)
        if run.entered == len(run.dues):
            run.queue.withheld -= 1
            self._next_arrival += 1
        return RUN_STEPS + (run.entered - start) // ENTERED_IN_STEP


def in_stretches(sends: list[TransactedSend], begin: int, end: int) -> list[TransactedSend]:
    """Return sends from index ``begin`` up to, but without, ``end``, together by destination.

    Long stretches for one destination let the messages stay in place on the disk (`StagedTransfer`). The messages of
    each destination keep their order.
    """
    by_destination: dict[BrokerDestination, list[TransactedSend]] = {}
    last: BrokerDestination | None = None
    group: list[TransactedSend] = []
    for index in range(begin, end):
        send = sends[index]
        if send.destination is not last:
            last = send.destination
            found = by_destination.get(last)
            if found is None:
                found = []
                by_destination[last] = found
            group = found
        group.append(send)
    if len(by_destination) == 1:
        return group
    return [send for sends_of_one in by_destination.values() for send in sends_of_one]
