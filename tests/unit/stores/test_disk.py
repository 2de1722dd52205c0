"""Real files: what is written is there, and every byte was synced when `sync` has returned."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from spanwire.stores.disk import MAX_PARTS_PER_WRITE, WRITE_THROUGH, FileDisk


class Syncs:
    """Counts the syncs that are calls of their own, and the writes that sync themselves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        self.synced_writes = 0
        self.plain_writes = 0
        self.refusal = 0
        self._fdatasync, self._pwritev = os.fdatasync, os.pwritev
        monkeypatch.setattr(os, "fdatasync", self.fdatasync)
        monkeypatch.setattr(os, "pwritev", self.pwritev)

    def fdatasync(self, descriptor: int) -> None:
        self.syncs += 1
        self._fdatasync(descriptor)

    def pwritev(self, descriptor: int, parts: list[bytes], offset: int, flags: int = 0) -> int:
        if flags:
            if self.refusal:
                raise OSError(self.refusal, os.strerror(self.refusal))
            self.synced_writes += 1
        else:
            self.plain_writes += 1
        return self._pwritev(descriptor, parts, offset, flags)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    return Syncs(monkeypatch)


def prepared(directory: Path, write_through: bool) -> FileDisk:
    disk = FileDisk(directory, write_through)
    disk.resize("a", 4096)
    disk.sync("a")
    return disk


def test_without_write_through_each_sync_is_a_call(tmp_path: Path, syncs: Syncs) -> None:
    disk = prepared(tmp_path, write_through=False)
    for number in range(3):
        disk.write("a", number, [b"x"])
        disk.sync("a")
    assert (syncs.syncs, syncs.plain_writes, syncs.synced_writes) == (4, 3, 0)


def test_a_write_to_a_synced_file_syncs_itself(tmp_path: Path, syncs: Syncs) -> None:
    disk = prepared(tmp_path, write_through=True)
    for number in range(3):
        disk.write("a", 2 * number, [b"x", b"y"])
        disk.sync("a")
    told = (syncs.syncs, syncs.plain_writes, syncs.synced_writes)
    assert told == ((1, 0, 3) if WRITE_THROUGH else (4, 3, 0))
    assert disk.read("a", 0, 6) == b"xyxyxy"


@pytest.mark.parametrize("refusal", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_where_writes_cannot_sync_themselves_each_sync_is_a_call(tmp_path: Path, syncs: Syncs, refusal: int) -> None:
    syncs.refusal = refusal
    disk = prepared(tmp_path, write_through=True)
    for number in range(3):
        disk.write("a", 2 * number, [b"x", b"y"])
        disk.sync("a")
    assert (syncs.syncs, syncs.plain_writes, syncs.synced_writes) == (4, 3, 0)
    assert disk.read("a", 0, 6) == b"xyxyxy"


def test_a_write_that_fails_is_not_tried_another_way(tmp_path: Path, syncs: Syncs) -> None:
    syncs.refusal = errno.EIO
    disk = prepared(tmp_path, write_through=True)
    with pytest.raises(OSError, match="Input/output error") if WRITE_THROUGH else nullcontext():
        disk.write("a", 0, [b"x"])
    assert syncs.plain_writes == (0 if WRITE_THROUGH else 1)


def test_what_grew_or_was_written_before_its_first_sync_is_synced_by_a_call(tmp_path: Path, syncs: Syncs) -> None:
    disk = FileDisk(tmp_path, write_through=True)
    disk.resize("a", 100)
    disk.write("a", 0, [b"x"])
    disk.sync("a")
    assert (syncs.syncs, syncs.plain_writes) == (1, 1)
    disk.resize("a", 200)
    disk.write("a", 150, [b"y"])
    disk.sync("a")
    assert (syncs.syncs, syncs.plain_writes) == (2, 2)


def test_another_file_under_the_same_name_is_synced_by_a_call(tmp_path: Path, syncs: Syncs) -> None:
    disk = prepared(tmp_path, write_through=True)
    disk.resize("b", 10)
    disk.rename("b", "a")
    disk.write("a", 0, [b"x"])
    disk.sync("a")
    disk.delete("a")
    disk.resize("a", 10)
    disk.sync("a")
    assert syncs.syncs == 3


def test_a_synced_file_stays_synced_under_its_new_name(tmp_path: Path, syncs: Syncs) -> None:
    disk = prepared(tmp_path, write_through=True)
    disk.rename("a", "b")
    disk.write("b", 0, [b"x"])
    disk.sync("b")
    assert syncs.syncs == (1 if WRITE_THROUGH else 2)


def test_more_parts_than_one_call_takes_are_written_first_and_synced_then(tmp_path: Path, syncs: Syncs) -> None:
    disk = prepared(tmp_path, write_through=True)
    disk.write("a", 0, [b"z"] * (MAX_PARTS_PER_WRITE + 1))
    disk.sync("a")
    assert (syncs.syncs, syncs.plain_writes, syncs.synced_writes) == (2, 2, 0)
    assert disk.read("a", 0, MAX_PARTS_PER_WRITE + 1) == b"z" * (MAX_PARTS_PER_WRITE + 1)
