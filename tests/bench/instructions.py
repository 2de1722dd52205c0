"""Instructions that the broker's process takes for a message, which a busy machine does not change.

    python -m tests.bench.instructions [--python PATH] [--against PATH] [--inside XML] [--by-stage] [--only NAME]

valgrind's callgrind counts the instructions of user code from start to stop of a broker, once with few messages and
once with more; their difference over that of the messages is the figure. Waiting and the kernel's share are left out:
`make bench` has those. ``memcpy`` is told apart, for how often the same bytes are copied depends on how the reads of a
socket fall. ``--against`` is the interpreter of another build, for a comparison. ``--inside`` has elements of the
broker's configuration, such as ``<tracing endpoint="http://127.0.0.1:4318"/>``; then a broker without them is the
comparison. ``--by-stage`` says what each stage of a message's way takes, with the functions that take most of it
(`tests.bench.stages`). OpenWire over HTTP has a generator in Python (`tests.bench.loads.tunnel`).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.brokers.activemq import Broker, interpreter
from tests.bench.http_ports import ask_tunnel
from tests.bench.loads.generator import Generators, compile_generators, measure
from tests.bench.loads.workloads import KIB, Workload
from tests.bench.stages import Profile, read_profile, table

MORE = 24_000
FEWER = 6  # the part of the messages that the first run has, which pays for the start of the broker
TUNNELLED = "http"
COPYING = re.compile(r"^\s*([\d,]+) .*:_*mem(?:cpy|move)\w*", re.MULTILINE)
TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
START_DEADLINE = 1_200.0  # seconds; counting slows a process some fifty times, and a busy machine as much again

COUNTED = [
    Workload("openwire queue 1p1c 1 KiB", "openwire", "queue", 1, 1, KIB, MORE, window=1_000),
    Workload("openwire queue 4p4c 1 KiB", "openwire", "queue", 4, 4, KIB, MORE, window=1_000),
    Workload("openwire queue 1p 1 KiB sync", "openwire", "queue", 1, 0, KIB, MORE, 1, synchronous=True),
    Workload("openwire queue 16p 1 KiB persistent sync", "openwire", "queue", 16, 0, KIB, MORE, 1, True, True),
    Workload("openwire topic 1p10c 1 KiB", "openwire", "topic", 1, 10, KIB, MORE, window=1_000),
    Workload("stomp queue 1p1c 1 KiB", "stomp", "queue", 1, 1, KIB, MORE, window=1_000),
    Workload(
        "stomp queue 1p1c 1 KiB, a header of its own", "stomp", "queue", 1, 1, KIB, MORE, window=1_000, numbered=True
    ),
    Workload(
        "stomp queue 4p4c 1 KiB, client-individual",
        *("stomp", "queue", 4, 4, KIB, MORE),
        window=1_000,
        individual=True,
    ),
    Workload("openwire over http 1p1c 100 B", TUNNELLED, "queue", 1, 1, 100, 2_400),
]


@dataclass(frozen=True)
class Count:
    """Instructions of user code, those that copy memory apart."""

    others: float
    copying: float

    def per_message(self, fewer: Count, messages: int) -> Count:
        """What is more than in ``fewer``, for each of ``messages``."""
        return Count((self.others - fewer.others) / messages, (self.copying - fewer.copying) / messages)


@dataclass(frozen=True)
class Run:
    """What callgrind counted in one run of a broker."""

    count: Count
    profile: Profile


def counted_run(load: Generators, python: Path, workload: Workload, directory: Path, inside: str) -> Run:
    """Start a broker under callgrind, load it, stop it, read what was counted."""
    found = directory / "callgrind"
    # On one processor the broker does not poll for input; the number of polls would depend on the generator's speed.
    command = ["taskset", "--cpu-list", "0", "valgrind", "--tool=callgrind", f"--callgrind-out-file={found}"]
    command += [str(python), "-m", "spanwire", "start"]
    command += ["xbean:{configuration}", "--log-level", "warning"]
    is_tunnelled = workload.protocol == TUNNELLED
    broker = Broker(
        "counted", command, directory, 'limit="1400 mb"', inside, patience=START_DEADLINE, is_tunnelled=is_tunnelled
    )
    try:
        if is_tunnelled:
            ask_tunnel(broker.ports[TUNNELLED], "COUNTED", workload.count, START_DEADLINE)
        else:
            measure(load, broker, workload, 1)
    finally:
        broker.stop(START_DEADLINE)
    total = TOTAL.search(found.read_text())
    if total is None:
        raise SystemExit("instructions: valgrind wrote no count")
    report = subprocess.run(
        ["callgrind_annotate", "--threshold=100", str(found)], capture_output=True, text=True, check=True
    ).stdout
    copying = sum(int(match.replace(",", "")) for match in COPYING.findall(report))
    return Run(Count(int(total[1]) - copying, copying), read_profile(found))


def per_message(load: Generators, python: Path, workload: Workload, work: Path, inside: str = "") -> Run:
    """What one message of ``workload`` takes; ``inside`` are elements of the broker's configuration."""
    few, more = [
        counted_run(load, python, replace(workload, count=messages), Path(tempfile.mkdtemp(dir=work)), inside)
        for messages in (workload.count // FEWER, workload.count)
    ]
    messages = workload.count - workload.count // FEWER
    return Run(more.count.per_message(few.count, messages), more.profile.per_message(few.profile, messages))


def main() -> None:
    """One line a workload and build."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", type=interpreter, default=Path(sys.executable), help="interpreter of the build to count"
    )
    parser.add_argument("--against", type=interpreter, help="interpreter of a build to compare with")
    parser.add_argument("--inside", default="", help="elements of <broker>, compared with a broker without them")
    parser.add_argument("--by-stage", action="store_true", help="say what each stage of a message's way takes")
    parser.add_argument("--only", default="", help="count only workloads whose name contains this")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions: valgrind is not installed: apt-get install valgrind")
    work = Path(tempfile.mkdtemp(prefix="spanwire-bench-"))
    try:
        load = compile_generators(work)
        for workload in [each for each in COUNTED if options.only in each.name]:
            run = per_message(load, options.python, workload, work, options.inside)
            count = run.count
            line = f"{workload.name:42} {count.others:8,.0f} instructions + {count.copying:6,.0f} copying"
            if options.against is not None or options.inside:
                other = per_message(load, options.against or options.python, workload, work).count
                change = (count.others / other.others - 1) * 100
                line += f", against {other.others:8,.0f} + {other.copying:6,.0f}: {change:+.1f} %"
            print(line, flush=True)
            if options.by_stage:
                print("\n".join(table(run.profile)), flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
