"""Brokers that take one store from each other, in any order of their calls, and what must be true in the end.

Each broker claims the storage, recovers, and works through its calls: messages, removals, transactions. It writes down
what it attempts and what it answers. `World.check` opens the store once more, as the next broker would, and compares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.model.destination import Destination, parse_destination
from spanwire.model.message import Message
from spanwire.stores.driver.fenced_disk import FencedDisk, own_name
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.segments.segment import (
    RESERVE_NAME,
    SPARE_NAME,
    encode_segment_header,
    read_segment_header,
    segment_number,
)
from tests.simulation.shared_storage import Actor, Storage, TakenOverError, View
from tests.support.journal_driver import SMALL_SEGMENT, STORE_ID, state_of
from tests.support.plain_format import body_of, plain_formats, plain_message

QUEUE: Final = parse_destination("queue://Q")
OTHER: Final = parse_destination("queue://R")
BODY: Final = b"." * 900  # four fill a segment
PRIVATE: Final = (SPARE_NAME, RESERVE_NAME)

ADD, REMOVE, UNIT = "add", "remove", "unit"
LONG: Final = (ADD, ADD, UNIT, REMOVE, ADD, REMOVE, ADD, REMOVE, UNIT, REMOVE, REMOVE, ADD)  # rolls, drops and deletes
SHORT: Final = (ADD, UNIT, REMOVE, ADD)

Messages = set[str]


class World:
    """A storage and the brokers on it. The faults to be planted are switches."""

    def __init__(
        self,
        *,
        keeps_open: bool = True,
        checks: bool = True,
        seals: bool = True,
        removes: bool = True,
        takes_over: bool = True,
    ) -> None:
        self.storage: Final = Storage()
        self.brokers: Final[list[TakingBroker]] = []
        self.keeps_open: Final = keeps_open
        self.checks: Final = checks
        self.seals: Final = seals
        self.removes: Final = removes
        self.takes_over: Final = takes_over

    def broker(self, calls: tuple[str, ...] = SHORT) -> TakingBroker:
        """One more broker, before its first step."""
        broker = TakingBroker(self, f"b{len(self.brokers)}", calls)
        self.brokers.append(broker)
        return broker

    def found(self) -> Messages:
        """What the next broker finds, which takes over from all."""
        if not self.seals:
            forget_seals(self.storage)
        last = TakingBroker(self, "last", ())
        last.actor.walk(-1)
        assert last.actor.error is None, last.actor.error
        return last.recovered

    def check(self) -> None:
        """Raise AssertionError unless all answers are true, and each broker had what those before it had answered."""
        for broker in self.brokers:
            broker.actor.walk(-1)
            if broker.actor.error is not None and not isinstance(broker.actor.error, TakenOverError):
                raise AssertionError(f"{broker.name}: {broker.actor.error!r}") from broker.actor.error
        served = [broker for broker in self.brokers if broker.has_recovered]
        served.sort(key=lambda broker: broker.claim)
        for earlier, later in zip(served, [*served[1:], None], strict=True):
            earlier.check(self.found() if later is None else later.recovered)


class TakingBroker:
    """One broker. ``model`` is what it has stored by its own books; the calls that it has not answered may be there."""

    claims = 0

    def __init__(self, world: World, name: str, calls: tuple[str, ...]) -> None:
        self.name: Final = name
        self.recovered: Messages = set()
        self.has_recovered = False
        self.claim = 0
        self.answered: Final[list[str]] = []
        self._world: Final = world
        self._storage: Final = world.storage
        self._calls: Final = calls
        self._model: Messages = set()
        self._open: tuple[Messages, Messages] = (set(), set())  # of the call without an answer: in and out
        self._sequences: dict[str, tuple[Destination, int]] = {}
        self.actor: Final = Actor(self._live)

    def check_owner(self) -> None:
        """The look at the epoch, a step of its own."""
        self.actor.gate()
        self._look()

    def _look(self) -> None:
        if self._storage.owner != self.name and self._world.checks:
            raise TakenOverError(f"{self._storage.owner} has taken over from {self.name}")

    def check(self, found: Messages) -> None:
        """Compare with what the next broker recovered: every answer is true, and a call is there as a whole or not."""
        added, removed = self._open
        without = self._model
        outcomes = (without, (without | added) - removed)
        assert found in outcomes, f"{self.name}: {self.answered}, {sorted(found)} is none of {outcomes}"

    def _live(self, actor: Actor) -> None:
        actor.gate()
        TakingBroker.claims += 1
        self.claim = TakingBroker.claims
        self._storage.owner = self.name
        if self._world.removes:
            self._remove_files_of_others(actor.gate)
        files = View(self._storage, actor.gate, self._world.keeps_open)
        disk = FencedDisk(files, _Fence(self.check_owner), self.name)
        opened = open_journal(disk, STORE_ID, SMALL_SEGMENT, takes_over=self._world.takes_over)
        plain = View(self._storage, lambda: None)
        state = state_of(
            FencedDisk(plain, _Fence(self._look), self.name), opened.recovery.destinations(), opened.journal
        )
        self._take(state)
        self.has_recovered = True
        for number, call in enumerate(self._calls):
            self._do(opened.journal, disk, call, number)
            actor.gate()  # before the answer
            self.answered.append(f"{call} {number}")
            added, removed = self._open
            self._model = (self._model | added) - removed
            self._open = (set(), set())

    def _remove_files_of_others(self, gate: Callable[[], None]) -> None:
        gate()
        names = list(self._storage.names)
        self.check_owner()
        for name in names:
            if any(name.startswith(own_name(plain, "")) for plain in PRIVATE):
                gate()
                self._storage.names.pop(name, None)

    def _take(self, state: object) -> None:
        assert isinstance(state, dict)
        formats = plain_formats()
        count = 0
        for queue, messages in state.items():
            for sequence, (raw, _) in messages.items():
                text = body_of(formats.index(200, raw)).rstrip(b".").decode()
                self._sequences[text] = (parse_destination(queue), sequence)
                count += 1
        assert count == len(self._sequences), f"{self.name} found a message twice"
        self.recovered = set(self._sequences)
        self._model = set(self.recovered)

    def _do(self, journal: Journal, disk: FencedDisk, call: str, number: int) -> None:
        text = f"{self.name}-{number}"
        if call == ADD:
            self._open = ({text}, set())
            self._sequences[text] = (QUEUE, journal.append(QUEUE, message(QUEUE, number, text)))
        elif call == REMOVE:
            oldest = min(self._model, key=lambda known: self._sequences[known][1], default="")
            if not oldest:
                return
            self._open = (set(), {oldest})
            journal.remove(*self._sequences[oldest])
        else:
            oldest = min(self._model, key=lambda known: self._sequences[known][1], default="")
            one, other = text + "x", text + "y"
            self._open = ({one, other}, {oldest} - {""})
            removals = [self._sequences[oldest]] if oldest else []
            additions = [(QUEUE, message(QUEUE, number, one)), (OTHER, message(OTHER, number, other))]
            first, second = journal.append_unit(additions, removals, [])
            self._sequences[one], self._sequences[other] = (QUEUE, first), (OTHER, second)
        batch = journal.next_batch()
        while batch is not None:
            write_batch(disk, batch, True)
            journal.on_completed(batch)
            batch = journal.next_batch()


class _Fence:
    """A `Fence` that a test makes."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check: Final = check

    def check(self) -> None:
        self._check()


def message(queue: Destination, number: int, text: str) -> Message:
    """A message that is known by its text."""
    return plain_message(queue, number, text.encode() + BODY)


def forget_seals(storage: Storage) -> None:
    """Plant a fault: no segment says any more where the one before it ends, and nor does a summary."""
    for name, file in list(storage.names.items()):
        if name.endswith(".summary"):
            del storage.names[name]
        elif segment_number(name) > 0:
            header = read_segment_header(name, bytes(file.data[:64]))
            if header.number > header.previous + 1:
                file.data[:64] = encode_segment_header(header.store_id, header.number, 0, 0, 0)
