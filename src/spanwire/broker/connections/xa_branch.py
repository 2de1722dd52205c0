"""A branch of a distributed transaction, and what a message store keeps of it from its prepare to its end.

The store has the branch's sends in a line of its own (``transaction://``), and one fact that says where they go and
which messages the branch acknowledged (`spanwire.broker.metadata.XA_BRANCHES`, under the key of the branch's id). Both
come in one unit, and go in one.
"""

from __future__ import annotations

import json
from array import array
from typing import Final

from spanwire.broker.connections.transaction import Transaction, Uncommitted
from spanwire.broker.metadata import MAX_VALUE_BYTES
from spanwire.broker.ports import Principal
from spanwire.broker.queue.queue import Queue
from spanwire.model.destination import SCHEDULE, TRANSACTION, Destination
from spanwire.model.errors import ResourceAllocationError, StoreError
from spanwire.model.ids import XaTransactionId

LAST_KIND: Final = TRANSACTION - 1  # of a destination that a branch may send to or acknowledge from, but for jobs


class StoredAcks:
    """Messages of one destination that the branch acknowledged, by ascending sequence. After a restart
    ``redeliveries`` says how often some were delivered, ``first_order`` where they stood: before all others, and
    ``home`` is where they count as being out.
    """

    __slots__ = ("destination", "first_order", "home", "redeliveries", "sequences")

    def __init__(self, destination: Destination, sequences: list[int]) -> None:
        self.destination: Final[Destination] = destination
        self.sequences: list[int] = sequences
        self.redeliveries: Final[dict[int, int]] = {}
        self.first_order = 0
        self.home: Queue | None = None


class BranchRecord:
    """What the store keeps of a prepared branch; ``line`` is the number of its line, and ``sends`` say where the
    messages there are to go, one after the other. ``sequences`` are those of the messages: the line itself knows them.
    Scheduled ones are delivered with the rights of ``sender``.
    """

    __slots__ = ("acks", "line", "sender", "sends", "sequences")

    def __init__(self, line: int, sends: list[Destination], acks: list[StoredAcks]) -> None:
        self.line: Final[int] = line
        self.sends: Final[list[Destination]] = sends
        self.acks: Final[list[StoredAcks]] = acks
        self.sequences: list[int] = []
        self.sender: Principal | None = None

    def removals(self) -> list[tuple[Destination, int]]:
        """The messages of the line."""
        line = line_of(self.line)
        return [(line, sequence) for sequence in self.sequences]


class Branch(Transaction):
    """A branch. ``siblings`` are the branches of the connection where ``user`` began it, None when that is gone;
    ``places`` those of all connections that work in it. ``record`` is what the store keeps, once it is prepared. With
    ``on_disk`` the broker was started since, and has the sends only after they were ``loaded``; ``finishing`` says
    that it is reading.
    """

    def __init__(self, xid: XaTransactionId, uncommitted: Uncommitted, user: str) -> None:
        super().__init__(str(xid), uncommitted, False)
        self.xid: Final[XaTransactionId] = xid
        self.user: Final[str] = user
        self.siblings: dict[bytes, Branch] | None = None
        self.places: list[dict[bytes, Branch]] = []
        self.record: BranchRecord | None = None
        self.on_disk = False
        self.loaded = False
        self.finishing = False

    def is_empty(self) -> bool:
        """Whether nothing was done in it."""
        return not self.sends and not self.acks and self.refusal is None


def line_of(number: int) -> Destination:
    """The line of the store with this number."""
    return Destination(TRANSACTION, str(number))


class RecordDraft:
    """What `encode_record` writes, gathered entry by entry: sends in runs to one destination, sequences in runs of a
    first one and a count. Each run is text as soon as the next one begins.
    """

    def __init__(self) -> None:
        self._places: Final[dict[str, int]] = {}
        self._named: Final[list[Destination]] = []
        self._sends: Final[list[str]] = []
        self._target = 0
        self._count = 0  # of sends to it
        self._acks: Final[list[str]] = []

    def send(self, destination: Destination) -> None:
        """One more message goes there."""
        place = self._place_of(destination)
        if place != self._target:
            self._end_sends()
            self._target = place
        self._count += 1

    def _end_sends(self) -> None:
        if self._count > 0:
            self._sends.append(f"[{self._target},{self._count}]")
            self._count = 0

    def acknowledge(self, destination: Destination, sequences: list[int]) -> None:
        """Messages of one destination, by ascending sequence, were acknowledged."""
        place = self._place_of(destination)
        first = 0
        count = 0
        for sequence in sequences:
            if sequence == first + count:
                count += 1
                continue
            if count > 0:
                self._acks.append(f"[{place},{first},{count}]")
            first = sequence
            count = 1
        if count > 0:
            self._acks.append(f"[{place},{first},{count}]")

    def encoded(self, line: int, sender: Principal | None) -> bytes:
        """The JSON. Raises `ResourceAllocationError` when it is too long for the store."""
        self._end_sends()
        named = [[destination.kind, destination.name] for destination in self._named]
        names = json.dumps(named, separators=(",", ":"))
        runs = f'"sends":[{",".join(self._sends)}],"acks":[{",".join(self._acks)}]'
        text = f'{{"line":{line},"destinations":{names},{runs}'
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

    def _place_of(self, destination: Destination) -> int:
        place = self._places.get(destination.qualified_name)
        if place is None:
            place = len(self._named)
            self._places[destination.qualified_name] = place
            self._named.append(destination)
        return place


def encode_record(record: BranchRecord) -> bytes:
    """As the store keeps it. Raises `ResourceAllocationError` when it is too long for the store."""
    draft = RecordDraft()
    for destination in record.sends:
        draft.send(destination)
    for held in record.acks:
        draft.acknowledge(held.destination, held.sequences)
    return draft.encoded(record.line, record.sender)


def decode_record(value: bytes) -> BranchRecord:
    """Raises `StoreError` when ``value`` is not what `encode_record` gave."""
    try:
        found = json.loads(value)
        line: int = found["line"]
        names: list[list[object]] = found["destinations"]
        send_runs: list[list[int]] = found["sends"]
        ack_runs: list[list[int]] = found["acks"]
        destinations = [_destination(entry) for entry in names]
        sends: list[Destination] = []
        for place, count in send_runs:
            sends.extend([destinations[place]] * count)
        acks: dict[int, StoredAcks] = {}
        for place, first, count in ack_runs:
            if place not in acks:
                acks[place] = StoredAcks(destinations[place], [])
            acks[place].sequences.extend(range(first, first + count))
        record = BranchRecord(line, sends, list(acks.values()))
        if "user" in found:
            user: str = found["user"]
            groups: list[str] = found["groups"]
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
    """Those of ``sequences`` that are not ``held``."""
    return array("q", [sequence for sequence in sequences if sequence not in held])
