"""The open source, targets and state of a route."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from spanwire.bridges.endpoints.file_source import OpenFileSource
from spanwire.bridges.endpoints.file_target import OpenFileTarget
from spanwire.bridges.endpoints.http_target import OpenHttpTarget
from spanwire.bridges.endpoints.timer_source import OpenTimerSource, TickCount
from spanwire.bridges.engine.route_calls import Answer, FunctionCall
from spanwire.bridges.engine.route_processor import RouteProcessor
from spanwire.bridges.engine.route_state import Changes, RouteState
from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import (
    FileSource,
    FileTarget,
    RouteDefinition,
    RouteTarget,
    TimerSource,
    functions_of,
    keeps_state,
)
from spanwire.bridges.ports import MessageSource, MessageTarget, Provider, WindowedSource
from spanwire.bridges.running.convertors import NO_CONVERTORS, Conversion, Convertors
from spanwire.bridges.running.links import credit_of, last_ids
from spanwire.bridges.running.route_store import RouteStore, refuse_left_state
from spanwire.model.errors import ConfigurationError

ProviderOf = Callable[[str], Provider]
RouteInput = MessageSource | OpenTimerSource | OpenFileSource
RouteOutput = MessageTarget | OpenFileTarget | OpenHttpTarget


class RouteLink:
    """A source, targets and perhaps a store."""

    def __init__(
        self,
        source: RouteInput,
        targets: list[RouteOutput],
        store: RouteStore | None,
        conversions: Mapping[str, Conversion] = MappingProxyType({}),
    ) -> None:
        self._source: Final = source
        self._windowed: Final = source if isinstance(source, WindowedSource) else None
        self._targets: Final = targets
        self._store: Final = store
        self._conversions: Final = conversions
        self.state: RouteState | None = None

    async def load(self) -> None:
        """Read the stored state. Raises `StoreError`."""
        if self._store is not None:
            self.state = await self._store.load()

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive from the source."""
        return await self._source.receive(max_messages, max_bytes, wait_s)

    def is_exhausted(self) -> bool:
        """Return True if the source hands over no further message before an acknowledgement."""
        return self._windowed is not None and self._windowed.is_exhausted()

    async def acknowledge(self) -> None:
        """Acknowledge at the source."""
        await self._source.acknowledge()

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send to the first target."""
        await self.send_to(0, messages)

    async def send_to(self, target: int, messages: list[BridgeMessage]) -> None:
        """Send to a target, and wait until the target has stored the messages."""
        await self._targets[target].send(messages)

    def sent_ids(self, target: int, count: int) -> list[str]:
        """Return the ids of the last messages sent to a target; an empty list if unknown."""
        return last_ids(self._targets[target], count)

    async def call(self, calls: list[FunctionCall]) -> list[Answer]:
        """Return the answers of functions, in the order of the calls. Raises `JmsError` for a hanging call."""
        answers: dict[int, Answer] = {}
        for name, conversion in self._conversions.items():
            places = [index for index, call in enumerate(calls) if call.name == name]
            if places:
                found = await conversion.answers([calls[index].message for index in places])
                answers |= dict(zip(places, found, strict=True))
        return [answers[index] for index in range(len(calls))]

    async def keep(self, changes: Changes) -> None:
        """Store changes of the state. Raises `StoreError`."""
        assert self._store is not None, "a route without state keeps nothing"
        await self._store.store(changes)

    async def commit(self) -> None:
        """Fail: several connections have no common transaction."""
        raise AssertionError("several connections have no common transaction")

    async def dead_letter(self, cause: str) -> None:
        """Hand the only received message to the source as a dead letter."""
        await self._source.dead_letter(cause)

    def check(self) -> None:
        """Raise `JmsError` if a connection is lost."""
        for target in self._targets:
            target.check()
        self._source.check()

    async def close(self) -> None:
        """Close the source first, so that the messages return to the broker soon."""
        async with contextlib.AsyncExitStack() as closing:  # what fails to close leaves nothing else open
            if self._store is not None:
                closing.push_async_callback(self._store.close)
            for target in reversed(self._targets):
                closing.push_async_callback(target.close)
            closing.push_async_callback(self._source.close)


async def open_route(
    definition: RouteDefinition,
    provider_of: ProviderOf,
    directory: Path | None,
    ticks: TickCount,
    convertors: Convertors = NO_CONVERTORS,
) -> RouteLink:
    """Open the targets, then the state, then the source. ``ticks`` are those of earlier links.

    Raises:
        JmsError: a broker is not reachable, or refuses.
        ConfigurationError: a file cannot be read, a route with state has no ``directory`` for it, or a convertor
            cannot be loaded.
        StoreError: the state is damaged or in use, or belongs to other steps.
    """
    conversions = {name: convertors.conversion_by(name) for name in functions_of(definition.steps)}
    async with contextlib.AsyncExitStack() as opened:
        targets: list[RouteOutput] = []
        for target in definition.targets:
            targets.append(await _open_target(target, provider_of))
            opened.push_async_callback(targets[-1].close)
        store = _store(definition, directory)
        if store is None:
            await refuse_left_state(directory, definition.name)
        else:
            await store.open()
            opened.push_async_callback(store.close)
        source = await _open_source(definition, provider_of, ticks)
        opened.push_async_callback(source.close)
        link = RouteLink(source, targets, store, conversions)
        await link.load()
        opened.pop_all()
    return link


def _store(definition: RouteDefinition, directory: Path | None) -> RouteStore | None:
    if not keeps_state(definition.steps):
        return None
    if directory is None:
        raise ConfigurationError(f"the route {definition.name} keeps a state and has no directory for it")
    return RouteStore(directory, definition.name, RouteProcessor(definition).step_names)


async def _open_target(target: RouteTarget, provider_of: ProviderOf) -> RouteOutput:
    if isinstance(target, Target):
        return await provider_of(target.factory.provider).open_target(target)
    return OpenFileTarget(target) if isinstance(target, FileTarget) else OpenHttpTarget(target)


async def _open_source(definition: RouteDefinition, provider_of: ProviderOf, ticks: TickCount) -> RouteInput:
    source = definition.source
    if isinstance(source, Source):
        provider = provider_of(source.factory.provider)
        return await provider.open_source(source, credit_of(definition.batch, provider, definition.consumers.most))
    if isinstance(source, FileSource):
        return OpenFileSource(source)
    assert isinstance(source, TimerSource)
    return OpenTimerSource(source, ticks)


RouteOpener = Callable[[], Awaitable[RouteLink]]


def route_opener(
    definition: RouteDefinition,
    provider_of: ProviderOf,
    directory: Path | None,
    convertors: Convertors = NO_CONVERTORS,
) -> RouteOpener:
    """Return the function that opens a route."""
    ticks = TickCount()

    async def open_one() -> RouteLink:
        return await open_route(definition, provider_of, directory, ticks, convertors)

    return open_one
