"""Operations on queues over the control socket: purge, pause, and retry of dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from spanwire.broker.admin.selective_walk import OperationObserver
from spanwire.broker.admin.transfers import SAME_LIFETIME
from spanwire.management.tasks import PROGRESS, Progress
from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.model.written_destination import written_destination
from spanwire.transports.base import Clock

View = dict[str, object]
NO_LIMIT: Final = 1 << 62
MAX_LIFETIME_MS: Final = 1 << 53  # the largest whole number of JSON that all programs read alike
MAX_NAMES: Final = 100  # names in one request; a pattern covers more queues


class OperatedQueues(Protocol):
    """The part of the broker used here (``broker/admin/queue_operations.py``)."""

    def queues(self, pattern: Destination) -> list[Destination]:
        """Return the queues of a name or pattern."""
        ...

    def remove(
        self, destination: Destination, selector: str | None, observer: OperationObserver, limit: int, now: Time
    ) -> None:
        """Remove the messages matching the selector."""
        ...

    def retry(
        self,
        destination: Destination,
        selector: str | None,
        observer: OperationObserver,
        limit: int,
        now: Time,
        lifetime_ms: int = SAME_LIFETIME,
    ) -> None:
        """Send dead letters back to the original destinations; ``lifetime_ms``, if given, is the time to live."""
        ...

    def transfer(
        self,
        destination: Destination,
        target: Destination,
        keeps: bool,
        selector: str | None,
        observer: OperationObserver,
        limit: int,
        now: Time,
    ) -> None:
        """Move messages matching the selector to a target, or copy the messages."""
        ...

    def pause(self, destination: Destination, pause: bool, now: Time) -> int:
        """Pause or resume the dispatch of a queue. Returns the number of pending messages."""
        ...


Operate = Callable[[Destination, str | None, OperationObserver, int, Time], None]


class QueueOperations:
    """Starts operations and waits for the ends. The broker does the work in slices."""

    def __init__(self, queues: OperatedQueues, clock: Clock, wake: Callable[[], None]) -> None:
        self._queues: Final = queues
        self._clock: Final = clock
        self._wake: Final = wake

    async def purge(self, arguments: Mapping[str, object]) -> list[View]:
        """Remove messages of the queues ``destinations``, names or patterns, that match ``selector``.

        Without a selector all messages are removed.

        Returns:
            ``destination`` and ``removed`` for each queue.

        Raises:
            ConfigurationError: an argument is invalid, or there is no such queue
            JmsError: the broker refuses
        """
        return [
            {"destination": queue.qualified_name, "removed": count}
            for queue, count, _ in await self._all(arguments, self._queues.remove)
        ]

    async def retry(self, arguments: Mapping[str, object]) -> list[View]:
        """Send at most ``limit`` dead letters of the queues ``destinations`` back.

        ``lifetime_ms`` replaces the time to live, 0 for unlimited.

        Returns:
            ``destination``, ``retried`` and ``left`` for each queue; ``left`` counts matching messages other than dead
            letters, and dead letters without an existing destination.

        Raises:
            ConfigurationError: an argument is invalid, or there is no such queue
            JmsError: the broker refuses
        """
        lifetime_ms = lifetime_of(arguments)

        def operate(
            queue: Destination, selector: str | None, observer: OperationObserver, most: int, now: Time
        ) -> None:
            self._queues.retry(queue, selector, observer, most, now, lifetime_ms)

        return [
            {"destination": queue.qualified_name, "retried": count, "left": skipped}
            for queue, count, skipped in await self._all(arguments, operate)
        ]

    async def move(self, arguments: Mapping[str, object]) -> list[View]:
        """Move at most ``limit`` messages matching ``selector`` of ``destinations``, queues, to ``target``.

        Returns:
            ``destination``, ``moved`` and ``left`` for each queue; ``left`` counts matching messages without room.

        Raises:
            ConfigurationError: an argument is invalid, or there is no such queue
            JmsError: the broker refuses
        """
        return [
            {"destination": queue.qualified_name, "moved": count, "left": skipped}
            for queue, count, skipped in await self._all(arguments, self._transfer(arguments, keeps=False))
        ]

    async def copy(self, arguments: Mapping[str, object]) -> list[View]:
        """Copy messages with the arguments of `move`; the result has ``copied`` in place of ``moved``."""
        return [
            {"destination": queue.qualified_name, "copied": count, "left": skipped}
            for queue, count, skipped in await self._all(arguments, self._transfer(arguments, keeps=True))
        ]

    def _transfer(self, arguments: Mapping[str, object], *, keeps: bool) -> Operate:
        target = target_of(arguments)

        def operate(
            queue: Destination, selector: str | None, observer: OperationObserver, most: int, now: Time
        ) -> None:
            self._queues.transfer(queue, target, keeps, selector, observer, most, now)

        return operate

    async def pause(self, arguments: Mapping[str, object]) -> list[View]:
        """Pause the dispatch of the queues ``destinations``.

        Returns:
            ``destination``, ``paused`` and ``waiting``, the number of pending messages, for each queue.
        """
        return self._pause(arguments, True)

    async def resume(self, arguments: Mapping[str, object]) -> list[View]:
        """Resume the dispatch of the queues ``destinations``. Returns the same values as `pause`."""
        return self._pause(arguments, False)

    def _pause(self, arguments: Mapping[str, object], pause: bool) -> list[View]:
        results: list[View] = []
        for queue in queues_named(self._queues, arguments.get("destinations")):
            waiting = self._queues.pause(queue, pause, self._clock.now())
            results.append({"destination": queue.qualified_name, "paused": pause, "waiting": waiting})
        self._wake()
        return results

    async def _all(self, arguments: Mapping[str, object], operate: Operate) -> list[tuple[Destination, int, int]]:
        selector, limit = selector_of(arguments), limit_of(arguments)
        progress = arguments.get(PROGRESS)
        results: list[tuple[Destination, int, int]] = []
        for queue in queues_named(self._queues, arguments.get("destinations")):
            result = _OperationResult(progress if isinstance(progress, Progress) else Progress())
            operate(queue, selector, result, limit, self._clock.now())
            self._wake()
            count, skipped = await result.answer
            results.append((queue, count, skipped))
            if isinstance(progress, Progress) and progress.is_cancelled:
                break
        return results


def queues_named(queues: OperatedQueues, names: object) -> list[Destination]:
    """Return the queues of the argument ``destinations``, each once. Raises `ConfigurationError`."""
    if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES:
        raise ConfigurationError(f"destinations is no list of 1 to {MAX_NAMES} names")
    results: dict[str, Destination] = {}
    for name in names:
        if not isinstance(name, str) or not name:
            raise ConfigurationError("a destination has no name")
        destination = written_destination(name)
        if not destination.is_queue:
            raise ConfigurationError(f"{name[:80]} is no queue")
        matches = [queue for part in destination.parts() for queue in queues.queues(part)]
        if not matches:
            raise ConfigurationError(f"there is no queue {destination.name[:80]}; spanwire dstat queues lists them")
        results.update({queue.qualified_name: queue for queue in matches})
    return list(results.values())


def selector_of(arguments: Mapping[str, object]) -> str | None:
    """Return the argument ``selector``. Raises `ConfigurationError`."""
    selector = arguments.get("selector")
    if selector is not None and not isinstance(selector, str):
        raise ConfigurationError("the selector is no text")
    return selector


def limit_of(arguments: Mapping[str, object]) -> int:
    """Return the argument ``limit``. Raises `ConfigurationError`."""
    limit = arguments.get("limit", NO_LIMIT)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise ConfigurationError("the limit is no whole number from 0 on")
    return limit


def lifetime_of(arguments: Mapping[str, object]) -> int:
    """Return the argument ``lifetime_ms``. Raises `ConfigurationError`."""
    lifetime_ms = arguments.get("lifetime_ms", SAME_LIFETIME)
    if not isinstance(lifetime_ms, int) or isinstance(lifetime_ms, bool) or not -1 <= lifetime_ms <= MAX_LIFETIME_MS:
        raise ConfigurationError(f"lifetime_ms is no number of milliseconds up to {MAX_LIFETIME_MS}")
    return lifetime_ms


def target_of(arguments: Mapping[str, object]) -> Destination:
    """Return the argument ``target``.

    Raises `ConfigurationError`, and `JmsError` for a name without sense.
    """
    name = arguments.get("target")
    if not isinstance(name, str) or not name:
        raise ConfigurationError("target is the queue or topic that gets the messages")
    return parse_destination(name, QUEUE)


class _OperationResult:
    """The result of an operation, set by the broker at the end."""

    def __init__(self, progress: Progress) -> None:
        self._progress: Final = progress
        self._before: Final = progress.processed
        self.answer: Final[asyncio.Future[tuple[int, int]]] = asyncio.get_running_loop().create_future()

    def may_go_on(self, count: int) -> bool:
        self._progress.processed = self._before + count
        return not self._progress.is_cancelled

    def on_finished(self, count: int, skipped: int) -> None:
        self._progress.processed = self._before + count
        if not self.answer.done():
            self.answer.set_result((count, skipped))
