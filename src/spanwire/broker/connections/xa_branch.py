"""A branch of a distributed transaction, and its record in the message store between prepare and end.

The store has the branch's sends in a destination of its own (``transaction://``). A metadata record names the final
destinations and the messages that the branch acknowledged (`spanwire.broker.metadata.XA_BRANCHES`, with the branch's id
as the key). Metadata record and messages are stored in one unit and removed in one unit.
"""

from __future__ import annotations

import json
from array import array
from typing import Final

from spanwire.broker.connections.transaction import Transaction, Uncommitted
from spanwire.broker.dispatch.destination import NEWEST
from spanwire.broker.metadata import MAX_VALUE_BYTES
from spanwire.broker.ports import Principal
from spanwire.broker.queue.queue import Queue
from spanwire.model.destination import SCHEDULE, TRANSACTION, Destination
from spanwire.model.errors import ResourceAllocationError, StoreError
from spanwire.model.ids import XaTransactionId

LAST_KIND: Final = TRANSACTION - 1  # highest kind of destination in a branch, except SCHEDULE


class StoredAcks:
    """Messages of one destination that the branch acknowledged, by ascending sequence.

    After a restart ``redeliveries`` holds redelivery counts, ``first_order`` the dispatch order before all other
    messages, and ``queue`` the queue that counts the messages as in flight.
    """

    __slots__ = ("destination", "first_order", "missing", "queue", "redeliveries", "sequences")

    def __init__(self, destination: Destination, sequences: list[int]) -> None:
        self.destination: Final[Destination] = destination
        self.sequences: list[int] = sequences
        self.redeliveries: Final[dict[int, int]] = {}
        self.missing: Final[set[int]] = set()  # sequences of messages that could not be read, not in flight any more
        self.first_order = 0
        self.queue: Queue | None = None


class BranchRecord:
    """The stored record of a prepared branch.

    ``number`` is the number of the branch's destination in the store. ``sends`` are the final destinations of the
    messages there, in order. Messages to topics are for durable subscriptions with numbers above ``until``, made after
    the prepare. ``sequences`` of the messages are not part of the encoded record. Scheduled messages are delivered with
    the rights of ``sender``.
    """

    __slots__ = ("acks", "number", "sender", "sends", "sequences", "until")

    def __init__(self, number: int, sends: list[Destination], acks: list[StoredAcks]) -> None:
        self.number: Final[int] = number
        self.sends: Final[list[Destination]] = sends
        self.acks: Final[list[StoredAcks]] = acks
        self.sequences: list[int] = []
        self.sender: Principal | None = None
        self.until = NEWEST

    def removals(self) -> list[tuple[Destination, int]]:
        """Return the messages of the branch's destination, for their removal."""
        destination = branch_destination(self.number)
        return [(destination, sequence) for sequence in self.sequences]


class Branch(Transaction):
    """A branch of a distributed transaction.

    ``siblings`` are the branches of the connection where ``user`` began the branch; None after the connection's end.
    ``tables`` are the branches of all connections that work in the branch. ``record`` is the stored record of a
    prepared branch. With ``on_disk`` the broker has restarted since, and the sends are in memory only once ``loaded``.
    ``finishing`` marks a branch with an unfinished prepare, commit or rollback.
    """

    def __init__(self, xid: XaTransactionId, uncommitted: Uncommitted, user: str) -> None:
        super().__init__(str(xid), uncommitted, False)
        self.xid: Final[XaTransactionId] = xid
        self.user: Final[str] = user
        self.siblings: dict[bytes, Branch] | None = None
        self.tables: list[dict[bytes, Branch]] = []
        self.record: BranchRecord | None = None
        self.on_disk = False
        self.loaded = False
        self.finishing = False

    def is_empty(self) -> bool:
        """Return True if the branch has no work."""
        return not self.sends and not self.acks and self.refusal is None


def branch_destination(number: int) -> Destination:
    """Return the store's destination for the branch of this number."""
    return Destination(TRANSACTION, str(number))


class RecordDraft:
    """Builds the record of a branch entry by entry.

    Sends form runs to one destination; sequences form runs with a first sequence and a count. A run is encoded as soon
    as the next run begins.
    """

    def __init__(self) -> None:
        self._indexes: Final[dict[str, int]] = {}
        self._named: Final[list[Destination]] = []
        self._sends: Final[list[str]] = []
        self._target = 0
        self._count = 0  # sends to the target
        self._acks: Final[list[str]] = []

    def send(self, destination: Destination) -> None:
        """Add a message for ``destination``."""
        index = self._index_of(destination)
        if index != self._target:
            self._end_sends()
            self._target = index
        self._count += 1

    def _end_sends(self) -> None:
        if self._count > 0:
            self._sends.append(f"[{self._target},{self._count}]")
            self._count = 0

    def acknowledge(self, destination: Destination, sequences: list[int]) -> None:
        """Add acknowledged messages of one destination, by ascending sequence."""
        index = self._index_of(destination)
        first = 0
        count = 0
        for sequence in sequences:
            if sequence == first + count:
                count += 1
                continue
            if count > 0:
                self._acks.append(f"[{index},{first},{count}]")
            first = sequence
            count = 1
        if count > 0:
            self._acks.append(f"[{index},{first},{count}]")

    def encoded(self, number: int, sender: Principal | None, until: int = NEWEST) -> bytes:
        """Return the record as JSON.

        Raises:
            ResourceAllocationError: the record is too long for the store.
        """
        self._end_sends()
        named = [[destination.kind, destination.name] for destination in self._named]
        names = json.dumps(named, separators=(",", ":"))
        runs = f'"sends":[{",".join(self._sends)}],"acks":[{",".join(self._acks)}]'
        text = f'{{"line":{number},"destinations":{names},{runs}'
        if until != NEWEST:
            text += f',"until":{until}'
        if sender is not None:
            groups = json.dumps(sorted(sender.groups), separators=(",", ":"))
            text += f',"user":{json.dumps(sender.name)},"groups":{groups}'
        value = (text + "}").encode("ascii")
        if len(value) > MAX_VALUE_BYTES:
            raise ResourceAllocationError(
                f"a prepared transaction needs {len(value)} bytes to say what it did, at most {MAX_VALUE_BYTES} are "
                f"allowed: prepare smaller ones"
            )
        return value

    def _index_of(self, destination: Destination) -> int:
        index = self._indexes.get(destination.qualified_name)
        if index is None:
            index = len(self._named)
            self._indexes[destination.qualified_name] = index
            self._named.append(destination)
        return index


def encode_record(record: BranchRecord) -> bytes:
    """Return the stored form of the record.

    Raises:
        ResourceAllocationError: the record is too long for the store.
    """
    draft = RecordDraft()
    for destination in record.sends:
        draft.send(destination)
    for held in record.acks:
        draft.acknowledge(held.destination, held.sequences)
    return draft.encoded(record.number, record.sender, record.until)


def decode_record(value: bytes) -> BranchRecord:
    """Return the record encoded by `encode_record`.

    Raises:
        StoreError: ``value`` is no such record.
    """
    try:
        values = json.loads(value)
        number: int = values["line"]
        names: list[list[object]] = values["destinations"]
        send_runs: list[list[int]] = values["sends"]
        ack_runs: list[list[int]] = values["acks"]
        destinations = [_destination(entry) for entry in names]
        sends: list[Destination] = []
        for index, count in send_runs:
            sends.extend([destinations[index]] * count)
        acks: dict[int, StoredAcks] = {}
        for index, first, count in ack_runs:
            if index not in acks:
                acks[index] = StoredAcks(destinations[index], [])
            acks[index].sequences.extend(range(first, first + count))
        record = BranchRecord(number, sends, list(acks.values()))
        until: int = values.get("until", NEWEST)  # a store from before Spanwire kept it has no messages to topics
        if not 0 <= until <= NEWEST:
            raise ValueError("not a number of a durable subscription")
        record.until = until
        if "user" in values:
            user: str = values["user"]
            groups: list[str] = values["groups"]
            record.sender = Principal(user, frozenset(groups))
        return record
    except (ValueError, KeyError, TypeError, IndexError):
        raise StoreError(
            "a prepared transaction in the store cannot be read: stop the broker and run spanwire store check"
        ) from None


def _destination(entry: list[object]) -> Destination:
    kind, name = entry
    if not isinstance(kind, int) or not isinstance(name, str) or not (0 <= kind <= LAST_KIND or kind == SCHEDULE):
        raise ValueError("not a destination")
    return Destination(kind, name)


def without(sequences: array[int], held: set[int]) -> array[int]:
    """Return all ``sequences`` except the sequences in ``held``."""
    return array("q", [sequence for sequence in sequences if sequence not in held])
