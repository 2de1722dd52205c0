"""Batches for destinations whose messages have several copies, or none: a commit counts what was sent."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from spanwire.broker.metadata import STAGED_BATCHES
from spanwire.broker.policy.virtual_settings import (
    CompositeDestination,
    ForwardTo,
    MirroredQueues,
    VirtualSettings,
    VirtualTopic,
)
from spanwire.broker.ports import WRITE
from spanwire.broker.request_errors import ControlRefusal
from spanwire.broker.transactions.xa_transactions import XA_RDONLY
from spanwire.model.destination import parse_destination
from spanwire.model.errors import AuthorizationError, ResourceAllocationError
from spanwire.model.ids import XaTransactionId
from tests.support.control_dialogue import ASK, Program, Refused, again
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.recording_authorizer import RecordingAuthorizer

ORDERS = "topic://VirtualTopic.Orders"
SHOP = "queue://Consumer.Shop.VirtualTopic.Orders"
TAX = "queue://Consumer.Tax.VirtualTopic.Orders"
FEW = [f"m{number}" for number in range(4)]
XID = XaTransactionId(4711, b"global", b"\x01")


@dataclass(frozen=True)
class Case:
    """``sent_to`` is one destination for the sender. ``queues`` and ``durables`` (``topic name``) exist before, and
    each of them gets every message; a ``listener`` of that topic as well.
    """

    sent_to: str
    queues: tuple[str, ...] = ()
    durables: tuple[str, ...] = ()
    listener: str = ""
    virtual: VirtualSettings | None = None

    def stage(self) -> Stage:
        stage = Stage(virtual=self.virtual)
        maker = stage.peer("maker")
        for queue in self.queues:
            maker.consumes(queue).leaves()
        for place, durable in enumerate(self.durables):
            topic, name = durable.split(" ")
            subscriber = stage.peer(f"d{place}", client_id=f"client{place}")
            subscriber.consumes(topic, durable=name)
            subscriber.leaves()
        return stage

    def check(self, stage: Stage, texts: list[str]) -> None:
        """Everybody has got ``texts``, once."""
        stage.settle()
        taker = stage.peer("taker")
        consumers = {queue: taker.consumes(queue) for queue in self.queues}
        for place, durable in enumerate(self.durables):
            topic, name = durable.split(" ")
            consumers[durable] = stage.peer(f"again{place}", f"client{place}").consumes(topic, durable=name)
        stage.settle()
        assert {name: consumer.takes() for name, consumer in consumers.items()} == dict.fromkeys(consumers, texts)


def composite(name: str, *targets: str, selector: str = "", forward_only: bool = True) -> VirtualSettings:
    forwards = tuple(ForwardTo(parse_destination(text), selector) for text in targets)
    return VirtualSettings((VirtualTopic(),), (CompositeDestination(parse_destination(name), forwards, forward_only),))


CASES = {
    "a queue": Case("queue://A", queues=("queue://A",)),
    "a topic nobody listens to": Case("topic://T"),
    "a topic with a listener": Case("topic://T", listener="topic://T"),
    "one durable subscription": Case("topic://T", durables=("topic://T a",)),
    "two durable subscriptions and a listener": Case(
        "topic://T", durables=("topic://T a", "topic://T b"), listener="topic://T"
    ),
    "a durable subscription of a wildcard": Case("topic://T.A", durables=("topic://T.> a",)),
    "a virtual topic without queues": Case(ORDERS),
    "a virtual topic with a queue": Case(ORDERS, queues=(SHOP,)),
    "a virtual topic with two queues, a durable subscription and a listener": Case(
        ORDERS, queues=(SHOP, TAX), durables=(f"{ORDERS} a",), listener=ORDERS
    ),
    "a composite queue": Case(
        "queue://IN",
        queues=("queue://A", "queue://B"),
        durables=("topic://T a",),
        listener="topic://T",
        virtual=composite("queue://IN", "queue://A", "queue://B", "topic://T"),
    ),
    "a composite topic that keeps its messages": Case(
        "topic://IN",
        queues=("queue://A",),
        durables=("topic://IN a",),
        listener="topic://IN",
        virtual=composite("topic://IN", "queue://A", forward_only=False),
    ),
    "a composite to a virtual topic": Case("queue://IN", queues=(SHOP, TAX), virtual=composite("queue://IN", ORDERS)),
    "a composite whose filter takes nothing": Case(
        "queue://IN", virtual=composite("queue://IN", "queue://A", selector="odd = 'yes'")
    ),
    "a mirrored queue": Case(
        "queue://Q",
        queues=("queue://Q", "queue://Consumer.log.VirtualTopic.Mirror.Q"),
        durables=("topic://VirtualTopic.Mirror.Q a",),
        virtual=VirtualSettings(mirrored=MirroredQueues()),
    ),
    "a composite name": Case(
        "queue://A,topic://T", queues=("queue://A",), durables=("topic://T a",), listener="topic://T"
    ),
    "a wildcard with two queues": Case("queue://W.*", queues=("queue://W.1", "queue://W.2")),
    "a wildcard that matches nothing": Case("queue://W.*"),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@every_case
@pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "fleeting"])
def test_a_commit_names_the_messages_that_were_sent(case: Case, persistent: bool) -> None:
    stage = case.stage()
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    listener = stage.peer("l").consumes(case.listener) if case.listener else None
    program.stages(0, 0, *FEW[:3], to=case.sent_to, persistent=persistent)
    program.stages(0, 0, *FEW[3:], to=case.sent_to, persistent=persistent, transaction=2)
    with pytest.raises(Refused, match="incomplete: batch 0 of sink q: 4 of 5 messages of partition 0"):
        program.commits(0, "0 0 5")
    assert program.commits(0, "0 0 4") == (4, False)
    assert program.commits(0, "0 0 4") == (0, True)
    assert stage.store.metadata[STAGED_BATCHES] == {}
    assert listener is None or listener.takes() == FEW
    case.check(stage, FEW)


@every_case
def test_a_restart_between_staging_and_commit_changes_no_count(case: Case) -> None:
    stage = case.stage()
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    program.stages(0, 0, *FEW, to=case.sent_to)
    stage.settle()
    stage = stage.restarts()
    stage = stage.restarts(clean=True)
    program = again(program, stage)
    assert program.asks("sinks") == {}
    assert '"staged": 4' in program.body
    program.stages(0, 1, "next", to=case.sent_to)
    assert program.commits(0, "0 0 4", "1 0 1") == (5, False)
    assert stage.store.metadata[STAGED_BATCHES] == {}
    case.check(stage, [*FEW, "next"])


@every_case
def test_what_is_aborted_is_counted_as_it_was_sent(case: Case) -> None:
    stage = case.stage()
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    program.stages(0, 0, *FEW, to=case.sent_to)
    program.stages(1, 0, "next", to=case.sent_to)
    assert program.asks("abort", query="q", epoch=1, batch=0) == {"messages": 4}
    assert program.asks("forget", query="q", epoch=1) == {"messages": 1}
    assert stage.store.metadata[STAGED_BATCHES] == {}
    case.check(stage, [])


@every_case
@pytest.mark.parametrize("restarts", [False, True], ids=["", "restart"])
def test_a_prepared_branch_gives_each_target_every_message(case: Case, restarts: bool) -> None:
    stage = case.stage()
    peer, xa = stage.peer("p"), stage.broker.xa
    listener = stage.peer("l").consumes(case.listener) if case.listener and not restarts else None
    xa.begin(peer.state, XID)
    for text in FEW:
        stage.broker.send(peer.state, peer.message(case.sent_to, text), XID, peer.new_token(), stage.now)
    has_target = bool(case.queues or case.durables or case.sent_to.startswith("topic:"))
    vote = xa.prepare(peer.state, XID, peer.new_token(), stage.now)
    assert (vote == XA_RDONLY) is not has_target
    stage.settle()
    if restarts:
        stage = stage.restarts()
        peer, xa = stage.peer("p"), stage.broker.xa
    assert xa.prepared() == ([XID] if has_target else [])
    if has_target:
        xa.commit(peer.state, XID, False, peer.new_token(), stage.now)
        stage.settle()
        assert xa.prepared() == []
    assert listener is None or listener.takes() == FEW
    case.check(stage, FEW)


def test_a_part_of_an_earlier_version_has_as_many_messages_as_copies() -> None:
    stage = Stage()
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    program.stages(0, 0, "a", "b")
    stage.settle()
    (key, value), *_ = stage.store.metadata[STAGED_BATCHES].items()
    assert value.endswith(b',"messages":2}')
    stage.store.put_metadata(STAGED_BATCHES, key, value.replace(b',"messages":2}', b"}"))
    stage.syncs()
    stage = stage.restarts()
    assert again(program, stage).commits(0, "0 0 2") == (2, False)


def test_a_message_for_an_advisory_topic_is_refused_when_it_is_sent() -> None:
    stage = Stage()
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    with pytest.raises(AuthorizationError, match="only the broker does"):
        program.stages(0, 0, "a", to="topic://ActiveMQ.Advisory.Mine")


def test_copies_beyond_the_limit_of_a_connection_are_refused_with_what_to_do() -> None:
    stage = Stage(max_uncommitted=10)
    for name in ("a", "b", "c"):
        stage.peer(name, client_id=name).consumes("topic://T", durable="s")
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    program.peer.begins(1)
    with pytest.raises(ResourceAllocationError):
        program.peer.sends("topic://T", *FEW, transaction=1)
    fields: dict[str, object] = {
        "action": "stage", "query": "q", "epoch": 1, "batch": 0, "partition": 0, "attempt": 0,
    }  # fmt: skip
    program.peer.sends_message(program.peer.message(ASK, "", properties=fields), 1)
    with pytest.raises(ControlRefusal, match=r"limit: .* holds 10 uncommitted messages.*make smaller batches"):
        program.peer.commits(1)
    assert stage.memory() == 0


def test_a_batch_for_a_destination_that_is_forbidden_is_refused_with_the_reason() -> None:
    authorizer = RecordingAuthorizer()
    authorizer.refused.add(("*", WRITE, "queue://A"))
    stage = Stage(authorizer=authorizer)
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    program.peer.begins(1)
    with pytest.raises(AuthorizationError):
        program.peer.sends("queue://A", "a", transaction=1)
    fields: dict[str, object] = {
        "action": "stage", "query": "q", "epoch": 1, "batch": 0, "partition": 0, "attempt": 0,
    }  # fmt: skip
    program.peer.sends_message(program.peer.message(ASK, "", properties=fields), 1)
    with pytest.raises(AuthorizationError, match="not authorized to write to: queue://A"):
        program.peer.commits(1)


def test_the_request_to_stage_is_no_message_of_the_part() -> None:
    stage = Stage()
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    program.peer.begins(1)
    fields: dict[str, object] = {
        "action": "stage", "query": "q", "epoch": 1, "batch": 0, "partition": 0, "attempt": 0,
    }  # fmt: skip
    program.peer.sends_message(program.peer.message(ASK, "", properties=fields), 1)
    program.peer.sends("queue://A", "behind it", transaction=1)
    program.peer.commits(1)
    assert program.commits(0, "0 0 1") == (1, False)
