"""The control destination: who may ask for what, how much, and what becomes of answers."""

from __future__ import annotations

import pytest

from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.exactly_once.cursor_table import MAX_CURSORS
from spanwire.broker.exactly_once.part_names import MAX_COMMIT_PARTS
from spanwire.broker.exactly_once.request import MAX_POSTPONED
from spanwire.broker.exactly_once.requests import MAX_DEFERRED
from spanwire.broker.exactly_once.sinks import MAX_SINKS
from spanwire.broker.metadata import MAX_VALUE_BYTES
from spanwire.broker.policy.virtual_settings import CompositeDestination, ForwardTo, VirtualSettings
from spanwire.broker.ports import ADMIN, READ, WRITE, Principal
from spanwire.broker.request_errors import ControlRefusal
from spanwire.broker.reserved_destinations import CONTROL
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.model.destination import Destination
from spanwire.model.errors import AuthorizationError, IllegalStateError, ResourceAllocationError
from spanwire.model.info import ConnectionInfo
from tests.support.control_dialogue import ASK, Program, Refused
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.dialogue.text_format import properties_of
from tests.support.late_store import LateStore

Q = "queue://Q"


class Users:
    """Duck-typed to `spanwire.broker.ports.Authenticator`: everybody is who he says he is."""

    def authenticate(self, info: ConnectionInfo) -> Principal:
        return Principal(info.user_name or "nobody")


class Lists:
    """Duck-typed to `spanwire.broker.ports.Authorizer`: ``refused`` are user, action and qualified name."""

    def __init__(self, *refused: tuple[str, str, str]) -> None:
        self.refused = set(refused)

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        if (principal.name, action, destination.qualified_name) in self.refused:
            raise AuthorizationError(f"{principal.name} {action} {destination}")

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        self.check(principal, action, destination)


class FullStore(LateStore):
    """Takes metadata records only while it may."""

    def __init__(self) -> None:
        super().__init__()
        self.takes_facts = True

    def put_metadata(self, table: int, key: bytes, value: bytes) -> None:
        if not self.takes_facts:
            raise ResourceAllocationError("no more facts")
        super().put_metadata(table, key, value)


def world(*refused: tuple[str, str, str]) -> tuple[Stage, Program, Program]:
    """An owner with a cursor that holds two messages and a sink, and a guest."""
    stage = Stage(authenticator=Users(), authorizer=Lists(*refused))
    stage.peer("p", user="owner").sends(Q, "one", "two", "three")
    stage.settle()
    owner = Program(stage, "owner", "owner")
    owner.opens()
    owner.reserves(2)
    owner.asks("begin", query="q", run="r1")
    return stage, owner, Program(stage, "guest", "guest")


def test_s46_nobody_takes_over_reads_or_ends_a_cursor_without_the_right_to_administer_its_queue() -> None:
    stage, owner, guest = world(("guest", ADMIN, Q))
    requests: list[tuple[str, dict[str, object]]] = [
        ("open", {"queue": "Q", "run": "mine"}),
        ("open", {"queue": "OTHER", "run": "mine"}),
        ("reserve", {"epoch": 1, "messages": 1}),
        ("acknowledge", {"epoch": 1, "to": 2}),
        ("release", {"epoch": 1}),
    ]
    for action, properties in requests:
        with pytest.raises(Refused, match=r"^unauthorized: User guest is not authorized to administer: queue://Q"):
            guest.asks(action, cursor="c", **properties)
    with pytest.raises(AuthorizationError, match="not authorized to administer"):
        guest.begins_to_read(0, 2)
    assert guest.cursors() == []
    assert not stage.has("queue://OTHER")
    assert owner.reads(0, 2) == ["one", "two"]


def test_s46_who_may_not_read_or_write_the_control_destination_asks_nothing() -> None:
    _, _, guest = world(("guest", WRITE, ASK), ("guest", READ, ASK))
    with pytest.raises(AuthorizationError, match=r"write to: queue://ActiveMQ\.Spanwire\.Control"):
        guest.begins_to_ask("cursors")
    with pytest.raises(AuthorizationError, match=r"read from: queue://ActiveMQ\.Spanwire\.Control"):
        guest.begins_to_read(0, 2)


def test_s46_a_sink_is_for_who_began_it_and_for_administrators() -> None:
    _, owner, guest = world(("guest", ADMIN, ASK))
    for action in ("begin", "commit", "abort", "forget"):
        with pytest.raises(Refused, match=r"^unauthorized: User guest is not authorized to use sink: q"):
            guest.asks(action, query="q", run="mine", epoch=1, batch=0)
    with pytest.raises(AuthorizationError, match="use sink: q"):
        guest.stages(0, 0, "a")
    guest.asks("sinks")
    assert guest.body == "[]"
    assert owner.asks("abort", query="q", epoch=1, batch=0) == {"messages": 0}


def test_an_administrator_may_take_over_the_sink_of_another() -> None:
    _, _, guest = world()
    assert guest.asks("begin", query="q", run="mine") == {"epoch": 2, "batch": -1}


def test_s46_staging_needs_the_right_to_administer_where_messages_go() -> None:
    stage, _, guest = world(("guest", ADMIN, "queue://OUT"))
    stage.peer("maker", user="owner").sends("queue://OUT", "made")
    guest.asks("begin", query="own", run="r1")
    with pytest.raises(AuthorizationError, match=r"administer: queue://OUT \(staging needs that\)"):
        guest.stages(0, 0, "a", query="own")
    guest.asks("commit", query="own", epoch=1, batch=0)


def test_s46_an_answer_goes_where_the_asking_user_may_write_and_nowhere_else() -> None:
    stage, _, guest = world(("guest", WRITE, "queue://SECRET"))
    with pytest.raises(AuthorizationError, match="write to: queue://SECRET"):
        guest.peer.sends(ASK, "", properties={"action": "cursors"}, reply_to="queue://SECRET")
    guest.peer.sends(ASK, "", properties={"action": "cursors"}, reply_to="temp-queue://ID:owner:1:99")
    stage.settle()
    assert not stage.has("temp-queue://ID:owner:1:99")


def test_s46_a_bridge_asks_nothing_for_others() -> None:
    _, owner, _ = world()
    owner.peer.state.forwards = True
    with pytest.raises(IllegalStateError, match="are not forwarded by bridges"):
        owner.begins_to_ask("cursors")


def test_virtual_destinations_that_change_leave_the_control_destination_what_it_is() -> None:
    stage = Stage()
    program = Program(stage)
    program.peer.producer(ASK)
    stage.broker.reconfiguration.use_virtual_destinations(VirtualSettings())
    assert program.opens() == 1
    assert stage.view(ASK).pending == 0


@pytest.mark.parametrize(
    "address",
    [
        f"queue://X,{ASK}",
        "queue://ActiveMQ.Spanwire.*",
        "queue://BOTH",
        "topic://BOTH",
    ],
)
@pytest.mark.parametrize("transaction", [0, 1])
def test_a_message_that_only_comes_to_the_control_destination_is_refused(address: str, transaction: int) -> None:
    forwards = (ForwardTo(CONTROL), ForwardTo(destination("queue://X")))
    both = tuple(CompositeDestination(destination(name), forwards) for name in ("queue://BOTH", "topic://BOTH"))
    stage = Stage(virtual=VirtualSettings((), both))
    program = Program(stage)
    program.peer.producer(ASK)  # makes it
    if transaction:
        program.peer.begins(transaction)
    with pytest.raises(IllegalStateError, match="takes requests that are sent to it alone and at once"):
        program.peer.sends(address, "x", transaction=transaction, properties={"action": "cursors"})
    stage.settle()
    assert stage.store.kept(CONTROL) == []
    assert stage.view(ASK).pending == 0
    assert not stage.has("queue://X") or stage.view("queue://X").pending == 0


def test_a_delayed_request_is_refused() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    program = Program(stage)
    for transaction in (0, 1):
        if transaction:
            program.peer.begins(transaction)
        fields = {"action": "cursors", "AMQ_SCHEDULED_DELAY": 10}
        with pytest.raises(IllegalStateError, match="takes requests that are sent to it alone and at once"):
            program.peer.sends(ASK, "", transaction=transaction, properties=fields, reply_to=program.reply_to)


@pytest.mark.parametrize("reply_to", [ASK, f"queue://X,{ASK}"])
def test_answers_do_not_go_to_the_control_destination(reply_to: str) -> None:
    stage, owner, _ = world()
    with pytest.raises(IllegalStateError, match="takes requests that are sent to it alone and at once"):
        owner.peer.sends(ASK, "", properties={"action": "cursors"}, reply_to=reply_to)
    stage.settle()
    assert not stage.has(ASK)


NAMES = [
    ("queue", "x" * 1025, "longer than 1024 bytes"),
    ("queue", "Q\n", "holds a control character"),
    ("queue", "\ud800", "holds a control character"),
    ("queue", " Q", "begins or ends with a blank"),
    ("queue", "queue://", "has an empty name"),
    ("queue", "Q?x=1", "a cursor reads one queue"),
    ("queue", "Q,R", "a cursor reads one queue"),
    ("queue", "Q.>", "a cursor reads one queue"),
    ("queue", "topic://T", "a cursor reads one queue"),
    ("queue", "temp-queue://ID:program:1:1", "a cursor reads one queue"),
    ("queue", CONTROL.name, "a cursor reads one queue"),
    ("queue", ASK, "a cursor reads one queue"),
    ("clientId", "x" * 1025, "clientId is .* not 1 to 1024 bytes without control characters"),
    ("clientId", "a\nb", "clientId is .* not 1 to 1024 bytes without control characters"),
    ("subscription", "\ud800", "subscription is .* not 1 to 1024 bytes without control characters"),
    ("subscription", "x" * 1020, "shorten them"),
    ("run", "x" * 201, "run is "),
    ("cursor", "c\ud800", "cursor is "),
]


@pytest.mark.parametrize(("name", "text", "reason"), NAMES)
def test_a_name_that_nothing_could_have_opens_no_cursor(name: str, text: str, reason: str) -> None:
    stage = Stage()
    program = Program(stage)
    source = {"queue": "Q"} if name not in ("clientId", "subscription") else {"clientId": "i", "subscription": "s"}
    before = stage.store.metadata.copy()
    with pytest.raises(Refused, match=f"^malformed: .*{reason}"):
        program.asks("open", **{"cursor": "c", "run": "r", **source, name: text})
    assert stage.store.metadata == before
    assert program.cursors() == []
    for action, asked in (("cursors", "cursor"), ("sinks", "query")):
        with pytest.raises(Refused, match=f"^malformed: {asked} is "):
            program.asks(action, **{asked: "a b"})


def test_a_cursor_that_the_store_could_not_keep_is_not_opened() -> None:
    stage, owner, _ = world()
    wordy = Program(stage, "wordy", "u" * MAX_VALUE_BYTES)
    for name in ("c", "other"):
        with pytest.raises(Refused, match=r"^limit: a metadata record has"):
            wordy.opens(name, run="mine")
    assert owner.reserves(3) == (0, 3)
    assert [row["cursor"] for row in owner.cursors()] == ["c"]
    owner.asks("release", cursor="c", epoch=1)
    stage.peer("admin", user="owner").removes(Q)


def test_a_cursor_whose_end_the_store_refuses_goes_on() -> None:
    store = FullStore()
    stage = Stage(store=store)
    stage.peer("p").sends(Q, "one", "two", "three")
    stage.settle()
    owner = Program(stage, "owner")
    owner.opens()
    owner.reserves(2)
    store.takes_facts = False
    with pytest.raises(Refused, match=r"^limit: no more facts"):
        owner.asks("release", cursor="c", epoch=1)
    with pytest.raises(Refused, match=r"^limit: no more facts"):
        owner.opens(run="r2")
    with pytest.raises(Refused, match=r"^limit: no more facts"):
        owner.opens("other")
    store.takes_facts = True
    assert owner.reads(0, 2) == ["one", "two"]
    assert owner.asks("release", cursor="c", epoch=1) == {"epoch": 2, "released": 2}
    assert [row["cursor"] for row in owner.cursors()] == ["c"]
    stage.peer("admin").removes(Q)


def test_what_is_read_for_a_commit_counts_in_memory_until_it_is_where_it_goes() -> None:
    stage = Stage()
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    program.stages(0, 0, *["x" * 1000 for _ in range(2500)], persistent=False)
    stage.settle()
    assert stage.memory() == 0
    program.begins_to_ask("commit", body="0 0 2500", query="q", epoch=1, batch=0)
    stage.store.answer(stage.broker, stage.now)
    stage.store.answer(stage.broker, stage.now)
    assert stage.memory() > 2_000_000
    stage.settle()
    stage.syncs()
    assert program.hears() == {"messages": 2500, "repeated": False}
    assert stage.memory() > 2_000_000, "the queue gets them in slices"
    stage.settle()
    assert stage.view("queue://OUT").memory_bytes == stage.memory() > 2_000_000


def test_s46_cursors_are_limited_and_released_ones_make_room() -> None:
    stage = Stage()
    program = Program(stage)
    for number in range(MAX_CURSORS):
        program.opens(f"c{number}")
    with pytest.raises(Refused, match=f"limit: the broker has {MAX_CURSORS} cursors already"):
        program.opens("more")
    program.asks("release", cursor="c7", epoch=1)
    assert program.opens("more") == 1
    with pytest.raises(Refused, match="unknown: there is no cursor c7"):
        program.asks("release", cursor="c7", epoch=2)


def test_s46_sinks_are_limited() -> None:
    program = Program(Stage())
    for number in range(MAX_SINKS):
        program.asks("begin", query=f"q{number}", run="r")
    with pytest.raises(Refused, match=f"limit: the broker has {MAX_SINKS} sinks already"):
        program.asks("begin", query="more", run="r")
    program.asks("forget", query="q7", epoch=1)
    assert program.asks("begin", query="more", run="r")["epoch"] == 1


def test_s46_requests_that_wait_for_a_commit_are_limited() -> None:
    stage = Stage()
    program = Program(stage)
    for query in ("q", "other"):
        program.asks("begin", query=query, run="r1")
        program.stages(0, 0, "a", query=query, persistent=False)  # so that the commit has to read
    stage.settle()
    for query in ("q", "other"):
        program.begins_to_ask("commit", body="0 0 1", query=query, epoch=1, batch=0)
    for _ in range(MAX_DEFERRED + 1):
        program.begins_to_ask("begin", query="q", run="r1")
    program.begins_to_ask("begin", query="other", run="r1")
    stage.syncs()
    with pytest.raises(
        Refused, match="limit: 64 requests wait for the end of another one about sink q: try again later"
    ):
        program.hears()
    stage.settle()
    stage.syncs()
    assert len(program.replies.takes()) == MAX_DEFERRED + 3


def test_s46_requests_wait_for_the_disk_and_so_many_of_a_connection() -> None:
    stage = Stage(limits=UsageLimits(memory_bytes=10_000_000))
    program = Program(stage)
    program.opens()
    stage.peer("p").sends(Q, *["x" * 200_000 for _ in range(6)])
    assert stage.broker.is_behind()
    before = len(stage.store.log)
    for _ in range(MAX_POSTPONED + 1):
        program.begins_to_ask("reserve", cursor="c", epoch=1, messages=2)
    stage.waits(0.1)
    assert len(stage.store.log) == before
    program.begins_to_ask("acknowledge", cursor="c", epoch=1, to=0)
    assert stage.broker.is_behind()
    stage.syncs()
    answers = [properties_of(one.message) for one in program.replies.takes_deliveries()]
    assert [one.get("error") for one in answers] == ["limit", None]
    assert str(answers[0]["reason"]).startswith("limit: the disk is behind, and 64 requests wait for it")
    stage.waits(0.1)
    stage.settle()
    answers = [properties_of(one.message) for one in program.replies.takes_deliveries()]
    assert [(one["status"], one["to"]) for one in answers] == [("ok", 2)] * MAX_POSTPONED


def test_what_is_not_persistent_is_reserved_only_while_the_store_has_room() -> None:
    stage = Stage()
    program = Program(stage)
    program.opens()
    producer = stage.peer("p")
    producer.sends(Q, "stored")
    producer.sends(Q, "light", persistent=False)
    stage.settle()
    stage.has_room(False)
    assert program.reserves(5) == (0, 1)
    assert program.reserves(5) == (0, 1)
    program.asks("acknowledge", cursor="c", epoch=1, to=1)
    with pytest.raises(Refused, match="limit: the store has no room for what is not persistent in queue://Q"):
        program.reserves(5)
    assert len(stage.store.kept(destination(Q))) == 0
    stage.has_room(True)
    assert program.reserves(5) == (1, 2)
    assert program.reads(1, 2) == ["light"]


def test_s46_a_stranger_and_an_older_run_do_not_wait_for_a_commit() -> None:
    stage, owner, guest = world(("guest", ADMIN, ASK))
    assert owner.asks("begin", query="q", run="r2")["epoch"] == 2
    owner.stages(0, 0, "a", epoch=2)
    stage.settle()
    owner.begins_to_ask("commit", body="0 0 1", query="q", epoch=2, batch=0)
    for action in ("begin", "commit", "abort", "forget"):
        guest.begins_to_ask(action, query="q", run="mine", epoch=2, batch=0)
        stage.syncs()
        with pytest.raises(Refused, match=r"^unauthorized: User guest is not authorized to use sink: q"):
            guest.hears()
    old = Program(stage, "old", "owner")
    for action in ("begin", "commit", "abort", "forget"):
        old.begins_to_ask(action, query="q", run="r1", epoch=1, batch=0)
        stage.syncs()
        with pytest.raises(Refused, match=r"^fenced: sink q is at epoch 2"):
            old.hears()
    owner.begins_to_ask("commit", body="0 0 1", query="q", epoch=2, batch=0)
    stage.settle()
    stage.syncs()
    answers = [properties_of(one.message) for one in owner.replies.takes_deliveries()]
    assert [(one["status"], one["messages"], one["repeated"]) for one in answers] == [("ok", 1, False), ("ok", 0, True)]


def test_s46_a_commit_names_so_many_parts() -> None:
    program = Program(Stage())
    program.asks("begin", query="q", run="r1")
    with pytest.raises(Refused, match=f"limit: a commit names at most {MAX_COMMIT_PARTS} parts"):
        program.commits(0, *[f"{number} 0 0" for number in range(MAX_COMMIT_PARTS + 1)])


def test_s46_answers_that_nobody_takes_end_at_the_limit_of_memory() -> None:
    stage = Stage(memory_limit_bytes=20_000)
    program = Program(stage)
    program.peer.creates("queue://ANSWERS")
    with pytest.raises(ResourceAllocationError, match="there is no room for an answer in queue://ANSWERS"):
        for _ in range(200):
            program.peer.sends(ASK, "", properties={"action": "cursors"}, reply_to="queue://ANSWERS")
            stage.syncs()
    assert stage.memory() < 30_000


def test_a_request_in_a_transaction_is_refused() -> None:
    program = Program(Stage())
    program.peer.begins(1)
    with pytest.raises(ControlRefusal, match="malformed: query is ''"):
        program.peer.sends(ASK, "", transaction=1, properties={"action": "stage"})
