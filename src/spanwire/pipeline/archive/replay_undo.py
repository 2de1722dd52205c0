"""Removal of messages that a replay has sent and nobody has consumed.

The duplicate ids of a replay begin with the name of its run, so a selector finds its messages in their queues.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.client import blocking
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.replay_note import NOTE, read_note, read_targets
from spanwire.pipeline.columns.destinations import target_destination
from spanwire.pipeline.link.connections import connect
from spanwire.pipeline.options import DUPLICATE_ID, WriteOptions
from spanwire.pipeline.sink.batch_sink import BatchSink

BATCH: Final = 100  # messages removed in one transaction
WAIT_S: Final = 2.0  # seconds for a message that the browser has shown


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The messages of an undo: ``removed``, ``gone`` because somebody has them, and still ``in_use`` at consumers."""

    removed: int
    gone: int
    in_use: int


def undo_replay(options: WriteOptions, sink: BatchSink, state: Path) -> UndoResult:
    """Remove the messages of a replay that are still in their queues.

    Raises:
        ConfigurationError: there is no such replay, it is damaged, or it has sent to topics.
        JmsError: the broker is lost; another undo goes on.
    """
    note = read_note(state / NOTE)
    if note is None:
        raise ConfigurationError(f"there is no replay in {state}")
    queues = [_queue(name) for name in read_targets(state)]
    note.is_undone = True  # noted first: a replay that goes on after a crash would send batches anew without its sink
    note.save()
    sink.forget(note.sink)
    note.is_forgotten = True
    note.save()
    selector = f"{DUPLICATE_ID} LIKE '{note.run}/%'"
    removed = in_use = 0
    with connect(options.login) as connection:
        for queue in queues:
            count, rest = _remove(connection, queue, selector)
            removed += count
            in_use += rest
    note.removed += removed
    note.save()
    return UndoResult(removed, max(0, note.sent - note.removed - in_use), in_use)


def _queue(name: str) -> Destination:
    destination = target_destination(name)
    if destination.kind != QUEUE:
        raise ConfigurationError(f"the replay sent messages to {destination}: its subscribers have them")
    return destination


def _remove(connection: blocking.Connection, queue: Destination, selector: str) -> tuple[int, int]:
    """Return the messages that were removed, and those that consumers have."""
    removed = 0
    with connection.session() as browsing, connection.session(acknowledge="transacted") as session:
        consumer = session.create_consumer(queue, selector=selector)
        while shown := sum(1 for _ in browsing.create_browser(queue, selector)):
            taken = 0
            while taken < shown and consumer.receive(timeout=WAIT_S) is not None:
                taken += 1
                if taken % BATCH == 0:
                    session.commit()
            session.commit()
            removed += taken
            if taken == 0:
                return removed, shown
    return removed, 0
