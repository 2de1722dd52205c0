"""Fuzz the OpenWire decoder: any bytes give commands or a protocol error, quickly, and the inside of a message too.

python tests/fuzz/fuzz_openwire.py [COUNT [SEED]]      seeded damage to golden frames; atheris if it is installed
python tests/fuzz/fuzz_openwire.py -atheris_runs=N     atheris and its own options
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from spanwire.model.errors import InvalidDestinationError, MessageFormatError
from spanwire.protocols.openwire.codec._marshallers import Command, Message, MessageFrame, WireFormatInfo
from spanwire.protocols.openwire.codec.codec import FrameDecoder
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, negotiate
from spanwire.protocols.openwire.messages.message_body import KINDS, neutral_body
from spanwire.protocols.openwire.messages.message_format import CANONICAL_VERSIONS, OpenWireMessageFormat, format_id_of
from spanwire.protocols.primitive_map import decode_map
from tests.fuzz.harness import run  # the path above makes a plain run of this file find it

DEFAULT_COUNT: Final = 100_000
SLOWEST_SECONDS: Final = 1.0  # one input, interpreted, on a busy machine; the target on a quiet one is 50 ms
VECTORS: Final = Path(__file__).resolve().parents[1] / "vectors" / "openwire" / "vectors.json.gz"
LENGTHS: Final = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff", b"\x7f\xff", b"\x00\x00")
VERSIONS: Final = (1, 2, 3, 9, 10, 12)
FORMATS: Final = {format_id: OpenWireMessageFormat(format_id) for format_id in CANONICAL_VERSIONS}


def golden_frames() -> list[tuple[int, bytes]]:
    """Every golden frame without its size, and the choice of its format."""
    found: list[tuple[int, bytes]] = []
    for case in json.loads(gzip.decompress(VECTORS.read_bytes()))["cases"]:
        for frame in case["frames"]:
            octets = bytes.fromhex(frame["hex"])[4:]
            format_bits = (frame["encoding"] == "tight") | frame["cache"] << 1 | (octets[0] == 1) << 7
            for index, version in enumerate(VERSIONS):
                if version in frame["versions"]:
                    found.append((format_bits | index << 3, octets))
    return found


def random_input(source: random.Random, frames: list[tuple[int, bytes]]) -> tuple[int, bytes]:
    """A damaged golden frame, mostly in its own format; of every second one a message is passed on undecoded."""
    choice, octets = source.choice(frames)
    if source.random() < 0.1:
        choice = source.randrange(256)
    return choice | source.getrandbits(1) << 2, damaged(source, octets)


def read_inside(command: Command) -> None:
    """What a broker decodes on demand."""
    if isinstance(command, WireFormatInfo):
        negotiate(WireFormatPreferences(), command)
    elif isinstance(command, Message):
        decode_map(command.marshalled_properties or b"")
        neutral_body(KINDS[command.type_id()], command.content, command.compressed)
    elif isinstance(command, MessageFrame):
        message_format = FORMATS[format_id_of(command.version)]
        message = message_format.received(command)
        message_format.properties(message)
        message_format.view(message)


def run_one(choice: int, octets: bytes) -> bool:
    """Whether ``octets`` were a command in the format that ``choice`` names; anything but the known errors escapes."""
    started = time.process_time()
    decoder = FrameDecoder(pass_messages=choice & 4 == 0)
    version = VERSIONS[(choice >> 3) % len(VERSIONS)]
    if choice & 128 == 0:
        decoder.negotiated(WireFormat(version=version, tight=choice & 1 != 0, cache=choice & 2 != 0, cache_size=128))
        decoder.authenticated()
    accepted = False
    try:
        for command in decoder.feed(len(octets).to_bytes(4, "big") + octets):
            accepted = True
            read_inside(command)
    except (OpenWireProtocolError, MessageFormatError, InvalidDestinationError):
        pass
    assert decoder.pending_bytes <= len(octets) + 4
    assert time.process_time() - started < SLOWEST_SECONDS, f"too slow: {choice} {octets.hex()}"
    return accepted


def run_bytes(data: bytes) -> None:
    """The entry that atheris calls."""
    if data:
        _ = run_one(data[0], data[1:])


def damaged(source: random.Random, frame: bytes) -> bytes:
    """A frame with a few places changed, lengths above all."""
    octets = bytearray(frame)
    for _ in range(source.randrange(4)):
        place = source.randrange(1, len(octets) + 1)
        kind = source.random()
        piece = source.choice(LENGTHS) if kind < 0.5 else source.randbytes(source.randrange(1, 5))
        if kind < 0.8:
            octets[place : place + len(piece)] = piece
        elif kind < 0.9:
            octets[place:place] = piece
        else:
            del octets[place : place + source.randrange(1, 20)]
    return bytes(octets)


def loop(source: random.Random, count: int) -> str:
    """Damaged frames."""
    frames = golden_frames()
    accepted = sum(run_one(*random_input(source, frames)) for _ in range(count))
    return f"openwire: {count} frames, {accepted} accepted"


if __name__ == "__main__":
    sys.exit(run(sys.argv, run_bytes, DEFAULT_COUNT, loop))
