"""Reloads the configuration of a running broker (ActiveMQ's runtimeConfigurationPlugin).

Supported changes are applied. An unreadable or refused file has no effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.service.config.changes import Changes, apply_changes, changes
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.networking.network_connectors import NetworkConnectors
from spanwire.service.security import Security

# The settings that `spanwire.broker.reconfiguration.Reconfiguration` leaves as they are.
KEPT_POLICIES: Final = (
    "existing queues and topics keep order, dispatch, groups, recovery, eviction and slow consumers, and begin no "
    "advisories about messages"
)

Reread = Callable[[], BrokerConfiguration]
Stamp = tuple[int, int, int]

logger = logging.getLogger(__name__)


class RunningBroker:
    """The changeable parts of a running broker.

    ``refuse_open_binds`` raises `ConfigurationError` for unprotected connectors open to the network. ``read_keys``
    reads the key stores in a thread, and returns a function that uses the keys for new connections.
    """

    def __init__(
        self,
        broker: Broker,
        security: Security,
        connectors: NetworkConnectors,
        refuse_open_binds: Callable[[Security], Awaitable[None]],
        wake: Callable[[], None],
        read_keys: Callable[[], Callable[[], None]] = lambda: lambda: None,
    ) -> None:
        self._broker: Final = broker
        self._security: Final = security
        self._connectors: Final = connectors
        self._refuse_open_binds: Final = refuse_open_binds
        self._wake: Final = wake
        self._read_keys: Final = read_keys

    async def take_over(self, configuration: BrokerConfiguration, changes: Changes) -> list[str]:
        """Apply the changes of ``configuration``.

        Returns:
            One line for each network connector with a failed start.

        Raises:
            ConfigurationError: the configuration is refused, without a change.
        """
        await self._refuse_open_binds(Security(configuration))
        use_keys = await asyncio.to_thread(self._read_keys)
        use_keys()
        broker, reconfiguration = self._broker, self._broker.reconfiguration
        if changes.users:
            authenticator = self._security.change_users(configuration)
            if authenticator is not None:
                reconfiguration.use_authenticator(authenticator)
        if changes.rights:
            authorizer = await self._security.change_rights(configuration)
            if authorizer is not None:
                reconfiguration.use_authorizer(authorizer)
        if changes.policies:
            reconfiguration.use_policies(list(configuration.policies))
        if changes.virtual:
            reconfiguration.use_virtual_destinations(configuration.virtual)
        for destination in changes.destinations:
            broker.configure_destination(destination)
        self._wake()
        return await self._connectors.replace(changes.removed, changes.added)


class RuntimeConfiguration:
    """Rereads the configuration of one broker."""

    def __init__(
        self,
        current: BrokerConfiguration,
        reread: Reread,
        broker: RunningBroker,
        reloading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._current = current
        self._reread: Final[Reread] = reread
        self._broker: Final = broker
        self._reloading: Final = reloading
        self._path: Final = Path(current.source)
        self._stamp: Stamp | None = None
        self._task: asyncio.Task[None] | None = None
        self._requested: asyncio.Task[None] | None = None
        self._turn: Final = asyncio.Lock()
        self._reported_later: tuple[str, ...] = ()
        self._reported_warnings = current.warnings

    def start(self) -> None:
        """Start checking the file if the configuration has a check period."""
        runtime = self._current.runtime
        self._stamp = _stamp(self._path)
        if runtime is not None and runtime.check_period_ms > 0:
            self._task = asyncio.get_running_loop().create_task(
                self._check_periodically(runtime.check_period_ms / 1000)
            )

    def stop(self) -> None:
        """Stop checking the file."""
        for task in (self._task, self._requested):
            if task is not None:
                task.cancel()
        self._task = self._requested = None

    def request(self) -> None:
        """Reload soon; the log has the outcome."""
        self._requested = asyncio.get_running_loop().create_task(self._log_reload())

    async def _log_reload(self) -> None:
        try:
            await self.reload({})
        except SpanwireError as error:
            for line in str(error).splitlines():
                logger.error("the configuration stays as it was: %s", line)

    async def _check_periodically(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self.check_file()

    async def check_file(self) -> None:
        """Reload if the file has changed; errors are logged."""
        stamp = await asyncio.to_thread(_stamp, self._path)
        if stamp is None or stamp == self._stamp:
            return
        self._stamp = stamp
        await self._log_reload()

    async def reload(self, _: Mapping[str, object]) -> list[str]:
        """Reload now; return one line for each change. Raises `SpanwireError` for a refusal without a change."""
        async with self._turn:
            with self._reloading():
                return await self._reload()

    async def _reload(self) -> list[str]:
        after = await asyncio.to_thread(self._reread)
        if after.broker_name != self._current.broker_name:
            raise ConfigurationError(f"{after.source}: brokerName is another one: restart the broker for that")
        differences = changes(self._current, after)
        current = apply_changes(self._current, after, differences)
        problems = await self._broker.take_over(current, differences)
        lines = _lines(differences, self._reported_later)
        warnings = [line for line in after.warnings if line not in self._reported_warnings]
        self._current, self._reported_later, self._reported_warnings = current, differences.later, after.warnings
        for line in lines:
            logger.info("%s: %s", after.source, line)
        for line in (*warnings, *problems):
            logger.warning("%s", line)
        if not lines:
            logger.info("%s: nothing has changed", after.source)
        return [*lines, *problems]


def _lines(changes: Changes, reported: tuple[str, ...]) -> list[str]:
    """Return one line for each change; a change for the next start is reported only once."""
    before, after = ({one.bridge.name for one in those} for those in (changes.removed, changes.added))
    lines = [f"network connector {name}: removed" for name in sorted(before - after)]
    lines += [f"network connector {name}: changed, its links start anew" for name in sorted(before & after)]
    lines += [f"network connector {name}: added" for name in sorted(after - before)]
    for changed, words in (
        (changes.policies, f"policies of <destinationPolicy>: changed; {KEPT_POLICIES}"),
        (changes.virtual, "virtual destinations: changed"),
        (changes.users, "users: changed, applies to new logins"),
        (changes.rights, "rights of <authorizationPlugin>: changed"),
    ):
        if changed:
            lines.append(words)
    lines += [f"{destination}: added" for destination in changes.destinations]
    lines += [f"{word}: changed, takes effect at the next start" for word in changes.later if word not in reported]
    return lines


def _stamp(path: Path) -> Stamp | None:
    """Return a stamp, different after each change of the file; None while the file is missing.

    Some editors remove the file for a moment during a save.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
