"""Servers of SQS, NATS and Kafka, and publishers to them, that send more than a bridge can hold or read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import AsyncMock, Mock

import pytest
from aiokafka import ConsumerRecord, TopicPartition, codec
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.msg import Msg
from nats.errors import ProtocolError

from spanwire.bridges.model.definition import ConnectionFactory, Source
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.kafka import decompression
from spanwire.bridges.providers.kafka.header_keys import APPEND_TIME, HEADER
from spanwire.bridges.providers.kafka.messages import bridge_message as kafka_message
from spanwire.bridges.providers.kafka.parties import KafkaReceiver
from spanwire.bridges.providers.nats import connecting
from spanwire.bridges.providers.nats.connecting import NatsConnection
from spanwire.bridges.providers.nats.messages import bridge_message as nats_message
from spanwire.bridges.providers.sqs import connection as sqs_connection
from spanwire.bridges.providers.sqs.connection import SqsConnection, StraightRequests
from spanwire.bridges.providers.sqs.messages import ENCODING, MAX_BYTES, TEXTS
from spanwire.bridges.providers.sqs.messages import bridge_message as sqs_message
from spanwire.bridges.providers.sqs.parties import octets_of
from spanwire.bridges.providers.text_headers import outgoing_texts
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import JmsError, MessageFormatError
from spanwire.model.message_view import BYTES, TEXT
from spanwire.model.units import MIB

WAIT_S: Final = 10.0
SQS: Final = ConnectionFactory("sqs://host?region=eu-central-1")
NATS: Final = ConnectionFactory("nats://host")
T: Final = Destination(TOPIC, "T")


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


# SQS


def from_sqs(body: str, **attributes: str) -> BridgeMessage:
    return sqs_message(
        {"Body": body, "MessageAttributes": {name: {"StringValue": a} for name, a in attributes.items()}}
    )


@pytest.mark.parametrize("body", ["ü", "a", "YQ==\n", "\ufeffYQ==", "=" * 1_000])
def test_a_false_claim_of_base64_is_a_text(body: str) -> None:
    message = from_sqs(body, **{ENCODING: "base64"})
    assert (message.kind, message.content.neutral_body()) == (TEXT, body.encode())


def test_octets_of_base64_are_smaller_than_their_text() -> None:
    message = from_sqs("/w" * 100_000, **{ENCODING: "base64"})
    assert message.kind == BYTES
    assert message.size < 200_000


def test_half_a_surrogate_pair_of_sqs_is_no_end_of_the_link() -> None:
    assert from_sqs("a\ud800").content.neutral_body() == b"a?"
    message = from_sqs("a", **{TEXTS: json.dumps({"note": "\ud800"})})
    with pytest.raises(MessageFormatError, match="is not valid Unicode"):
        outgoing_texts(message, None)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":1}', "7", '"', '{"a":' * 5_000, "\ufeff{}"])
def test_a_damaged_attribute_of_texts_is_one_like_others(text: str) -> None:
    assert from_sqs("a", **{TEXTS: text}).content.property_values()[TEXTS][1] == text


@given(st.dictionaries(st.sampled_from(["SentTimestamp", "ApproximateReceiveCount"]), st.text(max_size=30)))
def test_numbers_of_sqs_that_are_none_count_as_missing(own: dict[str, str]) -> None:
    message = sqs_message({"Body": "a", "Attributes": own})
    assert 0 <= message.timestamp_ms < 10**18


def test_attributes_count_for_the_room_of_the_inbox() -> None:
    attributes = {str(number): {"StringValue": "x" * 10_000} for number in range(10)}
    assert octets_of({"Body": "b" * 1_000, "MessageAttributes": attributes}) > 101_000


@pytest.mark.parametrize("claim", ["no number", "9" * 30, "-1", str(10 * MIB)])
def test_the_largest_message_of_a_queue_is_never_above_ours(claim: str) -> None:
    async def scenario() -> None:
        async def attributes(**_: object) -> dict[str, Any]:
            return {"Attributes": {"MaximumMessageSize": claim}}

        connection = SqsConnection(SQS)
        connection._client = SimpleNamespace(get_queue_attributes=attributes)
        assert await connection.largest_message("url") == MAX_BYTES

    run(scenario)


def test_s24_an_answer_of_sqs_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqs_connection, "MAX_ANSWER", 100)
    read: list[int] = []

    class Answer:
        status = 200
        content: Any

        def __init__(self, parts: int) -> None:
            self.content = SimpleNamespace(iter_any=lambda: self._parts(parts))

        async def _parts(self, parts: int) -> AsyncIterator[bytes]:
            for number in range(parts):
                read.append(number)
                yield b"x" * 30

        async def read(self) -> bytes:
            return b"".join([part async for part in self.content.iter_any()])

        def close(self) -> None:
            read.append(-1)

    async def scenario() -> None:
        async def request(method: str, **words: Any) -> Answer:
            return Answer(words["data"])

        requests = StraightRequests(SimpleNamespace(request=request))
        short = await requests.request("POST", data=3)
        assert (await short.read(), short.status) == (b"x" * 90, 200)
        read.clear()
        endless = await requests.request("POST", data=1_000_000)
        with pytest.raises(ValueError, match="an answer has more than"):
            await endless.read()
        assert read == [0, 1, 2, 3, -1]

    run(scenario)


# NATS


def from_nats(reply: str) -> BridgeMessage:
    client: Any = None
    return nats_message(Msg(_client=client, subject="T", reply=reply, data=b"body"))


@pytest.mark.parametrize("time", ["9" * 400, "9" * 25, "9" * 5_000, "-" + "9" * 20, "²", "", "1.5"])
def test_an_address_for_replies_that_looks_like_one_of_a_stream_is_no_fault(time: str) -> None:
    message = from_nats(f"$JS.ACK.stream.consumer.1.2.3.{time}.0")
    assert (message.message_id, message.timestamp_ms) == ("", 0)


async def nats_connection(failures: list[JmsError]) -> tuple[NatsConnection, list[Msg]]:
    """Return a connection with one subscription, and the messages of the subscription."""
    connection, received = NatsConnection(NATS, failures.append), list[Msg]()

    async def on_message(message: Msg) -> None:
        received.append(message)

    connection._status = connection.CONNECTED
    connection._flush_queue = asyncio.Queue(100)
    connection._transport = AsyncMock(write=Mock(), writelines=Mock())
    await connection.subscribe("T", cb=on_message)
    return connection, received


def line_of(subject: bytes, headers: bytes, body: bytes = b"body") -> bytes:
    return b"HMSG %s 1 %d %d\r\n%s%s\r\n" % (subject, len(headers), len(headers) + len(body), headers, body)


@pytest.mark.parametrize(
    ("subject", "headers", "is_readable"),
    [
        (b"T", b"NATS/1.0\r\nnote: \xe9\xef\xbb\xbf\r\n\r\n", True),
        (b"T.\xff", b"NATS/1.0\r\na: b\r\n\r\n", True),
        (b"T", b"NATS/1.0 \xe9\xe9\xe9\r\n\r\n", False),
        (b"T", b"NATS/1.0", False),
    ],
    ids=["text in Latin", "subject", "status", "no line"],
)
def test_what_a_publisher_may_send_does_not_end_the_reading(subject: bytes, headers: bytes, is_readable: bool) -> None:
    async def scenario() -> None:
        failures: list[JmsError] = []
        connection, received = await nats_connection(failures)
        await connection._ps.parse(line_of(subject, headers) + line_of(b"T", b"NATS/1.0\r\na: b\r\n\r\n"))
        while len(received) < 2:
            await asyncio.sleep(0)
        first, second = (nats_message(message) for message in received)
        assert (failures, second.content.property_values()["a"][1]) == ([], "b")
        if is_readable:
            assert first.content.neutral_body() == b"body"
        else:
            with pytest.raises(MessageFormatError, match="headers of the message cannot be read"):
                first.content.property_values()

    run(scenario)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"MSG T 1 %d\r\n" % (65 * MIB), "a message of more than 64 MiB"),
        (b"HMSG T 1 0 %d\r\n" % 10**30, "a message of more than 64 MiB"),
        (b"INFO {" + b" " * MIB, "a line of more than 1048576 bytes"),
        (b"INFO " + b"[" * 100_000 + b"\r\n", "recursion"),
        (b"MSG T " + b"9" * 5_000 + b" 1\r\n", "protocol error"),
        (b"-ERR \r\n", "decode"),
        (b"what is this\r\n", "protocol error"),
    ],
    ids=["message", "headers", "line", "depth", "number", "error", "word"],
)
def test_s2_octets_of_nats_beyond_limits_or_sense_end_the_connection(octets: bytes, reason: str) -> None:
    async def scenario() -> None:
        failures: list[JmsError] = []
        connection, _ = await nats_connection(failures)
        with pytest.raises(ProtocolError):
            await connection._ps.parse(octets)
        assert reason in str(failures[0])
        assert len(connection._ps.buf) <= MIB + 6

    run(scenario)


def test_a_message_of_nats_in_parts_is_read_as_by_the_library() -> None:
    async def scenario() -> None:
        failures: list[JmsError] = []
        connection, received = await nats_connection(failures)
        octets = b"PING\r\nMSG T 1 5\r\nhello\r\nMSG T 1 0\r\n\r\n"
        connection._pending = []
        for place in range(len(octets)):
            await connection._ps.parse(octets[place : place + 1])
        while len(received) < 2:
            await asyncio.sleep(0)
        assert ([message.data for message in received], failures) == ([b"hello", b""], [])

    run(scenario)


def test_the_limits_of_nats_are_above_what_a_server_can_be_configured_for() -> None:
    assert connecting.MAX_MESSAGE == 64 * MIB


# Kafka


def batch_of(number: int, octets: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, number, False, -1, -1, -1, 2 * octets + 1_000)
    builder.append(0, None, None, bytes(octets), [])
    return bytes(builder.build())


def limited() -> None:
    KafkaReceiver(Source(ConnectionFactory("kafka://host"), T, subscription="group"), 10)


CODECS: Final = [(1, "gzip"), (2, "cramjam"), (3, "cramjam"), (4, "cramjam")]


@pytest.mark.parametrize(("number", "needs"), CODECS)
def test_s11_a_batch_of_kafka_is_decompressed_within_a_limit(
    number: int, needs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(needs, reason="this Python has no package cramjam, and the library then reads gzip alone")

    async def scenario() -> None:
        limited()
        (record,) = MemoryRecords(batch_of(number, 100_000)).next_batch()
        assert len(record.value) == 100_000
        monkeypatch.setattr(decompression, "MAX_BATCH", MIB)
        with pytest.raises(JmsError, match="more than 1 MiB"):
            list(MemoryRecords(batch_of(number, 2 * MIB)).next_batch())

    run(scenario)


KEY: Final = b"\xffkey"
ENCODERS: Final[dict[int, Callable[[bytes], bytes]]] = {
    0: bytes,
    1: codec.gzip_encode,
    2: codec.snappy_encode,
    3: codec.lz4_encode,
    4: codec.zstd_encode,
}


def batch_with_key(number: int = 0, attributes: int = 0, key: bytes = KEY) -> bytes:
    """Return three records of a cluster, the second with a header key of octets."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 10_000)
    builder.append(0, 1_000, b"k", b"a", [("trace", b"1")])
    builder.append(1, 2_000, None, b"b", [("#" * len(key), b"x"), ("trace", b"2"), ("none", None)])
    builder.append(2, 3_000, b"k", None, [])
    plain = bytes(builder.build()).replace(b"#" * len(key), key)
    content = ENCODERS[number](plain[HEADER.size :])
    parts = list(HEADER.unpack_from(plain))
    parts[1] = HEADER.size - 12 + len(content)
    parts[5] = number | attributes
    checked = HEADER.pack(*parts)[21:] + content
    parts[4] = calc_crc32c(checked)
    return HEADER.pack(*parts)[:21] + checked


def read(octets: bytes) -> list[ConsumerRecord]:
    """Return the records that a consumer of the library makes of an answer."""
    answer = fetcher.MemoryRecords(octets)
    assert answer.size_in_bytes() == len(octets)
    return list(fetcher.PartitionRecords(TopicPartition("T", 0), answer, [], 0, None, None, True, 1))


@pytest.mark.parametrize(("number", "needs"), [(0, "aiokafka"), *CODECS])
def test_a_header_key_of_kafka_that_is_not_utf8_crosses_with_its_octets_as_text(number: int, needs: str) -> None:
    pytest.importorskip(needs, reason="this Python has no package cramjam, and the library then reads gzip alone")

    async def scenario() -> None:
        limited()
        first, second, third = read(batch_with_key(number))
        assert (first.offset, first.timestamp, first.key, first.value) == (0, 1_000, b"k", b"a")
        assert (second.offset, second.timestamp, second.key, second.value) == (1, 2_000, None, b"b")
        assert second.headers == ((r"\xffkey", b"x"), ("trace", b"2"), ("none", None))
        assert (third.offset, third.timestamp, third.key, third.value, third.headers) == (2, 3_000, b"k", None, ())
        assert kafka_message(second).property_values()[r"\xffkey"][1] == "x"

    run(scenario)


def test_batches_of_kafka_with_and_without_foreign_keys_are_read_alike() -> None:
    async def scenario() -> None:
        limited()
        foreign, usual = read(batch_with_key(attributes=APPEND_TIME)), read(batch_with_key(0, APPEND_TIME, b"other"))
        assert [record.timestamp for record in foreign] == [3_000] * 3
        assert [(r.offset, r.timestamp, r.timestamp_type, r.value) for r in foreign] == [
            (r.offset, r.timestamp, r.timestamp_type, r.value) for r in usual
        ]
        old = batch_with_key()
        assert len(read(old + old)) == 3, "records before the offset of the consumer are left out"

    run(scenario)


@given(st.integers(HEADER.size, len(batch_with_key()) - 1), st.integers(0, 255))
def test_a_damaged_record_of_kafka_is_refused_in_one_way(place: int, octet: int) -> None:
    async def scenario() -> None:
        limited()
        octets = bytearray(batch_with_key())
        octets[place] = octet
        octets[17:21] = calc_crc32c(bytes(octets[21:])).to_bytes(4, "big")
        try:
            assert len(read(bytes(octets))) <= 3
        except CorruptRecordException:
            pass

    run(scenario)
