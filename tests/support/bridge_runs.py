"""Bridges that run in this process until their sources are empty."""

from __future__ import annotations

import asyncio

from spanwire.bridges.engine.counters import BridgeStatus
from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.running.process import BridgeProcess
from spanwire.routes.placeholders import Placeholders

WAIT_S = 60.0


def forward(source_url: str, source: str, target_url: str, target: str, **words: str) -> BridgeStatus:
    """Run a bridge with these parameters, in TOML, until its source is empty. Returns its last status."""
    lines = [
        "[bridges.test]",
        f'sourceConnectionFactory = "{source_url}"',
        f'sourceDestination = "{source}"',
        f'targetConnectionFactory = "{target_url}"',
        f'targetDestination = "{target}"',
        *(f"{name} = {value}" for name, value in words.items()),
    ]
    definitions = read_bridges("\n".join(lines).encode(), "test.toml", Placeholders({}, {}))

    async def run() -> BridgeStatus:
        process = BridgeProcess(definitions, lambda line: None, ends_when_empty=True)
        async with asyncio.timeout(WAIT_S):
            await process.run()
        return process.statuses()[0]

    return asyncio.run(run())
