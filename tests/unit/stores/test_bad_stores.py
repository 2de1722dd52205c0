"""Stores that cannot be opened: one line that says what and what to do, and not a byte of them changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import StoreError
from spanwire.stores.journal.recovery.summary import summary_name
from spanwire.stores.journal.segments.segment import FORMAT_VERSION, header_sum, segment_name
from spanwire.stores.lock_file import LOCK_NAME
from tests.support.journal_store_driver import JournalStoreDriver
from tests.support.plain_format import plain_message

A = Destination(QUEUE, "A")
FIRST = segment_name(1)


def good_store(path: Path) -> Path:
    """Five segments with messages, left by a clean stop; gives the journal's directory."""
    driver = JournalStoreDriver(path, segment_bytes=4096)
    for number in range(20):
        driver.store.append(A, plain_message(A, number, b"x" * 700))
        driver.turn()
    driver.journal_store.stop()
    return path / "journal"


def contents(path: Path) -> dict[str, tuple[int, bytes]]:
    """All files below, with mode and bytes; links as what they are. The lock is not part of the store."""
    found = {}
    for file in sorted(path.rglob("*")):
        status = file.lstat()
        if file.name != LOCK_NAME:
            data = os.readlink(file).encode() if file.is_symlink() else file.read_bytes() if file.is_file() else b""
            found[str(file)] = (status.st_mode, data)
    return found


def newer(journal: Path) -> None:
    data = bytearray((journal / FIRST).read_bytes())
    data[8:10] = (FORMAT_VERSION + 7).to_bytes(2, "little")
    data[12:16] = header_sum(bytes(data)).to_bytes(4, "little")
    (journal / FIRST).write_bytes(data)


def with_a_wrong_version(journal: Path) -> None:
    data = bytearray((journal / FIRST).read_bytes())
    data[9] ^= 0x40
    (journal / FIRST).write_bytes(data)


def foreign(journal: Path) -> None:
    (journal / FIRST).write_bytes(b"\x89PNG\r\n" + bytes(range(256)) * 20)


def empty(journal: Path) -> None:
    (journal / FIRST).write_bytes(b"")


def lost(journal: Path) -> None:
    (journal / FIRST).unlink()


def swapped(journal: Path) -> None:
    first = (journal / FIRST).read_bytes()
    (journal / FIRST).write_bytes((journal / segment_name(2)).read_bytes())
    (journal / segment_name(2)).write_bytes(first)


def linked(journal: Path) -> None:
    (journal / FIRST).rename(journal.parent / "elsewhere")
    (journal / FIRST).symlink_to(journal.parent / "elsewhere")


def linked_newest(journal: Path) -> None:
    newest = max(journal.glob("*.journal"))
    newest.rename(journal.parent / "elsewhere")
    newest.symlink_to(journal.parent / "elsewhere")


def a_directory(journal: Path) -> None:
    (journal / FIRST).unlink()
    (journal / FIRST).mkdir()


def of_another_store(journal: Path) -> None:
    other = good_store(journal.parent.parent / "other")
    (journal / FIRST).write_bytes((other / FIRST).read_bytes())


def cut_short(journal: Path) -> None:
    os.truncate(journal / FIRST, 1500)


def flipped(journal: Path) -> None:
    (journal / summary_name(1)).unlink()
    data = bytearray((journal / FIRST).read_bytes())
    data[1500] ^= 4
    (journal / FIRST).write_bytes(data)


def without_newest(journal: Path) -> None:
    newest = max(journal.glob("*.journal"))
    data = bytearray(newest.read_bytes())
    data[70] ^= 1
    newest.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (newer, f"has journal format {FORMAT_VERSION + 7}, this build reads up to"),
        (with_a_wrong_version, "or a damaged header, this build reads up to"),
        (foreign, "is not a journal segment of Spanwire"),
        (empty, "is not a journal segment of Spanwire"),
        (lost, f"{FIRST} is missing"),
        (swapped, "files were swapped or renamed"),
        (linked, f"{FIRST} is no regular file: put the file itself in its place"),
        (linked_newest, "is no regular file: put the file itself in its place"),
        (a_directory, f"{FIRST} is no regular file"),
        (of_another_store, "belongs to another store"),
        (cut_short, f"{FIRST} is damaged at byte"),
        (flipped, f"{FIRST} is damaged at byte"),
        (without_newest, "is damaged at byte"),
    ],
)
def test_a_store_that_cannot_be_opened_is_refused_in_one_line_and_left_alone(
    tmp_path: Path, spoil: Callable[[Path], None], told: str
) -> None:
    journal = good_store(tmp_path / "data")
    spoil(journal)
    before = contents(tmp_path)
    for _ in range(2):  # also when it is tried again
        with pytest.raises(StoreError) as caught:
            JournalStoreDriver(tmp_path / "data", segment_bytes=4096)
        line = str(caught.value)
        assert "\n" not in line
        assert line.startswith(f"the store in {journal} cannot be opened: ")
        assert told in line
        assert contents(tmp_path) == before


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = good_store(tmp_path / "data")
    before = contents(tmp_path)
    open_file = os.open

    def guarded(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if str(path).endswith(FIRST):
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, flags, mode)

    monkeypatch.setattr(os, "open", guarded)
    with pytest.raises(StoreError) as caught:
        JournalStoreDriver(tmp_path / "data")
    monkeypatch.undo()
    assert str(caught.value) == (
        f"the store in {journal / FIRST} cannot be opened: Permission denied; give this user the right to read and"
        " write it, or name another directory"
    )
    assert contents(tmp_path) == before


def test_files_that_are_none_of_the_stores_are_left_alone(tmp_path: Path) -> None:
    journal = good_store(tmp_path / "data")
    strangers = {"README": b"mine", "0000000001.journal~": b"an editor's", "1.journal": b"?", "db.data": b"KahaDB"}
    for name, data in strangers.items():
        (journal / name).write_bytes(data)
    (journal / "old").mkdir()
    JournalStoreDriver(tmp_path / "data", segment_bytes=4096).journal_store.stop()
    assert {name: (journal / name).read_bytes() for name in strangers} == strangers
    assert (journal / "old").is_dir()


def test_a_store_in_a_linked_directory_is_opened(tmp_path: Path) -> None:
    good_store(tmp_path / "real")
    (tmp_path / "data").symlink_to(tmp_path / "real")
    driver = JournalStoreDriver(tmp_path / "data", segment_bytes=4096)
    assert len(driver.recovered[0].sequences) == 20
    driver.journal_store.stop()
