"""STOMP messages as stored bytes: from a SEND, from another protocol, back from the store, readdressed."""

from __future__ import annotations

import pytest

from spanwire.model.destination import QUEUE, TEMP_QUEUE, TOPIC, Destination
from spanwire.model.errors import InvalidDestinationError, RemoteProtocolError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import FORMAT_STOMP, Message
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES,
    BYTES_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP,
    MAP_VALUE,
    NULL_VALUE,
    OBJECT,
    PLAIN,
    STREAM,
    STRING_VALUE,
    TEXT,
    MessageView,
)
from spanwire.protocols.stomp.bodies.properties import java_number, shortest_float32
from spanwire.protocols.stomp.codec.codec import FrameDecoder
from spanwire.protocols.stomp.codec.errors import StompProtocolError
from spanwire.protocols.stomp.codec.frames import V1_2
from spanwire.protocols.stomp.destinations import DestinationNames
from spanwire.protocols.stomp.layout import parse_message_id
from spanwire.protocols.stomp.message_format import StompMessageFormat, stomp_formats
from spanwire.protocols.stomp.send_headers import MessageWriter, SendHeaders

PRODUCER = ProducerId("ID:host-1-2-0:7", -1, 1)
WALL_MS = 1_700_000_000_000
FORMAT = StompMessageFormat()


def sent(frame: bytes) -> Message:
    decoder = FrameDecoder()
    decoder.accept(V1_2)
    (decoded,) = decoder.feed(frame)
    headers = SendHeaders(decoded.block, DestinationNames("ID:host-1-2-0:7"))
    writer = MessageWriter(PRODUCER)
    return [writer.message(headers, decoded, WALL_MS) for _ in range(3)][2]


def fields(message: Message) -> tuple[object, ...]:
    return (
        message.format_id,
        message.encoded(),
        message.content_start,
        message.properties_start,
        message.tail_start,
        message.destination,
        message.message_id,
        message.persistent,
        message.priority,
        message.expiration_ms,
        message.timestamp_ms,
        message.group_id,
        message.format_index,
    )


def test_each_message_of_a_connection_has_the_next_id_in_its_octets() -> None:
    decoder = FrameDecoder()
    decoder.accept(V1_2)
    (decoded,) = decoder.feed(b"SEND\ndestination:/queue/A\n\nhello\0")
    headers = SendHeaders(decoded.block, DestinationNames("ID:host-1-2-0:7"))
    writer = MessageWriter(PRODUCER)
    for sequence in range(1, 10_103):
        message = writer.message(headers, decoded, WALL_MS)
        if sequence % 100 in (0, 1, 2, 99):
            assert message.message_id == MessageId(PRODUCER, sequence)
            assert FORMAT.index(message.raw).message_id == message.message_id
            assert message.raw[message.content_start : message.properties_start] == b"hello"


def test_a_message_has_the_same_octets_however_its_body_arrived() -> None:
    body = b"0123456789" * 10_000
    frame = b"SEND\ndestination:/queue/A\ncontent-length:%d\n\n%b\0" % (len(body), body)
    whole = sent(frame)
    assert whole.raw[whole.content_start : whole.tail_start] == body + b"\0"
    decoder = FrameDecoder()
    decoder.accept(V1_2)
    frames = [
        decoded for start in range(0, len(frame), 7_000) for decoded in decoder.feed(frame[start : start + 7_000])
    ]
    headers = SendHeaders(frames[0].block, DestinationNames("ID:host-1-2-0:7"))
    writer = MessageWriter(PRODUCER)
    parts = [writer.message(headers, frames[0], WALL_MS) for _ in range(3)][2]
    assert fields(parts) == fields(whole)


def test_a_send_becomes_the_message_frame_it_will_be() -> None:
    message = sent(b"SEND\ndestination:/queue/A\npersistent:true\ntype:t\nk:a\\cb\nreceipt:r\n\nhello\0")
    assert message.raw == (
        b"message-id:ID\\chost-1-2-0\\c7\\c-1\\c1\\c3\ntimestamp:1700000000000\ndestination:/queue/A\nexpires:0\n"
        b"priority:4\npersistent:true\ntype:t\nk:a\\cb\n\nhello\0"
    )
    assert (message.destination, message.persistent, message.priority) == (Destination(QUEUE, "A"), True, 4)
    assert message.raw[message.content_start : message.properties_start] == b"hello"


def test_a_send_with_all_jms_headers_has_them_before_its_properties() -> None:
    message = sent(
        b"SEND\nk:v:w\nexpires:7\ntransformation:odd\npriority:9\nreply-to:/queue/R\nAMQ_SCHEDULED_DELAY:0\n"
        b"destination:/queue/A\ntype:t\npersistent:true\ncorrelation-id:c:1\namq-msg-type:bytes\nreceipt:r\n"
        b"JMSXGroupID:g\ntimestamp:5\nJMSXGroupSeq:2\n\nhi\0"
    )
    assert message.raw == (
        b"message-id:ID\\chost-1-2-0\\c7\\c-1\\c1\\c3\ntimestamp:5\ncontent-length:2\ndestination:/queue/A\n"
        b"expires:7\npriority:9\npersistent:true\ncorrelation-id:c\\c1\ntype:t\nreply-to:/queue/R\nk:v\\cw\n"
        b"transformation:odd\nAMQ_SCHEDULED_DELAY:0\namq-msg-type:bytes\n"
        b"transformation-error:Unknown transformation\\c odd\n\nhi\0JMSXGroupID:g\nJMSXGroupSeq:2\nframing:added\n"
    )
    assert fields(FORMAT.index(message.raw)) == fields(message)


def test_messages_of_one_connection_have_the_time_length_and_headers_of_their_own_send() -> None:
    decoder = FrameDecoder()
    decoder.accept(V1_2)
    names = DestinationNames("ID:c")
    writer = MessageWriter(PRODUCER)
    turns = [(b"1", -1, 5), (b"2", 5, 5), (b"2", 5, 5), (b"2", 5, 6), (b"3", 3, 6), (b"1", -1, 6), (b"4", 0, 7)]
    for number, length, wall_ms in turns:
        claim = b"content-length:%d\n" % length if length >= 0 else b""
        body = b"x" * max(length, 0)
        (frame,) = decoder.feed(b"SEND\ndestination:/queue/%b\n%bk:%b\n\n%b\0" % (number, claim, number, body))
        message = writer.message(SendHeaders(frame.block, names), frame, wall_ms)
        assert message.raw.partition(b"\n")[2] == (
            b"timestamp:%d\n%bdestination:/queue/%b\nexpires:0\npriority:4\nk:%b\n\n%b\0"
            % (wall_ms, claim, number, number, body)
        )


@pytest.mark.parametrize(
    "frame",
    [
        b"SEND\ndestination:/queue/A\n\nhello\0",
        b"SEND\ndestination:/topic/T.1\ncontent-length:3\npriority:9\nexpires:1800000000000\n\na\0b\0",
        b"SEND\ndestination:/queue/A\nJMSXGroupID:g\\c1\nJMSXGroupSeq:7\n\nx\0",
        b"SEND\ndestination:/queue/A,/topic/B\nreply-to:/temp-queue/R\n\nx\0",
        b"SEND\ndestination:/queue/A\namq-msg-type:bytes\n\nx\0",
        b"SEND\ndestination:/queue/A\namq-msg-type:text\ncontent-length:1\n\nx\0",
        b"SEND\ndestination:/queue/A\nk:a\\nb\\rc\nreply-to:R\n\n\0",
        b"SEND\ndestination:odd/\\c/A\ntimestamp:5\n\n\0",
    ],
)
def test_a_stored_message_is_found_again_with_all_its_routing_fields(frame: bytes) -> None:
    message = sent(frame)
    again = FORMAT.index(message.raw)
    assert fields(again) == fields(message)
    assert FORMAT.properties(again) == FORMAT.properties(message)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"message-id:ID\\cx\n",
        b"x:y\n\nbody\0",
        b"message-id:a\\c1\\c1\\c1\ndestination:/queue/A\n\nbody",
        b"message-id:a\\c1\\c1\\c1\ndestination:/queue/\n\nbody\0",
        b"message-id:a\\c1\\c1\\c1\ndestination:/queue/A\ncontent-length:99\n\nbody\0",
        b"message-id:a\\c1\\c1\\c1\ndestination:/queue/A\ncontent-length:-9\n\nbody\0",
        b"message-id:a\\c1\\c1\\c1\ndestination:/queue/A\npriority:x\n\nbody\0",
        b"message-id:\xff\n\nbody\0",
    ],
)
def test_bytes_that_are_no_message_are_refused(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        FORMAT.index(raw)


def test_a_stored_message_cut_short_anywhere_is_refused_or_stays_within_its_bytes() -> None:
    raw = sent(b"SEND\ndestination:/queue/A\ncontent-length:5\nk:v\n\nhello\0").raw
    for size in range(len(raw)):
        with pytest.raises(RemoteProtocolError):
            FORMAT.index(raw[:size])


def test_the_view_of_a_send_is_a_text_or_a_bytes_message() -> None:
    text = FORMAT.view(sent(b"SEND\ndestination:/queue/A\ncorrelation-id:c\nreply-to:/topic/R\nk:v\n\nhi\0"))
    assert (text.kind, text.body, text.correlation_id) == (TEXT, b"hi", "c")
    assert text.reply_to == Destination(TOPIC, "R")
    assert text.properties == {"k": (STRING_VALUE, "v")}
    assert FORMAT.view(sent(b"SEND\ndestination:/queue/A\ncontent-length:2\n\nhi\0")).kind == BYTES
    assert FORMAT.view(sent(b"SEND\ndestination:/queue/A\namq-msg-type:TEXT\ncontent-length:2\n\nhi\0")).kind == TEXT
    forced = sent(b"SEND\ndestination:/queue/A\namq-msg-type:bytes\n\nhi\0")
    assert b"content-length:2\n" in forced.raw
    assert FORMAT.view(forced).kind == BYTES
    assert FORMAT.properties(forced) == {"amq-msg-type": (STRING_VALUE, "bytes")}


def test_headers_are_properties_of_type_string_but_for_the_schedulers_numbers() -> None:
    message = sent(b"SEND\ndestination:/queue/A\ni:42\nAMQ_SCHEDULED_DELAY:10\nAMQ_SCHEDULED_REPEAT:2\n\nx\0")
    assert FORMAT.view(message).properties == {
        "i": (STRING_VALUE, "42"),
        "AMQ_SCHEDULED_DELAY": (LONG_VALUE, 10),
        "AMQ_SCHEDULED_REPEAT": (INT_VALUE, 2),
    }


def test_jms_headers_that_the_broker_has_no_field_for_are_read_from_the_bytes() -> None:
    message = sent(
        b"SEND\ndestination:/queue/A\nJMSCorrelationID:q\nJMSType:t\nJMSReplyTo:topic\\c//R\nJMSXGroupID:g\n"
        b"JMSXGroupSeq:7\n\nx\0"
    )
    found = [FORMAT.header(message, name) for name in ("JMSCorrelationID", "JMSType", "JMSReplyTo", "JMSXGroupSeq")]
    assert found == ["q", "t", "topic://R", 7]
    assert FORMAT.header(message, "JMSXUserID") is None
    assert FORMAT.header(message, "Other") is None


def test_a_client_cannot_say_who_it_is_or_how_often_a_message_was_delivered() -> None:
    message = sent(b"SEND\ndestination:/queue/A\nJMSXUserID:admin\nJMSXDeliveryCount:9\nredelivered:true\n\nx\0")
    assert FORMAT.properties(message) == {}
    assert FORMAT.header(message, "JMSXUserID") is None


@pytest.mark.parametrize("header", ["priority:high", "expires:soon", "timestamp:１", "JMSPriority:4294967296"])
def test_a_bad_number_in_a_header_closes_the_connection(header: str) -> None:
    with pytest.raises(StompProtocolError):
        sent(f"SEND\ndestination:/queue/A\n{header}\n\nx\0".encode())


def test_a_destination_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidDestinationError):
        sent(b"SEND\ndestination:/queue/\n\nx\0")


def view_of(kind: int, body: bytes | None) -> MessageView:
    view = MessageView(kind, Destination(QUEUE, "A"), MessageId(ProducerId("ID:java-1-2-0:1", 1, 1), 1))
    view.body = body
    view.persistent = True
    view.timestamp_ms = WALL_MS
    return view


def test_a_text_message_from_another_protocol_becomes_a_message_frame() -> None:
    view = view_of(TEXT, "größe".encode())
    view.properties = {"k": (STRING_VALUE, "a:b\\c\nd\re")}
    view.reply_to = Destination(TEMP_QUEUE, "ID:java-1-2-0:1:1")
    view.correlation_id = "c1"
    message = FORMAT.encode_from_view(view)
    assert message.raw == (
        b"message-id:ID\\cjava-1-2-0\\c1\\c1\\c1\\c1\ntimestamp:1700000000000\ndestination:/queue/A\n"
        b"correlation-id:c1\nexpires:0\npriority:4\npersistent:true\nreply-to:/remote-temp-queue/ID\\cjava-1-2-0\\c1\\c1\n"
        b"k:a\\cb\\\\c\\nd\\re\n\ngr\xc3\xb6\xc3\x9fe\0"
    )
    assert fields(FORMAT.index(message.raw)) == fields(message)
    assert FORMAT.view(message).properties == view.properties


def test_bytes_carry_their_length_and_other_kinds_arrive_empty() -> None:
    assert b"content-length:3\n" in FORMAT.encode_from_view(view_of(BYTES, b"\1\0\2")).raw
    for kind in (PLAIN, MAP, STREAM, OBJECT):
        message = FORMAT.encode_from_view(view_of(kind, b"\0\0\0\1"))
        assert message.properties_start == message.content_start
        assert b"content-length" not in message.raw


def test_property_values_are_written_as_java_prints_them() -> None:
    view = view_of(TEXT, b"x")
    view.properties = {
        "bo": (BOOLEAN_VALUE, True),
        "by": (BYTE_VALUE, 1),
        "lo": (LONG_VALUE, 4),
        "fl": (FLOAT_VALUE, 1.5),
        "f1": (FLOAT_VALUE, 0.10000000149011612),
        "do": (DOUBLE_VALUE, 0.1),
        "big": (DOUBLE_VALUE, 1e20),
        "nu": (NULL_VALUE, None),
        "em": (STRING_VALUE, ""),
        "blob": (BYTES_VALUE, b"x"),
        "list": (LIST_VALUE, [(STRING_VALUE, "a"), (DOUBLE_VALUE, 2.0), (LIST_VALUE, [])]),
        "map": (MAP_VALUE, {"k": (BOOLEAN_VALUE, True), "n": (NULL_VALUE, None)}),
    }
    assert {name: value for name, (_, value) in FORMAT.properties(FORMAT.encode_from_view(view)).items()} == {
        "bo": "true", "by": "1", "lo": "4", "fl": "1.5", "f1": "0.1", "do": "0.1", "big": "1.0E20", "nu": "null",
        "em": "", "list": "[a, 2.0, []]", "map": "{k=true, n=null}",
    }  # fmt: skip


def test_java_prints_floats_in_its_own_notation() -> None:
    numbers = [0.0, -0.0, 1.0, 100.0, 1234567.0, 1e7, 12345678.9, 0.001, 0.00012, 5e-324, -1.5e-9, 1e308]
    assert [java_number(repr(number)) for number in numbers] == [
        "0.0", "-0.0", "1.0", "100.0", "1234567.0", "1.0E7", "1.23456789E7", "0.001", "1.2E-4", "5.0E-324", "-1.5E-9",
        "1.0E308",
    ]  # fmt: skip
    assert [java_number(repr(float(text))) for text in ("nan", "inf", "-inf")] == ["NaN", "Infinity", "-Infinity"]
    assert java_number(shortest_float32(float("inf"))) == "Infinity"
    assert java_number(shortest_float32(16777216.0)) == "1.6777216E7"
    assert java_number(shortest_float32(3.4028234663852886e38)) == "3.4028235E38"
    assert java_number(shortest_float32(-3.4025001647762064e38)) == "-3.4025002E38"


def test_a_property_may_take_the_place_of_a_header_but_not_of_those_the_broker_vouches_for() -> None:
    view = view_of(BYTES, b"\0\0")
    for name in (
        "destination",
        "priority",
        "receipt",
        "subscription",
        "message-id",
        "ack",
        "redelivered",
        "content-length",
    ):
        view.properties[name] = (STRING_VALUE, "evil")
    message = FORMAT.encode_from_view(view)
    head = message.raw[: message.content_start].decode()
    assert [line for line in head.split("\n") if line.endswith(":evil")] == [
        "destination:evil", "priority:evil", "receipt:evil",
    ]  # fmt: skip
    assert "\ncontent-length:2\n" in head
    assert message.destination == Destination(QUEUE, "A")


def test_s16_what_no_frame_can_hold_is_left_out_and_a_nul_in_a_text_gets_a_length() -> None:
    view = view_of(TEXT, b"a\0b")
    view.properties = {
        "k": (STRING_VALUE, "a\0b"),
        "n\0": (STRING_VALUE, "v"),
        "s": (STRING_VALUE, "\ud800"),
        "ok": (STRING_VALUE, "v"),
    }
    view.group_id = "g\0"
    message = FORMAT.encode_from_view(view)
    decoder = FrameDecoder()
    decoder.accept(V1_2)
    (frame,) = decoder.feed(b"MESSAGE\n" + message.raw[: message.tail_start])
    assert frame.body == b"a\0b"
    assert frame.headers["ok"] == "v"
    assert {"k", "n\0", "s"}.isdisjoint(frame.headers)
    assert FORMAT.view(message).kind == TEXT


def test_a_readdressed_message_shares_its_body_and_remembers_where_it_was_sent_first() -> None:
    message = sent(b"SEND\ndestination:/queue/A\nJMSXGroupID:g\nk:v\n\nhello\0")
    copy = FORMAT.readdressed(message, Destination(QUEUE, "DLQ.A"))
    assert copy.raw is message.raw
    assert copy.destination == Destination(QUEUE, "DLQ.A")
    again = FORMAT.readdressed(FORMAT.index(copy.encoded()), Destination(TOPIC, "B"))
    view = FORMAT.view(FORMAT.index(again.encoded()))
    assert (view.destination, view.original_destination) == (Destination(TOPIC, "B"), Destination(QUEUE, "A"))
    assert (view.body, view.properties, view.group_id) == (b"hello", {"k": (STRING_VALUE, "v")}, "g")
    assert fields(FORMAT.index(again.encoded()))[5:] == fields(again)[5:]


def test_a_copy_can_be_without_a_trace_of_where_it_was_sent_first() -> None:
    message = sent(b"SEND\ndestination:/queue/A\n\nhello\0")
    copy = FORMAT.readdressed(message, Destination(QUEUE, "B"), False)
    assert FORMAT.view(FORMAT.index(copy.encoded())).original_destination is None
    dead = FORMAT.readdressed(message, Destination(QUEUE, "DLQ.A"))
    view = FORMAT.view(FORMAT.index(FORMAT.readdressed(dead, Destination(QUEUE, "C"), False).encoded()))
    assert (view.destination, view.original_destination) == (Destination(QUEUE, "C"), Destination(QUEUE, "A"))


@pytest.mark.parametrize("persistent", [True, False])
def test_a_copy_with_another_time_and_mode_shares_its_body_and_keeps_its_other_headers(persistent: bool) -> None:
    message = sent(b"SEND\ndestination:/queue/A\nJMSXGroupID:g\nexpires:5\nk:v\\nw\n\nhello\0")
    copy = FORMAT.restamped(message, 1_700_000_000_123, 1_800_000_000_456, persistent)
    assert copy.raw is message.raw
    for found in (copy, FORMAT.index(copy.encoded())):
        view = FORMAT.view(found)
        assert (view.timestamp_ms, view.expiration_ms, view.persistent) == (
            1_700_000_000_123,
            1_800_000_000_456,
            persistent,
        )
        assert (view.body, view.properties, view.group_id) == (b"hello", {"k": (STRING_VALUE, "v\nw")}, "g")
    assert fields(FORMAT.index(copy.encoded()))[5:] == fields(copy)[5:]


@pytest.mark.parametrize(("named", "read"), [("alice", "alice"), ("", None), (None, "before")])
def test_a_copy_may_name_another_user(named: str | None, read: str | None) -> None:
    message = FORMAT.restamped(sent(b"SEND\ndestination:/queue/A\nk:v\n\nhello\0"), 5, 0, True, "before")
    copy = FORMAT.restamped(message, 5, 0, True, named)
    assert copy.raw is message.raw
    for found in (copy, FORMAT.index(copy.encoded())):
        view = FORMAT.view(found)
        assert (view.user_id, view.body, view.properties) == (read, b"hello", {"k": (STRING_VALUE, "v")})


def test_a_header_of_the_user_in_the_place_of_a_time_stays_as_it_is() -> None:
    view = MessageView(TEXT, Destination(QUEUE, "A"), MessageId(ProducerId("ID:a", 1, 1), 1))
    view.properties["timestamp"] = (STRING_VALUE, "yesterday")
    message = FORMAT.encode_from_view(view)
    assert b"timestamp:yesterday" in message.encoded()
    copy = FORMAT.restamped(message, 1_700_000_000_123, 0, False)
    assert b"timestamp:yesterday" in copy.encoded()
    assert copy.timestamp_ms == 1_700_000_000_123


def test_a_message_that_is_the_first_of_its_group_says_so_when_it_is_converted() -> None:
    message = sent(b"SEND\ndestination:/queue/A\nJMSXGroupID:g\nk:v\n\nhello\0")
    copy = FORMAT.first_for_consumer(message)
    assert (FORMAT.view(message).first_for_consumer, FORMAT.view(copy).first_for_consumer) == (False, True)
    assert copy.raw is message.raw
    assert (FORMAT.view(copy).body, FORMAT.view(copy).properties) == (b"hello", {"k": (STRING_VALUE, "v")})


def test_message_ids_are_read_back_and_nonsense_is_none() -> None:
    assert parse_message_id("ID:host-1-2-0:7:-1:1:3") == MessageId(PRODUCER, 3)
    for text in ("", "x", "a:b:c:d", "1:2:3", "ID:x:1:1:١", "ID:x:1:1:" + "9" * 30, "::::"):
        assert parse_message_id(text) is None


def test_the_protocol_offers_one_format() -> None:
    assert list(stomp_formats()) == [FORMAT_STOMP]
