"""A WebSocket as a dialogue in memory: the handshake, messages, their limits, and the end."""

from __future__ import annotations

import gc
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Opcode
from websockets.protocol import OPEN

from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.stomp.broker_connection import StompBrokerConnection
from spanwire.transports.base import CLOSE_LINGER, MAX_BYTES_PER_CALLBACK, Carrier
from spanwire.transports.websocket.connection import (
    HANDSHAKE_DEADLINE,
    MAX_FRAMES_PER_TURN,
    MAX_UNREAD_PONGS,
    WebSocketConnection,
)
from spanwire.transports.websocket.handshake import MAX_REQUEST, Handshake
from spanwire.transports.websocket.output import messages
from tests.support.garbage import cycles
from tests.support.stomp_dialogue import Peer, Stage
from tests.support.websocket_dialogue import ACCEPTED, Client, Dialogue, connected, frame, request
from tests.unit.transports.test_pump import Stage as PumpStage

TEXT, BINARY, CONT, PING, PONG, CLOSE = Opcode.TEXT, Opcode.BINARY, Opcode.CONT, Opcode.PING, Opcode.PONG, Opcode.CLOSE
ORIGIN = "https://shop.example"


def status_of(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer
    return int(answer[9:12])


def test_a_handshake_is_answered_as_the_specification_shows() -> None:
    dialogue = Dialogue()
    answer = dialogue.takes(request("Sec-WebSocket-Protocol: v12.stomp"))
    head, _, rest = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 101 Switching Protocols"
    assert f"Sec-WebSocket-Accept: {ACCEPTED}" in lines
    assert "Sec-WebSocket-Protocol: v12.stomp" in lines
    assert rest == b""
    assert dialogue.inners == 1


def test_a_handshake_may_arrive_byte_by_byte_with_the_first_frame_behind_it() -> None:
    dialogue = Dialogue()
    answer = b""
    for byte in request() + frame(TEXT, b"CONNECT\n\n\0"):
        answer += dialogue.takes(bytes([byte]))
    assert status_of(answer) == 101
    assert dialogue.contents == b"CONNECT\n\n\0"


def test_a_handshake_leaves_no_cycle() -> None:
    for text in (request("Sec-WebSocket-Protocol: v12.stomp"), request("Sec-WebSocket-Protocol: mqtt"), b"GET\r\n\r\n"):
        gc.collect()
        handshake = Handshake([], 1_000)
        handshake.receive_data(text)
        del handshake
        assert "ServerProtocol" not in cycles()


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ((), None),
        (("v10.stomp",), "v10.stomp"),
        (("v10.stomp", "v11.stomp", "v12.stomp"), "v12.stomp"),
        (("mqtt", "v11.stomp"), "v11.stomp"),
        (("stomp",), "stomp"),
    ],
)
def test_the_newest_sub_protocol_of_stomp_is_taken_and_none_is_needed(
    offered: tuple[str, ...], chosen: str | None
) -> None:
    client = Client(Dialogue(), subprotocols=offered)
    assert client.shakes_hands().headers.get("Sec-WebSocket-Protocol") == chosen
    assert client.protocol.state is OPEN


def test_a_client_that_offers_foreign_sub_protocols_alone_is_refused() -> None:
    dialogue = Dialogue()
    assert status_of(dialogue.takes(request("Sec-WebSocket-Protocol: mqtt, mqttv3.1"))) == 400
    assert dialogue.connection.closed
    assert "mqtt" in dialogue.reports[0]
    assert dialogue.inners == 0


def test_s23_a_page_of_another_origin_opens_no_websocket_and_a_program_does() -> None:
    refused = Dialogue()
    assert status_of(refused.takes(request(f"Origin: {ORIGIN}"))) == 403
    assert refused.connection.closed
    assert ORIGIN in refused.reports[0]
    assert "websocket.allowedOrigins" in refused.reports[0]
    assert status_of(Dialogue().takes(request())) == 101


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (ORIGIN, 101),
        ("https://shop.example:8443", 403),
        ("http://shop.example", 403),
        ("https://shop.example.evil.example", 403),
        ("null", 403),
        ("http://broker:61614", 403),  # the name in Host, as after a change of its address (DNS rebinding)
    ],
)
def test_s23_the_origin_must_be_one_of_the_list(origin: str, status: int) -> None:
    assert status_of(Dialogue((ORIGIN,)).takes(request(f"Origin: {origin}"))) == status
    assert status_of(Dialogue(("*",)).takes(request(f"Origin: {origin}"))) == 101


def test_s23_two_origins_are_refused() -> None:
    assert status_of(Dialogue((ORIGIN,)).takes(request(f"Origin: {ORIGIN}", "Origin: http://evil.example"))) == 400


def test_s16_an_error_repeats_nothing_of_the_request() -> None:
    dialogue = Dialogue()
    answer = dialogue.takes(request("Origin: http://<script>alert(1)</script>\t\x80"))
    assert status_of(answer) == 403
    assert b"script" not in answer
    assert b"X-Content-Type-Options: nosniff" in answer
    assert dialogue.reports[0].isprintable()


@pytest.mark.parametrize(
    ("first", "status"),
    [
        ("POST /stomp HTTP/1.1", 405),
        ("GET /stomp HTTP/1.0", 505),
    ],
)
def test_another_request_is_refused_by_its_status(first: str, status: int) -> None:
    dialogue = Dialogue()
    assert status_of(dialogue.takes(request(first=first))) == status
    assert dialogue.connection.closed


def test_a_browser_that_opens_the_port_as_a_page_reads_what_it_is() -> None:
    answer = Dialogue().takes(b"GET / HTTP/1.1\r\nHost: broker:61614\r\n\r\n")
    assert status_of(answer) == 426
    assert b"STOMP over WebSocket" in answer


@pytest.mark.parametrize(
    ("beginning", "name"),
    [
        (b"CONNECT\naccept-version:1.2\n\n\0", "not WebSocket"),
        (b"\x00\x00\x01\x10\x01ActiveMQ", "not WebSocket"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
        (b"AMQP\x00\x01\x00\x00", "AMQP"),
    ],
)
def test_a_client_of_another_protocol_is_closed_at_once(beginning: bytes, name: str) -> None:
    dialogue = Dialogue()
    assert dialogue.takes(beginning) == b""
    assert dialogue.connection.closed
    assert name in dialogue.reports[0]


@pytest.mark.parametrize("size", [1, 1000, 60_000])
def test_s15_a_handshake_that_never_ends_is_closed_at_its_limit(size: int) -> None:
    dialogue = Dialogue()
    endless = request().removesuffix(b"\r\n") + b"Cookie: " + b"x" * (4 * MAX_REQUEST)
    answer = b""
    most = 0
    for start in range(0, len(endless), size):
        answer += dialogue.takes(endless[start : start + size])
        most = max(most, dialogue.connection.pending_bytes)
        if dialogue.connection.closed:
            break
    assert status_of(answer) == 431
    assert most <= MAX_REQUEST + size
    assert dialogue.inners == 0


def test_s15_thousands_of_headers_are_refused() -> None:
    answer = Dialogue().takes(request(*(f"h{number}: 1" for number in range(1000))))
    assert status_of(answer) == 431


@pytest.mark.parametrize("timeout", [HANDSHAKE_DEADLINE, 2.5])
def test_s24_a_handshake_in_single_bytes_ends_at_its_deadline(timeout: float) -> None:
    dialogue = Dialogue(settings=ConnectionSettings(login_timeout=timeout))
    for byte in request():
        dialogue.takes(bytes([byte]))
        dialogue.passes(0.25)
        if dialogue.connection.closed:
            break
    assert dialogue.now.monotonic == 1000.0 + timeout
    assert "handshake did not end" in dialogue.reports[0]


def test_the_deadline_of_the_login_counts_from_the_start_of_the_connection() -> None:
    dialogue = Dialogue()
    start = dialogue.now.monotonic
    dialogue.passes(5)
    dialogue.takes(request())
    assert dialogue.started is not None
    assert dialogue.started.monotonic == start


def test_the_connection_inside_is_the_one_that_the_broker_knows() -> None:
    dialogue = Dialogue()
    carrier: Carrier = dialogue.connection
    assert isinstance(carrier, Carrier)
    carried = [carrier.carried]
    connected(dialogue)
    carried.append(carrier.carried)
    assert carried == [dialogue.connection, dialogue.inner]


def test_text_binary_and_fragments_become_one_stream_of_bytes() -> None:
    dialogue = Dialogue()
    client = connected(dialogue)
    client.sends("one", b"\xfftwo")
    euro = "€".encode()
    dialogue.takes(
        frame(TEXT, b"three" + euro[:1], is_last=False)
        + frame(PING, b"between")
        + frame(CONT, euro[1:2], is_last=False)
        + frame(CONT, b"", is_last=False)
        + frame(CONT, euro[2:])
    )
    assert dialogue.contents == b"one\xfftwothree" + euro


@pytest.mark.parametrize(
    "data",
    [
        frame(TEXT, b"\xff"),
        frame(TEXT, "€".encode()[:2]),
        frame(TEXT, "€".encode()[:2], is_last=False) + frame(CONT, b"x"),
        frame(TEXT, b"\xed\xa0\x80"),
    ],
)
def test_a_text_that_is_no_utf_8_ends_the_connection_with_1007(data: bytes) -> None:
    dialogue = Dialogue()
    client = connected(dialogue)
    client.hears(dialogue.takes(data))
    assert client.protocol.close_rcvd is not None
    assert client.protocol.close_rcvd.code == 1007
    assert dialogue.connection.closed
    assert dialogue.contents in (b"", "€".encode()[:2])


def test_what_follows_a_text_that_is_no_utf_8_is_not_passed_on() -> None:
    dialogue = Dialogue()
    client = connected(dialogue)
    client.hears(dialogue.takes(frame(TEXT, b"before") + frame(TEXT, b"\xff") + frame(TEXT, b"behind")))
    assert client.protocol.close_rcvd is not None
    assert client.protocol.close_rcvd.code == 1007
    assert dialogue.contents == b"before"


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\x03abc",  # without a mask
        b"\xc1\x80\x00\x00\x00\x00",  # reserved bit of compression
        b"\x83\x80\x00\x00\x00\x00",  # reserved opcode
        frame(CONT, b"x"),  # continues nothing
        frame(TEXT, b"x", is_last=False) + frame(TEXT, b"x"),  # begins inside a message
        frame(PING, b"x" * 125).replace(b"\x89", b"\x09", 1),  # ping in parts
        b"\x89\xfe\x00\x7e\x00\x00\x00\x00" + b"x" * 126,  # long ping
        b"\x88\x81\x00\x00\x00\x00x",  # close with one byte
        frame(CLOSE, struct.pack("!H", 1005)),
        frame(CLOSE, struct.pack("!H", 65535)),
    ],
)
def test_a_broken_frame_ends_the_connection_with_1002(data: bytes) -> None:
    dialogue = Dialogue()
    client = connected(dialogue)
    client.hears(dialogue.takes(data))
    assert client.protocol.close_rcvd is not None
    assert client.protocol.close_rcvd.code == 1002
    assert dialogue.connection.closed


def test_s11_compression_is_never_negotiated_and_a_compressed_frame_is_never_inflated() -> None:
    dialogue = Dialogue()
    answer = dialogue.takes(request("Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"))
    assert status_of(answer) == 101
    assert b"Extensions" not in answer
    bomb = zlib.compress(bytes(10_000_000))
    dialogue.takes(b"\xc2\xfe" + struct.pack("!H", len(bomb)) + b"\0\0\0\0" + bomb)
    assert dialogue.connection.closed
    assert dialogue.contents == b""


@pytest.mark.parametrize("claim", [b"\x81\xff" + struct.pack("!Q", 1 << 62), b"\x81\xff" + b"\xff" * 8])
def test_s14_a_claim_of_a_gigantic_frame_is_refused_and_allocates_nothing(claim: bytes) -> None:
    dialogue = Dialogue(settings=ConnectionSettings(max_frame_size=1000))
    client = connected(dialogue)
    client.hears(dialogue.takes(claim))
    assert client.protocol.close_rcvd is not None
    assert client.protocol.close_rcvd.code == 1009
    assert dialogue.connection.closed
    assert dialogue.connection.pending_bytes < 1000


def test_s15_fragments_without_end_are_refused_at_the_limit_of_a_message() -> None:
    dialogue = Dialogue(settings=ConnectionSettings(max_frame_size=1000))
    client = connected(dialogue)
    dialogue.takes(frame(BINARY, b"x" * 100, is_last=False))
    for _ in range(8):
        dialogue.takes(frame(CONT, b"x" * 100, is_last=False))
    assert not dialogue.connection.closed
    client.hears(dialogue.takes(frame(CONT, b"x" * 200, is_last=False)))
    assert client.protocol.close_rcvd is not None
    assert client.protocol.close_rcvd.code == 1009


def test_s15_empty_fragments_without_end_leave_nothing_behind() -> None:
    dialogue = Dialogue()
    connected(dialogue)
    dialogue.takes(frame(TEXT, b"", is_last=False))
    for _ in range(50):
        dialogue.takes(frame(CONT, b"", is_last=False) * 100)
        assert dialogue.connection.pending_bytes == 0
    assert not dialogue.connection.closed
    assert dialogue.contents == b""


def test_many_small_frames_are_read_over_several_turns() -> None:
    dialogue = Dialogue()
    connected(dialogue)
    dialogue.inner.received.clear()
    small = frame(BINARY, b"\n")
    count = MAX_BYTES_PER_CALLBACK // len(small)
    dialogue.connection.receive_data(small * count, dialogue.now)
    turns = 1
    assert 0 < len(dialogue.contents) < 2 * MAX_FRAMES_PER_TURN
    while dialogue.connection.holds_requests:
        before = len(dialogue.contents)
        dialogue.connection.go_on(dialogue.now)
        assert len(dialogue.contents) - before < 2 * MAX_FRAMES_PER_TURN
        turns += 1
    assert dialogue.contents == b"\n" * count
    assert turns > count // (2 * MAX_FRAMES_PER_TURN)


def test_a_large_message_is_passed_on_in_pieces_and_waits_while_the_broker_wants_nothing() -> None:
    dialogue = Dialogue()
    connected(dialogue)
    whole = random.Random(1).randbytes(5 * MAX_BYTES_PER_CALLBACK + 7)
    wire = frame(BINARY, whole)
    dialogue.connection.receive_data(wire, dialogue.now)
    assert len(dialogue.contents) == MAX_BYTES_PER_CALLBACK
    assert dialogue.connection.pending_bytes == len(whole) - MAX_BYTES_PER_CALLBACK
    dialogue.inner.wants_read = False
    assert not dialogue.connection.holds_requests
    assert not dialogue.connection.wants_read
    dialogue.inner.wants_read = True
    while dialogue.connection.holds_requests:
        dialogue.connection.go_on(dialogue.now)
    assert dialogue.contents == whole
    assert dialogue.connection.pending_bytes == 0


def test_what_a_client_sent_before_its_close_frame_is_acted_on_in_later_turns_too() -> None:
    dialogue = Dialogue()
    connected(dialogue)
    whole = bytes(3 * MAX_BYTES_PER_CALLBACK)
    dialogue.inner.wants_read = False
    dialogue.connection.receive_data(frame(BINARY, whole) + frame(CLOSE, b""), dialogue.now)
    assert not dialogue.connection.closed
    while dialogue.connection.holds_requests:
        dialogue.connection.go_on(dialogue.now)
    assert dialogue.contents == whole
    assert dialogue.connection.closed


def test_what_a_client_sent_before_the_end_of_its_socket_is_passed_on_though_the_connection_inside_waits() -> None:
    stage = PumpStage()
    dialogue = Dialogue(now=stage.loop.now)
    pump, socket = stage.connect(dialogue.connection)
    pump.data_received(request())
    dialogue.inner.to_send.append(b"CONNECTED\n\n\0")
    stage.loop.settle()
    whole = random.Random(1).randbytes(3 * MAX_BYTES_PER_CALLBACK)
    dialogue.inner.wants_read = False
    pump.data_received(frame(BINARY, whole))
    assert pump.eof_received()
    stage.loop.settle()
    assert dialogue.contents == whole
    assert socket.closing
    assert dialogue.inner.eofs == 1


def test_requests_that_the_connection_inside_holds_come_first() -> None:
    dialogue = Dialogue()
    connected(dialogue)
    dialogue.inner.held.append(b"held")
    dialogue.connection.receive_data(frame(BINARY, bytes(2 * MAX_BYTES_PER_CALLBACK)), dialogue.now)
    dialogue.inner.received.clear()
    dialogue.connection.go_on(dialogue.now)
    assert dialogue.inner.received == [b"held"]
    dialogue.connection.go_on(dialogue.now)
    assert len(dialogue.contents) == len(b"held") + MAX_BYTES_PER_CALLBACK


def test_s15_before_the_login_a_message_is_kept_up_to_the_limit_of_a_login() -> None:
    dialogue = Dialogue()
    client = connected(dialogue, logged_in=False)
    wire = frame(TEXT, b"CONNECT\nheader:" + b"x" * 100_000)
    answer = b""
    for start in range(0, len(wire), 1000):
        answer += dialogue.takes(wire[start : start + 1000])
        if dialogue.connection.closed:
            break
    assert dialogue.connection.pending_bytes < 10_000
    client.hears(answer)
    assert client.protocol.close_rcvd is not None
    assert client.protocol.close_rcvd.code == 1009


def test_each_frame_of_stomp_is_one_message_text_where_it_is_utf_8() -> None:
    dialogue = Dialogue()
    client = connected(dialogue)
    dialogue.inner.to_send += [
        b"MESSAGE\n",
        b"ack:1\n\n",
        b"K\xc3\xb6ln\0",
        b"\n",
        b"MESSAGE\n\n",
        b"\xff\0\0",
        b"RECEIPT\n\n\0",
    ]
    client.exchanges()
    assert client.receives() == [
        (TEXT, "MESSAGE\nack:1\n\nKöln\0".encode()),
        (TEXT, b"\n"),
        (BINARY, b"MESSAGE\n\n\xff\0\0"),
        (TEXT, b"RECEIPT\n\n\0"),
    ]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 70_000])
def test_frames_of_every_size_are_read_by_the_library(size: int) -> None:
    dialogue = Dialogue()
    client = connected(dialogue)
    body = b"x" * size + b"\0"
    dialogue.inner.to_send.append(body)
    client.exchanges()
    assert client.receives() == [(TEXT, body)]


@given(st.lists(st.binary(max_size=300), max_size=12))
def test_no_byte_of_the_output_is_lost_however_it_is_cut(chunks: list[bytes]) -> None:
    dialogue = Dialogue()
    client = connected(dialogue)
    client.hears(b"".join(messages(chunks)))
    assert b"".join(data for _, data in client.receives()) == b"".join(chunks)


def test_a_ping_is_answered_with_its_bytes() -> None:
    dialogue = Dialogue()
    connected(dialogue)
    assert dialogue.takes(frame(PING, b"12")) == b"\x8a\x0212"
    assert dialogue.takes(frame(PONG, b"unasked")) == b""


def test_a_client_that_pings_and_reads_nothing_is_closed() -> None:
    dialogue = Dialogue()
    connected(dialogue)
    written = 0
    pings = frame(PING, b"x" * 125) * 100
    while not dialogue.connection.closed:
        dialogue.connection.receive_data(pings, dialogue.now)
        written += sum(map(len, dialogue.connection.data_to_send()))
        dialogue.connection.unsent(written)
        assert written < 2 * MAX_UNREAD_PONGS
    assert written > MAX_UNREAD_PONGS / 2


def test_a_client_that_reads_its_pongs_may_ping_for_ever() -> None:
    dialogue = Dialogue()
    connected(dialogue)
    for _ in range(20):
        dialogue.takes(frame(PING, b"x" * 125) * 100)
    assert not dialogue.connection.closed


def test_a_silent_client_is_pinged_and_closed_if_it_does_not_answer() -> None:
    dialogue = Dialogue(settings=ConnectionSettings(max_inactivity_ms=30_000))
    connected(dialogue)
    dialogue.passes(29)
    assert dialogue.writes() == b""
    dialogue.passes(1)
    assert dialogue.writes() == b"\x89\x00"
    dialogue.passes(29)
    assert not dialogue.connection.closed
    dialogue.passes(1)
    assert dialogue.connection.closed


def test_a_client_that_answers_pings_stays() -> None:
    dialogue = Dialogue(settings=ConnectionSettings(max_inactivity_ms=30_000))
    client = connected(dialogue)
    for _ in range(5):
        dialogue.passes(40)
        client.exchanges()
    assert not dialogue.connection.closed


@pytest.mark.parametrize("reason", ["not asked for", "not read", "behind unread output"])
def test_silence_is_no_sign_where_no_answer_can_come(reason: str) -> None:
    dialogue = Dialogue(settings=ConnectionSettings(max_inactivity_ms=0 if reason == "not asked for" else 30_000))
    connected(dialogue)
    dialogue.inner.wants_read = reason != "not read"
    if reason == "behind unread output":
        dialogue.connection.unsent(1)
    dialogue.passes(1000)
    assert not dialogue.connection.closed


def test_a_client_that_closes_gets_its_code_back() -> None:
    dialogue = Dialogue()
    client = connected(dialogue)
    client.sends(b"last words")
    client.protocol.send_close(1001, "page closed")
    client.exchanges()
    assert client.protocol.close_rcvd is not None
    assert client.protocol.close_rcvd.code == 1001
    assert dialogue.connection.closed
    assert dialogue.contents == b"last words"


def test_a_stomp_connection_that_ends_says_goodbye_and_awaits_the_answer() -> None:
    dialogue = Dialogue()
    client = connected(dialogue)
    dialogue.inner.to_send.append(b"RECEIPT\n\n\0")
    dialogue.inner.closed = True
    client.hears(dialogue.writes())
    assert client.receives() == [(TEXT, b"RECEIPT\n\n\0")]
    assert client.protocol.close_rcvd is not None
    assert client.protocol.close_rcvd.code == 1000
    assert not dialogue.connection.closed
    assert dialogue.connection.wants_read
    dialogue.takes(b"".join(client.protocol.data_to_send()))
    assert dialogue.connection.closed


def test_a_client_that_does_not_answer_a_goodbye_is_closed_all_the_same() -> None:
    dialogue = Dialogue()
    connected(dialogue)
    dialogue.inner.closed = True
    assert dialogue.writes() == b"\x88\x02\x03\xe8"
    dialogue.passes(0.25)
    assert not dialogue.connection.closed
    dialogue.takes(frame(TEXT, b"still talking"))
    assert b"still" not in dialogue.contents
    dialogue.passes(CLOSE_LINGER)
    assert dialogue.connection.closed


def test_the_end_of_the_socket_reaches_the_connection_inside() -> None:
    dialogue = Dialogue()
    connected(dialogue)
    dialogue.connection.receive_eof(dialogue.now)
    assert dialogue.inner.eofs == 1
    assert dialogue.connection.closed
    assert dialogue.connection.next_timeout() is None


class StompOverWebSocket:
    """A real broker, a client of it over WebSocket, and a neighbour over TCP."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.neighbour: Peer = self.stage.peer("1.2")
        self.dialogue = Dialogue(
            factory=lambda settings, now: StompBrokerConnection(self.stage.broker, settings, now),
            now=self.stage.environment.now,
        )
        self.client = Client(self.dialogue)
        self.client.shakes_hands()

    def sends(self, *texts: str | bytes) -> list[bytes]:
        self.client.sends(*texts)
        self.stage.settle()
        self.client.exchanges()
        return [data for _, data in self.client.receives()]

    def logs_in(self) -> None:
        (answer,) = self.sends("CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        assert answer.startswith(b"CONNECTED\n")


def test_a_message_goes_from_a_socket_to_a_websocket_and_back() -> None:
    both = StompOverWebSocket()
    both.logs_in()
    both.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\nack:client\n\n\0")
    both.neighbour.sends("SUBSCRIBE\nid:1\ndestination:/queue/B\n\n\0")
    both.neighbour.sends("SEND\ndestination:/queue/A\n\nhello\0")
    (message,) = both.sends("\n")
    assert message.startswith(b"MESSAGE\n")
    assert message.endswith(b"\n\nhello\0")
    both.sends("SEND\ndesti", "nation:/queue/B\n\nin two messages\0SEND\ndestination:/queue/B\n\nand two in one\0")
    assert [frame.body for frame in both.neighbour.receives()] == [b"in two messages", b"and two in one"]


def test_a_large_send_may_follow_the_login_at_once() -> None:
    both = StompOverWebSocket()
    body = "x" * 100_000
    answers = both.sends(
        "CONNECT\naccept-version:1.2\nhost:h\n\n\0", f"SEND\ndestination:/queue/A\nreceipt:r\n\n{body}\0"
    )
    assert [answer.split(b"\n")[0] for answer in answers] == [b"CONNECTED", b"RECEIPT"]


@pytest.mark.parametrize("claim", ["-1", "+1", "1000000000", "1, 2", "٣"])
def test_s14_a_false_content_length_ends_a_websocket_with_an_error(claim: str) -> None:
    both = StompOverWebSocket()
    both.logs_in()
    (answer,) = both.sends(f"SEND\ndestination:/queue/A\ncontent-length:{claim}\n\nx\0")
    assert answer.startswith(b"ERROR\n")
    assert both.client.protocol.close_rcvd is not None
    assert both.client.protocol.close_rcvd.code == 1000
    assert both.dialogue.connection.closed


def test_s16_a_value_with_newlines_comes_back_over_a_websocket_as_one_value() -> None:
    both = StompOverWebSocket()
    both.logs_in()
    both.sends("SUBSCRIBE\nid:1\ndestination:/queue/A\n\n\0")
    (message,) = both.sends("SEND\ndestination:/queue/A\nkey:a\\nforged\\c1\n\nx\0")
    assert b"key:a\\nforged\\c1\n" in message
    assert message.count(b"\n\n") == 1


def test_s15_headers_that_never_end_are_refused_over_a_websocket() -> None:
    both = StompOverWebSocket()
    both.logs_in()
    answers: list[bytes] = []
    for number in range(10_000):
        answers += both.sends(f"header-{number}:" + "x" * 1000 if number else "SEND\n")
        if both.dialogue.connection.closed:
            break
        assert both.dialogue.connection.pending_bytes < 70_000
    assert answers[0].startswith(b"ERROR\n")


def test_a_websocket_is_a_connection_of_its_broker_until_it_ends() -> None:
    both = StompOverWebSocket()
    both.logs_in()
    assert len(both.stage.broker.connection_views()) == 2
    assert isinstance(both.dialogue.connection, WebSocketConnection)
    both.dialogue.connection.receive_eof(both.dialogue.now)
    assert len(both.stage.broker.connection_views()) == 1
