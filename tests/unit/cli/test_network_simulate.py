"""``spanwire network simulate``: what it refuses before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.cli.main import main
from tests.unit.service.config.test_network_lint import broker, changed, to


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    try:
        status = main(["network", "simulate", *words])
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    told = capsys.readouterr()
    assert status != 0 and told.out == ""
    (line,) = told.err.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "name a network: --topology KIND --brokers N, or --edges FILE, or the files of its brokers"),
        ("--topology hub --edges x.csv", "name a network"),
        ("--topology hub", "--topology needs --brokers N"),
        ("--edges x.csv --degree 3", "--brokers and --degree belong to --topology"),
        ("--topology wheel --brokers 3", "invalid choice: 'wheel'"),
        ("--topology hub --brokers many", "'many' is no whole number from 1 on"),
        ("--topology hub --brokers 9999999", "--brokers is 9,999,999; 2 to 1,000,000 can be simulated"),
        ("--topology hub --brokers 5 --message-ttl -2", "'-2' is no number of hops"),
        ("--topology hub --brokers 5 --networkTTL x", "'x' is no number of hops"),
        ("--topology hub --brokers 5 --subscribers 6", "--subscribers is 6, and there are 5 brokers"),
        ("--topology hub --brokers 5 --subscribers some", "--subscribers is 'some'; write a number from 1 on, or ALL"),
        ("--topology hub --brokers 5 --consumer-priority-base -64", "consumerPriorityBase is -64; -63 is the lowest"),
        ("--topology hub --brokers 5 --netwrok-ttl 3", "did you mean --network-ttl?"),
        ("--edges nothing.csv", "nothing.csv: "),
        ("--topology hub --brokers 5 --out /dev/null/x", "/dev/null/x: Not a directory"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_line(capsys: pytest.CaptureFixture[str], words: str, message: str) -> None:
    assert message in refusal(capsys, *words.split())


def test_what_stands_in_files_is_not_said_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [broker(tmp_path, "A", to("B")), broker(tmp_path, "B")]
    for words in (["--network-ttl", "3"], ["--conduitSubscriptions", "true"], ["--one-way"]):
        assert "belongs in the brokers' files, not here" in refusal(capsys, *paths, *words)


def test_files_that_cannot_be_simulated_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    near = broker(tmp_path, "A", to("B") + to("C", 'decreaseNetworkConsumerPriority="false"'))
    paths = [near, broker(tmp_path, "B"), broker(tmp_path, "C")]
    assert "these connectors differ in decreaseNetworkConsumerPriority" in refusal(capsys, *paths)
    same = [broker(tmp_path, "A", to("B")), changed(broker(tmp_path, "B"), 'brokerId="B"', 'brokerId="A"')]
    assert "brokers brokerA and brokerB have the same id A; give each its own brokerId" in refusal(capsys, *same)
    static = '<staticallyIncludedDestinations><queue physicalName="S.&gt;"/></staticallyIncludedDestinations>'
    kept = [broker(tmp_path, "A", to("B", inside=static)), broker(tmp_path, "B")]
    assert "queue://S.ONE is a static destination of connector toB" in refusal(capsys, *kept, "--queue", "S.ONE")
