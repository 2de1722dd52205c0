"""Costs of a broker's start until it says "started" and of client commands: processor time, instructions, modules.

    python -m tests.bench.start_up [--python PATH] [--against PATH] [--runs N] [--only TEXT]

Each line has the medians of N fresh processes: milliseconds from the start of the process to the end of the command (of
a broker: to the line "started"), and milliseconds of processor time, user and system. valgrind's callgrind counts the
instructions of user code in one more run; a busy machine does not change them. ``--against`` is the interpreter of
another build, whose runs alternate with these.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.brokers.activemq import Broker, interpreter, spanwire
from tests.bench.instructions import TOTAL

RUNS = 15
STARTED = re.compile(r"^measured ([\d.]+) (\d+)$", re.MULTILINE)
STOP_DEADLINE = 20.0  # seconds

# The end of a command, or the line "started", writes the time and the count of loaded modules to standard error.
PROGRAM = """
import os, sys
def measured():
    modules = len(sys.modules)
    import time
    os.write(2, b"measured %r %d\\n" % (time.monotonic(), modules))
class UntilStarted:
    def write(self, text):
        if " started\\n" in text:
            measured()
            os._exit(0)
    def flush(self):
        pass
if sys.argv[1] == "start":
    sys.stdout = UntilStarted()
if sys.argv[1:2] == ["start"] and not any(word.startswith("xbean:") for word in sys.argv):
    from spanwire.service.config.model import DEFAULT_CONNECTORS
    for connector in DEFAULT_CONNECTORS:  # the usual ports may be taken
        object.__setattr__(connector, "port", 0)
from spanwire.cli.main import main
try:
    main()
finally:
    measured()
"""

CONFIGURATION = """<beans xmlns="http://www.springframework.org/schema/beans">
 <broker xmlns="http://activemq.apache.org/schema/core" brokerName="measured">
  <transportConnectors>
   <transportConnector name="openwire" uri="tcp://127.0.0.1:0"/>
   <transportConnector name="stomp" uri="stomp://127.0.0.1:0"/>
  </transportConnectors>
 </broker>
</beans>
"""
FILE = "xbean:{configuration}"
DATA = "--data-directory={data}"


@dataclass(frozen=True)
class Case:
    """A command line and the state of the broker's directory before it."""

    name: str
    words: tuple[str, ...]
    before: str = ""  # "stopped" or "killed": a broker ran on the directory and ended so

    def command(self, directory: Path, url: str, running: Path) -> list[str]:
        """Return the words after ``spanwire``."""
        values = {"configuration": directory / "activemq.xml", "data": directory / "data", "url": url}
        return [word.format(running=running, **values) for word in self.words]


CASES = (
    Case("start, built-in default", ("start", DATA)),
    Case("start, activemq.xml", ("start", FILE, DATA)),
    Case("start again after a stop", ("start", FILE, DATA), "stopped"),
    Case("start again after a kill", ("start", FILE, DATA), "killed"),
    Case("--version", ("--version",)),
    Case("--help", ("--help",)),
    Case("producer --help", ("producer", "--help")),
    Case("list", ("list",)),
    Case("status", ("status", "--data-directory={running}")),
    Case("producer", ("producer", "--brokerUrl={url}", "--messageCount=1")),
    Case("consumer", ("consumer", "--brokerUrl={url}", "--messageCount=1")),
)


@dataclass(frozen=True)
class Sample:
    """The costs of one process."""

    wall_ms: float
    cpu_ms: float
    modules: int


def measured_run(command: Sequence[str], directory: Path) -> Sample:
    """Run a command to its end; return its costs."""
    with (directory / "errors").open("wb") as errors:
        started = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, cwd=directory
        )
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0  # reaped here
    text = (directory / "errors").read_text(errors="replace")
    end = STARTED.search(text)
    if end is None:
        raise SystemExit(f"start_up: {' '.join(command[-4:])} failed:\n{text[-2000:]}")
    return Sample((float(end[1]) - started) * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, int(end[2]))


def prepare(case: Case, python: Path, directory: Path) -> None:
    """Write the configuration, and leave the data behind that the case needs."""
    (directory / "activemq.xml").write_text(CONFIGURATION)
    if not case.before:
        return
    words = ["start", f"xbean:{directory / 'activemq.xml'}", f"--data-directory={directory / 'data'}"]
    if case.before == "killed":
        measured_run([str(python), "-c", PROGRAM, *words], directory)
        return
    process = subprocess.Popen(
        [str(python), "-m", "spanwire", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    while " started" not in process.stdout.readline() and process.poll() is None:
        pass
    process.terminate()
    process.wait(STOP_DEADLINE)
    process.stdout.close()


class Bench:
    """Runs cases with one build against a broker of the same build."""

    def __init__(self, python: Path, work: Path) -> None:
        self.python = python
        self._work = work
        self._broker: Broker = spanwire("running", python, Path(tempfile.mkdtemp(dir=work)))
        self._running = next(path.parent for path in work.rglob("control.sock"))

    def command(self, case: Case, directory: Path) -> list[str]:
        """Return the command line of a case."""
        url = f"tcp://127.0.0.1:{self._broker.ports['openwire']}"
        return [str(self.python), "-c", PROGRAM, *case.command(directory, url, self._running)]

    def sample(self, case: Case) -> Sample:
        """Return the costs of one run."""
        directory = self._prepared(case)
        return measured_run(self.command(case, directory), directory)

    def instructions(self, case: Case) -> int:
        """Return the instructions of user code of one run; 0 without valgrind."""
        if shutil.which("valgrind") is None:
            return 0
        directory = self._prepared(case)
        counts = directory / "callgrind"
        measured_run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", *self.command(case, directory)],
            directory,
        )
        total = TOTAL.search(counts.read_text())
        assert total is not None
        return int(total[1])

    def stop(self) -> None:
        """End the broker."""
        self._broker.stop()

    def _prepared(self, case: Case) -> Path:
        if case.name == "consumer":  # waits for a message
            producer = next(other for other in CASES if other.name == "producer")
            measured_run(self.command(producer, self._work), self._work)
        directory = Path(tempfile.mkdtemp(dir=self._work))
        prepare(case, self.python, directory)
        return directory


def row(case: Case, bench: Bench, samples: Sequence[Sample]) -> str:
    """Return the medians of a case on one line."""
    count = bench.instructions(case)
    return (
        f"{statistics.median(sample.wall_ms for sample in samples):6.0f} ms,"
        f" {statistics.median(sample.cpu_ms for sample in samples):5.0f} ms of processor time,"
        f" {f'{count / 1e6:6,.0f} million instructions' if count else 'no valgrind'},"
        f" {samples[0].modules:4} modules"
    )


def main() -> None:
    """Print one line for each case and build."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", type=interpreter, default=Path(sys.executable), help="interpreter of the build to measure"
    )
    parser.add_argument("--against", type=interpreter, help="interpreter of a build to compare with")
    parser.add_argument("--runs", type=int, default=RUNS, help="processes of each case")
    parser.add_argument("--only", default="", help="part of the name of the cases to measure")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="spanwire-bench-"))
    os.environ["XDG_RUNTIME_DIR"] = str(work)  # `spanwire list` shows no brokers of others
    benches: list[Bench] = []
    try:
        for python in (options.python, options.against):
            if python is not None:
                directory = Path(tempfile.mkdtemp(dir=work))
                benches.append(Bench(python, directory))
        for case in CASES:
            if options.only not in case.name:
                continue
            samples: list[list[Sample]] = [[] for _ in benches]
            for _ in range(options.runs):
                for index, bench in enumerate(benches):
                    samples[index].append(bench.sample(case))
            for index, bench in enumerate(benches):
                print(f"{'  against' if index else case.name:26} {row(case, bench, samples[index])}", flush=True)
    finally:
        for bench in benches:
            bench.stop()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
