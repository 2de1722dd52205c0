"""An operator sends, creates durable subscriptions, ends consumers and finishes branches that are left in doubt."""

from __future__ import annotations

import gc

import pytest

from spanwire.broker.dispatch.slow_consumer_strategy import GRACE_SECONDS
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.ports import Principal
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.model.errors import (
    AuthorizationError,
    InvalidDestinationError,
    JmsError,
    ResourceAllocationError,
    SpanwireError,
)
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.garbage import cycles
from tests.support.recording_authorizer import RecordingAuthorizer
from tests.unit.broker.test_xa_dialogues import IN, OUT, X, in_doubt, pending, reads

OTTO = Principal("otto")
QUEUE = "queue://Q"


class Observer:
    """Duck-typed to `spanwire.broker.admin.operator_actions.ActionObserver`."""

    def __init__(self) -> None:
        self.answers: list[SpanwireError | None] = []

    def on_answered(self, error: SpanwireError | None) -> None:
        self.answers.append(error)


def test_a_send_is_answered_once_it_is_stored() -> None:
    stage = Stage()
    observer = Observer()
    message = stage.peer("p").message(QUEUE, "text")
    stage.broker.assembly.operator_actions.send(OTTO, message, observer, stage.now)
    assert observer.answers == []
    stage.syncs()
    assert observer.answers == [None]
    assert stage.view(QUEUE).pending == 1


def test_a_send_leaves_no_cycle() -> None:
    stage = Stage()
    actions, producer = stage.broker.assembly.operator_actions, stage.peer("p")
    for _ in range(2):
        gc.collect()
        actions.send(OTTO, producer.message(QUEUE, "text"), Observer(), stage.now)
        stage.syncs()
    assert not {"ConnectionOutput", "ConnectionState"} & cycles()


def test_a_send_without_room_is_refused_and_does_not_wait() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), memory_limit_bytes=20_000))
    producer, actions = stage.peer("p"), stage.broker.assembly.operator_actions
    for number in range(3):
        producer.sends(QUEUE, f"{number}" + "x" * 8_000, persistent=False)
    observer = Observer()
    waiting = stage.broker.statistics().parked_sends
    with pytest.raises(ResourceAllocationError, match="has no room"):
        actions.send(OTTO, producer.message(QUEUE, "y" * 8_000, persistent=False), observer, stage.now)
    assert stage.broker.statistics().parked_sends == waiting
    assert observer.answers == []


def test_a_send_has_the_rights_of_the_user_alone() -> None:
    authorizer = RecordingAuthorizer(("otto", "write", QUEUE))
    stage = Stage(authorizer=authorizer)
    message = stage.peer("p").message(QUEUE, "text")
    with pytest.raises(AuthorizationError, match="otto"):
        stage.broker.assembly.operator_actions.send(OTTO, message, Observer(), stage.now)


def test_a_durable_subscription_is_created_and_keeps_messages() -> None:
    stage = Stage()
    actions = stage.broker.assembly.operator_actions
    actions.create_subscription(OTTO, "app", "kept", destination("topic://T"), "n = 1", stage.now)
    peer = stage.peer("p")
    peer.sends("topic://T", "yes", properties={"n": 1})
    peer.sends("topic://T", "no", properties={"n": 2})
    stage.settle()
    with pytest.raises(JmsError, match="already"):
        actions.create_subscription(OTTO, "app", "kept", destination("topic://T"), None, stage.now)
    again = stage.restarts()
    listener = again.peer("c", "app").consumes("topic://T", durable="kept", selector="n = 1")
    again.settle()
    assert listener.takes() == ["yes"]


def test_a_consumer_that_does_not_close_is_removed_after_a_while() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    stage.settle()
    consumer_id = str(listener.subscription.info.consumer_id)
    stage.broker.assembly.operator_actions.end_consumer(consumer_id, stage.now)
    assert stage.view(QUEUE).consumers == 1
    stage.waits(GRACE_SECONDS)
    stage.settle()
    assert (stage.view(QUEUE).consumers, stage.view(QUEUE).pending) == (0, 1)
    for missing in (consumer_id, "x", ""):
        with pytest.raises(InvalidDestinationError, match="there is no consumer"):
            stage.broker.assembly.operator_actions.end_consumer(missing, stage.now)


@pytest.mark.parametrize("commit", [True, False])
def test_a_branch_in_doubt_is_finished_after_a_restart(commit: bool) -> None:
    stage, _, _ = in_doubt()
    again = stage.restarts()
    overview = again.broker.overview
    (view,) = [overview.branch_view(branch) for branch in overview.branches()]
    assert (view.xid, view.sends, view.acknowledgements, view.recovered) == (str(X), 1, 1, True)
    observer = Observer()
    again.broker.assembly.operator_actions.finish_branch(str(X), commit, observer, again.now)
    reads(again)
    again.settle()
    assert observer.answers == [None]
    assert overview.branches() == []
    assert (pending(again, IN), pending(again, OUT)) == ((1, 1) if commit else (2, 0))


def test_a_branch_of_a_connected_manager_is_left_to_it() -> None:
    stage, _, _ = in_doubt()
    actions = stage.broker.assembly.operator_actions
    with pytest.raises(JmsError, match="its transaction manager decides"):
        actions.finish_branch(str(X), True, Observer(), stage.now)
    with pytest.raises(InvalidDestinationError, match="there is no prepared branch"):
        actions.finish_branch("XID:[0]", True, Observer(), stage.now)
    assert len(stage.broker.overview.branches()) == 1


def test_a_scheduled_message_is_removed_and_never_delivered() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    consumer = stage.peer("c")
    listener = consumer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "later", properties={"AMQ_SCHEDULED_DELAY": 5_000})
    stage.syncs()
    actions, overview = stage.broker.assembly.operator_actions, stage.broker.overview
    (job,) = overview.jobs()
    actions.remove_job(job.job_id, stage.now)
    assert overview.jobs() == []
    with pytest.raises(InvalidDestinationError, match="no scheduled message"):
        actions.remove_job(job.job_id, stage.now)
    stage.waits(10)
    stage.settle()
    assert listener.takes() == []


def test_a_broker_without_scheduler_has_no_message_to_remove() -> None:
    stage = Stage()
    with pytest.raises(InvalidDestinationError, match="no scheduled message"):
        stage.broker.assembly.operator_actions.remove_job("ID:1", stage.now)
