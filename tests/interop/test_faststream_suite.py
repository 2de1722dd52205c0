"""FastStream's own tests of a broker pass with Spanwire's. `make faststream` brings them, and their environment."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHON: Final = ROOT / ".venv-faststream/bin/python"
SUITE: Final = ROOT / "build/faststream"
CASES: Final = Path(__file__).parent / "faststream_suite"
TIMEOUT_S: Final = 300.0
FEWEST: Final = 240  # tests that ran when this was written; fewer means that classes were not found


@pytest.mark.long
@pytest.mark.parametrize("address", ["{}", "failover:({})"])
def test_the_suite_of_faststream_passes(address: str) -> None:
    if not (PYTHON.exists() and (SUITE / "tests/brokers/base").is_dir()):
        pytest.skip("FastStream's tests are not here: they are in no package, run make faststream")
    command = [
        str(PYTHON),
        "-m",
        "pytest",
        "-c",
        "pytest.ini",
        "--rootdir",
        ".",
        "--confcutdir",
        ".",
        "broker_cases.py",
    ]
    environment = {**os.environ, "PYTHONPATH": str(SUITE), "ADDRESS": address}
    done = subprocess.run(
        command, cwd=CASES, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= FEWEST, done.stdout
