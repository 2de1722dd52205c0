"""Two brokers and the disk of a bridge, simulated. The bridge or a broker can be killed before or after any step, a
request can come late, and a write can fail with a part or all of the record in the file.

The bridge is the real one: machine, runner, link and log. What outlives a kill: queues and prepared branches of a
broker, and what was written to the disk. What does not: unprepared branches, connections, and the bridge's memory.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spanwire.bridges.engine.machine import BridgeMachine
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.running.runner import BridgeRunner
from spanwire.bridges.xa.branches import BranchNames
from spanwire.bridges.xa.decision_log import DecisionLog
from spanwire.bridges.xa.xa_link import Unfinished, XaLink
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, xa_error
from spanwire.model.ids import XaTransactionId
from tests.support.bridge_dialogue import distributed_definition, text_messages

NOTA: Final = -4
MAX_RUNS: Final = 100
BEFORE, AFTER, LATE, TORN = "before", "after", "late", "torn"
BRIDGE, SOURCE, TARGET = "bridge", "source", "target"
LATER: Final = 4  # steps until a late request arrives


class KilledError(BaseException):
    """The process of the bridge is gone; nobody may catch this but the test."""


@dataclass(frozen=True)
class Fault:
    """At the step of this number: who is killed and when.

    ``LATE``: the link breaks, and the request arrives later. ``TORN``: a write of the log is torn by a kill of the
    bridge; with another victim the write fails, with a part of the record in the file (source) or all of it (target).
    """

    step: int
    victim: str
    moment: str


class SimulatedBroker:
    """What outlives a kill."""

    def __init__(self, messages: list[BridgeMessage]) -> None:
        self.queue = messages
        self.prepared: dict[XaTransactionId, tuple[list[BridgeMessage], list[BridgeMessage]]] = {}  # taken, sent
        self.parties: list[SimulatedParty] = []

    def kill(self) -> None:
        for party in list(self.parties):
            party.end()

    def finish(self, branch: XaTransactionId, is_commit: bool) -> None:
        if branch not in self.prepared:
            raise xa_error("no such branch", NOTA)
        taken, sent = self.prepared.pop(branch)
        if is_commit:
            self.queue += sent
        else:
            self.queue[:0] = taken


class World:
    """Brokers, disk and faults. ``steps`` counts requests and writes."""

    def __init__(self, count: int, faults: list[Fault], size: int = 3) -> None:
        self.brokers: Final = {SOURCE: SimulatedBroker(text_messages(count)), TARGET: SimulatedBroker([])}
        self.count: Final = count
        self.disk: bytes | None = None
        self.forgets = False  # a planted fault: the disk loses what is appended
        self.steps = 0
        self.trace: Final[list[str]] = []
        self.process = 0
        self.heuristics = 0
        self.begins = False  # the source has branches that begin before their receipts
        self._faults: Final = {fault.step: fault for fault in faults}
        self._late: list[tuple[int, Callable[[], None]]] = []
        self._definition: Final = distributed_definition(size, interval_ms=0)

    def step(self, name: str, party: SimulatedParty | None, work: Callable[[], None]) -> None:
        """One request or write, with the fault of its number."""
        self.steps += 1
        self._arrive()
        self.trace.append(name)
        fault = self._faults.get(self.steps)
        if fault is None:
            work()
            return
        if fault.moment == LATE:
            if party is None:
                work()
                return
            self._late.append((self.steps + LATER, lambda: party.arrive(work)))
            party.is_lost = True
            raise JmsError("the link broke")
        if fault.moment == AFTER:
            work()
        if fault.victim == BRIDGE:
            self.kill_bridge()
            raise KilledError
        self.brokers[fault.victim].kill()
        if party is not None and party.is_lost:
            raise JmsError("the broker was killed")
        if fault.moment != AFTER:
            work()

    def kill_bridge(self) -> None:
        self.process += 1
        for broker in self.brokers.values():
            broker.kill()  # only the connections end

    def tear(self) -> str | None:
        """Return the victim of a kill that tears the next write; the bridge lives if it is another."""
        fault = self._faults.get(self.steps + 1)
        return fault.victim if fault is not None and fault.moment == TORN else None

    def _arrive(self, is_end: bool = False) -> None:
        due = [work for at, work in self._late if is_end or at <= self.steps]
        self._late = [(at, work) for at, work in self._late if not (is_end or at <= self.steps)]
        for work in due:
            work()

    async def run(self) -> None:
        """Run the bridge until its source is empty, with a new process after each kill, and once more at the end."""
        for _ in range(MAX_RUNS):
            try:
                await self._run_process()
            except KilledError:
                continue
            break
        else:
            raise AssertionError("the bridge does not end")
        self._faults.clear()
        self._arrive(is_end=True)
        await self._run_process()

    async def _run_process(self) -> None:
        disk = SimulatedDisk(self)
        log = DecisionLog(disk, "log")
        names = BranchNames(log.log_id, self._definition.name, str(self.process))
        unfinished = Unfinished()

        async def open_link() -> XaLink:
            source = BegunParty(self, SOURCE) if self.begins else SimulatedParty(self, SOURCE)
            target = SimulatedParty(self, TARGET)
            return XaLink(self._definition, source, target, log, names, clock, unfinished)

        machine = BridgeMachine(self._definition, ends_when_empty=True)
        try:
            await BridgeRunner(machine, open_link, clock, lambda _: None).run()
        finally:
            self.heuristics += machine.counters.heuristics
        log.close()

    def check(self) -> None:
        """Nothing lost, nothing doubled, nothing in doubt."""
        for side, broker in self.brokers.items():
            assert broker.prepared == {}, f"{side}: {self.trace}"
        arrived = sorted(message.message_id for message in self.brokers[TARGET].queue)
        assert len(set(arrived)) == len(arrived), f"doubled: {arrived}, {self.trace}"
        assert len(arrived) == self.count, f"lost: {self.count - len(arrived)}, {self.trace}"
        assert self.brokers[SOURCE].queue == []
        assert self.heuristics == 0


def clock() -> Time:
    return Time(0.0, 1)


class SimulatedParty:
    """A connection with one session, of one process of the bridge: source and target in one class."""

    def __init__(self, world: World, side: str) -> None:
        self.is_lost = False
        self._world = world
        self._side = side
        self._broker = world.brokers[side]
        self._process = world.process
        self._taken: list[BridgeMessage] = []
        self._sent: list[BridgeMessage] = []
        self._broker.parties.append(self)

    def end(self) -> None:
        """The broker ends the connection: unprepared work is rolled back."""
        self.is_lost = True
        if self in self._broker.parties:
            self._broker.parties.remove(self)
            self._broker.queue[:0] = self._taken
            self._taken, self._sent = [], []

    def arrive(self, work: Callable[[], None]) -> None:
        """A late request arrives, unless the connection has ended; then the broker notices the loss."""
        if self in self._broker.parties:
            with contextlib.suppress(JmsError):
                work()
            self.end()

    def _step(self, name: str, work: Callable[[], None]) -> None:
        if self._process != self._world.process:
            raise KilledError
        if self.is_lost:
            raise JmsError("the connection is lost")
        self._world.step(f"{name} {self._side}", self, work)

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        before = len(self._taken)

        def work() -> None:
            self._taken += self._broker.queue[:max_messages]
            del self._broker.queue[:max_messages]

        self._step("receive", work)
        return self._taken[before:]

    async def send(self, branch: XaTransactionId, messages: list[BridgeMessage]) -> None:
        self._step("send", lambda: self._sent.extend(messages))

    async def prepare(self, branch: XaTransactionId) -> bool:
        def work() -> None:
            self._broker.prepared[branch] = (self._taken, self._sent)
            self._taken, self._sent = [], []

        self._step("prepare", work)
        return True

    async def commit(self, branch: XaTransactionId) -> None:
        self._step("commit", lambda: self._broker.finish(branch, True))

    async def roll_back(self, branch: XaTransactionId) -> None:
        self._step("roll back", lambda: self._broker.finish(branch, False))

    async def forget(self, branch: XaTransactionId) -> None:
        raise AssertionError("no broker here has heuristic outcomes")

    async def prepared_branches(self) -> list[XaTransactionId]:
        self._step("recover", lambda: None)
        return list(self._broker.prepared)

    async def dead_letter(self, cause: str) -> None:
        raise AssertionError("no message is refused")

    def check(self) -> None:
        if self.is_lost:
            raise JmsError("the connection is lost")

    async def close(self) -> None:
        if not self.is_lost:
            self.end()


class BegunParty(SimulatedParty):
    """A source whose receipts belong to the branch that has begun before them."""

    def __init__(self, world: World, side: str) -> None:
        super().__init__(world, side)
        self._branch: XaTransactionId | None = None

    def begin(self, branch: XaTransactionId) -> None:
        """Begin a branch, once for each."""
        assert self._branch is None, "the branch before has no end"
        self._branch = branch

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        assert self._branch is not None, "no branch has begun"
        return await super().receive(max_messages, max_bytes, wait_s)

    async def prepare(self, branch: XaTransactionId) -> bool:
        assert branch == self._branch, "another branch has begun"
        self._branch = None
        return await super().prepare(branch)


class SimulatedDisk:
    """The disk of the bridge; each write is a step, and a kill may tear it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._process = world.process

    def open(self) -> bytes | None:
        return self._world.disk

    def append(self, octets: bytes) -> None:
        if self._process != self._world.process:
            raise KilledError
        victim = self._world.tear()
        if victim is not None:
            self._write(octets if victim == TARGET else octets[: len(octets) // 2])
        if victim in (SOURCE, TARGET):
            self._world.steps += 1
            self._world.trace.append("append fails")
            raise OSError(errno.ENOSPC, "No space left on device")
        self._world.step("append", None, lambda: self._write(octets))

    def _write(self, octets: bytes) -> None:
        if not self._world.forgets:
            self._world.disk = (self._world.disk or b"") + octets

    def replace(self, octets: bytes) -> None:
        self._world.step("replace", None, lambda: setattr(self._world, "disk", octets))

    def close(self) -> None:
        pass
