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


def block(kind: str, name: str = "") -> str:
    (text,) = [match[3] for match in BLOCK.finditer(PAGE) if match[1] == kind and name in ("", match[2])]
    return text


def test_the_configuration_loads_with_its_route() -> None:
    configuration = read_configuration(block("xml").encode(), Path("activemq.xml"), {}, {})
    assert [route.name for route in configuration.routes] == ["orders"]
    assert configuration.warnings == ()


def test_the_command_shows_the_diagram_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.yaml").write_text(block("yaml", "orders.yaml"))
    command, _, shown = block("console").removeprefix("$ ").partition("\n")
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == shown


def test_the_route_to_other_systems_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RABBIT_PASSWORD", "canary")
    jars = tmp_path / "jars"
    jars.mkdir(mode=0o700)
    for name in ("com.ibm.mq.allclient.jar", "javax.jms-api.jar", "org.json.jar"):
        (jars / name).touch(mode=0o600)
    file = tmp_path / "to-rabbit.yaml"
    file.write_text(block("yaml", "to-rabbit.yaml"))
    assert main(["bridge", "check", str(file), "--jars", str(jars)]) == 0
    shown = capsys.readouterr().out
    assert "to queue://orders at amqp://127.0.0.1:5672" in shown
    assert "queue://ORDERS at jvm:com.ibm.mq.jms.MQConnectionFactory" in shown
    assert "canary" not in shown


def test_the_route_with_xpath_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "xpath.yaml"
    file.write_text(block("yaml", "xpath.yaml"))
    assert main(["bridge", "check", str(file), "--broker", "here=tcp://127.0.0.1:61616"]) == 0
    shown = capsys.readouterr().out
    assert "when xpath /item/@price > 1000" in shown
    assert "a message for each part by xpath '/order/item'" in shown
