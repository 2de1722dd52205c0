"""The control destination through the blocking client, over a socket, with a broker that restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire.client import Message, blocking
from spanwire.client.messages.content_types import Properties
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.pipeline.link.control_answers import (
    BegunSink,
    CommitResult,
    ControlError,
    CursorView,
    FencedError,
    NotHeldError,
    Part,
    Reservation,
    SinkView,
)
from spanwire.pipeline.link.control_client import CONTROL, MAX_STAGED, Control
from spanwire.testing.broker import Broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(directory=tmp_path / "data") as found:
        yield found


@pytest.fixture
def connection(broker: Broker) -> Iterator[blocking.Connection]:
    with blocking.connect(f"failover:({broker.url})?initialReconnectDelay=50") as found:
        yield found


def send(connection: blocking.Connection, queue: str, first: int, end: int) -> None:
    with connection.session("transacted") as session:
        producer = session.create_producer(queue)
        for number in range(first, end):
            producer.send(f"m{number}", {"number": number})
        session.commit()


def received(connection: blocking.Connection, queue: str) -> list[object]:
    with connection.session() as session:
        return [message.body for message in session.create_browser(queue)]


@pytest.mark.large
def test_ranges_are_read_again_after_the_broker_has_restarted(broker: Broker, connection: blocking.Connection) -> None:
    send(connection, "ORDERS", 0, 1500)
    control = Control(connection)
    assert control.open_cursor("nightly", "ORDERS", "r1") == Reservation(1, 0, 0)
    assert control.reserve("nightly", 1, 1200) == Reservation(1, 0, 1200, 300)
    found = list(control.read_range("nightly", 1, 0, 1200))
    assert [number for number, _ in found] == list(range(1200))
    assert [message.body for _, message in found] == [f"m{number}" for number in range(1200)]
    assert found[7][1].typed_properties == {"number": ("int", 7)}
    assert str(found[7][1].destination) == "queue://ORDERS"
    broker.restart()
    assert control.acknowledge("nightly", 1, 1000) == Reservation(1, 1000, 1200)
    assert [message.body for _, message in control.read_range("nightly", 1, 1000, 1003)] == ["m1000", "m1001", "m1002"]
    assert control.reserve("nightly", 1, 1000, acknowledge=1200).end == 1500
    view = CursorView("nightly", "queue://ORDERS", 1, "r1", False, False, 1200, 1500, "anonymous")
    assert control.cursors() == [view]
    assert control.release("nightly", 1) == 300
    with pytest.raises(FencedError, match=r"^fenced: cursor nightly is at epoch 2"):
        control.reserve("nightly", 1, 1)
    assert received(connection, "ORDERS") == [f"m{number}" for number in range(1200, 1500)]


class ControlOfAnOldBroker(Control):
    """The requests as a broker reads them that knows no selectors of cursors."""

    def _ask(self, action: str, properties: Properties, body: str | None = None) -> Message:
        known = {name: value for name, value in properties.items() if name != "selector"}
        return super()._ask(action, known, body)


def test_a_cursor_asks_for_the_selector_of_its_subscription(broker: Broker) -> None:
    with blocking.connect(f"tcp://localhost:{broker.port}", client_id="me") as connection:
        with connection.session() as session:
            session.create_durable_subscriber("topic://T", "eu", "region = 'EU'").close()
            producer = session.create_producer("topic://T")
            for region in ("EU", "US", "EU"):
                producer.send(region, {"region": region})
        control = Control(connection)
        opened = control.open_subscription_cursor("c", "me", "eu", "r1", selector="region = 'EU'")
        assert opened == Reservation(1, 0, 0)
        assert control.reserve("c", 1, 10) == Reservation(1, 0, 2, 0)
        with pytest.raises(
            ControlError, match=r"^malformed: the durable subscription eu of client me has the selector"
        ):
            control.open_subscription_cursor("d", "me", "eu", "r1", selector="region = 'US'")
        with connection.session() as session:
            session.create_durable_subscriber("topic://T", "all").close()
        with pytest.raises(ControlError, match="this broker's version knows no selectors"):
            ControlOfAnOldBroker(connection).open_subscription_cursor("e", "me", "all", "r1", selector="a = 1")


def whole_search(control: Control, cursor: str, messages: int) -> Reservation:
    """Return what ``cursor`` holds once the broker has looked at the whole queue: an answer has what a second found."""
    reservation = control.reserve(cursor, 1, messages)
    while reservation.waiting > 0 and reservation.end - reservation.start < messages:
        reservation = control.reserve(cursor, 1, messages)
    return reservation


def test_a_cursor_on_a_queue_holds_what_its_selector_chooses(connection: blocking.Connection) -> None:
    with connection.session() as session:
        producer = session.create_producer("queue://MIXED")
        for number in range(1000):
            producer.send(f"m{number}", {"n": number})
    control = Control(connection)
    assert control.open_cursor("few", "MIXED", "r1", selector="n >= 990") == Reservation(1, 0, 0)
    assert whole_search(control, "few", 100) == Reservation(1, 0, 10, 0)
    assert [message.text for _, message in control.read_range("few", 1, 0, 10)] == [f"m{n}" for n in range(990, 1000)]
    with pytest.raises(ControlError, match=r"^malformed: cursor few of queue://MIXED has the selector n >= 990, not"):
        control.open_cursor("few", "MIXED", "r2", selector="n > 990")
    with pytest.raises(ControlError, match="this broker's version knows no selectors"):
        ControlOfAnOldBroker(connection).open_cursor("old", "MIXED", "r1", selector="n > 1")
    assert control.acknowledge("few", 1, 10) == Reservation(1, 10, 10)
    assert received(connection, "MIXED") == [f"m{number}" for number in range(990)]


def test_what_is_refused_has_its_class_and_its_word(connection: blocking.Connection) -> None:
    control = Control(connection)
    control.open_cursor("c", "Q", "r1")
    with pytest.raises(NotHeldError, match=r"^not-held: numbers 0 to 5 of cursor c are not reserved"):
        list(control.read_range("c", 1, 0, 5))
    control.open_cursor("c", "Q", "r2")
    with pytest.raises(FencedError, match=r"^fenced: cursor c is at epoch 2, for run r2 has it now"):
        list(control.read_range("c", 1, 0, 0))
    with pytest.raises(FencedError, match=r"run r1 has ended"):
        control.open_cursor("c", "Q", "r1")
    with pytest.raises(ControlError, match=r"^unknown: client x has no durable subscription y") as caught:
        control.open_subscription_cursor("d", "x", "y", "r1")
    assert caught.value.code == "unknown"
    with pytest.raises(ControlError, match=r"^malformed: cursor is 'a b'"):
        control.open_cursor("a b", "Q", "r1")


@pytest.mark.large
def test_batches_are_committed_once_through_a_restart(broker: Broker, connection: blocking.Connection) -> None:
    control = Control(connection)
    assert control.begin("query", "r1") == BegunSink(1, -1)
    many = [Outgoing(f"a{number}", {"number": number}, "OUT") for number in range(MAX_STAGED + 1)]
    parts = [
        control.stage("query", 1, 0, 0, 11, many),
        control.stage("query", 1, 0, 1, 12, [Outgoing("last", None, "OUT")]),
    ]
    assert parts == [Part(0, 11, MAX_STAGED + 1), Part(1, 12, 1)]
    assert control.sinks() == [SinkView("query", 1, "r1", -1, MAX_STAGED + 2, "anonymous")]
    broker.restart()
    assert control.commit("query", 1, 0, parts) == CommitResult(MAX_STAGED + 2, False)
    assert control.commit("query", 1, 0, parts) == CommitResult(0, True)
    broker.restart()
    assert control.commit("query", 1, 0, parts) == CommitResult(0, True)
    assert received(connection, "OUT") == [f"a{number}" for number in range(MAX_STAGED + 1)] + ["last"]


def test_a_late_worker_of_an_older_run_changes_nothing(broker: Broker, connection: blocking.Connection) -> None:
    control = Control(connection)
    with blocking.connect(broker.url) as other:
        zombie = Control(other)
        assert zombie.begin("query", "r1") == BegunSink(1, -1)
        part = zombie.stage("query", 1, 0, 0, 1, [Outgoing("old", None, "OUT")])
        assert control.begin("query", "r2") == BegunSink(2, -1)
        with pytest.raises(FencedError, match=r"^fenced: sink query is at epoch 2, for run r2 has it now"):
            zombie.stage("query", 1, 0, 0, 2, [Outgoing("late", None, "OUT")])
        with pytest.raises(FencedError, match="epoch 1 has ended"):
            zombie.commit("query", 1, 0, [part])
        with pytest.raises(FencedError, match="run r1 has ended"):
            zombie.begin("query", "r1")
    fresh = control.stage("query", 2, 0, 0, 3, [Outgoing("new", None, "OUT")])
    assert control.commit("query", 2, 0, [fresh]) == CommitResult(1, False)
    assert received(connection, "OUT") == ["new"]


def test_a_part_that_is_not_staged_as_a_commit_says_is_refused(connection: blocking.Connection) -> None:
    control = Control(connection)
    control.begin("query", "r1")
    part = control.stage("query", 1, 0, 0, 1, [Outgoing("one", None, "OUT")])
    with pytest.raises(ControlError, match=r"^incomplete: batch 0 of sink query: 1 of 2 messages") as caught:
        control.commit("query", 1, 0, [Part(0, 1, 2)])
    assert caught.value.code == "incomplete"
    assert control.abort("query", 1, 0) == 1
    with pytest.raises(ControlError, match="incomplete"):
        control.commit("query", 1, 0, [part])
    assert control.forget("query", 1) == 0
    with pytest.raises(ControlError, match="unknown: there is no sink query"):
        control.abort("query", 1, 0)


def test_a_stage_whose_messages_fail_stages_nothing(connection: blocking.Connection) -> None:
    control = Control(connection)
    control.begin("query", "r1")

    def messages() -> Iterator[Outgoing]:
        yield Outgoing("one", None, "OUT")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        control.stage("query", 1, 0, 0, 1, messages())
    assert control.sinks()[0].staged == 0
    part = control.stage("query", 1, 0, 0, 2, [Outgoing("two", None, "OUT")])
    control.commit("query", 1, 0, [part])
    assert received(connection, "OUT") == ["two"]


def test_a_broker_that_does_not_answer_is_named(connection: blocking.Connection) -> None:
    with pytest.raises(ControlError, match=r"^no-answer: queue://ActiveMQ.Spanwire.Control does not answer cursors"):
        Control(connection, answer_seconds=0.0).cursors()


def test_requests_are_kept_by_nobody(broker: Broker, connection: blocking.Connection) -> None:
    Control(connection).cursors()
    assert broker.queue(CONTROL.name).pending == 0
