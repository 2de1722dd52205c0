"""Runs the bridges of a file until all end, or until a stop."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, cast

from spanwire import registry
from spanwire.bridges.engine.counters import BridgeStatus
from spanwire.bridges.engine.machine import BridgeMachine
from spanwire.bridges.engine.states import BridgeState
from spanwire.bridges.model.provider_description import MAX_CREDIT
from spanwire.bridges.model.qualities import check_consumers, check_features, check_quality, is_distributed
from spanwire.bridges.model.route_definition import Definition, RouteDefinition, error_about
from spanwire.bridges.ports import Provider
from spanwire.bridges.running.announcing import Announcer
from spanwire.bridges.running.convertors import NO_CONVERTORS, Convertors
from spanwire.bridges.running.links import Link, open_link
from spanwire.bridges.running.receivers import OnChange, runner_of
from spanwire.bridges.running.route_checks import check_route
from spanwire.bridges.running.route_link import route_opener
from spanwire.bridges.running.route_store import refuse_left_state
from spanwire.bridges.running.runner import BridgeRunner
from spanwire.bridges.running.tracing import BridgeTraces
from spanwire.bridges.xa.branches import BranchNames
from spanwire.bridges.xa.decision_log import DecisionLog
from spanwire.bridges.xa.opening import open_decision_log
from spanwire.bridges.xa.xa_link import Unfinished, open_xa_link
from spanwire.client.io.environment import Machine
from spanwire.extras import install_command
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError

RUN_BYTES: Final = 4  # of the random part of branch names, which differs for each start

Opener = Callable[[], Awaitable[Link]]

STOP_GRACE_S: Final = 10.0  # seconds for the batch under way at a stop; then the connections are closed

logger = logging.getLogger(__name__)


def provider_of(name: str) -> Provider:
    """Return the provider of a name in `spanwire.registry.BRIDGE_PROVIDERS`.

    Raises:
        ConfigurationError: the package that the provider needs is not installed.
    """
    try:
        return cast("Callable[[], Provider]", registry.load(registry.BRIDGE_PROVIDERS[name]))()
    except ModuleNotFoundError as error:
        if (error.name or "spanwire").partition(".")[0] == "spanwire":
            raise
        extra = registry.BRIDGE_EXTRAS.get(name, name)
        raise ConfigurationError(
            f"the provider {name} needs the extra {extra}, which is not installed; run: {install_command(extra)}"
        ) from None


def check_bridge(definition: Definition) -> None:
    """Refuse a bridge that can never start: source, target or quality of service are wrong.

    Raises:
        ConfigurationError: the text names the bridge and the remedy, after file and line as far as known.
    """
    try:
        _check(definition)
    except ConfigurationError as error:
        raise error_about(definition, error) from None


def _check(definition: Definition) -> None:
    check_consumers(definition)
    if isinstance(definition, RouteDefinition):
        check_route(definition, provider_of)
        return
    try:
        source = provider_of(definition.source.factory.provider)
        target = provider_of(definition.target.factory.provider)
        source.check_source(definition.source)
        target.check_target(definition.target)
    except ConfigurationError as error:
        raise ConfigurationError(f"bridge {definition.name}: {error}") from None
    check_quality(definition, source.describe(), target.describe())
    check_features(definition, source.describe(), target.describe())


class BridgeProcess:
    """Bridges in one event loop. ``tell`` receives one line for each bridge, at the first start.

    ``transactions`` is the directory for decisions about distributed transactions, ``states`` the directory for groups
    and keys of routes. Only bridges and routes with such a need use the directories.
    """

    def __init__(
        self,
        definitions: Sequence[Definition],
        tell: Callable[[str], None],
        ends_when_empty: bool = False,
        stop_grace_s: float = STOP_GRACE_S,
        opener: Callable[[Definition], Opener] | None = None,
        transactions: Path | None = None,
        states: Path | None = None,
        traces: BridgeTraces | None = None,
        convertors: Convertors = NO_CONVERTORS,
    ) -> None:
        """Check the definitions, and open the log of decisions. Tests pass an ``opener`` of links.

        ``traces`` belong to a tracing process.

        Raises:
            ConfigurationError: see `check_bridge`.
            StoreError: the log of decisions is damaged, or another process uses the log.
        """
        for definition in definitions:
            check_bridge(definition)
        machine = Machine()
        self._log: Final = open_decision_log(definitions, transactions) if opener is None else None
        open_with = opener_with(self._log, machine.now, states, convertors) if opener is None else opener
        self._stop_grace_s: Final[float] = stop_grace_s
        self._stopping: Final = asyncio.Event()

        def make(definition: Definition, on_change: OnChange) -> BridgeRunner:
            notes = None if traces is None else traces.of(definition)
            return BridgeRunner(
                BridgeMachine(definition, ends_when_empty), open_with(definition), machine.now, on_change, notes
            )

        self._runners: Final = [
            runner_of(definition, make, Announcer(definition, tell).on_change) for definition in definitions
        ]

    async def run(self) -> bool:
        """Run all bridges. Returns False if a bridge has failed."""
        tasks = [asyncio.create_task(runner.run(), name=runner.name) for runner in self._runners]
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
            if self._log is not None:
                self._log.close()
        for result in results:
            if isinstance(result, Exception):  # a bug; the result of a cancelled task is not an Exception
                raise result
        return all(status.state is not BridgeState.FAILED for status in self.statuses())

    def stop(self) -> None:
        """Let all bridges complete the current batch and end."""
        self._stopping.set()

    def statuses(self) -> list[BridgeStatus]:
        """Return state and counters of all bridges."""
        return [runner.status() for runner in self._runners]


async def _wait(tasks: list[asyncio.Task[None]]) -> None:
    """Wait until all bridges have ended, or a task has raised an error."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)


def link_opener(definition: Definition, convertors: Convertors = NO_CONVERTORS, states: Path | None = None) -> Opener:
    """Return the function that opens a link of a route, or of a bridge without distributed transactions."""
    if isinstance(definition, RouteDefinition):
        return route_opener(definition, provider_of, states, convertors)
    source, target = provider_of(definition.source.factory.provider), provider_of(definition.target.factory.provider)

    async def open_one() -> Link:
        await refuse_left_state(states, definition.name)
        return await open_link(definition, source, target, convertors)

    return open_one


def opener_with(
    log: DecisionLog | None, clock: Callable[[], Time], states: Path | None, convertors: Convertors
) -> Callable[[Definition], Opener]:
    """Return the opener for bridges with and without distributed transactions.

    Decisions of the transactions go to ``log``.
    """
    run = secrets.token_hex(RUN_BYTES)

    def open_with(definition: Definition) -> Opener:
        if log is None or isinstance(definition, RouteDefinition) or not is_distributed(definition):
            return link_opener(definition, convertors, states)
        source = provider_of(definition.source.factory.provider)
        target = provider_of(definition.target.factory.provider)
        names = BranchNames(log.log_id, definition.name, run)
        unfinished = Unfinished()

        async def open_one() -> Link:
            await refuse_left_state(states, definition.name)
            return await open_xa_link(definition, source, target, MAX_CREDIT, log, names, clock, unfinished)

        return open_one

    return open_with
