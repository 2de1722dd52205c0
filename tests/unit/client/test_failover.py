"""What a client does when its broker goes: where it tries next, what it tells again, and what it drops."""

from __future__ import annotations

import pytest

from spanwire.client.addressing.address import parse_url
from spanwire.client.addressing.consumer_options import ConsumerOptions
from spanwire.client.protocol.transaction import MAX_REPLAY_BYTES
from spanwire.client.protocol.transport.failover import Failover
from spanwire.model.errors import IllegalStateError, JmsError, ResourceAllocationError, TransactionRolledBackError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences
from tests.support.client_dialogue import PlayedBroker, Still, refusal_of

NO_ROOM = Throwable("javax.jms.ResourceAllocationException", "no room")
STEPS = {0: "begin", 2: "commit", 4: "rollback"}
URL = "failover:(tcp://a:1,tcp://b:2)?randomize=false"


@pytest.fixture
def broker() -> PlayedBroker:
    played = PlayedBroker(URL)
    played.client.failover.begin(True, played.now.monotonic)
    played.client.failover.next_address()
    played.lets_in()
    return played


def comes_back(broker: PlayedBroker) -> list[wire.Command]:
    """The socket breaks and another one leads to a broker; gives what the client tells that one."""
    assert broker.goes()
    broker.client.failover.next_address()
    return broker.lets_in()


def tried(failover: Failover, count: int, seconds: float = 0.0) -> list[tuple[str, float]]:
    """Hosts in the order in which they are tried, all in vain, and how long after the start."""
    found: list[tuple[str, float]] = []
    now = start = 50.0
    failover.begin(True, now)
    for _ in range(count):
        address = failover.next_address()
        if address is None:
            break
        now = max(now, failover.due_at())
        found.append((address.host, round(now - start, 3)))
        now += seconds
        failover.on_failed(JmsError("no"), now)
    return found


def transacted(commands: list[wire.Command]) -> list[str]:
    """What of the commands belongs to transactions."""
    found: list[str] = []
    for command in commands:
        if isinstance(command, wire.TransactionInfo):
            assert isinstance(command.transaction_id, wire.LocalTransactionId)
            found.append(f"{STEPS[command.type]} {command.transaction_id.value}")
        elif isinstance(command, wire.Message) and isinstance(command.transaction_id, wire.LocalTransactionId):
            found.append(f"{(command.content or b'')[4:].decode()[:20]} in {command.transaction_id.value}")
    return found


def failover_of(url: str) -> Failover:
    parsed = parse_url(url)
    return Failover(parsed.addresses, parsed.reconnect, Still())


def test_the_delay_doubles_after_each_way_through_the_list_up_to_the_largest() -> None:
    failover = failover_of(f"{URL}&initialReconnectDelay=100&maxReconnectDelay=300")
    assert [seconds for _, seconds in tried(failover, 10)] == [0, 0, 0.1, 0.1, 0.3, 0.3, 0.6, 0.6, 0.9, 0.9]


def test_the_delay_stays_without_back_off() -> None:
    failover = failover_of(f"{URL}&initialReconnectDelay=100&useExponentialBackOff=false")
    assert [seconds for _, seconds in tried(failover, 8)] == [0, 0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.3]


@pytest.mark.parametrize(
    ("options", "attempts"),
    [
        ("&startupMaxReconnectAttempts=3", 3),
        ("&maxReconnectAttempts=2", 2),
        ("&maxReconnectAttempts=2&startupMaxReconnectAttempts=1", 1),
        ("&maxReconnectAttempts=0", 1),
    ],
)
def test_attempts_are_ways_through_the_list(options: str, attempts: int) -> None:
    failover = failover_of(URL + options)
    assert len(tried(failover, 100)) == 2 * attempts
    assert failover.next_address() is None
    assert (
        str(failover.exhausted_error())
        == f"no connection to any of tcp://a:1, tcp://b:2 after {attempts} attempts; the last: no"
    )


def test_without_a_limit_it_tries_for_ever_and_says_so_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    assert len(tried(failover_of(URL + "&warnAfterReconnectAttempts=50"), 500)) == 500
    assert [record.getMessage() for record in caplog.records] == [
        "no broker answers, retrying: tcp://a:1: no; tcp://b:2: no",
        *[f"no connection after {attempts} attempts: no; retrying" for attempts in (50, 100, 150, 200, 250)],
    ]


def test_each_outage_is_told_once_after_its_first_way_through_the_list(caplog: pytest.LogCaptureFixture) -> None:
    failover = failover_of(URL)
    for _ in range(2):
        tried(failover, 6)
    told = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [record.getMessage() for record in told] == ["no broker answers, retrying: tcp://a:1: no; tcp://b:2: no"] * 2


def test_a_long_list_of_brokers_that_do_not_answer_is_told_in_part(caplog: pytest.LogCaptureFixture) -> None:
    tried(failover_of(f"failover:({','.join(f'tcp://a:{port}' for port in range(1, 21))})?randomize=false"), 21)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.endswith("tcp://a:8: no; …")
    assert "tcp://a:9" not in warning


def test_a_limit_of_one_way_through_the_list_raises_and_does_not_warn(caplog: pytest.LogCaptureFixture) -> None:
    tried(failover_of(URL + "&startupMaxReconnectAttempts=1"), 10)
    assert caplog.records == []


def test_the_lost_address_stands_last_and_a_random_order_is_a_permutation() -> None:
    failover = failover_of("failover:(tcp://a:1,tcp://b:2,tcp://c:3)")
    orders: set[str] = set()
    for _ in range(50):
        failover.begin(True, 0.0)
        found = [failover.next_address() for _ in range(3)]
        orders.add("".join(address.host for address in found if address is not None))
        lost = failover.address
        failover.begin(False, 0.0)
        again = [failover.next_address() for _ in range(3)]
        assert again[-1] is lost
    assert len(orders) > 2
    assert {"".join(sorted(order)) for order in orders} == {"abc"}


def test_a_single_address_is_tried_once_and_never_again() -> None:
    broker = PlayedBroker()
    broker.lets_in()
    assert not broker.client.failover.reconnects
    assert not broker.goes()
    assert broker.client.failure is not None


def test_the_new_broker_hears_of_everything_in_order(broker: PlayedBroker) -> None:
    session = broker.session()
    broker.producer(session)
    consumer = broker.consumer(session, options=ConsumerOptions(selector="n > 0", prefetch=7))
    broker.client.add_temporary(2)
    broker.answers_all()
    told = comes_back(broker)
    assert [type(command).__name__ for command in told] == [
        "ConnectionControl",
        "DestinationInfo",
        "SessionInfo",
        "ProducerInfo",
        "ConsumerInfo",
    ]
    assert isinstance(told[0], wire.ConnectionControl)
    assert told[0].fault_tolerant
    info = told[-1]
    assert isinstance(info, wire.ConsumerInfo)
    assert (info.selector, info.prefetch_size) == ("n > 0", 7)
    broker.answers(info)
    broker.dispatches(consumer, "a")
    assert broker.takes(consumer).body == "a"


def test_the_login_says_that_it_is_a_reconnect(broker: PlayedBroker) -> None:
    broker.goes()
    broker.client.failover.next_address()
    broker.shakes_hands()
    login = broker.receives()[-1]
    assert isinstance(login, wire.ConnectionInfo)
    assert (login.fault_tolerant, login.failover_reconnect) == (True, True)
    assert login.client_id == broker.client.client_id
    assert login.connection_id is not None
    assert login.connection_id.value == broker.client.connection_id


def test_what_was_closed_is_not_told_again(broker: PlayedBroker) -> None:
    session = broker.session()
    consumer, producer = broker.consumer(session), broker.producer(session)
    session.close_consumer(consumer)
    session.close_producer(producer)
    broker.answers_all()
    other = broker.session()
    broker.client.close_session(other)
    broker.answers_all()
    assert [type(command).__name__ for command in comes_back(broker)] == ["ConnectionControl", "SessionInfo"]


def test_unanswered_sends_are_sent_again_with_the_ids_they_had(broker: PlayedBroker) -> None:
    producer = broker.producer(broker.session())
    requests = [broker.send(producer, text) for text in ("a", "b", "c")]
    sent = broker.receives()
    broker.answers(sent[0])
    told = [command for command in comes_back(broker) if isinstance(command, wire.Message)]
    first = [command for command in sent[1:] if isinstance(command, wire.Message)]
    assert [ids(message) for message in told] == [ids(message) for message in first]
    assert [message.content for message in told] == [message.content for message in first]
    for message in told:
        broker.answers(message)
    assert [refusal_of(request) for request in requests] == [None, None, None]


def ids(message: wire.Message) -> tuple[int, int]:
    assert message.message_id is not None
    return (message.command_id, message.message_id.producer_sequence_id)


def test_a_send_goes_to_a_broker_of_another_version_in_its_layout(broker: PlayedBroker) -> None:
    producer = broker.producer(broker.session())
    broker.send(producer, "hello")
    broker.receives()
    broker.preferences = WireFormatPreferences(version=2)
    (message,) = [command for command in comes_back(broker) if isinstance(command, wire.Message)]
    assert message.content == b"\0\0\0\5hello"


def test_a_send_that_waits_while_there_is_no_broker_goes_to_the_next(broker: PlayedBroker) -> None:
    producer = broker.producer(broker.session())
    broker.goes()
    request = broker.send(producer, "later")
    assert request is not None
    broker.client.failover.next_address()
    told = broker.lets_in()
    broker.answers(told[-1])
    assert refusal_of(request) is None


def test_a_consumer_that_was_about_to_be_made_is_made_once(broker: PlayedBroker) -> None:
    session = broker.session()
    broker.goes()
    consumer = broker.consumer(session)
    broker.client.failover.next_address()
    told = broker.lets_in()
    assert [type(command).__name__ for command in told].count("ConsumerInfo") == 1
    broker.answers(told[-1])
    assert consumer.is_announced
    assert [type(command).__name__ for command in comes_back(broker)].count("ConsumerInfo") == 1


def test_a_pull_is_asked_again_of_the_next_broker(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session(), options=ConsumerOptions(prefetch=0))
    consumer.pull_until(None, broker.now)
    broker.goes()
    consumer.pull_until(None, broker.now)
    broker.client.take_woken()
    broker.client.failover.next_address()
    told = broker.lets_in()
    broker.answers(told[-1])
    assert broker.client.take_woken() == [consumer.number], "whoever waits looks again"
    consumer.pull_until(None, broker.now)
    assert [type(command).__name__ for command in broker.receives()] == ["MessagePull"]


def test_a_second_break_before_the_replay_is_answered_tells_everything_once_more(broker: PlayedBroker) -> None:
    broker.consumer(broker.session())
    for _ in range(3):
        told = comes_back(broker)
        assert [type(command).__name__ for command in told] == ["ConnectionControl", "SessionInfo", "ConsumerInfo"]
    assert len(broker.client.correlator.requests) == 1


def test_a_consumer_that_the_new_broker_refuses_fails_alone(broker: PlayedBroker) -> None:
    session = broker.session()
    one, other = broker.consumer(session), broker.consumer(session, "queue://R")
    told = [command for command in comes_back(broker) if isinstance(command, wire.ConsumerInfo)]
    broker.answers(told[0], Throwable("java.lang.SecurityException", "no read on Q"))
    broker.answers(told[1])
    with pytest.raises(JmsError, match="no read on Q"):
        one.next_message(broker.now)
    assert other.next_message(broker.now) is None


def test_a_login_that_the_next_broker_refuses_is_one_failed_attempt(broker: PlayedBroker) -> None:
    broker.goes()
    broker.client.failover.next_address()
    broker.shakes_hands()
    login = broker.receives()[-1]
    with pytest.raises(JmsError, match="already connected"):
        broker.answers(login, Throwable("javax.jms.InvalidClientIDException", "Client: c already connected"))
    assert broker.goes()
    assert broker.client.failure is None
    broker.client.failover.next_address()
    broker.lets_in()
    assert broker.client.is_online


@pytest.mark.parametrize("mode", ["client", "individual", "dups_ok", "auto"])
def test_messages_of_a_dead_connection_are_dropped_and_never_acknowledged(broker: PlayedBroker, mode: str) -> None:
    session = broker.session(mode)
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a", "b", "c")
    held = broker.takes(consumer)
    broker.receives()
    comes_back(broker)
    assert consumer.next_message(broker.now) is None
    held.acknowledge()
    assert broker.acknowledgements() == []
    broker.dispatches(consumer, "d")
    again = broker.takes(consumer)
    held.acknowledge()
    assert [found for found in broker.acknowledgements() if mode in ("client", "individual")] == []
    again.acknowledge()
    assert broker.acknowledgements() == ({"client": [(2, 4, 4)], "individual": [(4, 4, 4)]}.get(mode, []))


def test_what_was_sent_in_an_open_transaction_is_told_again_and_its_commit_is_for_the_whole(
    broker: PlayedBroker,
) -> None:
    session = broker.session("transacted")
    producer = broker.producer(session)
    broker.send(producer, "a")
    broker.send(producer, "b")
    first = broker.receives()
    assert transacted(comes_back(broker)) == transacted(first) == ["begin 1", "a in 1", "b in 1"]
    broker.send(producer, "c")
    assert transacted(comes_back(broker)) == ["begin 1", "a in 1", "b in 1", "c in 1"]
    request = session.commit(broker.now)
    assert transacted(broker.answers_all()) == ["commit 1"]
    assert refusal_of(request) is None
    assert transacted(comes_back(broker)) == []
    broker.send(producer, "d")
    assert transacted(comes_back(broker)) == ["begin 2", "d in 2"]


def test_a_message_of_a_transaction_keeps_its_id_and_is_answered_if_somebody_waits(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    producer = broker.producer(session)
    answered = broker.send(producer, "a", wait=True)
    broker.answers_all()
    waiting = broker.send(producer, "b", wait=True)
    (first,) = [command for command in broker.receives() if isinstance(command, wire.Message)]
    told = [command for command in comes_back(broker) if isinstance(command, wire.Message)]
    assert [message.response_required for message in told] == [False, True]
    assert [message.message_id.producer_sequence_id for message in told if message.message_id is not None] == [1, 2]
    assert told[1].command_id == first.command_id
    assert refusal_of(answered) is None
    assert waiting is not None
    assert not waiting.done
    broker.answers(told[1])
    assert refusal_of(waiting) is None


@pytest.mark.parametrize("breaks", [1, 2])
def test_a_transaction_of_which_a_message_was_refused_ends_with_its_link(broker: PlayedBroker, breaks: int) -> None:
    session = broker.session("transacted")
    producer = broker.producer(session)
    broker.send(producer, "a")
    request = broker.send(producer, "b", wait=True)
    if breaks == 2:
        assert transacted(comes_back(broker)[-1:]) == ["b in 1"]
    else:
        broker.receives()
    assert request is not None
    broker.sends(wire.ExceptionResponse(correlation_id=request.number, exception=NO_ROOM))
    assert isinstance(refusal_of(request), JmsError)
    broker.send(producer, "c")
    assert transacted(comes_back(broker)) == []
    with pytest.raises(TransactionRolledBackError):
        session.commit(broker.now)
    broker.send(producer, "d")
    assert transacted(comes_back(broker)) == ["begin 2", "d in 2"], "the next one is kept again"


def test_a_refusal_that_comes_after_the_end_of_its_transaction_spoils_no_other(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    producer = broker.producer(session)
    late = broker.send(producer, "a", wait=True)
    session.rollback(broker.now)
    broker.send(producer, "b")
    broker.receives()
    assert late is not None
    broker.sends(wire.ExceptionResponse(correlation_id=late.number, exception=NO_ROOM))
    assert transacted(comes_back(broker))[:2] == ["begin 2", "b in 2"]


def test_a_producer_that_is_closed_before_the_commit_is_there_while_its_messages_are_told_again(
    broker: PlayedBroker,
) -> None:
    session = broker.session("transacted")
    gone, silent = broker.producer(session), broker.producer(session)
    broker.send(gone, "a")
    for producer in (gone, silent):
        session.close_producer(producer)
        broker.answers_all()
    told = comes_back(broker)
    kinds = [type(command).__name__ for command in told]
    assert kinds[-4:] == ["TransactionInfo", "ProducerInfo", "ActiveMQTextMessage", "RemoveInfo"]
    producers = [command.producer_id for command in told if isinstance(command, wire.ProducerInfo)]
    assert [found.value for found in producers if found is not None] == [gone.number]


def test_without_the_producers_such_a_transaction_is_rolled_back() -> None:
    broker = PlayedBroker(f"{URL}&trackTransactionProducers=false")
    broker.client.failover.begin(True, broker.now.monotonic)
    broker.client.failover.next_address()
    broker.lets_in()
    session = broker.session("transacted")
    producer = broker.producer(session)
    broker.send(producer, "a")
    session.close_producer(producer)
    assert transacted(comes_back(broker)) == []
    with pytest.raises(TransactionRolledBackError):
        session.commit(broker.now)


def test_without_the_producers_a_transaction_of_one_that_is_closed_between_two_brokers_is_lost() -> None:
    broker = PlayedBroker(f"{URL}&trackTransactionProducers=false")
    broker.client.failover.begin(True, broker.now.monotonic)
    broker.client.failover.next_address()
    broker.lets_in()
    session = broker.session("transacted")
    producer, other = broker.producer(session), broker.producer(session)
    broker.send(producer, "a")
    waiting = broker.send(producer, "b", wait=True)
    broker.goes()
    session.close_producer(producer)
    assert refusal_of(waiting) is None, "the commit tells"
    broker.send(other, "c")
    broker.client.failover.next_address()
    assert transacted(broker.lets_in()) == []
    broker.send(other, "d")
    with pytest.raises(TransactionRolledBackError):
        session.commit(broker.now)
    assert broker.receives() == []
    broker.send(other, "e")
    assert transacted(comes_back(broker)) == ["begin 2", "e in 2"]


def test_a_transaction_that_becomes_too_large_between_two_brokers_is_lost(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    producer = broker.producer(session)
    body = bytes(MAX_REPLAY_BYTES // 2)
    broker.send(producer, body)
    waiting = broker.send(producer, "a", wait=True)
    broker.goes()
    last = broker.send(producer, body, wait=True)
    assert [refusal_of(waiting), refusal_of(last)] == [None, None]
    broker.client.failover.next_address()
    assert transacted(broker.lets_in()) == []
    with pytest.raises(TransactionRolledBackError):
        session.commit(broker.now)


def test_no_other_broker_is_told_of_an_acknowledgement_that_waits_for_its_answer(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session("client"))
    consumer.discard_delivered()
    broker.dispatches(consumer, "a", "b")
    assert len(consumer.next_messages(2, 1_000_000, broker.now)) == 2
    request = consumer.acknowledge_stored()
    assert request is not None
    told = comes_back(broker)
    assert "before the broker had confirmed" in str(refusal_of(request))
    assert not [command for command in told if isinstance(command, wire.MessageAck)]
    assert consumer.acknowledge_stored() is None


def test_a_transaction_in_which_something_was_received_is_rolled_back_and_its_commit_says_so(
    broker: PlayedBroker,
) -> None:
    session = broker.session("transacted")
    consumer, producer = broker.consumer(session), broker.producer(session)
    broker.send(producer, "a")
    broker.dispatches(consumer, "x")
    broker.takes(consumer)
    assert transacted(comes_back(broker)) == []
    broker.send(producer, "b")
    assert broker.receives() == [], "the rest of a lost transaction is not sent"
    with pytest.raises(TransactionRolledBackError, match="the connection broke inside the transaction"):
        session.commit(broker.now)
    broker.send(producer, "c")
    session.commit(broker.now)
    assert transacted(broker.answers_all()) == ["begin 2", "c in 2", "commit 2"]


def test_a_transaction_too_large_to_be_kept_is_rolled_back(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    producer = broker.producer(session)
    body = bytes(MAX_REPLAY_BYTES // 2)
    for _ in range(2):
        broker.send(producer, body)
        assert transacted(broker.receives())
    assert transacted(comes_back(broker)) == []
    with pytest.raises(TransactionRolledBackError):
        session.commit(broker.now)
    broker.send(producer, "a")
    assert transacted(comes_back(broker)) == ["begin 2", "a in 2"], "the next one is kept again"


def test_a_broker_that_cannot_take_a_message_of_a_transaction_breaks_it(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    producer = broker.producer(session)
    waiting = broker.send(producer, "a" * 5_000, wait=True)
    broker.receives()
    assert broker.goes()
    broker.client.failover.next_address()
    broker.preferences = WireFormatPreferences(max_frame_size=4_000)
    broker.lets_in()
    assert refusal_of(waiting) is None
    with pytest.raises(TransactionRolledBackError):
        session.commit(broker.now)


def test_of_a_transaction_that_a_broker_cannot_take_it_is_told_nothing(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    first, gone = broker.producer(session), broker.producer(session)
    broker.send(first, "a")
    broker.send(gone, "b" * 5_000)
    session.close_producer(gone)
    broker.answers_all()
    broker.preferences = WireFormatPreferences(max_frame_size=4_000)
    told = comes_back(broker)
    assert [type(command).__name__ for command in told] == ["ConnectionControl", "SessionInfo", "ProducerInfo"]
    assert session.rollback(broker.now) is None
    broker.send(first, "c")
    assert transacted(broker.receives()) == ["begin 2", "c in 2"]


def test_what_a_broker_was_told_of_a_transaction_that_cannot_be_told_to_its_end_is_rolled_back(
    broker: PlayedBroker,
) -> None:
    session = broker.session("transacted")
    first, gone = broker.producer(session), broker.producer(session)
    broker.send(first, "a")
    broker.send(gone, "b")
    session.close_producer(gone)
    broker.answers_all()
    session.transaction.keep(b"\x1c no message", 12, 0, first.number)
    broker.preferences = WireFormatPreferences(version=2)
    told = comes_back(broker)
    assert transacted(told) == ["begin 1", "a in 1", "b in 1", "rollback 1"]
    assert isinstance(told[-1], wire.RemoveInfo)
    assert told[-1].object_id == wire.ProducerId(
        connection_id=broker.client.connection_id, session_id=session.number, value=gone.number
    )
    with pytest.raises(TransactionRolledBackError):
        session.commit(broker.now)
    broker.send(first, "c")
    assert transacted(broker.receives()) == ["begin 2", "c in 2"]


def test_a_session_that_is_closed_between_two_brokers_leaves_no_transaction(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    broker.send(broker.producer(session), "a")
    broker.receives()
    assert broker.goes()
    assert broker.client.close_session(session) is None
    broker.client.failover.next_address()
    assert transacted(broker.lets_in()) == []


@pytest.mark.parametrize("is_online", [True, False])
def test_nobody_waits_for_an_answer_in_a_session_that_was_closed_between_two_brokers(
    broker: PlayedBroker, is_online: bool
) -> None:
    session, other = broker.session("transacted"), broker.session("transacted")
    one, another = broker.producer(session), broker.producer(other)
    if is_online:
        waiting, kept = broker.send(one, "a", wait=True), broker.send(another, "b", wait=True)
    assert broker.goes()
    if not is_online:
        waiting, kept = broker.send(one, "a", wait=True), broker.send(another, "b", wait=True)
    broker.client.close_session(session)
    assert isinstance(refusal_of(waiting), IllegalStateError)
    assert not session.transaction.is_begun
    assert kept is not None
    assert not kept.done, "that of another session goes on"
    broker.client.failover.next_address()
    told = broker.lets_in()
    assert transacted(told) == ["begin 2", "b in 2"]
    broker.answers(told[-1])
    assert refusal_of(kept) is None
    assert broker.client.correlator.requests == {}


def test_a_transaction_that_only_received_is_lost_too(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    consumer = broker.consumer(session)
    broker.dispatches(consumer, "a")
    broker.takes(consumer)
    comes_back(broker)
    with pytest.raises(TransactionRolledBackError):
        session.commit(broker.now)
    assert session.commit(broker.now) is None


def test_a_rollback_of_a_lost_transaction_just_works(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    consumer, producer = broker.consumer(session), broker.producer(session)
    broker.send(producer, "a")
    broker.dispatches(consumer, "x")
    broker.takes(consumer)
    comes_back(broker)
    assert session.rollback(broker.now) is None
    assert session.commit(broker.now) is None


def test_a_rollback_of_a_transaction_that_was_told_again_is_told_to_the_new_broker(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    broker.send(broker.producer(session), "a")
    comes_back(broker)
    assert session.rollback(broker.now) is not None
    assert transacted(broker.answers_all()) == ["rollback 1"]
    assert transacted(comes_back(broker)) == []


def test_the_outcome_of_a_commit_on_its_way_is_not_known(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    broker.send(broker.producer(session), "a")
    request = session.commit(broker.now)
    broker.receives()
    comes_back(broker)
    assert isinstance(refusal_of(request), TransactionRolledBackError)
    assert "outcome is not known" in str(refusal_of(request))


def test_a_lost_commit_of_received_messages_is_told_once(broker: PlayedBroker) -> None:
    session = broker.session("transacted")
    consumer, producer = broker.consumer(session), broker.producer(session)
    broker.dispatches(consumer, "a")
    broker.takes(consumer)
    request = session.commit(broker.now)
    comes_back(broker)
    assert isinstance(refusal_of(request), TransactionRolledBackError)
    broker.send(producer, "b")
    session.commit(broker.now)
    assert [command.type_id() for command in broker.receives()][-3:] == [7, 28, 7], "the next one is another one"


def test_a_send_that_the_next_broker_cannot_take_fails_alone(broker: PlayedBroker) -> None:
    producer = broker.producer(broker.session())
    large, small = broker.send(producer, "x" * 5_000), broker.send(producer, "y")
    broker.preferences = WireFormatPreferences(max_frame_size=4_000)
    told = comes_back(broker)
    assert isinstance(refusal_of(large), ResourceAllocationError)
    broker.answers(told[-1])
    assert refusal_of(small) is None
    assert broker.client.is_online


def test_a_browse_does_not_go_on_at_another_broker(broker: PlayedBroker) -> None:
    browser = broker.consumer(broker.session(), options=ConsumerOptions(browser=True))
    told = comes_back(broker)
    assert not any(isinstance(command, wire.ConsumerInfo) for command in told)
    with pytest.raises(JmsError, match="begin again"):
        browser.next_message(broker.now)


def test_what_left_while_the_broker_was_away_is_done(broker: PlayedBroker) -> None:
    session = broker.session()
    consumer = broker.consumer(session)
    removal = session.close_consumer(consumer)
    broker.receives()
    told = comes_back(broker)
    assert refusal_of(removal) is None
    assert not any(isinstance(command, (wire.ConsumerInfo, wire.RemoveInfo)) for command in told)


def test_a_failed_connection_tells_everybody(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session())
    broker.goes()
    broker.client.fail(broker.client.failover.exhausted_error())
    with pytest.raises(JmsError, match="no broker could be reached"):
        consumer.next_message(broker.now)
    with pytest.raises(JmsError):
        broker.client.add_session("auto")
    broker.client.mark_closed()
    with pytest.raises(JmsError) as raised:
        broker.client.add_session("auto")
    assert not isinstance(raised.value, IllegalStateError), "the first reason stands"


def test_a_thousand_clients_of_a_broker_that_was_lost_come_back_spread() -> None:
    machine, due = Still(), []
    parsed = parse_url(f"{URL}&initialReconnectDelay=1000")
    for _ in range(1_000):
        failover = Failover(parsed.addresses, parsed.reconnect, machine)
        failover.begin(False, 0.0)
        due.append(failover.due_at())
    assert min(due) >= 0.5 and max(due) < 1.5
    tenths = [sum(1 for moment in due if 0.5 + n / 10 <= moment < 0.6 + n / 10) for n in range(10)]
    assert max(tenths) < 200, "no tenth of a second gets a fifth of all"


def test_a_broker_that_lets_in_and_drops_at_once_is_asked_more_and_more_seldom() -> None:
    failover = failover_of(f"{URL}&initialReconnectDelay=100&maxReconnectDelay=1600")
    now, waits = 10.0, []
    failover.begin(True, now)
    for _ in range(8):
        failover.next_address()
        failover.on_connected(now)
        failover.begin(False, now)
        waits.append(failover.due_at() - now)
        now = failover.due_at()
    assert all(0.05 * 2**n <= wait <= 0.151 * 2**n for n, wait in enumerate(waits[:5]))
    assert all(0.8 <= wait <= 2.4 for wait in waits[5:]), "but no more seldom than maxReconnectDelay says"
    failover.next_address()
    failover.on_connected(now)
    failover.begin(False, now + 60)
    assert failover.due_at() - now - 60 < 0.151, "a connection that lasted begins again with the first delay"


def test_where_a_client_has_come_to_is_told_as_it_always_was(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    failover = failover_of("discovery:(static:(tcp://a:1,tcp://b:2))?randomize=false")
    failover.begin(True, 0.0)
    failover.next_address()
    failover.on_connected(0.0)
    assert [record.getMessage() for record in caplog.records] == [
        "Adding new broker connection URL: tcp://a:1",
        "Adding new broker connection URL: tcp://b:2",
        "Successfully reconnected to tcp://a:1",
    ]


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ("&priorityBackup=true", "abc"),
        ("&priorityURIs=tcp://c:3,tcp://b:2", "bca"),
        ("&priorityBackup=true&priorityURIs=tcp://b:2", "bac"),
    ],
)
def test_preferred_brokers_are_tried_first(options: str, order: str) -> None:
    failover = failover_of(f"failover:(tcp://a:1,tcp://b:2,tcp://c:3)?randomize=false{options}")
    assert "".join(host for host, _ in tried(failover, 3)) == order


def test_a_client_goes_back_to_the_broker_that_it_prefers() -> None:
    failover = failover_of(f"{URL}&priorityBackup=true&initialReconnectDelay=100&maxReconnectDelay=300")
    failover.begin(True, 0.0)
    assert [address.host for address in (failover.next_address(), failover.next_address()) if address] == ["a", "b"]
    failover.on_connected(0.0)
    waits, now = [], 0.0
    for _ in range(4):
        due = failover.probe_at()
        assert due is not None
        waits.append(round(due - now, 3))
        now = due
        better = failover.next_probe(now)
        assert better.host == "a"
    assert waits == [0.1, 0.2, 0.3, 0.3]
    assert str(failover.prefer(better)) == "tcp://a:1 is preferred, and accepts connections again"
    failover.begin(False, now)
    assert failover.next_address() is better
    failover.on_connected(now)
    assert failover.probe_at() is None


def test_without_preference_nobody_looks_back() -> None:
    failover = failover_of(URL)
    failover.begin(True, 0.0)
    failover.next_address()
    failover.next_address()
    failover.on_connected(0.0)
    assert failover.probe_at() is None


def advises(broker: PlayedBroker, brokers: str = "", to: str = "", rebalance: bool = False) -> str:
    """Why the client leaves, if it does."""
    try:
        broker.sends(wire.ConnectionControl(connected_brokers=brokers, reconnect_to=to, rebalance_connection=rebalance))
    except JmsError as reason:
        return str(reason)
    return ""


def hosts_after(broker: PlayedBroker) -> list[str]:
    """Where the client would try next."""
    broker.goes()
    found = []
    for _ in range(10):
        address = broker.client.failover.next_address()
        assert address is not None
        if address.host in found:
            break
        found.append(address.host)
    return found


def test_a_client_knows_the_brokers_that_its_broker_told_of(broker: PlayedBroker) -> None:
    assert advises(broker, "tcp://x:8,nio://y:9") == ""
    assert broker.client.is_online
    assert hosts_after(broker) == ["x", "y", "b", "a"]


def test_a_broker_may_ask_its_clients_to_spread(broker: PlayedBroker) -> None:
    assert advises(broker, "tcp://x:8,tcp://a:1", rebalance=True) == (
        "the broker asks its clients to spread; this one goes to tcp://x:8"
    )
    assert hosts_after(broker)[0] == "x"


def test_a_client_that_is_where_it_should_be_stays(broker: PlayedBroker) -> None:
    assert advises(broker, "tcp://a:1,tcp://x:8", rebalance=True) == ""
    assert advises(broker, "tcp://x:8,tcp://a:1", rebalance=True) == "", "the same brokers are no news"


def test_a_broker_may_send_a_client_elsewhere(broker: PlayedBroker) -> None:
    assert advises(broker, to="tcp://x:8") == "the broker asks to connect to tcp://x:8"
    assert hosts_after(broker)[0] == "x"
    assert advises(PlayedBroker(), to="tcp://x:8") == "", "one address is no list"


@pytest.mark.parametrize(
    "uri",
    ["ssl://x:8", "vm://x", "failover:(tcp://x:8)", "http://x:8", "x", "tcp://u:p@x:8", "tcp://x:0",
     "fanout:(tcp://x:8)", "peer://g/x?brokerConfig=xbean:http://x/"],
)  # fmt: skip
def test_s20_a_suggestion_leads_to_a_socket_of_the_kind_that_the_caller_named(broker: PlayedBroker, uri: str) -> None:
    assert advises(broker, uri, uri, True) == ""
    assert hosts_after(broker) == ["b", "a"]


def test_s38_a_suggestion_is_verified_as_the_callers_own_addresses_are() -> None:
    broker = PlayedBroker("failover:(ssl://a:1?verifyHostName=true,ssl://b:2)?randomize=false&initialReconnectDelay=0")
    broker.client.failover.begin(True, broker.now.monotonic)
    broker.client.failover.next_address()
    broker.lets_in()
    assert advises(broker, "tcp://evil:1,ssl://x:8?verifyHostName=false&socket.enabledProtocols=SSLv3") == ""
    broker.goes()
    found = broker.client.failover.next_address()
    assert found is not None and (found.url, found.is_secure) == ("ssl://x:8", True)
    assert found.settings.verify_host_name is True and found.settings.protocols == ()
    assert found.settings.wire_format.host == "x"


def test_a_client_that_is_asked_to_move_before_it_is_let_in_moves_then(broker: PlayedBroker) -> None:
    broker.goes()
    broker.client.failover.next_address()
    broker.shakes_hands()
    login = broker.receives()[-1]
    assert advises(broker, "tcp://x:8", rebalance=True) == "", "not yet"
    with pytest.raises(JmsError, match="this one goes to tcp://x:8"):
        broker.answers(login)
    assert hosts_after(broker)[0] == "x"


def test_a_client_is_not_sent_around_for_ever(broker: PlayedBroker) -> None:
    moves = 0
    for number in range(30):
        if advises(broker, to=f"tcp://x{number}:8"):
            moves += 1
            comes_back(broker)
    assert moves == 10
    broker.passes(6.0)
    comes_back(broker)
    assert advises(broker, to="tcp://y:8")


@pytest.mark.parametrize("option", ["updateURIsSupported=false", "maxReconnectAttempts=0", "reconnectSupported=false"])
def test_a_caller_may_want_no_suggestions(option: str) -> None:
    broker = PlayedBroker(f"{URL}&{option}")
    broker.client.failover.begin(True, broker.now.monotonic)
    broker.client.failover.next_address()
    broker.lets_in()
    assert advises(broker, "tcp://x:8", rebalance=True) == ""


def test_suggestions_have_an_end(broker: PlayedBroker) -> None:
    assert advises(broker, ",".join(f"tcp://h{n}:1" for n in range(1_000))) == ""
    assert advises(broker, "tcp://x:1," + "x" * 30_000) == ""
    broker.goes()
    failover = broker.client.failover
    found = [address.host for address in [failover.next_address() for _ in range(66)] if address is not None]
    assert found == [*(f"h{n}" for n in range(64)), "b", "a"]


def one_way(broker: PlayedBroker, *texts: str) -> None:
    producer = broker.producer(broker.session())
    for text in texts:
        assert broker.send(producer, text, False) is None
    broker.receives()


def bodies(commands: list[wire.Command]) -> list[bytes]:
    return [(command.content or b"")[4:] for command in commands if isinstance(command, wire.Message)]


def test_one_way_sends_are_told_again_if_they_are_tracked() -> None:
    broker = PlayedBroker(f"{URL}&trackMessages=true")
    broker.client.failover.begin(True, broker.now.monotonic)
    broker.client.failover.next_address()
    broker.lets_in()
    one_way(broker, "a", "b")
    assert bodies(comes_back(broker)) == [b"a", b"b"]
    assert bodies(comes_back(broker)) == [b"a", b"b"]


def test_of_tracked_sends_the_last_are_kept() -> None:
    broker = PlayedBroker(f"{URL}&trackMessages=true&maxCacheSize=1500")
    broker.client.failover.begin(True, broker.now.monotonic)
    broker.client.failover.next_address()
    broker.lets_in()
    one_way(broker, *[str(number) * 300 for number in range(5)])
    assert bodies(comes_back(broker)) == [b"3" * 300, b"4" * 300]


def test_one_way_sends_are_not_told_again_by_themselves(broker: PlayedBroker) -> None:
    one_way(broker, "a")
    assert bodies(comes_back(broker)) == []
