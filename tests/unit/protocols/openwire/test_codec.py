"""A decoder takes any reads and stops where the connection must act; an encoder appends whole frames."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from spanwire.protocols.openwire.codec._marshallers import (
    ActiveMQQueue,
    ActiveMQTextMessage,
    Command,
    CommandVisitor,
    ConnectionControl,
    ConnectionInfo,
    ControlCommand,
    ExceptionResponse,
    FlushCommand,
    KeepAliveInfo,
    MessageAck,
    MessageFrame,
    ProducerInfo,
    Response,
    WireFormatInfo,
)
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder, decode_message
from spanwire.protocols.openwire.codec.errors import OpenWireEncodeError, OpenWireProtocolError
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, wire_format_info

KEEP_ALIVE = bytes.fromhex("000000060a0000000000")
TIGHT = WireFormat(tight=True, cache=True, cache_size=128)


def ready(wire_format: WireFormat | None = None, max_frame_size: int = 1_000_000) -> FrameDecoder:
    decoder = FrameDecoder(max_frame_size)
    decoder.negotiated(wire_format if wire_format is not None else WireFormat())
    decoder.authenticated()
    return decoder


def text_message(text: bytes = b"hello") -> ActiveMQTextMessage:
    message = ActiveMQTextMessage()
    message.destination = ActiveMQQueue("A.B")
    message.content = len(text).to_bytes(4, "big") + text
    message.command_id = 7
    message.response_required = True
    return message


def test_commands_that_arrive_in_one_read_come_in_order() -> None:
    encoder = FrameEncoder()
    data = b"".join(encoder.encode(Response(correlation_id=number)) for number in range(5))
    found = ready().feed(data)
    assert [command.correlation_id for command in found if isinstance(command, Response)] == [0, 1, 2, 3, 4]


def test_a_command_that_arrives_byte_by_byte_comes_with_its_last_byte() -> None:
    decoder = ready()
    for index in range(len(KEEP_ALIVE) - 1):
        assert decoder.feed(KEEP_ALIVE[index : index + 1]) == []
        assert decoder.pending_bytes == index + 1
    (command,) = decoder.feed(KEEP_ALIVE[-1:])
    assert isinstance(command, KeepAliveInfo)
    assert decoder.pending_bytes == 0


def test_a_large_message_in_many_reads_is_joined_whole() -> None:
    frame = FrameEncoder().encode(text_message(bytes(range(256)) * 2000))
    for step in (1000, 4095, 4096, 65536, len(frame) - 1):
        decoder = ready()
        found: list[Command] = []
        for start in range(0, len(frame), step):
            found += decoder.feed(frame[start : start + step])
        (command,) = found
        assert isinstance(command, MessageFrame)
        assert command.raw == frame[4:]
        assert (command.command_id, command.response_required) == (7, True)
        assert decoder.pending_bytes == 0


def test_frames_of_all_sizes_come_whole_and_in_order_whatever_the_reads() -> None:
    encoder = FrameEncoder()
    bodies = [bytes([number]) * size for number, size in enumerate((0, 5000, 1, 70_000, 4096, 3, 200_000, 4000))]
    stream = b"".join(encoder.encode(text_message(body)) + KEEP_ALIVE for body in bodies)
    for step in (3, 1000, 5000, 65_536, 262_144):
        decoder = ready()
        found: list[Command] = []
        for start in range(0, len(stream), step):
            found += decoder.feed(stream[start : start + step])
        assert decoder.pending_bytes == 0
        assert [type(command) for command in found] == [MessageFrame, KeepAliveInfo] * len(bodies)
        messages = [command for command in found if isinstance(command, MessageFrame)]
        contents = [decode_message(message.raw, 12).content or b"" for message in messages]
        assert [content[4:] for content in contents] == bodies


def test_the_rest_of_a_read_behind_the_wire_format_info_waits_for_the_negotiated_format() -> None:
    hello = FrameEncoder().encode(wire_format_info(WireFormatPreferences()))
    rest = FrameEncoder(TIGHT).encode(ConnectionInfo(client_id="c"))
    decoder = FrameDecoder()
    (first,) = decoder.feed(hello + rest)
    assert isinstance(first, WireFormatInfo)
    assert decoder.pending_bytes == len(rest)
    decoder.negotiated(TIGHT)
    (second,) = decoder.feed(b"")
    assert isinstance(second, ConnectionInfo)
    assert second.client_id == "c"
    assert decoder.feed(b"") == []


def test_nothing_but_a_wire_format_info_may_come_first() -> None:
    with pytest.raises(OpenWireProtocolError, match="not a WireFormatInfo"):
        FrameDecoder().feed(KEEP_ALIVE)


def test_commands_before_a_bad_frame_come_first_and_the_error_stays() -> None:
    decoder = ready()
    (command,) = decoder.feed(KEEP_ALIVE + bytes.fromhex("000000060d0000000000") + KEEP_ALIVE)
    assert isinstance(command, KeepAliveInfo)
    for data in (b"", b"", KEEP_ALIVE):
        with pytest.raises(OpenWireProtocolError, match="type 13"):
            decoder.feed(data)


def test_a_large_frame_behind_the_login_command_is_taken_once_the_login_is_accepted() -> None:
    decoder = FrameDecoder()
    decoder.negotiated(WireFormat())
    login = FrameEncoder().encode(ConnectionInfo(client_id="c"))
    message = FrameEncoder().encode(text_message(b"x" * 100_000))
    (command,) = decoder.feed(login + message)
    assert isinstance(command, ConnectionInfo)
    decoder.authenticated()
    (command,) = decoder.feed(b"")
    assert isinstance(command, MessageFrame)


def test_a_null_command_is_skipped() -> None:
    (command,) = ready().feed(bytes.fromhex("0000000100") + KEEP_ALIVE)
    assert isinstance(command, KeepAliveInfo)


def test_a_message_frame_decodes_to_the_message_that_was_sent() -> None:
    for wire_format in (WireFormat(), TIGHT, WireFormat(version=1, tight=True)):
        (frame,) = ready(wire_format).feed(FrameEncoder(wire_format).encode(text_message()))
        assert isinstance(frame, MessageFrame)
        message = decode_message(frame.raw, frame.version)
        assert isinstance(message, ActiveMQTextMessage)
        assert message.destination == ActiveMQQueue("A.B")
        assert message.content == b"\x00\x00\x00\x05hello"


def test_frames_are_appended_to_what_the_buffer_holds() -> None:
    out = BytesWriter()
    for wire_format in (WireFormat(), TIGHT):
        encoder = FrameEncoder(wire_format)
        out.write(b"before")
        encoder.append(Response(correlation_id=1), out)
        encoder.append(KeepAliveInfo(), out)
    assert out.getvalue().count(b"before") == 2
    assert out.getvalue().startswith(b"before" + FrameEncoder().encode(Response(correlation_id=1)))


@pytest.mark.parametrize(
    "command",
    [
        Response(correlation_id=2**31),
        ControlCommand(command="x" * 65536),
        ControlCommand(command="\ud800"),
        ConnectionControl(token=b"x", connected_brokers="€" * 30_000),
    ],
    ids=["int", "string", "surrogate", "octets"],
)
def test_a_value_that_the_wire_cannot_hold_is_refused_and_leaves_the_buffer_as_it_was(command: Command) -> None:
    for wire_format in (WireFormat(), WireFormat(tight=True)):
        out = BytesWriter()
        out.write(b"before")
        with pytest.raises(OpenWireEncodeError):
            FrameEncoder(wire_format).append(command, out)
        assert out.getvalue() == b"before"


def test_a_string_between_the_two_limits_can_only_be_written_loose() -> None:
    command = ControlCommand(command="x" * 40_000)
    assert len(FrameEncoder().encode(command)) > 40_000
    with pytest.raises(OpenWireEncodeError, match="32766"):
        FrameEncoder(WireFormat(tight=True)).encode(command)


def test_stack_traces_are_written_empty_when_the_peer_wants_them() -> None:
    answer = ExceptionResponse(correlation_id=1, exception=Throwable("java.io.IOException", "no"))
    with_traces = FrameEncoder(WireFormat(stack_traces=True)).encode(answer)
    without = FrameEncoder(WireFormat(stack_traces=False)).encode(answer)
    assert with_traces[4:] == without[4:] + b"\x00\x00\x00"


class Recorder(CommandVisitor):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def message_ack(self, command: MessageAck) -> None:
        self.seen.append("ack")

    def message(self, command: MessageFrame) -> None:
        self.seen.append("message")


def test_a_command_visits_the_method_of_its_name_and_all_others_are_refused() -> None:
    recorder = Recorder()
    MessageAck().visit(recorder)
    MessageFrame(28, 12, bytes(6)).visit(recorder)
    assert recorder.seen == ["ack", "message"]
    for command in (FlushCommand(), ProducerInfo(), text_message()):
        with pytest.raises(OpenWireProtocolError, match="is not expected here"):
            command.visit(recorder)
