"""A log file for rotation by other programs: appended to, and opened again on request.

Each line is one write at the end of the file, so a rotation by copy and truncation works as well.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError

FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
MODE: Final = 0o640  # lines name users and addresses


class LogFile(logging.Handler):
    """Appends lines to a file. A failed write drops the line, with one notice on standard error."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises `ConfigurationError`."""
        super().__init__()
        self._path: Final = path.absolute()
        self._has_failed = False  # the last line was dropped
        try:
            self._descriptor = os.open(self._path, FLAGS, MODE)
        except OSError as error:
            raise ConfigurationError(f"log file {path}: {error.strerror or error}; name another --log-file") from error

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record."""
        try:
            line = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
            while line:
                line = line[os.write(self._descriptor, line) :]
        except (TypeError, ValueError):  # the arguments of a call do not fit its text
            self.handleError(record)
        except OSError as error:
            self._report(error, "lines are dropped until that ends")
        else:
            self._has_failed = False

    def reopen(self) -> None:
        """Open the file by the same name again; after a failure, go on with the open file."""
        try:
            descriptor = os.open(self._path, FLAGS, MODE)
        except OSError as error:
            self._report(error, "it goes on under its old name")
            return
        self.acquire()
        try:
            descriptor, self._descriptor = self._descriptor, descriptor
            self._has_failed = False
        finally:
            self.release()
        os.close(descriptor)

    def close(self) -> None:
        """Close the file; called once, at the end of the process or by a following `begin_log`."""
        self.acquire()
        try:
            descriptor, self._descriptor = self._descriptor, -1
        finally:
            self.release()
        if descriptor >= 0:
            os.close(descriptor)
        super().close()

    def _report(self, error: OSError, consequence: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            sys.stderr.write(f"spanwire: log file {self._path}: {error.strerror or error}; {consequence}\n")
