"""Two brokers of a bridge in DUPLICATES_OK, simulated; bridge or broker can be killed before or after any request.

The bridge is the real one: machine, runner and link. A target carries a commit out some turns after the bridge has
written the commit, and a source an acknowledgement, so that the next batch is received and sent at any time between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from spanwire.bridges.engine.machine import BridgeMachine
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.running.links import PairLink
from spanwire.bridges.running.runner import BridgeRunner
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from tests.support.bridge_dialogue import definition, text_messages

MAX_RUNS: Final = 100
BRIDGE, SOURCE, TARGET = "bridge", "source", "target"
BEFORE, AFTER = "before", "after"


class KilledError(BaseException):
    """The process of the bridge is gone; nobody may catch this but the test."""


@dataclass(frozen=True)
class Fault:
    """A kill at the request of this number, before or after the broker has carried the request out."""

    step: int
    victim: str
    moment: str


class PairWorld:
    """Queues, faults, and the turns that each answer takes."""

    def __init__(self, count: int, size: int, faults: list[Fault], turns: list[int]) -> None:
        self.queue = text_messages(count)
        self.unacknowledged: list[BridgeMessage] = []
        self.arrived: list[str] = []
        self.count: Final = count
        self.size: Final = size
        self.forwarded = 0
        self.steps = 0
        self.kills = 0
        self.process = 0
        self.most_under_way = 0
        self.acknowledges_first = False  # a planted fault: the source drops messages when they are handed over
        self._links: Final[list[PairEnds]] = []
        self._faults: Final = {fault.step: fault for fault in faults}
        self._turns: Final = cycle(turns or [0])

    async def pause(self) -> None:
        for _ in range(next(self._turns)):
            await asyncio.sleep(0)

    def step(self, ends: PairEnds, work: Callable[[], None]) -> None:
        """Carry a request out, with the fault of its number."""
        if ends.process != self.process:
            raise KilledError
        if ends.is_lost:
            raise JmsError("the connection is lost")
        self.steps += 1
        fault = self._faults.get(self.steps)
        if fault is None or fault.moment == AFTER:
            work()
        if fault is None:
            return
        self.kills += 1
        self.process += fault.victim == BRIDGE
        for link in list(self._links):
            link.end()
        if fault.victim == BRIDGE:
            raise KilledError
        raise JmsError("the broker was killed")

    async def run(self) -> None:
        """Run the bridge until its source is empty, with a new process after each kill of it."""
        for _ in range(MAX_RUNS):
            try:
                await self._run_process()
            except KilledError:
                continue
            return
        raise AssertionError("the bridge does not end")

    async def _run_process(self) -> None:
        async def open_link() -> PairLink:
            ends = PairEnds(self)
            self._links.append(ends)
            return PairLink(ends, ends, is_eager=True)

        machine = BridgeMachine(definition(size=self.size, interval_ms=0), ends_when_empty=True)
        try:
            await BridgeRunner(machine, open_link, lambda: Time(0.0, 1), lambda _: None).run()
        finally:
            self.forwarded += machine.counters.forwarded

    def forget(self, ends: PairEnds) -> None:
        """Take the messages back that a lost connection has not acknowledged."""
        self._links.remove(ends)
        self.queue = self.unacknowledged + self.queue
        self.unacknowledged = []

    def check(self) -> None:
        """Nothing is lost, the first copies are in order, and a kill doubles a batch at most."""
        first = list(dict.fromkeys(self.arrived))
        assert first == [f"ID:{number}" for number in range(self.count)], f"lost or out of order: {self.arrived}"
        assert len(self.arrived) - self.count <= self.size * self.kills, f"doubled: {self.arrived}"
        assert self.queue == [] and self.unacknowledged == []
        assert self.forwarded <= len(self.arrived), "a batch is counted that the target does not have"


class PairEnds:
    """The connections of one link: an eager source and an eager target in one class."""

    def __init__(self, world: PairWorld) -> None:
        self.process: Final = world.process
        self.is_lost = False
        self._world: Final = world
        self._taken: list[BridgeMessage] = []  # since the last acknowledgement was made
        self._stored: list[BridgeMessage] = []  # at the target, without an acknowledgement

    def end(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._world.forget(self)

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        world = self._world
        taken: list[BridgeMessage] = []

        def work() -> None:
            taken.extend(world.queue[:max_messages])
            del world.queue[:max_messages]
            world.unacknowledged += taken
            self._taken += taken

        await world.pause()
        world.step(self, work)
        batches = -(-len(world.unacknowledged) // world.size)
        world.most_under_way = max(world.most_under_way, batches)
        return taken

    def acknowledge_soon(self) -> Callable[[], Awaitable[None]]:
        raise AssertionError("batches are handed over")

    def acknowledge_later(self) -> Callable[[], Awaitable[None]]:
        world, taken = self._world, self._taken
        self._taken = []

        def work() -> None:
            world.unacknowledged = [message for message in world.unacknowledged if message not in taken]
            self._stored = [message for message in self._stored if message not in taken]

        async def acknowledge() -> None:
            await world.pause()
            world.step(self, work)
            await world.pause()

        if world.acknowledges_first:
            work()
        return acknowledge

    async def send_soon(
        self, messages: list[BridgeMessage], condition: Callable[[], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        world = self._world

        def work() -> None:
            assert self._stored == [], "a batch is stored before the acknowledgement of the batch before"
            self._stored = list(messages)
            world.arrived += [message.message_id for message in messages]

        async def stored() -> None:
            await world.pause()
            world.step(self, work)
            await world.pause()

        await world.pause()
        world.step(self, lambda: None)
        await condition()
        return stored

    async def acknowledge(self) -> None:
        raise AssertionError("batches are handed over")

    async def send(self, messages: list[BridgeMessage]) -> None:
        raise AssertionError("batches are handed over")

    async def dead_letter(self, cause: str) -> None:
        raise AssertionError("no message is refused")

    async def send_reply(self, message: BridgeMessage, destination: Destination) -> None:
        raise AssertionError("there is no reply")

    async def open_reply_queue(self, on_reply: Callable[[BridgeMessage], Awaitable[None]]) -> Destination:
        raise AssertionError("there is no reply")

    async def close_reply_queue(self, queue: Destination) -> None:
        raise AssertionError("there is no reply")

    def check(self) -> None:
        if self.process == self._world.process and self.is_lost:
            raise JmsError("the connection is lost")

    async def close(self) -> None:
        if self.process == self._world.process:
            self.end()
