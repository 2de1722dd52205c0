"""The blocks of the pages about tasks of a pipeline, by page and title."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Final

PAGES: Final = Path(__file__).resolve().parents[2] / "docs/guides/tasks"
BLOCK: Final = re.compile(r'^( *)```\w+ title="([\w.]+)"\n(.*?)^ *```', re.DOTALL | re.MULTILINE)


def blocks(page: str) -> dict[str, str]:
    """The titled blocks of a page."""
    text = (PAGES / f"{page}.md").read_text("utf-8")
    return {title: textwrap.dedent(content) for _, title, content in BLOCK.findall(text)}


def pages() -> list[str]:
    """All pages."""
    return sorted(path.stem for path in PAGES.glob("*.md"))
