"""The STOMP decoder and encoder: versions, terminals, chunks, limits, and the attacks on all of them."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.errors import LocalProtocolError
from spanwire.protocols.stomp.codec.codec import (
    MAX_ACK_RUN,
    MAX_BODY,
    MAX_HEADER_BLOCK,
    MAX_REPEATED_BLOCKS,
    FrameDecoder,
)
from spanwire.protocols.stomp.codec.encoding import encode_frame, encode_headers, escaped, unescaped
from spanwire.protocols.stomp.codec.frames import V1_0, V1_1, V1_2, AckRun, Frame

KIB = 1024
MIB = 1024 * 1024
ODD = "abcn:\\\n\ré山"  # characters with an escape, and some without


def accepted(version: int = V1_1) -> FrameDecoder:
    decoder = FrameDecoder()
    decoder.accept(version)
    return decoder


def decode(data: bytes, version: int = V1_1) -> list[Frame]:
    decoder = accepted(version)
    frames = decoder.feed(data)
    assert decoder.failure is None, decoder.failure
    return frames


def failure_of(data: bytes, decoder: FrameDecoder | None = None) -> str:
    decoder = decoder if decoder is not None else accepted()
    decoder.feed(data)
    assert decoder.failure is not None, "the frame was let in"
    assert decoder.feed(b"SEND\ndestination:/queue/A\n\nx\0") == [], "a failed decoder went on"
    assert decoder.buffered_bytes == 0
    return str(decoder.failure)


def test_a_frame_has_command_headers_and_body() -> None:
    (frame,) = decode(b"SEND\ndestination:/queue/A\nreceipt:7\n\nhello\0")
    assert (frame.command, frame.headers, frame.body) == ("SEND", {"destination": "/queue/A"}, b"hello")
    assert (frame.receipt, frame.content_length) == ("7", -1)


def test_all_frames_of_one_read_come_out_in_order() -> None:
    frames = decode(b"".join(b"SEND\ndestination:/queue/%d\n\n%d\0\n" % (n, n) for n in range(100)))
    assert [frame.body for frame in frames] == [b"%d" % n for n in range(100)]


def test_newlines_between_frames_are_heart_beats() -> None:
    decoder = accepted()
    assert decoder.feed(b"\n\r\n\n") == []
    assert len(decoder.feed(b"BEGIN\ntransaction:t\n\n\0\n\n")) == 1
    assert decoder.heart_beats == 6


def test_with_content_length_the_body_may_hold_nul() -> None:
    (frame,) = decode(b"SEND\ncontent-length:3\n\na\0b\0")
    assert frame.body == b"a\0b"


def test_a_nul_in_the_header_block_ends_the_frame() -> None:
    connect, disconnect = decode(b"BEGIN\ntransaction:t\n\0\r\nDISCONNECT\r\nreceipt:\0\r\n")
    assert (connect.headers, connect.body) == ({"transaction": "t"}, b"")
    assert (disconnect.command, disconnect.receipt) == ("DISCONNECT", "")


def test_frames_typed_with_cr_lf_are_read() -> None:
    (frame,) = decode(b"SEND\r\ndestination:/queue/A\r\n\r\nHello\r\n\0\r\n", V1_0)
    assert (frame.headers, frame.body) == ({"destination": "/queue/A"}, b"Hello\r\n")


@pytest.mark.parametrize(
    ("version", "value"), [(V1_0, "lead and trail"), (V1_1, " lead and trail \r"), (V1_2, " lead and trail ")]
)
def test_each_version_trims_a_value_in_its_own_way(version: int, value: str) -> None:
    (frame,) = decode(b"SEND\n k: lead and trail \r\n\n\0", version)
    assert frame.headers == {" k": value}


@pytest.mark.parametrize("version", [V1_0, V1_1, V1_2])
def test_escapes_are_resolved_and_an_undefined_one_is_kept(version: int) -> None:
    (frame,) = decode(b"SEND\nk:a\\nb\\cc\\\\d\\te\\\n\n\0", version)
    assert frame.headers == {"k": "a\nb:c\\d\\te\\"}


def test_the_return_is_an_escape_in_1_2_alone() -> None:
    assert [unescaped("a\\rb", version) for version in (V1_0, V1_1, V1_2)] == ["a\\rb", "a\\rb", "a\rb"]


def test_the_first_of_a_repeated_header_counts_and_a_line_without_colon_is_skipped() -> None:
    (frame,) = decode(b"SEND\nk:one\nbroken\nk:two\n:nameless\nreceipt:1\nreceipt:2\n\nx\0")
    assert (frame.headers, frame.receipt) == ({"k": "one"}, "1")


def test_a_connect_is_read_without_escapes_and_holds_back_what_follows_it() -> None:
    decoder = FrameDecoder()
    (connect,) = decoder.feed(b"CONNECT\naccept-version:1.2\npasscode:a\\cb\n\n\0SEND\nk:a\\cb\n\nx\0")
    assert connect.headers["passcode"] == "a\\cb"
    assert decoder.has_buffered_bytes
    decoder.accept(V1_2)
    (send,) = decoder.feed(b"")
    assert (send.headers, decoder.has_buffered_bytes) == ({"k": "a:b"}, False)


def test_a_repeated_header_block_is_parsed_twice_whatever_its_receipt_and_length() -> None:
    first, second, third, other = decode(
        b"SEND\ndestination:/queue/A\nreceipt:1\ncontent-length:1\n\na\0"
        b"SEND\ndestination:/queue/A\nreceipt:2\ncontent-length:2\n\nbb\0"
        b"SEND\ndestination:/queue/A\nreceipt:3\ncontent-length:3\n\nccc\0"
        b"SEND\ndestination:/queue/B\nreceipt:2\ncontent-length:2\n\nbb\0"
    )
    assert second.block is third.block
    assert second.block is not other.block
    assert [(f.receipt, f.content_length) for f in (first, second, third)] == [("1", 1), ("2", 2), ("3", 3)]


def test_header_blocks_of_many_destinations_in_turn_are_parsed_twice() -> None:
    decoder = accepted()
    turn = b"".join([b"SEND\ndestination:/queue/%d\nreceipt:r\n\n\0" % n for n in range(MAX_REPEATED_BLOCKS)])
    decoder.feed(turn)
    second, third = decoder.feed(turn), decoder.feed(turn)
    assert all(one.block is other.block for one, other in zip(second, third, strict=True))


@pytest.mark.large
def test_header_blocks_that_never_repeat_are_not_kept() -> None:
    decoder = accepted()
    data = b"".join(b"SEND\ndestination:/queue/A\nnumber:%d\n\n\0" % n for n in range(20_000))
    tracemalloc.start()
    for start in range(0, len(data), 64 * KIB):
        decoder.feed(data[start : start + 64 * KIB])
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 24 * KIB


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
def test_any_chunking_gives_the_same_frames(size: int) -> None:
    data = (
        b"\nSEND\ndestination:/queue/A\ncontent-length:9\n\na\0b\n\nc\0\0d\0\n"
        b"SEND\r\ndestination:/queue/B\r\n\r\ntext\0ACK\nid:1\n\0BEGIN\ntransaction:t\n\n\0"
    )
    decoder = accepted(V1_2)
    frames = [frame for start in range(0, len(data), size) for frame in decoder.feed(data[start : start + size])]
    assert [(f.command, f.headers, f.body) for f in frames] == [
        (f.command, f.headers, f.body) for f in decode(data, V1_2)
    ]
    assert len(frames) == 4


@pytest.mark.large
def test_a_large_body_is_collected_in_time_that_grows_with_its_size() -> None:
    decoder = accepted()
    decoder.feed(b"SEND\ncontent-length:%d\n\n" % (MIB))
    for _ in range(MIB):
        assert decoder.feed(b"x") == []
    assert decoder.buffered_bytes == MIB
    (frame,) = decoder.feed(b"\0")
    assert frame.body == b"x" * MIB
    assert frame.chunks is not None
    assert len(frame.chunks) < 64


@pytest.mark.parametrize("version", [V1_0, V1_1, V1_2])
def test_an_encoded_frame_is_one_frame_with_the_same_headers(version: int) -> None:
    headers = [("k", "v"), ("größe", "山"), ("empty", ""), ("k", "second")]
    (frame,) = decode(encode_frame("MESSAGE", headers, b"body", version), version)
    assert (frame.headers, frame.body) == ({"k": "v", "größe": "山", "empty": ""}, b"body")


def test_the_escapes_of_each_version() -> None:
    text = "a:b\\c\nd\re"
    assert escaped(text, V1_2) == "a\\cb\\\\c\\nd\\re"
    assert escaped(text, V1_1) == "a\\cb\\\\c\\nd\re"
    assert escaped(text, V1_0) == "a:b\\c\\nd\\re"


@pytest.mark.parametrize("version", [V1_0, V1_1, V1_2])
def test_s16_header_injection_by_newline_makes_no_second_header(version: int) -> None:
    data = encode_frame("RECEIPT", [("receipt-id", "1\nevil:yes\n\nbody"), ("x\ny", "z")], b"", version)
    (frame,) = decode(data, version)
    assert set(frame.headers) == {"receipt-id", "x\ny"}
    assert data.count(b"\n") == 4


@given(st.lists(st.tuples(st.text(ODD, min_size=1, max_size=4), st.text(ODD, max_size=4)), max_size=4))
def test_header_lines_have_the_escapes_of_each_name_and_value(headers: list[tuple[str, str]]) -> None:
    first = dict(reversed(headers))
    order = list(dict.fromkeys(name for name, _ in headers))
    for version in (V1_1, V1_2):
        lines = [f"{escaped(name, version)}:{escaped(first[name], version)}\n" for name in order]
        assert encode_headers(headers, version) == "".join(lines).encode()


@pytest.mark.parametrize(("name", "value"), [("k", "a\0b"), ("k\0", "v"), ("", "v"), ("k", "\ud800")])
def test_s16_a_header_that_cannot_be_represented_is_refused(name: str, value: str) -> None:
    with pytest.raises(LocalProtocolError):
        encode_frame("RECEIPT", [(name, value)], b"", V1_2)


@pytest.mark.parametrize("claim", ["-1", "-5", "+1", "1e9", "", " ", "0x10", "1_0", "１", "1 2", "٣"])
def test_s14_cve_2026_49432_negative_content_length_and_its_relatives_are_refused(claim: str) -> None:
    data = f"SEND\ndestination:/queue/A\ncontent-length:{claim}\n\nx\0".encode()
    assert failure_of(data) == "Specified content-length is not a valid integer"


def test_s14_cve_2026_49432_two_different_content_lengths_are_refused() -> None:
    assert "twice" in failure_of(b"SEND\ncontent-length:1\ncontent-length:2\n\nx\0")
    (frame,) = decode(b"SEND\ncontent-length:1\ncontent-length:1\n\nx\0")
    assert frame.body == b"x"


@pytest.mark.parametrize("claim", [str(MAX_BODY + 1), str(2**30), str(2**63), "9" * 5_000])
def test_s14_a_claim_of_a_gigantic_body_is_refused_and_allocates_nothing(claim: str) -> None:
    tracemalloc.start()
    assert "exceeded" in failure_of(b"SEND\ncontent-length:" + claim.encode() + b"\n\nx\0")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 256 * KIB


def test_a_claim_of_the_largest_body_allocates_only_what_arrives() -> None:
    decoder = accepted()
    tracemalloc.start()
    decoder.feed(b"SEND\ncontent-length:%d\n\nx" % MAX_BODY)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert decoder.failure is None
    assert peak < 64 * KIB


def test_s15_cve_2026_53916_headers_that_never_end() -> None:
    for unending in (b"v", b"k:" + b"v" * 1022 + b"\n", b"\r", b"k:v\n"):
        decoder = accepted()
        mebibyte = unending * (MIB // len(unending))
        decoder.feed(b"SEND\n")
        tracemalloc.start()
        for start in range(0, 128 * KIB, KIB):  # small reads first, so that nothing is refused for its size alone
            decoder.feed(mebibyte[start : start + KIB])
        for _ in range(1024):
            decoder.feed(mebibyte)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert decoder.failure is not None
        assert peak < 4 * MAX_HEADER_BLOCK
        assert decoder.buffered_bytes == 0


def test_s15_cve_2026_53916_a_text_body_that_never_ends_is_cut_off_at_the_limit() -> None:
    decoder = FrameDecoder(max_frame_size=MIB)
    decoder.accept(V1_1)
    decoder.feed(b"SEND\ndestination:/queue/A\n\n")
    for _ in range(17):
        decoder.feed(b"x" * 64 * KIB)
    assert str(decoder.failure) == "The maximum data length was exceeded"
    assert decoder.buffered_bytes == 0


def test_too_many_too_long_and_too_large_headers_are_refused() -> None:
    assert "number of headers" in failure_of(b"SEND\n" + b"k:v\n" * 1_001 + b"\nx\0")
    assert "header length" in failure_of(b"SEND\nk:" + b"a" * 10 * KIB + b"\n\nx\0")
    assert "header length" in failure_of(
        b"SEND\n" + b"".join(b"k%d:%s\n" % (n, b"a" * 900) for n in range(80)) + b"\nx\0"
    )
    assert "command length" in failure_of(b"X" * 1_100)
    assert "command length" in failure_of(b"X" * 1_100 + b"\n\n\0")


def test_headers_that_are_not_utf8_are_refused() -> None:
    assert "UTF-8" in failure_of(b"SEND\nk:\xff\xfe\n\n\0")
    assert "UTF-8" in failure_of(b"SEND\nreceipt:\xff\xfe\n\n\0")


def test_a_body_longer_than_its_content_length_is_refused() -> None:
    message = "content-length bytes were read and there was no trailing null byte"
    assert failure_of(b"SEND\ncontent-length:1\n\nxyz\0") == message
    decoder = accepted()
    assert decoder.feed(b"SEND\ncontent-length:2\n\nx") == []
    assert failure_of(b"yz\0", decoder) == message
    assert "NUL" in failure_of(b"SEND\ncontent-length:5\n\0hello\0")


@pytest.mark.parametrize(
    "opening",
    [
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"POST /queue/A HTTP/1.1\r\n",
        b"GET",
        b"\x16\x03\x01\x02\x00",
        b"connect\n\n\0",
        b"CONNECTX\n",
        b"\0\0\1ActiveMQ\0\0\0\n",
    ],
)
def test_a_connection_that_does_not_open_with_connect_fails_at_once(opening: bytes) -> None:
    assert failure_of(opening, FrameDecoder()).startswith("Unknown STOMP action")


def test_a_command_before_connect_fails() -> None:
    assert failure_of(b"SEND\ndestination:/queue/A\n\nx\0", FrameDecoder()) == "Not connected."


def test_a_connect_typed_letter_by_letter_is_waited_for() -> None:
    decoder = FrameDecoder()
    frames = [frame for byte in b"\nSTOMP\r\nlogin: x\r\n\r\n\0" for frame in decoder.feed(bytes([byte]))]
    assert [(frame.command, frame.headers) for frame in frames] == [("STOMP", {"login": "x"})]


@pytest.mark.parametrize("rest", [b"k:" + b"v" * 9 * KIB, b"content-length:9000\n\n", b"\n" + b"x" * 9 * KIB])
def test_before_the_login_a_frame_of_more_than_8_kib_is_refused(rest: bytes) -> None:
    assert "exceeded" in failure_of(b"CONNECT\n" + rest, FrameDecoder())
    decoder = FrameDecoder()
    for byte in b"CONNECT\n" + rest:
        decoder.feed(bytes([byte]))
    assert decoder.failure is not None


def test_plain_acks_of_one_subscription_are_one_run_of_numbers() -> None:
    data = b"".join(b"ACK\nid:1-%d\n\n\0" % number for number in (7, 8, 9, 100, 3))
    data += b"\nACK\nid:2-0\n\n\0SEND\ndestination:/queue/A\n\nx\0ACK\nid:2-1\n\n\0"
    for size in (len(data), 1, 5, 23):
        decoder = accepted(V1_2)
        frames: list[Frame] = []
        for start in range(0, len(data), size):
            frames += decoder.feed(data[start : start + size])
        ids: list[str] = []
        for frame in frames:
            if isinstance(frame, AckRun):
                ids += [f"{frame.subscription}-{number}" for number in frame.numbers.after(0)]
            else:
                ids.append(frame.headers.get("id", frame.command))  # a read that ends before the NUL
        assert ids == ["1-7", "1-8", "1-9", "1-100", "1-3", "2-0", "SEND", "2-1"]
        if size == len(data):
            assert [frame.numbers.size for frame in frames if isinstance(frame, AckRun)] == [5, 1, 1]
        assert (decoder.buffered_bytes, decoder.failure) == (0, None)


@pytest.mark.parametrize(
    "frame",
    [
        b"ACK\nid:1-2\nreceipt:r\n\n\0",
        b"ACK\nid:1-2\ntransaction:t\n\n\0",
        b"ACK\nid:1-2\r\n\r\n\0",
        b"ACK\r\nid:1-2\n\n\0",
        b"ACK\nid:1-2\n\0",
        b"ACK\nid:1-2\n\nx\0",
        b"ACK\nid:1-2-3\n\n\0",
        b"ACK\nid:-1-2\n\n\0",
        b"ACK\nid:12345\n\n\0",
        b"ACK\nid:1-\n\n\0",
        b"ACK\nid:1-\xc2\xb2\n\n\0",
        b"ACK\nid:1-1234567890123456789\n\n\0",
        b"ACK\nid:1-1234567890123456789012345678901\n\n\0",
        b"NACK\nid:1-2\n\n\0",
        b"ACK\nsubscription:1-2\n\n\0",
    ],
)
def test_any_other_ack_is_a_frame_with_headers(frame: bytes) -> None:
    for data in (frame, frame + b"\n" * 40):
        (decoded,) = decode(data, V1_2)
        assert not isinstance(decoded, AckRun)
        assert decoded.headers


@pytest.mark.parametrize("version", [V1_0, V1_1])
def test_acks_of_other_versions_have_no_numbers(version: int) -> None:
    (frame,) = decode(b"ACK\nid:1-2\n\n\0", version)
    assert frame.headers == {"id": "1-2"}


def test_a_run_of_acks_has_a_limit() -> None:
    runs = decode(b"".join(b"ACK\nid:1-%d\n\n\0" % number for number in range(2 * MAX_ACK_RUN + 1)), V1_2)
    assert [run.numbers.size for run in runs if isinstance(run, AckRun)] == [MAX_ACK_RUN, MAX_ACK_RUN, 1]


def test_a_run_gives_back_each_ack_as_a_frame() -> None:
    (run,) = decode(b"ACK\nid:1-7\n\n\0ACK\nid:1-8\n\n\0", V1_2)
    assert isinstance(run, AckRun)
    again = run.frame(8)
    assert (again.command, again.headers, again.receipt, again.body) == ("ACK", {"id": "1-8"}, None, b"")
