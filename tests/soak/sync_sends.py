"""Persistent sends that each wait for their answer, by 1, 64 and 256 producers, beside what the disk syncs by itself.

    python -m tests.soak.sync_sends --require 500,8000,12000

Prints one line of JSON: answers per second by producers, and 1 KiB writes per second that the same disk takes one by
one, each synced. Status 1 when a rate is below the one required. Needs a C compiler for the load generator.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from tests.bench.floors import measure_syncs
from tests.bench.loads.generator import compile_load
from tests.bench.loads.workloads import Workload
from tests.service.started import Started

PRODUCERS: Final = (1, 64, 256)
SENDS: Final = {1: 4_000, 64: 40_000, 256: 60_000}
SIZE: Final = 1024
PATIENCE_S: Final = 300.0


def answers_per_second(generator: Path, port: int, producers: int) -> float:
    """What the generator reports."""
    workload = Workload("", "openwire", "queue", producers, 0, SIZE, SENDS[producers], 1, True, True)
    arguments = [str(generator), *workload.arguments(port, f"SYNC.{producers}")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return SENDS[producers] / float(json.loads(done.stdout)["seconds"])


def main() -> int:
    parser = argparse.ArgumentParser(description="Persistent synchronous sends per second.")
    parser.add_argument("--require", default="0,0,0", help="least answers per second of 1, 64 and 256 producers")
    parser.add_argument("--directory", type=Path, help="where the store goes; a temporary directory unless told")
    options = parser.parse_args()
    required = [float(text) for text in options.require.split(",")]
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        directory = Path(name)
        generator = compile_load(directory)
        syncs = measure_syncs(directory)
        found: dict[str, object] = {"build": version_text(), "disk_syncs_per_s": round(len(syncs) / sum(syncs))}
        with Started(directory) as broker:
            rates = [answers_per_second(generator, broker.ports["tcp"], producers) for producers in PRODUCERS]
            broker.stop()
    found |= {f"answers_per_s_{producers}": round(rate) for producers, rate in zip(PRODUCERS, rates, strict=True)}
    sys.stdout.write(json.dumps(found) + "\n")
    return int(any(rate < least for rate, least in zip(rates, required, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
