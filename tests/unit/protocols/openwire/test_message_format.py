"""Messages pass as octets: found by a walk, decoded on demand, changed only in their head."""

from __future__ import annotations

from typing import Any

import pytest
from librt.strings import BytesWriter

from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import InvalidDestinationError, MessageFormatError, ProtocolError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import (
    FORMAT_OPENWIRE_1,
    FORMAT_OPENWIRE_2,
    FORMAT_OPENWIRE_3,
    FORMAT_OPENWIRE_10,
    Message,
)
from spanwire.model.message_view import BYTES, INT_VALUE, MAP, STREAM, STRING_VALUE, TEXT, MessageView
from spanwire.protocols.octets import encode_text
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder, StructureDecoder, decode_message
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.messages.destination_octets import DestinationOctets
from spanwire.protocols.openwire.messages.dispatch import (
    append_dispatch,
    dispatch_chunks,
    dispatch_start,
    full_dispatch,
    in_format,
    passes,
)
from spanwire.protocols.openwire.messages.large_message import LargeMessage
from spanwire.protocols.openwire.messages.message_body import neutral_body
from spanwire.protocols.openwire.messages.message_format import (
    CANONICAL_VERSIONS,
    OpenWireMessageFormat,
    format_id_of,
    openwire_formats,
)
from spanwire.protocols.primitive_map import decode_map, decode_stream, encode_map
from tests.support.openwire_structures import load_vectors, normalised, properties_of, property_of, structure_of

CASES: list[dict[str, Any]] = [
    case for case in load_vectors("vectors")["cases"] if case["type"] in set(wire.TYPE_NAMES.values())
]
MESSAGE_CASES = [case for case in CASES if case["type"].startswith("ActiveMQ") and case["type"].endswith("Message")]
KINDS_OF_DESTINATION = ["ActiveMQQueue", "ActiveMQTopic", "ActiveMQTempQueue", "ActiveMQTempTopic"]
VIEW_ATTRIBUTES = (
    "body correlation_id destination expiration_ms group_id group_sequence kind message_id original_destination "
    "persistent priority properties redelivery_count reply_to timestamp_ms type user_id"
).split()
CONSUMER = wire.ConsumerId(connection_id="ID:c:1", session_id=1, value=2)


def golden() -> list[tuple[dict[str, Any], wire.MessageFrame]]:
    """Every golden message as its decoder hands it over, in every version."""
    found = []
    for case in MESSAGE_CASES:
        for frame in case["frames"]:
            if frame["encoding"] == "loose" and not frame["cache"] and frame["stackTrace"]:
                for version in frame["versions"]:
                    decoder = FrameDecoder()
                    decoder.negotiated(WireFormat(version=version))
                    (command,) = decoder.feed(bytes.fromhex(frame["hex"]))
                    assert isinstance(command, wire.MessageFrame)
                    found.append((case, command))
    return found


GOLDEN = golden()
WITH_ID = [(case, frame) for case, frame in GOLDEN if case["values"]["messageId"] and case["values"]["destination"]]
FORMATS = {format_id: OpenWireMessageFormat(format_id) for format_id in CANONICAL_VERSIONS}


def format_for(version: int) -> OpenWireMessageFormat:
    return FORMATS[format_id_of(version)]


def text_message(version: int = 12, body: bytes = b"hello") -> Message:
    structure = wire.ActiveMQTextMessage()
    structure.producer_id = wire.ProducerId(connection_id="ID:p:1", session_id=1, value=1)
    structure.destination = wire.ActiveMQQueue("A.B")
    structure.message_id = wire.MessageId(producer_id=structure.producer_id, producer_sequence_id=7)
    structure.content = len(body).to_bytes(4, "big") + body
    structure.marshalled_properties = encode_map({"colour": (STRING_VALUE, "red"), "n": (INT_VALUE, 3)})
    structure.correlation_id = "c-1"
    structure.priority = 4
    found = format_for(version)
    return found.index(found.octets_of(structure))


def test_there_is_a_golden_message_of_every_kind_and_format() -> None:
    assert len(WITH_ID) > 300
    assert {frame.version for _, frame in WITH_ID} >= {1, 2, 3, 9, 10, 12}
    assert {format_id_of(version) for version in range(1, 13)} == set(openwire_formats())


def test_the_walk_finds_the_routing_fields_of_every_golden_message() -> None:
    for case, frame in WITH_ID:
        values = normalised(case["values"])
        message = format_for(frame.version).received(frame)
        assert message.destination.name == values["destination"]["physicalName"]
        assert message.destination.kind == KINDS_OF_DESTINATION.index(values["destination"]["$type"])
        sender = values["messageId"]["producerId"]
        assert message.message_id == MessageId(
            ProducerId(sender["connectionId"], sender["sessionId"], sender["value"]),
            values["messageId"]["producerSequenceId"],
            values["messageId"].get("textView"),
        )
        assert message.persistent == values["persistent"]
        assert message.priority == min(max(values["priority"], 0), 9)
        assert message.expiration_ms == max(values["expiration"], 0)
        assert message.timestamp_ms == values["timestamp"]
        assert message.group_id == values["groupID"]


def test_the_cuts_of_every_golden_message_stand_around_content_and_properties() -> None:
    for case, frame in WITH_ID:
        values = case["values"]
        message = format_for(frame.version).received(frame)
        for name, start, end in (
            ("content", message.content_start, message.properties_start),
            ("marshalledProperties", message.properties_start, message.tail_start),
        ):
            octets = bytes.fromhex(values[name]) if values[name] is not None else None
            expected = b"\0" if octets is None else b"\1" + len(octets).to_bytes(4, "big") + octets
            assert message.raw[start:end] == expected


def test_a_message_without_a_data_structure_keeps_the_octets_in_which_it_arrived() -> None:
    for case, frame in WITH_ID:
        if case["values"]["dataStructure"] is None:
            assert format_for(frame.version).received(frame).encoded() == frame.raw


def test_what_a_message_carries_is_kept_in_the_last_version_of_its_format() -> None:
    carrying = [(case, frame) for case, frame in WITH_ID if case["values"]["dataStructure"] is not None]
    assert len(carrying) > 50
    for case, frame in carrying:
        message_format = format_for(frame.version)
        message = message_format.received(frame)
        structure = decode_message(message.raw, message_format.version)
        carried = structure_of(normalised(case["values"]["dataStructure"]))
        assert type(structure.data_structure) is type(carried)


def test_the_properties_of_every_golden_message_have_their_types() -> None:
    for case, frame in WITH_ID:
        message_format = format_for(frame.version)
        expected = properties_of(case["values"].get("properties"))
        assert message_format.properties(message_format.received(frame)) == expected


def test_the_view_of_every_golden_message_shows_its_headers_and_body() -> None:
    kinds = set()
    for case, frame in WITH_ID:
        values = case["values"]
        message_format = format_for(frame.version)
        view = message_format.view(message_format.received(frame))
        assert (view.correlation_id, view.type, view.user_id) == (
            values["correlationId"],
            values["type"],
            values["userID"],
        )
        assert view.group_sequence == values["groupSequence"]
        assert (view.reply_to is None) == (values["replyTo"] is None)
        check_body(values["body"], view)
        kinds.add(values["body"]["kind"] if values["body"] else None)
    assert kinds >= {"text", "bytes", "map", "stream", "object"}


def check_body(expected: dict[str, Any] | None, view: MessageView) -> None:
    if expected is None or expected["kind"] in ("none", "blob"):
        assert view.body is None
    elif expected["kind"] == "text":
        assert view.body == (None if expected["text"] is None else expected["text"].encode("utf-8"))
    elif expected["kind"] == "map":
        assert decode_map(view.body or b"") == {n: property_of(v) for n, v in expected["entries"].items()}
    elif expected["kind"] == "stream":
        assert decode_stream(view.body or b"") == [property_of(item) for item in expected["items"]]
    else:
        octets = expected.get("bytes", expected.get("hex"))
        assert view.body == (None if octets is None else bytes.fromhex(octets))


def test_a_view_encodes_to_a_message_with_the_same_view() -> None:
    for _case, frame in WITH_ID:
        message_format = format_for(frame.version)
        view = message_format.view(message_format.received(frame))
        if frame.version < 10:
            assert view.message_id.text_view is None
        again = message_format.view(message_format.encode_from_view(view))
        for name in VIEW_ATTRIBUTES:
            assert getattr(again, name) == getattr(view, name), name


@pytest.mark.parametrize("place", [0, 1, 5, 40, 100])
def test_a_cut_message_is_a_protocol_error(place: int) -> None:
    raw = text_message().raw
    with pytest.raises(OpenWireProtocolError):
        FORMATS[FORMAT_OPENWIRE_10].index(raw[: len(raw) - 1 - place])


def test_every_malformed_message_frame_is_refused_by_the_walk_as_by_the_decoder() -> None:
    seen = 0
    for entry in load_vectors("broken")["broken"]:
        if entry["layer"] != "frame" or "TextMessage" not in entry["name"] or entry["encoding"] != "loose":
            continue
        decoder = FrameDecoder()
        decoder.negotiated(WireFormat())
        (command,) = decoder.feed(bytes.fromhex(entry["hex"]))
        assert isinstance(command, wire.MessageFrame)
        with pytest.raises(OpenWireProtocolError):
            FORMATS[FORMAT_OPENWIRE_10].received(command)
        seen += 1
    assert seen == 2


def test_every_message_with_a_broken_inside_is_indexed_and_fails_only_when_asked() -> None:
    seen = 0
    for entry in load_vectors("broken")["broken"]:
        if entry["layer"] not in ("properties", "body") or entry["name"].startswith("wfi-"):
            continue
        message_format = FORMATS[FORMAT_OPENWIRE_10]
        message = message_format.index(bytes.fromhex(entry["hex"])[4:])
        if entry["name"] == "props-trailing":
            assert message_format.properties(message) == {}
        else:
            with pytest.raises(MessageFormatError):
                if entry["layer"] == "properties":
                    message_format.properties(message)
                else:
                    message_format.view(message)
        seen += 1
    assert seen > 20


def test_a_message_without_a_usable_destination_is_refused_as_a_request() -> None:
    for destination in (None, wire.ActiveMQQueue(None), wire.ActiveMQQueue(""), wire.ActiveMQQueue("A\nB")):
        structure = wire.ActiveMQMessage()
        structure.destination = destination
        structure.message_id = wire.MessageId(text_view="ID:x")
        message_format = FORMATS[FORMAT_OPENWIRE_10]
        with pytest.raises(InvalidDestinationError):
            message_format.index(message_format.octets_of(structure))


def test_a_message_without_an_id_or_with_an_exception_inside_is_a_protocol_error() -> None:
    message_format = FORMATS[FORMAT_OPENWIRE_10]
    structure = wire.ActiveMQMessage()
    structure.destination = wire.ActiveMQQueue("A")
    with pytest.raises(OpenWireProtocolError, match="no id"):
        message_format.index(message_format.octets_of(structure))
    structure.message_id = wire.MessageId(text_view="ID:x")
    structure.data_structure = wire.ExceptionResponse(exception=Throwable("E", "m"))
    with pytest.raises(OpenWireProtocolError, match="exception"):
        message_format.index(message_format.octets_of(structure))


def test_a_string_that_would_choke_a_consumer_is_refused_at_the_door() -> None:
    raw = text_message().raw
    place = raw.index(b"c-1")
    with pytest.raises(OpenWireProtocolError):
        FORMATS[FORMAT_OPENWIRE_10].index(raw[:place] + b"\xff\xff\xff" + raw[place + 3 :])


def test_s39_a_message_with_a_forged_path_of_65_brokers_is_refused() -> None:
    message_format = FORMATS[FORMAT_OPENWIRE_10]
    structure = decode_message(text_message().raw, 12)
    structure.broker_path = [wire.BrokerId(str(number)) for number in range(64)]
    message_format.index(message_format.octets_of(structure))
    structure.broker_path.append(wire.BrokerId("64"))
    with pytest.raises(OpenWireProtocolError, match="64 are the most"):
        message_format.index(message_format.octets_of(structure))


def test_the_memories_of_a_format_stay_bounded() -> None:
    message_format = OpenWireMessageFormat(FORMAT_OPENWIRE_10)
    structure = decode_message(text_message().raw, 12)
    for number in range(5000):
        structure.destination = wire.ActiveMQQueue(f"Q.{number}")
        assert structure.message_id is not None
        structure.message_id.producer_id = wire.ProducerId(connection_id=f"ID:{number}")
        message = message_format.index(message_format.octets_of(structure))
        assert message.destination.name == f"Q.{number}"
        assert message.message_id.producer_id.connection_id == f"ID:{number}"
    same = message_format.index(message.raw)
    assert same.destination is message.destination
    assert same.message_id.producer_id is message.message_id.producer_id


@pytest.mark.parametrize("version", [1, 2, 5, 12])
def test_a_copy_for_another_destination_shares_the_octets_and_remembers_the_first(version: int) -> None:
    message = text_message(version)
    message_format = format_for(version)
    copy = message_format.readdressed(message, Destination(TOPIC, "VERY.LONG.NAME"))
    assert copy.raw is message.raw
    assert copy.destination == Destination(TOPIC, "VERY.LONG.NAME")
    again = message_format.readdressed(copy, Destination(QUEUE, "C"))
    structure = decode_message(again.encoded(), message_format.version)
    assert structure.destination == wire.ActiveMQQueue("C")
    assert structure.original_destination == wire.ActiveMQQueue("A.B")
    assert structure.content == b"\0\0\0\5hello"
    reread = message_format.index(again.encoded())
    assert (reread.destination, reread.message_id) == (again.destination, message.message_id)
    assert reread.format_index == again.format_index


@pytest.mark.parametrize("version", [1, 2, 5, 12])
def test_a_copy_can_be_without_a_trace_of_the_first_destination(version: int) -> None:
    message = text_message(version)
    message_format = format_for(version)
    copy = message_format.readdressed(message, Destination(TOPIC, "ELSEWHERE"), False)
    structure = decode_message(copy.encoded(), message_format.version)
    assert (structure.destination, structure.original_destination) == (wire.ActiveMQTopic("ELSEWHERE"), None)
    known = message_format.readdressed(message, Destination(TOPIC, "ELSEWHERE"))
    again = message_format.readdressed(known, Destination(QUEUE, "C"), False)
    structure = decode_message(again.encoded(), message_format.version)
    assert structure.original_destination == wire.ActiveMQQueue("A.B")


@pytest.mark.parametrize(("named", "read"), [("alice", "alice"), ("", None), (None, "before")])
@pytest.mark.parametrize("version", [1, 2, 5, 12])
def test_a_copy_may_name_another_user_and_differs_in_nothing_else(
    version: int, named: str | None, read: str | None
) -> None:
    message_format = format_for(version)
    message = message_format.restamped(text_message(version), 5, 0, True, "before")
    message.redelivery_count = 2
    copy = message_format.restamped(message, 5, 0, True, named)
    assert copy.raw is message.raw
    before = decode_message(message.encoded(), message_format.version)
    after = decode_message(copy.encoded(), message_format.version)
    assert (before.user_id, after.user_id) == ("before", read)
    assert message_format.header(copy, "JMSXUserID") == read
    after.user_id = "before"
    assert message_format.octets_of(after) == message_format.octets_of(before)
    assert copy.redelivery_count == 2


@pytest.mark.parametrize("version", [1, 2, 5, 12])
def test_a_copy_with_another_time_and_mode_shares_the_octets_and_differs_in_nothing_else(version: int) -> None:
    message_format = format_for(version)
    message = message_format.readdressed(text_message(version), Destination(QUEUE, "B"))
    message.redelivery_count = 2
    message.link_number = 7
    copy = message_format.restamped(message, 1_700_000_000_123, 1_800_000_000_456, not message.persistent)
    assert copy.raw is message.raw
    reread = message_format.index(copy.encoded())
    for found in (copy, reread):
        assert (found.timestamp_ms, found.expiration_ms) == (1_700_000_000_123, 1_800_000_000_456)
        assert found.persistent is not message.persistent
        assert (found.destination, found.message_id, found.priority) == (
            message.destination,
            message.message_id,
            message.priority,
        )
    assert copy.format_index == reread.format_index
    assert (copy.redelivery_count, copy.link_number) == (2, 7)
    before = decode_message(message.encoded(), message_format.version)
    after = decode_message(copy.encoded(), message_format.version)
    before.timestamp, before.expiration, before.persistent = after.timestamp, after.expiration, after.persistent
    assert message_format.octets_of(after) == message_format.octets_of(before)


def test_a_message_can_say_that_it_is_the_first_of_its_group_for_its_consumer() -> None:
    message_format = FORMATS[FORMAT_OPENWIRE_10]
    message = message_format.readdressed(text_message(), Destination(QUEUE, "B"))
    message.redelivery_count = 2
    message.link_number = 7
    copy = message_format.first_for_consumer(message)
    before = decode_message(message.encoded(), message_format.version)
    after = decode_message(copy.encoded(), message_format.version)
    assert not before.jmsx_group_first_for_consumer
    assert after.jmsx_group_first_for_consumer
    before.jmsx_group_first_for_consumer = True
    assert message_format.octets_of(after) == message_format.octets_of(before)
    assert (copy.destination, copy.message_id, copy.redelivery_count, copy.link_number) == (
        message.destination,
        message.message_id,
        2,
        7,
    )
    assert message_format.header(copy, "JMSXGroupFirstForConsumer") is True
    assert message_format.view(copy).first_for_consumer


@pytest.mark.parametrize("version", [1, 2, 9])
def test_versions_before_ten_cannot_say_it(version: int) -> None:
    message = text_message(version)
    assert format_for(version).first_for_consumer(message) is message


def test_headers_come_from_the_message_without_its_body() -> None:
    message = text_message()
    message_format = FORMATS[FORMAT_OPENWIRE_10]
    assert message_format.header(message, "JMSCorrelationID") == "c-1"
    assert message_format.header(message, "JMSReplyTo") is None
    assert message_format.header(message, "JMSXDeliveryCount") == 1
    assert message_format.header(message, "JMSXNothing") is None
    other = text_message(12, b"other")
    assert message_format.header(other, "JMSXGroupSeq") == 0


def test_the_transaction_of_a_message_is_found() -> None:
    message_format = FORMATS[FORMAT_OPENWIRE_10]
    assert message_format.transaction_of(text_message()) is None
    structure = decode_message(text_message().raw, 12)
    structure.transaction_id = wire.LocalTransactionId(value=5, connection_id=wire.ConnectionId("ID:p:1"))
    message = message_format.index(message_format.octets_of(structure))
    assert message_format.transaction_of(message) == structure.transaction_id


def dispatched(head: bytes, message: Message, sequence: int, count: int) -> bytes:
    out = BytesWriter()
    out.write(b"before")
    append_dispatch(out, head, message, sequence, count)
    frame = out.getvalue()[6:]
    assert b"".join(dispatch_chunks(head, message, sequence, count, LargeMessage())) == frame
    return frame


def test_a_dispatch_is_the_frame_that_the_encoder_writes_for_the_same_command() -> None:
    for _case, frame in WITH_ID:
        message_format = format_for(frame.version)
        message = message_format.received(frame)
        encoder = FrameEncoder(WireFormat(version=message_format.version))
        assert passes(message, encoder)
        expected = encoder.encode(full_dispatch(CONSUMER, message, 2**40 + 5, 3))
        structure = decode_message(message.raw, message_format.version)
        assert structure.destination is not None
        head = dispatch_start(CONSUMER) + DestinationOctets().of(message.destination)
        assert dispatched(head, message, 2**40 + 5, 3) == expected


def test_a_readdressed_message_is_dispatched_with_its_new_head_and_the_sequence_at_its_place() -> None:
    message_format = FORMATS[FORMAT_OPENWIRE_10]
    copy = message_format.readdressed(text_message(), Destination(QUEUE, "ELSEWHERE.AND.LONGER"))
    frame = dispatched(dispatch_start(CONSUMER) + DestinationOctets().of(Destination(QUEUE, "X")), copy, 99, 1)
    command = StructureDecoder(WireFormat()).decode(frame, 4, len(frame))
    assert isinstance(command, wire.MessageDispatch)
    assert command.redelivery_counter == 1
    message = command.message
    assert message is not None and message.message_id is not None
    assert message.message_id.broker_sequence_id == 99
    assert message.destination == wire.ActiveMQQueue("ELSEWHERE.AND.LONGER")


def test_the_octets_do_not_pass_to_a_tight_or_cached_peer_or_when_they_carry_another_version() -> None:
    message = text_message()
    assert passes(message, FrameEncoder(WireFormat(version=11)))
    assert not passes(message, FrameEncoder(WireFormat(tight=True)))
    assert not passes(message, FrameEncoder(WireFormat(cache=True)))
    structure = decode_message(message.raw, 12)
    structure.data_structure = wire.SubscriptionInfo()
    message_format = FORMATS[FORMAT_OPENWIRE_10]
    carrying = message_format.index(message_format.octets_of(structure))
    assert passes(carrying, FrameEncoder(WireFormat(version=12)))
    assert not passes(carrying, FrameEncoder(WireFormat(version=10)))
    frame = FrameEncoder(WireFormat(version=10)).encode(full_dispatch(CONSUMER, carrying, 1, 0))
    command = StructureDecoder(WireFormat(version=10)).decode(frame, 4, len(frame))
    assert isinstance(command, wire.MessageDispatch)


@pytest.mark.parametrize("target", [FORMAT_OPENWIRE_1, FORMAT_OPENWIRE_2, FORMAT_OPENWIRE_3, FORMAT_OPENWIRE_10])
def test_a_message_of_another_version_keeps_its_body_properties_and_carried_structure(target: int) -> None:
    for source in FORMATS.values():
        message = text_message(source.version)
        structure = decode_message(message.raw, source.version)
        structure.data_structure = wire.ConsumerInfo(selector="a = 1", priority=-5)
        message = source.index(source.octets_of(structure))
        converted = in_format(message, FORMATS[target])
        assert converted.format_id == target
        assert in_format(message, FORMATS[target]) is converted
        found = decode_message(converted.raw, FORMATS[target].version)
        assert found.content == b"\0\0\0\5hello"
        assert isinstance(found.data_structure, wire.ConsumerInfo)
        assert (found.data_structure.selector, found.data_structure.priority) == ("a = 1", -5)
        assert FORMATS[target].properties(converted) == source.properties(message)


@pytest.mark.parametrize("kind", [TEXT, BYTES, MAP, STREAM])
def test_an_absent_body_has_a_neutral_form(kind: int) -> None:
    expected = {TEXT: None, BYTES: b"", MAP: b"\0\0\0\0", STREAM: b""}
    assert neutral_body(kind, None, False) == expected[kind]


def test_a_text_with_characters_of_all_planes_survives_the_view() -> None:
    text = "a\0é€😀"
    body = encode_text(text)
    message = text_message(12, body)
    view = FORMATS[FORMAT_OPENWIRE_10].view(message)
    assert view.body == text.encode("utf-8")
    again = FORMATS[FORMAT_OPENWIRE_1].encode_from_view(view)
    assert decode_message(again.raw, 1).content == len(body).to_bytes(4, "big") + body


def test_a_view_that_the_wire_cannot_hold_is_a_format_error() -> None:
    view = FORMATS[FORMAT_OPENWIRE_10].view(text_message())
    view.correlation_id = "x" * 70_000
    with pytest.raises(MessageFormatError):
        FORMATS[FORMAT_OPENWIRE_10].encode_from_view(view)
    view.correlation_id = None
    view.body = b"\xff\xfe"
    with pytest.raises(MessageFormatError):
        FORMATS[FORMAT_OPENWIRE_10].encode_from_view(view)


def test_errors_of_this_protocol_are_protocol_errors() -> None:
    with pytest.raises(ProtocolError):
        FORMATS[FORMAT_OPENWIRE_10].index(b"")
