"""Steps of marked messages that programs read with cursors and write with sinks, such as the queries of Spark.

A cursor holds messages by their sequences in the store, unread. So a marked message is known by its sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from spanwire.broker.exactly_once.cursor import ACKNOWLEDGED, RESERVED, RETURNED
from spanwire.broker.following.mark import Mark, Marked

NoteStep = Callable[[Mark, Marked, str, str, str, str], None]  # mark, message, step, destination, location, detail


def note_cursor_step(
    marks: Iterable[Mark],
    step: str,
    cursor: str,
    destination: str,
    sequences: Sequence[int],
    first: int,
    note: NoteStep,
) -> None:
    """Note a step of the marked messages among those of a cursor.

    ``sequences`` are those of the destination's messages in the order of their numbers, from the number ``first`` on.
    """
    numbers: dict[int, int] = {}
    location = f"cursor {cursor}"
    for mark in marks:
        for known in mark.marked.values():
            sequence = known.sequences.get(destination)
            if sequence is None or destination not in known.locations:
                continue
            if not numbers:
                numbers = {one: first + index for index, one in enumerate(sequences)}
            number = numbers.get(sequence)
            if number is None:
                continue
            if step == RESERVED:
                known.consumer = location
                known.origin = destination
                known.numbers[cursor] = number
            elif step == RETURNED:
                known.consumer = ""
            elif step == ACKNOWLEDGED:
                known.locations.pop(destination)
            note(mark, known, step, destination, location, f"number {number}")
