"""A broker that moves messages crashes before every call to the disk, with every fate of what was not synced: the next
one goes on, and each message is in one of the two queues, once.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final, cast

import pytest

from spanwire.broker.broker import Broker
from spanwire.broker.moves.move_order import COPY, MOVE, NO_LIMIT, MoveOrder
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.message import Message
from spanwire.stores.driver.reader import read_all
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.fetching.fetch import Fetch
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.recovery.recovery import recover
from tests.simulation.crash_points import WatchedDisk, outcomes
from tests.simulation.disk import SimulatedDisk
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.dialogue.text_format import text_formats, text_of
from tests.support.late_store import LateStore
from tests.support.seeds import SHORT

SOURCE, TARGET = "queue://SOURCE", "queue://TARGET"
COUNT: Final = 8
RATE: Final = 30  # three messages in a slice
STORE_ID: Final = b"a store for test"
SEGMENT_BYTES: Final = 64 * 1024
EACH: Final = 4 if SHORT else 12  # fates that are tried at each moment


class DiskStore:
    """A journal on a simulated disk in the form of `LateStore`."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.opened = open_journal(disk, STORE_ID, SEGMENT_BYTES)
        self.journal = self.opened.journal
        self._fetches: list[Fetch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.journal, name)

    def sync(self, broker: Broker, now: Time) -> None:
        while (batch := self.journal.next_batch()) is not None:
            write_batch(self.disk, batch, True)
            broker.stored(self.journal.on_completed(batch), now)
        position = self.journal.take_answer()
        if position >= 0:
            broker.stored(position, now)

    @property
    def reads(self) -> list[Fetch]:
        self._fetches += self.journal.take_fetches()
        return self._fetches

    def answer(self, broker: Broker, now: Time) -> None:
        fetch = self.reads.pop(0)
        broker.on_fetched(fetch.request, self._read(fetch), now)

    def _read(self, fetch: Fetch) -> list[Message | None]:
        messages: list[Message | None] = fetch.messages
        for read, stored in zip(fetch.reads, read_all(self.disk, fetch.reads), strict=True):
            if fetch.still_there(read):
                assert stored is not None and not stored.damage
                messages[read.index] = text_formats().format(stored.format_id).index(stored.raw)
        self.journal.answered(fetch)
        return messages

    def kept(self, queue: Destination) -> list[str]:
        """The texts of the messages of a queue on the disk."""
        found = {entry.destination.qualified_name: entry for entry in recover(self.disk.copy()).destinations()}
        entry = found.get(queue.qualified_name)
        if entry is None or len(entry.sequences) == 0:
            return []
        self.journal.fetch(0, queue, list(entry.sequences))
        messages = self._read(self.reads.pop())
        return sorted("?" if message is None else text_of(message) for message in messages)


def stage_on(store: DiskStore) -> Stage:
    stage = Stage(store=cast(LateStore, store))
    opened = store.opened
    stage.broker.recover(opened.recovery.destinations(), False, stage.now, opened.recovery.metadata())
    return stage


def goes_on(stage: Stage) -> None:
    for _ in range(COUNT):
        stage.settle()
        stage.waits(0.1)
    stage.settle()


class Crashes:
    """Tries the crashes of every moment of a run."""

    def __init__(self, verb: str, is_undo: bool) -> None:
        self.tried = 0
        self.resumed = 0
        self._random = Random(1)
        self._verb = verb
        self._is_undo = is_undo
        self.disk = WatchedDisk()

    def look(self) -> None:
        risks = self.disk.risks()
        for missing in outcomes(len(risks), self._random, EACH):
            self.tried += 1
            self._lives(risks.without(missing))

    def _lives(self, disk: SimulatedDisk) -> None:
        store = DiskStore(disk)
        stage = stage_on(store)
        moves = stage.broker.moves.all()
        self.resumed += any(move.is_running and move.processed for move in moves)
        goes_on(stage)
        source, target = store.kept(destination(SOURCE)), store.kept(destination(TARGET))
        everything = [f"{number}" for number in range(COUNT)]
        is_there = len(moves) == (1 if not self._is_undo else 2)
        is_moved = is_there != self._is_undo
        assert target == (everything if is_moved else [])
        assert source == ([] if is_moved and self._verb == MOVE else everything)


@pytest.mark.parametrize("verb", [MOVE, COPY])
@pytest.mark.parametrize("is_undo", [False, True])
def test_no_crash_at_any_call_to_the_disk_loses_or_doubles_a_message_of_a_move(verb: str, is_undo: bool) -> None:
    crashes = Crashes(verb, is_undo)
    store = DiskStore(crashes.disk)
    stage = stage_on(store)
    stage.peer("p").sends(SOURCE, *(f"{number}" for number in range(COUNT)))
    stage.settle()
    order = MoveOrder(verb, [destination(SOURCE)], destination(TARGET), None, NO_LIMIT, RATE)
    if is_undo:
        stage.broker.moves.start(order, stage.now)
        goes_on(stage)
    crashes.disk.before = crashes.look
    if is_undo:
        stage.broker.moves.undo("M1", "", stage.now)
    else:
        stage.broker.moves.start(order, stage.now)
    goes_on(stage)
    crashes.disk.before = None
    print(f"{crashes.tried} crashes, {crashes.resumed} in the middle")
    assert crashes.tried > 20
    assert crashes.resumed > 3
