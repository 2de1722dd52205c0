"""Instructions that the middle one of three brokers in a row takes for a message, which a busy machine does not change.

    python -m tests.bench.networks.instructions [--python PATH] [--against PATH] [--messages 10000]

valgrind's callgrind counts the instructions of user code of that broker while the messages of `network_chain` pass, and
nothing of its start. The kernel's share is left out, and ``memcpy`` is told apart: `make bench-network` has times.
``--against`` is the interpreter of another build, for a comparison.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.bench.brokers.activemq import Broker, interpreter, spanwire
from tests.bench.instructions import COPYING, START_DEADLINE, TOTAL, Count
from tests.bench.loads.generator import Generators, compile_generators
from tests.bench.loads.workloads import Workload
from tests.bench.networks.chain import CONNECTOR, INSIDE, WORKLOADS

WARM_UP = 2_000  # messages
WINDOW = 1_000  # of the producer, so that no queue grows long in a process that is fifty times slower
RUN_DEADLINE = 600.0  # seconds


def counting(python: Path, directory: Path, inside: str, found: Path) -> Broker:
    """A broker under callgrind, which writes to ``found``."""
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={found}", str(python), "-m", "spanwire", "start"]
    command += ["xbean:{configuration}", "--log-level", "warning"]
    return Broker("counted", command, directory, 'limit="1400 mb"', inside, patience=START_DEADLINE)


def inside(following: Broker | None) -> str:
    """What the configuration of a broker says besides."""
    connector = "" if following is None else CONNECTOR.format(port=following.ports["openwire"], ttl=3)
    return INSIDE.format(connector=connector)


def passes(load: Generators, workload: Workload, first: Broker, last: Broker, name: str) -> None:
    """Messages from one end to the other, through a queue that nobody used before."""
    environment = {**os.environ, "LOAD_CONSUMER_PORT": str(last.ports[workload.protocol])}
    subprocess.run(
        [*load[workload.protocol], *workload.arguments(first.ports[workload.protocol], name)],
        check=True,
        stdout=subprocess.DEVNULL,
        env=environment,
        timeout=RUN_DEADLINE,
    )


def control(option: str, broker: Broker) -> None:
    """Begin to count anew (``-z``), or write what was counted (``-d``)."""
    subprocess.run(["callgrind_control", option, str(broker.pid)], check=True, capture_output=True)


def read(found: Path, messages: int) -> Count:
    """What each message took."""
    total = TOTAL.search(found.read_text())
    if total is None:
        raise SystemExit("instructions: valgrind wrote no count")
    report = subprocess.run(
        ["callgrind_annotate", "--threshold=100", str(found)], capture_output=True, text=True, check=True
    ).stdout
    copying = sum(int(match.replace(",", "")) for match in COPYING.findall(report))
    return Count((int(total[1]) - copying) / messages, copying / messages)


def counts(load: Generators, python: Path, messages: int, work: Path) -> list[Count]:
    """One for each workload."""
    directory = Path(tempfile.mkdtemp(dir=work))
    found = directory / "callgrind"
    brokers: list[Broker] = []
    try:
        last = spanwire("last", python, directory / "chain-2", inside(None))
        brokers.append(last)
        middle = counting(python, directory / "chain-1", inside(last), found)
        brokers.insert(0, middle)
        first = spanwire("first", python, directory / "chain-0", inside(middle))
        brokers.insert(0, first)
        for number, workload in enumerate(WORKLOADS):
            passes(load, replace(workload, count=WARM_UP, window=WINDOW), first, last, f"WARM.{number}")
            control("-z", middle)
            passes(load, replace(workload, count=messages, window=WINDOW), first, last, f"COUNTED.{number}")
            control("-d", middle)
    finally:
        for broker in brokers:
            broker.stop(START_DEADLINE)
    return [read(Path(f"{found}.{number + 1}"), messages) for number in range(len(WORKLOADS))]


def main() -> None:
    """One line a workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", type=interpreter, default=Path(sys.executable), help="interpreter of the build to count"
    )
    parser.add_argument("--against", type=interpreter, help="interpreter of a build to compare with")
    parser.add_argument("--messages", type=int, default=10_000)
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions: valgrind is not installed: apt-get install valgrind")
    work = Path(tempfile.mkdtemp(prefix="spanwire-bench-"))
    try:
        load = compile_generators(work)
        found = counts(load, options.python, options.messages, work)
        others = counts(load, options.against, options.messages, work) if options.against is not None else []
        for number, workload in enumerate(WORKLOADS):
            count = found[number]
            line = f"{workload.name:38} {count.others:8,.0f} instructions + {count.copying:6,.0f} copying"
            if others:
                other = others[number]
                change = (count.others / other.others - 1) * 100
                line += f", against {other.others:8,.0f} + {other.copying:6,.0f}: {change:+.1f} %"
            print(line, flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
