"""Properties of the STOMP codec: one frame in is one frame out, any chunking is the same, any garbage is answered."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spanwire.protocols.stomp.codec.codec import FrameDecoder
from spanwire.protocols.stomp.codec.encoding import encode_frame, escaped, unescaped
from spanwire.protocols.stomp.codec.frames import CLIENT_COMMANDS, V1_0, V1_1, V1_2, Frame
from tests.fuzz.fuzz_stomp import converse, random_bytes

VERSIONS = st.sampled_from([V1_0, V1_1, V1_2])
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
TRICKY = st.text(st.sampled_from("\\ncr:\n \tab\r"), max_size=12)
NAMES = st.one_of(TEXTS, TRICKY).filter(lambda name: name not in ("", "receipt", "content-length"))
HEADERS = st.dictionaries(NAMES, st.one_of(TEXTS, TRICKY), max_size=8)
PIECES = st.sampled_from(
    [b"SEND\n", b"CONNECT\n", b"\n", b"\r\n", b"\0", b"k:v\n", b"content-length:", b"3", b"-1", b"\n\n", b"abc", b"\\",
     b":", b"receipt:r\n", b"ACK\n", b"\xff", b"destination:/queue/A\n"]
)  # fmt: skip
GARBAGE = st.one_of(st.binary(max_size=400), st.lists(PIECES, max_size=40).map(b"".join))


def decoder(version: int) -> FrameDecoder:
    made = FrameDecoder()
    made.accept(version)
    return made


def seen(frames: list[Frame]) -> list[tuple[str, dict[str, str], str | None, bytes]]:
    return [(frame.command, frame.headers, frame.receipt, frame.body) for frame in frames]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


@given(st.sampled_from(CLIENT_COMMANDS), HEADERS, st.binary(max_size=200), st.sampled_from([V1_1, V1_2]))
def test_s16_one_frame_in_is_one_frame_out_with_the_same_headers_and_body(
    command: str, headers: dict[str, str], body: bytes, version: int
) -> None:
    if command in ("CONNECT", "STOMP"):
        command = "SEND"
    if version == V1_1:  # a return is no escape there and may not stand at the end of a line of 1.2 either
        headers = {name.replace("\r", ""): value.replace("\r", "") for name, value in headers.items()}
        headers.pop("", None)
    pairs = [*headers.items(), ("content-length", str(len(body)))]
    data = encode_frame(command, pairs, body, version)
    made = decoder(version)
    frames = made.feed(data + b"\n" + data)
    assert made.failure is None
    assert seen(frames) == [(command, headers, None, body)] * 2


@given(HEADERS, st.binary(max_size=50).filter(lambda body: b"\0" not in body), VERSIONS)
def test_a_client_of_any_version_sees_exactly_the_headers_that_were_meant(
    headers: dict[str, str], body: bytes, version: int
) -> None:
    """Splits the frame as the least careful client would: at newlines and the first colon."""
    if version == V1_0:
        headers = {name.replace(":", "").replace("\\", "").replace("\n", ""): value for name, value in headers.items()}
        headers.pop("", None)
    data = encode_frame("MESSAGE", list(headers.items()), body, version)
    head, _, rest = data.partition(b"\n\n")
    assert rest == body + b"\0"
    lines = head.decode().split("\n")
    assert lines[0] == "MESSAGE"
    assert len(lines) == len(headers) + 1
    assert [line.split(":", 1)[0] for line in lines[1:]] == [escaped(name, version) for name in headers]


@given(TEXTS | TRICKY)
def test_unescaping_undoes_escaping(text: str) -> None:
    assert unescaped(escaped(text, V1_2), V1_2) == text
    assert unescaped(escaped(text, V1_1), V1_1) == text


@given(GARBAGE, st.lists(st.integers(0, 500), max_size=8), VERSIONS)
def test_any_garbage_in_any_chunks_gives_the_same_frames_or_the_same_failure(
    data: bytes, places: list[int], version: int
) -> None:
    whole = decoder(version)
    frames = whole.feed(data)
    chunked = decoder(version)
    pieces = [frame for piece in cut(data, places) for frame in chunked.feed(piece)]
    assert seen(pieces) == seen(frames)
    assert str(chunked.failure) == str(whole.failure)
    assert chunked.heart_beats == whole.heart_beats


@given(GARBAGE, st.lists(st.integers(0, 500), max_size=8))
def test_before_the_login_any_garbage_gives_at_most_a_connect_or_a_failure(data: bytes, places: list[int]) -> None:
    made = FrameDecoder()
    frames = [frame for piece in cut(data, places) for frame in made.feed(piece)]
    for frame in frames:
        assert frame.command in ("CONNECT", "STOMP")
    assert made.failure is not None or made.buffered_bytes <= len(data)


@given(st.integers(0, 2**32))
def test_a_connection_and_its_broker_survive_any_conversation(seed: int) -> None:
    converse(random_bytes(random.Random(seed)))


@given(st.binary(max_size=300) | GARBAGE)
def test_a_connection_and_its_broker_survive_any_bytes(data: bytes) -> None:
    converse(data)
