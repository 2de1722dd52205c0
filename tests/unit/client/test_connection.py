"""The client's side of OpenWire as a dialogue with a broker that the test plays."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spanwire.client.blocking import Credentials
from spanwire.client.connection import Connection
from spanwire.client.session import Session, body_of, message_id_text
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import AuthenticationError, JmsError, RemoteProtocolError
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.openwire import _marshallers as wire
from spanwire.protocols.openwire.codec import FrameDecoder, FrameEncoder
from spanwire.protocols.openwire.schema import DataStructure, Throwable
from spanwire.protocols.openwire.wire_format import WireFormatPreferences, negotiate, wire_format_info

CANARY = "c4n4ry-pa55word"


class Broker:
    """The other end of the wire."""

    def __init__(self) -> None:
        self.client = Connection(
            wire.ConnectionInfo(connection_id=wire.ConnectionId("ID:c-1"), user_name="u", password=CANARY), 0.0
        )
        self.preferences = WireFormatPreferences(max_inactivity_ms=30_000)
        self._decoder = FrameDecoder(MAX_FRAME_SIZE, pass_messages=False)
        self._decoder.authenticated()
        self._encoder = FrameEncoder()

    def receives(self) -> list[wire.Command]:
        commands: list[wire.Command] = []
        found = self._decoder.feed(self.client.data_to_send())
        while found:
            commands += found
            found = self._decoder.feed(b"")
        return commands

    def sends(self, command: DataStructure, now: float = 0.0) -> None:
        self.client.receive_data(self._encoder.encode(command), now)

    def shakes_hands(self) -> None:
        (info,) = self.receives()
        assert isinstance(info, wire.WireFormatInfo)
        self.sends(wire_format_info(self.preferences))
        agreed = negotiate(self.preferences, info)
        self._decoder.negotiated(agreed)
        self._encoder = FrameEncoder(agreed)


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_the_login_waits_for_the_handshake(broker: Broker) -> None:
    assert [command.type_id() for command in broker.receives()] == [wire.WIRE_FORMAT_INFO]
    broker = Broker()
    broker.shakes_hands()
    (login,) = broker.receives()
    assert isinstance(login, wire.ConnectionInfo)
    assert login.response_required
    assert login.password == CANARY
    assert not broker.client.take_answer(broker.client.login)
    broker.sends(wire.Response(login.command_id))
    assert broker.client.take_answer(broker.client.login)


def test_a_refused_login_raises_what_the_broker_said(broker: Broker) -> None:
    broker.shakes_hands()
    broker.receives()
    thrown = Throwable("java.lang.SecurityException", "User name [u] or password is invalid.")
    broker.sends(wire.ExceptionResponse(correlation_id=broker.client.login, exception=thrown))
    with pytest.raises(AuthenticationError, match="password is invalid"):
        broker.client.take_answer(broker.client.login)


def test_a_class_name_from_the_broker_is_only_text(broker: Broker) -> None:
    broker.shakes_hands()
    loaded = set(sys.modules)
    number = broker.client.request(wire.SessionInfo())
    broker.sends(
        wire.ExceptionResponse(correlation_id=number, exception=Throwable("antigravity.Gadget", "http://192.0.2.1/x"))
    )
    with pytest.raises(JmsError, match=r"Gadget: http://192\.0\.2\.1/x"):
        broker.client.take_answer(number)
    assert set(sys.modules) == loaded


def test_answers_find_their_requests_in_any_order(broker: Broker) -> None:
    broker.shakes_hands()
    first, second = broker.client.request(wire.SessionInfo()), broker.client.request(wire.SessionInfo())
    broker.sends(wire.Response(second))
    assert not broker.client.take_answer(first)
    assert broker.client.take_answer(second)
    broker.sends(wire.Response(first))
    assert broker.client.take_answer(first)


def test_dispatches_are_kept_in_order_and_a_browse_has_an_end(broker: Broker) -> None:
    broker.shakes_hands()
    producer = Session("ID:other").producer(Destination(QUEUE, "A"))
    for text in ("1", "2"):
        broker.sends(wire.MessageDispatch(message=producer.message(text, True, 5)))
    broker.sends(wire.MessageDispatch())
    bodies = [body_of(dispatch.message) if dispatch.message else None for dispatch in broker.client.dispatches]
    assert bodies == ["1", "2", None]


def test_keep_alives_are_answered_and_sent(broker: Broker) -> None:
    broker.shakes_hands()
    broker.receives()
    asked = wire.KeepAliveInfo()
    asked.response_required = True
    broker.sends(asked, now=1.0)
    (answer,) = broker.receives()
    assert isinstance(answer, wire.KeepAliveInfo)
    assert not answer.response_required
    broker.client.sent(1.0)
    due = broker.client.next_timeout()
    assert due == pytest.approx(11.0)
    broker.client.handle_timeout(11.0)
    assert [command.type_id() for command in broker.receives()] == [wire.KEEP_ALIVE_INFO]


def test_a_silent_broker_is_given_up(broker: Broker) -> None:
    broker.shakes_hands()
    broker.client.handle_timeout(31.0)
    with pytest.raises(JmsError, match="silent for 30 s"):
        broker.client.take_answer(broker.client.login)


def test_an_error_of_the_connection_reaches_who_waits(broker: Broker) -> None:
    broker.shakes_hands()
    broker.sends(wire.ConnectionError(exception=Throwable("java.io.IOException", "the broker is stopping")))
    with pytest.raises(JmsError, match="the broker is stopping"):
        broker.client.take_answer(broker.client.login)


def test_a_shutdown_or_control_command_of_the_broker_does_nothing(broker: Broker) -> None:
    broker.shakes_hands()
    broker.sends(wire.ShutdownInfo())
    broker.sends(wire.ControlCommand(command="shutdown"))
    assert broker.client.failure is None


def test_garbage_is_a_protocol_error(broker: Broker) -> None:
    with pytest.raises(RemoteProtocolError):
        broker.client.receive_data(b"HTTP/1.1 400 Bad Request\r\n\r\n", 0.0)


def test_messages_carry_ids_and_the_open_transaction() -> None:
    session = Session("ID:c-1")
    producer = session.producer(Destination(QUEUE, "A"))
    begin = session.begin()
    inside = producer.message("x", True, 5)
    commit = session.commit()
    outside = producer.message(b"y", False, 6)
    assert inside.transaction_id == begin.transaction_id == commit.transaction_id
    assert outside.transaction_id is None
    assert message_id_text(inside) == "ID:c-1:1:1:1"
    assert message_id_text(outside) == "ID:c-1:1:1:2"
    assert (body_of(inside), body_of(outside)) == ("x", b"y")


def test_the_client_loads_nothing_of_the_broker() -> None:
    program = (
        "import sys, spanwire.client.blocking, spanwire.client.session\n"
        "print([name for name in sys.modules if name.split('.')[:2] in "
        "[['spanwire', part] for part in ('broker', 'stores', 'service', 'web', 'transports', 'management')]])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_password_stands_in_no_repr() -> None:
    assert CANARY not in repr(Credentials("u", CANARY))
