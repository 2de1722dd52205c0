"""Lines of a child process, logged again by the parent, so that both have one log in one form.

The child runs with ``--log-format json``. The child's output is checked, because a child with strangers as clients may
be taken over: the records stay below the loggers of the child's own package, and a text or a traceback cannot imitate
another line.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Final

from spanwire.logs.lines import START
from spanwire.model.text import printable

MAX_LINE: Final = 64 * 1024  # bytes; a traceback has less, and longer lines are cut into several
EVENT: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
LEVELS: Final = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
INDENT: Final = "    "


class ChildLines:
    """Cuts a child's output into lines, and logs the lines of the child's log again."""

    def __init__(self, package: str) -> None:
        """``package`` is the child's, such as ``spanwire.web``."""
        self._package: Final = package
        self._logger: Final = logging.getLogger(package)  # one for all names that a child makes up
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Log the records in a chunk of output, and return the other lines, made printable.

        An empty chunk is the end of the output.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk or len(self._rest) > MAX_LINE:
            lines.append(self._rest)
            self._rest = b""
        return [text for text in map(self._plain, lines) if text]

    def _plain(self, line: bytes) -> str:
        """Log a line with a record and return "", or return another line."""
        text = line.decode("utf-8", "replace").strip()
        record = self._record(text) if text.startswith("{") else None
        if record is None:
            return printable(text)
        if self._logger.isEnabledFor(record.levelno):
            self._logger.handle(record)
        return ""

    def _record(self, text: str) -> logging.LogRecord | None:
        """Return the record of a line of JSON, or None for a line without a record."""
        try:
            parts = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(parts, dict) or not {"level", "logger", "message"} <= parts.keys():
            return None
        name, message = printable(str(parts["logger"])), printable(str(parts["message"]))
        if name == START:
            name = self._package
        elif name != self._package and not name.startswith(f"{self._package}."):
            name, message = self._package, f"{name}: {message}"
        level = LEVELS.get(str(parts["level"]), logging.ERROR)
        record = logging.LogRecord(name, level, "", 0, message, None, None)
        event = parts.get("event")
        record.event = event if isinstance(event, str) and EVENT.fullmatch(event) else ""
        exception = parts.get("exception")
        if isinstance(exception, str):
            record.exc_text = "\n".join(INDENT + printable(one) for one in exception.splitlines())
        return record
