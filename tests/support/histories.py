"""Histories of runs with faults: what happened, under which seed, on which commit, and the one command to replay it.

They go to ``out/soak`` (or where SPANWIRE_HISTORIES says), one file of JSON lines each. The first line tells the rest.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DIRECTORY: Final = Path(os.environ.get("SPANWIRE_HISTORIES", ROOT / "out" / "soak"))
MAX_LINES: Final = 1_000_000  # of one history; more would be a flood, not a history


def commit() -> str:
    """The commit of the working tree, with a plus when something in it differs; "unknown" outside of git."""
    try:
        head = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            cwd=ROOT, capture_output=True, text=True, check=True, timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return head.stdout.strip()


def keep(name: str, seed: int, verdict: str, replay: str, lines: Iterable[str] = ()) -> Path:
    """Write a history; the file it went to."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    path = DIRECTORY / f"{name}-{seed}.jsonl"
    head = {"name": name, "seed": seed, "commit": commit(), "replay": replay, "verdict": verdict}
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head) + "\n")
        for count, line in enumerate(lines):
            if count == MAX_LINES:
                file.write(json.dumps({"cut off after lines": MAX_LINES}) + "\n")
                break
            file.write(line + "\n")
    return path
