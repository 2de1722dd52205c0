"""The segments of a store are held as they were, whatever the broker appends and deletes meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import StoreError
from spanwire.stores.journal.segments.segment import segment_name
from spanwire.stores.offline import held_disk
from spanwire.stores.offline.held_disk import TRIES, HeldDisk


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A directory with three files named as segments, and a summary."""
    for number in (1, 2, 3):
        (tmp_path / segment_name(number)).write_bytes(bytes([number]) * number)
    (tmp_path / "0000000001.summary").write_bytes(b"x")
    return tmp_path


def test_a_deleted_segment_stays_readable_and_later_ones_do_not_appear(journal: Path) -> None:
    with HeldDisk(journal) as disk:
        (journal / segment_name(1)).unlink()
        (journal / segment_name(4)).write_bytes(b"later")
        assert disk.files() == {segment_name(number): number for number in (1, 2, 3)}
        assert disk.read(segment_name(1), 0, 10) == b"\x01"


def test_the_length_is_that_of_the_beginning(journal: Path) -> None:
    with HeldDisk(journal) as disk:
        with (journal / segment_name(3)).open("ab") as file:
            file.write(b"more")
        assert disk.files()[segment_name(3)] == 3


def test_a_segment_that_is_deleted_while_they_are_opened_makes_a_new_try(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = held_disk.HeldDisk._segments
    listings = [[segment_name(1), segment_name(2)]]  # an old one: the second is gone
    (journal / segment_name(2)).unlink()
    monkeypatch.setattr(HeldDisk, "_segments", lambda disk: listings.pop() if listings else listing(disk))
    with HeldDisk(journal) as disk:
        assert list(disk.files()) == [segment_name(1), segment_name(3)]


def test_segments_that_change_without_an_end_are_refused(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def changing(disk: HeldDisk) -> list[str]:
        tries.append(1)
        return [segment_name(1)] if len(tries) % 2 else [segment_name(2)]

    monkeypatch.setattr(HeldDisk, "_segments", changing)
    with pytest.raises(StoreError, match="stop the broker for the export"):
        HeldDisk(journal)
    assert len(tries) <= 2 * TRIES


def test_more_segments_than_the_system_opens_are_refused(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda kind: (10, 10))
    with pytest.raises(StoreError, match="67 files must be open at once and the system allows 10"):
        HeldDisk(journal)
