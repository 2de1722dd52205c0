"""Reads memory, clock and file systems from the kernel of Linux; other systems give unknown values."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Final

from spanwire.service.doctor.facts import Clock, Memory

PROC: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")
NO_LIMIT_V1: Final = 1 << 60  # a first version of cgroups without a limit shows the highest page of 64 bits
MAX_FILE_BYTES: Final = 1024 * 1024  # bytes read of a file of the kernel; a machine with 10,000 mounts has as many
LEAP_SECONDS: Final = {1: 1, 2: -1}  # TIME_INS and TIME_DEL of adjtimex(2)


class Timex(ctypes.Structure):
    """``struct timex`` of adjtimex(2), from Linux' ``uapi/linux/timex.h``."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long),
        ("rest", ctypes.c_long * 32),  # more than the kernel writes
    ]


def clock() -> Clock:
    """Return the state of the wall clock. Needs no rights."""
    try:
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return Clock(False)
    timex = Timex()
    state = adjtimex(ctypes.byref(timex))
    if state < 0:
        return Clock(False)
    return Clock(True, int(timex.maxerror), LEAP_SECONDS.get(state, 0))


def memory(proc: Path = PROC, cgroups: Path = CGROUPS) -> Memory:
    """Return the memory of this machine and the lowest limit of the cgroups around this process."""
    found = re.search(r"^MemTotal:\s+(\d+) kB$", _text(proc / "meminfo"), re.MULTILINE)
    total = None if found is None else int(found[1]) * 1024
    limits = _cgroup_limits(proc, cgroups)
    if not limits:
        return Memory(total)
    limit, file = min(limits)
    return Memory(total, limit, str(file))


def _cgroup_limits(proc: Path, cgroups: Path) -> list[tuple[int, Path]]:
    """Return the limits of the process's cgroup and of the cgroups around, with the files of the limits."""
    limits = []
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers not in ("", "memory"):
            continue
        top, name = (cgroups, "memory.max") if not controllers else (cgroups / "memory", "memory.limit_in_bytes")
        group = Path(path.lstrip("/"))
        for around in (group, *group.parents):
            file = top / around / name
            text = _text(file).strip()
            if text.isascii() and text.isdigit() and int(text) < NO_LIMIT_V1:
                limits.append((int(text), file))
    return limits


def file_system(path: Path, proc: Path = PROC) -> str:
    """Return the type of the file system of ``path``, such as ``ext4``; "" for an unknown type.

    Of mounts one upon another the last one counts, as in the kernel.
    """
    target, best, kind = os.path.realpath(path), -1, ""
    for line in _text(proc / "self" / "mountinfo").splitlines():
        mounted, _, behind = line.partition(" - ")
        fields = mounted.split(" ")
        if len(fields) < 5 or not behind:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = point == "/" or target == point or target.startswith(f"{point}/")
        if inside and len(point) >= best:
            best, kind = len(point), behind.split(" ")[0]
    return kind


def _text(path: Path) -> str:
    """Return the text of a file of the kernel, "" if there is none."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
