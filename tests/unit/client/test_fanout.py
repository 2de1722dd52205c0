"""One connection to several brokers: who gets what, when it is done, and what a broker hears that comes later."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.client.addressing.address import parse_url
from spanwire.client.addressing.consumer_options import ConsumerOptions
from spanwire.model.errors import (
    AuthenticationError,
    ConfigurationError,
    JmsError,
    ProtocolError,
    TransactionRolledBackError,
)
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import Throwable
from tests.support.client_dialogue import refusal_of, text_message
from tests.support.fanout_dialogue import PlayedBranch, PlayedFanout


def names(commands: list[wire.Command]) -> list[str]:
    return [type(command).__name__ for command in commands]


def bodies(broker: PlayedBranch) -> list[str]:
    """The messages that a broker got; it answers everything."""
    received = broker.answers_all()
    return [(one.content or b"")[4:].decode() for one in received if isinstance(one, wire.Message)]


def all_in(options: str = "", count: int = 2) -> PlayedFanout:
    fanout = PlayedFanout(options, count)
    fanout.let_in()
    assert fanout.client.is_online
    return fanout


@pytest.mark.parametrize(
    "url",
    [
        "fanout:(tcp://a:1,tcp://b:1)",
        "fanout://(static:(tcp://a:1,tcp://b:1))",
        "fanout:static:(tcp://a:1,tcp://b:1)",
        "fanout:(discovery:(static:(tcp://a:1,tcp://b:1)))",
        "fanout:tcp://a:1,tcp://b:1",
    ],
)
def test_the_brokers_of_a_fanout_url_are_listed(url: str) -> None:
    inner = parse_url(url).addresses[0].inner
    assert inner is not None and inner.fanout is not None
    assert [address.url for address in inner.addresses] == ["tcp://a:1", "tcp://b:1"]
    assert (inner.fanout.min_ack_count, inner.fanout.fan_out_queues) == (2, False)
    policy = inner.reconnect
    assert (policy.initial_delay_ms, policy.max_delay_ms, policy.back_off_multiplier) == (10, 30_000, 2.0)
    assert (policy.use_exponential_back_off, policy.max_attempts) == (True, -1)


def test_the_options_of_fanout_are_read() -> None:
    url = parse_url(
        "fanout:(multicast://default)?group=a&minAckCount=4&fanOutQueues=true&maxReconnectDelay=7&jms.userName=u"
    )
    inner = url.addresses[0].inner
    assert inner is not None and inner.fanout is not None and inner.group is not None
    assert (inner.group.group, inner.fanout.min_ack_count, inner.fanout.fan_out_queues) == ("a", 4, True)
    assert (inner.reconnect.max_delay_ms, url.settings.user_name) == (7, "u")


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("fanout:(tcp://a:1)", "minAckCount=2 needs so many brokers, 1 are named"),
        ("fanout:(tcp://a:1,tcp://b:1)?minAckCount=3", "needs so many brokers"),
        ("fanout:(tcp://a:1,tcp://b:1)?minAckCounts=2", "did you mean minAckCount"),
        ("fanout:(tcp://a:1,tcp://b:1)?minAckCount=0", "not between 1 and 64"),
        ("fanout:()", "names no broker"),
        ("fanout:(fanout:(tcp://a:1,tcp://b:1))", "fanout stands inside a list"),
        ("failover:(fanout:(tcp://a:1,tcp://b:1))", "fanout stands inside a list"),
        ("fanout:(multicast://default,tcp://b:1)", "an agent is no transport"),
    ],
)
def test_a_fanout_url_that_cannot_be_meant_says_so(url: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong):
        parse_url(url)


def test_no_password_of_a_fanout_url_is_shown() -> None:
    url = parse_url("fanout:(tcp://a:1,tcp://b:1)?jms.password=c4n4ry-pa55word")
    assert "c4n4ry" not in url.addresses[0].url + repr(url)


def test_nothing_is_let_in_before_enough_brokers_are_there() -> None:
    fanout = PlayedFanout("?minAckCount=2", 3)
    one, other, _ = fanout.brokers
    login = one.shakes_hands()
    assert (login.user_name, login.password, login.failover_reconnect) == ("u", "c4n4ry-pa55word", False)
    one.sends(wire.Response(login.command_id))
    assert not fanout.client.is_online
    other.lets_in()
    assert fanout.client.is_online


def test_a_message_for_a_topic_goes_to_all_and_one_for_a_queue_to_the_first() -> None:
    fanout = all_in("", 3)
    session = fanout.session_of("auto")
    producer = fanout.producer(session, "topic://T")
    fanout.send(producer, "t", False)
    fanout.send(fanout.producer(session), "q", False)
    assert [bodies(broker) for broker in fanout.brokers] == [["t", "q"], ["t"], ["t"]]


def test_with_fan_out_queues_all_get_everything() -> None:
    fanout = all_in("?fanOutQueues=true")
    fanout.send(fanout.producer(fanout.session_of("auto")), "q", False)
    assert [bodies(broker) for broker in fanout.brokers] == [["q"], ["q"]]


def test_a_send_is_done_when_so_many_have_answered() -> None:
    fanout = all_in("", 3)
    producer = fanout.producer(fanout.session_of("auto"), "topic://T")
    request = fanout.send(producer, "t", True)
    one, other, last = fanout.brokers
    assert bodies(last) == ["t"]
    assert request is not None and not request.done
    assert bodies(one) == ["t"]
    assert refusal_of(request) is None
    assert bodies(other) == ["t"], "an answer more is nothing to anybody"
    assert fanout.client.failure is None


def test_consumers_are_at_the_first_broker_alone() -> None:
    fanout = all_in()
    one, other = fanout.brokers
    consumer = fanout.consumer(fanout.session_of("client"))
    assert names(other.answers_all()) == ["SessionInfo"]
    assert names(one.answers_all()) == ["SessionInfo", "ConsumerInfo"]
    dispatch(one, consumer, "a", 1)
    dispatch(other, consumer, "b", 2)
    fanout.takes(consumer).acknowledge()
    assert consumer.next_message(fanout.now) is None
    assert names(one.receives()) == ["MessageAck"] and other.receives() == []


def dispatch(broker: PlayedBranch, consumer: object, body: str, sequence: int) -> None:
    info = consumer.info  # type: ignore[attr-defined]
    broker.sends(
        wire.MessageDispatch(
            consumer_id=info.consumer_id, destination=info.destination, message=text_message(body, sequence)
        )
    )


def test_a_broker_that_comes_later_hears_of_everything_but_consumers() -> None:
    fanout = PlayedFanout("", 3)
    one, other, late = fanout.brokers
    fanout.let_in(one, other)
    session = fanout.session_of("auto")
    fanout.consumer(session)
    fanout.producer(session, "topic://T")
    one.answers_all(), other.answers_all()
    request = fanout.send(fanout.producer(session, "topic://T"), "t", True)
    assert names(late.lets_in()) == ["SessionInfo", "ProducerInfo", "ProducerInfo", "ActiveMQTextMessage"]
    assert request is not None and not request.done


def test_with_too_few_brokers_everything_waits() -> None:
    fanout = all_in()
    one, other = fanout.brokers
    producer = fanout.producer(fanout.session_of("auto"), "topic://T")
    one.answers_all(), other.answers_all()
    other.goes()
    request = fanout.send(producer, "t", True)
    assert bodies(one) == [] and fanout.hub.queued_bytes > 0
    login = other.shakes_hands()
    assert login.failover_reconnect
    other.sends(wire.Response(login.command_id))
    assert bodies(other) == ["t"] and bodies(one) == ["t"]
    assert refusal_of(request) is None and fanout.hub.queued_bytes == 0


def test_what_was_not_answered_is_told_to_the_broker_that_comes_back() -> None:
    fanout = all_in()
    one, other = fanout.brokers
    request = fanout.send(fanout.producer(fanout.session_of("auto"), "topic://T"), "t", True)
    assert bodies(one) == ["t"]
    other.goes()
    assert request is not None and not request.done
    assert [name for name in names(other.lets_in()) if "Message" in name] == ["ActiveMQTextMessage"]


def test_consumers_move_when_the_first_broker_is_lost() -> None:
    fanout = all_in("?minAckCount=1")
    one, other = fanout.brokers
    consumer = fanout.consumer(fanout.session_of("auto"))
    one.answers_all(), other.answers_all()
    one.goes()
    assert names(other.answers_all()) == ["ConsumerInfo"]
    dispatch(other, consumer, "b", 2)
    assert fanout.takes(consumer).body == "b"
    assert names(one.lets_in()) == ["ConnectionControl", "SessionInfo"][1:], "the other stays the first"


def test_a_pull_moves_too() -> None:
    fanout = all_in("?minAckCount=1")
    one, other = fanout.brokers
    consumer = fanout.consumer(fanout.session_of("auto"), options=ConsumerOptions(prefetch=0))
    one.answers_all(), other.answers_all()
    consumer.pull_until(None, fanout.now)
    assert names(one.receives()) == ["MessagePull"]
    one.goes()
    assert names(other.answers_all()) == ["ConsumerInfo", "MessagePull"]


def test_what_one_broker_refuses_is_refused() -> None:
    fanout = all_in()
    one, other = fanout.brokers
    request = fanout.send(fanout.producer(fanout.session_of("auto"), "topic://T"), "t", True)
    one.answers_all()
    other.answers_all(Throwable("java.lang.SecurityException", "no write on T"))
    assert "no write on T" in str(refusal_of(request))


def test_a_login_that_one_broker_refuses_is_refused() -> None:
    fanout = PlayedFanout()
    login = fanout.brokers[0].shakes_hands()
    with pytest.raises(AuthenticationError):
        fanout.brokers[0].sends(
            wire.ExceptionResponse(
                correlation_id=login.command_id, exception=Throwable("java.lang.SecurityException", "bad password")
            )
        )
    with pytest.raises(JmsError, match="bad password"):
        fanout.passes_on()


def test_a_transaction_fails_when_too_few_of_its_brokers_are_left() -> None:
    fanout = all_in("", 3)
    one, other, last = fanout.brokers
    session = fanout.session_of("transacted")
    producer = fanout.producer(session, "topic://T")
    for broker in fanout.brokers:
        broker.answers_all()
    fanout.send(producer, "t")
    assert all("TransactionInfo" in names(broker.answers_all()) for broker in fanout.brokers)
    one.goes()
    one.lets_in()
    other.goes()
    other.lets_in()
    request = session.commit(fanout.now)
    fanout.passes_on()
    assert isinstance(refusal_of(request), TransactionRolledBackError)
    (undo,) = last.receives()
    assert isinstance(undo, wire.TransactionInfo) and undo.type == 4
    assert not any(isinstance(command, wire.TransactionInfo) for command in [*one.receives(), *other.receives()])


def test_a_commit_goes_to_the_brokers_of_the_transaction() -> None:
    fanout = all_in("", 3)
    session = fanout.session_of("transacted")
    fanout.send(fanout.producer(session, "topic://T"), "t")
    for broker in fanout.brokers:
        broker.answers_all()
    fanout.brokers[0].goes()
    fanout.brokers[0].lets_in()
    request = session.commit(fanout.now)
    assert [broker.answers_all() != [] for broker in fanout.brokers] == [False, True, True]
    assert refusal_of(request) is None


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_a_hostile_broker_loses_its_own_link_and_nothing_else(chunks: list[bytes]) -> None:
    fanout = all_in("?minAckCount=1")
    one, other = fanout.brokers
    try:
        for chunk in chunks:
            fanout.hub.on_data(one.branch, len(chunk).to_bytes(4, "big") + chunk, fanout.now.monotonic)
    except (JmsError, ProtocolError):
        one.goes()
    fanout.passes_on()
    fanout.send(fanout.producer(fanout.session_of("auto"), "topic://T"), "t", False)
    assert bodies(other) == ["t"]


def test_a_farewell_reaches_all_and_waits_for_those_that_are_there() -> None:
    fanout = all_in()
    one, other = fanout.brokers
    other.goes()
    request = fanout.client.request_removal()
    assert names(one.answers_all()) == ["RemoveInfo"]
    assert refusal_of(request) is None
    fanout.client.shutdown()
    assert names(one.receives()) == ["ShutdownInfo"] and fanout.hub.is_shut_down


def test_a_farewell_to_nobody_is_done() -> None:
    fanout = all_in()
    for broker in fanout.brokers:
        broker.goes()
    request = fanout.client.request_removal()
    fanout.passes_on()
    assert refusal_of(request) is None
