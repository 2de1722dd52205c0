"""Opens a store: recovers and repairs its contents and begins the segment of this run."""

from __future__ import annotations

from typing import Final

from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.recovery.recovery import (
    Progress,
    Recovery,
    cut_end,
    recover,
    remove_leftovers,
    write_summaries,
)
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.segment import DEFAULT_SEGMENT_BYTES
from spanwire.stores.journal.space import possible_segment


class OpenedJournal:
    """A journal ready for use, with the result of recovery."""

    __slots__ = ("journal", "recovery")

    def __init__(self, journal: Journal, recovery: Recovery) -> None:
        self.journal: Final[Journal] = journal
        self.recovery: Final[Recovery] = recovery


def open_journal(
    disk: Disk,
    new_store_id: bytes,
    segment_bytes: int = DEFAULT_SEGMENT_BYTES,
    sync: bool = True,
    progress: Progress | None = None,
    takes_over: bool = False,
) -> OpenedJournal:
    """Recover the store on ``disk``, repair a crash and begin the segment of this run.

    ``new_store_id`` (16 unpredictable bytes) names a new store. With ``takes_over`` an older broker may still write to
    the files. The header of the new segment then seals the newest segment of that broker, which a number left out tells
    later starts, and only then is that segment cut.

    Raises:
        StoreError: the store is damaged, incomplete, from a newer version or taken over.
        OSError: the disk refused.
    """
    recovery = recover(disk, progress)
    if not takes_over:
        cut_end(disk, recovery)
    remove_leftovers(disk, recovery)
    if not recovery.clean:
        recovery.index.skip_lost_sequences()
    store_id = recovery.store_id if recovery.store_id else new_store_id
    journal = Journal(recovery, store_id, possible_segment(disk, segment_bytes), is_unsynced=not sync)
    batch = journal.first_batch(takes_over)
    write_batch(disk, batch, True)
    if takes_over:
        cut_end(disk, recovery)
    journal.on_completed(batch)
    write_summaries(disk, recovery)
    return OpenedJournal(journal, recovery)
