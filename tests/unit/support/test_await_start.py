"""Waiting for a foreign server ends with its answer, or with the end of its log."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.await_start import answer_of, await_start, is_listening


def test_a_process_that_ends_before_it_answers_is_an_error_with_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("no memory", "utf-8")
    ends: list[None] = []
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(AssertionError, match="no memory"):
        await_start(process, lambda: False, lambda: ends.append(None), log, 60.0)
    assert len(ends) == 1


def test_a_server_that_listens_answers_and_none_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert is_listening(port)
    assert not is_listening(port)
    assert answer_of(port, b"ruok", 4) is None
