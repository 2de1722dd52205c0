"""Checks the documentation against the repository: names, paths, links and the navigation.

| where | checked |
|---|---|
| docs | every page is in the navigation of mkdocs.yml, and the navigation names no other |
| docs, README and its like | a name in backticks such as `spanwire.client.aio` or `tests.soak.flood` has a definition |
| docs, README and its like | a path in backticks such as `broker/queue/queue.py` is a file |
| docs, README and its like | programs import from `spanwire` what is there |
| docs | below its title a page says in a sentence what it is for, before lists, tables and blocks |
| docs/internals | a class in backticks, with or without a method, is defined in src |
| README and its like, examples | a relative link leads to a file |
| src, tests, tools, examples | a path below docs/ that is mentioned is a file or a folder |
| build/site, if `make docs` has built it | a page loads no script, style, font or picture from a network |

The site's builder checks links between pages. Architecture decisions and benchmarks tell of the past and may name
modules that are gone.

    python tools/lint_docs.py      # prints one line per fault, exit 1 if there is one
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PLACES: Final = ("", "src", "src/spanwire", "src/spanwire/broker", "src/spanwire/pipeline", "examples/stocks")
OF_THE_PAST: Final = ("docs/internals/adr/", "docs/internals/benchmarks/")
# Java's and ActiveMQ's classes and header names that pages about the inside mention.
FOREIGN: Final = frozenset({"JMSRedelivered", "JMSTimestamp", "JMSXDeliveryCount", "TransactionInfo"})
FENCE: Final = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
LOADED: Final = re.compile(
    r"<(?:script|link|img|iframe|source|object)\b[^>]*?\b(?:src|href|data)=[\"']?((?:https?:)?//[^\"' >]+)"
)
BEGIN: Final = re.compile(r"^# .+\n\s*(``?`?|[^`\s])", re.MULTILINE)  # of what stands below the title
LINK: Final = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def pages() -> list[str]:
    """Paths of all Markdown files that people read, relative to the root."""
    outside = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
    inside = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in [*outside, *inside])


def check(path: str, text: str) -> Iterator[str]:
    """Return one line for each fault of a page."""
    if path.startswith(OF_THE_PAST):
        return
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    for number, line in enumerate(prose.splitlines(), 1):
        for name in re.findall(r"`([^`\s]+)`", line):
            if f'title="{name}"' in text:
                continue  # the page has the reader make this file
            if fault := fault_of(name, path):
                yield f"{path}:{number}: {fault}"
    yield from check_imports(path, text)
    if path.startswith("docs/") and (begin := BEGIN.search(text)) and not re.match(r"[\w*<!\[]|`$", begin[1]):
        yield f"{path}: it begins with {begin[1]!r}; say first what the page is for"
    if not path.startswith("docs/"):
        for link in LINK.findall(prose):
            if ":" not in link and not (ROOT / path).parent.joinpath(link).exists():
                yield f"{path}: no file {link}"


def check_imports(path: str, text: str) -> Iterator[str]:
    for module, names in re.findall(r"^from (spanwire[\w.]*) import ([\w, ]+)$", text, re.MULTILINE):
        for name in names.split(", "):
            if not is_defined(f"{module}.{name}"):
                yield f"{path}: {module} has no {name}"


def fault_of(name: str, path: str) -> str:
    """Return what is wrong with a name in backticks, or an empty text."""
    if re.fullmatch(r"[\w/]+\.py", name):
        return "" if is_file(name) else f"no file {name}"
    if name.startswith(loggers()):
        return ""
    if re.fullmatch(r"(spanwire|tests)\.[\w.]+", name):
        return "" if is_defined(name) else f"nothing is named {name}"
    if path.startswith("docs/internals/") and re.fullmatch(r"[A-Z][a-z]+[A-Z]\w*|[A-Z]\w+\.[a-z_]\w+", name):
        class_name, _, member = name.partition(".")
        members = classes().get(class_name)
        if class_name in FOREIGN or (members is not None and (not member or member in members)):
            return ""
        return f"no class has the name {name}"
    return ""


@cache
def files() -> frozenset[str]:
    """Paths and names of all modules of the repository."""
    found = [path for folder in ("src", "tests", "tools", "examples") for path in (ROOT / folder).rglob("*.py")]
    return frozenset(path.relative_to(ROOT).as_posix() for path in found) | frozenset(path.name for path in found)


def is_file(name: str) -> bool:
    return name in files() or any((ROOT / place / name).is_file() for place in PLACES)


@cache
def loggers() -> tuple[str, ...]:
    """Names of loggers, which are no modules."""
    texts = [path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py")]
    return tuple(name for text in texts for name in re.findall(r'(?:getLogger\(|LOGGER: Final = )"([\w.]+)"', text))


@cache
def is_defined(name: str) -> bool:
    """Return True if a dotted name is a package, a module, or defined in one."""
    parts = name.split(".")
    folder = ROOT / ("" if parts[0] == "tests" else "src")
    for size in range(len(parts), 0, -1):
        base = folder.joinpath(*parts[:size])
        module = base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py"
        if size == len(parts) and (base.is_dir() or module.is_file()):
            return True
        if module.is_file():
            return parts[size] in defined_in(module)
    return False


@cache
def defined_in(module: Path) -> frozenset[str]:
    """The names that a module defines, imports or keeps as the keys of a table of names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


@cache
def classes() -> dict[str, frozenset[str]]:
    """Every class of src, with the names of its methods and attributes, inherited ones included by name."""
    members: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                members.setdefault(node.name, set()).update(own_members(node))
                bases.setdefault(node.name, set()).update(
                    base.id if isinstance(base, ast.Name) else base.attr
                    for base in node.bases
                    if isinstance(base, ast.Name | ast.Attribute)
                )
    return {name: frozenset(inherited(name, members, bases, 8)) for name in members}


def own_members(node: ast.ClassDef) -> set[str]:
    found = {item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}
    found |= {
        item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    return found | {
        item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store)
    }


def inherited(name: str, members: dict[str, set[str]], bases: dict[str, set[str]], depth: int) -> set[str]:
    found = set(members.get(name, ()))
    for base in bases.get(name, ()) if depth else ():
        found |= inherited(base, members, bases, depth - 1)
    return found


def check_navigation() -> Iterator[str]:
    """Compare the navigation with the pages that there are."""
    text = (ROOT / "mkdocs.yml").read_text("utf-8").split("\nnav:\n")[1]
    named = re.findall(r"([\w./-]+\.md)$", text, re.MULTILINE)
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    yield from (
        f"mkdocs.yml: {page} is named twice" for page in sorted({page for page in named if named.count(page) > 1})
    )
    yield from (f"mkdocs.yml: no page docs/{page}" for page in sorted(set(named) - there))
    yield from (f"docs/{page}: not in the navigation of mkdocs.yml" for page in sorted(there - set(named)))


def check_mentions() -> Iterator[str]:
    """Compare the paths below docs/ that code mentions with the files that there are."""
    for folder in ("src", "tests", "tools", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in {".py", ".sh", ".ipynb", ".yaml", ".xml", ".toml"} or not path.is_file():
                continue
            for name in re.findall(r"\bdocs/[\w./-]+\b", path.read_text("utf-8")):
                if not (ROOT / name).exists():
                    yield f"{path.relative_to(ROOT)}: no file {name}"


def loaded_from_network(page: str) -> list[str]:
    """Return the addresses that a browser would load with a page of the site."""
    return LOADED.findall(page)


def check_site() -> Iterator[str]:
    for path in sorted((ROOT / "build/site").rglob("*.html")):
        for address in loaded_from_network(path.read_text("utf-8")):
            yield f"{path.relative_to(ROOT)}: loads {address}"


def main() -> int:
    faults = [fault for path in pages() for fault in check(path, (ROOT / path).read_text("utf-8"))]
    faults += [*check_navigation(), *check_mentions(), *check_site()]
    for fault in faults:
        sys.stdout.write(fault + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
