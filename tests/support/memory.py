"""What a process takes, read from /proc (Linux), and whether it grows: a median early and late, and a line through the
last half of the values.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Final

PART: Final = 10  # a tenth of the time is compared with another one


def memory_mib(pid: int) -> float:
    """Memory of a process in MiB, with its part of what it shares with others; 0 for one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return 0.0
    return round(sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024, 1)


def an_hour_adds(minutes: list[float], values: list[float]) -> float:
    """The slope of a line through the last half of the values, for an hour."""
    half = len(values) // 2
    if len(values) - half < 2:
        return 0.0
    return round(statistics.linear_regression(minutes[half:], values[half:]).slope * 60, 3)


def summary(rows: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """For each figure the median of an early and of the last tenth, its greatest value, and what an hour adds."""
    part = max(1, len(rows) // PART)
    minutes = [row["minute"] for row in rows]
    found = {}
    for name in rows[0]:
        if name == "minute":
            continue
        values = [row[name] for row in rows]
        found[name] = {
            "early": statistics.median(values[part : 2 * part] or values),
            "late": statistics.median(values[-part:]),
            "most": max(values),
            "an_hour_adds": an_hour_adds(minutes, values),
        }
    return found
