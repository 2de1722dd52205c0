"""`spanwire pipeline redrive --dry-run` where nothing died."""

from __future__ import annotations

import pytest

from spanwire.cli.main import main
from spanwire.testing.broker import Broker


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "no dead letters in queue://ActiveMQ.DLQ\n"),
        (["queue://DLQ.ORDERS"], "no dead letters in queue://DLQ.ORDERS\n"),
        (["--selector", "a = 1"], "no dead letters with this selector in queue://ActiveMQ.DLQ\n"),
    ],
)
def test_a_dry_run_without_dead_letters_says_so(
    words: list[str], line: str, spanwire_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "redrive", *words, "--url", spanwire_broker.url, "--dry-run"]) == 0
    assert capsys.readouterr().out == line
