"""Bridges that run in this process until their sources are empty, in the event loop of the bridge's process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from spanwire.bridges.engine.counters import BridgeStatus
from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.jars import with_jars
from spanwire.bridges.running.process import BridgeProcess
from spanwire.routes.readers.placeholders import Placeholders
from spanwire.service.machine.event_loop import loop_factory

WAIT_S = 180.0  # beside other tests on two processors


def forward(source_url: str, source: str, target_url: str, target: str, **words: str) -> BridgeStatus:
    """Run a bridge with these parameters, in TOML, until its source is empty. Returns its last status."""
    return _forward(_lines(source_url, source, target_url, target, words), None)


def forward_once(
    source_url: str, source: str, target_url: str, target: str, transactions: Path, **words: str
) -> BridgeStatus:
    """Run a bridge with ONCE_AND_ONLY_ONCE, whose decisions are in ``transactions``, until its source is empty."""
    words["qualityOfServiceMode"] = '"ONCE_AND_ONLY_ONCE"'
    return _forward(_lines(source_url, source, target_url, target, words), transactions)


def forward_file(text: str, jars: Path | None = None) -> BridgeStatus:
    """Run the only bridge of a file until its source is empty. Returns its last status."""
    return _forward(text.splitlines(), None, jars)


def _lines(source_url: str, source: str, target_url: str, target: str, words: dict[str, str]) -> list[str]:
    return [
        "[bridges.test]",
        f'sourceConnectionFactory = "{source_url}"',
        f'sourceDestination = "{source}"',
        f'targetConnectionFactory = "{target_url}"',
        f'targetDestination = "{target}"',
        *(f"{name} = {value}" for name, value in words.items()),
    ]


def _forward(lines: list[str], transactions: Path | None, jars: Path | None = None) -> BridgeStatus:
    definitions = with_jars(read_bridges("\n".join(lines).encode(), "test.toml", Placeholders({}, {})), jars)

    async def run() -> BridgeStatus:
        process = BridgeProcess(definitions, lambda line: None, ends_when_empty=True, transactions=transactions)
        async with asyncio.timeout(WAIT_S):
            await process.run()
        return process.statuses()[0]

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run())
