"""What `spanwire pipeline run` and `archive` show of their batches: on a terminal one line that is written over,
elsewhere a line for each batch, or JSON for machines.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TextIO

from spanwire.model.text import printable

if TYPE_CHECKING:
    from spanwire.pipeline.routes.supervisor import News  # which needs Py4J; some commands do without Spark

CLEAR: Final = "\r\x1b[K"  # to the beginning of the line, and nothing right of it


class Progress:
    """Shows news as they come. On a terminal the newest batch stays in sight, what else is told above it."""

    def __init__(self, stream: TextIO, as_json: bool, width: Callable[[], int] | None) -> None:
        """``width`` gives the columns of a terminal; None where there is none."""
        self._stream: Final = stream
        self._as_json: Final = as_json
        self._width: Final = None if as_json else width
        self._live = ""

    def show(self, news: News) -> None:
        """Show what happened."""
        line = json.dumps(asdict(news)) if self._as_json else printable(line_of(news))
        if self._width is None:
            self._stream.write(line + "\n")
        elif news.batch is None:
            self._stream.write(f"{CLEAR if self._live else ''}{line}\n{self._cut(self._width())}")
        else:
            self._live = line
            self._stream.write(CLEAR + self._cut(self._width()))
        self._stream.flush()

    def _cut(self, width: int) -> str:
        return self._live[: max(width - 1, 1)]

    def end(self) -> None:
        """Leave the last batch in sight, and the cursor below it."""
        if self._live:
            self._stream.write("\n")
            self._stream.flush()
            self._live = ""


def progress(as_json: bool) -> Progress:
    """The progress on standard output."""
    width = (lambda: shutil.get_terminal_size().columns) if sys.stdout.isatty() else None
    return Progress(sys.stdout, as_json, width)


def line_of(news: News) -> str:
    """One line for people."""
    if news.batch is None:
        return f"{news.route}: {news.text}"
    behind = f", {news.behind_ms / 1000:.1f} s behind" if news.behind_ms else ""
    return f"{news.route}: batch {news.batch}, {news.text}, {news.rows_per_s:.0f} rows/s{behind}"
