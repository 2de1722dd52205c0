"""Measures the language of docstrings and pages, for `tools/lint_forbidden.py` and `make measure`.

Two figures tell a docstring that explains from one that must be decoded. An opening with "What", "Who" or "Where"
leaves the noun out. Pronouns in place of nouns make the reader look the noun up. The figures of well-written libraries
(psycopg, websockets, mitmproxy) are 0 to 0.2 % such openings and 3 to 4 pronouns in 100 words. A first line of more
than 100 characters holds more than one statement. A page is measured by the words of its sentences.

    python tools/prose.py               # prints one line per package, and the pages with long sentences
    python tools/prose.py PATH…         # prints the docstrings with the most pronouns below these paths
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "src" / "spanwire"
RIDDLE: Final = re.compile(
    r"(what|whatever|who|whoever|whom|whose|where|whither|how|when|whenever|which|why|whether|the same|one more)\b",
    re.IGNORECASE,
)
PRONOUN: Final = re.compile(
    r"\b(?:it|its|itself|they|them|their|theirs|themselves|he|she|his|her|hers|this|these|those|who|whom|whose|what|which"
    r"|whoever|whatever|whichever|ones|nobody|somebody|everybody|anybody|nothing|something|everything|anything|none"
    r"|(?<!so )(?<!note )that"
    r"|one(?=\W*$|\W*[.,;:)]|\s+(?:of|that|which|who|is|was|has|and|or|in|at|on|with|for|from)\b))\b",
    re.IGNORECASE,
)  # "one consumer" and "so that" stand for no noun
QUOTED: Final = re.compile(r"``[^`]*``|`[^`]*`")  # names are no words
WORD: Final = re.compile(r"[A-Za-z][A-Za-z'-]*")
SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n\s*\n")
DOCS: Final = ROOT / "docs"
FENCE: Final = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
ITEM: Final = re.compile(r"(?:[-*]|\d+\.)\s+")
NO_PROSE: Final = ("#", "|", "!!!", "???", "<", ":::", "---")  # beginnings of headings, tables, directives and HTML
END: Final = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\[*`])")  # of a sentence; a quoted name may begin the next
MAX_FIRST_LINE: Final = 100  # characters of the first line of a docstring
MAX_SENTENCE: Final = 17  # words in a sentence of a page, on average
FEW_SENTENCES: Final = 10  # a page with fewer says little by their length
WORST: Final = 20
FEW_WORDS: Final = 12  # a shorter docstring says little by its share of pronouns


class Docstring(NamedTuple):
    """A docstring and its place."""

    path: str
    line: int
    name: str
    text: str

    @property
    def words(self) -> int:
        """Number of words, without quoted names."""
        return len(WORD.findall(QUOTED.sub(" ", self.text)))

    @property
    def pronouns(self) -> int:
        """Number of words that stand in place of a noun."""
        return len(PRONOUN.findall(QUOTED.sub(" ", self.text)))

    @property
    def has_long_first_line(self) -> bool:
        """Return True if the first line has more than `MAX_FIRST_LINE` characters."""
        return len(self.text.partition("\n")[0]) > MAX_FIRST_LINE


def begins_with_riddle(text: str) -> bool:
    """Return True if a docstring begins with a question word in place of its subject."""
    return RIDDLE.match(text.lstrip()) is not None


def docstrings(path: str, tree: ast.Module) -> Iterator[Docstring]:
    """Yield the docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                line = node.body[0].lineno
                yield Docstring(path, line, getattr(node, "name", "module"), text)


def in_files(root: Path) -> Iterator[Docstring]:
    """Yield the docstrings of the files below ``root``, or of the one file."""
    for file in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
        yield from docstrings(str(file.relative_to(ROOT)), ast.parse(file.read_text(encoding="utf-8")))


def package_of(path: str) -> str:
    """Return the package of a source file, two levels deep."""
    parts = Path(path).parts[2:-1]
    return "/".join(parts[:2]) or "spanwire"


def table() -> list[str]:
    """Return one line per package: docstrings, openings by a question word, long first lines, and the density."""
    packages: dict[str, list[Docstring]] = defaultdict(list)
    for docstring in in_files(SOURCES):
        packages[package_of(docstring.path)].append(docstring)
        packages["together"].append(docstring)
    lines = [
        f"{'package':28}{'docstrings':>11}{'riddles':>9}{'long first lines':>18}{'pronouns in 100 words':>23}"
        f"{'words in a sentence':>21}"
    ]
    for package, found in packages.items():
        words = sum(docstring.words for docstring in found) or 1
        sentences = sum(len(SENTENCE.split(docstring.text.strip())) for docstring in found)
        lines.append(
            f"{package:28}{len(found):11}{sum(begins_with_riddle(docstring.text) for docstring in found):9}"
            f"{sum(docstring.has_long_first_line for docstring in found):18}"
            f"{100 * sum(docstring.pronouns for docstring in found) / words:23.1f}{words / sentences:21.1f}"
        )
    return lines


def sentences(page: str) -> list[str]:
    """Return the sentences of a Markdown page, without headings, tables and code."""
    blocks: list[list[str]] = [[]]
    for line in FENCE.sub("", page).splitlines():
        text = line.strip()
        if not text or text.startswith(NO_PROSE):
            blocks.append([])
            continue
        if ITEM.match(text):
            blocks.append([])
            text = ITEM.sub("", text, count=1)
        blocks[-1].append(text)
    found = [sentence for block in blocks if block for sentence in END.split(" ".join(block))]
    return [sentence for sentence in found if words_in(sentence)]


def words_in(sentence: str) -> int:
    """Return the number of words of a sentence; a quoted name is one word, the target of a link none."""
    return len(WORD.findall(re.sub(r"\]\([^)]*\)", "]", QUOTED.sub("x", sentence))))


def pages() -> list[str]:
    """Return one line per page with more than `MAX_SENTENCE` words in a sentence, and one for all."""
    lines: list[str] = []
    total_words, total = 0, 0
    for path in sorted(DOCS.rglob("*.md")):
        lengths = [words_in(sentence) for sentence in sentences(path.read_text("utf-8"))]
        total_words, total = total_words + sum(lengths), total + len(lengths)
        if len(lengths) >= FEW_SENTENCES and sum(lengths) > MAX_SENTENCE * len(lengths):
            lines.append(f"{path.relative_to(ROOT)!s:52}{sum(lengths) / len(lengths):5.1f} words in a sentence")
    return [*lines, f"{'all pages':52}{total_words / (total or 1):5.1f} words in a sentence"]


def worst(roots: list[Path]) -> list[str]:
    """Return the docstrings below ``roots`` with the most pronouns, a long first line or a riddle at the beginning."""
    found = [docstring for root in roots for docstring in in_files(root.resolve())]
    lines = [
        f"{at.path}:{at.line}: {at.name}: {at.text.split(chr(10))[0]}"
        for at in found
        if begins_with_riddle(at.text) or at.has_long_first_line
    ]
    long = [docstring for docstring in found if docstring.words >= FEW_WORDS]
    long.sort(key=lambda at: at.pronouns / at.words, reverse=True)
    lines += [f"{at.path}:{at.line}: {at.name}: {at.pronouns} of {at.words}" for at in long[:WORST]]
    words = sum(docstring.words for docstring in found) or 1
    lines.append(
        f"{100 * sum(docstring.pronouns for docstring in found) / words:.1f} pronouns in 100 words, {words} words"
    )
    return lines


if __name__ == "__main__":
    print("\n".join(worst([Path(name) for name in sys.argv[1:]]) if sys.argv[1:] else [*table(), *pages()]))
