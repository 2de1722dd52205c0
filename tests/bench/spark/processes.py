"""Processor time and memory of a process and all below it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

END_S = 600.0  # for a collection of a large heap on a busy machine
TICKS = float(os.sysconf("SC_CLK_TCK"))
MIB = 1024 * 1024
LOOK_S = 1.0


def family_of(root: int) -> dict[int, tuple[float, float]]:
    """CPU seconds and resident MiB of a process and all below it. Who has ended counts when waited for."""
    found: dict[int, tuple[int, float, float]] = {}
    page = os.sysconf("SC_PAGE_SIZE")
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        cpu = sum(int(field) for field in fields[11:15]) / TICKS
        found[int(path.parent.name)] = (int(fields[1]), cpu, int(fields[21]) * page / MIB)
    family = {root}
    while True:
        grown = family | {pid for pid, (parent, _, _) in found.items() if parent in family}
        if grown == family:
            break
        family = grown
    return {pid: found[pid][1:] for pid in family if pid in found}


def cpu_seconds(root: int) -> float:
    """User and system time of a process and all below it."""
    return sum(cpu for cpu, _ in family_of(root).values())


def cpu_seconds_in(root: int, seconds: float) -> float:
    """User and system time that a process and all below it take in the next ``seconds``.

    Spark ends Python processes that have been idle for a minute, and their time of before goes with them; so each
    process is looked at again and again.
    """
    first: dict[int, float] = own_cpu(root)
    last = dict(first)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(LOOK_S, left))
        last |= own_cpu(root)
    return sum(cpu - first.get(pid, 0.0) for pid, cpu in last.items())


def own_cpu(root: int) -> dict[int, float]:
    """User and system time of each process of the family so far, without that of its children."""
    found: dict[int, float] = {}
    for pid in family_of(root):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            found[pid] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def live_heap(root: int) -> float:
    """MiB of the objects that a full collection leaves to the Java process below ``root``.

    They are counted in the collection's own stop, as a batch may allocate tens of MiB until somebody looks at the heap.
    """
    for pid in java_processes(root):
        command = ["jcmd", str(pid), "GC.class_histogram"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=END_S, check=True).stdout
        found = re.search(r"^Total +\d+ +(\d+)", told, re.MULTILINE)
        if found is not None:
            return int(found[1]) / MIB
    raise SystemExit("bench: no Java process tells of its heap")


def java_processes(root: int) -> set[int]:
    """Those below ``root``."""
    found: set[int] = set()
    for pid in family_of(root):
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
                found.add(pid)
        except OSError:
            continue
    return found
