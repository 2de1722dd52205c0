"""Acknowledgement modes, transactions and redelivery, as a dialogue. (type, first, last): 0 delivered, 1 poison,
2 standard, 3 redelivered, 4 individual, 6 expired.
"""

from __future__ import annotations

import pytest

from spanwire.client.addressing.consumer_options import ConsumerOptions
from spanwire.client.protocol.consumer import PULL_GRACE
from spanwire.client.protocol.session import ClientSession
from spanwire.model.errors import (
    ConfigurationError,
    IllegalStateError,
    InvalidDestinationError,
    JmsError,
    MessageFormatError,
    ResourceAllocationError,
    TransactionRolledBackError,
)
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences
from tests.support.client_dialogue import START_MS, URL, PlayedBroker, refusal_of

FEW = ConsumerOptions(prefetch=4)
BEGIN, COMMIT, ROLLBACK = 0, 2, 4
MUCH = 1_000_000


@pytest.fixture
def broker() -> PlayedBroker:
    played = PlayedBroker(f"{URL}?jms.redeliveryPolicy.initialRedeliveryDelay=0&jms.redeliveryPolicy.redeliveryDelay=0")
    played.lets_in()
    return played


def transaction_types(commands: list[wire.Command]) -> list[int]:
    return [command.type for command in commands if isinstance(command, wire.TransactionInfo)]


def test_auto_acknowledges_each_message_as_it_is_handed_over(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session("auto"))
    broker.dispatches(consumer, "a", "b")
    assert broker.acknowledgements() == []
    broker.takes(consumer)
    assert broker.acknowledgements() == [(2, 1, 1)]
    broker.takes(consumer).acknowledge()
    assert broker.acknowledgements() == [(2, 2, 2)]


def test_an_individual_session_redelivers_one_message_and_rejects_another(broker: PlayedBroker) -> None:
    session = broker.session("individual")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a", "b", "c")
    first, second, third = (broker.takes(consumer) for _ in range(3))
    session.redeliver(second, broker.now)
    session.reject(third, "the order has no items")
    session.reject(third, "a second time")
    assert broker.acknowledgements() == [(3, 2, 2), (1, 3, 3)]
    again = broker.takes(consumer)
    assert (again.text, again.redelivery_count) == ("b", 1)
    again.acknowledge()
    first.acknowledge()
    assert broker.acknowledgements() == [(4, 2, 2), (4, 1, 1)]


def test_only_an_individual_session_redelivers_or_rejects_one_message(broker: PlayedBroker) -> None:
    session = broker.session("client")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a")
    message = broker.takes(consumer)
    with pytest.raises(IllegalStateError, match="single messages"):
        session.redeliver(message, broker.now)
    with pytest.raises(IllegalStateError, match="single messages"):
        session.reject(message, "no")


def test_dups_ok_acknowledges_half_a_prefetch_at_a_time_and_what_is_left_before_it_waits(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session("dups_ok"), options=FEW)
    broker.dispatches(consumer, "a", "b", "c")
    broker.takes(consumer)
    assert broker.acknowledgements() == []
    broker.takes(consumer)
    assert broker.acknowledgements() == [(2, 1, 2)]
    broker.takes(consumer)
    assert consumer.next_message(broker.now) is None
    consumer.prepare_wait()
    assert broker.acknowledgements() == [(2, 3, 3)]


def test_client_acknowledges_all_of_the_session_and_keeps_the_window_open_meanwhile(broker: PlayedBroker) -> None:
    session = broker.session("client")
    one, other = broker.consumer(session, options=FEW), broker.consumer(session, "queue://R", FEW)
    broker.dispatches(one, "a", "b", "c")
    first = broker.takes(one)
    assert broker.acknowledgements() == []
    broker.takes(one)
    assert broker.acknowledgements() == [(0, 2, 2)]
    broker.dispatches(other, "d")
    broker.takes(other)
    first.acknowledge()
    assert broker.acknowledgements() == [(2, 1, 2), (2, 4, 4)]
    first.acknowledge()
    assert broker.acknowledgements() == []


def test_many_messages_are_handed_over_as_so_many_calls_would(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session("client"), options=FEW)
    broker.dispatches(consumer, "a", "b")
    broker.dispatches(consumer, "old", expiration=START_MS - 1)
    broker.dispatches(consumer, "c", "d")
    found = consumer.next_messages(3, MUCH, broker.now)
    assert [message.body for message in found] == ["a", "b", "c"]
    assert consumer.last_batch_bytes == sum(len(message.raw) for message in found)
    assert broker.acknowledgements() == [(0, 2, 2), (6, 3, 3)]
    assert [message.body for message in consumer.next_messages(3, MUCH, broker.now)] == ["d"]
    assert consumer.next_messages(3, MUCH, broker.now) == []


def test_many_messages_are_no_more_than_their_bytes_allow(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session("client"))
    broker.dispatches(consumer, "a", "b", "c")
    (first,) = consumer.next_messages(3, 1, broker.now)
    assert len(consumer.next_messages(3, len(first.raw) + 1, broker.now)) == 2


def test_a_failure_behind_some_messages_is_raised_by_the_next_call(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session("client"))
    broker.dispatches(consumer, "a", "b")
    consumer.fail(JmsError("it broke"))
    assert len(consumer.next_messages(3, MUCH, broker.now)) == 2
    with pytest.raises(JmsError, match="it broke"):
        consumer.next_messages(3, MUCH, broker.now)


def test_a_reader_that_keeps_nothing_acknowledges_the_same_and_has_nothing_again(broker: PlayedBroker) -> None:
    session = broker.session("client")
    consumer = broker.consumer(session, options=FEW)
    consumer.discard_delivered()
    broker.dispatches(consumer, "a", "b", "c")
    found = consumer.next_messages(3, MUCH, broker.now)
    assert consumer.has_delivered
    found[0].acknowledge()
    assert broker.acknowledgements() == [(0, 2, 2), (2, 1, 3)]
    assert not consumer.has_delivered
    broker.dispatches(consumer, "d", "e")
    consumer.next_messages(1, MUCH, broker.now)
    session.recover(broker.now)
    assert [message.body for message in consumer.next_messages(3, MUCH, broker.now)] == ["e"]
    session.close()
    assert last_seen(broker) == [("ConsumerId", 1005), ("SessionId", 1005)]


@pytest.mark.parametrize(("keeps", "prefetch", "told"), [(True, 4, [2, 2]), (False, 4, [2, 2]), (False, 1000, [100])])
def test_the_broker_is_told_how_many_more_messages_a_reader_has_got(
    broker: PlayedBroker, keeps: bool, prefetch: int, told: list[int]
) -> None:
    consumer = broker.consumer(broker.session("client"), options=ConsumerOptions(prefetch=prefetch))
    if not keeps:
        consumer.discard_delivered()
    count = 5 if prefetch < 5 else 150
    broker.dispatches(consumer, *map(str, range(count)))
    assert len(consumer.next_messages(count, MUCH, broker.now)) == count
    acknowledgements = [command for command in broker.receives() if isinstance(command, wire.MessageAck)]
    assert [one.message_count for one in acknowledgements] == told


@pytest.mark.parametrize("mode", ["client", "transacted"])
def test_the_report_of_sorted_messages_ends_at_their_count_in_the_order_of_the_broker(mode: str) -> None:
    broker = PlayedBroker(f"{URL}?jms.messagePrioritySupported=true")
    broker.lets_in()
    session = broker.session(mode)
    consumer = broker.consumer(session, options=FEW)
    for priority in (4, 9, 3, 5):
        broker.dispatches(consumer, str(priority), priority=priority)
    assert [broker.takes(consumer).text for _ in range(4)] == ["9", "5", "4", "3"]
    assert broker.acknowledgements() == [(0, 2, 2), (0, 4, 4)]
    session.acknowledge_all()
    assert broker.acknowledgements() == [(2, 2, 2), (2, 4, 4), (2, 1, 1), (2, 3, 3)]


def test_what_a_reader_kept_nothing_of_is_not_acknowledged_over_the_next_connection() -> None:
    broker = PlayedBroker(f"failover:({URL})")
    broker.lets_in()
    consumer = broker.consumer(broker.session("client"))
    consumer.discard_delivered()
    broker.dispatches(consumer, "a")
    broker.takes(consumer)
    consumer.on_interrupted()
    assert not consumer.has_delivered


@pytest.mark.parametrize(
    ("texts", "ranges", "answered"),
    [
        ("a", [], "a"),
        ("a b c", ["a-b 2"], "c"),
        ("a b c x", ["a-b 2", "x-x 1"], "c"),
        ("x a y z", ["x-x 1", "y-z 2"], "a"),
        ("x y z", ["y-z 2"], "x"),
    ],
)
def test_what_goes_last_and_is_answered_is_on_the_broker_s_disk_where_any_is(
    broker: PlayedBroker, texts: str, ranges: list[str], answered: str
) -> None:
    consumer = broker.consumer(broker.session("client"))
    consumer.discard_delivered()
    text_of = {}
    for text in texts.split():
        (message_id,) = broker.dispatches(consumer, text, persistent=text in "abc")
        text_of[message_id.producer_sequence_id] = text
    consumer.next_messages(9, MUCH, broker.now)
    request = consumer.acknowledge_stored()
    assert request is not None and not consumer.has_delivered
    *one_way, last = [command for command in broker.receives() if isinstance(command, wire.MessageAck)]
    told = []
    for one in [*one_way, last]:
        assert one.first_message_id is not None and one.last_message_id is not None
        ends = [text_of[of.producer_sequence_id] for of in (one.first_message_id, one.last_message_id)]
        told.append(f"{'-'.join(ends)} {one.message_count}")
    assert told == [*ranges, f"{answered}-{answered} 1"]
    assert [one.response_required for one in [*one_way, last]] == [False] * len(ranges) + [True]
    assert not request.done
    broker.answers(last)
    assert request.done and request.error is None
    assert consumer.acknowledge_stored() is None


def test_a_taken_range_is_acknowledged_without_the_messages_that_are_delivered_since(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session("client"))
    consumer.discard_delivered()
    for text in ("a", "b"):
        broker.dispatches(consumer, text, persistent=True)
    consumer.next_messages(9, MUCH, broker.now)
    taken = consumer.take_range()
    assert not consumer.has_delivered
    broker.dispatches(consumer, "c", persistent=True)
    consumer.next_messages(9, MUCH, broker.now)
    assert consumer.acknowledge_stored(taken) is not None and consumer.has_delivered
    acks = [command for command in broker.receives() if isinstance(command, wire.MessageAck)]
    assert [command.message_count for command in acks] == [1, 1]
    assert consumer.acknowledge_stored() is not None and not consumer.has_delivered


@pytest.mark.parametrize("mode", ["auto", "dups_ok", "individual", "transacted"])
def test_delivered_messages_can_be_discarded_only_under_client_acknowledgement(broker: PlayedBroker, mode: str) -> None:
    consumer = broker.consumer(broker.session(mode))
    with pytest.raises(IllegalStateError, match="only a consumer of a session"):
        consumer.discard_delivered()


def test_individual_acknowledges_one_message_once(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session("individual"))
    broker.dispatches(consumer, "a", "b", "c")
    messages = [broker.takes(consumer) for _ in range(3)]
    messages[1].acknowledge()
    messages[1].acknowledge()
    messages[0].acknowledge()
    assert broker.acknowledgements() == [(4, 2, 2), (4, 1, 1)]


def test_an_expired_message_is_acknowledged_as_that_and_not_handed_over(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session("client"))
    broker.dispatches(consumer, "old", expiration=START_MS - 1)
    broker.dispatches(consumer, "new", expiration=START_MS + 1)
    assert broker.takes(consumer).body == "new"
    assert broker.acknowledgements() == [(6, 1, 1)]


def test_an_unknown_mode_names_the_closest(broker: PlayedBroker) -> None:
    with pytest.raises(ConfigurationError, match="did you mean transacted"):
        broker.client.add_session("transact")


def test_a_transaction_begins_with_its_first_message_and_holds_sends_and_acknowledgements(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    consumer, producer = broker.consumer(session), broker.producer(session)
    assert session.commit(broker.now) is None
    broker.dispatches(consumer, "a", "b")
    assert broker.send(producer, "x") is None
    begin, message = broker.receives()
    assert isinstance(begin, wire.TransactionInfo)
    assert isinstance(message, wire.ActiveMQTextMessage)
    assert isinstance(message.transaction_id, wire.LocalTransactionId)
    assert isinstance(begin.transaction_id, wire.LocalTransactionId)
    assert message.transaction_id.value == begin.transaction_id.value
    broker.takes(consumer)
    broker.takes(consumer)
    request = session.commit(broker.now)
    acknowledgement, commit = broker.receives()
    assert isinstance(acknowledgement, wire.MessageAck)
    assert isinstance(commit, wire.TransactionInfo)
    assert (acknowledgement.message_count, acknowledgement.ack_type) == (2, 2)
    assert acknowledgement.transaction_id is not None
    assert commit.type == COMMIT
    broker.answers(commit)
    assert refusal_of(request) is None
    assert session.commit(broker.now) is None


def test_a_transaction_that_only_receives_begins_with_its_commit(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a")
    broker.takes(consumer)
    assert broker.receives() == []
    session.commit(broker.now)
    sent = broker.answers_all()
    assert transaction_types(sent) == [BEGIN, COMMIT]


def test_two_transactions_have_different_ids_also_over_sessions(broker: PlayedBroker) -> None:
    values: list[int] = []
    for session in (broker.session("transacted"), broker.session("transacted")):
        producer = broker.producer(session)
        for _ in range(2):
            broker.send(producer, "x")
            session.commit(broker.now)
            for command in broker.answers_all():
                if isinstance(command, wire.TransactionInfo) and command.type == BEGIN:
                    assert isinstance(command.transaction_id, wire.LocalTransactionId)
                    values.append(command.transaction_id.value)
    assert len(set(values)) == 4


def test_a_rollback_brings_messages_back_with_counted_deliveries(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a", "b")
    assert [broker.takes(consumer).delivery_count for _ in range(2)] == [1, 1]
    session.rollback(broker.now)
    assert broker.acknowledgements() == [(3, 1, 1), (3, 2, 2)]
    again = [broker.takes(consumer) for _ in range(2)]
    assert [(message.body, message.delivery_count, message.redelivered) for message in again] == [
        ("a", 2, True),
        ("b", 2, True),
    ]
    session.rollback(broker.now)
    assert broker.acknowledgements() == [(3, 1, 1), (3, 2, 2)]


def test_the_seventh_rollback_sends_a_message_to_the_dead_letters(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "bad")
    for _ in range(6):
        broker.takes(consumer)
        session.rollback(broker.now)
    broker.dispatches(consumer, "fresh")
    assert broker.takes(consumer).delivery_count == 7
    assert broker.takes(consumer).body == "fresh"
    broker.receives()
    session.rollback(broker.now)
    poison, fresh_again = [command for command in broker.receives() if isinstance(command, wire.MessageAck)]
    assert (poison.ack_type, fresh_again.ack_type) == (1, 3)
    assert poison.poison_cause is not None
    assert "limit: 6" in (poison.poison_cause.message or "")
    fresh = broker.takes(consumer)
    assert (fresh.body, fresh.delivery_count) == ("fresh", 2)


def test_a_message_that_comes_with_too_many_redeliveries_is_not_handed_over_in_a_transaction(
    broker: PlayedBroker,
) -> None:
    consumer = broker.consumer(broker.session("transacted"))
    broker.dispatches(consumer, "bad", redelivered=7)
    assert consumer.next_message(broker.now) is None
    assert broker.acknowledgements() == [(1, 1, 1)]


def test_redelivery_waits_as_long_as_the_policy_says() -> None:
    broker = PlayedBroker()
    broker.lets_in()
    session = broker.session("client")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a", "b")
    broker.takes(consumer)
    session.recover(broker.now)
    assert consumer.next_message(broker.now) is None
    assert consumer.resume_at == pytest.approx(broker.now.monotonic + 1.0)
    broker.passes(1.0)
    assert [broker.takes(consumer).body for _ in range(2)] == ["a", "b"]


def test_what_is_delivered_while_a_commit_is_on_its_way_belongs_to_the_next(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a", "b")
    broker.takes(consumer)
    session.commit(broker.now)
    commit = broker.receives()[-1]
    broker.takes(consumer)
    broker.answers(commit)
    session.commit(broker.now)
    assert broker.acknowledgements() == [(2, 2, 2)]


def test_a_refused_commit_is_a_rollback(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a")
    broker.takes(consumer)
    request = session.commit(broker.now)
    commit = broker.receives()[-1]
    text = "COMMIT FAILED: Transaction marked rollback only xaErrorCode:100"
    cause = Throwable("javax.jms.TransactionRolledBackException", text, None, Throwable("x.Y", "no room"))
    broker.answers(commit, Throwable("javax.transaction.xa.XAException", text, None, cause))
    assert isinstance(refusal_of(request), TransactionRolledBackError)
    assert "no room" in str(refusal_of(request))
    assert broker.takes(consumer).delivery_count == 2


def test_a_consumer_with_uncommitted_messages_leaves_after_the_commit(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a")
    broker.takes(consumer)
    assert session.close_consumer(consumer) is None
    assert broker.receives() == []
    session.commit(broker.now)
    assert [command.type_id() for command in broker.answers_all()] == [7, 22, 7]
    assert [command.type_id() for command in broker.receives()] == [wire.REMOVE_INFO]
    assert session.take_closed_consumers() == [consumer], "the connection is told, which would keep it for ever"
    assert session.take_closed_consumers() == []


def test_only_a_transacted_session_commits_and_only_the_others_recover(broker: PlayedBroker) -> None:
    with pytest.raises(IllegalStateError, match="not transacted"):
        broker.session("auto").commit(broker.now)
    with pytest.raises(IllegalStateError, match="rolled back, not recovered"):
        broker.session("transacted").recover(broker.now)


@pytest.mark.parametrize(
    ("options", "mode", "persistent", "wait", "answered"),
    [
        ("", "auto", True, None, True),
        ("", "auto", False, None, False),
        ("", "transacted", True, None, False),
        ("", "auto", True, False, False),
        ("", "auto", False, True, True),
        ("?jms.useAsyncSend=true", "auto", True, None, False),
        ("?jms.alwaysSyncSend=true", "auto", False, None, True),
        ("?jms.sendTimeout=1000", "transacted", False, None, True),
    ],
)
def test_a_send_waits_as_jms_has_it_unless_told_otherwise(
    options: str, mode: str, persistent: bool, wait: bool | None, answered: bool
) -> None:
    broker = PlayedBroker(URL + options)
    broker.lets_in()
    producer = broker.producer(broker.session(mode))
    request = broker.send_with(producer, wait, body="x", persistent=persistent)
    message = broker.receives()[-1]
    assert isinstance(message, wire.Message)
    assert (request is not None, message.response_required) == (answered, answered)


def test_a_send_waits_once_the_window_of_its_producer_is_full_and_acknowledgements_open_it_again() -> None:
    broker = PlayedBroker(URL + "?jms.producerWindowSize=3000")
    broker.lets_in()
    producer = broker.producer(broker.session())
    announced = producer.announcement()
    assert announced.window_size == 3000

    def waits(size: int) -> bool:
        return broker.send_with(producer, None, body="x" * size, persistent=False) is not None

    assert [waits(900) for _ in range(4)] == [False, False, False, True]
    acknowledgement = wire.ProducerAck(producer_id=announced.producer_id, size=1400)
    broker.sends(acknowledgement)
    assert [waits(900), waits(900)] == [False, True]
    foreign = wire.ProducerId(connection_id="ID:other", value=1, session_id=1)
    broker.sends(wire.ProducerAck(producer_id=foreign, size=1400), wire.ProducerAck())
    assert waits(10)
    for _ in range(9):
        broker.sends(acknowledgement)
    assert not waits(10)


def test_every_header_reaches_the_wire(broker: PlayedBroker) -> None:
    producer = broker.producer(broker.session(), None)
    broker.send_with(
        producer,
        False,
        body={"a": 1},
        destination="topic://T",
        message_type="t",
        correlation_id="c\u20ac\U0001f600",
        reply_to="temp-queue://ID:x:1",
        priority=9,
        time_to_live_ms=1000,
        group_id="g",
        group_sequence=-1,
    )
    (message,) = broker.receives()
    assert isinstance(message, wire.ActiveMQMapMessage)
    assert isinstance(message.destination, wire.ActiveMQTopic)
    assert isinstance(message.reply_to, wire.ActiveMQTempQueue)
    assert (message.type, message.correlation_id, message.priority) == ("t", "c\u20ac\U0001f600", 9)
    assert (message.timestamp, message.expiration) == (START_MS, START_MS + 1000)
    assert (message.group_id, message.group_sequence) == ("g", -1)


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        ({"body": object()}, MessageFormatError, "is no message body"),
        ({"body": "\ud800"}, MessageFormatError, "surrogate"),
        ({"body": {"a": object()}}, MessageFormatError, "no value of a message body"),
        ({"body": "x", "properties": {"a": b"x"}}, MessageFormatError, "which no property can be"),
        ({"body": "x", "properties": {"": 1}}, MessageFormatError, "has no name"),
        ({"body": "x", "properties": {"a": 2**63}}, MessageFormatError, "64 bits"),
        ({"body": "x", "priority": 10}, MessageFormatError, "priority"),
        ({"body": "x", "time_to_live_ms": -1}, MessageFormatError, "live"),
        ({"body": "x", "group_sequence": 2**31}, MessageFormatError, "group sequence"),
        ({"body": "x", "message_type": "t" * 70_000}, MessageFormatError, "longer than 65535"),
        ({"body": "x", "destination": "queue://R"}, IllegalStateError, "sends to queue://Q"),
    ],
)
def test_what_cannot_be_sent_is_refused_in_one_line_and_nothing_is_sent(
    broker: PlayedBroker, arguments: dict[str, object], error: type[JmsError], part: str
) -> None:
    producer = broker.producer(broker.session())
    with pytest.raises(error, match=part) as raised:
        broker.send_with(producer, None, **arguments)
    assert "\n" not in str(raised.value)
    assert broker.receives() == []


def test_a_producer_without_a_destination_wants_one_for_each_message(broker: PlayedBroker) -> None:
    producer = broker.producer(broker.session(), None)
    with pytest.raises(InvalidDestinationError, match="name one"):
        broker.send(producer, "x")


def test_a_message_larger_than_the_broker_takes_is_refused_here() -> None:
    broker = PlayedBroker(preferences=WireFormatPreferences(max_frame_size=100_000))
    broker.lets_in()
    producer = broker.producer(broker.session())
    with pytest.raises(ResourceAllocationError, match="larger than the broker's limit of 100000"):
        broker.send(producer, b"x" * 100_000)


def announced(
    session: ClientSession, broker: PlayedBroker, destination: str, options: ConsumerOptions
) -> wire.ConsumerInfo:
    return broker.consumer(session, destination, options).info


def test_the_prefetch_is_that_of_the_policy_the_name_or_the_caller(broker: PlayedBroker) -> None:
    session = broker.session()
    plain = ConsumerOptions()
    found = [
        announced(session, broker, "queue://Q", plain).prefetch_size,
        announced(session, broker, "topic://T", plain).prefetch_size,
        announced(session, broker, "queue://Q", ConsumerOptions(browser=True)).prefetch_size,
        announced(session, broker, "queue://Q?consumer.prefetchSize=7", plain).prefetch_size,
        announced(session, broker, "queue://Q?consumer.prefetchSize=7", ConsumerOptions(prefetch=3)).prefetch_size,
        announced(session, broker, "queue://Q", ConsumerOptions(prefetch=100_000)).prefetch_size,
    ]
    assert found == [1000, 32766, 500, 7, 3, 32766]


def test_options_behind_a_destination_reach_the_broker(broker: PlayedBroker) -> None:
    info = announced(
        broker.session(), broker, "queue://Q?consumer.exclusive=true&consumer.priority=-5", ConsumerOptions()
    )
    assert (info.exclusive, info.priority) == (True, -5)
    assert info.destination is not None
    assert info.destination.physical_name == "Q"
    with pytest.raises(ConfigurationError, match=r"did you mean consumer\.priority"):
        announced(broker.session(), broker, "queue://Q?consumer.prioritty=1", ConsumerOptions())


def test_without_a_prefetch_the_consumer_pulls_one_message_at_a_time(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session(), options=ConsumerOptions(prefetch=0))
    consumer.pull(500)
    consumer.pull(500)
    (pull,) = broker.receives()
    assert isinstance(pull, wire.MessagePull)
    assert pull.timeout == 500
    broker.dispatches(consumer, "a")
    assert broker.takes(consumer).body == "a"
    consumer.pull(1)
    broker.sends(wire.MessageDispatch(consumer_id=consumer.info.consumer_id))
    assert consumer.is_ended


def test_a_pull_that_brought_an_expired_message_is_asked_again_for_the_time_that_is_left(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session(), options=ConsumerOptions(prefetch=0))
    end = broker.now.monotonic + 5
    consumer.begin_receive()
    assert consumer.pull_until(end, broker.now) == end + PULL_GRACE, "the broker says when the time is over"
    assert pulls(broker) == [5000]
    broker.passes(2)
    broker.dispatches(consumer, "old", expiration=START_MS - 1)
    assert consumer.next_message(broker.now) is None
    consumer.pull_until(end, broker.now)
    consumer.pull_until(end, broker.now)
    assert pulls(broker) == [3000]
    broker.dispatches(consumer, "new")
    assert broker.takes(consumer).body == "new"
    assert consumer.pull_until(end, broker.passes(9)) == end + PULL_GRACE
    assert pulls(broker) == [-1], "what is there already"


def test_a_receive_does_not_wait_for_the_pull_of_one_that_was_given_up(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session(), options=ConsumerOptions(prefetch=0))
    assert consumer.pull_until(None, broker.now) is None
    end = broker.now.monotonic + 1
    assert consumer.pull_until(end, broker.now) == end
    assert pulls(broker) == [0]


def pulls(broker: PlayedBroker) -> list[int]:
    return [command.timeout for command in broker.receives() if isinstance(command, wire.MessagePull)]


def test_a_durable_subscription_needs_a_topic_and_a_client_id() -> None:
    broker = PlayedBroker(client_id="c")
    broker.lets_in()
    session = broker.session()
    info = announced(session, broker, "topic://T", ConsumerOptions(subscription_name="s"))
    assert (info.subscription_name, info.prefetch_size) == ("s", 100)
    with pytest.raises(InvalidDestinationError, match="no topic"):
        announced(session, broker, "queue://Q", ConsumerOptions(subscription_name="s"))
    nameless = PlayedBroker()
    nameless.lets_in()
    with pytest.raises(IllegalStateError, match="client_id"):
        announced(nameless.session(), nameless, "topic://T", ConsumerOptions(subscription_name="s"))


def test_a_consumer_that_leaves_says_what_was_delivered_last(broker: PlayedBroker) -> None:
    session = broker.session("client")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a", "b")
    broker.takes(consumer)
    session.close_consumer(consumer)
    (command,) = broker.receives()
    assert isinstance(command, wire.RemoveInfo)
    assert command.last_delivered_sequence_id == 1001
    with pytest.raises(IllegalStateError, match="consumer is closed"):
        consumer.next_message(broker.now)


def last_seen(broker: PlayedBroker) -> list[tuple[str, int]]:
    """Who left, and which message it saw last."""
    return [
        (type(command.object_id).__name__, command.last_delivered_sequence_id)
        for command in broker.receives()
        if isinstance(command, wire.RemoveInfo)
    ]


def test_a_consumer_that_acknowledged_its_last_message_alone_names_the_one_it_still_holds(
    broker: PlayedBroker,
) -> None:
    session = broker.session("individual")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a", "b", "c", "d")
    for _ in range(2):
        broker.takes(consumer)
    consumer.acknowledge_one(broker.takes(consumer))
    broker.receives()
    session.close_consumer(consumer)
    assert last_seen(broker) == [("ConsumerId", 1002)]


@pytest.mark.parametrize("leaving", ["session", "connection"])
def test_whoever_leaves_as_a_whole_says_for_each_consumer_what_it_holds(broker: PlayedBroker, leaving: str) -> None:
    session = broker.session("client")
    consumers = [broker.consumer(session) for _ in range(3)]
    for consumer in consumers:
        broker.dispatches(consumer, "x", "y")
    for consumer in consumers[:2]:
        broker.takes(consumer)
    broker.receives()
    if leaving == "session":
        session.close()
        assert last_seen(broker) == [("ConsumerId", 1001), ("ConsumerId", 1003), ("SessionId", 1003)]
    else:
        broker.client.request_removal()
        assert last_seen(broker) == [("ConsumerId", 1001), ("ConsumerId", 1003), ("ConnectionId", -1)]


def test_a_message_rolled_back_and_not_delivered_again_counts_as_seen(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a", "b", "c")
    broker.takes(consumer)
    broker.takes(consumer)
    session.rollback(broker.now)
    broker.receives()
    session.close_consumer(consumer)
    assert last_seen(broker) == [("ConsumerId", 1002)]


def test_a_received_message_can_be_sent_on(broker: PlayedBroker) -> None:
    session = broker.session()
    consumer, producer = broker.consumer(session), broker.producer(session)
    broker.dispatches(consumer, "a")
    received = broker.takes(consumer)
    broker.receives()
    broker.send(producer, received, wait=False)
    (message,) = broker.receives()
    assert isinstance(message, wire.ActiveMQTextMessage)
    assert message.content == b"\0\0\0\1a"


def test_the_broker_may_lower_a_prefetch_or_close_a_consumer(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session())
    broker.sends(wire.ConsumerControl(consumer_id=consumer.info.consumer_id, prefetch=5))
    assert consumer.prefetch == 5
    broker.dispatches(consumer, "a")
    broker.sends(wire.ConsumerControl(consumer_id=consumer.info.consumer_id, close=True))
    assert broker.takes(consumer).body == "a"
    with pytest.raises(JmsError, match="the broker closed the consumer"):
        consumer.next_message(broker.now)


def test_a_temporary_destination_belongs_to_its_connection(broker: PlayedBroker) -> None:
    destination, request = broker.client.add_temporary(2)
    (info,) = broker.answers_all()
    assert isinstance(info, wire.DestinationInfo)
    assert destination.name.startswith(broker.client.connection_id + ":")
    assert refusal_of(request) is None
    broker.client.remove_temporary(destination)
    (removal,) = broker.receives()
    assert isinstance(removal, wire.DestinationInfo)
    assert removal.operation_type == 1
    with pytest.raises(IllegalStateError):
        broker.client.remove_temporary(destination)


def test_what_the_broker_has_refused_is_not_removed_there(broker: PlayedBroker) -> None:
    session = broker.session("auto")
    consumer, producer = broker.consumer(session), broker.producer(session)
    for one in (consumer, producer):
        request = one.announce()
        broker.answers(broker.receives()[-1], Throwable("java.lang.SecurityException", "no"))
        with pytest.raises(JmsError):
            request.raise_error()
    assert not consumer.is_announced and not producer.is_announced
    session.abandon_consumer(consumer)
    session.abandon_producer(producer)
    assert broker.receives() == []
    assert not session.consumers and not session.producers
