"""The parts that a commit names, read from the body of the request a slice at a time."""

from __future__ import annotations

from typing import Final

from spanwire.broker.request_errors import LIMIT, MALFORMED, refusal

MAX_NUMBER: Final = (1 << 62) - 1
MAX_COMMIT_PARTS: Final = 10_000  # parts in one commit
MAX_COMMIT_BYTES: Final = 64 * MAX_COMMIT_PARTS  # bytes of a commit's body: three numbers of 19 digits in each line
LINES_IN_STEP: Final = 4  # lines that are read in the time of one step


class PartName:
    """A part in the words of a commit, with the number of sent messages, each counted once."""

    __slots__ = ("attempt", "messages", "partition")

    def __init__(self, partition: int, attempt: int, messages: int) -> None:
        self.partition: Final[int] = partition
        self.attempt: Final[int] = attempt
        self.messages: Final[int] = messages


class PartNames:
    """The parts of a commit, one in a line: ``partition attempt messages``."""

    def __init__(self, body: bytes | None) -> None:
        """Take the body of the request.

        Raises:
            ControlRefusal: the body is longer than that of any commit.
        """
        octets = b"" if body is None else body
        if len(octets) > MAX_COMMIT_BYTES:
            raise refusal(
                LIMIT, f"the body of a commit has at most {MAX_COMMIT_BYTES} bytes, this one has {len(octets)}"
            )
        self._lines: Final[list[str]] = octets.decode("utf-8", "replace").split("\n")
        self._next = 0
        self._names: Final[list[PartName]] = []

    def read(self, at_most: int) -> int:
        """Read lines in at most ``at_most`` steps.

        Returns:
            The number of steps, 0 if no line is left.

        Raises:
            ControlRefusal: a line has another form, or the commit has too many lines.
        """
        start = self._next
        self._next = min(len(self._lines), start + at_most * LINES_IN_STEP)
        for index in range(start, self._next):
            self._read_line(self._lines[index])
        return (self._next - start + LINES_IN_STEP - 1) // LINES_IN_STEP

    def _read_line(self, line: str) -> None:
        words = line.split()
        if not words:
            return
        if len(self._names) >= MAX_COMMIT_PARTS:
            raise refusal(LIMIT, f"a commit names at most {MAX_COMMIT_PARTS} parts")
        numbers = [number_text(word) for word in words]
        if len(numbers) != 3 or min(numbers) < 0:
            raise refusal(MALFORMED, f"a line of a commit is {line[:40]!r}, not: partition attempt messages")
        self._names.append(PartName(numbers[0], numbers[1], numbers[2]))

    def in_order(self) -> list[PartName]:
        """Return the parts of all lines in the order of partitions."""
        return sorted(self._names, key=_partition_of)


def _partition_of(name: PartName) -> int:
    return name.partition


def number_text(text: str) -> int:
    """Return ``text`` as a number, -1 unless the number is from 0 to `MAX_NUMBER`."""
    if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= MAX_NUMBER:
        return int(text)
    return -1
