"""Decoder and encoder of a connection's frames.

    decoder = FrameDecoder(max_frame_size)
    commands = decoder.feed(data)          # the peer's WireFormatInfo comes alone
    decoder.negotiated(wire_format)        # from then on everything else
    decoder.authenticated()                # from then on frames up to the full size
    encoder = FrameEncoder(wire_format); encoder.append(command, out)

The connection sets the frame limit, no frame of the peer can: 64 KiB before the login, the full size after the login. A
bridge may send 1 MiB before its login if the connection allows it (``introduces``).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i64

from spanwire.protocols.base import MAX_FRAME_SIZE, MAX_INTRODUCTION, MAX_OPENWIRE_FRAME_BEFORE_LOGIN
from spanwire.protocols.octets import patch_int
from spanwire.protocols.openwire.codec._marshallers import (
    ACTIVE_MQ_BLOB_MESSAGE,
    ACTIVE_MQ_MESSAGE,
    MESSAGE_ACK,
    WIRE_FORMAT_INFO,
    Command,
    Message,
    MessageAck,
    MessageFrame,
    is_message,
    read_structure,
)
from spanwire.protocols.openwire.codec.ack_run import AckReader
from spanwire.protocols.openwire.codec.answer_run import add_answer
from spanwire.protocols.openwire.codec.errors import OpenWireEncodeError, OpenWireProtocolError
from spanwire.protocols.openwire.codec.frames import INCOMPLETE, SIZE_OCTETS, FrameBuffer
from spanwire.protocols.openwire.codec.loose import LooseReader, LooseWriter
from spanwire.protocols.openwire.codec.object_cache import ReaderCache, WriterCache
from spanwire.protocols.openwire.codec.schema import LATEST_VERSION, DataStructure, FieldReader
from spanwire.protocols.openwire.codec.tight import TightReader, TightWriter
from spanwire.protocols.openwire.codec.wire_format import WireFormat

NULL_TYPE: Final = 0


class StructureDecoder:
    """Decodes the octets of a frame in a negotiated encoding with its object cache.

    Frame sizes and the order of commands are left to the caller.
    """

    def __init__(self, wire_format: WireFormat) -> None:
        cache = ReaderCache(wire_format.cache_size) if wire_format.cache else None
        self._tight: Final[TightReader | None] = (
            TightReader(wire_format.version, wire_format.stack_traces, cache) if wire_format.tight else None
        )
        self._loose: Final[LooseReader] = LooseReader(wire_format.version, wire_format.stack_traces, cache)

    def decode(self, data: bytes, start: i64, end: i64) -> DataStructure | None:
        """Decode the structure between two offsets, from its type id on; return None for the null command.

        Raises:
            OpenWireProtocolError: the octets are not exactly one structure.
        """
        reader: FieldReader = self._loose
        tight = self._tight
        if tight is None:
            type_id = reader.begin(data, start, end)
        else:
            type_id = tight.begin(data, start, end)
            reader = tight
        structure: DataStructure | None = None
        if type_id != NULL_TYPE:
            if tight is not None:
                tight.open_stream()
            structure = read_structure(type_id, reader)
        if reader.position != end:
            raise OpenWireProtocolError(f"{reader.remaining()} bytes are left over in a frame of type {type_id}")
        reader.data = b""  # a large frame must not stay in memory until the next one
        return structure


class FrameDecoder:
    """Converts the bytes of a connection to commands.

    With ``pass_messages``, for the broker, a message becomes a `MessageFrame` with loose, uncached octets, whatever
    encoding was negotiated. Acknowledgements of single messages may become an `AckRun`. Without ``pass_messages`` a
    message becomes a `Message` with all fields, and each acknowledgement a command. If ``gathers_answers`` is set,
    responses may become an `AnswerRun` if the encoding allows.
    """

    def __init__(self, max_frame_size: int = MAX_FRAME_SIZE, pass_messages: bool = True) -> None:
        self._max_frame_size: Final[int] = max_frame_size
        self._pass_messages: Final[bool] = pass_messages
        self._frames: Final[FrameBuffer] = FrameBuffer(min(max_frame_size, MAX_OPENWIRE_FRAME_BEFORE_LOGIN))
        self._structures = StructureDecoder(WireFormat())
        self._converter: LooseWriter | None = None
        self._acks: AckReader | None = None
        self.gathers_answers = False
        self._version = LATEST_VERSION
        self._is_negotiated = False
        self._failure: str | None = None
        self.is_drained = True  # nothing more can be decoded before the next read

    @property
    def pending_bytes(self) -> int:
        """Return the buffered octets of undecoded frames, which count against the receive budget."""
        return self._frames.buffered

    @property
    def frame_limit(self) -> int:
        """Return the largest frame that is decoded now, in octets."""
        return self._frames.limit

    def introduces(self, at_length: bool) -> None:
        """Set the frame limit before the login: `MAX_INTRODUCTION` if ``at_length``, else the ordinary limit."""
        limit = MAX_INTRODUCTION if at_length else MAX_OPENWIRE_FRAME_BEFORE_LOGIN
        self._frames.limit = min(limit, self._max_frame_size)

    def authenticated(self) -> None:
        """Allow frames up to the full size from now on."""
        self._frames.limit = self._max_frame_size

    def negotiated(self, wire_format: WireFormat) -> None:
        """Decode all further frames in ``wire_format`` with an empty object cache; called once."""
        self._structures = StructureDecoder(wire_format)
        self._version = wire_format.version
        self._is_negotiated = True
        if not wire_format.passes_messages():
            self._converter = LooseWriter(wire_format.version, wire_format.stack_traces)
        elif self._pass_messages:
            self._acks = AckReader(wire_format.version)

    def release(self) -> None:
        """Forget the acknowledgements of a closed connection, since their targets refer to the connection."""
        self._acks = None

    def feed(self, data: bytes) -> list[Command]:
        """Return the complete commands up to the end of ``data``.

        The commands end earlier where the connection must act.

        Such a point is a WireFormatInfo, because the rest is in the negotiated encoding, or an undecodable frame,
        because the commands before it are valid. Handle the commands, then call ``feed(b"")`` until the result is
        empty or ``is_drained`` is set.

        Raises:
            OpenWireProtocolError: the next frame cannot be decoded; raised by all further calls as well.
        """
        commands: list[Command] = []
        if self._failure is not None:
            raise OpenWireProtocolError(self._failure)
        frames = self._frames
        acks = None if self.gathers_answers else self._acks
        octets = data
        position: i64 = 0
        self.is_drained = False
        try:
            if frames.is_inside_frame:
                frame = frames.complete_frame(data)
                if not frame:
                    self.is_drained = True
                    return commands
                position = frames.used
                self._take(commands, frame, 0, len(frame))
            elif frames.buffered > 0:
                octets = frames.take_buffered(data)
            end: i64 = len(octets)
            while self._is_negotiated or not commands:
                start: i64 = position + SIZE_OCTETS
                announced: int = read_i32_be(octets, position) if start <= end else 0
                size: i64 = announced
                is_whole = 0 < size <= end - start and size <= frames.limit  # no call for each of thousands of frames
                if not is_whole and frames.size_at(octets, position) == INCOMPLETE:
                    self.is_drained = True
                    break
                following: i64 = start + size
                type_id: int = octets[start]
                if acks is not None and ACTIVE_MQ_MESSAGE <= type_id <= ACTIVE_MQ_BLOB_MESSAGE:  # as in `_take`
                    acks.run = None
                    commands.append(MessageFrame(type_id, self._version, octets[start:following]))
                else:
                    self._take(commands, octets, start, following)
                position = following  # not before: a frame that cannot be decoded is read again
        except OpenWireProtocolError as error:
            if not commands:
                self._failure = str(error)  # the error's traceback refers to this decoder
                raise
        self._end_read(octets, position)
        return commands

    def _end_read(self, octets: bytes, position: i64) -> None:
        """Buffer the rest of a read from ``position`` on, and add no more acknowledgements to the last run."""
        if position < len(octets):
            self._frames.buffer(octets, position)
        if self._acks is not None:
            self._acks.run = None

    def _take(self, commands: list[Command], octets: bytes, start: i64, end: i64) -> None:
        acks = self._acks
        type_id: int = octets[start]
        if acks is not None:
            if type_id == MESSAGE_ACK:
                if not acks.add(commands, octets, start, end):
                    self._learn_ack(acks, commands, octets, start, end)
                return
            acks.run = None
            if self.gathers_answers and add_answer(commands, octets, start, end):
                return
            if ACTIVE_MQ_MESSAGE <= type_id <= ACTIVE_MQ_BLOB_MESSAGE:  # with ``acks`` messages pass as they are
                raw = octets if end - start == len(octets) else octets[start:end]
                commands.append(MessageFrame(type_id, self._version, raw))
                return
        command = self._decode(octets, start, end)
        if command is not None:
            commands.append(command)

    def _learn_ack(self, acks: AckReader, commands: list[Command], octets: bytes, start: i64, end: i64) -> None:
        """Decode an acknowledgement in full, as the pattern of the next ones."""
        acknowledgement = self._decode(octets, start, end)
        if isinstance(acknowledgement, MessageAck):
            commands.append(acknowledgement)
            acks.learn(acknowledgement, octets, start, end)

    def _decode(self, octets: bytes, start: i64, end: i64) -> Command | None:
        type_id: int = octets[start]
        if (type_id == WIRE_FORMAT_INFO) == self._is_negotiated:
            if self._is_negotiated:
                raise OpenWireProtocolError("a second WireFormatInfo came; the wire format is negotiated once")
            raise OpenWireProtocolError(f"the first frame is of type {type_id}, not a WireFormatInfo")
        if self._pass_messages and is_message(type_id):
            return self._decode_message(type_id, octets, start, end)
        structure = self._structures.decode(octets, start, end)
        if structure is None or isinstance(structure, Command):
            return structure
        raise OpenWireProtocolError(f"a structure of type {type_id} is no command")

    def _decode_message(self, type_id: int, octets: bytes, start: i64, end: i64) -> MessageFrame:
        converter = self._converter
        if converter is None:
            return MessageFrame(type_id, self._version, octets if end - start == len(octets) else octets[start:end])
        message = self._structures.decode(octets, start, end)
        out = BytesWriter()
        out.append(type_id)
        converter.begin(out)
        if message is not None:
            message.write(converter)
        return MessageFrame(type_id, self._version, out.getvalue())


class FrameEncoder:
    """Encodes commands as frames in the negotiated encoding, with its object cache.

    A WireFormatInfo is always written loose and uncached.

    Raises:
        OpenWireEncodeError: a command has no form in the encoding.
    """

    def __init__(self, wire_format: WireFormat | None = None) -> None:
        chosen = wire_format if wire_format is not None else WireFormat()
        cache = WriterCache(chosen.cache_size) if chosen.cache else None
        self.wire_format: Final[WireFormat] = chosen
        self._tight: Final[TightWriter | None] = (
            TightWriter(chosen.version, chosen.stack_traces, cache) if chosen.tight else None
        )
        self._loose: Final[LooseWriter] = LooseWriter(chosen.version, chosen.stack_traces, cache)
        self._passes_messages: Final[bool] = chosen.passes_messages()

    def encode(self, command: DataStructure) -> bytes:
        """Return a command as a frame with its size."""
        out = BytesWriter()
        self.append(command, out)
        return out.getvalue()

    def append(self, command: DataStructure, out: BytesWriter) -> None:
        """Append a command as a frame with its size to ``out``."""
        type_id = command.type_id()
        if isinstance(command, MessageFrame) and not self._passes_messages:
            self._append_tight_or_loose(decode_message(command.raw, command.version), type_id, out)
        elif type_id == WIRE_FORMAT_INFO:
            append_loose(LooseWriter(LATEST_VERSION, True), command, type_id, out)
        else:
            self._append_tight_or_loose(command, type_id, out)

    def _append_tight_or_loose(self, command: DataStructure, type_id: int, out: BytesWriter) -> None:
        tight = self._tight
        if tight is None:
            append_loose(self._loose, command, type_id, out)
            return
        tight.begin()
        command.write(tight)
        tight.finish(type_id, out)


def append_loose(writer: LooseWriter, command: DataStructure, type_id: int, out: BytesWriter) -> None:
    """Append a loose frame; ``out`` stays unchanged if the command cannot be encoded."""
    position: int = len(out)
    write_i32_be(out, 0)
    out.append(type_id)
    writer.begin(out)
    try:
        command.write(writer)
    except OpenWireEncodeError:
        out.truncate(position)
        raise
    patch_int(out, position, len(out) - position - SIZE_OCTETS)


def decode_message(raw: bytes, version: int) -> Message:
    """Decode all fields of a message from its loose, uncached octets.

    Raises:
        OpenWireProtocolError: the octets are not exactly one message.
    """
    structure = StructureDecoder(WireFormat(version=version)).decode(raw, 0, len(raw))
    if not isinstance(structure, Message):
        raise OpenWireProtocolError(f"a structure of type {raw[0]} stands where a message is expected")
    return structure
