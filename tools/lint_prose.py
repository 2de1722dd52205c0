"""Checks the language of pages and docstrings, as far as a machine can tell: length, words, openings, pronouns.

Part of `make lint`. `tools/prose.py` measures and explains the figures. `tools/lint_forbidden.py` refuses
docstrings that begin with a question word.

| where | fault |
|---|---|
| docs, README and its like | a sentence of more than `MAX_WORDS` words |
| docs | more than `MAX_SENTENCE` words in a sentence of the page, on average |
| docs, README and its like | more than `MAX_PRONOUNS` pronouns in 100 words of the page |
| docs, README and its like, docstrings | a word of `WORDS`: it praises, or says nothing |
| docs, README and its like | a sentence that begins as one of `OPENINGS`, before it comes to its subject |
| src | a docstring whose first line is too long or has no end |
| src | more than `MAX_PRONOUNS_OF_PACKAGE` pronouns in 100 words of the docstrings of a package |

Architecture decisions and benchmarks tell of the past. Code, tables, headings and names in backticks are no prose.

    python tools/lint_prose.py      # prints one line per fault, exit 1 if there is one
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.lint_docs import OF_THE_PAST, pages  # noqa: E402 -- runs as a script, too
from tools.prose import (  # noqa: E402
    FEW_SENTENCES,
    MAX_SENTENCE,
    PRONOUN,
    QUOTED,
    Docstring,
    docstrings,
    package_of,
    sentences,
    words_in,
)

MAX_WORDS: Final = 40  # words of one sentence; 25 is the aim, and some sentences are lists
MAX_PRONOUNS: Final = 13  # of 100 words of a page; 4 is the aim. The limit only gets lower
MAX_PRONOUNS_OF_PACKAGE: Final = 11  # of 100 words of docstrings; 4 is the aim. The limit only gets lower
MAX_FIRST_LINE: Final = 115  # characters; 100 is the aim of tools/prose.py. The limit only gets lower
ENOUGH_WORDS: Final = 150  # a page or package with fewer says little by its share of pronouns
ENDS: Final = (".", ":", "?", "!", "…", "…``")

# word -> what to write. Inflected forms are words of their own.
WORDS: Final[dict[str, str]] = {
    **dict.fromkeys(("simply", "easily", "obviously", "basically", "actually", "of course", "needless to say"), ""),
    **dict.fromkeys(("please", "it should be noted that", "as you can see"), ""),
    **dict.fromkeys(("powerful", "robust", "seamless", "seamlessly", "blazing", "blazingly", "effortless"), "a figure"),
    **dict.fromkeys(("effortlessly", "lightning-fast", "cutting-edge", "state-of-the-art", "world-class"), "a figure"),
    **dict.fromkeys(("enterprise-grade", "best-in-class", "battle-tested", "rock-solid", "performant"), "a figure"),
    **dict.fromkeys(("amazing", "awesome", "game-changing", "next-generation", "modern"), "a figure"),
    **dict.fromkeys(("leverage", "leverages", "leveraging", "utilize", "utilizes", "utilise", "utilises"), "use"),
    **dict.fromkeys(("in order to",), "to"),
    **dict.fromkeys(("e.g.",), "for example"),
    **dict.fromkeys(("i.e.",), "that is"),
    **dict.fromkeys(("etc.",), "the whole list, or such as"),
    **dict.fromkeys(("and/or",), "or"),
    **dict.fromkeys(("aforementioned", "the latter", "the former"), "the noun"),
    **dict.fromkeys(("in the event that", "in case of a situation where"), "if"),
    **dict.fromkeys(("at this point in time", "going forward"), "now"),
    **dict.fromkeys(("is able to", "are able to", "has the ability to"), "can"),
    **dict.fromkeys(("out of the box", "under the hood", "behind the scenes"), "the place, or nothing"),
    **dict.fromkeys(("whilst",), "while"),
    **dict.fromkeys(("prior to",), "before"),
    **dict.fromkeys(("subsequent to",), "after"),
}
WORD: Final = re.compile(
    r"(?<![\w-])(?:" + "|".join(re.escape(word) for word in sorted(WORDS, key=len, reverse=True)) + r")(?![\w-])",
    re.IGNORECASE,
)
OPENINGS: Final = re.compile(
    r"(?:It (?:is|was|should be|must be|has been|can be) (?:recommended|noted|possible|important|necessary|worth"
    r"|advised|suggested|assumed|expected|required|seen|said|known|clear)"
    r"|There (?:exists?|is an? (?:way|possibility|option)|are (?:ways|possibilities|options))"
    r"|This (?:section|page|guide|document|chapter) (?:describes|explains|shows|covers|discusses|is about)"
    r"|In this (?:section|page|guide|document|chapter)"
    r"|As (?:mentioned|stated|described|noted|said|seen) (?:above|below|before|earlier)"
    r"|Be aware|Note that|Keep in mind|Remember that|Recall that)\b",
    re.IGNORECASE,
)


def main() -> int:
    """Print the faults of the repository; return the exit status."""
    faults = [*check_pages(), *check_sources(sorted((ROOT / "src").rglob("*.py")))]
    print("\n".join(faults) if faults else "the language of pages and docstrings is in order")
    return 1 if faults else 0


def check_pages() -> Iterator[str]:
    """Return the faults of all pages."""
    for path in pages():
        if not path.startswith(OF_THE_PAST):
            yield from check_page(path, (ROOT / path).read_text("utf-8"))


def check_page(path: str, text: str) -> Iterator[str]:
    """Return one line for each fault of a page."""
    found = sentences(text)
    lengths = [words_in(sentence) for sentence in found]
    for sentence, length in zip(found, lengths, strict=True):
        shown = f"{path}: {sentence[:60]!r}"
        if length > MAX_WORDS:
            yield f"{shown}: {length} words: divide the sentence ({MAX_WORDS} at most)"
        if OPENINGS.match(sentence):
            yield f"{shown}: begin with the subject, or say what to do"
        yield from (f"{shown}: {fault}" for fault in words_of(sentence))
    if path.startswith("docs/") and len(found) >= FEW_SENTENCES and sum(lengths) > MAX_SENTENCE * len(found):
        yield f"{path}: {sum(lengths) / len(found):.1f} words in a sentence: divide some ({MAX_SENTENCE} at most)"
    yield from pronouns(path, found, MAX_PRONOUNS)


def words_of(text: str) -> Iterator[str]:
    """Return a fault for each word of a text that is on the list."""
    for word in WORD.findall(QUOTED.sub("x", text)):
        instead = WORDS[word.lower()]
        yield f"{word!r}: " + (f"write {instead}" if instead else "leave it out")


def pronouns(place: str, texts: Iterable[str], limit: int) -> Iterator[str]:
    """Return a fault if texts have more than ``limit`` pronouns in 100 words."""
    names_left_out = [QUOTED.sub("x", text) for text in texts]
    words = sum(words_in(text) for text in names_left_out)
    count = sum(len(PRONOUN.findall(text)) for text in names_left_out)
    if words >= ENOUGH_WORDS and 100 * count > limit * words:
        yield f"{place}: {100 * count / words:.1f} pronouns in 100 words: name the things ({limit} at most)"


def check_sources(paths: Iterable[Path]) -> Iterator[str]:
    """Return the faults of the docstrings of modules, and of their packages."""
    packages: dict[str, list[Docstring]] = defaultdict(list)
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        found = list(docstrings(name, ast.parse(path.read_text("utf-8"))))
        packages[package_of(name)] += found
        yield from check_docstrings(found)
    for package, found in packages.items():
        yield from pronouns(f"src/spanwire/{package}", [docstring.text for docstring in found], MAX_PRONOUNS_OF_PACKAGE)


def check_docstrings(found: Iterable[Docstring]) -> Iterator[str]:
    """Return one line for each fault of docstrings."""
    for docstring in found:
        shown = f"{docstring.path}:{docstring.line}: {docstring.name}"
        paragraph = docstring.text.partition("\n\n")[0]
        first = paragraph.partition("\n")[0]
        if len(first) > MAX_FIRST_LINE:
            yield f"{shown}: {len(first)} characters in the first line: say one thing ({MAX_FIRST_LINE} at most)"
        if not paragraph.rstrip().endswith(ENDS) and not paragraph.rstrip().endswith(("|", ")")):
            yield f"{shown}: the first sentence has no end"
        yield from (f"{shown}: {fault}" for fault in words_of(docstring.text))


if __name__ == "__main__":
    sys.exit(main())
