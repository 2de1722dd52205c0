"""Servers of SQS, NATS and Kafka, and publishers to them, that send more than a bridge can hold or read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import AsyncMock, Mock

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.msg import Msg
from nats.errors import ProtocolError

from spanwire.bridges.model.definition import ConnectionFactory, Source
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.kafka import decompression
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


def batch_of(codec: int, octets: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 2 * octets + 1_000)
    builder.append(0, None, None, bytes(octets), [])
    return bytes(builder.build())


def limited() -> None:
    KafkaReceiver(Source(ConnectionFactory("kafka://host"), T, subscription="group"), 10)


@pytest.mark.parametrize(("codec", "needs"), [(1, "gzip"), (2, "cramjam"), (3, "cramjam"), (4, "cramjam")])
def test_s11_a_batch_of_kafka_is_decompressed_within_a_limit(
    codec: int, needs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(needs, reason="this Python has no package cramjam, and the library then reads gzip alone")

    async def scenario() -> None:
        limited()
        (record,) = MemoryRecords(batch_of(codec, 100_000)).next_batch()
        assert len(record.value) == 100_000
        monkeypatch.setattr(decompression, "MAX_BATCH", MIB)
        with pytest.raises(JmsError, match="more than 1 MiB"):
            list(MemoryRecords(batch_of(codec, 2 * MIB)).next_batch())

    run(scenario)
