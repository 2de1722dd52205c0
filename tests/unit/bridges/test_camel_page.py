"""The examples of docs/guides/bridges/camel-routes.md mean what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from spanwire.cli.main import main
from spanwire.service.config.reading import read_configuration

PAGE: Final = (Path(__file__).parents[3] / "docs/guides/bridges/camel-routes.md").read_text("utf-8")
BLOCK: Final = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def block(kind: str) -> str:
    (text,) = [match[3] for match in BLOCK.finditer(PAGE) if match[1] == kind]
    return text


def test_the_configuration_loads_with_its_route() -> None:
    configuration = read_configuration(block("xml").encode(), Path("activemq.xml"), {}, {})
    assert [route.name for route in configuration.routes] == ["orders"]
    assert configuration.warnings == ()


def test_the_command_shows_the_diagram_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.yaml").write_text(block("yaml"))
    command, _, shown = block("console").removeprefix("$ ").partition("\n")
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == shown
