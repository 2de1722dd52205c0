"""OpenWire over HTTP: sessions, long polls, back-pressure, and the end of clients. Dialogues without a socket."""

from __future__ import annotations

import asyncio
import gc
import gzip
import tracemalloc
from typing import Any, cast

import pytest

from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, wire_format_info
from spanwire.service.administration.connector_operations import ConnectorOperations
from spanwire.transports.base import ConnectorSettings
from spanwire.transports.connector import TransportConnector
from spanwire.transports.http.connection import (
    BODY_SECONDS,
    IDLE_SECONDS,
    MAX_BODY_WITHOUT_SESSION,
    MAX_CLIENT_ID,
    MAX_EVENTS_PER_TURN,
    MAX_UNREAD_ANSWERS,
)
from spanwire.transports.http.quick_reader import QuickReader
from spanwire.transports.http.requests import MAX_HEADERS, H11Reader, RequestReader, request_reader
from spanwire.transports.http.session import TunnelSession
from spanwire.transports.http.tunnel import Tunnel
from tests.support.garbage import cycles
from tests.support.http_dialogue import HttpClient, HttpStage, request, text_of

QUEUE = wire.ActiveMQQueue(physical_name="TEST.FOO")
INACTIVITY_SECONDS = 30.0
KEEP_ALIVE = text_of(wire.KeepAliveInfo())
READERS: list[type[RequestReader]] = [H11Reader, QuickReader]


@pytest.fixture(autouse=True, params=READERS, ids=["h11", "httptools"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[RequestReader]:
    """All dialogues with both readers of HTTP."""
    monkeypatch.setattr(HttpStage, "reader", request.param)
    found: type[RequestReader] = request.param
    return found


def produces(client: HttpClient, *texts: str) -> None:
    producer_id = wire.ProducerId(connection_id=client.name, session_id=1, value=1)
    client.posts(wire.ProducerInfo(producer_id=producer_id))
    for number, text in enumerate(texts):
        message = wire.ActiveMQTextMessage()
        message.producer_id = producer_id
        message.message_id = wire.MessageId(producer_id=producer_id, producer_sequence_id=number + 1)
        message.destination = QUEUE
        message.content = len(text.encode()).to_bytes(4, "big") + text.encode()
        client.posts(message)


def consumes(client: HttpClient, prefetch: int = 100) -> wire.ConsumerId:
    consumer_id = wire.ConsumerId(connection_id=client.name, session_id=1, value=1)
    client.posts(wire.ConsumerInfo(consumer_id=consumer_id, destination=QUEUE, prefetch_size=prefetch))
    return consumer_id


def texts(commands: list[Any]) -> list[str]:
    messages = [command.message for command in commands if isinstance(command, wire.MessageDispatch)]
    return [(message.content or b"")[4:].decode() for message in messages if message is not None]


def test_a_head_request_opens_a_session_and_a_get_request_has_the_broker_s_first_command() -> None:
    client = HttpStage().client()
    info = client.polls()
    assert isinstance(info, wire.BrokerInfo)
    assert info.broker_name == "golden"
    assert client.polls() is None


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.0.0.2", "[::1]:8080"])
def test_programs_of_this_machine_use_a_connector_on_loopback(host: str) -> None:
    socket = HttpStage(is_local=True).socket()
    assert socket.asks("HEAD", "ID:a", Host=host) == (200, b"")


@pytest.mark.parametrize("method", ["HEAD", "GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("host", ["rebound.example:8080", "localhost.rebound.example", "127.0.0.1.rebound.example", ""])
def test_s23_a_page_whose_name_leads_to_this_machine_cannot_use_a_connector_on_loopback(method: str, host: str) -> None:
    stage = HttpStage(is_local=True)
    answer = stage.socket().asks(method, "ID:a", Host=host)
    assert answer is not None and answer[0] == 421
    assert stage.tunnel.session_count == 0
    assert stage.reports == ["this port serves localhost alone; the header Host names another machine"]


def test_s23_each_request_of_a_socket_has_to_name_this_machine() -> None:
    stage = HttpStage(is_local=True)
    socket = stage.socket()
    assert socket.asks("HEAD", "ID:a", Host="localhost") == (200, b"")
    answer = socket.asks("HEAD", "ID:b", Host="rebound.example")
    assert answer is not None and answer[0] == 421
    assert stage.tunnel.session_count == 1


def test_a_connector_for_other_machines_is_reached_by_any_name() -> None:
    assert HttpStage().socket().asks("HEAD", "ID:a", Host="broker.example") == (200, b"")


def test_a_login_is_answered_by_the_next_get_request() -> None:
    client = HttpStage().client()
    command_id = client.logs_in()
    assert client.receives(wire.Response).correlation_id == command_id


def test_messages_pass_between_clients_over_http_and_over_tcp() -> None:
    stage = HttpStage()
    tunnelled = stage.logged_in()
    tcp = stage.world.connect()
    consumer_id = wire.ConsumerId(connection_id=tcp.connection_id, session_id=1, value=1)
    tcp.sends(wire.ConsumerInfo(consumer_id=consumer_id, destination=QUEUE, prefetch_size=10))
    produces(tunnelled, "one", "two")
    stage.world.settle()
    assert [(message.content or b"")[4:] for message in tcp.dispatched()] == [b"one", b"two"]


def test_a_get_request_that_waits_is_answered_when_a_message_comes() -> None:
    stage = HttpStage()
    consumer, producer = stage.logged_in("c"), stage.logged_in("p")
    consumer_id = consumes(consumer)
    assert consumer.polls() is None
    produces(producer, "late")
    dispatch = consumer.polls()
    assert isinstance(dispatch, wire.MessageDispatch)
    assert dispatch.consumer_id == consumer_id
    assert texts([dispatch]) == ["late"]


def test_messages_are_dispatched_and_acknowledged_in_order() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    produces(client, *[str(number) for number in range(20)])
    consumer_id = consumes(client, prefetch=5)
    received: list[str] = []
    while dispatches := [c for c in client.reads_all() if isinstance(c, wire.MessageDispatch)]:
        received += texts(dispatches)
        for dispatch in dispatches:
            assert dispatch.message is not None
            last = dispatch.message.message_id
            ack = wire.MessageAck(consumer_id=consumer_id, last_message_id=last, destination=QUEUE)
            ack.ack_type, ack.message_count = 2, 1
            client.posts(ack)
    assert received == [str(number) for number in range(20)]


def test_commands_may_be_sent_compressed() -> None:
    client = HttpStage().client()
    assert client.writer.asks("OPTIONS")
    login = wire.ConnectionInfo(connection_id=wire.ConnectionId("c"), client_id="c")
    login.response_required = True
    assert b"Accepts-Encoding: gzip" in client.writer.transport.written
    body = gzip.compress(text_of(login))
    assert client.writer.asks("POST", client.name, body, Content_Type="application/x-gzip") == (200, b"")
    assert client.receives(wire.Response)


def test_a_wire_format_info_is_accepted_and_has_no_effect() -> None:
    client = HttpStage().client()
    client.posts(wire_format_info(WireFormatPreferences(version=3, tight=True)))
    client.logs_in()
    assert client.receives(wire.Response)


def test_requests_behind_one_that_waits_are_answered_in_order() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    assert client.polls() is None
    client.reader.sends(request("POST", client.name, KEEP_ALIVE) + request("OPTIONS", None))
    assert client.reader.answer() is None
    produces(client, "x")
    consumes(client)
    assert texts([client.polls()]) == ["x"]
    assert client.reader.answer("POST") == (200, b"")
    assert client.reader.answer("OPTIONS") == (200, b"")


def test_a_post_request_waits_while_the_broker_takes_no_commands_of_the_client() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    session = stage.tunnel.find(client.name, stage.connections[0]._settings)
    assert session is not None
    session.pause_reading()
    client.begins(wire.KeepAliveInfo(), response=True)
    assert client.writer.answer("POST") is None
    session.resume_reading()
    stage.settle()
    assert client.writer.answer("POST") == (200, b"")


def paused_session(stage: HttpStage, name: str = "ID:client-1") -> TunnelSession:
    """The session of a client, whose connection takes no commands."""
    session = stage.tunnel.find(name, stage.connections[0]._settings)
    assert session is not None
    session.pause_reading()
    return session


def pending(stage: HttpStage) -> int:
    """The bytes that count for the receive budget."""
    budget = stage.turn.budget
    return sum(budget.pending(holder) for holder in budget.holders())


def test_a_second_request_with_a_command_is_refused_while_one_waits() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    session = paused_session(stage)
    client.begins(wire.KeepAliveInfo())
    second = stage.socket().asks("POST", client.name, KEEP_ALIVE)
    assert second is not None and second[0] == 409
    session.resume_reading()
    stage.settle()
    assert client.writer.answer("POST") == (200, b"")


def test_a_command_that_waits_counts_for_the_receive_budget_until_it_is_passed_on() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    session = paused_session(stage)
    assert pending(stage) == 0
    client.begins(wire.KeepAliveInfo())
    assert 0 < pending(stage) <= len(KEEP_ALIVE)
    session.resume_reading()
    stage.settle()
    assert pending(stage) == 0


def test_a_command_that_waits_is_refused_if_the_session_ends_meanwhile() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    session = paused_session(stage)
    client.begins(wire.KeepAliveInfo())
    session.close()
    stage.settle()
    assert client.writer.answer("POST") == (410, b"the session has ended\n")


def test_a_socket_that_breaks_lets_another_request_wait() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    session = paused_session(stage)
    client.begins(wire.KeepAliveInfo())
    client.writer.vanishes()
    other = stage.socket()
    assert other.asks("POST", client.name, KEEP_ALIVE) is None
    session.resume_reading()
    stage.settle()
    assert other.answer("POST") == (200, b"")


def test_requests_of_a_client_that_does_not_read_its_answers_wait() -> None:
    stage = HttpStage()
    socket = stage.socket()
    socket.transport.room = 0
    for _ in range(20):
        socket.sends(request("OPTIONS", None) * 100)
    one_answer = len(socket.transport.written) // socket.transport.written.count(b"HTTP/1.1 ")
    assert MAX_UNREAD_ANSWERS < socket.transport.buffered <= MAX_UNREAD_ANSWERS + one_answer
    assert not socket.transport.reading
    while socket.transport.buffered:
        socket.transport.buffered = 0
        socket.pump.resume_writing()
        stage.settle()
    assert socket.transport.written.count(b"HTTP/1.1 200 ") == 2_000
    assert socket.transport.reading


def test_a_client_that_asks_often_and_reads_nothing_leaves_commands_in_the_limit_of_dispatches() -> None:
    stage = HttpStage()
    consumer, producer = stage.logged_in("c"), stage.logged_in("p")
    consumes(consumer, prefetch=1000)
    consumer.reader.transport.room = 0
    consumer.reader.sends(request("GET", consumer.name) * 60)
    produces(producer, *["x" * 50_000 for _ in range(60)])
    assert consumer.reader.transport.buffered < MAX_UNREAD_ANSWERS + 2 * 60_000


def test_many_requests_of_a_client_are_answered_in_several_turns() -> None:
    stage = HttpStage()
    socket = stage.socket()
    socket.pump.data_received(request("OPTIONS", None) * 500)
    stage.loop.turn()
    assert 0 < socket.transport.written.count(b"HTTP/1.1 200 ") <= MAX_EVENTS_PER_TURN
    stage.settle()
    assert socket.transport.written.count(b"HTTP/1.1 200 ") == 500


def test_a_body_in_small_pieces_takes_the_memory_of_its_bytes() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    client.writer.begins("POST", client.name, Transfer_Encoding="chunked")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(50):
        client.writer.sends(b"1\r\nx\r\n" * 100)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert pending(stage) == 5_000
    assert used < 60_000


def test_a_client_that_does_not_ask_gets_no_more_dispatches_than_its_output_may_hold() -> None:
    stage = HttpStage()
    consumer, producer = stage.logged_in("c"), stage.logged_in("p")
    consumes(consumer, prefetch=1000)
    produces(producer, *["x" * 100_000 for _ in range(40)])
    session = stage.tunnel.find("c", stage.connections[0]._settings)
    assert session is not None
    assert session.get_write_buffer_size() < 2 * 1024 * 1024
    assert len(texts(consumer.reads_all())) == 40


def test_a_client_that_only_polls_lives_on_by_the_keep_alives_that_answer_it() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    for _ in range(20):
        stage.passes(INACTIVITY_SECONDS / 3)
        assert {type(command) for command in client.reads_all()} <= {wire.KeepAliveInfo}
    assert client.writer.is_closed  # it had nothing to send for long
    assert stage.tunnel.session_count == 1


def test_a_client_that_asks_no_more_loses_its_session_and_its_messages_go_back() -> None:
    stage = HttpStage()
    silent, other = stage.logged_in("silent"), stage.logged_in("other")
    produces(other, "kept")
    consumes(silent)
    assert texts(silent.reads_all()) == ["kept"]
    stage.passes(INACTIVITY_SECONDS / 3 + 1)  # a keep-alive answers the open request
    consumes(other)
    for _ in range(4):
        stage.passes(INACTIVITY_SECONDS / 3 - 1)
        received = other.reads_all()
        if texts(received):
            break
    assert texts(received) == ["kept"]
    assert stage.tunnel.session_count == 1
    assert silent.writer.asks("POST", "silent", KEEP_ALIVE, Connection="close") is not None


def test_a_client_whose_waiting_request_breaks_loses_its_session_at_once() -> None:
    stage = HttpStage()
    vanishing, other = stage.logged_in("v"), stage.logged_in("o")
    consumes(vanishing)
    produces(other, "kept")
    assert texts(vanishing.reads_all()) == ["kept"]
    vanishing.reader.vanishes()
    assert stage.tunnel.session_count == 1
    consumes(other)
    dispatch = other.receives(wire.MessageDispatch)
    assert texts([dispatch]) == ["kept"]
    assert dispatch.redelivery_counter == 1


def test_a_session_ends_with_the_client_s_shutdown_and_its_name_can_be_used_again() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    assert client.polls() is None
    client.posts(wire.RemoveInfo(object_id=wire.ConnectionId(client.name)))
    client.posts(wire.ShutdownInfo())
    status = client.reader.answer()
    assert status is not None and status[0] == 410
    assert stage.tunnel.session_count == 0
    assert stage.admission.count == 0
    assert stage.reports == []
    assert stage.client().polls() is not None


def test_a_client_reads_why_its_login_was_refused() -> None:
    stage = HttpStage()
    first, second = stage.logged_in("a"), stage.client("b")
    assert first.polls() is None
    info = wire.ConnectionInfo(connection_id=wire.ConnectionId("b"), client_id="a")
    second.posts(info, response=True)
    refusal = second.receives(wire.ExceptionResponse)
    assert refusal.exception.class_name == "javax.jms.InvalidClientIDException"


def test_a_session_without_a_login_ends_after_the_login_timeout() -> None:
    stage = HttpStage()
    stage.client()
    stage.passes(9)
    assert stage.tunnel.session_count == 1
    stage.passes(4)
    assert stage.tunnel.session_count == 0


def test_a_session_has_an_inactivity_period_even_if_the_connector_has_none() -> None:
    stage = HttpStage(settings={"max_inactivity_ms": 0})
    client = stage.logged_in()
    client.reader.vanishes()
    other = stage.logged_in("other")
    other.reader.transport.closing = True
    stage.passes(3 * INACTIVITY_SECONDS)
    assert stage.tunnel.session_count == 0


def test_the_encoding_of_a_tunnel_does_not_depend_on_options_of_the_binary_encoding() -> None:
    options = {"wireFormat.version": "3", "wireFormat.tightEncodingEnabled": "true", "wireFormat.cacheEnabled": "true"}
    stage = HttpStage(settings={"options": options})
    client = stage.logged_in()
    produces(client, "x")
    consumes(client)
    assert texts(client.reads_all()) == ["x"]


@pytest.mark.parametrize(
    ("method", "name", "status"),
    [
        ("GET", None, 400),
        ("POST", None, 400),
        ("HEAD", None, 400),
        ("HEAD", "ID:client-1", 400),
        ("HEAD", "x" * (MAX_CLIENT_ID + 1), 400),
        ("GET", "unknown", 404),
        ("POST", "unknown", 404),
        ("PUT", "ID:client-1", 405),
        ("DELETE", "ID:client-1", 405),
        ("TRACE", "ID:client-1", 405),
    ],
)
def test_other_requests_are_refused_in_one_line(method: str, name: str | None, status: int) -> None:
    stage = HttpStage()
    stage.client()
    answer = stage.socket().asks(method, name)
    assert answer is not None
    assert answer[0] == status
    assert answer[1].count(b"\n") == (0 if method == "HEAD" else 1)
    assert len(stage.reports) == 1
    assert stage.tunnel.session_count == 1


@pytest.mark.parametrize("method", ["HEAD", "GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("header", [{"Origin": "null"}, {"Origin": "http://broker"}, {"Sec_Fetch_Site": "same-origin"}])
def test_pages_in_browsers_are_refused_even_of_the_broker_s_own_name(method: str, header: dict[str, str]) -> None:
    stage = HttpStage()
    stage.logged_in()
    socket = stage.socket()
    answer = socket.asks(method, "ID:client-1" if method != "HEAD" else "new", KEEP_ALIVE, **header)
    assert answer is not None and answer[0] == 403
    assert socket.is_closed
    assert stage.tunnel.session_count == 1


def test_a_malformed_header_is_refused_without_a_word_of_it() -> None:
    stage = HttpStage()
    socket = stage.socket()
    socket.sends(b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization : Basic c2VjcmV0\r\n\r\n")
    assert socket.answer() == (400, b"the request is no HTTP\n")
    assert stage.reports == ["the request is no HTTP"]


def test_an_operator_who_stops_a_connector_ends_its_sessions_and_their_messages_go_back() -> None:
    stage = HttpStage()
    settings = ConnectorSettings("http", "http", "127.0.0.1", 8080, "openwire")
    connector = TransportConnector(settings, stage.admission)
    connector.serve(connector._tunnel({"openwire": stage._make}, stage.turn))
    stage.tunnel = cast("Tunnel", connector._sessions)
    client = stage.logged_in()
    produces(client, "kept")
    consumes(client)
    assert texts([client.receives(wire.MessageDispatch)]) == ["kept"]
    client.writer.vanishes()
    client.reader.vanishes()
    assert stage.tunnel.session_count == 1

    async def stop() -> None:
        operations = ConnectorOperations([connector], cast("Any", None), cast("Any", None), cast("Any", None))
        await operations.stop({"connectors": ["http"]})

    asyncio.run(stop())
    stage.settle()
    assert stage.tunnel.session_count == 0
    tcp = stage.world.connect()
    consumer_id = wire.ConsumerId(connection_id=tcp.connection_id, session_id=1, value=1)
    tcp.sends(wire.ConsumerInfo(consumer_id=consumer_id, destination=QUEUE, prefetch_size=10))
    stage.world.settle()
    assert [(message.content or b"")[4:] for message in tcp.dispatched()] == [b"kept"]


def test_a_second_reader_of_a_session_is_refused() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    assert client.polls() is None
    answer = stage.socket().asks("GET", client.name)
    assert answer is not None and answer[0] == 409
    produces(client, "x")
    consumes(client)
    assert texts([client.polls()]) == ["x"]


def test_another_host_can_not_use_a_session() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    thief = stage.socket("192.0.2.7")
    assert (thief.asks("POST", client.name, KEEP_ALIVE) or (0, b""))[0] == 404
    assert (thief.asks("GET", client.name) or (0, b""))[0] == 404


def test_a_command_that_is_no_openwire_ends_the_session() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    answer = client.writer.asks("POST", client.name, b"<java.lang.ProcessBuilder/>")
    assert answer == (400, b"the class 'java.lang.ProcessBuilder' is no structure of OpenWire\n")
    assert stage.tunnel.session_count == 0


def test_sessions_without_end_are_limited_for_one_connector_and_for_all() -> None:
    stage = HttpStage(max_sessions=3)
    clients = [stage.client(f"c{number}") for number in range(3)]
    refused = stage.socket()
    answer = refused.asks("HEAD", "one-too-many")
    assert answer is not None and answer[0] == 503
    stage.admission.leave("127.0.0.1")
    stage.tunnel._sessions.pop("c0")
    assert refused.asks("HEAD", "fits") == (200, b"")
    assert len(clients) == 3


def test_a_host_that_may_open_no_more_connections_opens_no_session() -> None:
    stage = HttpStage()
    stage.admission._max_connections = 1  # type: ignore[misc]
    stage.client("a")
    answer = stage.socket().asks("HEAD", "b")
    assert answer is not None and answer[0] == 503
    assert stage.tunnel.session_count == 1


@pytest.mark.parametrize("declared", [True, False])
def test_bodies_are_limited_before_the_login(declared: bool) -> None:
    stage = HttpStage()
    client = stage.client()
    size = 512 * 1024
    if declared:
        client.writer.begins("POST", client.name, b"", Content_Length=str(size))
    else:
        client.writer.begins("POST", client.name, b"", Transfer_Encoding="chunked")
        client.writer.sends(b"80000\r\n" + b"x" * size)
    answer = client.writer.answer("POST")
    assert answer is not None and answer[0] == 413
    assert client.writer.is_closed


def test_the_frame_of_a_command_is_limited_before_the_login_as_over_tcp() -> None:
    """A short text stands for a large frame where it repeats a string by reference."""
    name = "org.apache.activemq.command."
    ids = f"<{name}BrokerId><value reference='../../../t'/></{name}BrokerId>" * 40
    bomb = f"<{name}ProducerInfo><brokerPath>{ids}</brokerPath><t>{'t' * 6_000}</t></{name}ProducerInfo>"
    stage = HttpStage()
    answer = stage.client().writer.asks("POST", "ID:client-1", bomb.encode())
    assert answer == (400, b"a command is larger than 65536 bytes\n")
    assert stage.logged_in("ID:client-2").writer.asks("POST", "ID:client-2", bomb.encode()) == (200, b"")


def test_a_body_of_a_client_without_a_session_is_limited() -> None:
    stage = HttpStage()
    socket = stage.socket()
    socket.begins("POST", "unknown", b"", Content_Length=str(MAX_BODY_WITHOUT_SESSION + 1))
    answer = socket.answer("POST")
    assert answer is not None and answer[0] == 413
    assert socket.is_closed


@pytest.mark.large
def test_s11_a_compressed_bomb_is_refused_at_the_limit_of_a_command() -> None:
    stage = HttpStage()
    client = stage.client()
    bomb = gzip.compress(b"\0" * (64 * 1024 * 1024))
    answer = client.writer.asks("POST", client.name, bomb, Content_Type="application/x-gzip")
    assert answer is not None and answer[0] == 413
    assert client.writer.asks("POST", client.name, b"x" * 50, Content_Type="application/x-gzip") == (
        400,
        b"the body is no gzip file\n",
    )


def test_s15_a_head_without_end_is_closed() -> None:
    socket = HttpStage().socket()
    socket.sends(b"GET / HTTP/1.1\r\nx: " + b"y" * (2 * MAX_HEADERS))
    answer = socket.answer()
    assert answer is not None and answer[0] == 431
    assert socket.is_closed


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \xd9\xa1\r\n\r\n",
        b"GET / HTTP/1.1\r\nclientID: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"CONNECT\naccept-version:1.2\n\n\0",
        b"\x00\x00\x01\x00\x01ActiveMQ\x00\x00\x00\x0c" + b"\r\n\r\n",
    ],
)
def test_s24_what_is_no_request_is_refused_and_the_socket_closed(head: bytes) -> None:
    stage = HttpStage()
    socket = stage.socket()
    socket.sends(head)
    assert socket.transport.written.startswith(b"HTTP/1.1 ")
    assert socket.is_closed
    assert len(stage.reports) == 1


def test_s24_slow_sockets_are_closed_and_others_are_served() -> None:
    stage = HttpStage()
    silent, slow_head, slow_body = stage.socket(), stage.socket(), stage.socket()
    client = stage.client()
    slow_head.sends(b"GET / HTTP/1.1\r\n")
    slow_body.begins("POST", client.name, b"", Content_Length="1000")
    for _ in range(13):
        slow_head.sends(b"a: b\r\n")
        slow_body.sends(b"x")
        stage.passes(1.0)
    assert [socket.is_closed for socket in (silent, slow_head, slow_body)] == [True, True, True]
    answer = slow_body.answer("POST")
    assert answer is not None and answer[0] == 404  # the session has ended, too


def test_s24_a_request_that_stops_is_told_so() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    client.writer.begins("POST", client.name, b"", Content_Length="1000")
    stage.passes(11)
    answer = client.writer.answer("POST")
    assert answer is not None and answer[0] == 408
    assert client.writer.is_closed


def test_s24_a_body_after_the_login_must_go_on() -> None:
    stage = HttpStage()
    client = stage.logged_in()
    client.writer.begins("POST", client.name, b"", Content_Length="1000")
    for _ in range(20):
        client.writer.sends(b" ")
        stage.passes(BODY_SECONDS / 2)
        client.reads_all()
    assert not client.writer.is_closed
    stage.passes(BODY_SECONDS + 1)
    assert client.writer.is_closed


def test_a_socket_without_requests_is_closed() -> None:
    stage = HttpStage()
    client = stage.client()
    stage.passes(IDLE_SECONDS - 1)
    assert not client.writer.is_closed
    stage.passes(2)
    assert client.writer.is_closed


def test_a_client_that_asks_for_it_is_told_to_send_its_body() -> None:
    client = HttpStage().client()
    body = text_of(wire.KeepAliveInfo())
    before = len(client.writer.transport.written)
    client.writer.begins("POST", client.name, b"", Content_Length=str(len(body)), Expect="100-continue")
    assert client.writer.transport.written[before:].startswith(b"HTTP/1.1 100 ")
    client.writer.sends(body)
    assert client.writer.answer("POST") == (200, b"")


def test_a_socket_is_closed_after_the_answer_if_the_client_asks_for_it() -> None:
    socket = HttpStage().socket()
    socket.begins("OPTIONS", None, Connection="close")
    assert socket.answer("OPTIONS") == (200, b"")
    assert socket.is_closed


@pytest.mark.parametrize(("is_installed", "expected"), [(True, QuickReader), (False, H11Reader)])
def test_httptools_reads_where_it_is_installed(
    is_installed: bool, expected: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if is_installed else None)
    assert request_reader() is expected


@pytest.mark.parametrize(
    ("head", "more", "status"),
    [
        (request("POST", "ID:a", X="").partition(b"Content-Length")[0] + b"X: ", b"a" * 4096, 431),
        (request("POST", "ID:a", Transfer_Encoding="chunked") + b"1", b";a" * 2048, 400),
        (request("POST", "ID:a", Transfer_Encoding="chunked") + b"1\r\nx\r\n0\r\nX: ", b"a" * 4096, 400),
    ],
    ids=["head", "extension of a chunk", "trailer"],
)
def test_s15_s24_what_never_ends_and_has_no_content_is_cut_off(head: bytes, more: bytes, status: int) -> None:
    stage = HttpStage()
    stage.client("ID:a")
    socket = stage.socket()
    socket.sends(head)
    pieces = 0
    while not socket.is_closed and pieces < 50:
        socket.sends(more)
        pieces += 1
    answer = socket.answer("POST")
    assert answer is not None and answer[0] in (status, 400, 431)
    assert pieces < 10


def test_a_trailer_is_no_header() -> None:
    socket = HttpStage().socket()
    head = request("POST", None, Transfer_Encoding="chunked")
    socket.sends(head + b"1\r\nx\r\n0\r\nclientID: ID:a\r\n\r\n")
    assert socket.answer("POST") == (400, b"No clientID header specified\n")


@pytest.mark.parametrize("headers", [{"Connection": "close"}, {"Connection": "Upgrade", "Upgrade": "h2c"}])
def test_requests_that_arrive_together_are_answered_in_order_up_to_one_that_closes(headers: dict[str, str]) -> None:
    socket = HttpStage().socket()
    socket.sends(request("HEAD", "ID:a") + request("OPTIONS", None, b"", **headers) + request("HEAD", "ID:a"))
    assert socket.answer("HEAD") == (200, b"")
    assert socket.answer("OPTIONS") == (200, b"")
    assert socket.answer("HEAD") == (None if "Upgrade" not in headers else (400, b""))
    assert socket.is_closed is ("Upgrade" not in headers)


OFFER = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAAB"}


@pytest.mark.parametrize("step", [1, 10, 10_000])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_command_in_a_request_that_offers_http_2_is_read(is_chunked: bool, step: int) -> None:
    client = HttpStage().logged_in()
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(KEEP_ALIVE), KEEP_ALIVE) if is_chunked else KEEP_ALIVE
    headers = {**OFFER, "Transfer_Encoding": "chunked"} if is_chunked else OFFER
    data = request("POST", client.name, body, **headers) * 2 + request("OPTIONS", None, b"", **OFFER)
    for start in range(0, len(data), step):
        client.writer.sends(data[start : start + step])
    assert [client.writer.answer(method) for method in ("POST", "POST", "OPTIONS")] == [(200, b"")] * 3
    assert not client.writer.is_closed


@pytest.mark.parametrize("offer", [OFFER, {"Connection": "close, upgrade", "Upgrade": "h2c"}])
def test_s24_bytes_of_a_body_behind_an_offer_are_no_request(offer: dict[str, str]) -> None:
    stage = HttpStage()
    hidden = request("HEAD", "ID:victim")
    socket = stage.socket()
    socket.begins("OPTIONS", None, hidden, Content_Length=str(len(hidden)), **offer)
    assert socket.answer("OPTIONS") == (200, b"")
    assert socket.answer() is None
    assert stage.tunnel.session_count == 0


def test_s24_a_tunnel_is_refused_and_the_socket_closed() -> None:
    stage = HttpStage()
    hidden = request("HEAD", "ID:victim")
    for headers in ({}, {"Content_Length": str(len(hidden))}, {"Transfer_Encoding": "chunked"}):
        socket = stage.socket()
        socket.begins("CONNECT", None, hidden, **headers)
        assert socket.answer("GET") == (405, b"this port opens no tunnel for CONNECT\n")
        assert socket.is_closed
    assert stage.tunnel.session_count == 0


def test_s24_a_request_of_http_1_1_names_its_host_once() -> None:
    for head in (b"HEAD / HTTP/1.1\r\nclientID: ID:a\r\n\r\n", request("HEAD", "ID:a", b"", **{"host": "b"})):
        stage = HttpStage()
        socket = stage.socket()
        socket.sends(head)
        assert socket.is_closed
        assert stage.tunnel.session_count == 0


def test_a_closed_socket_leaves_no_cycle(reader: type[RequestReader]) -> None:
    stage = HttpStage()
    for number in range(2):
        gc.collect()
        client = stage.logged_in(f"ID:client-{number}")
        unread = stage.socket()
        unread.sends(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n" + b"x" * 50)
        refused = stage.socket()
        if reader is QuickReader:  # an error of h11 refers to itself
            refused.sends(b"not HTTP at all\r\n\r\n")
        for socket in (unread, refused, client.reader, client.writer):
            socket.vanishes()
        stage.connections.clear()
        stage.world.settle()
        del client, unread, refused, socket
    assert not {"QuickParser", "QuickReader", "HttpRequestParser", "HttpConnection"} & cycles()
