"""The bridges of one broker: of its configuration, of deployed files, and created by operators.

Most brokers have no bridges, so the child for bridges is loaded by name, with the first bridge.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration, CodeDirectories
from spanwire.transports.connector import TransportConnector

if TYPE_CHECKING:
    from spanwire.service.administration.added_bridges import AddedBridges
    from spanwire.service.children.bridge_process import BridgeChildProcess
    from spanwire.service.children.deployments import Deployment
    from spanwire.service.config.interpretation.deployed_file import DeployedFileReader

Rows = list[dict[str, object]]

ACTIONS: Final = ("pause", "resume", "restart")
NO_BRIDGES: Final = (
    "this broker has no bridges; write some into its configuration, or create one with spanwire bridge create"
)


class BrokerBridges:
    """Starts, operates and ends the bridges of one broker."""

    def __init__(
        self,
        configuration: BrokerConfiguration,
        directory: Path | None,
        code: CodeDirectories,
        deploy: Path | None,
        wake: Callable[[], None],
    ) -> None:
        """``directory`` is the broker's data directory, ``deploy`` the deploy directory.

        ``wake`` ends a turn of the broker soon.
        """
        self._configuration: Final = configuration
        self._directory: Final = directory
        self._code: Final = code
        self._wake: Final = wake
        self._connectors: list[TransportConnector] = []
        self._broker: Broker | None = None
        self._added: AddedBridges | None = None
        has_some = bool(configuration.bridges or configuration.routes or deploy is not None)
        self._child = self._new_child(deploy) if has_some else None

    def _new_child(self, deploy: Path | None) -> BridgeChildProcess:
        configuration = self._configuration
        child = cast("type[BridgeChildProcess]", registry.load(registry.BRIDGE_CHILD))
        deployment = None
        if deploy is not None:
            reader = cast("type[DeployedFileReader]", registry.load(registry.DEPLOYED_FILE_READER))
            deployment = cast("type[Deployment]", registry.load(registry.DEPLOYMENT))(
                deploy, reader(configuration.broker_name, os.environ).read
            )
        definitions = (*configuration.bridges, *configuration.routes)
        return child(
            definitions, self._directory, code=self._code, deployment=deployment, tracing=configuration.tracing
        )

    def read_paused(self, broker: Broker) -> None:
        """Read the names of paused bridges, before any client is let in.

        Raises:
            ConfigurationError: a newer Spanwire has written the names.
        """
        if self._child is None and broker.assembly.added_bridges.values:
            self._child = self._new_child(None)
        if self._child is not None:
            self._child.read_paused()

    async def start(self, connectors: Sequence[TransportConnector], broker: Broker) -> None:
        """Start all bridges, with those that an operator created in earlier runs of the broker."""
        self._connectors = list(connectors)
        self._broker = broker
        if self._child is not None:
            self._child.start(connectors, broker.assembly.context)
        if broker.assembly.added_bridges.values:
            await self._added_bridges().recover()

    async def stop(self) -> None:
        """Let all bridges complete the current batch, and end; may be called twice."""
        if self._child is not None:
            await self._child.stop()

    def rows(self) -> Rows:
        """Return a row for each bridge."""
        return [] if self._child is None else self._child.rows()

    def operations(self) -> dict[str, Callable[[Mapping[str, object]], Awaitable[object]]]:
        """Return the operations of operators by the names of their commands."""
        return {
            **{f"bridge-{action}": partial(self._command, action) for action in ACTIONS},
            "bridge-create": self._create,
            "bridge-delete": self._delete,
            "bridge-change": self._change,
            "bridge-parameters": self._parameters,
        }

    async def _change(self, arguments: Mapping[str, object]) -> Rows:
        return await self._working().change(arguments)

    async def _parameters(self, arguments: Mapping[str, object]) -> dict[str, object]:
        return {"broker": self._configuration.broker_name, **self._working().parameters(arguments)}

    def _working(self) -> BridgeChildProcess:
        if self._child is None:
            raise ConfigurationError(NO_BRIDGES)
        return self._child

    async def _command(self, action: str, arguments: Mapping[str, object]) -> Rows:
        return await self._working().command(action, arguments)

    async def _create(self, arguments: Mapping[str, object]) -> Rows:
        return await self._added_bridges().create(arguments)

    async def _delete(self, arguments: Mapping[str, object]) -> Rows:
        return await self._added_bridges().delete(arguments)

    def _added_bridges(self) -> AddedBridges:
        """Return the bridges that operators created; the first one starts the child."""
        if self._added is None:
            assert self._broker is not None, "operators come after the start"
            if self._child is None:
                child = self._new_child(None)
                child.start(self._connectors, self._broker.assembly.context)
                self._child = child
            added = cast("type[AddedBridges]", registry.load(registry.ADDED_BRIDGES))
            self._added = added(self._broker, self._child, self._configuration.broker_name, os.environ, self._wake)
        return self._added
