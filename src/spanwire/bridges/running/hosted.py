"""Bridges of a broker in a separate process.

While the process runs, bridges are paused, resumed, restarted and replaced by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Final

from spanwire.bridges.engine.counters import BridgeStatus
from spanwire.bridges.engine.machine import BridgeMachine
from spanwire.bridges.engine.states import BridgeState
from spanwire.bridges.model.route_definition import Definition
from spanwire.bridges.running.announcing import Announcer
from spanwire.bridges.running.following import FollowedMessages, MessageSteps
from spanwire.bridges.running.links import Link
from spanwire.bridges.running.process import STOP_GRACE_S, link_opener
from spanwire.bridges.running.receivers import AnyRunner, OnChange, runner_of
from spanwire.bridges.running.runner import BridgeRunner
from spanwire.bridges.running.tracing import BridgeTraces
from spanwire.client.io.environment import Machine

Opener = Callable[[Definition], Callable[[], Awaitable[Link]]]


class HostedBridge:
    """One bridge that an operator pauses, resumes and restarts; a failed bridge waits for the operator."""

    def __init__(self, runner: AnyRunner, is_paused: bool) -> None:
        self._runner: Final[AnyRunner] = runner
        self._is_paused = is_paused
        self._is_running = False
        self._is_restarting = False
        self._wanted: Final = asyncio.Event()
        self._is_ending = False
        if not is_paused:
            self._wanted.set()

    async def run(self) -> None:
        """Run the bridge, again and again, until `stop`."""
        while not self._is_ending:
            await self._wanted.wait()
            if self._is_ending:
                return
            self._is_running = True
            try:
                await self._runner.run()
            finally:
                self._is_running = False
            if self._is_restarting:
                self._is_restarting = False
            else:
                self._wanted.clear()

    def pause(self) -> None:
        """Complete the batch and close the connections until `resume` or `restart`."""
        self._is_paused = True
        self._is_restarting = False
        if self._is_running:
            self._runner.pause()
        else:
            self._wanted.clear()

    def resume(self) -> None:
        """Start a paused bridge; leave another bridge as is."""
        if self._is_paused:
            self._is_paused = False
            self._start()

    def restart(self) -> None:
        """Close the connections after the batch and start anew; start a paused or failed bridge."""
        self._is_paused = False
        if self._is_running and self._runner.status().state is not BridgeState.PAUSED:
            self._is_restarting = True
            self._runner.stop()
        else:
            self._start()

    def stop(self) -> None:
        """Complete the batch and end `run`."""
        self._is_ending = True
        self._is_restarting = False
        self._wanted.set()
        if self._is_running:
            self._runner.stop()

    def status(self) -> BridgeStatus:
        """Return state and counters."""
        status = self._runner.status()
        if self._is_paused and status.state is BridgeState.STOPPED:
            return replace(status, state=BridgeState.PAUSED)
        return status

    def _start(self) -> None:
        if self._is_running:
            self._runner.start()
        else:
            self._wanted.set()


class HostedBridges:
    """All bridges of a broker."""

    def __init__(
        self,
        definitions: Iterable[Definition],
        tell: Callable[[str], None],
        paused: Iterable[str] = (),
        stop_grace_s: float = STOP_GRACE_S,
        opener: Opener = link_opener,
        traces: BridgeTraces | None = None,
        followed: FollowedMessages | None = None,
    ) -> None:
        """``tell`` receives one line for each bridge, at the first start.

        ``paused`` are the names of bridges for a later `HostedBridge.resume`. Tests pass an ``opener``. ``traces``
        belong to a tracing process. ``followed`` takes the steps of messages for an operator.
        """
        self._machine: Final = Machine()
        self._tell: Final = tell
        self._opener: Final = opener
        self._stop_grace_s: Final[float] = stop_grace_s
        self._bridges: Final[dict[str, HostedBridge]] = {}
        self._traces: Final = traces
        self._followed: Final = followed
        self._tasks: Final[dict[str, asyncio.Task[None]]] = {}
        self._add(definitions, paused)

    async def run(self, ending: asyncio.Event) -> None:
        """Run all bridges until ``ending`` is set; then let the bridges complete the current batches."""
        self._launch()
        try:
            await ending.wait()
            for bridge in self._bridges.values():
                bridge.stop()
            if self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=self._stop_grace_s)
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):  # a bug; the result of a cancelled task is not an Exception
                raise result

    async def replace(
        self, names: Iterable[str], definitions: Iterable[Definition], paused: Iterable[str] = ()
    ) -> None:
        """Let bridges complete the current batches and end, then start others while `run` runs."""
        ending = [name for name in names if name in self._bridges]
        for name in ending:
            self._bridges[name].stop()
        tasks = [self._tasks.pop(name) for name in ending]
        if tasks:
            await asyncio.wait(tasks, timeout=self._stop_grace_s)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for name in ending:
            del self._bridges[name]
        self._add(definitions, paused)
        self._launch()

    def _add(self, definitions: Iterable[Definition], paused: Iterable[str]) -> None:
        names = frozenset(paused)
        for definition in definitions:
            runner = runner_of(definition, self._make, Announcer(definition, self._tell).on_change)
            self._bridges[definition.name] = HostedBridge(runner, definition.name in names)

    def _make(self, definition: Definition, on_change: OnChange) -> BridgeRunner:
        """Return the runner of one receiver."""
        notes = None if self._traces is None else self._traces.of(definition)
        steps = None if self._followed is None else MessageSteps(definition, self._followed)
        opener = self._opener(definition)
        return BridgeRunner(BridgeMachine(definition), opener, self._machine.now, on_change, notes, steps)

    def _launch(self) -> None:
        for name, bridge in self._bridges.items():
            if name not in self._tasks:
                self._tasks[name] = asyncio.create_task(bridge.run(), name=name)

    def command(self, action: str, names: Iterable[str]) -> None:
        """Pause, resume or restart bridges; unknown names are ignored."""
        for name in names:
            bridge = self._bridges.get(name)
            if bridge is not None:
                {"pause": bridge.pause, "resume": bridge.resume, "restart": bridge.restart}[action]()

    def statuses(self) -> list[BridgeStatus]:
        """Return state and counters of all bridges."""
        return [bridge.status() for bridge in self._bridges.values()]
