"""The web process's link to the broker, and snapshots in place of repeated requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from spanwire.management.control_client import ControlClient, ControlError
from spanwire.management.tables.operation_table import OPERATIONS, TRACE_DRY_RUN, WHY
from spanwire.web.mirror import DestinationMirror

MAX_REQUESTS: Final = 8  # requests to the broker at a time, and operations; the control socket takes 32 clients
TIMEOUT_S: Final = 10.0  # seconds; a broker that does not answer for so long is not alive
OPERATION_S: Final = 60.0  # seconds for an operation, such as a purge of some million messages; it then goes on alone
MAX_AGE_S: Final = 1.0  # seconds that a snapshot is served; so each view costs the broker one request a second
DESTINATIONS: Final = "destinations"
EXPLAINED: Final = (WHY.command, TRACE_DRY_RUN.command)  # questions that may be asked of a whole network
OPERATING: Final = frozenset(operation.command for operation in OPERATIONS)
EXPLAINING: Final = 2  # threads for questions why; the broker searches for one message at a time
MAX_EXPLAINING: Final = 8  # questions why at a time; each may take some ten seconds
CHANGING: Final = OPERATING - {"browse", "browse-subscription"}  # operations after which views are made again


class Link(Protocol):
    """Asks the broker."""

    async def ask(self, command: str, **arguments: object) -> object:
        """Return the result of a command. Raises `ControlError`."""
        ...


class Client(Protocol):
    """The part of `ControlClient` used here."""

    def ask(self, command: str, **arguments: object) -> object:
        """Return the result of a command. Raises `ControlError`."""
        ...


class ControlLink:
    """Asks over the control socket, in threads, because the client blocks.

    Operations delay no reading, and questions why, which viewers may ask, delay no operation.
    """

    def __init__(self, directory: Path, client: Callable[[Path, float], Client] = ControlClient) -> None:
        self._reading: Final = client(directory, TIMEOUT_S), ThreadPoolExecutor(MAX_REQUESTS)
        self._operating: Final = client(directory, OPERATION_S), ThreadPoolExecutor(MAX_REQUESTS)
        self._explaining: Final = client(directory, OPERATION_S), ThreadPoolExecutor(EXPLAINING)
        self._questions = 0

    async def ask(self, command: str, **arguments: object) -> object:
        """Return the result of a command. Raises `ControlError`."""
        if command in EXPLAINED:
            return await self._explain(command, arguments)
        client, threads = self._operating if command in OPERATING else self._reading
        return await asyncio.get_running_loop().run_in_executor(threads, partial(client.ask, command, **arguments))

    async def _explain(self, command: str, arguments: dict[str, object]) -> object:
        if self._questions >= MAX_EXPLAINING:
            raise ControlError(f"{MAX_EXPLAINING} questions of this kind are being answered: try again")
        client, threads = self._explaining
        ask = partial(client.ask, command, **arguments)
        self._questions += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, ask)
        finally:
            self._questions -= 1


class Snapshots:
    """Answers to reading commands without arguments, shared by all requests of `MAX_AGE_S` seconds.

    A view is the same for every caller who may see it (`spanwire.web.calls.Call.view` checks the role), so one caller's
    answer serves the others. A refusal concerns the asking caller alone.
    """

    def __init__(self, link: Link, now: Callable[[], float] = time.monotonic) -> None:
        self._link: Final = link
        self.now: Final = now
        self._mirror: Final = DestinationMirror(link)
        self._costs: Final[dict[str, int]] = {}
        self._answers: Final[dict[str, tuple[float, asyncio.Task[object]]]] = {}

    async def answer(self, command: str, handle: str = "") -> object:
        """Return a recent answer to ``command``; requests at the same time wait for one answer.

        Raises:
            ControlError: the broker does not answer, or refuses; the next request asks again
        """
        made_at, task = self._answers.get(command, (0.0, None))
        is_own = task is None or self.now() - made_at >= MAX_AGE_S
        if task is None or is_own:
            task = asyncio.get_running_loop().create_task(self._asked(command, handle))
            self._answers[command] = (self.now(), task)
        try:
            return await asyncio.shield(task)
        except BaseException as error:
            if self._answers.get(command, (0.0, None))[1] is task and task.done():
                del self._answers[command]
            if not is_own and isinstance(error, ControlError) and error.code:
                return await self.answer(command, handle)  # the other caller was refused, or has a login that ended
            raise

    def forget(self) -> None:
        """Drop all answers after an operation, so the caller sees the change at once."""
        self._answers.clear()

    def forget_older(self, command: str, moment: float) -> bool:
        """Drop the answer to one command if it was asked for before a moment. Return True if so."""
        made_at, _ = self._answers.get(command, (moment, None))
        if made_at >= moment:
            return False
        del self._answers[command]
        return True

    def cost(self, command: str) -> int:
        """Return the number of the broker's rows for the last answer."""
        return self._costs.get(command, 0)

    async def _asked(self, command: str, handle: str) -> object:
        if command == DESTINATIONS:
            rows = await self._mirror.rows(handle)
            self._costs[command] = self._mirror.cost
            return rows
        answer = await self._ask(command, handle)
        self._costs[command] = len(answer) if isinstance(answer, list) else 1
        return answer

    async def _ask(self, command: str, handle: str) -> object:
        return await (self._link.ask(command, handle=handle) if handle else self._link.ask(command))
