"""Fuzz the STOMP decoder and a whole connection: any bytes give frames or a failure, and the broker stays whole.

python tests/fuzz/fuzz_stomp.py [COUNT [SEED]]      seeded random conversations; atheris if it is installed
python tests/fuzz/fuzz_stomp.py -atheris_runs=N     atheris and its own options
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from spanwire.protocols.stomp.codec import FrameDecoder
from tests.support.stomp_dialogue import Stage  # the path above makes a plain run of this file find it

DEFAULT_COUNT: Final = 20_000
SLOWEST_SECONDS: Final = 1.0  # one conversation, interpreted, on a busy machine
COMMANDS: Final = b"CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK NACK BEGIN COMMIT ABORT DISCONNECT MESSAGE GET".split()
NAMES: Final = (
    b"destination id ack message-id subscription transaction receipt content-length persistent priority expires type "
    b"reply-to selector browser accept-version heart-beat client-id amq-msg-type JMSXGroupID timestamp k login "
    b"activemq.noLocal activemq.prefetchSize correlation-id JMSReplyTo AMQ_SCHEDULED_DELAY"
).split()
VALUES: Final = (
    b"/queue/A|/topic/B|/temp-queue/T|/queue/A,/topic/B|/queue/>|/remote-temp-queue/x|1|0|-1|99999999999|t|true|auto|"
    b"client|client-individual|1.2|1.0,1.1|0,0|10,x|\xff|a\\nb\\c\\\\|k = '1'|i > |"
    b"1-ID\\chost-32769-1700000000000-0\\c1\\c-1\\c1\\c1|ID:host-32769-1700000000000-0:1:-1:1:1|text|bytes||\r"
).split(b"|")


def run_bytes(data: bytes) -> None:
    """The entry that atheris calls: the bytes after a login, whole and in pieces, then once without a login."""
    started = time.process_time()
    stage = Stage()
    peer = stage.peer(("1.0", "1.1", "1.2")[len(data) % 3])
    size = 1 + len(data) % 97
    for start in range(0, len(data), size):
        peer.sends(data[start : start + size])
    for frame in peer.receives():
        assert frame.command in ("MESSAGE", "RECEIPT", "ERROR"), frame
    peer.leaves()
    assert stage.broker.connection_views() == []
    decoder = FrameDecoder()
    decoder.feed(data)
    assert decoder.buffered_bytes <= len(data)
    assert time.process_time() - started < SLOWEST_SECONDS, f"too slow: {data!r}"


def random_frame(source: random.Random) -> bytes:
    """Mostly a frame that a client could send."""
    line_end = source.choice((b"\n", b"\n", b"\n", b"\r\n"))
    lines = [source.choice(COMMANDS)]
    for _ in range(source.randrange(8)):
        lines.append(source.choice(NAMES) + source.choice((b":", b":", b":", b": ", b"")) + source.choice(VALUES))
    body = source.choice((b"", b"x", b"hello\n\n", b"\0", bytes(source.randrange(256) for _ in range(20))))
    if source.random() < 0.2:
        lines.append(b"content-length:%d" % len(body))
    return line_end.join([*lines, b"", body]) + source.choice((b"\0", b"\0\n", b"\0\0", b"", b"\n"))


def random_bytes(source: random.Random) -> bytes:
    """Several frames, sometimes damaged."""
    data = b"".join(random_frame(source) for _ in range(source.randrange(1, 8)))
    if source.random() < 0.3:
        damaged = bytearray(data)
        for _ in range(source.randrange(1, 6)):
            damaged[source.randrange(len(damaged))] = source.choice((0, 10, 13, 58, 92, 255, source.randrange(256)))
        data = bytes(damaged)
    return data


def main(arguments: list[str]) -> int:
    """Run atheris if it is there and asked with its options or without a count, else a seeded loop."""
    counts = [argument for argument in arguments[1:] if argument.isdecimal()]
    if not counts and importlib.util.find_spec("atheris") is not None:
        atheris = importlib.import_module("atheris")
        atheris.instrument_all()
        atheris.Setup(arguments, run_bytes)
        atheris.Fuzz()
        return 0
    count = int(counts[0]) if counts else DEFAULT_COUNT
    seed = int(counts[1]) if len(counts) > 1 else 1
    source = random.Random(seed)
    for _ in range(count):
        run_bytes(random_bytes(source))
    print(f"stomp: {count} conversations, seed {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
