"""Moves as tasks: started, counted in a dry run, cancelled, resumed and undone by an operator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from spanwire.broker.moves.move import Move
from spanwire.broker.moves.move_order import COPY, RETRY, UNDO, MoveOrder
from spanwire.broker.moves.moves import Moves
from spanwire.broker.security.audit_log import printable
from spanwire.management.handles import OPERATOR, Operator
from spanwire.management.operations.operations import (
    OperatedQueues,
    lifetime_of,
    limit_of,
    queues_named,
    selector_of,
    target_of,
)
from spanwire.management.tasks import AS_TASK, Operation, Tasks
from spanwire.model.errors import ConfigurationError
from spanwire.transports.base import Clock

View = dict[str, object]
RATE: Final = "rate"
FOLLOW: Final = "follow"
DRY_RUN: Final = "dry_run"
DONE_WORDS: Final = {"move": "moved", COPY: "copied", RETRY: "retried"}
MAX_RATE: Final = 1_000_000  # messages a second; more than a broker moves
MAX_SHOWN: Final = 3  # sources named in a row; more are counted

audit = logging.getLogger("spanwire.audit")


class MoveTasks:
    """Starts moves of the broker, and shows moves beside the other tasks."""

    def __init__(
        self, moves: Moves, queues: OperatedQueues, tasks: Tasks, clock: Clock, wake: Callable[[], None]
    ) -> None:
        self._moves: Final = moves
        self._queues: Final = queues
        self._clock: Final = clock
        self._wake: Final = wake
        tasks.kept["M"] = self

    def startable(self, verb: str, operation: Operation) -> Operation:
        """Return ``operation`` in another form: with `AS_TASK` a move, with `DRY_RUN` a count."""

        async def called(arguments: Mapping[str, object]) -> object:
            if arguments.get(DRY_RUN) is True:
                return await self._preview(verb, arguments)
            if arguments.get(AS_TASK) is True:
                return self._start(verb, arguments)
            for name in (RATE, FOLLOW):
                if arguments.get(name):
                    raise ConfigurationError(f"{name} needs a task: give {AS_TASK}, too")
            return await operation(arguments)

        return called

    def _order(self, verb: str, arguments: Mapping[str, object]) -> MoveOrder:
        rate = arguments.get(RATE, 0)
        if not isinstance(rate, int) or isinstance(rate, bool) or not 0 <= rate <= MAX_RATE:
            raise ConfigurationError(f"{RATE} is no number of messages a second up to {MAX_RATE}")
        return MoveOrder(
            verb,
            queues_named(self._queues, arguments.get("destinations")),
            None if verb == RETRY else target_of(arguments),
            selector_of(arguments),
            limit_of(arguments),
            rate,
            lifetime_of(arguments),
            arguments.get(FOLLOW) is True,
            _user(arguments),
        )

    def _start(self, verb: str, arguments: Mapping[str, object]) -> View:
        move = self._moves.start(self._order(verb, arguments), self._clock.now())
        self._wake()
        return {"task": move.id}

    async def _preview(self, verb: str, arguments: Mapping[str, object]) -> list[View]:
        order = self._order(verb, arguments)
        rows: list[View] = []
        for index, source in enumerate(order.sources):
            counted = _Counted()
            preview = self._moves.preview(order, index, counted, self._clock.now())
            self._wake()
            count, left = await counted.answer
            sample = [
                {
                    "message_id": sampled.message_id,
                    "timestamp_ms": sampled.timestamp_ms,
                    "size_bytes": sampled.size_bytes,
                    "target": sampled.target,
                }
                for sampled in preview.sample
            ]
            rows.append({"destination": source.qualified_name, "would_be": count, "left": left, "sample": sample})
        return rows

    async def cancel(self, arguments: Mapping[str, object]) -> View:
        """End the task ``id`` after the next slice; the completed part stays.

        Raises:
            ConfigurationError, JmsError: there is no such task, or the task has ended
        """
        move = self._moves.cancel(str(arguments.get("id")), self._clock.now())
        self._wake()
        return self._view(move)

    async def resume(self, arguments: Mapping[str, object]) -> View:
        """Go on with the cancelled or failed move ``id``.

        Raises:
            JmsError: there is no such move, or the move runs or is done
        """
        move = self._moves.resume(str(arguments.get("id")), self._clock.now())
        self._wake()
        return {"task": move.id}

    async def undo(self, arguments: Mapping[str, object]) -> View:
        """Begin to bring back the messages of the move ``id``, as a separate task.

        Raises:
            JmsError: there is no such move, the move runs, or cannot be undone
        """
        move = self._moves.undo(str(arguments.get("id")), _user(arguments), self._clock.now())
        self._wake()
        return {"task": move.id}

    def views(self) -> Iterator[View]:
        """Yield the kept moves, the oldest first."""
        for move in self._moves.all():
            yield self._view(move)

    def _view(self, move: Move) -> View:
        order = move.order
        names = [source.qualified_name for source in order.sources]
        more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
        seconds = move.seconds_left(self._clock.now().monotonic)
        return {
            "id": move.id,
            "operation": order.verb,
            "sources": ", ".join(names[:MAX_SHOWN]) + more,
            "target": None if order.target is None else order.target.qualified_name,
            "user_name": printable(order.user),
            "state": move.state,
            "waits_for": move.pace.waits_for if move.pace is not None and move.pace.waits_for else None,
            "processed": move.processed,
            "left": move.left,
            "looked": move.looks if move.is_running else None,
            "total": move.total if move.is_running else None,
            "seconds_left": seconds if seconds >= 0 else None,
            "rate": order.rate or None,
            "undoable": self._moves.undoable(move),
            "undoes": f"M{order.undoes}" if order.undoes else None,
            "undone_by": f"M{move.undone_by}" if move.undone_by else None,
            "started_ms": move.started_ms,
            "ended_ms": move.ended_ms or None,
            "result": None if move.is_running else _result(move),
            "error": move.error or None,
        }


class _Counted:
    """The result of a dry run, set by the broker at the end."""

    def __init__(self) -> None:
        self.answer: Final[asyncio.Future[tuple[int, int]]] = asyncio.get_running_loop().create_future()

    def may_go_on(self, count: int) -> bool:
        return not self.answer.cancelled()

    def on_finished(self, count: int, skipped: int) -> None:
        if not self.answer.done():
            self.answer.set_result((count, skipped))


def _user(arguments: Mapping[str, object]) -> str:
    operator = arguments.get(OPERATOR)
    return operator.user if isinstance(operator, Operator) else ""


def _result(move: Move) -> list[View]:
    order = move.order
    if order.verb == UNDO:
        return [{"task": f"M{order.undoes}", "returned": move.processed, "gone": move.gone, "in_use": move.in_use}]
    results = list(move.results)
    if len(results) < len(order.sources):  # it was cancelled
        results.append((move.count, move.passed))
    word = DONE_WORDS[order.verb]
    return [
        {"destination": source.qualified_name, word: count, "left": left}
        for source, (count, left) in zip(order.sources, results, strict=False)
    ]
