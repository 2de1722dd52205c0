"""``spanwire transaction`` at a broker with prepared branches of a bridge and of another program."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire import client
from spanwire.bridges.xa.branches import BranchNames, Side
from spanwire.bridges.xa.decision_log import DecisionLog
from spanwire.bridges.xa.log_file import LogFile
from spanwire.bridges.xa.records import Decision, Heuristic
from spanwire.cli.bridges.transaction import branch_of, text_of
from spanwire.cli.main import main
from spanwire.client.branch_recovery import FORMAT_ID
from spanwire.model.errors import ConfigurationError
from spanwire.model.ids import XaTransactionId
from spanwire.testing import Broker

FOREIGN = XaTransactionId(7, b"\xff/ x", b"")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def prepare(broker: Broker, branch: XaTransactionId, text: str) -> None:
    with client.connect(broker.url) as connection, connection.session("xa") as session:
        session.xa.start(branch)
        session.create_producer("queue://A").send(text)
        session.xa.end(branch)
        assert session.xa.prepare(branch)


def decided(directory: Path) -> list[XaTransactionId]:
    """A log with one decision and a report; returns a decided branch, and one without a decision."""

    async def write() -> list[XaTransactionId]:
        file = LogFile(directory)
        log = DecisionLog(file, file.path)
        names = BranchNames(log.log_id, "orders", "run")
        decided, undecided = names.next_transaction(), names.next_transaction()
        await log.decide(Decision(decided, "orders", "tcp://near:1", "tcp://far:1", 1, 0))
        await log.report(Heuristic("t", "orders", Side.TARGET, "it was rolled back", 0))
        log.close()
        return [names.branch(decided, Side.TARGET), names.branch(undecided, Side.TARGET)]

    return asyncio.run(write())


def test_branches_are_listed_with_owner_and_decision(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    branches = [*decided(tmp_path), FOREIGN, XaTransactionId(FORMAT_ID, b"spanwire:00:1:2", b"3")]
    for branch in branches:
        prepare(broker, branch, "x")
    arguments = ["transaction", "list", "--brokerUrl", broker.url, "--transactions", str(tmp_path)]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{text_of(branches[0])}  bridge orders, target, decision: commit",
        f"{text_of(branches[1])}  bridge orders, target, decision: none",
        "7/%FF%2F%20x/  another program, decision: unknown",
        f"{FORMAT_ID}/spanwire:00:1:2/3  Spark, exactly once by a ledger, decision: unknown",
        "heuristic outcome at 1970-01-01T00:00:00+00:00, bridge orders: it was rolled back",
    ]
    assert main([*arguments, "--json"]) == 0
    assert [row["decision"] for row in json.loads(capsys.readouterr().out)] == ["commit", "none", "unknown", "unknown"]


def test_branches_are_committed_and_rolled_back(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    other = XaTransactionId(7, b"g", b"b")
    prepare(broker, FOREIGN, "committed")
    prepare(broker, other, "rolled back")
    assert main(["transaction", "commit", text_of(FOREIGN), "--brokerUrl", broker.url]) == 0
    assert main(["transaction", "rollback", text_of(other), "--brokerUrl", broker.url]) == 0
    assert capsys.readouterr().out == "7/%FF%2F%20x/: committed\n7/g/b: rolled back\n"
    assert [str(message.body) for message in broker.queue("A").messages()] == ["committed"]
    assert main(["transaction", "list", "--brokerUrl", broker.url]) == 0
    assert capsys.readouterr().out == "no branch is prepared\n"
    assert main(["transaction", "commit", text_of(other), "--brokerUrl", broker.url]) == 1
    assert "has not been started" in capsys.readouterr().err


def test_what_contradicts_a_decision_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yes, no = decided(tmp_path)
    for action, branch, decision in (("rollback", yes, "commit"), ("commit", no, "none")):
        words = ["transaction", action, text_of(branch), "--transactions", str(tmp_path)]
        assert main(words) == 1
        assert f"the decision in the log is {decision}" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "7/a", "x/a/b", "7/a/b/c", "99999999999999999999/a/b", f"7/{'a' * 300}/b"])
def test_a_word_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no id of a branch"):
        branch_of(text)


def test_a_directory_without_a_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transaction", "list", "--transactions", str(tmp_path)]) == 1
    assert "has no decisions.log" in capsys.readouterr().err


def test_a_wrong_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transaction", "comit"]) == 2
    assert "there is no command 'comit'" in capsys.readouterr().err
