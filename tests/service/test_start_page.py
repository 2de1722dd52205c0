"""A stranger who types the commands of docs/start.md sees the lines that the page shows."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.terminals import BLOCK, FILE, TIMEOUT_S, Terminals, dialogues, pattern

PAGE: Final = (Path(__file__).parents[2] / "docs/start.md").read_text("utf-8")
BLOCKS: Final = BLOCK.findall(PAGE)
FILES: Final = dict(FILE.findall(PAGE))
DEFAULT: Final = """\
<broker xmlns="http://activemq.apache.org/schema/core" dataDirectory="data/localhost">
  <transportConnectors><transportConnector uri="tcp://127.0.0.1:61616"/></transportConnectors>
</broker>
"""
INSTALL: Final = "in the clone"


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    found = Terminals(tmp_path, {**FILES, "default.xml": DEFAULT})
    yield found
    found.close()


def test_the_commands_of_the_page_print_what_it_shows(terminals: Terminals) -> None:
    consumer: subprocess.Popen[str] | None = None
    for title, block in BLOCKS:
        for command, shown in dialogues(block) if title != INSTALL else []:
            if command.startswith("spanwire start"):
                terminals.begin(command, "established" if "a.xml" in command else "started")
            elif "terminal" in title:
                consumer = terminals.begin(command, "")
                assert wait_for_demand(terminals)
            else:
                printed = terminals.run(command)
                assert re.fullmatch("\n".join(map(pattern, shown)), printed.strip("\n")), (command, printed)
    assert consumer is not None
    received, _ = consumer.communicate(timeout=TIMEOUT_S)
    assert received.splitlines()[:10] == [f"test message: {number}" for number in range(10)]


def wait_for_demand(terminals: Terminals) -> bool:
    return any("demand 1," in terminals.run("spanwire status brokerA") for _ in range(100))


def test_only_the_installation_is_left_to_the_reader() -> None:
    installing = [command for title, block in BLOCKS if title == INSTALL for command, _ in dialogues(block)]
    assert installing == ["python3 -m venv .venv", ". .venv/bin/activate", "pip install ."]
