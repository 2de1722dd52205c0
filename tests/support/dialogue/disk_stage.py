"""A stage with a journal on a simulated disk, so that a power cut takes what was not synced.

stage = DiskStage()
stage.peer("p").sends("queue://Q", "one")
stage.syncs()
stage = stage.loses_power()
"""

from __future__ import annotations

from typing import Any, Final

from spanwire.broker.broker import Broker
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.environment import Time
from spanwire.stores.driver.reader import read_all, read_block
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.fetching.fetch import Fetch
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.recovery.audited import recover_audit
from tests.simulation.disk import SimulatedDisk
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.dialogue.text_format import text_formats

STORE_ID: Final = b"a disk for stage"
SEGMENT_BYTES: Final = 16 * 1024
MAX_TURNS: Final = 10_000


class DiskStore:
    """Duck-typed to `spanwire.broker.ports.Store`: a journal, written and read when the test says so."""

    def __init__(self, disk: SimulatedDisk, segment_bytes: int) -> None:
        self.disk: Final = disk
        opened = open_journal(disk, STORE_ID, segment_bytes)
        self.journal: Final = opened.journal
        self.recovery: Final = opened.recovery
        self.audit: Final = ProducerAudit(identity=b"identity")
        recover_audit(disk, opened.recovery, text_formats(), self.audit)
        self.journal.attach_audit(self.audit)
        self._fetches: list[Fetch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.journal, name)

    @property
    def reads(self) -> list[Fetch]:
        """The reads that wait."""
        self._fetches += self.journal.take_fetches()
        return self._fetches

    def sync(self, broker: Broker, now: Time) -> None:
        """Write and sync everything, also what compaction moves."""
        for _ in range(MAX_TURNS):
            batch = self.journal.next_batch()
            if batch is not None:
                write_batch(self.disk, batch, True)
                broker.stored(self.journal.on_completed(batch), now)
                continue
            scan = self.journal.take_scan()
            if scan is not None:
                self.journal.scanned(scan, read_block(self.disk, scan))
            elif not self.journal.release_removed():
                position = self.journal.take_answer()
                if position >= 0:
                    broker.stored(position, now)
                return
        raise AssertionError("the journal does not come to rest")

    def answer(self, broker: Broker, now: Time) -> None:
        """Answer the reads that wait."""
        fetches, self._fetches = self.reads, []
        formats = text_formats()
        for fetch in fetches:
            for read, found in zip(fetch.reads, read_all(self.disk, fetch.reads), strict=True):
                if fetch.still_there(read) and found is not None:
                    assert not found.damage
                    fetch.messages[read.index] = formats.index(found.format_id, found.raw)
            self.journal.answered(fetch)
            broker.on_fetched(fetch.request, fetch.messages, now)


class DiskStage(Stage):
    """A stage over a `DiskStore`."""

    def __init__(
        self, *policies: PolicyEntry, disk: SimulatedDisk | None = None, segment_bytes: int = SEGMENT_BYTES, **more: Any
    ) -> None:
        self.disk_store: Final = DiskStore(SimulatedDisk() if disk is None else disk, segment_bytes)
        self._again: Final = (policies, segment_bytes, more)
        store: Any = self.disk_store
        super().__init__(*policies, store=store, producer_audit=self.disk_store.audit, **more)

    def loses_power(self) -> DiskStage:
        """The next run of the broker, over what was synced."""
        disk = self.disk_store.disk.power_cut_keeping(lambda _: None, lambda: False)
        policies, segment_bytes, more = self._again
        stage = DiskStage(*policies, disk=disk, segment_bytes=segment_bytes, **more)
        stage.environment.time = self.environment.time
        recovery = stage.disk_store.recovery
        stage.broker.recover(recovery.destinations(), recovery.clean, stage.now, recovery.metadata())
        return stage
