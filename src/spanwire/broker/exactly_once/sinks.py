"""All sinks of a broker: staging, and recovery after a restart.

`SinkCommit` commits batches, `PartRemoval` drops parts.

A staged part leaves memory with the commit of its session. Until the batch is committed or dropped the part waits in a
staging destination of the store, without a name for clients.
"""

from __future__ import annotations

import logging
from array import array
from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import Stager, TransactedSend, Transaction
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.exactly_once.part_draft import PartDraft
from spanwire.broker.exactly_once.sink import (
    STAGING_PREFIX,
    Part,
    PartKey,
    Sink,
    decode_part,
    decode_sink,
    staging_destination,
)
from spanwire.broker.exactly_once.staged_transfer import in_stretches
from spanwire.broker.metadata import STAGED_BATCHES, MetadataRecord
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.ports import MessageStore
from spanwire.broker.request_errors import LIMIT, MALFORMED, UNAVAILABLE, UNKNOWN, refusal
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.transactions.local_transactions import take_unit
from spanwire.model.destination import QUEUE, SUBSCRIPTION, TOPIC, TRANSACTION, Destination
from spanwire.model.units import MIB

MAX_PRIORITY: Final = 9
MAX_SINKS: Final = 1_000  # sinks of one broker
MAX_TARGET: Final = 2_048  # characters of a target: twice the longest name of a destination
MAX_STAGED_PARTS: Final = 10_000  # staged parts of all sinks: each part is a destination of the store
MAX_BATCH_MESSAGES: Final = 2_000_000  # copies staged for one batch, all attempts together: a million rows, twice
MAX_READ_MESSAGES: Final = 100_000  # copies of a batch that its commit reads: all of them are in memory then
MAX_READ_BYTES: Final = 256 * 1024 * 1024  # bytes of such a batch
MAX_STAGED: Final = 4_000_000  # copies staged for all sinks: 100 MB of memory, for two of the largest batches

logger = logging.getLogger(__name__)


class Sinks:
    """Finds sinks by name, stages and removes parts. `Control` decodes the requests."""

    def __init__(
        self,
        context: BrokerContext,
        access: AccessControl,
        flow: FlowControl,
        unsynced: UnsyncedBytes,
        control: Destination,
    ) -> None:
        """``control`` is the destination whose administrators may use all sinks."""
        self._context: Final[BrokerContext] = context
        self._access: Final[AccessControl] = access
        self._flow: Final[FlowControl] = flow
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._control: Final[Destination] = control
        self._sinks: Final[dict[str, Sink]] = {}
        self._free: Final[list[int]] = []
        self._numbers_used = 0
        self._parts = 0
        self._staged = 0

    def find_or_add(self, state: ConnectionState, query: str, run: str, target: str) -> Sink:
        """Return the sink ``query``, which is new if there is none yet.

        Args:
            target: the program's description of the final destinations, the same in each run; may be empty.

        Raises:
            JmsError: the sink belongs to somebody else, the run has ended, or the target is another one.
        """
        self.store()
        if len(target) > MAX_TARGET:
            raise refusal(MALFORMED, f"target has {len(target)} characters, at most {MAX_TARGET} are allowed")
        sink = self._sinks.get(query)
        if sink is None:
            if len(self._sinks) >= MAX_SINKS:
                raise refusal(LIMIT, f"the broker has {MAX_SINKS} sinks already: forget those that nobody needs")
            sink = Sink(query, state.principal.name)
            self._sinks[query] = sink
        else:
            self._check(state, sink)
        if run != sink.run:
            sink.check_run(run)
        sink.check_target(target)
        return sink

    def take_target(self, sink: Sink, target: str) -> None:
        """Store the target of a sink that had none."""
        if target and target != sink.target:
            record = sink.metadata_record(sink.epoch, sink.run, sink.past_runs, sink.batch, target)
            take_unit(self._context.units, StoreUnit(), [record])
            sink.target = target

    def check_begin(self, state: ConnectionState, query: str, run: str) -> None:
        """Raise `JmsError` if the connection may not use the sink, or the run has ended."""
        sink = self._sinks.get(query)
        if sink is not None:
            self._check(state, sink)
            sink.check_run(run)

    def current(self, state: ConnectionState, query: str, epoch: int) -> Sink:
        """Return the sink if the connection owns the sink in ``epoch``."""
        self.store()
        sink = self._sinks.get(query)
        if sink is None:
            raise refusal(UNKNOWN, f"there is no sink {query}: begin it")
        self._check(state, sink)
        sink.check_epoch(epoch)
        return sink

    def is_closed(self, query: str) -> bool:
        """Return True if a request about the sink is carried out in slices."""
        sink = self._sinks.get(query)
        return sink is not None and bool(sink.under_way)

    def lacks(self, query: str) -> bool:
        """Return True if there is no sink ``query``, though there is a store."""
        self.store()
        return query not in self._sinks

    def remove(self, sink: Sink) -> None:
        """Forget a sink without parts."""
        del self._sinks[sink.query]

    def rows(self, state: ConnectionState | None, query: str) -> list[dict[str, object]]:
        """Return rows of all sinks, or of sink ``query``, within the rights of a connection, if any."""
        sinks = [sink for sink in self._sinks.values() if not query or sink.query == query]
        return [sink.row() for sink in sinks if state is None or self._may_use(state, sink)]

    def stage(self, state: ConnectionState, key: PartKey, epoch: int) -> Staging:
        """Return the stager for a transaction whose sends belong to the part ``key``.

        Raises:
            JmsError: the part is refused already.
        """
        self.current(state, key.query, epoch)
        return Staging(self, state, key, epoch)

    def begin_part(self, staging: Staging, transaction: Transaction) -> Part | None:
        """Return the part for the messages of ``transaction``.

        Returns:
            None if the messages are ignored: those of a committed batch are sent by a program that retries after a
            crash, and a part without messages gets no record.

        Raises:
            JmsError: the part is refused.
        """
        sink = self._staged_for(staging, transaction)
        key = staging.key
        if key.batch <= sink.batch or transaction.messages == 0:
            return None
        part = sink.parts.get(key.text)
        self._check_room(sink, key, len(transaction.sends), 0, part is None or part.is_plain)
        if part is None:
            staging.is_new = True
            part = Part(key, staging.epoch, self._take_number())
        return part

    def free_number(self, part: Part) -> None:
        """Release the number of a new part that was refused."""
        self._free.append(part.number)

    def _staged_for(self, staging: Staging, transaction: Transaction) -> Sink:
        sink = self.current(staging.state, staging.key.query, staging.epoch)
        if transaction.acks:
            raise refusal(MALFORMED, "a transaction that stages acknowledges nothing: use another session")
        if staging.key.batch <= sink.closed_batch:
            raise refusal(MALFORMED, sink.under_way)
        return sink

    def check_send(self, staging: Staging, send: TransactedSend) -> None:
        """Check a message that is to be staged.

        Raises:
            JmsError: the message is refused.
        """
        destination = send.destination.name
        if destination.qualified_name not in staging.checked:
            staging.checked.add(destination.qualified_name)
            self._check_target(staging.state, send.destination)
        self._flow.check_commit(send.destination, send.message)

    def keep(self, staging: Staging, transaction: Transaction, metadata: list[MetadataRecord]) -> None:
        """Store the messages of ``staging``, and ``metadata``, as one unit.

        Raises:
            JmsError: the part is refused.
        """
        self.store()
        key = staging.key
        sink = self._staged_for(staging, transaction)
        part = staging.part
        if key.batch <= sink.batch or part is None:
            staging.drop()
            if metadata:
                self._context.units.append_unit([], [], metadata)
            return
        known = None if staging.is_new else part  # None also if the part was dropped meanwhile
        if sink.parts.get(key.text) is not known or part.draft is not staging.base:
            raise refusal(MALFORMED, f"part {key.text} was changed on another connection: stage it as another attempt")
        is_plain = part.is_plain and staging.is_plain
        self._check_room(sink, key, len(staging.targets), staging.bytes, is_plain)
        messages = part.messages + transaction.messages
        take_unit(
            self._context.units, staging.unit, [part.metadata_record(staging.draft, is_plain, messages), *metadata]
        )
        for additions in staging.unit.targets():  # one, or none
            part.sequences.extend(range(additions.first, additions.first + additions.count))
        part.messages = messages
        part.draft = staging.draft
        part.targets.extend(staging.targets)
        part.is_plain = is_plain
        part.priorities.extend(staging.priorities)
        part.dues.extend(staging.dues)
        part.bytes += staging.bytes
        self._unsynced.add(staging.bytes)
        self._staged += len(staging.targets)
        if key.text in sink.parts:
            sink.note_growth(part, len(staging.targets), staging.bytes)
        else:
            self._add(sink, part)

    def _add(self, sink: Sink, part: Part) -> None:
        sink.parts[part.key.text] = part
        sink.note_part(part)
        self._parts += 1

    def _check_room(self, sink: Sink, key: PartKey, count: int, size: int, is_plain: bool) -> None:
        batch = sink.staged_batch(key.batch)
        copies = count + batch.copies
        if not (is_plain and batch.is_plain):
            check_read(sink, key.batch, copies, size + batch.bytes)
        if copies > MAX_BATCH_MESSAGES:
            raise refusal(
                LIMIT,
                f"batch {key.batch} of sink {sink.query} has {copies} messages with all attempts, at most "
                f"{MAX_BATCH_MESSAGES} are allowed: make smaller batches",
            )
        if self._staged + count > MAX_STAGED:
            raise refusal(
                LIMIT, f"{self._staged} messages are staged, at most {MAX_STAGED} may be: commit or abort some"
            )
        if self._parts >= MAX_STAGED_PARTS and key.text not in sink.parts:
            raise refusal(LIMIT, f"{MAX_STAGED_PARTS} parts of batches are staged already: commit or abort some")

    def _check_target(self, state: ConnectionState, destination: BrokerDestination) -> None:
        """Check the right to stage messages for a destination.

        The right on a topic includes its subscriptions.
        """
        name = destination.name
        if name.kind == SUBSCRIPTION:
            return
        if name.kind != QUEUE and name.kind != TOPIC:
            raise refusal(MALFORMED, f"nothing can be staged for {name}: only for queues and topics that stay")
        if not self._access.may_administer(state, name):
            self._access.refuse(state, f"administer: {name}", " (staging needs that)")

    def _take_number(self) -> int:
        """Return the number of an unused staging destination.

        The store never forgets a number, hence the reuse.
        """
        if self._free:
            return self._free.pop()
        self._numbers_used += 1
        return self._numbers_used - 1

    def take_removal(self, unit: StoreUnit, metadata: list[MetadataRecord]) -> None:
        """Store ``unit``, which ends parts, with ``metadata``; `forget_parts` must follow."""
        take_unit(self._context.units, unit, metadata)

    def take_commit(self, sink: Sink, unit: StoreUnit, batch: int) -> None:
        """Store ``unit``, which delivers ``batch`` and ends parts; `forget_parts` must follow."""
        record = sink.metadata_record(sink.epoch, sink.run, sink.past_runs, batch, sink.target)
        take_unit(self._context.units, unit, [record])
        sink.batch = batch

    def forget_parts(self, sink: Sink, parts: list[Part]) -> None:
        """Forget ``parts`` after their removal from the store."""
        for part in parts:
            self._staged -= len(part.sequences)
            sink.forget_part(part)
            self._free.append(part.number)
        self._parts -= len(parts)

    def store(self) -> MessageStore:
        """Return the store.

        Raises:
            ControlRefusal: the broker has no store.
        """
        store = self._context.store
        if store is None:
            raise refusal(UNAVAILABLE, "this broker keeps nothing: cursors and sinks need one with persistent=true")
        return store

    def _check(self, state: ConnectionState, sink: Sink) -> None:
        if not self._may_use(state, sink):
            self._access.refuse(state, f"use sink: {sink.query}", f" (it needs the right admin on {self._control})")

    def _may_use(self, state: ConnectionState, sink: Sink) -> bool:
        return state.principal.name == sink.user or self._access.may_administer(state, self._control)

    def recover(
        self, ledgers: dict[bytes, bytes], staged: dict[bytes, bytes], recovered: list[RecoveredDestination]
    ) -> list[RecoveredDestination]:
        """Restore sinks and parts from their records.

        Returns:
            The recovered destinations, without staging destinations.

        Raises:
            StoreError: a record cannot be decoded.
        """
        for key, value in ledgers.items():
            sink = decode_sink(key, value)
            self._sinks[sink.query] = sink
        parts: dict[str, Part] = {}
        used: set[int] = set()
        for key, value in staged.items():
            part = decode_part(key, value)
            parts[staging_destination(part.number).qualified_name] = part
            used.add(part.number)
        unclaimed: list[RecoveredDestination] = []
        for entry in recovered:
            if entry.destination.kind != TRANSACTION or not entry.destination.name.startswith(STAGING_PREFIX):
                unclaimed.append(entry)
            elif entry.destination.qualified_name in parts:
                self._found(parts.pop(entry.destination.qualified_name), entry)
            elif len(entry.sequences) > 0:
                used.add(self._keep_unknown(entry))
        for part in parts.values():
            if part.messages > 0 and not part.targets:
                self._found(part, None)  # messages without copies: the part is complete
            else:
                self._forget_lost(part)
                used.discard(part.number)
        self._numbers_used = max(used, default=-1) + 1
        self._free.extend([number for number in range(self._numbers_used) if number not in used])
        return unclaimed

    def _found(self, part: Part, staged: RecoveredDestination | None) -> None:
        """Restore a part with its copies; ``staged`` is None for a part without copies."""
        sink = self._sinks.get(part.key.query)
        store = self._context.store
        copies = 0 if staged is None else len(staged.sequences)
        if sink is None or store is None or copies != len(part.targets):
            logger.error(
                "part %s of a batch is damaged in the store, and a commit of it is refused: stop the broker and run "
                "spanwire store check, then start the query again, which stages the batch anew",
                part.key.text,
            )
            return
        if staged is not None:
            part.restore(staged)
        sizes = self._context.store_usage.sizes(staging_destination(part.number), part.sequences.tolist())
        part.bytes = sum(sizes)
        self._add(sink, part)
        self._staged += len(part.sequences)

    def _forget_lost(self, part: Part) -> None:
        """Forget a part without a staging destination. The store has only the record."""
        if len(part.targets) > 0:
            logger.error("part %s of a batch has lost its messages in the store: stage it again", part.key.text)
        else:
            logger.info("part %s of a batch has no messages: it is forgotten", part.key.text)
        self._context.metadata.discard_metadata(STAGED_BATCHES, part.name)

    def _keep_unknown(self, entry: RecoveredDestination) -> int:
        """Log staged messages without a record, a sign of damage.

        Returns the number of the staging destination.
        """
        logger.error(
            "%s holds %d staged messages that nothing describes; they stay in the store: stop the broker and run "
            "spanwire store check",
            entry.destination,
            len(entry.sequences),
        )
        number = entry.destination.name[len(STAGING_PREFIX) :]
        return int(number) if number.isdecimal() else -1


class Staging(Stager):
    """Stores the sends of a transaction as a part instead of delivering them.

    Gathers copies, with the fields of `Part`, until `Sinks.keep`. ``draft`` continues ``base``, the part's record.
    """

    def __init__(self, sinks: Sinks, state: ConnectionState, key: PartKey, epoch: int) -> None:
        self._sinks: Final[Sinks] = sinks
        self.state: Final[ConnectionState] = state
        self.key: Final[PartKey] = key
        self.epoch: Final[int] = epoch
        self.part: Part | None = None
        self.base = PartDraft()
        self.draft = self.base
        self.unit: Final[StoreUnit] = StoreUnit()
        self.targets: Final[list[Destination]] = []
        self.priorities: Final[array[int]] = array("B")
        self.dues: Final[array[int]] = array("q")
        self.bytes = 0
        self.is_plain = True
        self.is_new = False  # the number of the part is released unless the part is kept
        self.checked: Final[set[str]] = set()  # names of destinations
        self._staging = staging_destination(0)
        self._is_begun = False

    def gather(self, transaction: Transaction, at_most: int) -> int:
        """Check and gather messages; see `Stager.gather`."""
        if not self._is_begun:
            self.part = self._sinks.begin_part(self, transaction)
            self._is_begun = True
            if self.part is not None:
                self._staging = staging_destination(self.part.number)
                self.base = self.part.draft
                self.draft = self.base.copy()
        if self.part is None:
            return 0
        begin = len(self.targets)
        end = min(len(transaction.sends), begin + at_most)
        for send in in_stretches(transaction.sends, begin, end):
            self._add(send)
        return end - begin

    def _add(self, send: TransactedSend) -> None:
        self._sinks.check_send(self, send)
        message = send.message
        self.unit.add(self._staging, message)
        self.draft.add(send.destination.name)
        self.targets.append(send.destination.name)
        self.priorities.append(min(max(message.priority, 0), MAX_PRIORITY))
        self.dues.append(max(message.expiration_ms, 0))
        self.bytes += message.size
        if not message.persistent or message.redelivery_count > 0:
            self.is_plain = False

    def keep(self, transaction: Transaction, metadata: list[MetadataRecord]) -> None:
        """Store the gathered messages, and ``metadata``; see `Stager.keep`."""
        self._sinks.keep(self, transaction, metadata)

    def drop(self) -> None:
        """Forget what was gathered; see `Stager.drop`."""
        if self.part is not None and self.is_new:
            self._sinks.free_number(self.part)
        self.part = None


def check_read(sink: Sink, batch: int, copies: int, octets: int) -> None:
    """Check the size of a batch whose messages the broker must see.

    Raises:
        ControlRefusal: the batch is too large for the memory.
    """
    if copies > MAX_READ_MESSAGES or octets > MAX_READ_BYTES:
        raise refusal(
            LIMIT,
            f"batch {batch} of sink {sink.query} has {copies} messages of {octets // MIB} MiB, at most "
            f"{MAX_READ_MESSAGES} of {MAX_READ_BYTES // MIB} MiB are allowed where the broker must see each message "
            f"(non-persistent ones, subscribers of a topic that are not durable, advisories of each message, hundreds "
            f"of destinations in turn): make smaller batches",
        )
