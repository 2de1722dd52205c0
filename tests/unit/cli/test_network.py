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
    assert "none of these files is that of broker 'X'; known are brokerA, brokerB, brokerC" in capsys.readouterr().err


def test_lint_of_a_sound_network_ends_well(chain: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["network", "lint", *chain]) == 0
    assert capsys.readouterr().out == "3 brokers, 2 links: 0 faults, 0 hints\n"


def test_lint_prints_a_fault_on_one_line_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = broker(tmp_path, "A", to("B", 'conduitSubscriptions="false"'))
    assert main(["network", "lint", path, broker(tmp_path, "B")]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path}:2: fault 6: without a conduit")
    assert last == "2 brokers, 1 links: 1 faults, 0 hints"


def test_lint_names_what_keeps_a_broker_of_the_network_from_starting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(broker(tmp_path, "A", ""))
    path.write_text(path.read_text().replace("</broker>", "<proxyConnectors><x/></proxyConnectors></broker>"))
    assert main(["network", "lint", str(path)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert "fault 0: spanwire start refuses <proxyConnectors>" in first and first.startswith(f"{path}:")
    assert last == "1 brokers, 0 links: 1 faults, 0 hints"
    assert main(["network", "lint", "--skip-unsupported", str(path)]) == 0


def test_without_a_word_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["network"]) == 2
    assert "name an action: lint, route, map, simulate, start, stop, add, remove" in capsys.readouterr().err


def test_lint_knows_clients_that_are_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [broker(tmp_path, "A", to("B")), broker(tmp_path, "B")]
    clients = tmp_path / "clients.toml"
    clients.write_text('[[client]]\nuri = "fanout:(tcp://localhost:61001,tcp://localhost:61002)"\n', "utf-8")
    assert main(["network", "lint", "--clients", str(clients), *paths]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{clients}:1: fault 18: a fanout client sends to brokerA, brokerB, which are linked")
    assert last == "2 brokers, 1 links: 1 faults, 0 hints"
    clients.write_text("[[client]]\nwho = 1\n", "utf-8")
    assert main(["network", "lint", "--clients", str(clients), *paths]) == 1
    told = f"spanwire network: {clients}:1: unknown word 'who'; there are broker, consumers, consumes, group_size"
    assert capsys.readouterr().err.startswith(told)


def test_lint_compares_with_the_files_of_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old").mkdir()
    old = [broker(tmp_path / "old", "A", to("B")), broker(tmp_path / "old", "B")]
    renamed = to("B").replace('name="toB"', 'name="other"')
    paths = [broker(tmp_path, "A", renamed), broker(tmp_path, "B")]
    assert main(["network", "lint", "--before", old[0], "--before", old[1], *paths]) == 1
    assert capsys.readouterr().out.startswith(f"{paths[0]}:2: fault 9: durable subscriptions of toB_brokerB_inbound_")
    assert main(["network", "lint", "--before", str(tmp_path / "none.xml"), *paths]) == 1
    assert "there is no such file" in capsys.readouterr().err


def test_a_route_to_a_broker_without_a_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = broker(tmp_path, "A", to("B"))
    assert main(["network", "route", "--from", "A", "--queue", "Q", path]) == 0
    assert capsys.readouterr().out == ("brokerA -> tcp://localhost:61002 (toB, priority -5)\n")


def test_ways_that_would_be_next_are_told_below_the_one_that_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = 'networkTTL="2"'
    paths = [
        broker(tmp_path, "A", to("B", more) + to("C", more)),
        broker(tmp_path, "B"),
        broker(tmp_path, "C", to("B")),
    ]
    assert main(["network", "route", "--from", "A", "--to", "B", "--queue", "Q", *paths]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "brokerA -> brokerB (toB, priority -5)",
        "  not brokerA -> brokerC: its priority -8 is less than -5, so it is used when that window is full "
        f"(toC, {paths[0]}:2)",
    ]
