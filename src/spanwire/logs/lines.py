"""Formats of a log: lines with the time zone, or one JSON object per line.

    2026-11-22T21:07:33.502+01:00 INFO    spanwire.start: Listening for connections at: tcp://127.0.0.1:61616
    2026-11-22T21:07:34.120+01:00 ERROR   spanwire.stores.driver.journal_store: the disk is full: … [disk-full]

The log goes to standard error, or to a file. Messages about the finished start go to standard output as well at any
level, for programs that wait for them.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final, TextIO

from spanwire.logs.events import event_of
from spanwire.logs.files import LogFile

START: Final = "spanwire.start"  # the logger of messages about the start
LAYOUT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
TEXT: Final = "text"
JSON: Final = "json"


class LineFormatter(logging.Formatter):
    """Formats time in ISO 8601 with the offset of the local zone, level, logger, message and event."""

    def __init__(self) -> None:
        super().__init__(LAYOUT)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 (logging's name)
        """Return the record's time."""
        return local_time(record.created)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        """Return the first line of a record; a traceback follows on further lines."""
        event = event_of(record)
        return f"{super().formatMessage(record)} [{event}]" if event else super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object.

    The keys are time, level, logger, message and, if present, event and exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record on one line."""
        parts: dict[str, str] = {
            "time": local_time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        event = event_of(record)
        if event:
            parts["event"] = event
        if record.exc_info:
            parts["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            parts["exception"] = record.exc_text
        return json.dumps(parts, ensure_ascii=False)


def local_time(seconds: float) -> str:
    """Return a time since 1970 as ISO 8601 with milliseconds and the offset of the local zone."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds")


def begin_log(level: str, form: str = TEXT, file: Path | None = None) -> Callable[[], None]:
    """Write the log of the process to standard error or to a file, from ``level`` on.

    Lines about the start go to standard output, and to the file.

    Returns:
        A function that opens the file again, for SIGHUP after a rotation; without a file the function has no effect.

    Raises:
        ConfigurationError: the file cannot be opened
    """
    formatter = JsonFormatter() if form == JSON else LineFormatter()
    log_file = None if file is None else LogFile(file)
    handler = _handler(sys.stderr) if log_file is None else log_file
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    start = logging.getLogger(START)
    start.handlers[:] = [_handler(sys.stdout)] if log_file is None else [_handler(sys.stdout), log_file]
    for one in start.handlers:
        one.setFormatter(formatter)
    start.setLevel(logging.INFO)
    start.propagate = False
    return _nothing if log_file is None else log_file.reopen


def _handler(stream: TextIO) -> logging.Handler:
    return logging.StreamHandler(stream)


def _nothing() -> None:
    pass
