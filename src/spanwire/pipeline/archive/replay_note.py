"""The progress of a replay on the disk.

    STATE/replay.json     the selection, the run, and the messages that are sent
    STATE/targets.json    the destinations of the messages
    STATE/portions.json   the number of the first message of each portion, with the name of the portion
    STATE/portions/…      the messages in order

The format of all of them is that of the note (`spanwire.pipeline.storage.state_format`), which is read first.

The note names a batch before the batch is sent, so the same messages make the same batch after a crash.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.storage.state_format import DAMAGED, FORMAT, KEY, check_format

RUN_DIGITS: Final = 12  # hexadecimal digits of the name of a run
NOTE: Final = "replay.json"  # in the state
SINK_PREFIX: Final = "replay-"  # before the run, in the name of the sink at the broker


class ReplayNote:
    """The progress of one replay.

    The messages are numbered from 0 to ``total``, exclusive. Those below ``sent`` are sent. Those from ``sent`` to
    ``until`` are the batch ``batch``, of which the broker knows whether it was sent.
    """

    def __init__(self, path: Path, choice: Mapping[str, str], run: str, total: int) -> None:
        """Begin a note in the file ``path``, without writing it."""
        self.path: Final[Path] = path
        self.choice: Final[Mapping[str, str]] = choice
        self.run: Final[str] = run
        self.total: Final[int] = total
        self.sent = 0
        self.until = 0
        self.batch = -1
        self.is_forgotten = False  # the broker no longer keeps the number of the last batch
        self.is_undone = False
        self.removed = 0  # messages that undos have taken back

    @property
    def sink(self) -> str:
        """Return the name of the sink at the broker."""
        return SINK_PREFIX + self.run

    def save(self) -> None:
        """Write the note completely or not at all, and wait for the disk."""
        content = {
            KEY: FORMAT,
            "choice": dict(self.choice), "run": self.run, "total": self.total, "sent": self.sent, "until": self.until,
            "batch": self.batch, "forgotten": self.is_forgotten, "undone": self.is_undone,
            "removed": self.removed,
        }  # fmt: skip
        write_whole(self.path, content)


def new_run() -> str:
    """Return a name for a new run."""
    return uuid.uuid4().hex[:RUN_DIGITS]


def read_note(path: Path) -> ReplayNote | None:
    """Return the note in a file, or ``None`` without a file.

    Raises:
        ConfigurationError: the note is damaged, or an earlier or a newer version wrote it.
    """
    if not path.exists():
        return None
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        check_format(fields, f"the replay in {path.parent}")
        choice = {str(name): str(value) for name, value in fields["choice"].items()}
        note = ReplayNote(path, choice, str(fields["run"]), int(fields["total"]))
        note.sent, note.until, note.batch = int(fields["sent"]), int(fields["until"]), int(fields["batch"])
        note.is_forgotten, note.is_undone = bool(fields["forgotten"]), bool(fields["undone"])
        note.removed = int(fields["removed"])
        if not 0 <= note.sent <= note.until <= note.total:
            raise ValueError
    except DAMAGED:
        raise ConfigurationError(
            f"{path} is damaged, or of an earlier version; delete {path.parent} to begin anew"
        ) from None
    return note


def write_targets(state: Path, destinations: list[str]) -> None:
    """Note the destinations of a replay."""
    write_whole(state / "targets.json", destinations)


def read_targets(state: Path) -> list[str]:
    """Return the noted destinations.

    Raises:
        ConfigurationError: the file is missing or damaged.
    """
    path = state / "targets.json"
    try:
        names = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError
    except DAMAGED:
        raise ConfigurationError(f"{path}, which names the destinations of the replay, is missing or damaged") from None
    return names


def write_starts(state: Path, starts: list[tuple[int, str]]) -> None:
    """Note where the portions begin."""
    write_whole(state / "portions.json", starts)


def read_starts(state: Path) -> list[tuple[int, str]]:
    """Return the noted beginnings of portions, in order.

    Raises:
        ConfigurationError: the file is missing or damaged.
    """
    path = state / "portions.json"
    try:
        starts = [(first, name) for first, name in json.loads(path.read_text(encoding="utf-8"))]
        numbers = [first for first, _ in starts]
        if not all(type(first) is int and type(name) is str for first, name in starts):
            raise ValueError
        if numbers[:1] not in ([], [0]) or numbers != sorted(set(numbers)):
            raise ValueError
    except DAMAGED:
        raise ConfigurationError(f"{path}, which names the portions of the replay, is missing or damaged") from None
    return starts


def write_whole(path: Path, content: object) -> None:
    """Write a JSON file completely or not at all, and wait for the disk."""
    temporary = path.with_suffix(".tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)  # its disk must know the new name as well
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
