"""Runs the bridges of a file until all end, or until a stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast

from spanwire import registry
from spanwire.bridges.engine.counters import BridgeStatus
from spanwire.bridges.engine.machine import BridgeMachine
from spanwire.bridges.engine.states import BridgeState
from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.bridges.model.diagram import place
from spanwire.bridges.model.qualities import check_quality
from spanwire.bridges.ports import Provider
from spanwire.bridges.running.links import Link, open_link
from spanwire.bridges.running.runner import BridgeRunner
from spanwire.client.io.environment import Machine
from spanwire.model.errors import ConfigurationError

STOP_GRACE_S: Final = 10.0  # seconds for the batch under way at a stop; then the connections are closed

logger = logging.getLogger(__name__)


def provider_of(name: str) -> Provider:
    """Return the provider of a name in `spanwire.registry.BRIDGE_PROVIDERS`."""
    return cast("Callable[[], Provider]", registry.load(registry.BRIDGE_PROVIDERS[name]))()


def check_bridge(definition: BridgeDefinition) -> None:
    """Refuse a bridge that can never start: source, target or quality of service are wrong.

    Raises:
        ConfigurationError: the text names the bridge and the remedy.
    """
    source, target = provider_of(definition.source.factory.provider), provider_of(definition.target.factory.provider)
    try:
        source.check_source(definition.source)
        target.check_target(definition.target)
    except ConfigurationError as error:
        raise ConfigurationError(f"bridge {definition.name}: {error}") from None
    check_quality(definition, source.describe(), target.describe())


class BridgeProcess:
    """Bridges in one event loop. ``tell`` receives one line for each bridge, at the first start."""

    def __init__(
        self,
        definitions: list[BridgeDefinition],
        tell: Callable[[str], None],
        ends_when_empty: bool = False,
        stop_grace_s: float = STOP_GRACE_S,
        opener: Callable[[BridgeDefinition], Callable[[], Awaitable[Link]]] | None = None,
    ) -> None:
        """Check the definitions. Tests pass an ``opener`` of links.

        Raises `ConfigurationError`; see `check_bridge`.
        """
        open_with = _opener if opener is None else opener
        for definition in definitions:
            check_bridge(definition)
        machine = Machine()
        self._tell: Final = tell
        self._stop_grace_s: Final[float] = stop_grace_s
        self._announced: Final[set[str]] = set()
        self._definitions: Final = {definition.name: definition for definition in definitions}
        self._stopping: Final = asyncio.Event()
        self._runners: Final = [
            BridgeRunner(
                BridgeMachine(definition, ends_when_empty), open_with(definition), machine.now, self._on_change
            )
            for definition in definitions
        ]

    async def run(self) -> bool:
        """Run all bridges. Returns False if a bridge has failed."""
        tasks = [asyncio.create_task(runner.run(), name=runner.machine.name) for runner in self._runners]
        ended = asyncio.create_task(_wait(tasks))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                for runner, task in zip(self._runners, tasks, strict=True):
                    if not task.done():  # a failed bridge stays failed
                        runner.stop()
                await asyncio.wait((ended,), timeout=self._stop_grace_s)
            if not ended.done():
                logger.warning("some bridges do not end within %g s; their links are closed", self._stop_grace_s)
        finally:
            ended.cancel()
            stopping.cancel()
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):  # a bug; the result of a cancelled task is not an Exception
                raise result
        return all(status.state is not BridgeState.FAILED for status in self.statuses())

    def stop(self) -> None:
        """Let all bridges complete the current batch and end."""
        self._stopping.set()

    def statuses(self) -> list[BridgeStatus]:
        """Return state and counters of all bridges."""
        return [runner.machine.status() for runner in self._runners]

    def _on_change(self, machine: BridgeMachine) -> None:
        name, definition = machine.name, self._definitions[machine.name]
        if machine.state is BridgeState.RUNNING:
            line = f"bridge {name}: running, {_path(definition)}"
            if name in self._announced:
                logger.info("%s", line)
            else:
                self._announced.add(name)
                self._tell(line)
        elif machine.state is BridgeState.RETRYING:
            logger.warning("bridge %s: retrying after a failure: %s", name, machine.last_error)
        elif machine.state is BridgeState.FAILED:
            retries = definition.retry.max_retries
            logger.error(
                "bridge %s: failed, %s: %s",
                name,
                "maxRetries is 0" if retries == 0 else f"all {retries} retries are used up",
                machine.last_error,
            )
        else:
            logger.info("bridge %s: %s", name, machine.state.value)


async def _wait(tasks: list[asyncio.Task[None]]) -> None:
    """Wait until all bridges have ended, or a task has raised an error."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)


def _path(definition: BridgeDefinition) -> str:
    source, target = definition.source, definition.target
    return (
        f"{source.destination} at {place(source.factory)} to {target.destination} at {place(target.factory)}, "
        f"{definition.quality.value}"
    )


def _opener(definition: BridgeDefinition) -> Callable[[], Awaitable[Link]]:
    source, target = provider_of(definition.source.factory.provider), provider_of(definition.target.factory.provider)

    async def open_one() -> Link:
        return await open_link(definition, source, target)

    return open_one
