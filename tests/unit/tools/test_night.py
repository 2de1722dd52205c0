"""A night goes on where it ended, and notes nothing that failed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.soak.hours import ExpiredNumbers, Numbers, growth, read_numbers
from tests.soak.night import PARTS, Part, Slice, done_of, go_on, is_done, status

WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1]).open('a').write(sys.argv[2] + '\\n'); print('all well')"


def part(log: Path, total: int = 10, each: int = 4) -> Part:
    """A part whose slices write their first and count."""
    return Part(
        "seeds",
        total,
        each,
        lambda first, count: Slice([sys.executable, "-c", WRITE, str(log), f"{first} {count}"], {}),
    )


def broken(name: str = "seeds") -> Part:
    return Part(
        name, 10, 5, lambda _first, _count: Slice([sys.executable, "-c", "print('lost 1'); raise SystemExit(1)"], {})
    )


def test_a_part_is_done_in_slices(tmp_path: Path) -> None:
    assert go_on([part(tmp_path / "log")], tmp_path / "notes", 1)
    assert (tmp_path / "log").read_text().splitlines() == ["0 4", "4 4", "8 2"]
    assert done_of(tmp_path / "notes") == {"seeds": 10}


def test_a_further_run_goes_on_with_the_next_slice(tmp_path: Path) -> None:
    assert go_on([part(tmp_path / "log", total=4)], tmp_path / "notes", 1)
    assert go_on([part(tmp_path / "log")], tmp_path / "notes", 1)
    assert (tmp_path / "log").read_text().splitlines() == ["0 4", "4 4", "8 2"]


def test_a_slice_that_fails_ends_the_night_with_its_command_and_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not go_on([broken(), part(tmp_path / "log")], tmp_path / "notes", 1)
    said = capsys.readouterr().out
    assert "lost 1" in said
    assert f"seeds from 0 on failed: {sys.executable} -c" in said
    assert not (tmp_path / "log").exists()
    assert go_on([part(tmp_path / "log")], tmp_path / "notes", 1)
    assert (tmp_path / "log").read_text().startswith("0 4\n")


def test_no_slice_begins_after_the_end_of_the_time(tmp_path: Path) -> None:
    assert go_on([part(tmp_path / "log")], tmp_path / "notes", 0)
    assert not (tmp_path / "log").exists()


def test_the_status_says_how_much_of_each_part_is_done(tmp_path: Path) -> None:
    assert go_on([part(tmp_path / "log", total=4)], tmp_path / "notes", 1)
    assert " ".join(status([part(tmp_path / "log")], tmp_path / "notes").split()[:4]) == "seeds 4 of 10"


def test_a_line_that_was_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    assert go_on([part(tmp_path / "log", total=4)], notes, 1)
    notes.write_text(notes.read_text() + '\n{"part": "seeds", "cou')
    assert go_on([part(tmp_path / "log")], notes, 1)
    assert done_of(notes) == {"seeds": 10}


def test_a_night_is_done_when_nothing_is_left(tmp_path: Path) -> None:
    parts = [part(tmp_path / "log", total=4)]
    assert not is_done(parts, tmp_path / "notes")
    assert go_on(parts, tmp_path / "notes", 1)
    assert is_done(parts, tmp_path / "notes")


def test_behind_a_run_that_was_interrupted_the_numbers_begin_anew(tmp_path: Path) -> None:
    assert read_numbers(tmp_path / "numbers") == {}
    (tmp_path / "numbers").write_text("")
    assert read_numbers(tmp_path / "numbers") == {}
    (tmp_path / "numbers").write_text('{"queue": [3, 3]}')
    assert read_numbers(tmp_path / "numbers")["queue"] == [3, 3]


@pytest.mark.parametrize("of_night", PARTS, ids=lambda part: part.name)
def test_each_part_names_files_and_modules_that_exist(of_night: Part) -> None:
    arguments = of_night.slice_of(0, of_night.each).arguments
    root = Path(__file__).parents[3]
    names = [one.removeprefix("--ignore=").partition("::")[0] for one in arguments]
    files = [name for name in names if name.startswith("tests/")]
    files += [name.replace(".", "/") + ".py" for name in names if name.startswith("tests.")]
    assert files
    assert [file for file in files if not (root / file).exists()] == []


def test_a_number_that_is_missing_or_doubled_is_found() -> None:
    numbers = Numbers()
    numbers.take(1)
    with pytest.raises(AssertionError, match="number 3 came after 1"):
        numbers.take(3)
    with pytest.raises(AssertionError, match="number 1 came after 1"):
        numbers.take(1)


def test_expired_messages_may_come_in_another_order_and_come_once() -> None:
    numbers = ExpiredNumbers(sent=4)
    for number in (3, 1, 2):
        numbers.take(number)
    assert numbers.pair == (4, 3)
    for number in (2, 3, 5):
        with pytest.raises(AssertionError, match=f"number {number} came again"):
            numbers.take(number)


def test_growth_is_found_beyond_a_tenth_and_the_slack() -> None:
    flat = {name: {"early": 100.0, "late": 110.0} for name in ("memory_mib", "descriptors", "threads", "data_mib")}
    assert growth(flat) == []
    assert growth(flat | {"descriptors": {"early": 20.0, "late": 31.0}}) == ["descriptors grew from 20.0 to 31.0"]
