"""Fuzz the STOMP decoder and a whole connection: any bytes give frames or a failure, and the broker stays whole.

python tests/fuzz/fuzz_stomp.py [COUNT [SEED]]      seeded random conversations; atheris if it is installed
python tests/fuzz/fuzz_stomp.py -atheris_runs=N     atheris and its own options
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from spanwire.protocols.stomp.codec.codec import FrameDecoder
from tests.fuzz.harness import run
from tests.support.stomp_dialogue import Stage  # the path above makes a plain run of this file find it

DEFAULT_COUNT: Final = 20_000
SLOWEST_SECONDS: Final = 1.0  # one conversation, interpreted, on a busy machine
DESTINATIONS: Final = b"/queue/A|/queue/A|/topic/B|/temp-queue/T|/queue/A,/topic/B|/queue/>|/topic/>|A|/queue/".split(
    b"|"
)
ACK_IDS: Final = b"1-ID\\chost-32769-1700000000000-0\\c1\\c-1\\c1\\c1|2-ID:host-32769-1700000000000-0:1:-1:1:2|x".split(
    b"|"
)
MESSAGE_IDS: Final = b"ID:host-32769-1700000000000-0:1:-1:1:1|ID:host-32769-1700000000000-0:1:-1:1:2|x".split(b"|")
USUAL: Final[dict[bytes, dict[bytes, list[bytes]]]] = {
    b"SEND": {b"destination": DESTINATIONS, b"persistent": [b"true"], b"k": [b"1", b"a\\nb\\c\\\\"],
              b"transaction": [b"t"], b"reply-to": DESTINATIONS, b"receipt": [b"r"],
              b"expires": [b"0", b"1"], b"amq-msg-type": [b"bytes"]},
    b"SUBSCRIBE": {b"destination": DESTINATIONS, b"id": [b"1", b"2"], b"ack": [b"client", b"client-individual"],
                   b"selector": [b"k = 1", b"k >"], b"browser": [b"true"], b"activemq.prefetchSize": [b"1", b"0"]},
    b"UNSUBSCRIBE": {b"id": [b"1", b"2"], b"destination": DESTINATIONS},
    b"ACK": {b"id": ACK_IDS, b"message-id": MESSAGE_IDS, b"subscription": [b"1", b"2"], b"transaction": [b"t"]},
    b"NACK": {b"id": ACK_IDS, b"message-id": MESSAGE_IDS, b"subscription": [b"1", b"2"], b"receipt": [b"r"]},
    b"BEGIN": {b"transaction": [b"t", b"u"]},
    b"COMMIT": {b"transaction": [b"t", b"u"], b"receipt": [b"r"]},
    b"ABORT": {b"transaction": [b"t", b"u"]},
    b"DISCONNECT": {b"receipt": [b"r"]},
    b"CONNECT": {b"accept-version": [b"1.2"]},
    b"FOO": {},
}  # fmt: skip
COMMANDS: Final = [b"SEND"] * 6 + [b"SUBSCRIBE"] * 5 + [b"ACK"] * 4 + [*USUAL]
ODD_HEADERS: Final = (
    b"content-length:1|content-length:-1|priority:x|heart-beat:1,1|JMSXGroupID:g|timestamp:5|:x|nothing|k:\xff|\\c:\\n|"
    b"AMQ_SCHEDULED_DELAY:1|JMSReplyTo:topic://R|receipt:|persistent:true"
).split(b"|")


def run_bytes(data: bytes) -> None:
    """The entry that atheris calls."""
    started = time.process_time()
    converse(data)
    assert time.process_time() - started < SLOWEST_SECONDS, f"too slow: {data!r}"


def converse(data: bytes) -> None:
    """The bytes in pieces after a login, then once without a login."""
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


def random_frame(source: random.Random) -> bytes:
    """Mostly a frame that a client could send."""
    line_end = source.choice((b"\n", b"\n", b"\n", b"\n", b"\r\n"))
    command = source.choice(COMMANDS)
    lines = [command]
    for name, values in USUAL[command].items():
        chance = 0.9 if name in (b"destination", b"id", b"message-id") else 0.3
        if source.random() < chance:
            lines.append(name + b":" + source.choice(values))
    if source.random() < 0.1:
        lines.append(source.choice(ODD_HEADERS))
    body = source.choice((b"", b"x", b"hello\n\n", b"\0", bytes(source.randrange(256) for _ in range(20))))
    if source.random() < 0.2:
        lines.append(b"content-length:%d" % len(body))
    return line_end.join([*lines, b"", body]) + source.choice((b"\0", b"\0\n", b"\0\0", b"", b"\n"))


def random_bytes(source: random.Random) -> bytes:
    """Several frames, sometimes damaged."""
    data = b"".join(random_frame(source) for _ in range(source.randrange(1, 12)))
    if source.random() < 0.3:
        damaged = bytearray(data)
        for _ in range(source.randrange(1, 6)):
            damaged[source.randrange(len(damaged))] = source.choice((0, 10, 13, 58, 92, 255, source.randrange(256)))
        data = bytes(damaged)
    return data


def loop(source: random.Random, count: int) -> str:
    """Random conversations."""
    for _ in range(count):
        run_bytes(random_bytes(source))
    return f"stomp: {count} conversations"


if __name__ == "__main__":
    sys.exit(run(sys.argv, run_bytes, DEFAULT_COUNT, loop))
