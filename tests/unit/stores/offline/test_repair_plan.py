"""Plans of interrupted repairs: read in each format, refused from a newer Spanwire, and never half carried out."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from zlib import crc32

import pytest

from spanwire.model.errors import StoreError
from spanwire.stores.journal.segments.patches import PLAN_NAME
from spanwire.stores.offline.repair import PLAN_FORMAT, finish
from tests.simulation.disk import SimulatedDisk

PLANS: Final = Path(__file__).resolve().parents[3] / "vectors/repairs"
FORMATS: Final = range(1, PLAN_FORMAT + 1)
COPY: Final = "Kopie für\nmich.journal"


def plan_of(number: int) -> bytes:
    return (PLANS / f"format-{number}.plan").read_bytes()


def interrupted(plan: bytes, **others: bytes) -> SimulatedDisk:
    """A journal whose first segment is already repaired."""
    files = {
        "0000000001.journal": b"good 1", "0000000001.summary": b"of the bad one", "0000000002.journal": b"of no use",
        "0000000003.journal": b"bad 3", "0000000003.journal.repaired": b"good 3", PLAN_NAME: plan,
    }  # fmt: skip
    return SimulatedDisk.holding({**files, **others})


def repaired(plan: bytes, **others: bytes) -> dict[str, bytes]:
    disk = interrupted(plan, **others)
    assert finish(disk)
    assert not finish(disk)
    return disk.contents()


def refusal_of(plan: bytes, **others: bytes) -> str:
    disk = interrupted(plan, **others)
    before = disk.contents()
    with pytest.raises(StoreError) as refused:
        finish(disk)
    assert disk.contents() == before
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_there_is_a_plan_of_each_format() -> None:
    assert sorted(path.name for path in PLANS.glob("*.plan")) == [f"format-{number}.plan" for number in FORMATS]


@pytest.mark.parametrize("number", FORMATS)
def test_a_repair_with_a_plan_of_each_format_is_completed(number: int) -> None:
    assert repaired(plan_of(number)) == {"0000000001.journal": b"good 1", "0000000003.journal": b"good 3"}


def test_a_name_with_line_breaks_and_umlauts_is_removed() -> None:
    assert COPY not in repaired(plan_of(2), **{COPY: b"a copy"})


def test_a_plan_of_a_newer_spanwire_is_refused_in_one_line() -> None:
    text = b"move 0000000001.journal elsewhere\n"
    newer = refusal_of(b"plan %d %08x\n" % (PLAN_FORMAT + 1, crc32(text)) + text)
    assert newer == (
        f"repair.plan has the format {PLAN_FORMAT + 1} of a newer Spanwire, or a damaged first line, and this one "
        f"reads up to {PLAN_FORMAT}: end the repair with the newer one. If there was none, put the files of the newest "
        "directory in quarantine back into the journal, move repair.plan away, and repair the store again; nothing was "
        "changed"
    )


def test_a_plan_that_was_cut_off_anywhere_is_called_damaged() -> None:
    plan = plan_of(2)
    for length in range(len(plan)):
        assert refusal_of(plan[:length]).startswith("repair.plan is damaged, and nothing was changed: put the files of")


def test_a_plan_with_a_changed_byte_anywhere_is_refused() -> None:
    plan = plan_of(2)
    for offset in range(len(plan)):
        for mask in (1, 4, 0x80):
            text = refusal_of(plan[:offset] + bytes([plan[offset] ^ mask]) + plan[offset + 1 :])
            assert "is damaged" in text or "of a newer Spanwire" in text


def test_a_plan_of_format_1_without_a_segment_that_was_repaired_is_called_damaged() -> None:
    plan = plan_of(1)
    whole = len(plan) - len(b"remove 0000000002.journal\nremove 0000000001.summary\n")
    for length in range(whole):
        assert "is damaged" in refusal_of(plan[:length])
    assert repaired(plan[:whole])["0000000003.journal"] == b"good 3"


def test_a_plan_that_names_a_missing_segment_is_called_damaged() -> None:
    text = b"put 0000000001.journal\nput 0000000003.journal\nput 0000000004.journal\n"
    assert "is damaged" in refusal_of(b"plan 2 %08x\n" % crc32(text) + text)
