"""The page of errors has every error with its place in the tree, and names none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

from spanwire.model import errors
from spanwire.model.errors import SpanwireError

PAGE = (Path(__file__).resolve().parents[3] / "docs/reference/errors.md").read_text("utf-8")
ERRORS = {found.__name__: found for found in vars(errors).values() if isinstance(found, type)}


def test_the_table_has_a_row_for_every_error_and_no_other() -> None:
    rows = [re.findall(r"^\| `(\w+)` \| \S.* \|.*\|$", line) for line in PAGE.splitlines()]
    assert sorted(name for row in rows for name in row) == sorted(ERRORS)


def test_the_tree_is_that_of_the_classes() -> None:
    parents: dict[str, str] = {}
    above: list[str] = []
    for indent, name in re.findall(r"^([│├└─ ]*)(\w+Error)$", PAGE, re.MULTILINE):
        depth = len(indent) // 4
        parents[name] = above[depth - 1] if depth else ""
        above[depth:] = [name]
    assert parents == {
        name: "" if found is SpanwireError else found.mro()[1].__name__ for name, found in ERRORS.items()
    }
