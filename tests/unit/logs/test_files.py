"""A log file survives rotation from outside, and a disk that takes no more."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from spanwire.logs.files import LogFile
from spanwire.model.errors import ConfigurationError


def write(log: LogFile, text: str) -> None:
    log.handle(logging.LogRecord("spanwire", logging.INFO, "", 1, text, (), None))


def test_lines_after_reopen_are_in_the_new_file(tmp_path: Path) -> None:
    file, old = tmp_path / "log", tmp_path / "log.1"
    log = LogFile(file)
    write(log, "one")
    file.rename(old)
    write(log, "two")
    log.reopen()
    write(log, "three")
    log.close()
    assert (old.read_text(), file.read_text()) == ("one\ntwo\n", "three\n")


def test_a_file_that_was_copied_and_truncated_goes_on_at_its_begin(tmp_path: Path) -> None:
    file = tmp_path / "log"
    log = LogFile(file)
    write(log, "one")
    os.truncate(file, 0)
    write(log, "two")
    log.close()
    assert file.read_bytes() == b"two\n"


def test_an_existing_file_is_appended_to(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("before\n")
    log = LogFile(file)
    write(log, "after")
    log.close()
    assert file.read_text() == "before\nafter\n"


def test_without_its_directory_the_old_file_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory, moved = tmp_path / "logs", tmp_path / "moved"
    directory.mkdir()
    log = LogFile(directory / "log")
    directory.rename(moved)
    log.reopen()
    write(log, "one")
    log.close()
    assert (moved / "log").read_text() == "one\n"
    assert "No such file or directory; it goes on under its old name" in capsys.readouterr().err


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="name another --log-file"):
        LogFile(tmp_path / "missing" / "log")


@pytest.mark.parametrize("lines", [1, 3])
def test_a_full_disk_is_reported_once(lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    log = LogFile(Path("/dev/full"))
    for _ in range(lines):
        write(log, "lost")
    log.close()
    assert capsys.readouterr().err.count("lines are dropped until that ends") == 1
    write(log, "after the end")


def test_a_text_that_is_no_unicode_is_written_with_escapes(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log")
    write(log, "a\udc80b")
    log.close()
    assert (tmp_path / "log").read_bytes() == b"a\\udc80b\n"
