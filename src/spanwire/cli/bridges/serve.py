"""``spanwire bridge serve``: the process with the bridges of a broker, started by the broker alone."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from typing import Final

from spanwire.bridges.running.child import MAX_LINE, BridgeChild
from spanwire.cli.arguments import Parser
from spanwire.logs.lines import JSON, begin_log
from spanwire.service.machine.event_loop import loop_factory

LEVELS: Final = ("debug", "info", "warning", "error", "critical")

logger = logging.getLogger("spanwire.bridges")  # the broker takes records of this package


def run(arguments: Sequence[str]) -> int:
    """Run the bridges from standard input, until the end of the input."""
    parser = Parser(prog="spanwire bridge serve", description="Run the bridges of a broker, which starts this command.")
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="the lowest level of log lines")
    options = parser.parse(arguments)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a service manager may send the broker's to all processes
    begin_log(str(options.log_level), JSON)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve())
    return 0


async def _serve() -> None:
    lines = asyncio.StreamReader(limit=MAX_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await BridgeChild(lines, _write, lambda line: logger.info("%s", line)).run()


def _write(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()
