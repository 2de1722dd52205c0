"""``spanwire bridge run`` that stands still at one action, until a signal: ``python -m tests.support.bridge_victim``.

    python -m tests.support.bridge_victim FILE ACTION:before|after:NUMBER

ACTION is the name of a class in `spanwire.bridges.engine.dialogue`; the process stops itself before or after the action
of this number, and says so on standard error. SIGCONT lets it go on.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

from spanwire.bridges.engine.dialogue import Action, Event
from spanwire.bridges.running.runner import BridgeRunner
from spanwire.cli.main import main

AT_POINT: Final = "at the point"


class Point:
    """Counts actions."""

    def __init__(self, text: str) -> None:
        self._action, self._moment, number = text.split(":")
        self._left = int(number)

    def passes(self, action: Action, moment: str) -> None:
        """Stand still if this is the point."""
        if moment != self._moment or type(action).__name__ != self._action:
            return
        self._left -= 1
        if self._left == 0:
            sys.stderr.write(f"{AT_POINT}\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGSTOP)


def run(file: str, text: str) -> int:
    """Run the bridges of a file."""
    point = Point(text)
    perform = BridgeRunner._perform

    async def performed(runner: BridgeRunner, action: Action) -> Event:
        point.passes(action, "before")
        event = await perform(runner, action)
        point.passes(action, "after")
        return event

    BridgeRunner._perform = performed  # type: ignore[method-assign, assignment]
    return main(["bridge", "run", file])


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:3]))
