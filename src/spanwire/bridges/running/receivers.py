"""Runs one bridge or route with several receivers at a time, as Camel's ``concurrentConsumers`` asks for.

Each receiver has links and a state machine of its own, so each batch keeps the quality of service of the bridge.
Messages of one receiver stay in order. Between the least and the most number a receiver is added while all of them get
messages, and the last one ends when it gets none for a while. If one fails for good, all end, so that the bridge has
one state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from spanwire.bridges.engine.counters import BridgeStatus
from spanwire.bridges.engine.states import BridgeState
from spanwire.bridges.model.definition import Source
from spanwire.bridges.model.route_definition import Definition
from spanwire.bridges.running.announcing import Announced
from spanwire.bridges.running.runner import BridgeRunner

LOOK_S: Final = 1.0  # seconds between two looks, each of which adds one receiver at most
IDLE_LOOKS: Final = 30  # looks without a message after which the last receiver beyond the least number ends
# The state of all is the first of these that one of them has.
BY_WEIGHT: Final = (
    BridgeState.FAILED,
    BridgeState.RETRYING,
    BridgeState.STARTING,
    BridgeState.RUNNING,
    BridgeState.PAUSED,
    BridgeState.STOPPED,
)
SUMS: Final = (
    "received",
    "forwarded",
    "batches",
    "failures",
    "dead_letters",
    "redelivered",
    "perhaps_lost",
    "heuristics",
    "aborted",
)

OnChange = Callable[[Announced], None]
MakeRunner = Callable[[Definition, OnChange], BridgeRunner]


class AnyRunner(Protocol):
    """A bridge at work, with one receiver or several."""

    @property
    def name(self) -> str:
        """Return the name of the bridge."""
        ...

    def status(self) -> BridgeStatus:
        """Return state and counters."""
        ...

    async def run(self) -> None:
        """Start the bridge, and return after a stop or the final failure."""
        ...

    def start(self) -> None:
        """Resume a paused bridge."""
        ...

    def pause(self) -> None:
        """Complete the batches and close the connections until `start`."""
        ...

    def stop(self) -> None:
        """Complete the batches and end `run`."""
        ...


def runner_of(definition: Definition, make: MakeRunner, on_change: OnChange) -> AnyRunner:
    """Return the runner of a bridge. ``make`` makes the runner of one receiver."""
    if definition.consumers.most == 1:
        return make(definition, on_change)
    return ConcurrentRunner(definition, make, on_change)


def definition_of_receiver(definition: Definition, number: int) -> Definition:
    """Return the definition for a receiver: a client id belongs to one connection, so further ones have a suffix."""
    source = definition.source
    if number == 1 or not isinstance(source, Source) or source.client_id is None:
        return definition
    return replace(definition, source=replace(source, client_id=f"{source.client_id}-{number}"))


class Scaling:
    """Decides the number of receivers by the messages that each has received at each look."""

    def __init__(self, least: int, most: int) -> None:
        self._least: Final = least
        self._most: Final = most
        self._received: list[int] = []
        self._idle_looks = 0  # of the last receiver

    def look(self, received: list[int]) -> int:
        """Return the number of receivers from now on, one more or one less at most."""
        count, before = len(received), self._received
        gained = [now > then for now, then in zip(received, before, strict=False)]
        is_same = len(before) == count
        self._received = list(received)
        self._idle_looks = self._idle_looks + 1 if is_same and not gained[-1] else 0
        if is_same and all(gained) and count < self._most:
            return count + 1
        if count > self._least and self._idle_looks >= IDLE_LOOKS:
            self._idle_looks = 0
            return count - 1
        return count


class ConcurrentRunner:
    """The receivers of one bridge."""

    def __init__(self, definition: Definition, make: MakeRunner, on_change: OnChange, look_s: float = LOOK_S) -> None:
        """``on_change`` is called after each change of the state of the bridge."""
        self.name: Final[str] = definition.name
        self._definition: Final = definition
        self._make: Final = make
        self._on_change: Final = on_change
        self._look_s: Final[float] = look_s
        self._scaling: Final = Scaling(definition.consumers.least, definition.consumers.most)
        self._receivers: Final[list[BridgeRunner]] = []
        self._tasks: Final[dict[asyncio.Task[None], BridgeRunner]] = {}
        self._has_ended: Final = asyncio.Event()  # a task, also one that came later than `run`
        self._ended: Final = dict.fromkeys(SUMS, 0)  # counts of receivers that are gone
        self._reported = BridgeState.STOPPED
        self._is_still = False  # no receiver is added: the bridge is paused or ends
        for _ in range(definition.consumers.least):
            self._add()

    @property
    def state(self) -> BridgeState:
        """Return the state of the bridge."""
        states = [one.machine.state for one in self._receivers]
        return next((state for state in BY_WEIGHT if state in states), BridgeState.STOPPED)

    @property
    def last_error(self) -> str | None:
        """Return the last error of a receiver in the state of the bridge, or of any one."""
        state = self.state
        machines = sorted((one.machine for one in self._receivers), key=lambda one: one.state is not state)
        return next((machine.last_error for machine in machines if machine.last_error is not None), None)

    @property
    def is_broken(self) -> bool:
        """Return True after a defect."""
        return any(one.machine.is_broken for one in self._receivers)

    @property
    def is_hopeless(self) -> bool:
        """Return True after a failure that another attempt would repeat."""
        return any(one.machine.is_hopeless for one in self._receivers)

    def status(self) -> BridgeStatus:
        """Return the state, and the sums of the counters."""
        statuses = [one.status() for one in self._receivers]
        state = self.state
        sums = {name: self._ended[name] + sum(getattr(one, name) for one in statuses) for name in SUMS}
        since_ms = max((one.since_ms for one in statuses if one.state is state), default=0)
        lag_ms = max((one.lag_ms for one in statuses), default=0)
        return BridgeStatus(self.name, state, since_ms, lag_ms=lag_ms, last_error=self.last_error, **sums)

    async def run(self) -> None:
        """Start all receivers, and return when all have ended."""
        self._is_still = False
        for receiver in self._receivers:
            self._launch(receiver)
        looks = asyncio.create_task(self._look_regularly(), name=f"{self.name} receivers")
        try:
            while self._tasks:
                await self._has_ended.wait()
                self._has_ended.clear()
                for task in [task for task in self._tasks if task.done()]:
                    self._end(self._tasks.pop(task), task)
        finally:
            looks.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(looks, *self._tasks, return_exceptions=True)
            self._tasks.clear()

    def start(self) -> None:
        """Resume a paused bridge."""
        self._is_still = False
        for receiver in self._receivers:
            receiver.start()

    def pause(self) -> None:
        """Complete the batches and close the connections until `start`."""
        self._is_still = True
        for receiver in self._receivers:
            receiver.pause()

    def stop(self) -> None:
        """Complete the batches and end `run`."""
        self._is_still = True
        for receiver in self._receivers:
            if receiver.machine.state is not BridgeState.FAILED:  # a failed one stays failed
                receiver.stop()

    def look(self) -> None:
        """Add a receiver to busy ones, or let the last one end after a while without a message."""
        at_work = [one for one in self._tasks.values() if one.machine.state is BridgeState.RUNNING]
        if self._is_still or len(at_work) < len(self._receivers):
            return
        count = self._scaling.look([one.machine.counters.received for one in self._receivers])
        if count > len(self._receivers):
            self._launch(self._add())
        elif count < len(self._receivers):
            self._receivers[-1].stop()  # leaves the list when its batch is complete

    async def _look_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._look_s)
            self.look()

    def _add(self) -> BridgeRunner:
        number = len(self._receivers) + 1
        receiver = self._make(definition_of_receiver(self._definition, number), self._on_receiver_change)
        self._receivers.append(receiver)
        return receiver

    def _launch(self, receiver: BridgeRunner) -> None:
        task = asyncio.create_task(receiver.run(), name=self.name)
        task.add_done_callback(lambda _: self._has_ended.set())
        self._tasks[task] = receiver

    def _end(self, receiver: BridgeRunner, task: asyncio.Task[None]) -> None:
        """Forget a receiver beyond the least number. Raises the exception of its task."""
        task.result()
        if len(self._receivers) > self._definition.consumers.least and receiver is self._receivers[-1]:
            self._receivers.pop()
            status = receiver.status()
            for name in SUMS:
                self._ended[name] += getattr(status, name)

    def _on_receiver_change(self, receiver: Announced) -> None:
        if receiver.state is BridgeState.FAILED and not self._is_still:
            self.stop()
        state = self.state
        if state is not self._reported:
            self._reported = state
            self._on_change(self)
