"""Fuzz WebSocket connections: any bytes give an open or an ended connection, valid frames, and the broker stays whole.

python tests/fuzz/fuzz_websocket.py [COUNT [SEED]]      seeded random conversations; atheris if it is installed
python tests/fuzz/fuzz_websocket.py -atheris_runs=N     atheris and its own options
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from websockets.frames import Opcode
from websockets.protocol import OPEN

from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.stomp.broker_connection import StompBrokerConnection
from tests.fuzz.fuzz_stomp import random_frame
from tests.fuzz.harness import run
from tests.support.stomp_dialogue import Stage
from tests.support.websocket_dialogue import Client, Dialogue, frame, request

DEFAULT_COUNT: Final = 20_000
SLOWEST_SECONDS: Final = 1.0  # one conversation, interpreted, on a busy machine
MAX_FRAME_SIZE: Final = 3_000  # bytes, so that some conversations meet the limit
LOGIN: Final = frame(Opcode.TEXT, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
HEADERS: Final = (
    "Origin: http://a", "Origin: http://b", "Sec-WebSocket-Protocol: v12.stomp", "Sec-WebSocket-Protocol: mqtt, stomp",
    "Sec-WebSocket-Extensions: permessage-deflate", "Content-Length: 5", "Transfer-Encoding: chunked", "Upgrade: h2c",
    "Cookie: " + "x" * 9_000, "Host: b",
)  # fmt: skip
CONTROLS: Final = (Opcode.PING, Opcode.PONG, Opcode.CLOSE)


def run_bytes(data: bytes) -> None:
    """The entry that atheris calls."""
    started = time.process_time()
    converse(data)
    assert time.process_time() - started < SLOWEST_SECONDS, f"too slow: {data!r}"


def converse(data: bytes) -> None:
    """The bytes in pieces, as a handshake or behind one."""
    stage = Stage()
    settings = ConnectionSettings(max_frame_size=MAX_FRAME_SIZE)
    dialogue = Dialogue(
        ("http://a",), settings, lambda s, now: StompBrokerConnection(stage.broker, s, now), stage.environment.now
    )
    client = Client(dialogue)
    if not data.startswith(b"GET"):
        client.shakes_hands()
    size = 1 + len(data) % 97
    connection = dialogue.connection
    for start in range(0, len(data), size):
        if connection.closed:
            break
        answer = dialogue.takes(data[start : start + size])
        if client.protocol.state is OPEN:
            client.hears(answer)
        assert connection.pending_bytes <= len(data) + MAX_FRAME_SIZE
        stage.settle()
    if client.answer is not None:
        client.hears(dialogue.writes())
        assert client.protocol.parser_exc is None, client.protocol.parser_exc
    assert all(reason.isprintable() for reason in dialogue.reports)
    connection.receive_eof(dialogue.now)
    stage.settle()
    assert connection.closed
    assert stage.broker.connection_views() == []


def random_websocket_frame(source: random.Random) -> bytes:
    """Mostly a frame that a client could send."""
    if source.random() < 0.2:
        return frame(source.choice(CONTROLS), source.randbytes(source.choice((0, 1, 2, 3, 125))))
    text = random_frame(source)
    if source.random() < 0.05:
        text += bytes(source.choice((125, 126, 2_000, 4_000)))
    opcode = source.choice((Opcode.TEXT, Opcode.BINARY))
    if source.random() < 0.7:
        return frame(opcode, text)
    cut = source.randrange(len(text) + 1)
    return frame(opcode, text[:cut], is_last=False) + frame(Opcode.CONT, text[cut:], is_last=source.random() < 0.9)


def random_bytes(source: random.Random) -> bytes:
    """A handshake, or frames behind one; sometimes damaged."""
    if source.random() < 0.2:
        headers = source.sample(HEADERS, source.randrange(3))
        data = request(*headers, first=source.choice(("GET / HTTP/1.1",) * 5 + ("GET / HTTP/1.0", "GETS / HTTP/1.1")))
    else:
        data = LOGIN if source.random() < 0.9 else b""
    data += b"".join(random_websocket_frame(source) for _ in range(source.randrange(6)))
    if data and source.random() < 0.5:
        damaged = bytearray(data)
        for _ in range(source.randrange(1, 4)):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        data = bytes(damaged)
    return data


def loop(source: random.Random, count: int) -> str:
    """Random conversations."""
    for _ in range(count):
        run_bytes(random_bytes(source))
    return f"websocket: {count} conversations"


if __name__ == "__main__":
    sys.exit(run(sys.argv, run_bytes, DEFAULT_COUNT, loop))
