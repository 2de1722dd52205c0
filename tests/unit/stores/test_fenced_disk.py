"""The files of a store that another broker may take over: own names, and a look after each sync."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spanwire.model.errors import FencedError, StoreError
from spanwire.stores.directory import DataDirectory
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.driver.fenced_disk import FencedDisk, remove_others_files
from spanwire.stores.driver.journal_store import JournalStore
from spanwire.stores.epoch import claim_epoch, read_epoch
from spanwire.stores.journal.segments.segment import segment_name
from tests.support.plain_format import plain_formats


class Looks:
    """A fence that counts the looks, until it is shut."""

    def __init__(self) -> None:
        self.count = 0
        self.is_shut = False

    def check(self) -> None:
        self.count += 1
        if self.is_shut:
            raise FencedError("another broker")


def fenced(path: Path, token: str = "a") -> tuple[FencedDisk, Looks]:
    looks = Looks()
    return FencedDisk(FileDisk(path, write_through=True), looks, token), looks


def test_each_sync_is_followed_by_a_look(tmp_path: Path) -> None:
    disk, looks = fenced(tmp_path)
    disk.resize("x", 100)
    disk.write("x", 0, [b"1"])
    assert looks.count == 0
    disk.sync("x")
    disk.write("x", 1, [b"2"])  # reaches the disk by the same call
    disk.sync("x")
    disk.sync_directory()
    assert looks.count == 3
    looks.is_shut = True
    with pytest.raises(FencedError):
        disk.sync("x")
    with pytest.raises(FencedError):
        disk.sync_directory()


def test_own_files_have_names_of_their_own(tmp_path: Path) -> None:
    (one, _), (other, _) = fenced(tmp_path, "a"), fenced(tmp_path, "b")
    one.resize("spare.new", 10)
    other.resize("spare.new", 20)
    one.resize("reserve", 30)
    assert one.files() == {"spare.new": 10, "reserve": 30, "spare.new.b": 20}
    one.rename("reserve", "spare.new")
    one.delete("spare.new")
    assert {path.name for path in tmp_path.iterdir()} == {"spare.new.b"}


def test_an_error_after_a_take_over_is_told_as_the_take_over(tmp_path: Path) -> None:
    disk, looks = fenced(tmp_path)
    for call in (
        lambda: disk.read("gone", 0, 1),
        lambda: disk.write("gone", 0, [b"1"]),
        lambda: disk.sync("gone"),
        lambda: disk.rename("gone", "new"),
        lambda: disk.resize("no/directory", 1),
    ):
        looks.is_shut = False
        with pytest.raises(OSError):
            call()
        looks.is_shut = True
        with pytest.raises(FencedError):
            call()


def test_a_segment_that_the_old_owner_has_deleted_is_deleted(tmp_path: Path) -> None:
    disk, looks = fenced(tmp_path)
    disk.delete(segment_name(1))
    assert looks.count == 1
    looks.is_shut = True
    with pytest.raises(FencedError):
        disk.delete(segment_name(1))


def test_files_of_earlier_brokers_are_removed_and_their_room_comes_free(tmp_path: Path) -> None:
    old, _ = fenced(tmp_path, "a")
    old.resize("reserve", 5000)
    old.resize("spare.new", 5000)
    (tmp_path / "reserve").write_bytes(b"0")
    os.link(tmp_path / "spare.new.a", tmp_path / segment_name(1))  # as if the old owner had just given it this name
    kept = os.open(tmp_path / "reserve.a", os.O_RDONLY)
    remove_others_files(tmp_path, Looks())
    assert {path.name for path in tmp_path.iterdir()} == {segment_name(1)}
    assert (os.fstat(kept).st_size, (tmp_path / segment_name(1)).stat().st_size) == (0, 5000)
    os.close(kept)


def test_files_of_others_stay_with_a_broker_that_was_replaced(tmp_path: Path) -> None:
    new, _ = fenced(tmp_path, "b")
    new.resize("spare.new", 1)
    looks = Looks()
    looks.is_shut = True
    with pytest.raises(FencedError):
        remove_others_files(tmp_path, looks)
    assert (tmp_path / "spare.new.b").exists()


def opened(directory: DataDirectory, with_epoch: bool = True) -> JournalStore:
    epoch = claim_epoch(directory.subdirectory("journal"), "a") if with_epoch else None
    return JournalStore.open(
        directory, plain_formats(), lambda position: None, lambda *_: None, lambda error: None, lambda call: None,
        segment_bytes=1 << 20, epoch=epoch,
    )  # fmt: skip


def test_a_broker_without_a_lease_ends_all_leases(tmp_path: Path) -> None:
    opened(DataDirectory(tmp_path)).stop()
    (tmp_path / "journal" / "reserve.0123456789abcdef").write_bytes(b"0")
    assert read_epoch(tmp_path / "journal")
    opened(DataDirectory(tmp_path), with_epoch=False).stop()
    assert not read_epoch(tmp_path / "journal")
    assert not (tmp_path / "journal" / "reserve.0123456789abcdef").exists()


def test_a_broker_without_a_lease_ends_when_its_lock_was_replaced_meanwhile(tmp_path: Path) -> None:
    opened(DataDirectory(tmp_path)).stop()
    slow = DataDirectory(tmp_path)
    fast = DataDirectory(tmp_path, replaces_lock=True)
    with pytest.raises(StoreError, match=r"another broker has taken over .* meanwhile: start this one again"):
        opened(slow, with_epoch=False)
    fast.release()
