"""The process with the bridges of a broker: the broker's commands come in, and states go out.

    → {"bridges": [definition, …], "paused": ["name", …], "convertors": "directory", "states": "directory",
       "tracing": {"endpoint": "URL"}, "follow": false}        the first line
    → {"pause": ["name", …]}    {"resume": […]}    {"restart": […]}
    → {"remove": ["name", …], "bridges": [definition, …], "paused": […]}       replace bridges
    → {"follow": true}    {"name": ["message id", …]}          keep steps of messages; report those of named ones
    → {"forget": ["message id", …]}                            report no more steps of these
    ← {"bridges": [status, …]}                                 the statuses that have changed
    ← {"steps": [[message id, step, location, cause, id at the target, milliseconds since 1970], …]}
    → end of the input: complete the batches, and end

Each line is one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from spanwire.bridges.engine.counters import BridgeStatus
from spanwire.bridges.files.definition_json import definition_of
from spanwire.bridges.running.convertors import Convertors
from spanwire.bridges.running.following import FollowedMessages
from spanwire.bridges.running.hosted import HostedBridges
from spanwire.bridges.running.process import link_opener
from spanwire.bridges.running.tracing import bridge_traces
from spanwire.client.io.environment import Machine

REPORT_S: Final = 0.5  # seconds between two reports; what an operator sees is as old at most
MAX_LINE: Final = 16 * 1024 * 1024  # bytes of the first line; 1,000 definitions need 1 MiB
REMOVE: Final = "remove"
FOLLOW: Final = "follow"
NAME: Final = "name"
FORGET: Final = "forget"
ACTIONS: Final = ("pause", "resume", "restart")

logger = logging.getLogger(__name__)


class BridgeChild:
    """Runs the bridges of a broker until the end of input."""

    def __init__(self, lines: asyncio.StreamReader, write: Callable[[str], None], tell: Callable[[str], None]) -> None:
        """``write`` sends a line to the broker; ``tell`` receives one line per bridge, at the first start."""
        self._lines: Final = lines
        self._write: Final = write
        self._tell: Final = tell
        self._reported: Final[dict[str, BridgeStatus]] = {}
        self._followed: Final = FollowedMessages(lambda: Machine().now().wall_ms)

    async def run(self) -> None:
        """Run the bridges of the first line."""
        first = await self._lines.readline()
        if not first:
            return
        order = json.loads(first)
        convertors = Convertors(None if order["convertors"] is None else Path(order["convertors"]))
        states = None if order.get("states") is None else Path(order["states"])
        asked = order.get("tracing")
        traces = bridge_traces(os.environ, Machine().now, asked is not None, (asked or {}).get("endpoint"))
        bridges = HostedBridges(
            [definition_of(values) for values in order["bridges"]],
            self._tell,
            order["paused"],
            opener=lambda definition: link_opener(definition, convertors, states),
            traces=traces,
            followed=self._followed,
        )
        self._followed.follow(order.get(FOLLOW) is True)
        if traces is not None:
            traces.start()
        ending = asyncio.Event()
        reports = asyncio.create_task(self._report_regularly(bridges))
        commands = asyncio.create_task(self._read_commands(bridges, ending))
        try:
            await bridges.run(ending)
        finally:
            reports.cancel()
            commands.cancel()
            await asyncio.gather(reports, commands, return_exceptions=True)
        self._report(bridges)
        if traces is not None:
            await asyncio.to_thread(traces.stop)

    async def _read_commands(self, bridges: HostedBridges, ending: asyncio.Event) -> None:
        try:
            while line := await self._lines.readline():
                command: dict[str, Any] = json.loads(line)
                for action in ACTIONS:
                    bridges.command(action, command.get(action, ()))
                if FOLLOW in command:
                    self._followed.follow(command[FOLLOW])
                self._followed.name(command.get(NAME, ()))
                self._followed.forget(command.get(FORGET, ()))
                if REMOVE in command:
                    await self._replace(bridges, command)
                await asyncio.sleep(0)
                self._report(bridges)
        finally:
            ending.set()

    async def _replace(self, bridges: HostedBridges, command: dict[str, Any]) -> None:
        definitions = [definition_of(values) for values in command["bridges"]]
        await bridges.replace(command[REMOVE], definitions, command["paused"])
        for name in command[REMOVE]:
            self._reported.pop(name, None)

    async def _report_regularly(self, bridges: HostedBridges) -> None:
        while True:
            self._report(bridges)
            await asyncio.sleep(REPORT_S)

    def _report(self, bridges: HostedBridges) -> None:
        changed = [status for status in bridges.statuses() if self._reported.get(status.name) != status]
        report: dict[str, object] = {}
        if changed:
            self._reported.update({status.name: status for status in changed})
            report["bridges"] = [{**asdict(one), "state": one.state.value} for one in changed]
        steps = self._followed.take()
        if steps:
            report["steps"] = steps
        if not report:
            return
        try:
            self._write(json.dumps(report) + "\n")
        except OSError:  # the broker is gone, and the end of the input follows
            logger.debug("the broker reads no more states")
