"""Real files: what is written is there, and every byte was synced when `sync` has returned."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from spanwire.stores.driver.disk import WRITE_THROUGH, FileDisk
from spanwire.stores.journal.segments.segment import SPARE_NAME
from spanwire.stores.journal.segments.whole_write import MAX_PARTS_PER_WRITE


class Syncs:
    """Counts the syncs that are calls of their own, and the writes that sync themselves; not those that only make a
    file longer.
    """

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
        elif offset < os.fstat(descriptor).st_size:
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


@pytest.mark.parametrize("write_through", [False, True])
def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_through: bool) -> None:
    pwritev = os.pwritev
    disk = prepared(tmp_path, write_through)
    sizes: list[int] = []

    def short_pwritev(descriptor: int, parts: list[bytes], offset: int, flags: int = 0) -> int:
        sizes.append(sum(map(len, parts)))
        return pwritev(descriptor, [b"".join(parts)[:3]], offset, flags)

    monkeypatch.setattr(os, "pwritev", short_pwritev)
    disk.write("a", 1, [b"abc", b"defg", b"h"])
    disk.resize("b", 5)
    monkeypatch.undo()
    assert disk.read("a", 0, 10) == b"\0abcdefgh\0"
    assert disk.read("b", 0, 10) == bytes(5)
    assert sizes == [8, 5, 2, 5, 2]


def test_a_system_that_takes_no_bytes_is_no_endless_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = prepared(tmp_path, False)
    monkeypatch.setattr(os, "pwritev", lambda descriptor, parts, offset, flags=0: 0)
    with pytest.raises(OSError, match="takes no more bytes"):
        disk.write("a", 0, [b"abc"])
    with pytest.raises(OSError, match="takes no more bytes"):
        disk.resize("a", 8192)


def test_when_others_have_all_open_files_the_disk_goes_on_with_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    disk = FileDisk(tmp_path)
    left = [0]
    open_file, close_file, duplicate = os.open, os.close, os.dup

    def take() -> None:
        if left[0] == 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        left[0] -= 1

    def limited_open(path: str, flags: int, mode: int = 0o777) -> int:
        take()
        return open_file(path, flags, mode)

    def limited_dup(descriptor: int) -> int:
        take()
        return duplicate(descriptor)

    def counted_close(descriptor: int) -> None:
        left[0] += 1
        close_file(descriptor)

    monkeypatch.setattr(os, "open", limited_open)
    monkeypatch.setattr(os, "dup", limited_dup)
    monkeypatch.setattr(os, "close", counted_close)
    for _ in range(3):
        for name in "abc":
            assert disk.read(name, 0, 1) == name.encode()
            disk.sync_directory()
            assert left == [0]  # it holds what it had
    disk.delete("c")
    assert left == [0]
    assert disk.read("b", 0, 1) == b"b"
    disk.close()
    assert left == [2]


def test_a_file_that_cannot_be_opened_because_all_are_taken_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("a")
    disk = FileDisk(tmp_path)

    def refused(path: str, flags: int, mode: int = 0o777) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(OSError, match="Too many open files"):
        disk.read("a", 0, 1)


def test_a_file_that_is_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"not ours")
    directory = tmp_path / "journal"
    directory.mkdir()
    (directory / SPARE_NAME).symlink_to(theirs)
    disk = FileDisk(directory)
    with pytest.raises(OSError, match="symbolic links"):
        disk.resize(SPARE_NAME, 4096)
    disk.close()
    assert theirs.read_bytes() == b"not ours"
