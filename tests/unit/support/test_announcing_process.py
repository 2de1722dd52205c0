"""Errors of processes that tests start."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.support.announcing_process import AnnouncingProcess


def test_a_process_that_does_not_start_is_called_by_its_command(tmp_path: Path) -> None:
    process = AnnouncingProcess([sys.executable, "-c", "print('no Java')", "Master"], tmp_path, [])
    expected = rf"^{Path(sys.executable).name} -c .* Master did not start:\nno Java$"
    with process, pytest.raises(RuntimeError, match=expected):
        process.wait_until(lambda line: line == "started", 60.0)


def test_a_process_that_does_not_end_is_called_by_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.announcing_process.END_TIMEOUT_S", 0.01)
    script = "trap '' TERM; echo deaf; while :; do :; done"
    with AnnouncingProcess(["bash", "-c", script], tmp_path, []) as process:
        process.wait_until(lambda line: line == "deaf", 60.0)
        with pytest.raises(RuntimeError, match=r"^bash -c .* did not end within 0\.01 s of SIGTERM$"):
            process.end(signal.SIGTERM)
