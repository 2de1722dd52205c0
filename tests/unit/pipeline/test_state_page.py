"""The page about state shows what the example does."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/guides/spark/state.md").read_text("utf-8")
EXAMPLE = (ROOT / "examples/spark/pair_requests.py").read_text("utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def without_remarks(text: str) -> str:
    """A program as Python reads it, without docstrings, in one form."""
    tree = ast.parse(textwrap.dedent(text))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.unparse(tree)


def test_every_program_on_the_page_is_part_of_the_example() -> None:
    example = textwrap.dedent(without_remarks(EXAMPLE))
    lines = [line.strip() for line in example.splitlines() if line.strip()]
    found = BLOCK.findall(PAGE)
    assert len(found) > 3
    for block in found:
        if "TwsTester" in block:
            continue  # of a test
        shown = [line.strip() for line in without_remarks(block).splitlines() if line.strip()]
        places = [at for at in range(len(lines)) if lines[at : at + len(shown)] == shown]
        assert places, f"the example has no such lines: {shown[:3]}"
