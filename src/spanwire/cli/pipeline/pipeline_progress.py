"""Progress of ``spanwire pipeline run`` and ``archive``.

A terminal shows the latest batch in one line that is overwritten; other output has a line per batch, or JSON.
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
    from spanwire.pipeline.routes.supervisor import RouteEvent  # needs Py4J, which some commands do without

CLEAR: Final = "\r\x1b[K"  # return to the beginning of the line and clear it


class Progress:
    """Shows events as they occur; on a terminal the latest batch stays below all other events."""

    def __init__(self, stream: TextIO, as_json: bool, width: Callable[[], int] | None) -> None:
        """Use ``width`` for the columns of the terminal; ``None`` without a terminal."""
        self._stream: Final = stream
        self._as_json: Final = as_json
        self._width: Final = None if as_json else width
        self._live = ""

    def show(self, event: RouteEvent) -> None:
        """Show an event."""
        text = json.dumps(asdict(event)) if self._as_json else printable(event_text(event))
        if self._width is None:
            self._stream.write(text + "\n")
        elif event.batch is None:
            self._stream.write(f"{CLEAR if self._live else ''}{text}\n{self._cut(self._width())}")
        else:
            self._live = text
            self._stream.write(CLEAR + self._cut(self._width()))
        self._stream.flush()

    def _cut(self, width: int) -> str:
        return self._live[: max(width - 1, 1)]

    def end(self) -> None:
        """Leave the last batch visible and begin a new line."""
        if self._live:
            self._stream.write("\n")
            self._stream.flush()
            self._live = ""


def progress(as_json: bool) -> Progress:
    """Return the progress on standard output."""
    width = (lambda: shutil.get_terminal_size().columns) if sys.stdout.isatty() else None
    return Progress(sys.stdout, as_json, width)


def event_text(event: RouteEvent) -> str:
    """Return an event as a line."""
    if event.batch is None:
        return f"{event.route}: {event.text}"
    behind = f", {event.behind_ms / 1000:.1f} s behind" if event.behind_ms else ""
    return f"{event.route}: batch {event.batch}, {event.text}, {event.rows_per_s:.0f} rows/s{behind}"
