"""``spanwire network``: what its parts print and how they end."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.cli.main import main
from tests.unit.service.config.test_network_lint import broker, to


@pytest.fixture
def chain(tmp_path: Path) -> list[str]:
    return [
        broker(tmp_path, "A", to("B", 'networkTTL="2"')),
        broker(tmp_path, "B", to("C", 'networkTTL="2"')),
        broker(tmp_path, "C"),
    ]


def test_a_route_is_one_line(chain: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["network", "route", "--from", "A", "--queue", "Q", "--to", "brokerC", *chain]) == 0
    assert capsys.readouterr().out == "brokerA -> brokerB (toB, priority -8) -> brokerC (toC, priority -5)\n"


def test_a_way_that_is_closed_says_why_and_fails(chain: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["network", "route", "--from", "brokerC", "--queue", "Q", *chain]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "brokerC does not reach a consumer at brokerA",
        "brokerC does not reach a consumer at brokerB",
    ]


def test_each_way_that_was_not_open_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [broker(tmp_path, "A", to("B")), broker(tmp_path, "B", to("C")), broker(tmp_path, "C")]
    assert main(["network", "route", "--from", "A", "--to", "C", "--topic", "T", *paths]) == 1
    reason = "the consumer is 2 hops away and consumerTTL is 1"
    told = capsys.readouterr().out.splitlines()
    assert told[1] == f"  not brokerA -> brokerB: {reason} (toB, {paths[0]}:2)"


def test_an_unknown_broker_is_named(chain: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["network", "route", "--from", "X", "--queue", "Q", *chain]) == 1
    assert "none of these files is that of broker 'X'; there are brokerA, brokerB, brokerC" in capsys.readouterr().err


def test_lint_of_a_sound_network_ends_well(chain: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["network", "lint", *chain]) == 0
    assert capsys.readouterr().out == "3 brokers, 2 links: 0 faults, 0 hints\n"


def test_lint_prints_a_fault_on_one_line_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = broker(tmp_path, "A", to("B", 'conduitSubscriptions="false"'))
    assert main(["network", "lint", path, broker(tmp_path, "B")]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path}:2: fault 6: without a conduit")
    assert last == "2 brokers, 1 links: 1 faults, 0 hints"


def test_without_a_word_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["network"]) == 2
    assert "say what: lint, route, map, start or stop" in capsys.readouterr().err
