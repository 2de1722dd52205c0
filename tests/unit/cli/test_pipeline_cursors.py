"""``spanwire pipeline cursors`` and ``release`` against a running broker."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.client import blocking
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.pipeline.link.control_client import Control
from spanwire.testing.broker import Broker


class Terminal(io.StringIO):
    """Standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A broker with a cursor that holds two messages."""
    with Broker(directory=tmp_path / "data") as broker, blocking.connect(broker.url) as connection:
        with connection.session() as session:
            producer = session.create_producer("ORDERS")
            for text in ("a", "b", "c"):
                producer.send(text)
        control = Control(connection)
        control.open_cursor("nightly", "ORDERS", "run-1", exclusive=True)
        control.reserve("nightly", 1, 2)
        control.begin("mover", "run-1")
        control.stage("mover", 1, 0, 0, 1, [Outgoing("a", None, "OUT")])
        yield broker.url


def test_cursors_are_listed_with_what_they_hold(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "cursors", "--url", url]) == 0
    line = "nightly: queue://ORDERS, epoch 1, holds 2 messages, 0 to 2, exclusive, run run-1 of anonymous\n"
    assert capsys.readouterr().out == line
    assert main(["pipeline", "cursors", "--url", url, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["start"], shown["end"], shown["released"]) == ("nightly", 0, 2, False)


def test_a_cursor_is_listed_with_its_selector(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with blocking.connect(url) as connection:
        Control(connection).open_cursor("few", "OTHER", "run-1", selector="n > 1")
    assert main(["pipeline", "cursors", "--url", url]) == 0
    line = "few: queue://OTHER where n > 1, epoch 1, holds none, run run-1 of anonymous\n"
    assert line in capsys.readouterr().out


def test_a_release_wants_the_epoch_confirmed(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["pipeline", "release", "nightly", "--url", url]) == 1
    assert "release needs --epoch 1 without a terminal" in capsys.readouterr().err
    assert main(["pipeline", "release", "nightly", "--url", url, "--epoch", "7"]) == 1
    assert "is at epoch 1, not 7: nothing was changed" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Terminal("yes\n"))
    assert main(["pipeline", "release", "nightly", "--url", url]) == 1
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", Terminal("1\n"))
    assert main(["pipeline", "release", "nightly", "--url", url]) == 0
    assert capsys.readouterr().out.endswith("cursor nightly of queue://ORDERS is ended, 2 messages went back\n")
    assert main(["pipeline", "release", "nightly", "--url", url, "--epoch", "2"]) == 1
    assert "was released already, at epoch 1" in capsys.readouterr().err
    assert main(["pipeline", "cursors", "--url", url]) == 0
    assert ", epoch 2, released, run run-1 " in capsys.readouterr().out


def test_a_cursor_that_is_not_there_is_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "release", "weekly", "--url", url]) == 1
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "there is no cursor 'weekly'; spanwire pipeline cursors lists them" in told.err


def test_sinks_are_listed_and_forgotten(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "sinks", "--url", url]) == 0
    line = "mover: epoch 1, no batch is committed, staged messages: 1, run run-1 of anonymous\n"
    assert capsys.readouterr().out == line
    assert main(["pipeline", "forget", "mover", "--url", url, "--epoch", "2"]) == 1
    assert "sink mover is at epoch 1, not 2: nothing was changed" in capsys.readouterr().err
    assert main(["pipeline", "forget", "mover", "--url", url, "--epoch", "1"]) == 0
    assert capsys.readouterr().out == "forget: sink mover is forgotten, 1 staged messages are dropped\n"
    assert main(["pipeline", "forget", "mover", "--url", url, "--epoch", "1"]) == 1
    assert "there is no sink 'mover'" in capsys.readouterr().err
    assert main(["pipeline", "sinks", "--url", url]) == 0
    assert capsys.readouterr().out == "sinks: there are none\n"
