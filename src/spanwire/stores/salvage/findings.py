"""Findings: the faults of a store, worded for operators."""

from __future__ import annotations

from typing import Final

from spanwire.stores.journal.segments.record import (
    BATCH,
    BODY,
    CANCELLED,
    CHECKPOINT,
    DESTINATION,
    DESTINATION_REMOVED,
    MESSAGE,
    METADATA,
    METADATA_DISCARDED,
    MOVED,
    MOVED_BODY,
    NONE,
    REDELIVERY,
    REFERENCE,
    REMOVAL,
    TRANSFER,
)
from spanwire.stores.salvage.segment_scan import Hole

MESSAGES: Final = (MESSAGE, REFERENCE, MOVED)
KIND_NAMES: Final = {
    MESSAGE: "message",
    REFERENCE: "message",
    MOVED: "message",
    REMOVAL: "the removal of message",
    CANCELLED: "the number of message",
    REDELIVERY: "the redelivery count of message",
    DESTINATION: "the name of a destination",
    DESTINATION_REMOVED: "the removal of a destination",
    CHECKPOINT: "a check-point",
    BODY: "the body of a message of several destinations",
    MOVED_BODY: "the body of a message of several destinations",
    METADATA: "a metadata record",
    METADATA_DISCARDED: "the end of a metadata record",
    TRANSFER: "where staged messages went",
}
OF_ONE_MESSAGE: Final = (MESSAGE, REFERENCE, MOVED, REMOVAL, CANCELLED, REDELIVERY)


class Finding:
    """A fault: a file, the offset of a byte (-1 for the whole file), a text.

    ``has_loss`` is True if data is lost.
    """

    __slots__ = ("has_loss", "name", "offset", "text")

    def __init__(self, name: str, offset: int, text: str, has_loss: bool) -> None:
        self.name: Final[str] = name
        self.offset: Final[int] = offset
        self.text: Final[str] = text
        self.has_loss: Final[bool] = has_loss

    def line(self) -> str:
        """Return file, byte and text in one line."""
        location = f" at byte {self.offset}" if self.offset >= 0 else ""
        return f"{self.name}{location}: {self.text}"


def hole_finding(name: str, hole: Hole, names: dict[int, bytes]) -> Finding:
    """Return the finding for a hole of the file ``name``.

    ``names`` has the names of destinations by number.
    """
    if hole.kind == NONE:
        text = f"{hole.size} bytes are damaged"
    elif hole.kind == BATCH:
        text = "the head of a batch is damaged"
    else:
        text = f"a record's checksum does not hold: {_lost_record(hole, names)}"
    return Finding(name, hole.offset, text, hole.kind != BATCH)


def _lost_record(hole: Hole, names: dict[int, bytes]) -> str:
    kind_name = KIND_NAMES.get(hole.kind, f"a record of kind {hole.kind}")
    if hole.kind not in OF_ONE_MESSAGE:
        return kind_name
    name = names.get(hole.number, b"").decode("utf-8", "replace")
    return f"{kind_name} {hole.sequence} of {name or f'destination {hole.number}'}"
