"""Writes docs/reference/log-events.md from the calls of loggers in the sources and the table of events.

python tools/generate_log_reference.py            # writes the page
python tools/generate_log_reference.py --check    # fails if the page is not what sources and table give

Both fail for a call above level info without a row in `spanwire.logs.events`, and for a row without a call.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from spanwire.logs.events import EVENTS, PACKAGE

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src"
TARGET: Final = ROOT / "docs" / "reference" / "log-events.md"
LEVELS: Final = {"warning": "warning", "error": "error", "exception": "error", "critical": "critical"}
HEAD: Final = """\
# Events in the log

Each fault in a log has a name that stays the same when the text changes: in brackets at the end of a line, and as
`event` in a line of JSON. [Read the log](../operations/log.md) describes the lines. `tools/generate_log_reference.py`
writes this page.

Texts are shown with `%s` for what differs from line to line. A logger is below `spanwire.`.

| event | level | logger | text |
|---|---|---|---|
"""


class Call(NamedTuple):
    """A call of a logger above level info."""

    logger: str  # without `PACKAGE`
    level: str
    text: str
    place: str


def main() -> int:
    calls = [call for path in sorted((SOURCE / "spanwire").rglob("*.py")) for call in calls_of(path)]
    problems = list(differences(calls, EVENTS))
    if problems:
        sys.stdout.write("\n".join(problems) + "\n")
        return 1
    text = page(calls)
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text("utf-8") != text:
            sys.stdout.write(f"{TARGET.name} is not what the sources give: run tools/generate_log_reference.py\n")
            return 1
        return 0
    TARGET.write_text(text, "utf-8")
    return 0


def calls_of(path: Path) -> Iterator[Call]:
    """Return the calls in a module."""
    source = path.read_text("utf-8")
    if "getLogger" not in source:
        return
    tree = ast.parse(source)
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    texts = constants(tree)
    names = dict(loggers(tree, module, texts))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            name = ast.unparse(node.func.value)
            if name in names:
                first = node.args[0]
                text = texts.get(first.id) if isinstance(first, ast.Name) else string(first)
                place = f"{path.name}:{node.lineno}"
                yield Call(names[name].removeprefix(PACKAGE), LEVELS[node.func.attr], text or "", place)


def constants(tree: ast.Module) -> dict[str, str]:
    """Return the constants of a module that are texts."""
    found: dict[str, str] = {}
    for node in tree.body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        value = string(node.value) if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and value is not None:
            found[target.id] = value
    return found


def loggers(tree: ast.Module, module: str, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return the variables of a module that are loggers, each with the logger's name."""
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
            target, call = node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value
            if isinstance(target, ast.Name) and ast.unparse(call.func) == "logging.getLogger":
                argument = call.args[0]
                name = texts.get(argument.id, module) if isinstance(argument, ast.Name) else string(argument)
                yield target.id, name or ""


def string(node: ast.AST | None) -> str | None:
    """Return the text of a literal."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def differences(calls: list[Call], events: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Return a line for each call without a row, and for each row without a call."""
    for call in calls:
        if call.text not in events.get(call.logger, {}):
            yield f"{call.place}: the table in spanwire/logs/events.py has no event for {call.logger}: {call.text!r}"
    made = {(call.logger, call.text) for call in calls}
    for logger, rows in events.items():
        for text, event in rows.items():
            if (logger, text) not in made:
                yield f"spanwire/logs/events.py: nothing logs {event} of {logger} with this text: {text!r}"


def page(calls: list[Call]) -> str:
    rows = {(EVENTS[call.logger][call.text], call.level, call.logger, call.text) for call in calls}
    lines = [f"| `{event}` | {level} | `{logger}` | {cell(text)} |" for event, level, logger, text in sorted(rows)]
    return HEAD + "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Return a text as code in a cell, because it may hold marks of Markdown."""
    return (
        "`` " + text.replace("%%", "%").replace("|", "\\|") + " ``" if "`" in text else f"`{text.replace('%%', '%')}`"
    )


if __name__ == "__main__":
    raise SystemExit(main())
