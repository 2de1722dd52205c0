"""Formats of a broker's log: lines with the time zone, or one JSON object per line.

    2026-11-22T21:07:33.502+01:00 INFO    spanwire.start: Listening for connections at: tcp://127.0.0.1:61616

The log goes to standard error. Messages about the finished start go to standard output at any level, for programs that
wait for them.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime
from typing import Final, TextIO

START: Final = "spanwire.start"  # the logger of messages about the start
LAYOUT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class LineFormatter(logging.Formatter):
    """Formats time in ISO 8601 with the offset of the local zone, level, logger and message."""

    def __init__(self) -> None:
        super().__init__(LAYOUT)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 (logging's name)
        """Return the record's time."""
        return local_time(record.created)


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object with time, level, logger, message and, if present, ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record on one line."""
        parts: dict[str, str] = {
            "time": local_time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            parts["exception"] = self.formatException(record.exc_info)
        return json.dumps(parts, ensure_ascii=False)


def local_time(seconds: float) -> str:
    """Return a time since 1970 as ISO 8601 with milliseconds and the offset of the local zone."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds")


def begin_log(level: str, as_json: bool) -> None:
    """Write the log of this process to standard error, from ``level`` on.

    The line about the start goes to standard output.
    """
    formatter = JsonFormatter() if as_json else LineFormatter()
    logging.basicConfig(handlers=[_handler(sys.stderr, formatter)], level=level.upper(), force=True)
    start = logging.getLogger(START)
    start.handlers[:] = [_handler(sys.stdout, formatter)]
    start.setLevel(logging.INFO)
    start.propagate = False


def _handler(stream: TextIO, formatter: logging.Formatter) -> logging.Handler:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    return handler
