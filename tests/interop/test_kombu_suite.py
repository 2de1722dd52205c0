"""kombu's own tests of a transport pass with Spanwire's. `make kombu` brings them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

SUITE: Final = Path(__file__).resolve().parents[2] / "build/kombu"
CASES: Final = Path(__file__).parent / "kombu_suite"
TIMEOUT_S: Final = 300.0
FEWEST: Final = 40  # tests that ran when this was written; fewer means that classes were not found


@pytest.mark.long
def test_the_suite_of_kombu_passes() -> None:
    if not (SUITE / "t/integration/common.py").exists():
        pytest.skip("kombu's tests are not here: they are in no package, run make kombu")
    command = [sys.executable, "-m", "pytest", "-c", "pytest.ini", "--rootdir", ".", "--confcutdir", "."]
    path = os.pathsep.join([str(SUITE), *(entry for entry in sys.path if entry)])
    done = subprocess.run(
        [*command, "transport_cases.py"],
        cwd=CASES,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= FEWEST, done.stdout
