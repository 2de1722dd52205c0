"""The tables of docs/reference/bridge-qualities.md: each named test is there, and each provider has a row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from spanwire.registry import BRIDGE_PROVIDERS

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs/reference/bridge-qualities.md").read_text("utf-8")
TEST: Final = re.compile(r"`(test_\w+)`(?: in `(tests/[\w/.]+)`)?")
CITED: Final = re.compile(r"\[((?:\d+(?:, )?)+)\](?!\()")
NUMBERED: Final = re.compile(r"^\| \[(\d+)\] \| `test_", re.MULTILINE)


def lacking(page: str) -> list[str]:
    """Tests that a page names and that are nowhere, or not in the file or folder that it names."""
    sources = {path: path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")}
    return [
        name
        for name, place in TEST.findall(page)
        if not any(path.is_relative_to(ROOT / place) and f"def {name}(" in text for path, text in sources.items())
    ]


def unexplained(page: str) -> set[str]:
    """Numbers in brackets without a row that names the test, and rows that nothing refers to."""
    rows = NUMBERED.findall(page)
    cited = [number for group in CITED.findall(NUMBERED.sub("", page)) for number in group.split(", ")]
    return set(rows) ^ set(cited)


def test_each_named_test_exists_where_the_page_says() -> None:
    assert lacking(PAGE) == []
    assert lacking(
        "`test_nothing_of_the_kind` `test_each_named_test_exists_where_the_page_says` in `tests/interop`"
    ) == [
        "test_nothing_of_the_kind",
        "test_each_named_test_exists_where_the_page_says",
    ]


def test_each_number_has_a_row_and_each_row_a_number() -> None:
    assert unexplained(PAGE) == set()
    assert unexplained("| 0 / 0 [1, 2] |\n| [2] | `test_a` |\n| [3] | `test_b` |") == {"1", "3"}


def test_each_provider_has_its_figures() -> None:
    assert [name for name in BRIDGE_PROVIDERS if f"`{name}`" not in PAGE] == []
