from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.report.model import Column, Kind, Table, Value, limit_rows
from spanwire.pipeline.report.report_builder import incomplete
from spanwire.pipeline.report.sources import Inputs
from spanwire.pipeline.report.texts import octets_text, short, table_text, text_of

MOMENT = datetime(2026, 1, 31, 12, 30, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, Kind.COUNT, "–"),
        (1234567, Kind.COUNT, "1,234,567"),
        (0.12345, Kind.RATE, "0.123"),
        (1234.5, Kind.RATE, "1,234"),
        (12.5, Kind.MILLIS, "12.5 ms"),
        (-3.0, Kind.MILLIS, "-3 ms"),
        (61_000.0, Kind.MILLIS, "61.0 s"),
        (MOMENT, Kind.TIME, "2026-01-31 12:30:05"),
        ("a\x1b[2J\nb\u202e", Kind.TEXT, "a\ufffd[2J\ufffdb\ufffd"),
    ],
)
def test_values_as_people_read_them(value: Value, kind: Kind, text: str) -> None:
    assert text_of(value, kind) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (5 * 2**30, "5 GiB"), (2**60, "1,048,576 TiB")],
)
def test_octets_in_their_units(count: int, text: str) -> None:
    assert octets_text(count) == text


def test_a_long_name_keeps_both_ends() -> None:
    found = short("ID:" + "x" * 200 + ":1:1:7")
    assert len(found) == 100 and found.startswith("ID:xx") and found.endswith("x:1:1:7") and "…" in found


def test_a_table_has_aligned_columns_and_says_what_is_cut() -> None:
    columns = (Column("queue"), Column("messages", Kind.COUNT))
    table = Table("t", "Title", "", columns, [("A", 5), ("LONGER", 12345)], 7)
    assert table_text(table).splitlines() == [
        "Title",
        "=====",
        "queue   messages",
        "A              5",
        "LONGER    12,345",
        "… 5 more",
    ]


def test_what_was_too_much_to_look_at_is_said() -> None:
    many = Table("hops", "Hops", "", (Column("from"),), [("A",)], 10_000)
    ids = Table("ids", "Ids", "", (Column("is"),), [("lost",)], 20_000)  # all of them are counted
    assert incomplete([many, ids]) == ["Hops: only 10,000 rows were looked at; figures and sums leave the others out."]


def test_more_archives_than_a_report_can_have_are_refused(tmp_path: Path) -> None:
    names = []
    for number in range(101):
        (tmp_path / str(number) / "_archive").mkdir(parents=True)
        names.append(str(tmp_path / str(number)))
    Inputs(tuple(names[:100])).check()
    with pytest.raises(ConfigurationError, match="101 archives are more than the 100 of one report"):
        Inputs(tuple(names)).check()


def test_a_table_is_cut_at_its_limit() -> None:
    table = limit_rows("t", "T", "", (Column("n", Kind.COUNT),), [(n,) for n in range(500)])
    assert (len(table.rows), table.total, table.is_cut) == (200, 500, True)
