"""`spanwire drain` closes no connector before the broker has begun the drain."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spanwire.cli.main import main
from spanwire.cli.network import drain
from spanwire.management.control_client import ControlError


class Asked:
    """A control socket whose broker refuses the drain."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def ask(self, command: str, **_: object) -> object:
        self.commands.append(command)
        if command == "drain":
            raise ControlError("the URI is wrong")
        return {"connectors": [{"name": "openwire", "started": True}]} if command == "status" else []


def client_of(asked: Asked) -> Callable[..., Asked]:
    return lambda *_: asked


def test_a_drain_that_is_refused_has_closed_no_connector(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Asked()
    monkeypatch.setattr(drain, "control_client", client_of(asked))
    assert main(["drain", "tcp:/other", "--close-connectors"]) != 0
    assert "the URI is wrong" in capsys.readouterr().err
    assert asked.commands == ["drain"]
