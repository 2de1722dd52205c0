"""Tasks: operations beyond the answer to the request, with progress, result and cancel."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, Protocol

from spanwire.broker.security.audit_log import of_user
from spanwire.management.handles import OPERATOR, Operator
from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.transports.base import Clock

View = dict[str, object]
Operation = Callable[[Mapping[str, object]], Awaitable[object]]
MAX_TASKS: Final = 100  # tasks of one broker, those that have ended among them; the oldest of these makes room
KEPT_S: Final = 3_600.0  # seconds that a task is shown after its end
MAX_SOURCES: Final = 200  # characters of the names of its queues
MAX_RESULT: Final = 10_000  # characters of a result as JSON
AS_TASK: Final = "as_task"  # the argument that makes a task of an operation
PROGRESS: Final = "progress"  # the argument in which operations find their progress

RUNNING: Final = "running"
DONE: Final = "done"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

logger = logging.getLogger(__name__)
audit = logging.getLogger("spanwire.audit")


class Progress:
    """The count of an operation's processed messages, and the wish to end the operation."""

    def __init__(self) -> None:
        self.processed = 0
        self.is_cancelled = False


class Task:
    """One operation under way or complete; times are milliseconds since 1970."""

    def __init__(self, number: int, operation: str, sources: str, user: str, started_ms: int) -> None:
        self.id: Final = str(number)
        self.sources: Final = sources
        self.operation: Final = operation
        self.user: Final = user
        self.started_ms: Final = started_ms
        self.ended_ms: int | None = None
        self.ends = 0.0  # monotonic seconds at which the ended task is forgotten
        self.state = RUNNING
        self.progress: Final = Progress()
        self.result: object = None
        self.error: str | None = None

    def view(self) -> View:
        """Return the task as a row."""
        return {
            "id": self.id,
            "operation": self.operation,
            "sources": self.sources,
            "target": None,
            "user_name": self.user,
            "state": self.state,
            "waits_for": None,
            "processed": self.progress.processed,
            "left": 0,
            "looked": None,
            "total": None,
            "seconds_left": None,
            "rate": None,
            "undoable": 0,
            "undoes": None,
            "undone_by": None,
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            "result": self.result,
            "error": self.error,
        }


class KeptTasks(Protocol):
    """Tasks of one kind that others keep: the store, such as moves, or programs. Their ids begin with a letter."""

    def views(self) -> Iterator[View]:
        """Yield the tasks as rows, the oldest first."""
        ...

    async def cancel(self, arguments: Mapping[str, object]) -> View:
        """End the task ``id`` soon. Raises `SpanwireError`."""
        ...

    async def resume(self, arguments: Mapping[str, object]) -> View:
        """Go on with the cancelled or failed task ``id``. Raises `SpanwireError`."""
        ...

    async def undo(self, arguments: Mapping[str, object]) -> View:
        """Begin to take back what the task ``id`` has done. Raises `SpanwireError`."""
        ...


class Tasks:
    """The tasks of one broker; ``kept`` has those that the store keeps, by the first letter of their ids."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._tasks: Final[dict[str, Task]] = {}
        self._running: Final[set[asyncio.Task[None]]] = set()
        self._last = 0
        self.kept: Final[dict[str, KeptTasks]] = {}

    def startable(self, name: str, operation: Operation) -> Operation:
        """Return ``operation`` in another form: a task if the argument `AS_TASK` is true."""

        async def called(arguments: Mapping[str, object]) -> object:
            if arguments.get(AS_TASK) is not True:
                return await operation(arguments)
            return self._start(name, operation, arguments)

        return called

    def _start(self, name: str, operation: Operation, arguments: Mapping[str, object]) -> View:
        self._make_room()
        self._last += 1
        operator = arguments.get(OPERATOR)
        user = operator.user if isinstance(operator, Operator) else ""
        names = arguments.get("destinations")
        sources = ", ".join(map(str, names))[:MAX_SOURCES] if isinstance(names, list) else ""
        task = self._tasks[str(self._last)] = Task(self._last, name, sources, user, self._clock.now().wall_ms)
        running = asyncio.get_running_loop().create_task(self._run(task, operation, arguments))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return {"task": task.id}

    def _make_room(self) -> None:
        now = self._clock.now().monotonic
        ended = [task for task in self._tasks.values() if task.state != RUNNING]
        for task in ended:
            if task.ends <= now:
                del self._tasks[task.id]
        if len(self._tasks) < MAX_TASKS:
            return
        oldest = next((task for task in ended if task.id in self._tasks), None)
        if oldest is None:
            raise ConfigurationError(f"{MAX_TASKS} tasks are running: wait for one, or cancel one")
        del self._tasks[oldest.id]

    async def _run(self, task: Task, operation: Operation, arguments: Mapping[str, object]) -> None:
        try:
            result = await operation({**arguments, PROGRESS: task.progress})
            task.result = result if len(json.dumps(result)) <= MAX_RESULT else None
            task.state = CANCELLED if task.progress.is_cancelled else DONE
        except SpanwireError as error:
            task.state, task.error = FAILED, str(error)
        except Exception:
            logger.exception("the task %s failed", task.operation)
            task.state, task.error = FAILED, "the broker's log says why"
        now = self._clock.now()
        task.ended_ms, task.ends = now.wall_ms, now.monotonic + KEPT_S
        processed = task.progress.processed
        audit.info(
            "task %s%s: %s %s, %d messages",
            task.id, of_user(task.user), task.operation, task.state, processed,
        )  # fmt: skip

    def views(self) -> Iterator[View]:
        """Yield the tasks, the oldest first, then the tasks kept by the broker."""
        now = self._clock.now().monotonic
        for task in list(self._tasks.values()):
            if task.state == RUNNING or task.ends > now:
                yield task.view()
        for kept in self.kept.values():
            yield from kept.views()

    async def cancel(self, arguments: Mapping[str, object]) -> View:
        """End the task ``id`` after the next slice; the completed part stays.

        Raises:
            ConfigurationError: there is no such task, or the task has ended
        """
        kept = self.kept.get(str(arguments.get("id"))[:1])
        if kept is not None:
            return await kept.cancel(arguments)
        task = self._found(arguments)
        if task.state != RUNNING:
            raise ConfigurationError(f"the task {task.id} is {task.state}")
        task.progress.is_cancelled = True
        return task.view()

    async def resume(self, arguments: Mapping[str, object]) -> View:
        """Go on with the cancelled or failed task ``id``, if the store keeps it.

        Raises:
            SpanwireError: there is no such task, it runs or is done, or it cannot go on
        """
        return await self._kept(arguments, "resume").resume(arguments)

    async def undo(self, arguments: Mapping[str, object]) -> View:
        """Begin to take back what the task ``id`` has done, as a task of its own.

        Raises:
            SpanwireError: there is no such task, it runs, or it has no undo
        """
        return await self._kept(arguments, "undo").undo(arguments)

    def _found(self, arguments: Mapping[str, object]) -> Task:
        task = self._tasks.get(str(arguments.get("id")))
        if task is None:
            raise ConfigurationError(f"there is no task {str(arguments.get('id'))[:40]}")
        return task

    def _kept(self, arguments: Mapping[str, object], wish: str) -> KeptTasks:
        kept = self.kept.get(str(arguments.get("id"))[:1])
        if kept is None:
            task = self._found(arguments)
            raise ConfigurationError(f"the task {task.id} is a {task.operation}, which has no {wish}")
        return kept
