"""A flame graph of a loaded broker: where the processor time of one workload goes, as a picture.

    python -m tests.bench.flame_graph [--workload NAME] [--seconds 10] [--output FILE.svg]

py-spy samples the broker's process on both builds, functions compiled by mypyc and C libraries included. A browser that
opens the SVG file itself shows shares on hover and zooms on click. To look into another process py-spy needs the rights
of root, or a kernel that allows that (``kernel.yama.ptrace_scope=0``). Threads that wait for work may show up, too; the
kernel's part is the width of the system call.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.bench.brokers.activemq import Broker, interpreter
from tests.bench.loads.generator import Generators, compile_generators, measure
from tests.bench.loads.workloads import WORKLOADS, Workload
from tests.bench.reports.origin import ROOT

OUTPUT: Final = ROOT / "out/flame-graph.svg"
SAMPLES_PER_SECOND: Final = 200  # more than twice as many keep py-spy itself from following on a shared processor
SHORT_RUN: Final = 20_000  # messages of the first run, which says how many fill the time
PATIENCE: Final = 60.0  # seconds until py-spy has written the picture
COMPILED: Final = re.compile(r"CPyDef_(\w+) \([^()]*__mypyc[^()]*\)")
TITLE: Final = re.compile(r'(<text id="title"[^>]*>)[^<]*')
FILE: Final = re.compile(r" \((?:[^()\s]*/)?site-packages/([^()\s]+)\)")


def readable(picture: str, title: str) -> str:
    """Return the SVG text of py-spy with a title, and names as in the sources: ``queue.Queue.fill``, not mypyc's."""
    named = FILE.sub(r" (\1)", COMPILED.sub(lambda match: match[1].replace("___", "."), picture))
    return TITLE.sub(lambda match: match[1] + title, named, count=1)


def sample(load: Generators, python: Path, workload: Workload, seconds: float, work: Path) -> str:
    """Return the flame graph of a broker under ``workload`` for about ``seconds``."""
    written = work / "graph.svg"
    command = [str(python), "-m", "spanwire", "start", "xbean:{configuration}", "--log-level", "warning"]
    broker = Broker("sampled", command, work / "broker", 'limit="1400 mb"')
    try:
        rate = measure(load, broker, replace(workload, count=SHORT_RUN), 0).rate
        options = ["--native", "--rate", str(SAMPLES_PER_SECOND), "--duration", "unlimited", "--output", str(written)]
        sampler = subprocess.Popen(
            [python.with_name("py-spy"), "record", *options, "--pid", str(broker.pid)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            measure(load, broker, replace(workload, count=max(SHORT_RUN, int(rate * seconds))), 1)
        finally:
            sampler.send_signal(signal.SIGINT)
            _, said = sampler.communicate(timeout=PATIENCE)
    finally:
        broker.stop()
    if not written.exists():
        raise SystemExit(f"flame_graph: py-spy wrote no picture: {said.strip()}")
    return readable(written.read_text(encoding="utf-8"), f"{workload.name}: processor time of the broker")


def main() -> None:
    """Write the picture of one workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", type=interpreter, default=Path(sys.executable), help="interpreter of the build to sample"
    )
    parser.add_argument("--workload", default=WORKLOADS[0].name, help="a name, or a part of it, of `make bench`")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long the broker is loaded")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    found = [workload for workload in WORKLOADS if options.workload.lower() in workload.name.lower()]
    if not found:
        names = "\n".join(workload.name for workload in WORKLOADS)
        raise SystemExit(f"flame_graph: no workload is named {options.workload!r}; there are:\n{names}")
    work = Path(tempfile.mkdtemp(prefix="spanwire-bench-"))
    try:
        picture = sample(compile_generators(work), options.python, found[0], options.seconds, work)
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"flame_graph: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(picture, encoding="utf-8")
    print(f"{found[0].name}: {options.output}")


if __name__ == "__main__":
    main()
