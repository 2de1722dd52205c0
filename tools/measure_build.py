"""Print figures of the build and the sources: generated lines, import of the broker, start of a broker in a test, time
to compile, language of docstrings.

Figures with a budget: generated code at most 8,000 lines (checked by lint), import of the broker on the pure build at
most 100 ms, start of an in-process broker of `spanwire.testing` at most 100 ms, compilation at most 2 minutes on 2
cores. Nothing here is a test: times belong to the machine they were taken on.

    python tools/measure_build.py [--compile]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import prose  # noqa: E402 -- runs as a script, too
from tools.lint_forbidden import MAX_GENERATED_LINES, generated_lines  # noqa: E402 -- runs as a script, too

IMPORT_BUDGET_MS: Final = 100
FIXTURE_BUDGET_MS: Final = 100
COMPILE_BUDGET_S: Final = 120
RUNS: Final = 9
MODULE: Final = "spanwire.broker.broker"


def import_ms(python: Path) -> float:
    """Median over several fresh interpreters: milliseconds that importing the broker takes in a started interpreter."""
    program = f"import time; t = time.perf_counter(); import {MODULE}; print((time.perf_counter() - t) * 1e3)"
    figures = []
    for _ in range(RUNS):
        answer = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True)
        figures.append(float(answer.stdout))
    return statistics.median(figures)


def fixture_ms(python: Path) -> float:
    """Median over several brokers of one process: milliseconds until an in-process broker takes connections."""
    program = (
        "import time\nfrom spanwire.testing import Broker\n"
        f"for _ in range({RUNS}):\n    t = time.perf_counter()\n"
        "    with Broker(): print((time.perf_counter() - t) * 1e3)"
    )
    answer = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True)
    return statistics.median(float(line) for line in answer.stdout.split())


def compile_s() -> float:
    """Seconds from sources to an installed compiled wheel, in an environment that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "venv"
        subprocess.run([sys.executable, str(ROOT / "tools/make_environment.py"), str(target)], check=True)
        started = time.monotonic()
        builder = ["bash", str(ROOT / "tools/build_compiled.sh"), sys.executable, str(target / "bin/python")]
        subprocess.run(builder, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description="Print what the build costs.")
    parser.add_argument("--compile", action="store_true", help="compile once more and take the time")
    arguments = parser.parse_args()
    lines = generated_lines(ROOT)
    sys.stdout.write(f"generated lines: {lines} (budget {MAX_GENERATED_LINES})\n")
    pure = import_ms(Path(sys.executable))
    sys.stdout.write(f"import {MODULE}, pure: {pure:.0f} ms (budget {IMPORT_BUDGET_MS} ms)\n")
    fixture = fixture_ms(Path(sys.executable))
    sys.stdout.write(f"start of a broker in a test, pure: {fixture:.1f} ms (budget {FIXTURE_BUDGET_MS} ms)\n")
    compiled = ROOT / ".venv-compiled/bin/python"
    if compiled.exists():
        sys.stdout.write(f"import {MODULE}, compiled: {import_ms(compiled):.0f} ms\n")
    sys.stdout.write("\n".join([*prose.table(), *prose.pages()]) + "\n")
    if arguments.compile:
        sys.stdout.write(f"compilation: {compile_s():.0f} s (budget {COMPILE_BUDGET_S} s on 2 cores)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
