"""The reference of spans names each operation and attribute that there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from spanwire.bridges.running import tracing as bridge
from spanwire.broker.plugins import tracing_plugin as broker
from spanwire.tracing import spans

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "reference" / "traces.md").read_text("utf-8")
SOURCES: Final = [path.read_text("utf-8") for path in (ROOT / "src" / "spanwire").rglob("*.py")]
ATTRIBUTE: Final = re.compile(r'"((?:messaging|error)\.[a-z_.]+)"')


def first_column(section: str) -> set[str]:
    """The words in the first column of the tables of a section."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


def test_each_operation_is_in_a_table() -> None:
    assert first_column("Spans of a broker") | first_column("Spark") == set(spans.NAMES.values())
    assert first_column("Spark") == {"process"}
    assert first_column("Spans of a client") == {"send", "receive", "process"}
    assert first_column("Spans of a bridge") == {"forward"}


def test_each_attribute_is_in_the_table() -> None:
    used = {broker.BROKER, broker.REDELIVERED, broker.OUTCOME, broker.CLIENT, broker.SIZE, bridge.BRIDGE, bridge.SOURCE}
    for text in SOURCES:
        if "messaging.operation.name" in text:
            used.update(ATTRIBUTE.findall(text))
    assert first_column("Attributes") == used
