"""Processor time and memory of a process and all below it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
import time
from collections.abc import Collection
from pathlib import Path

END_S = 600.0  # for a collection of a large heap on a busy machine
TICKS = float(os.sysconf("SC_CLK_TCK"))
MIB = 1024 * 1024
LOOK_S = 1.0
PARTS_S = 0.25  # between two looks at the parts; what a process works after its last look counts as the rest
# A part of the command line of a Python process that Spark starts, and the part of a run that it is.
PYTHON_PARTS = {
    "python_streaming_source_runner": "receiving",
    "python_streaming_sink_runner": "committing",
    "pyspark.daemon": "Python of the tasks",
    "create_data_source": "planning",
    "lookup_data_sources": "planning",
    "plan_data_source_read": "planning",
    "write_into_data_source": "planning",
}
# The beginning of the name of a thread of Java, and its part.
JAVA_PARTS = {
    "Executor task": "Java's tasks",
    "C1 Compiler": "Java's compiler",
    "C2 Compiler": "Java's compiler",
    "GC Thread": "Java's collector",
    "G1 ": "Java's collector",
}


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
            found[pid] = own_seconds(Path(f"/proc/{pid}/stat"))[1]
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


class PartsOfRun:
    """Tells the processor time of a run apart: receiving, tasks in Java and in Python, Java's compiler and collector.

    A thread looks at all processes below ``root`` a few times a second, as Spark ends those that it no longer needs.
    """

    def __init__(self, root: int, apart: Collection[int] = ()) -> None:
        """``apart`` are processes below ``root`` that are no part of the run, as a broker in Java."""
        self._root = root
        self._apart = apart
        self._first: dict[tuple[int, str], float] = {}
        self._last: dict[tuple[int, str], float] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="parts", daemon=True)

    def __enter__(self) -> PartsOfRun:
        self._first = parts_so_far(self._root, self._apart)
        self._last = dict(self._first)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._last |= parts_so_far(self._root, self._apart)

    def seconds(self) -> dict[str, float]:
        """Processor seconds of each part between the beginning and the end."""
        found: dict[str, float] = {}
        for key, last in self._last.items():
            found[key[1]] = found.get(key[1], 0.0) + last - self._first.get(key, 0.0)
        return found

    def _look(self) -> None:
        while not self._is_over.wait(PARTS_S):
            self._last |= parts_so_far(self._root, self._apart)


def parts_so_far(root: int, apart: Collection[int] = ()) -> dict[tuple[int, str], float]:
    """User and system time so far of each process below ``root`` that is a part of a run; Java's by its threads."""
    found: dict[tuple[int, str], float] = {}
    for pid in family_of(root).keys() - apart:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            part = next((part for word, part in PYTHON_PARTS.items() if word in words), "")
            if part:
                found[pid, part] = own_seconds(Path(f"/proc/{pid}/stat"))[1]
            elif Path(f"/proc/{pid}/comm").read_text().strip() == "java":
                for path in Path(f"/proc/{pid}/task").glob("[0-9]*/stat"):
                    with contextlib.suppress(OSError):  # a thread that has just ended
                        name, seconds = own_seconds(path)
                        part = next(
                            (part for word, part in JAVA_PARTS.items() if name.startswith(word)), "rest of Java"
                        )
                        found[pid, part] = found.get((pid, part), 0.0) + seconds
    return found


def own_seconds(path: Path) -> tuple[str, float]:
    """The name, and the user and system time, of the process or thread with this ``stat`` file."""
    name, _, rest = path.read_text().partition("(")[2].rpartition(")")
    fields = rest.split()
    return name, (int(fields[11]) + int(fields[12])) / TICKS
