"""Writes a document of definitions with an object of each kind: ``python -m tests.vectors.definitions.make VERSION``.

Each object stands there twice: with a value other than the default in each field, and with the defaults alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from spanwire.management.definitions.document import Document, from_rows, to_toml
from spanwire.management.definitions.kinds import KINDS, LIMITS, Kind, Value

HERE: Final = Path(__file__).resolve().parent


def other(default: Value) -> Value:
    """A value of the type that is not the default."""
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 7
    if isinstance(default, str):
        return "other"
    return ["A.>", "Straße"] if isinstance(default, list) else {"key": "value"}


def rows_of(kind: Kind) -> list[dict[str, object]]:
    """The objects of a kind as a broker lists them."""
    changed: dict[str, object] = {
        "kind": kind.name,
        **{name: other(default) for name, default in kind.defaults.items()},
    }
    if kind is LIMITS:
        return [changed]
    plain: dict[str, object] = {"kind": kind.name, **dict.fromkeys(kind.keys, "plain")}
    return [{**changed, **dict.fromkeys(kind.keys, "changed")}, plain]


def readable(document: Document) -> dict[str, object]:
    """The document as plain values."""
    items = [[kind, list(key), values] for (kind, key), values in document.items.items()]
    return {"broker": document.broker, "items": items}


def make(name: str) -> None:
    """Write ``NAME.toml`` and ``NAME.json``."""
    document = from_rows("kept", [row for kind in KINDS.values() for row in rows_of(kind)])
    (HERE / f"{name}.toml").write_text(to_toml(document), "utf-8")
    text = json.dumps(readable(document), indent=1, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    make(f"version-{sys.argv[1]}")
