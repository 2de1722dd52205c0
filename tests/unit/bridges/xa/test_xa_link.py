"""Dialogues of the link between two brokers: recovery, heuristic outcomes, and branches of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.xa.branches import BranchNames, Side, log_of
from spanwire.bridges.xa.decision_log import DecisionLog
from spanwire.bridges.xa.outcomes import Outcome, outcome_of
from spanwire.bridges.xa.records import Decision, read_lines
from spanwire.bridges.xa.xa_link import Unfinished, XaLink
from spanwire.client.branch_recovery import FORMAT_ID
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError, JmsError, TransactionRolledBackError, XaError, xa_error
from spanwire.model.ids import XaTransactionId
from tests.support.bridge_dialogue import distributed_definition, text_messages
from tests.unit.bridges.xa.test_decision_log import Disk

ORDERS: Final = distributed_definition()


class Party:
    """A broker's side that keeps a list of its calls."""

    def __init__(self, side: str, calls: list[str]) -> None:
        self._side = side
        self._calls = calls
        self.prepared: list[XaTransactionId] = []
        self.errors: dict[str, JmsError] = {}  # by call
        self.vote = True

    def _call(self, name: str) -> None:
        self._calls.append(f"{name} {self._side}")
        if name in self.errors:
            raise self.errors[name]

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        self._call("receive")
        return text_messages(3)

    async def send(self, branch: XaTransactionId, messages: list[BridgeMessage]) -> None:
        self._call("send")

    async def prepare(self, branch: XaTransactionId) -> bool:
        self._call("prepare")
        return self.vote

    async def commit(self, branch: XaTransactionId) -> None:
        self._call("commit")

    async def roll_back(self, branch: XaTransactionId) -> None:
        self._call("roll back")

    async def forget(self, branch: XaTransactionId) -> None:
        self._call("forget")

    async def prepared_branches(self) -> list[XaTransactionId]:
        return self.prepared

    async def dead_letter(self, cause: str) -> None:
        self._call("dead letter")

    def check(self) -> None:
        pass

    async def close(self) -> None:
        self._call("close")


class Stage:
    """A link over two parties."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.source = Party("source", self.calls)
        self.target = Party("target", self.calls)
        self.disk = Disk()
        self.log = DecisionLog(self.disk, "log")
        self.names = BranchNames(self.log.log_id, "orders", "run")
        self.unfinished = Unfinished()
        self.link = self.next_link()

    def next_link(self) -> XaLink:
        return XaLink(ORDERS, self.source, self.target, self.log, self.names, lambda: Time(0.0, 7), self.unfinished)

    async def decided(self) -> None:
        await self.link.send(text_messages(3))
        await self.link.prepare()
        await self.link.decide(3)
        self.calls.clear()

    async def completed(self) -> list[str]:
        """The heuristic outcomes of a batch, once it is committed."""
        problems = await self.link.complete()
        await self.link.settle()
        return [*problems, *self.unfinished.take_problems()]


def played(scenario: Callable[[Stage], Coroutine[Any, Any, None]]) -> Stage:
    async def run() -> Stage:
        stage = Stage()
        await scenario(stage)
        return stage

    return asyncio.run(run())


def test_branches_of_a_decision_are_committed_and_others_of_the_bridge_rolled_back() -> None:
    async def scenario(stage: Stage) -> None:
        decided, undecided = stage.names.next_transaction(), stage.names.next_transaction()
        await stage.log.decide(Decision(decided, "orders", "tcp://near:61616", "tcp://far:61616", 3, 7))
        for side, party in ((Side.SOURCE, stage.source), (Side.TARGET, stage.target)):
            party.prepared = [stage.names.branch(undecided, side), stage.names.branch(decided, side)]
        assert await stage.link.recover() == (3, [])
        assert stage.calls == ["roll back source", "commit source", "roll back target", "commit target"]
        assert stage.log.pending("orders") == []

    played(scenario)


def test_branches_of_other_bridges_logs_and_programs_stay() -> None:
    async def scenario(stage: Stage) -> None:
        branch = stage.names.branch(stage.names.next_transaction(), Side.SOURCE)
        other_bridge = BranchNames(stage.log.log_id, "invoices", "run")
        other_log = BranchNames("5" * 12, "orders", "run")
        stage.source.prepared = [
            other_bridge.branch(other_bridge.next_transaction(), Side.SOURCE),
            other_log.branch(other_log.next_transaction(), Side.SOURCE),
            stage.names.branch("bridge:x", Side.SOURCE),
            XaTransactionId(FORMAT_ID, b"spanwire:0123:1:2:3", b"4"),
            XaTransactionId(FORMAT_ID + 1, branch.global_id, branch.branch_qualifier),
            XaTransactionId(FORMAT_ID, branch.global_id, b"target:orders"),  # one broker may be on both sides
        ]
        assert await stage.link.recover() == (0, [])
        assert stage.calls == []

    played(scenario)


def test_a_decision_for_other_brokers_stops_the_bridge_until_they_are_back() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.log.decide(Decision("t", "orders", "tcp://near:61616", "tcp://former:61616", 3, 7))
        with pytest.raises(ConfigurationError, match=r"former target tcp://former:61616; let the bridge run once"):
            await stage.link.recover()
        assert [decision.transaction for decision in stage.log.pending("orders")] == ["t"]

    played(scenario)


def test_a_side_without_changes_is_not_committed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.target.vote = False
        await stage.decided()
        assert await stage.completed() == []
        assert stage.calls == ["commit source"]

    played(scenario)


def test_a_failed_prepare_is_undone_when_the_link_is_closed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.source.errors["prepare"] = JmsError("no room")
        with pytest.raises(JmsError, match="no room"):
            await stage.link.send(text_messages(3))
            await stage.link.prepare()
        await stage.link.close()
        assert stage.calls[-4:] == ["roll back source", "roll back target", "close source", "close target"]

    played(scenario)


def test_nothing_is_undone_after_a_decision_that_may_be_stored() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.link.send(text_messages(3))
        await stage.link.prepare()
        stage.disk.fails = True
        with pytest.raises(Exception, match="cannot be written"):
            await stage.link.decide(3)
        stage.calls.clear()
        await stage.link.close()
        assert stage.calls == ["close source", "close target"]

    played(scenario)


@pytest.mark.parametrize(
    ("error", "text", "is_forgotten"),
    [
        (xa_error("rolled back by hand", 6), "was rolled back: rolled back by hand", True),
        (xa_error("in part", 5), "was committed in part, rolled back in part", True),
        (TransactionRolledBackError("the broker rolled it back"), "was rolled back", False),
        (xa_error("no such branch", -4), "was finished by somebody else", False),
    ],
)
def test_a_heuristic_outcome_is_reported_stored_and_forgotten(error: JmsError, text: str, is_forgotten: bool) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.decided()
        stage.target.errors["commit"] = error
        (problem,) = await stage.completed()
        assert problem.startswith("the branch at the target tcp://far:61616 of bridge:") and text in problem
        assert ("forget target" in stage.calls) == is_forgotten
        assert stage.log.pending("orders") == []
        records = read_lines(stage.disk.content or b"", "log")[1]
        assert [getattr(record, "problem", None) for record in records][-1] == problem

    played(scenario)


def test_a_commit_that_a_broker_has_not_answered_keeps_the_decision() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.decided()
        stage.target.errors["commit"] = JmsError("the connection is lost")
        with pytest.raises(JmsError):
            await stage.completed()
        assert len(stage.log.pending("orders")) == 1

    played(scenario)


def test_messages_cross_while_the_batch_before_is_committed_and_are_prepared_after_it() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.decided()
        answered = asyncio.Event()

        async def commit(branch: XaTransactionId) -> None:
            stage.calls.append("commit target")
            await answered.wait()
            stage.calls.append("committed target")

        stage.target.commit = commit  # type: ignore[method-assign]
        assert await stage.link.complete() == []
        await stage.link.send(text_messages(3))
        preparing = asyncio.create_task(stage.link.prepare())
        await asyncio.sleep(0)
        assert stage.calls == ["commit source", "commit target", "send target"]
        answered.set()
        await preparing
        assert stage.calls[3:] == ["committed target", "prepare source", "prepare target"]

    played(scenario)


def test_a_commit_that_fails_behind_its_batch_is_told_and_counted_once() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.decided()
        transaction = stage.log.pending("orders")[0].transaction
        stage.target.errors["commit"] = JmsError("the connection is lost")
        assert await stage.link.complete() == []
        await asyncio.sleep(0.01)
        with pytest.raises(JmsError, match="the connection is lost"):
            stage.link.check()
        await stage.link.close()
        del stage.target.errors["commit"]
        stage.target.prepared = [stage.names.branch(transaction, Side.TARGET)]
        assert await stage.next_link().recover() == (0, [])  # its messages were counted with the batch
        assert stage.log.pending("orders") == []

    played(scenario)


def test_a_commit_that_fails_ends_the_wait_for_messages() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.decided()
        answered = asyncio.Event()

        async def commit(branch: XaTransactionId) -> None:
            await answered.wait()
            raise JmsError("the disk is full")

        async def receive(max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
            await asyncio.Event().wait()
            raise AssertionError("a receive without messages is cancelled")

        stage.target.commit = commit  # type: ignore[method-assign]
        stage.source.receive = receive  # type: ignore[method-assign]
        assert await stage.link.complete() == []
        receiving = asyncio.create_task(stage.link.receive(1, 1, 30.0))
        await asyncio.sleep(0)
        answered.set()
        with pytest.raises(JmsError, match="the disk is full"):
            await receiving

    played(scenario)


def test_a_heuristic_outcome_that_comes_while_a_link_closes_is_told_by_the_next_one() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.decided()
        stage.target.errors["commit"] = xa_error("rolled back by hand", 6)
        assert await stage.link.complete() == []
        await stage.link.close()
        _, (problem,) = await stage.next_link().recover()
        assert "was rolled back: rolled back by hand" in problem

    played(scenario)


def test_a_branch_that_is_gone_after_a_lost_connection_was_committed() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.decided()
        transaction = stage.log.pending("orders")[0].transaction
        stage.target.prepared = [stage.names.branch(transaction, Side.TARGET)]
        stage.target.errors["commit"] = xa_error("not started", -4)
        assert await stage.link.recover() == (3, [])
        assert stage.log.pending("orders") == []

    played(scenario)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (xa_error("busy: try again", 4), Outcome.OTHER),
        (XaError("Transaction 'XID:[1]' has not been started."), Outcome.GONE),
        (JmsError("the connection is lost"), Outcome.OTHER),
        (xa_error("x", 7), Outcome.HEURISTIC),
    ],
)
def test_answers_to_a_commit_have_a_meaning(error: JmsError, outcome: Outcome) -> None:
    assert outcome_of(error) is outcome


def test_ids_of_branches_fit_into_the_limits_of_xa_and_name_the_bridge() -> None:
    names = BranchNames("0123456789ab", "é" + "x" * 99, "01234567")
    branch = names.branch(names.next_transaction(), Side.TARGET)
    assert len(branch.global_id) <= 64 and len(branch.branch_qualifier) <= 64
    assert branch.branch_qualifier.startswith(b"target:?xxx") and log_of(branch) == "0123456789ab"
