"""``make bench-floors``: the least that this machine takes for a round trip over loopback and for a sync of the disk.

A synchronous send costs at least one round trip, and a persistent one a sync besides. Rates of `make bench` say little
without these two figures of the same hour: both depend on the machine and on whatever else runs on it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
REQUEST_BYTES: Final = 1300  # an OpenWire message with a body of 1 KiB
ANSWER_BYTES: Final = 15  # the answer to it
ROUND_TRIPS: Final = 20_000
SYNCS: Final = 2_000
WRITE_BYTES: Final = 1200  # a batch of the journal with one message of 1 KiB
SLOW_SYNC: Final = 0.001  # seconds
ECHO_DEADLINE: Final = 120.0  # seconds


@dataclass(frozen=True)
class Echo:
    """Round trips with a server in C, and the processor time of that server for one of them."""

    per_second: float
    p50_us: float
    p99_us: float
    server_cpu_us: float


def compile_echo(directory: Path) -> Path:
    """Compile the echo server and its client into ``directory``."""
    program = directory / "echo"
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", str(program), str(HERE / "loads" / "echo.c")], check=True)
    return program


def measure_echo(program: Path, with_epoll: bool, round_trips: int = ROUND_TRIPS) -> Echo:
    """Time round trips of a request as large as a message of 1 KiB."""
    arguments = [str(program), str(REQUEST_BYTES), str(ANSWER_BYTES), str(round_trips), str(int(with_epoll))]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=ECHO_DEADLINE, check=True)
    return Echo(**json.loads(done.stdout))


def measure_syncs(directory: Path, syncs: int = SYNCS, write_bytes: int = WRITE_BYTES) -> list[float]:
    """Return the seconds of each synced write, one after the other, into a file that has its place on the disk.

    Each is written and synced in one call where the system can do that, as the journal does.
    """
    path = directory / "floor"
    path.write_bytes(bytes(syncs * write_bytes))
    flags = getattr(os, "RWF_DSYNC", 0)
    block = b"x" * write_bytes
    descriptor = os.open(path, os.O_RDWR)
    seconds: list[float] = []
    try:
        os.fsync(descriptor)
        for number in range(syncs):
            start = time.perf_counter()
            os.pwritev(descriptor, [block], number * write_bytes, flags)
            if not flags:
                os.fdatasync(descriptor)
            seconds.append(time.perf_counter() - start)
    finally:
        os.close(descriptor)
        path.unlink()
    return seconds


def sync_line(seconds: list[float]) -> str:
    """Return a line about syncs."""
    cuts = statistics.quantiles(seconds, n=100)
    slow = sum(each > SLOW_SYNC for each in seconds) / len(seconds)
    return (
        f"{len(seconds) / sum(seconds):>8.0f}/s   p50 {cuts[49] * 1e6:>6.0f} µs   p99 {cuts[98] * 1e6:>6.0f} µs   "
        f"above {SLOW_SYNC * 1e3:g} ms: {slow:.1%}"
    )


def echo_line(echo: Echo) -> str:
    """Return a line about round trips."""
    return (
        f"{echo.per_second:>8.0f}/s   p50 {echo.p50_us:>6.1f} µs   p99 {echo.p99_us:>6.1f} µs   "
        f"server's CPU {echo.server_cpu_us:.1f} µs"
    )


def floors(work: Path, directory: Path) -> dict[str, str]:
    """Measure both floors, one line for each; ``directory`` is on the disk to be synced."""
    program = compile_echo(work)
    return {
        "round trip, blocking server": echo_line(measure_echo(program, with_epoll=False)),
        "round trip, server with epoll": echo_line(measure_echo(program, with_epoll=True)),
        "write and sync": sync_line(measure_syncs(directory)),
    }


def main() -> None:
    """One line for each floor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--directory", type=Path, help="a directory on the disk to be synced; default: for temporary files"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spanwire-bench-", dir=options.directory) as name:
        for label, line in floors(Path(name), Path(name)).items():
            sys.stdout.write(f"{label:30} {line}\n")


if __name__ == "__main__":
    main()
