"""The queues that `spanwire drain` is asked to empty, and what happens before anything is sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spanwire.cli.main import main
from spanwire.cli.network import drain
from spanwire.management.control_client import ControlError


class Asked:
    """A control socket whose broker refuses new links."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def ask(self, command: str, **_: object) -> object:
        self.commands.append(command)
        if command == "network-add":
            raise ControlError("the URI is wrong")
        return {"connectors": [{"name": "openwire", "started": True}]} if command == "status" else []


def client_of(asked: Asked) -> Callable[..., Asked]:
    return lambda *_: asked


@pytest.mark.parametrize("name", ["A,B", "topic://A", "temp-queue://A"])
def test_what_is_no_queue_is_refused_and_not_called_empty(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Asked()
    monkeypatch.setattr(drain, "control_client", client_of(asked))
    assert main(["drain", "tcp://other:61616", "--queue", name]) != 0
    assert f"--queue {name}: name one queue or a pattern" in capsys.readouterr().err
    assert asked.commands == []


def test_a_link_that_is_refused_has_closed_no_connector(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Asked()
    monkeypatch.setattr(drain, "control_client", client_of(asked))
    assert main(["drain", "tcp:/other", "--close-connectors"]) != 0
    assert "the URI is wrong" in capsys.readouterr().err
    assert asked.commands == ["network-add"]
