"""Moves of messages on the command line: dry run, progress with the time left, and the result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

from spanwire.cli.management.rows import Row
from spanwire.management.control_client import ControlClient, ControlError
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped

FIRST_POLL_S: Final = 0.05  # seconds before the second look at a task; short ones are done by then
MAX_POLL_S: Final = 0.5  # seconds between two looks at a long one
UNDO: Final = "undo"
WORDS: Final = {"move": "moved", "copy": "copied", "retry": "retried", "replay": "replayed"}


def preview_text(command: str, rows: object) -> str:
    """Return the lines of a dry run: the numbers of each queue, and a sample."""
    lines: list[str] = []
    for row in rows if isinstance(rows, list) else []:
        stays = f", {row['left']} would stay" if row["left"] else ""
        times = f", {row['times']}" if row.get("times") else ""
        lines.append(f"{row['destination']}: {row['would_be']} messages would be {WORDS[command]}{stays}{times}")
        lines += [f"  {one['message_id']} to {one['target']}{_size_text(one)}" for one in row["sample"]]
    lines = lines or [f"no messages would be {WORDS[command]}"]
    return "".join(escaped(line) + "\n" for line in [*lines, "nothing was changed"])


def _size_text(message: Mapping[str, object]) -> str:
    return f", {message['size_bytes']} bytes" if "size_bytes" in message else ""


def begin(
    client: ControlClient,
    command: str,
    values: Mapping[str, object],
    background: bool,
    on_begun: Callable[[], None] | None = None,
) -> Row | None:
    """Begin a move or drain and wait for its end. ``on_begun`` is called when it has begun.

    Returns:
        The row of the task at its end; None if it goes on in the ``background``.

    Raises:
        ConfigurationError: the task failed or was cancelled.
        ControlError: the broker refuses, or does not answer.
    """
    answer = client.ask(command, **values)
    if not isinstance(answer, dict) or not isinstance(answer.get("task"), str):
        raise ControlError("the broker began no task: it may be an older version")
    task_id = str(answer["task"])
    if on_begun is not None:
        on_begun()
    if background:
        sys.stdout.write(f"task {task_id} goes on; spanwire task show {task_id} shows its progress\n")
        return None
    try:
        row = _ended(client, task_id)
    except KeyboardInterrupt:
        sys.stderr.write(f"\nthe task {task_id} goes on; spanwire task cancel {task_id} ends it\n")
        raise
    if row["state"] == "failed":
        raise ConfigurationError(f"the task {task_id} failed: {row['error']}; spanwire task resume {task_id} goes on")
    if row["state"] == "cancelled":
        undo = f", spanwire task undo {task_id} brings them back" if row["undoable"] else ""
        raise ConfigurationError(
            f"the task {task_id} was cancelled after {row['processed']} messages; "
            f"spanwire task resume {task_id} goes on{undo}"
        )
    if row["undoable"] and sys.stderr.isatty():
        sys.stderr.write(f"spanwire task undo {task_id} brings back what nobody has consumed\n")
    return row


def _ended(client: ControlClient, task_id: str) -> Row:
    """Wait for the end of a task and return its row, with its progress on a terminal."""
    pause = FIRST_POLL_S
    is_shown = False
    while True:
        rows = client.ask("tasks")
        found = [row for row in rows if row.get("id") == task_id] if isinstance(rows, list) else []
        if not found:
            raise ControlError(f"the task {task_id} is not listed any more: other tasks took its place")
        row: Row = found[0]
        if row["state"] != "running":
            if is_shown:
                sys.stderr.write("\n")
            return row
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{escaped(progress(row))}")
            sys.stderr.flush()
            is_shown = True
        time.sleep(pause)
        pause = min(MAX_POLL_S, pause * 2)


def progress(row: Row) -> str:
    """Return a running task in one line."""
    looked, total = row.get("looked"), row.get("total")
    share = f", looked at {looked} of {total}" if isinstance(total, int) and total else ""
    seconds = row.get("seconds_left")
    left = f", {duration_text(seconds)} left" if isinstance(seconds, int) else ""
    waits = f", waits for {row['waits_for']}" if row.get("waits_for") else ""
    return f"task {row['id']}: {row['processed']} messages{share}{left}{waits}"


def duration_text(seconds: int) -> str:
    """Return seconds in hours, minutes and seconds."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
