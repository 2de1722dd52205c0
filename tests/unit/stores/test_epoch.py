"""The epoch of a shared store: who owns it, renewals, and how an old owner finds that it is one no more."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from spanwire.model.errors import FencedError, StoreError
from spanwire.stores.epoch import (
    DRAFT_NAME,
    EPOCH_NAME,
    Epoch,
    LeaseWatch,
    TakeOverLock,
    claim_epoch,
    epoch_in,
    forget_epoch,
    read_epoch,
)
from spanwire.stores.lock_file import host_name
from tests.support.descriptors import descriptors_of


def test_an_epoch_has_a_number_and_names_its_owner(tmp_path: Path) -> None:
    claim_epoch(tmp_path, "a")
    second = claim_epoch(tmp_path, "broker-b")
    found = epoch_in(read_epoch(tmp_path))
    assert (found.number, found.holder_id, found.holder) == (2, "broker-b", (os.getpid(), host_name()))
    second.check()
    assert {path.name for path in tmp_path.iterdir()} == {EPOCH_NAME, DRAFT_NAME}


def test_an_owner_finds_that_another_has_taken_over_in_one_line(tmp_path: Path) -> None:
    first = claim_epoch(tmp_path, "a")
    claim_epoch(tmp_path, "b")
    line = (
        f"b (process {os.getpid()}) has taken over the store with epoch 2; this broker held epoch 1, acknowledges and"
        " writes nothing more, and ends"
    )
    for look in (first.check, first.renew):
        with pytest.raises(FencedError) as caught:
            look()
        assert str(caught.value) == line


def test_a_late_renewal_changes_nothing_of_the_new_owner(tmp_path: Path) -> None:
    first = claim_epoch(tmp_path, "a")
    claim_epoch(tmp_path, "b")
    before = read_epoch(tmp_path)
    with pytest.raises(FencedError):
        first.renew()
    assert read_epoch(tmp_path) == before


@pytest.mark.parametrize("contents", ["", "garbage", "1 4711 host 0123456789abcdef 000000000000 a\n"])
def test_another_file_in_its_place_is_not_the_owners(tmp_path: Path, contents: str) -> None:
    epoch = claim_epoch(tmp_path, "a")
    (tmp_path / EPOCH_NAME).write_text(contents)
    with pytest.raises(FencedError):
        epoch.check()


def test_a_removed_epoch_ends_its_owner(tmp_path: Path) -> None:
    epoch = claim_epoch(tmp_path, "a")
    assert forget_epoch(tmp_path)
    assert not forget_epoch(tmp_path)
    with pytest.raises(FencedError, match="the epoch file is gone; this broker held epoch 1"):
        epoch.check()


@pytest.mark.parametrize(
    "text", [b"", b"1", b"0 1 h 0123456789abcdef 0 a", b"1 2 h 0123456789ABCDEF 0 a", b"x" * 900, b"1 2 h \xff 0 a"]
)
def test_an_epoch_file_that_is_not_ours_has_no_owner(text: bytes, tmp_path: Path) -> None:
    (tmp_path / EPOCH_NAME).write_bytes(text)
    assert epoch_in(read_epoch(tmp_path)).number == 0
    watch = LeaseWatch(1.0)
    assert not watch.expired(text, 0.0)
    assert not watch.expired(text, 100.0)


def test_a_lease_expires_when_the_file_has_stood_still(tmp_path: Path) -> None:
    epoch, watch = claim_epoch(tmp_path, "a"), LeaseWatch(1.0)
    assert not watch.expired(read_epoch(tmp_path), 5.0)
    assert not watch.expired(read_epoch(tmp_path), 5.9)
    epoch.renew()
    assert not watch.expired(read_epoch(tmp_path), 6.0)
    assert not watch.expired(read_epoch(tmp_path), 6.9)
    assert watch.expired(read_epoch(tmp_path), 7.0)


def refusing(monkeypatch: pytest.MonkeyPatch, epoch: Epoch, number: int) -> None:
    opened = os.open

    def refuse(path: object, *arguments: object) -> int:
        if path == epoch.path:
            raise OSError(number, os.strerror(number))
        return opened(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)


def test_an_epoch_that_cannot_be_read_answers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = claim_epoch(tmp_path, "a")
    refusing(monkeypatch, epoch, errno.EIO)
    with pytest.raises(StoreError, match="epoch cannot be read: Input/output error; nothing is acknowledged any more"):
        epoch.check()
    with pytest.raises(OSError):
        epoch.renew()


def test_a_stale_handle_is_a_replaced_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = claim_epoch(tmp_path, "a")
    refusing(monkeypatch, epoch, errno.ESTALE)
    with pytest.raises(FencedError):
        epoch.check()


def test_a_process_without_descriptors_looks_at_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = claim_epoch(tmp_path, "a")
    refusing(monkeypatch, epoch, errno.EMFILE)
    epoch.check()
    monkeypatch.undo()
    claim_epoch(tmp_path, "b")
    refusing(monkeypatch, epoch, errno.EMFILE)
    with pytest.raises(FencedError):
        epoch.check()


def test_a_process_without_descriptors_takes_no_later_epoch_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system gives the inode number of a file that is gone to the next one, ext4 at once."""
    epoch = claim_epoch(tmp_path, "a")
    for holder in ("b", "c", "d", "e"):
        claim_epoch(tmp_path, holder).close()
        with monkeypatch.context() as patch:
            refusing(patch, epoch, errno.EMFILE)
            with pytest.raises(FencedError):
                epoch.check()
    epoch.close()


def test_an_epoch_keeps_its_file_open_until_it_is_closed(tmp_path: Path) -> None:
    epoch = claim_epoch(tmp_path, "a")
    assert descriptors_of(tmp_path / EPOCH_NAME) == 1
    epoch.check()
    epoch.renew()
    assert descriptors_of(tmp_path / EPOCH_NAME) == 1
    epoch.close()
    epoch.close()
    assert descriptors_of(tmp_path / EPOCH_NAME) == 0


def test_a_closed_epoch_is_nobodys_for_a_process_without_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = claim_epoch(tmp_path, "a")
    epoch.close()
    refusing(monkeypatch, epoch, errno.EMFILE)
    with pytest.raises(FencedError):
        epoch.check()


def test_a_claim_has_its_room_on_a_full_disk(tmp_path: Path) -> None:
    claim_epoch(tmp_path, "a")
    before = (tmp_path / DRAFT_NAME).stat()
    second = claim_epoch(tmp_path, "b")
    after = (tmp_path / EPOCH_NAME).stat()
    assert (after.st_ino, after.st_blocks) == (before.st_ino, before.st_blocks)
    second.check()


def test_a_disk_without_that_room_keeps_a_broker_from_claiming_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = claim_epoch(tmp_path, "a")

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(StoreError, match="epoch cannot be written: No space left on device; make room"):
        claim_epoch(tmp_path, "b")
    first.check()
    assert descriptors_of(tmp_path / DRAFT_NAME) == 0


def test_one_broker_at_a_time_takes_a_store(tmp_path: Path) -> None:
    with TakeOverLock(tmp_path) as first:
        with TakeOverLock(tmp_path) as second:
            assert (first, second) == (True, False)
    with TakeOverLock(tmp_path) as third:
        assert third
