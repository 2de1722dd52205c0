"""Commits of sinks: the parts of a batch are delivered, all of them in one unit of the store. Where that does, their
messages stay where they lie on the disk (`SinkTransfer`); else they are read, and written again.

The unit holds the messages for their queues, the removal of what was staged, and the ledger with the batch's number. So
a batch is staged or delivered, whatever breaks, and a commit that is asked for again finds its number.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import BrokerDestination
from spanwire.broker.exactly_once.sink import NO_BATCH, Part, PartKey, Sink, line_of
from spanwire.broker.exactly_once.sinks import Sinks
from spanwire.broker.exactly_once.staged_transfer import SinkTransfer, may_pass, missing
from spanwire.broker.persistence.reply_queue import Waiting, WithheldMessage
from spanwire.broker.persistence.unsynced_bytes import Unstored
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.request_errors import INCOMPLETE, MALFORMED, refusal
from spanwire.broker.routing.message_router import Sending
from spanwire.model.destination import SUBSCRIPTION, Destination
from spanwire.model.message import Message

PAGE_MESSAGES: Final = 1_000  # of one read


class PartName:
    """Names a part in a commit, with the number of messages that were sent for it, each counted once."""

    __slots__ = ("attempt", "messages", "partition")

    def __init__(self, partition: int, attempt: int, messages: int) -> None:
        self.partition: Final[int] = partition
        self.attempt: Final[int] = attempt
        self.messages: Final[int] = messages


class Committed:
    """What a commit did."""

    __slots__ = ("messages", "repeated")

    def __init__(self, messages: int, repeated: bool) -> None:
        self.messages: Final[int] = messages
        self.repeated: Final[bool] = repeated


class CommitFollower(Protocol):
    """Who goes on when the messages of a commit have been read."""

    def read(self, commit: SinkCommit) -> None:
        """Finish it, and answer."""
        ...


class SinkCommit(BrokerDestination):
    """One commit; a destination, so that it gets its own pages. When `next_page` has none, `finish` may be called; the
    ``follower`` hears when the last of them has come.
    """

    def __init__(
        self,
        sinks: Sinks,
        sink: Sink,
        batch: int,
        names: list[PartName],
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        sending: Sending,
        unstored: Unstored,
        usage: MemoryUsage,
    ) -> None:
        """What is read counts in ``usage``, the broker's. Raises `ControlRefusal` when a part is not there."""
        line = line_of(0)
        super().__init__(line, PolicyEntry(line), usage)
        self._sinks: Final[Sinks] = sinks
        self.sink: Final[Sink] = sink
        self.batch: Final[int] = batch
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._sending: Final[Sending] = sending
        self._unstored: Final[Unstored] = unstored
        self.parts: Final[list[Part]] = _named(sink, batch, names)
        self._found: Final[list[Message | None]] = []
        self._found_bytes = 0
        self._part = 0
        self._place = 0
        self.follower: CommitFollower | None = None

    def pass_on(self) -> Committed | None:
        """Deliver it without reading, and have the queues wait for the disk; None if it must be read. Raises
        `JmsError`; then everything is as it was.
        """
        for part in self.parts:
            if not may_pass(part):
                return None
        transfer = SinkTransfer()
        homes: dict[str, BrokerDestination | None] = {}
        for part in self.parts:
            self._homes(part, homes)
            if not transfer.add(part, homes):
                return None
        if not transfer.is_worth_it():
            return None
        sink = self.sink
        store = self._sinks.store()
        transfer.check(store, self.parts)
        ended = [part for part in sink.parts.values() if part.key.batch <= self.batch]
        named = {part.key.text for part in self.parts}
        left = [part for part in ended if part.key.text not in named]
        fact = sink.fact(sink.epoch, sink.run, sink.past_runs, self.batch, sink.target)
        transfers = [run.transfer() for run in transfer.runs]
        firsts = self._sinks.pass_on(store, transfers, transfer.orphans, left, ended, fact)
        for place, run in enumerate(transfer.runs):
            run.first = firsts[place]
        sink.batch = self.batch
        self._sinks.ended(sink, ended)
        self._sending.withhold(transfer.waiting(store.position(), self.usage))
        return Committed(sum([part.messages for part in self.parts]), False)

    def _homes(self, part: Part, homes: dict[str, BrokerDestination | None]) -> None:
        """Where the messages of ``part`` go, by name, into ``homes``."""
        last: Destination | None = None
        for target in part.targets:
            if target is not last:
                last = target
                if target.qualified_name not in homes:
                    homes[target.qualified_name] = self._home(target)

    def next_page(self) -> bool:
        """Ask for the next messages; False when there are none."""
        while self._part < len(self.parts):
            part = self.parts[self._part]
            sequences = part.sequences[self._place : self._place + PAGE_MESSAGES]
            if sequences:
                self._place += len(sequences)
                self._context.fetch(self, line_of(part.line), sequences)
                return True
            self._part += 1
            self._place = 0
        return False

    def fetched(self, request: int, messages: list[Message | None]) -> None:
        """The store's answer."""
        self._found.extend(messages)
        size = sum([message.size for message in messages if message is not None])
        self._found_bytes += size
        self.usage.add(size)
        if not self.next_page() and self.follower is not None:
            self.follower.read(self)

    def finish(self, state: ConnectionState) -> Committed:
        """Everything is here: deliver it. Raises `JmsError`; then everything is as it was."""
        self.usage.add(-self._found_bytes)  # each counts where it goes now
        sink = self.sink
        sink.committing = NO_BATCH
        store = self._sinks.store()
        sends = self._sends()
        additions: list[tuple[Destination, Message]] = []
        places: list[int] = []
        for place, entry in enumerate(sends):
            if self._sending.is_stored(entry.home, entry.message):
                additions.append((entry.home.destination, entry.message))
                places.append(place)
        ended = [part for part in sink.parts.values() if part.key.batch <= self.batch]
        fact = sink.fact(sink.epoch, sink.run, sink.past_runs, self.batch, sink.target)
        sequences = self._sinks.carry_out(store, additions, ended, [fact])
        for place, sequence in zip(places, sequences, strict=True):
            entry = sends[place]
            self._unstored.add(entry.message.size)
            sends[place] = WithheldMessage(entry.home, entry.message, sequence)
        sink.batch = self.batch
        self._sinks.ended(sink, ended)
        self._sending.withhold(Waiting(store.position(), state.outlet, NO_TOKEN, sends))
        return Committed(sum([part.messages for part in self.parts]), False)

    def _sends(self) -> list[WithheldMessage]:
        sends: list[WithheldMessage] = []
        place = 0
        for part in self.parts:
            for target in part.targets:
                message = self._found[place]
                place += 1
                if message is None:
                    raise missing(part)
                home = self._home(target)
                if home is not None:
                    sends.append(WithheldMessage(home, message, 0))
        return sends

    def _home(self, target: Destination) -> BrokerDestination | None:
        """Where a message goes; None when its subscription is gone with all that was meant for it."""
        if target.kind == SUBSCRIPTION:
            durable = self._map.durables.get(target.name)
            return None if durable is None else durable.line
        return self._destinations.ensure_own(target)


def _named(sink: Sink, batch: int, names: list[PartName]) -> list[Part]:
    """The parts, in the order of partitions."""
    found: list[Part] = []
    partitions: set[int] = set()
    for name in sorted(names, key=_partition_of):
        if name.partition in partitions:
            raise refusal(MALFORMED, f"two attempts of partition {name.partition} cannot both belong to a batch")
        partitions.add(name.partition)
        key = PartKey(sink.query, batch, name.partition, name.attempt)
        part = sink.parts.get(key.text)
        count = 0 if part is None else part.messages
        if count != name.messages:
            raise refusal(
                INCOMPLETE,
                f"batch {batch} of sink {sink.query}: {count} of {name.messages} messages of partition "
                f"{name.partition}, attempt {name.attempt}, are staged: stage them again",
            )
        if part is not None:
            found.append(part)
    return found


def _partition_of(name: PartName) -> int:
    return name.partition
