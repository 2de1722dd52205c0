"""A stranger who types the commands of docs/guides/bridges/bridge-two-brokers.md sees the lines that the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.terminals import BLOCK, FILE, TIMEOUT_S, Terminals, dialogues, pattern

PAGE: Final = (Path(__file__).parents[2] / "docs/guides/bridges/bridge-two-brokers.md").read_text("utf-8")
PROGRAM: Final = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

RABBITMQ: Final = (
    '{"provider": "amqp091", "url": "amqp://127.0.0.1:5672"}'  # another broker of the page takes its place
)


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    found = Terminals(tmp_path, dict(FILE.findall(PAGE)))
    yield found
    found.close()


def test_the_commands_of_the_page_print_what_it_shows(terminals: Terminals, tmp_path: Path) -> None:
    compared = 0
    for title, block in BLOCK.findall(PAGE):
        for command, shown in dialogues(block):
            if title:
                terminals.begin(command, "started")
                continue
            printed = terminals.run(command)
            assert re.fullmatch("\n".join(map(pattern, shown)), printed.strip("\n")), (command, printed)
            compared += 1
    assert compared == 6
    terminals.run("spanwire producer --brokerUrl tcp://127.0.0.1:61616 --destination queue://ORDERS --messageCount 3")
    (program,) = PROGRAM
    program = terminals.with_ports(
        program.replace(RABBITMQ, '"tcp://127.0.0.1:61626"').replace("sleep(60)", "sleep(5)")
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "3"
