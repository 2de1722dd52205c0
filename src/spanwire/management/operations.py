"""What an operator asks of a running broker's queues over the control socket: purge, pause, retry of dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from spanwire.broker.admin.queue_operations import OperationObserver
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.model.written_destination import written_destination
from spanwire.transports.base import Clock

View = dict[str, object]
NO_LIMIT: Final = 1 << 62
MAX_NAMES: Final = 100  # of one request; a pattern names more


class OperatedQueues(Protocol):
    """The part of the broker that carries operations out (``broker/admin/queue_operations.py``)."""

    def queues(self, pattern: Destination) -> list[Destination]:
        """The queues of this name or pattern."""
        ...

    def remove(
        self, destination: Destination, selector: str | None, observer: OperationObserver, limit: int, now: Time
    ) -> None:
        """Remove what the selector chooses."""
        ...

    def retry(
        self, destination: Destination, selector: str | None, observer: OperationObserver, limit: int, now: Time
    ) -> None:
        """Send dead letters back."""
        ...

    def pause(self, destination: Destination, pause: bool, now: Time) -> int:
        """Stop its dispatch, or let it go on; gives how many messages wait."""
        ...


Operate = Callable[[Destination, str | None, OperationObserver, int, Time], None]


class QueueOperations:
    """Waits for what it starts. Leaves the work to the broker, a slice in each turn of the loop."""

    def __init__(self, queues: OperatedQueues, clock: Clock, wake: Callable[[], None]) -> None:
        self._queues: Final = queues
        self._clock: Final = clock
        self._wake: Final = wake

    async def purge(self, arguments: Mapping[str, object]) -> list[View]:
        """``destinations``: names or patterns of queues, ``selector``: which messages, all without it.

        Gives ``destination`` and ``removed`` for each queue. Raises `ConfigurationError` and `JmsError`.
        """
        return [
            {"destination": queue.qualified_name, "removed": count}
            for queue, count, _ in await self._all(arguments, self._queues.remove)
        ]

    async def retry(self, arguments: Mapping[str, object]) -> list[View]:
        """The same arguments, and ``limit``. Gives ``destination``, ``retried`` and ``left``, which counts the chosen
        messages that are no dead letters or whose destination is gone.
        """
        return [
            {"destination": queue.qualified_name, "retried": count, "left": skipped}
            for queue, count, skipped in await self._all(arguments, self._queues.retry)
        ]

    async def pause(self, arguments: Mapping[str, object]) -> list[View]:
        """``destinations`` as above. Gives ``destination``, ``paused`` and ``waiting``, the messages in each queue."""
        return self._pause(arguments, True)

    async def resume(self, arguments: Mapping[str, object]) -> list[View]:
        """The same for the way back."""
        return self._pause(arguments, False)

    def _pause(self, arguments: Mapping[str, object], pause: bool) -> list[View]:
        results: list[View] = []
        for queue in self._queues_named(arguments.get("destinations")):
            waiting = self._queues.pause(queue, pause, self._clock.now())
            results.append({"destination": queue.qualified_name, "paused": pause, "waiting": waiting})
        self._wake()
        return results

    async def _all(self, arguments: Mapping[str, object], operate: Operate) -> list[tuple[Destination, int, int]]:
        selector = arguments.get("selector")
        limit = arguments.get("limit", NO_LIMIT)
        if selector is not None and not isinstance(selector, str):
            raise ConfigurationError("the selector is no text")
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            raise ConfigurationError("the limit is no whole number from 0 on")
        results: list[tuple[Destination, int, int]] = []
        for queue in self._queues_named(arguments.get("destinations")):
            result = _OperationResult()
            operate(queue, selector, result, limit, self._clock.now())
            self._wake()
            count, skipped = await result.answer
            results.append((queue, count, skipped))
        return results

    def _queues_named(self, names: object) -> list[Destination]:
        if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES:
            raise ConfigurationError(f"destinations is no list of 1 to {MAX_NAMES} names")
        results: dict[str, Destination] = {}
        for name in names:
            if not isinstance(name, str) or not name:
                raise ConfigurationError("a destination has no name")
            destination = written_destination(name)
            if not destination.is_queue:
                raise ConfigurationError(f"{name[:80]} is no queue")
            matches = [queue for part in destination.parts() for queue in self._queues.queues(part)]
            if not matches:
                raise ConfigurationError(f"there is no queue {destination.name[:80]}; spanwire dstat queues lists them")
            results.update({queue.qualified_name: queue for queue in matches})
        return list(results.values())


class _OperationResult:
    """Hears from the broker when an operation is done."""

    def __init__(self) -> None:
        self.answer: Final[asyncio.Future[tuple[int, int]]] = asyncio.get_running_loop().create_future()

    def finished(self, count: int, skipped: int) -> None:
        if not self.answer.done():
            self.answer.set_result((count, skipped))
