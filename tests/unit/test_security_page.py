"""The attacks that SECURITY.md lists and the tests that are named after them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "SECURITY.md").read_text(encoding="utf-8").split("## Attacks that are tests")[1]
LISTED = {number for row in TABLE.splitlines() if row.startswith("|") for number in re.findall(r"\bs[0-9]+\b", row)}


def test_the_number_of_every_attack_in_a_test_is_explained_and_every_explained_one_is_tested() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    named = {number for text in sources for number in re.findall(r"def test_(s[0-9]+)_", text)}
    assert named == LISTED
