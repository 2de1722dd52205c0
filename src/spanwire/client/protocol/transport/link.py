"""One OpenWire link of a connection: frames, handshake and keep-alives, without a socket.

A `spanwire.client.protocol.connection.ClientConnection` outlives a link: each reconnect creates a new link. A
MessageDispatch is not decoded: the link cuts off the head and the redelivery counter, and the message stays encoded.

    size 4 | type 21 | command id 4 | response required 1 | consumer | destination | 1 | message | redelivery counter 4
"""

from __future__ import annotations

from typing import Final, Protocol

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i64

from spanwire.model.errors import MessageFormatError, MessageTooLargeError, ProtocolError
from spanwire.protocols.base import MAX_OPENWIRE_FRAME_BEFORE_LOGIN
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder, StructureDecoder, decode_message
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.frames import INCOMPLETE, SIZE_OCTETS, FrameBuffer
from spanwire.protocols.openwire.codec.loose import LooseReader, LooseWriter
from spanwire.protocols.openwire.codec.other_protocol import check_first
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, negotiate, wire_format_info
from spanwire.protocols.openwire.inactivity import InactivityMonitor

HEAD_START: Final = 6  # octets before the consumer: type id, command id, response required
COUNTER_OCTETS: Final = 4
MAX_HEAD_OCTETS: Final = 2048  # octets of consumer and destination; a longer head is decoded each time


class LinkReceiver(Protocol):
    """Port: the receiver of the commands of a link."""

    def on_negotiated(self, wire_format: WireFormat) -> None:
        """Handle the end of the negotiation; commands may be sent from now on."""
        ...

    def on_dispatch(
        self, consumer: wire.ConsumerId | None, destination: bytes, raw: bytes, redelivery_count: int
    ) -> None:
        """Handle a message for a consumer, loosely encoded without cache.

        Empty ``raw`` ends a browse or a pull.
        """
        ...

    def on_command(self, command: DataStructure) -> None:
        """Handle any other command."""
        ...


class Link:
    """Decodes bytes to calls of a `LinkReceiver`, and encodes commands to bytes."""

    def __init__(self, preferences: WireFormatPreferences, receiver: LinkReceiver, now: float) -> None:
        self.wire_format = WireFormat()
        self.is_negotiated = False
        self.output = BytesWriter()
        self._preferences: Final[WireFormatPreferences] = preferences
        self._receiver: Final[LinkReceiver] = receiver
        self._frames: Final[FrameBuffer] = FrameBuffer(min(preferences.max_frame_size, MAX_OPENWIRE_FRAME_BEFORE_LOGIN))
        self._decoder = StructureDecoder(WireFormat())
        self._encoder = FrameEncoder()
        self.passes_messages = True
        self._reader = LooseReader(self.wire_format.version, False)
        self._head = b""
        self._head_consumer: wire.ConsumerId | None = None
        self._head_destination = b""
        self._monitor = InactivityMonitor(0.0, 0.0, now)
        self._encoder.append(wire_format_info(preferences), self.output)

    def send(self, command: DataStructure) -> None:
        """Encode a command. Raises `MessageFormatError` for a command that cannot be encoded."""
        try:
            self._encoder.append(command, self.output)
        except ProtocolError as error:
            raise MessageFormatError(f"a command cannot be written: {error}") from None

    def send_message(self, raw: bytes) -> None:
        """Append an encoded message of the link's version.

        Raises `MessageTooLargeError` for a message above the broker's frame limit.
        """
        limit = self.wire_format.max_frame_size
        if limit > 0 and len(raw) > limit:
            raise MessageTooLargeError(f"a message of {len(raw)} bytes is larger than the broker's limit of {limit}")
        if self.passes_messages:
            output = self.output
            write_i32_be(output, len(raw))
            output.write(raw)
            return
        self.send(decode_message(raw, self.wire_format.version))

    def send_frame(self, octets: bytes) -> None:
        """Append a loosely encoded, uncached command, from the type id on."""
        if self.passes_messages:
            output = self.output
            write_i32_be(output, len(octets))
            output.write(octets)
            return
        plain = WireFormat(version=self.wire_format.version, stack_traces=self.wire_format.stack_traces)
        structure = StructureDecoder(plain).decode(octets, 0, len(octets))
        assert structure is not None
        self.send(structure)

    def take(self) -> bytes:
        """Return and remove the bytes to write."""
        data = self.output.getvalue()
        self.output = BytesWriter()
        return data

    def on_written(self, now: float) -> None:
        """Note that bytes were written."""
        self._monitor.written(now)

    def authenticated(self) -> None:
        """Allow frames up to the full size from now on."""
        self._frames.limit = self._preferences.max_frame_size

    def receive_data(self, data: bytes, now: float) -> None:
        """Take bytes from the broker and report every complete frame. Raises `RemoteProtocolError`."""
        self._monitor.received(now)
        if not self.is_negotiated:
            check_first(data)
        frames = self._frames
        octets = data
        position: i64 = 0
        if frames.is_inside_frame:
            frame = frames.complete_frame(data)
            if not frame:
                return
            position = frames.used
            self._take_frame(frame, 0, len(frame), now)
        elif frames.buffered > 0:
            octets = frames.take_buffered(data)
        while True:
            size = frames.size_at(octets, position)
            if size == INCOMPLETE:
                break
            start: i64 = position + SIZE_OCTETS
            self._take_frame(octets, start, start + size, now)
            position = start + size
        if position < len(octets):
            frames.buffer(octets, position)

    def _take_frame(self, octets: bytes, start: i64, end: i64, now: float) -> None:
        type_id: int = octets[start]
        if not self.is_negotiated:
            if type_id != wire.WIRE_FORMAT_INFO:
                raise OpenWireProtocolError(f"the first frame is of type {type_id}, not a WireFormatInfo")
            info = self._decoder.decode(octets, start, end)
            assert isinstance(info, wire.WireFormatInfo)
            self._negotiate(info, now)
        elif type_id == wire.WIRE_FORMAT_INFO:
            raise OpenWireProtocolError("a second WireFormatInfo came; the wire format is negotiated once")
        elif type_id == wire.MESSAGE_DISPATCH and self.passes_messages:
            self._take_dispatch(octets, start, end)
        else:
            command = self._decoder.decode(octets, start, end)
            if isinstance(command, wire.MessageDispatch):
                self._convert_dispatch(command)
            elif command is not None:
                self._receiver.on_command(command)

    def _negotiate(self, info: wire.WireFormatInfo, now: float) -> None:
        agreed = negotiate(self._preferences, info)
        self.wire_format = agreed
        self.is_negotiated = True
        self._decoder = StructureDecoder(agreed)
        self._encoder = FrameEncoder(agreed)
        self.passes_messages = agreed.passes_messages()
        self._reader = LooseReader(agreed.version, agreed.stack_traces)
        delay = agreed.max_inactivity_initial_delay_ms / 1000
        self._monitor = InactivityMonitor(agreed.max_inactivity_ms / 1000, delay, now)
        self._receiver.on_negotiated(agreed)

    def _take_dispatch(self, octets: bytes, start: i64, end: i64) -> None:
        position: i64 = start + HEAD_START
        head_end: i64 = position + len(self._head)
        if not self._head or head_end >= end or octets[position:head_end] != self._head:
            head_end = self._read_head(octets, start, end)
        if head_end + 1 + COUNTER_OCTETS > end:
            raise OpenWireProtocolError("a dispatch ends inside its fields")
        message_end: i64 = end - COUNTER_OCTETS
        raw = b""
        if octets[head_end]:
            raw = octets[head_end + 1 : message_end]
            if not raw:
                raise OpenWireProtocolError("a dispatch announces a message and has none")
        elif head_end + 1 != message_end:
            raise OpenWireProtocolError(f"{message_end - head_end - 1} bytes are left over in a dispatch")
        count: int = read_i32_be(octets, message_end)
        self._receiver.on_dispatch(self._head_consumer, self._head_destination, raw, count if count > 0 else 0)

    def _read_head(self, octets: bytes, start: i64, end: i64) -> i64:
        reader = self._reader
        reader.begin(octets, start, end)
        reader.read_int()
        reader.read_boolean()
        self._head = b""
        self._head_consumer = wire.as_consumer_id(reader.read_nested())
        destination_start: i64 = reader.position
        wire.as_active_mq_destination(reader.read_nested())
        head_end: i64 = reader.position
        self._head_destination = octets[destination_start:head_end]
        if head_end - start - HEAD_START <= MAX_HEAD_OCTETS:
            self._head = octets[start + HEAD_START : head_end]
        return head_end

    def _convert_dispatch(self, command: wire.MessageDispatch) -> None:
        """Report a dispatch of a tight or cached link, with the message encoded loosely."""
        raw = b""
        message = command.message
        version = self.wire_format.version
        if message is not None:
            writer = LooseWriter(version, self.wire_format.stack_traces)
            writer.out.append(message.type_id())
            message.write(writer)
            raw = writer.out.getvalue()
        writer = LooseWriter(version, False)
        writer.write_nested(command.destination)
        count = command.redelivery_counter
        self._receiver.on_dispatch(command.consumer_id, writer.out.getvalue(), raw, count if count > 0 else 0)

    def suspend(self, is_suspended: bool, now: float) -> None:
        """Suspend the inactivity check while the shell does not read."""
        self._monitor.suspend(is_suspended, now)

    def next_timeout(self) -> float | None:
        """Return the time of the next `handle_timeout` in monotonic seconds, or None."""
        return self._monitor.next_timeout()

    def handle_timeout(self, now: float) -> bool:
        """Send a keep-alive if due. Returns False if the broker was silent for the negotiated time."""
        if self._monitor.is_silent(now):
            return False
        if self._monitor.is_keep_alive_due(now):
            self.send(wire.KeepAliveInfo())
        return True
