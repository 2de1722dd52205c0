"""Sends, subscriptions and ends of branches and consumers as the control socket asks for them."""

from __future__ import annotations

import asyncio

import pytest

from spanwire.broker.admin.operator_actions import ActionObserver
from spanwire.broker.ports import Authenticator, LoginObserver, Principal
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.management.handles import OPERATOR, Operator
from spanwire.management.operations.actions import BrokerActions, JobRemoval
from spanwire.management.tables.operation_table import Role
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import AuthenticationError, ConfigurationError, JmsError, SpanwireError
from spanwire.model.info import ConnectionInfo
from spanwire.model.message import Message
from spanwire.service.message_formats import message_formats
from tests.support.dialogue.broker_dialogue import START_MS, Stage

OTTO = Operator("otto", "http://h:1", Role.OPERATE, 100.0, frozenset({"operators"}))
FORMATS = message_formats()


class Clock:
    def now(self) -> Time:
        return Time(1.0, 5_000)


class Broker:
    """Duck-typed to `spanwire.management.operations.actions.ActingBroker`. Answers at once."""

    connection_id = "ID:operator"

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.sent: list[Message] = []
        self.error: JmsError | None = None

    def send(self, principal: Principal, message: Message, observer: ActionObserver, now: Time) -> None:
        self.asked.append((principal.name, principal.groups))
        self.sent.append(message)
        observer.on_answered(self.error)
        observer.on_answered(None)  # only the first word counts

    def create_subscription(
        self, principal: Principal, client_id: str, name: str, topic: Destination, selector: str | None, now: Time
    ) -> None:
        self.asked.append((principal.name, client_id, name, topic.qualified_name, selector))

    def finish_branch(self, xid: str, commit: bool, observer: ActionObserver, now: Time) -> None:
        self.asked.append((xid, commit))
        observer.on_answered(self.error)

    def end_consumer(self, consumer_id: str, now: Time) -> None:
        self.asked.append(consumer_id)

    def remove_job(self, job_id: str, now: Time) -> None:
        self.asked.append(("job", job_id))


class Logins:
    """A broker with one user."""

    def must_wait(self, asker: object, info: ConnectionInfo, observer: LoginObserver, now: Time) -> bool:
        return False

    def forget_login(self, asker: object) -> None:
        """Nothing waits."""

    def log_in(
        self, info: ConnectionInfo, now: Time, authenticator: Authenticator | None = None, asker: object = None
    ) -> Principal:
        if (info.user_name, info.password) != ("anna", "secret"):
            raise AuthenticationError("User name [None] or password is invalid.")
        return Principal("anna", frozenset({"clerks"}))


def asked(broker: Broker, what: str, **arguments: object) -> dict[str, object]:
    actions = BrokerActions(broker, Logins(), FORMATS, Clock(), lambda: None)

    async def scene() -> dict[str, object]:
        answer: dict[str, object] = await getattr(actions, what)(arguments)
        return answer

    return asyncio.run(scene())


def test_a_message_has_what_the_operator_gave_it_and_his_rights() -> None:
    broker = Broker()
    answer = asked(
        broker, "send", destination="topic://T", body="Grüße", properties={"a": 1, "b": "x", "c": True, "d": 0.5},
        priority=7, lifetime_ms=1_000, correlation_id="c", type="t", group="g", reply_to="R", persistent=False,
        operator=OTTO,
    )  # fmt: skip
    assert broker.asked == [("otto", frozenset({"operators"}))]
    view = FORMATS.view(broker.sent[0])
    assert (view.body, view.destination.qualified_name) == ("Grüße".encode(), "topic://T")
    assert {name: value for name, (_, value) in view.properties.items()} == {"a": 1, "b": "x", "c": True, "d": 0.5}
    assert (view.priority, view.timestamp_ms, view.expiration_ms, view.persistent) == (7, 5_000, 6_000, False)
    assert (view.correlation_id, view.type, view.group_id, str(view.reply_to)) == ("c", "t", "g", "queue://R")
    assert answer == {"destination": "topic://T", "message_id": "ID:operator:1:1:1"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"body": "x", "destination": "Q", OPERATOR: None}, "password is invalid"),
        ({"body": "x", "destination": "Q", OPERATOR: {"user": "otto"}}, "password is invalid"),
        ({"body": 1, "destination": "Q", OPERATOR: OTTO}, "body is no text"),
        ({"body": "x", OPERATOR: OTTO}, "a destination is missing"),
        ({"body": "x", "destination": "Q", "priority": 10, OPERATOR: OTTO}, "priority is a number from 0 to 9"),
        ({"body": "x", "destination": "Q", "lifetime_ms": -1, OPERATOR: OTTO}, "lifetime_ms is no whole number"),
        ({"body": "x", "destination": "Q", "properties": [1], OPERATOR: OTTO}, "properties is an object"),
        ({"body": "x", "destination": "Q", "properties": {"a": [1]}, OPERATOR: OTTO}, "the property a is no text"),
        ({"body": "x", "destination": "Q", "properties": {"a": 1 << 70}, OPERATOR: OTTO}, "the property a is no text"),
    ],
)
def test_a_bad_send_reaches_nobody(arguments: dict[str, object], words: str) -> None:
    broker = Broker()
    with pytest.raises(SpanwireError, match=words):
        asked(broker, "send", **arguments)
    assert broker.sent == []


def test_a_send_without_a_handle_has_the_rights_of_the_user_who_logs_in_with_it() -> None:
    broker = Broker()
    asked(broker, "send", destination="Q", body="x", user="anna", password="secret")
    assert broker.asked == [("anna", frozenset({"clerks"}))]


def test_a_refusal_by_the_broker_is_passed_on() -> None:
    broker = Broker()
    broker.error = JmsError("the disk has no room")
    with pytest.raises(JmsError, match="no room"):
        asked(broker, "send", destination="Q", body="x", operator=OTTO)
    with pytest.raises(JmsError, match="no room"):
        asked(broker, "commit_branch", xid="XID:1")


def test_subscriptions_branches_and_consumers_are_named() -> None:
    broker = Broker()
    asked(broker, "create_subscription", client_id="c", name="n", topic="T.>", operator=OTTO)
    assert asked(broker, "commit_branch", xid="XID:1")["outcome"] == "committed"
    assert asked(broker, "roll_back_branch", xid="XID:2")["outcome"] == "rolled back"
    asked(broker, "end_consumer", consumer_id="ID:c:1:1")
    assert asked(broker, "remove_job", job_id="ID:j") == {"job_id": "ID:j"}
    assert broker.asked == [
        ("otto", "c", "n", "topic://T.>", None), ("XID:1", True), ("XID:2", False), "ID:c:1:1", ("job", "ID:j"),
    ]  # fmt: skip


def test_scheduled_messages_are_removed_by_their_time() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    producer = stage.peer("p")
    for delay_ms in (1_000, 2_000, 3_000):
        producer.sends("queue://Q", "later", properties={"AMQ_SCHEDULED_DELAY": delay_ms})
    overview = stage.broker.overview
    removal = JobRemoval(overview, stage.broker.assembly.operator_actions, StageClock(stage), lambda: None)
    span = {"from_ms": START_MS + 2_000, "to_ms": START_MS + 2_500}
    assert asyncio.run(removal.remove(span)) == {"removed": 1}
    assert [job.due_ms - START_MS for job in overview.jobs()] == [1_000, 3_000]
    assert asyncio.run(removal.remove({})) == {"removed": 2}
    assert overview.jobs() == []
    with pytest.raises(ConfigurationError, match="from_ms is a time"):
        asyncio.run(removal.remove({"from_ms": "now"}))


class StageClock:
    """The time of a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def now(self) -> Time:
        return self._stage.now
