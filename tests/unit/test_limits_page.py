"""The page about limits says what holds: each constant has the value it shows, each named test exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "limits.md").read_text("utf-8")
TURNS = (ROOT / "docs" / "internals" / "turns.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and line.count("|") == 6 and not line.startswith(("|---", "| limit |"))
]
UNITS = {"": 1, "%": 1, "s": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
TESTS = {
    name
    for path in (ROOT / "tests").rglob("*.py")  # some classes of tests are inherited
    for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
}


def shown(text: str) -> int:
    found = re.fullmatch(r"([0-9,]+) ?(%|s|[KMG]iB)?", text)
    assert found is not None, text
    return int(found[1].replace(",", "")) * UNITS[found[2] or ""]


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 35


@pytest.mark.parametrize(("value", "constant"), [(row[1], row[2].strip("`")) for row in ROWS if row[2]])
def test_a_constant_has_the_value_that_the_page_shows(value: str, constant: str) -> None:
    module, _, name = constant.rpartition(".")
    assert getattr(importlib.import_module(f"spanwire.{module}"), name) == shown(value)


@pytest.mark.parametrize(("limit", "test"), [(row[0], row[4].strip("`")) for row in ROWS])
def test_a_limit_is_hit_by_a_test(limit: str, test: str) -> None:
    assert test in TESTS, limit


@pytest.mark.parametrize("test", re.findall(r"`(test_\w+)`", TURNS))
def test_what_is_cut_in_a_turn_is_shown_by_a_test(test: str) -> None:
    assert test in TESTS
