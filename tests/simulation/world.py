"""A broker in a small world: its journal, a disk that can lose power, clients, a clock, all driven by one seed.

One `World` lives through several runs of its broker. Each step of the schedule is one of: a client does something, the
journal writes a batch (in which the power may go, the disk may fail, or take a write in parts), a read is answered, a
timer runs, the wall clock jumps by a day, the broker stops in order. What happened goes into a ledger; who reads it
knows nothing of the broker. Nothing here reads a clock or rolls other dice.
"""

from __future__ import annotations

import errno
import re
from collections import deque
from random import Random

from spanwire.broker.admin.ledger_views import SINCE_START, STORED
from spanwire.broker.assembly import BrokerSettings
from spanwire.broker.broker import Broker
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.ports import Store
from spanwire.model.destination import parse_destination
from spanwire.model.environment import Time
from spanwire.model.message import Message
from spanwire.stores.driver.reader import read_all, read_block
from spanwire.stores.journal.batch import Batch, write_batch
from spanwire.stores.journal.fetching.fetch import Fetch
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.recovery.recovery import Recovery, recover
from tests.simulation.clients import SimulatedClient
from tests.simulation.disk import PowerCutError, SimulatedDisk
from tests.support.dialogue.text_format import text_formats
from tests.support.total_queue import Ledger

STORE_ID = b"simulated-store!"
SEGMENT_BYTES = 16 * 1024  # small: segments fill up, are dropped and carry check-points within one seed
ORDERED = "queue://ORDERED"  # at most one consumer at a time
SHARED = "queue://SHARED"  # any number, with selectors
SLOW = "queue://SLOW"  # dispatches only what is synced
QUEUES = (ORDERED, SHARED, SLOW)
DEAD = "queue://ActiveMQ.DLQ"
LAST_STEPS = 8  # of a broker whose disk has failed, before it is gone
DAY_S = 86_400.0
SHORT_WRITES = 0.05  # share of the writes to the disk that are taken in parts
TOKEN = re.compile(rb"<(?:one|two)-(?:plain|tx)-\d+>")


class SimulatedEnvironment:
    """Duck-typed to `spanwire.model.environment.Environment`."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.time = Time(1.0, 1_700_000_000_000)

    @property
    def host_name(self) -> str:
        return "world"

    def now(self) -> Time:
        return self.time

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def advance(self, seconds: float) -> None:
        self.time = Time(self.time.monotonic + seconds, self.time.wall_ms + int(seconds * 1000))

    def leap(self, seconds: float) -> None:
        """The wall clock is set; no time passes."""
        self.time = Time(self.time.monotonic, self.time.wall_ms + int(seconds * 1000))


class UnbalancedError(AssertionError):
    """The broker's own ledger does not add up."""


class World:
    """Everything, and the scheduler."""

    audits = True  # the broker's ledger is asked as well

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.ledger = Ledger()
        self.environment = SimulatedEnvironment(self.random)
        self.formats = text_formats()
        self.disk = SimulatedDisk()
        self.calm = False
        self.power_cuts = 0
        self.disk_errors = 0
        self.short_writes = 0
        self.clock_leaps = 0
        self.stops = 0
        self.single_owner: SimulatedClient | None = None  # who may consume from `ORDERED` now
        self.journal: Journal
        self.broker: Broker
        self._batch: Batch | None = None
        self._fetches: deque[Fetch] = deque()
        self._steps = 0
        self._steps_left = 0  # of a broker whose disk has failed
        self._start()
        self.clients = [SimulatedClient(self, name) for name in ("one", "two")]

    @property
    def now(self) -> Time:
        return self.environment.time

    def chance(self, share: float) -> bool:
        """True in ``share`` of all cases."""
        return self.random.random() < share

    def taken_of(self, size: int) -> int:
        """How many bytes of a write the system takes: now and then not all."""
        if not self.chance(SHORT_WRITES):
            return size
        self.short_writes += 1
        return self.random.randrange(1, size + 1)

    # One step of the schedule

    def step(self) -> None:
        """Something happens."""
        self.environment.advance(self.random.choice((0.0, 0.001, 0.01)))
        kind = self.random.random()
        if self._steps_left == 1:
            kind = 1.0
        elif self._steps_left:
            self._steps_left -= 1
        try:
            if kind < 0.70:
                self.random.choice(self.clients).act()
            elif kind < 0.90:
                self._store_turn()
            elif kind < 0.96:
                self._answer_read()
            elif kind < 0.985:
                self.broker.run(self.now)
            elif kind < 0.987:
                self.clock_leaps += 1
                self.environment.leap(self.random.choice((-DAY_S, DAY_S, -0.5, 0.5)))
            elif kind < 0.992 and not self._steps_left:
                self._stop_in_order()
            else:
                self._cut_power()
        except PowerCutError:
            self._come_back()
        except OSError:
            self._fail()
        self._drain_dirty()
        if self.chance_of_audit():
            self.audit()

    def chance_of_audit(self) -> bool:
        """True at every eighth step; no dice are rolled for it."""
        self._steps += 1
        return self.audits and self._steps % 8 == 0

    def audit(self) -> None:
        """The broker's own ledger is a second witness: each of its equations holds at any moment."""
        for view in self.broker.overview.ledger_views():
            if view.difference != 0:
                raise UnbalancedError(f"the ledger does not add up: {view}")

    def audit_at_rest(self) -> None:
        """What is pending in the store is pending in the broker, and no more is gone than came."""
        self.audit()
        rows = {(view.destination, view.scope): view for view in self.broker.overview.ledger_views()}
        for (name, scope), view in rows.items():
            recent = rows.get((name, SINCE_START))
            if scope == STORED and recent is not None and view.pending > recent.pending:
                raise UnbalancedError(f"{name}: {view.pending} in the store, {recent.pending} pending")

    def rest(self) -> None:
        """No more faults: everything under way comes to its end."""
        self.calm = True
        if self._steps_left:
            self._come_back()
        for _ in range(10_000):
            self._store_turn()
            self._answer_read()
            self.broker.run(self.now)
            self._drain_dirty()
            readers = [client for client in self.clients if client.read_all()]
            if not readers and self._is_idle():
                if self.audits:
                    self.audit_at_rest()
                return
        raise AssertionError("the broker does not come to rest")

    def _is_idle(self) -> bool:
        journal = self.journal
        return self._batch is None and not journal.has_work and not self._fetches and self.broker.next_timeout() != 0.0

    # The store's shell

    def _store_turn(self) -> None:
        """What the store's shell does at the end of a turn; a batch takes a random number of turns."""
        journal = self.journal
        for fetch in journal.take_fetches():
            self._fetches.append(fetch)
        scan = journal.take_scan()
        if scan is not None:
            journal.scanned(scan, read_block(self.disk, scan))
        position = journal.take_answer()
        if position >= 0:
            self.broker.stored(position, self.now)
        if self._batch is None:
            self._batch = journal.next_batch()
        elif self.chance(0.7):
            batch = self._batch
            if not self.calm and self.chance(0.05):
                self.disk.cut_at = self.disk.steps + self.random.randrange(6)
            elif not self.calm and self.chance(0.03):
                self.disk.fail_at = {self.disk.steps + self.random.randrange(3): errno.EIO}
            write_batch(self.disk, batch, True)
            self.disk.cut_at = -1
            self.disk.fail_at = {}
            self._batch = None
            self._watch(batch)
            self.broker.stored(journal.on_completed(batch), self.now)

    def _watch(self, batch: Batch) -> None:
        """An observer of the disk tells which messages are safe now."""
        for text in TOKEN.findall(b"".join(batch.parts)):
            self.ledger.synced(text.decode())

    def _answer_read(self) -> None:
        if not self._fetches:
            return
        place = self.random.randrange(len(self._fetches))
        self._fetches.rotate(-place)
        fetch = self._fetches.popleft()
        found = read_all(self.disk, fetch.reads)
        messages: list[Message | None] = fetch.messages
        for read, stored in zip(fetch.reads, found, strict=True):
            if fetch.still_there(read):
                assert stored is not None, "a segment with a live message is gone"
                assert not stored.damage
                messages[read.index] = self.formats.index(stored.format_id, stored.raw)
        self.journal.answered(fetch)
        self.broker.on_fetched(fetch.request, messages, self.now)

    # Ends and beginnings

    def _start(self) -> None:
        for _ in range(20):
            try:
                self._open()
                return
            except PowerCutError:
                self.disk = self.disk.power_cut(self.random)
        raise AssertionError("the store cannot be opened")

    def _open(self) -> None:
        if self.chance(0.2):
            self.disk.cut_at = self.disk.steps + self.random.randrange(12)
        self.disk.takes = self.taken_of
        assert state_of(self.disk) == state_of(self.disk.copy()), "recovery is not idempotent"
        opened = open_journal(self.disk, STORE_ID, SEGMENT_BYTES)
        self.disk.cut_at = -1
        self.journal = opened.journal
        self._batch = None
        self._fetches.clear()
        policies = PolicyMap([PolicyEntry(parse_destination(SLOW), dispatch_before_sync=False)])
        store = self.store_of(opened.journal)
        self.broker = Broker(
            "world", "ID:world", self.environment, store, self.formats, BrokerSettings(policies=policies)
        )
        self.broker.recover(
            opened.recovery.destinations(), self.was_clean(opened.recovery), self.now, opened.recovery.metadata()
        )

    def has_room(self) -> bool:
        """Whether the disk has room for messages."""
        return self.journal.has_room()

    # What worlds with a planted fault change

    def store_of(self, journal: Journal) -> Store:
        """What the broker calls."""
        return journal

    def was_clean(self, recovery: Recovery) -> bool:
        """Whether the broker is told that the last stop was in order."""
        return recovery.clean

    def _fail(self) -> None:
        """The disk failed: the broker lives a little longer, but its journal writes and answers nothing any more."""
        self.disk_errors += 1
        self.disk.fail_at = {}
        self._batch = None
        self.journal.fail()
        self._steps_left = LAST_STEPS

    def _cut_power(self) -> None:
        raise PowerCutError

    def _come_back(self) -> None:
        self.power_cuts += self._steps_left == 0
        self._steps_left = 0
        self.disk = self.disk.power_cut(self.random)
        self.single_owner = None
        self._start()
        for client in self.clients:
            client.broker_is_gone()

    def _stop_in_order(self) -> None:
        self.stops += 1
        self.broker.stop(self.now)
        for client in self.clients:
            client.broker_is_gone()
        self.single_owner = None
        if self._batch is not None:
            self._write(self._batch)
        self._write_all()
        self.journal.note_clean_stop()
        self._write_all()
        self._start()

    def _write_all(self) -> None:
        while (batch := self.journal.next_batch()) is not None:
            self._write(batch)

    def _write(self, batch: Batch) -> None:
        write_batch(self.disk, batch, True)
        self._watch(batch)
        self.journal.on_completed(batch)

    def _drain_dirty(self) -> None:
        self.broker.take_dirty()


def state_of(disk: SimulatedDisk) -> list[tuple[str, list[int], dict[int, int]]]:
    """What recovery finds on a disk."""
    found = recover(disk.copy()).destinations()
    return sorted((str(entry.destination), list(entry.sequences), entry.redeliveries) for entry in found)
