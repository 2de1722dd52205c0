"""``spanwire bridge run`` that stands still at one action, until a signal: ``python -m tests.support.bridge_victim``.

    python -m tests.support.bridge_victim FILE ACTION:before|after:NUMBER [OPTION…]

ACTION is the name of a class in `spanwire.bridges.engine.dialogue`; the process stops itself before or after the action
of this number, and says so on standard error. SIGCONT lets it go on, slowly: messages have to be left when a test on a
busy machine ends it. What a link does behind the actions has names, too: Store waits for the target, and Acknowledged
for the source.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from spanwire.bridges.engine.dialogue import Action, Event
from spanwire.bridges.running import links
from spanwire.bridges.running.runner import BridgeRunner
from spanwire.cli.main import main

Result = TypeVar("Result")
Work = Callable[[], Awaitable[None]]

AT_POINT: Final = "at the point"
SLOW_S: Final = 0.05  # before each action behind the point


class Point:
    """Counts actions."""

    def __init__(self, text: str) -> None:
        self._action, self._moment, number = text.split(":")
        self._left = int(number)

    def passes(self, action: str, moment: str) -> None:
        """Stand still if this is the point."""
        if moment != self._moment or action != self._action:
            return
        self._left -= 1
        if self._left == 0:
            sys.stderr.write(f"{AT_POINT}\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGSTOP)

    async def around(self, action: str, work: Awaitable[Result]) -> Result:
        """Do a work with a point before and behind it."""
        if self._left <= 0:
            await asyncio.sleep(SLOW_S)
        self.passes(action, "before")
        result = await work
        self.passes(action, "after")
        return result


def run(file: str, text: str, *options: str) -> int:
    """Run the bridges of a file."""
    point = Point(text)
    perform = BridgeRunner._perform

    async def performed(runner: BridgeRunner, action: Action) -> Event:
        return await point.around(type(action).__name__, perform(runner, action))

    async def complete(stored: Work, acknowledged: Work, on_completed: Callable[[], None]) -> None:
        await point.around("Store", stored())
        await point.around("Acknowledged", acknowledged())
        on_completed()

    BridgeRunner._perform = performed  # type: ignore[method-assign, assignment]
    links._complete = complete
    return main(["bridge", "run", file, *options])


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
