"""Commits of sinks: delivers the parts of a batch in one unit of the store.

If possible the messages stay in place on the disk (`StagedTransfer`), otherwise they are read and written again. The
unit contains the messages, the removal of the staged parts, and the ledger with the number of the batch. A batch is
therefore either staged or delivered, and a repeated commit finds its number.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import StoreReader
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.exactly_once.sink import NO_BATCH, Part, PartKey, Sink, staging_destination
from spanwire.broker.exactly_once.sinks import Sinks
from spanwire.broker.exactly_once.staged_transfer import StagedTransfer, may_transfer, missing
from spanwire.broker.persistence.reply_queue import PendingReply, WithheldMessage
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.request_errors import INCOMPLETE, MALFORMED, refusal
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.model.destination import SUBSCRIPTION, Destination
from spanwire.model.message import Message

PAGE_MESSAGES: Final = 1_000  # messages of one read


class PartName:
    """A part in the words of a commit, with the number of sent messages, each counted once."""

    __slots__ = ("attempt", "messages", "partition")

    def __init__(self, partition: int, attempt: int, messages: int) -> None:
        self.partition: Final[int] = partition
        self.attempt: Final[int] = attempt
        self.messages: Final[int] = messages


class Committed:
    """The result of a commit."""

    __slots__ = ("messages", "repeated")

    def __init__(self, messages: int, repeated: bool) -> None:
        self.messages: Final[int] = messages
        self.repeated: Final[bool] = repeated


class CommitFollower(Protocol):
    """Continues a commit after the read of its messages."""

    def read(self, commit: SinkCommit) -> None:
        """Finish the commit and answer the request."""
        ...


class SinkCommit(StoreReader):
    """One commit.

    `finish` may be called once `next_page` returns False; the last page of a read calls the ``follower``.
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
        router: MessageRouter,
        unsynced: UnsyncedBytes,
        usage: MemoryUsage,
    ) -> None:
        """Find the named parts.

        Args:
            usage: memory usage of the broker, which counts messages read for the commit.

        Raises:
            ControlRefusal: a part is missing.
        """
        self._sinks: Final[Sinks] = sinks
        self.sink: Final[Sink] = sink
        self.batch: Final[int] = batch
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._router: Final[MessageRouter] = router
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._usage: Final[MemoryUsage] = usage
        self.parts: Final[list[Part]] = _named(sink, batch, names)
        self._found: Final[list[Message | None]] = []
        self._found_bytes = 0
        self._part = 0
        self._next = 0
        self.follower: CommitFollower | None = None

    def transfer_staged(self) -> Committed | None:
        """Deliver the batch without reading messages. Return None if the messages must be read.

        Raises:
            JmsError: the commit is refused; the sink is unchanged.
        """
        for part in self.parts:
            if not may_transfer(part):
                return None
        transfer = StagedTransfer()
        targets: dict[str, BrokerDestination | None] = {}
        for part in self.parts:
            self._find_targets(part, targets)
            if not transfer.add(part, targets):
                return None
        if not transfer.is_worth_it():
            return None
        sink = self.sink
        store = self._sinks.store()
        transfer.check(self._context.store_usage, self.parts)
        ended = [part for part in sink.parts.values() if part.key.batch <= self.batch]
        named = {part.key.text for part in self.parts}
        left = [part for part in ended if part.key.text not in named]
        moved = [part for part in ended if part.key.text in named]
        metadata_record = sink.metadata_record(sink.epoch, sink.run, sink.past_runs, self.batch, sink.target)
        transfers = [run.transfer() for run in transfer.runs]
        firsts = self._sinks.transfer_staged(transfers, transfer.orphans, moved, metadata_record)
        for index, run in enumerate(transfer.runs):
            run.first = firsts[index]
        sink.batch = self.batch
        if left:  # a crash before this leaves parts that the next commit removes
            self._sinks.store_unit(StoreUnit(), left, [])
        self._sinks.forget_parts(sink, ended)
        self._router.withhold(transfer.reply(store.position(), self._usage))
        return Committed(sum([part.messages for part in self.parts]), False)

    def _find_targets(self, part: Part, targets: dict[str, BrokerDestination | None]) -> None:
        """Add the targets of ``part`` to ``targets``, by name."""
        last: Destination | None = None
        for target in part.targets:
            if target is not last:
                last = target
                if target.qualified_name not in targets:
                    targets[target.qualified_name] = self._resolve(target)

    def next_page(self) -> bool:
        """Ask for the next messages. Return False at the end."""
        while self._part < len(self.parts):
            part = self.parts[self._part]
            sequences = part.sequences[self._next : self._next + PAGE_MESSAGES]
            if sequences:
                self._next += len(sequences)
                self._context.fetch(self, staging_destination(part.number), sequences)
                return True
            self._part += 1
            self._next = 0
        return False

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take messages from the store."""
        self._found.extend(messages)
        size = sum([message.size for message in messages if message is not None])
        self._found_bytes += size
        self._usage.add(size)
        if not self.next_page() and self.follower is not None:
            self.follower.read(self)

    def finish(self, state: ConnectionState) -> Committed:
        """Deliver the batch after the read of all messages.

        Raises:
            JmsError: the commit is refused; the sink is unchanged.
        """
        self._usage.add(-self._found_bytes)  # from now on the final destinations count the messages
        sink = self.sink
        sink.committing = NO_BATCH
        store = self._sinks.store()
        sends = self._sends()
        unit = StoreUnit()
        size = 0
        for entry in sends:
            if entry.destination.persists(entry.message):
                entry.additions = unit.add(entry.destination.name, entry.message)
                entry.sequence = entry.additions.count - 1
                size += entry.message.size
        ended = [part for part in sink.parts.values() if part.key.batch <= self.batch]
        metadata_record = sink.metadata_record(sink.epoch, sink.run, sink.past_runs, self.batch, sink.target)
        self._sinks.store_unit(unit, ended, [metadata_record])
        self._unsynced.add(size)
        sink.batch = self.batch
        self._sinks.forget_parts(sink, ended)
        self._router.withhold(PendingReply(store.position(), state.output, NO_TOKEN, sends))
        return Committed(sum([part.messages for part in self.parts]), False)

    def _sends(self) -> list[WithheldMessage]:
        sends: list[WithheldMessage] = []
        index = 0
        for part in self.parts:
            for target in part.targets:
                message = self._found[index]
                index += 1
                if message is None:
                    raise missing(part)
                destination = self._resolve(target)
                if destination is not None:
                    sends.append(WithheldMessage(destination, message, 0))
        return sends

    def _resolve(self, target: Destination) -> BrokerDestination | None:
        """Return the destination of a copy, None if the durable subscription is gone."""
        if target.kind == SUBSCRIPTION:
            durable = self._map.durables.get(target.name)
            return None if durable is None else durable.queue
        return self._destinations.ensure_own(target)


def _named(sink: Sink, batch: int, names: list[PartName]) -> list[Part]:
    """Return the named parts in the order of partitions."""
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
