"""Writes a decision log and what must be read of it: ``python -m tests.vectors.decisions.make FORMAT``."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from spanwire.bridges.xa.branches import Side
from spanwire.bridges.xa.decision_log import DecisionLog
from spanwire.bridges.xa.log_file import LogFile
from spanwire.bridges.xa.records import Decision, Heuristic

HERE: Final = Path(__file__).resolve().parent
COUNT: Final = 40
CARRIED_OUT: Final = 25
CUT_OFF: Final = 20  # bytes of the last line, which a crash left out
AT_MS: Final = 1_790_000_000_000


def decision(number: int, log_id: str) -> Decision:
    """The decision of a batch."""
    bridge = ("orders", "Lager-Süd")[number % 2]
    name = f"bridge:{log_id}:{number}"
    return Decision(name, bridge, "tcp://near:61616", "ssl://far:61617", number % 7 + 1, AT_MS + number)


def heuristic(one: Decision) -> Heuristic:
    """The report of a branch that somebody else has finished."""
    return Heuristic(one.transaction, one.bridge, Side.TARGET, "rolled back by an operator", AT_MS)


async def write(folder: Path) -> tuple[str, list[Decision], Heuristic]:
    """Fill a log; return its id, the decisions that are not carried out, and the branch that somebody has finished."""
    log = DecisionLog(LogFile(folder), folder)
    decisions = [decision(number, log.log_id) for number in range(COUNT)]
    for one in decisions:
        await log.decide(one)
    for one in decisions[:CARRIED_OUT]:
        log.finish(one.transaction)
    lost = heuristic(decisions[-1])
    await log.report(lost)
    await log.decide(decision(COUNT, log.log_id))
    log.close()
    return log.log_id, decisions[CARRIED_OUT:], lost


def make(name: str) -> None:
    """Write ``NAME.octets`` and ``NAME.json``."""
    with tempfile.TemporaryDirectory() as folder:
        log_id, pending, lost = asyncio.run(write(Path(folder)))
        content = LogFile(Path(folder)).path.read_bytes()
    (HERE / f"{name}.octets").write_bytes(content[:-CUT_OFF])
    expected = {
        "log": log_id,
        "decided": COUNT,
        "pending": {one.transaction: [one.bridge, one.source, one.target, one.messages, one.at_ms] for one in pending},
        "heuristic": [lost.transaction, lost.bridge, lost.side.value, lost.problem, lost.at_ms],
    }
    (HERE / f"{name}.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    make(f"format-{sys.argv[1]}")
