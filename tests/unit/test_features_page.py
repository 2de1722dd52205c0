"""The page of features names tests that exist, and each of its links leads somewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGE: Final = (DOCS / "features.md").read_text("utf-8")
STATUSES: Final = ("works", "differs", "no effect", "refused", "untried", "open")
DEVIATIONS: Final = "reference/deviations.md#"
TEST: Final = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
LINK: Final = re.compile(r"\[[^\]]+\]\(([^)]+)\)")


@dataclass(frozen=True)
class Row:
    feature: str
    status: str
    remark: str
    tests: str


def rows_of(page: str) -> list[Row]:
    """Return the features of a page, one row for each."""
    lines = [line for line in page.splitlines() if line.startswith("| ") and line.count(" | ") >= 3]
    cells = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines]
    return [Row(*row) for row in cells if row[0] != "feature"]


ROWS: Final = rows_of(PAGE)


def faults_of(row: Row) -> list[str]:
    """Return what is wrong with a row."""
    faults: list[str] = []
    tests = TEST.findall(row.tests)
    if row.status not in STATUSES:
        faults.append(f"{row.status} is no status")
    if row.status in ("works", "differs") and not tests:
        faults.append("no test shows it")
    if row.status not in ("works", "differs") and not row.remark:
        faults.append("no reason is given")
    if row.status == "differs" and DEVIATIONS not in row.remark:
        faults.append("no difference is linked")
    if len(tests) != row.tests.count("::"):
        faults.append(f"{row.tests} has another form than tests/FILE.py::FUNCTION")
    for file, function in tests:
        path = ROOT / file
        if not path.is_file():
            faults.append(f"{file} does not exist")
        elif re.search(rf"^(?:    )?(?:async )?def {function}\(", path.read_text("utf-8"), re.MULTILINE) is None:
            faults.append(f"{file} has no {function}")
    return faults


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as the site makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[\s_]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


def test_the_page_has_all_kinds_of_status() -> None:
    assert {row.status for row in ROWS} == set(STATUSES)
    assert len(ROWS) > 300


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"\W+", "-", row.feature)[:60])
def test_a_feature_has_its_tests_or_its_reason(row: Row) -> None:
    assert faults_of(row) == []


@pytest.mark.parametrize("link", sorted(set(LINK.findall(PAGE))))
def test_a_link_of_the_page_leads_somewhere(link: str) -> None:
    name, _, anchor = link.partition("#")
    page = DOCS / name
    assert page.is_file()
    assert not anchor or anchor in anchors_of(page)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (Row("a", "works", "", ""), "no test shows it"),
        (Row("a", "done", "", ""), "done is no status"),
        (Row("a", "open", "", ""), "no reason is given"),
        (
            Row("a", "differs", "", "`tests/unit/test_features_page.py::test_a_fault_is_found`"),
            "no difference is linked",
        ),
        (Row("a", "works", "", "`tests/unit/test_nothing.py::test_a`"), "does not exist"),
        (Row("a", "works", "", "`tests/unit/test_features_page.py::test_nothing`"), "has no test_nothing"),
        (Row("a", "works", "", "`unit/test_features_page.py::test_a`"), "has another form"),
    ],
)
def test_a_fault_is_found(row: Row, fault: str) -> None:
    assert any(fault in found for found in faults_of(row))
