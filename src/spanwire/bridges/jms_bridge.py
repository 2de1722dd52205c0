"""A JMS bridge as an object of a program.

The parameters are those of ActiveMQ Artemis and HornetQ, with the original names.

    async with JMSBridge(
        sourceConnectionFactory="tcp://berlin:61616",
        sourceDestination="queue://ORDERS",
        targetConnectionFactory={"provider": "amqp091", "url": "amqp://paris"},
        targetDestination="queue://orders",
        qualityOfServiceMode="DUPLICATES_OK",
    ) as bridge:
        ...

The bridge runs in the event loop of the caller. The bridge needs no local broker and no file.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping as AnyMapping
from pathlib import Path
from typing import Final, Self

from spanwire.bridges.engine.counters import BridgeStatus
from spanwire.bridges.engine.states import BridgeState
from spanwire.bridges.files.parameters import bridge_of, factory_of
from spanwire.bridges.jars import with_jars
from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.bridges.running.convertors import NO_CONVERTORS
from spanwire.bridges.running.hosted import HostedBridges
from spanwire.bridges.running.process import check_bridge, opener_with
from spanwire.bridges.xa.opening import open_decision_log
from spanwire.client.io.environment import Machine
from spanwire.routes.readers.nodes import Entry, Items, Location, Mapping, Node, Word

Value = str | int | bool | None
Factory = str | AnyMapping[str, object]
FACTORIES: Final = ("sourceConnectionFactory", "targetConnectionFactory")


class JMSBridge:
    """Takes messages from a source to a target until a stop."""

    def __init__(
        self,
        *,
        name: str = "JMSBridge",
        transactions: Path | None = None,
        jars: Path | None = None,
        **parameters: Value | Factory,
    ) -> None:
        """Check the parameters, and connect to nothing.

        Args:
            name: The name of the bridge in the log.
            transactions: The directory for decisions, which ``ONCE_AND_ONLY_ONCE`` between two brokers needs.
            jars: The directory with the jars of a factory with the provider ``jvm``.
            parameters: The parameters of a bridge in a file of bridges, with None for a parameter without a value. A
                connection factory is a URL, or a mapping with the words of a connection factory.

        Raises:
            ConfigurationError: A parameter is unknown, missing or invalid.
        """
        self._definition: Final = _definition(name, parameters, jars)
        check_bridge(self._definition)
        self._transactions: Final = transactions
        self._bridges: HostedBridges | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending: Final = asyncio.Event()

    async def start(self) -> None:
        """Start the bridge in the running event loop; do nothing to a running bridge.

        Raises:
            StoreError: The log of decisions is damaged, or another process uses the log.
        """
        if self._task is not None:
            return
        log = open_decision_log([self._definition], self._transactions)
        opener = opener_with(log, Machine().now, None, NO_CONVERTORS)
        self._bridges = bridges = HostedBridges([self._definition], lambda line: None, opener=opener)
        self._ending.clear()

        async def run() -> None:
            try:
                await bridges.run(self._ending)
            finally:
                if log is not None:
                    log.close()

        self._task = asyncio.create_task(run(), name=self._definition.name)

    async def stop(self) -> None:
        """Complete the batch, close the connections, and end. The bridge can be started again."""
        task, self._task = self._task, None
        if task is not None:
            self._ending.set()
            await task

    def pause(self) -> None:
        """Complete the batch and close the connections until `resume`."""
        self._command("pause")

    def resume(self) -> None:
        """Go on after a pause."""
        self._command("resume")

    def restart(self) -> None:
        """Start a failed or paused bridge, or close the connections of a running one and start anew."""
        self._command("restart")

    def status(self) -> BridgeStatus | None:
        """Return state and counters; None for a bridge before the start."""
        return None if self._bridges is None else self._bridges.statuses()[0]

    @property
    def is_started(self) -> bool:
        """Return True from `start` until `stop`, also while a broker is away."""
        return self._task is not None

    @property
    def is_paused(self) -> bool:
        """Return True after `pause`."""
        return self._is_in(BridgeState.PAUSED)

    @property
    def is_failed(self) -> bool:
        """Return True if all retries are used up; the bridge waits for `restart`."""
        return self._is_in(BridgeState.FAILED)

    @property
    def message_count(self) -> int:
        """Return the number of messages transferred since `start`."""
        status = self.status()
        return 0 if status is None else status.forwarded

    async def __aenter__(self) -> Self:
        """Start the bridge."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the bridge."""
        with contextlib.suppress(asyncio.CancelledError):
            await self.stop()

    def _is_in(self, state: BridgeState) -> bool:
        status = self.status()
        return status is not None and status.state is state

    def _command(self, action: str) -> None:
        if self._bridges is not None:
            self._bridges.command(action, [self._definition.name])


def _definition(name: str, parameters: AnyMapping[str, object], jars: Path | None) -> BridgeDefinition:
    location = Location(name, 1)
    words = Mapping(location)
    factories = {}
    for word, value in parameters.items():
        if word in FACTORIES and isinstance(value, AnyMapping):
            table = _node(location, value)
            assert isinstance(table, Mapping)
            factories[word] = factory_of(table, word)
            value = word
        words.entries[word] = Entry(location, _node(location, value))
    (definition,) = with_jars([bridge_of(words, name, factories)], jars)
    assert isinstance(definition, BridgeDefinition)
    return definition


def _node(location: Location, value: object) -> Node:
    """Return a value as the word, list or table of a file."""
    if isinstance(value, AnyMapping):
        return Mapping(location, {str(key): Entry(location, _node(location, inner)) for key, inner in value.items()})
    if isinstance(value, (list, tuple)):
        return Items(location, [_node(location, inner) for inner in value])
    if value is None:
        return Word(location, None)
    return Word(location, str(value).lower() if isinstance(value, bool) else str(value))
