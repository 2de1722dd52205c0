"""Handshake, login, answers, keep-alives and the end of a connection, as a dialogue."""

from __future__ import annotations

import pytest

from spanwire.client.protocol.connection import State
from spanwire.model.errors import AuthenticationError, AuthorizationError, IllegalStateError, JmsError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences
from tests.support.client_dialogue import PlayedBroker, refusal_of

CANARY = "c4n4ry-pa55word"


@pytest.fixture
def broker() -> PlayedBroker:
    played = PlayedBroker()
    played.lets_in()
    return played


def test_the_login_waits_for_the_handshake() -> None:
    broker = PlayedBroker()
    broker.opens()
    assert [command.type_id() for command in broker.receives()] == [wire.WIRE_FORMAT_INFO]
    broker = PlayedBroker()
    broker.shakes_hands()
    (login,) = broker.receives()
    assert isinstance(login, wire.ConnectionInfo)
    assert (login.response_required, login.user_name, login.password) == (True, "u", CANARY)
    assert login.client_id == broker.client.client_id
    assert not login.fault_tolerant
    assert not broker.client.is_online
    broker.answers(login)
    assert broker.client.is_online


def test_a_refused_login_raises_what_the_broker_said() -> None:
    broker = PlayedBroker()
    broker.shakes_hands()
    (login,) = broker.receives()
    with pytest.raises(AuthenticationError, match="password is invalid"):
        broker.answers(login, Throwable("java.lang.SecurityException", "User name [u] or password is invalid."))


def test_the_same_exception_after_the_login_is_about_a_right(broker: PlayedBroker) -> None:
    session = broker.session()
    request = session.close()
    (command,) = broker.receives()
    broker.answers(command, Throwable("java.lang.SecurityException", "not authorized"))
    assert isinstance(refusal_of(request), AuthorizationError)


def test_answers_find_their_requests_in_any_order(broker: PlayedBroker) -> None:
    first = broker.client.remove_subscription("a")
    second = broker.client.remove_subscription("b")
    one, two = broker.receives()
    broker.answers(two)
    assert (first.done, second.done) == (False, True)
    assert broker.client.take_completed() == [second]
    broker.answers(one)
    assert broker.client.take_completed() == [first]
    assert broker.client.take_completed() == []


def test_command_ids_are_never_used_twice_while_one_waits(broker: PlayedBroker) -> None:
    requests = [broker.client.remove_subscription(str(number)) for number in range(100)]
    commands = broker.receives()
    numbers = [command.command_id for command in commands if isinstance(command, wire.BaseCommand)]
    assert len(set(numbers)) == len(requests) == 100


def test_keep_alives_are_answered_and_sent(broker: PlayedBroker) -> None:
    asked = wire.KeepAliveInfo()
    asked.response_required = True
    broker.sends(asked)
    (answer,) = broker.receives()
    assert isinstance(answer, wire.KeepAliveInfo)
    assert not answer.response_required
    broker.client.on_written(broker.now)
    due = broker.client.next_timeout()
    assert due == pytest.approx(broker.now.monotonic + 10.0)
    broker.client.handle_timeout(broker.passes(10.0))
    assert [command.type_id() for command in broker.receives()] == [wire.KEEP_ALIVE_INFO]


def test_a_broker_that_falls_silent_is_given_up(broker: PlayedBroker) -> None:
    for _ in range(3):
        broker.client.handle_timeout(broker.passes(9.9))
    with pytest.raises(JmsError, match=r"tcp://broker:61616 has been silent for 30 s"):
        broker.client.handle_timeout(broker.passes(9.9))


def test_nobody_watches_where_the_broker_wants_no_watching() -> None:
    broker = PlayedBroker(preferences=WireFormatPreferences(max_inactivity_ms=0))
    broker.lets_in()
    assert broker.client.next_timeout() is None


def test_the_brokers_last_words_say_why_the_connection_ended(broker: PlayedBroker) -> None:
    request = broker.client.remove_subscription("a")
    broker.sends(wire.ConnectionError(exception=Throwable("java.io.IOException", "the broker is stopping")))
    assert not broker.goes()
    assert isinstance(refusal_of(request), JmsError)
    with pytest.raises(JmsError, match="the broker is stopping"):
        request.raise_error()
    with pytest.raises(JmsError, match="the broker is stopping"):
        broker.client.add_session("auto")


def test_a_refused_one_way_command_is_kept_and_ends_nothing(broker: PlayedBroker) -> None:
    broker.sends(wire.ConnectionError(exception=Throwable("javax.jms.JMSException", "no\nroom\x1b[2J")))
    assert [str(error) for error in broker.client.reported.errors] == ["no room [2J"]
    assert broker.client.is_online


def test_a_closed_connection_refuses_everything_and_ends_who_waits(broker: PlayedBroker) -> None:
    session = broker.session()
    consumer = broker.consumer(session)
    waiting = broker.client.remove_subscription("a")
    broker.client.mark_closed()
    assert isinstance(refusal_of(waiting), IllegalStateError)
    with pytest.raises(IllegalStateError, match="connection is closed"):
        broker.client.add_session("auto")
    with pytest.raises(IllegalStateError, match="connection is closed"):
        consumer.next_message(broker.now)
    assert broker.client.state == State.CLOSED


def test_a_farewell_is_answered_before_the_last_word(broker: PlayedBroker) -> None:
    request = broker.client.request_removal()
    (command,) = broker.receives()
    assert isinstance(command, wire.RemoveInfo)
    assert isinstance(command.object_id, wire.ConnectionId)
    broker.answers(command)
    assert request is not None and request.done
    broker.client.shutdown()
    assert [command.type_id() for command in broker.receives()] == [wire.SHUTDOWN_INFO]


def test_a_farewell_acknowledges_what_dups_ok_had_put_off(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session("dups_ok"))
    broker.dispatches(consumer, "a")
    broker.takes(consumer)
    broker.client.request_removal()
    assert [command.type_id() for command in broker.receives()] == [wire.MESSAGE_ACK, wire.REMOVE_INFO]


def test_a_password_stands_in_no_repr(broker: PlayedBroker) -> None:
    assert CANARY not in repr(broker.url) + repr(broker.client.settings) + repr(broker.client.settings.password)


@pytest.mark.parametrize(
    "preferences",
    [
        WireFormatPreferences(version=1),
        WireFormatPreferences(version=2),
        WireFormatPreferences(version=9),
        WireFormatPreferences(version=11),
    ],
)
def test_older_wire_formats_carry_messages_and_acknowledgements(preferences: WireFormatPreferences) -> None:
    exchange(PlayedBroker(preferences=preferences))


@pytest.mark.parametrize(
    "options", ["tightEncodingEnabled", "cacheEnabled", "tightEncodingEnabled=true&wireFormat.cacheEnabled"]
)
@pytest.mark.parametrize("version", [1, 9, 12])
def test_tight_and_cached_wire_formats_carry_the_same(options: str, version: int) -> None:
    broker = PlayedBroker(
        f"tcp://broker:61616?wireFormat.{options}=true", WireFormatPreferences(version=version, tight=True, cache=True)
    )
    exchange(broker)


def exchange(broker: PlayedBroker) -> None:
    """One message in each direction, and an acknowledgement."""
    broker.lets_in()
    session = broker.session()
    producer = broker.producer(session)
    consumer = broker.consumer(session)
    broker.send(producer, "hello")
    (message,) = broker.receives()
    assert isinstance(message, wire.ActiveMQTextMessage)
    assert message.content == b"\0\0\0\5hello"
    assert message.persistent
    assert message.priority == 4
    broker.dispatches(consumer, "answer")
    taken = broker.takes(consumer)
    assert (taken.body, taken.message_id, taken.destination.qualified_name) == (
        "answer",
        "ID:other-1:1:1:1",
        "queue://Q",
    )
    assert broker.acknowledgements() == [(2, 1, 1)]
