"""Peers of bridges that send what their protocol allows and a library does not take, or more than anybody asked for."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from aiormq.exceptions import InvalidFrameError
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from pamqp import commands, frame
from pamqp.header import ContentHeader

from spanwire.bridges.model.definition import ConnectionFactory, Source
from spanwire.bridges.providers import inbox as inbox_module
from spanwire.bridges.providers.addresses import Place
from spanwire.bridges.providers.amqp091 import messages as amqp_messages
from spanwire.bridges.providers.amqp091.frame_reader import MAX_FRAME, MAX_MESSAGE, FrameReader, UnreadableHeader
from spanwire.bridges.providers.amqp091.readable_properties import readable_properties
from spanwire.bridges.providers.inbox import MAX_OCTETS, Inbox
from spanwire.bridges.providers.kafka.connecting import address_of
from spanwire.bridges.providers.kafka.parties import KafkaReceiver
from spanwire.bridges.providers.mqtt import incoming
from spanwire.bridges.providers.mqtt.connection import NO_SESSION, MqttConnection
from spanwire.bridges.providers.mqtt.incoming import IncomingProperties, MalformedError
from spanwire.bridges.providers.mqtt.messages import bridge_message
from spanwire.bridges.providers.redis.parties import READ_OCTETS, RedisSource
from spanwire.bridges.providers.stomp.connection import GONE_S, MAX_BEAT_MS, PROBES, _intervals, connect
from spanwire.bridges.providers.stomp.messages import bridge_message as stomp_message
from spanwire.bridges.providers.text_headers import sequence_of
from spanwire.bridges.providers.window import Window
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import JmsError, MessageFormatError
from spanwire.protocols.stomp.codec.codec import FrameDecoder
from spanwire.protocols.stomp.codec.frames import V1_2

WAIT_S: Final = 20.0
QOS_1: Final = 0x32  # first byte of a PUBLISH with quality of service 1
QOS_2: Final = 0x34  # the same with quality of service 2
T: Final = Destination(TOPIC, "T")


def run(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def user_property(name: str, text: str) -> bytes:
    return b"\x26" + b"".join(len(one).to_bytes(2, "big") + one for one in (name.encode(), text.encode()))


def length_of(octets: bytes) -> bytes:
    """The length before properties, as MQTT has it."""
    left, found = len(octets), b""
    while left > 0x7F:
        found += bytes((left & 0x7F | 0x80,))
        left >>= 7
    return found + bytes((left,))


def publish(properties: bytes, payload: bytes = b"body") -> bytes:
    return b"\0\1T" + b"\0\7" + length_of(properties) + properties + payload


async def received(packet: bytes) -> MQTTMessage:
    """What a connection hands to its source for a packet that the library has read from the socket."""
    connection = MqttConnection(ConnectionFactory("mqtt://host"), None, NO_SESSION, Window(10))
    connection._client._in_packet = {"command": QOS_1, "packet": packet}
    connection._client._handle_publish()
    (found,) = await connection.inbox.take(1, 1_000, 0)
    return cast("MQTTMessage", found)


def test_a_text_of_mqtt_with_a_byte_order_mark_is_no_end_of_the_connection() -> None:
    async def scenario() -> None:
        packet = await received(publish(user_property("note", "\ufeffhello")))
        message = bridge_message(packet, 0)
        assert message.content.property_values()["note"][1] == "\ufeffhello"
        assert message.content.neutral_body() == b"body"

    run(scenario)


def test_a_message_of_mqtt_with_quality_2_is_acknowledged_by_the_bridge_and_not_by_the_library() -> None:
    async def scenario() -> None:
        connection = MqttConnection(ConnectionFactory("mqtt://host"), None, NO_SESSION, Window(10))
        client, answers = connection._client, []
        client._send_pubrec = lambda packet_id: answers.append(("PUBREC", packet_id))
        client._send_pubcomp = lambda packet_id: answers.append(("PUBCOMP", packet_id))

        async def finished(work: object) -> None:
            """The broker has read everything."""

        connection._finished = finished  # type: ignore[method-assign]
        client._in_packet = {"command": QOS_2, "packet": publish(user_property("a", "b"))}
        client._handle_publish()
        (packet,) = await connection.inbox.take(1, 1_000, 0)
        assert (packet.qos, packet.payload, answers) == (1, b"body", [])  # a killed bridge receives it again
        await connection.acknowledge([packet])
        assert (answers, connection.window.held) == ([("PUBREC", 7)], 0)
        for _ in range(2):  # of this connection, and of one that ended before the answer
            client._in_packet = {"command": 0x62, "packet": b"\0\7"}
            client._handle_pubrel()
        assert answers[1:] == [("PUBCOMP", 7), ("PUBCOMP", 7)]

    run(scenario)


def test_many_properties_of_mqtt_are_read_in_one_pass() -> None:
    async def scenario() -> None:
        octets = user_property("a", "b") * 100_000
        packet = await received(publish(octets, b"x" * 1_000_000))
        assert len(packet.properties.UserProperty) == 100_000
        assert len(packet.payload) == 1_000_000

    run(scenario)


def test_a_message_of_mqtt_with_properties_beyond_the_limit_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "MAX_OCTETS", 100)

    async def scenario() -> None:
        packet = await received(publish(user_property("b", "y") + user_property("a", "x" * 100)))
        assert packet.properties.UserProperty == [("b", "y")]  # those that a dead letter keeps
        message = bridge_message(packet, 0)
        for reads in (message.content.neutral_body, message.content.property_values):
            with pytest.raises(MessageFormatError, match=r"113 bytes of properties.* without the properties behind"):
                reads()

    run(scenario)


@given(
    texts=st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=4),
    content_type=st.none() | st.text(max_size=9),
    correlation=st.none() | st.binary(max_size=9),
    life=st.none() | st.integers(0, 2**32 - 1),
)
def test_properties_of_mqtt_are_those_that_the_library_writes(
    texts: list[tuple[str, str]], content_type: str | None, correlation: bytes | None, life: int | None
) -> None:
    written = Properties(PacketTypes.PUBLISH)
    for name, value in (
        ("UserProperty", texts or None),
        ("ContentType", content_type),
        ("CorrelationData", correlation),
        ("MessageExpiryInterval", life),
    ):
        if value is not None:
            setattr(written, name, value)
    octets = b"\0\1T" + b"\0\7" + written.pack() + b"body"
    found, rest = incoming.without_properties(QOS_1, octets)
    assert found.UserProperty == texts
    assert (found.ContentType, found.CorrelationData, found.MessageExpiryInterval) == (content_type, correlation, life)
    assert (found.packet_id, rest) == (7, b"\0\1T\0\7\0body")


@given(st.binary(max_size=60))
def test_damaged_properties_of_amqp_end_no_search_for_readable_ones(octets: bytes) -> None:
    for damaged in (octets, b"\x20\0" + struct.pack(">I", len(octets)) + octets):
        readable_properties(damaged)


@given(st.binary(max_size=60))
def test_damaged_properties_of_mqtt_are_refused_and_nothing_else(octets: bytes) -> None:
    for read in (IncomingProperties, lambda data: incoming.without_properties(QOS_1, data)):
        try:
            read(octets)
        except MalformedError:
            continue


def rabbit_frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def header_frame(properties: bytes, flags: int, body_size: int = 4) -> bytes:
    return rabbit_frame(2, struct.pack(">HHQH", 60, 0, body_size, flags) + properties)


def nested_table(depth: int) -> bytes:
    table = b"\0\0\0\0"
    for _ in range(depth):
        entry = b"\x01aF" + table
        table = struct.pack(">I", len(entry)) + entry
    return table


async def read_frame(octets: bytes) -> Any:
    reader = asyncio.StreamReader()
    reader.feed_data(octets)
    reader.feed_eof()
    return (await FrameReader(reader).get_frame())[2]


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (header_frame(b"\xff" * 8, 1 << 6), "out of range"),  # a timestamp
        (header_frame(nested_table(5_000), 1 << 13), "the tables of headers are too deep"),
        (header_frame(b"\0\0\0\x03\x01aQ", 1 << 13), "Unknown type"),
    ],
)
def test_a_message_of_amqp_whose_properties_the_library_cannot_read_is_a_dead_letter(
    octets: bytes, reason: str
) -> None:
    async def scenario() -> None:
        header = await read_frame(octets)
        assert isinstance(header, UnreadableHeader)
        assert header.body_size == 4
        delivered: Any = SimpleNamespace(header=header, body=b"body", redelivered=False)
        message = amqp_messages.bridge_message(delivered, 0)
        with pytest.raises(MessageFormatError, match=reason):
            message.content.property_values()
        kept, left_out = amqp_messages.dead_letter_properties(header.properties, {"cause": "no"}, 131_072)
        assert (kept.headers, left_out) == ({"cause": "no"}, [])

    run(scenario)


def test_a_dead_letter_of_amqp_keeps_the_properties_that_can_be_read_and_names_the_others() -> None:
    async def scenario() -> None:
        table = b"\x06beforeS\0\0\0\x01x" + b"\x04whenT" + b"\xff" * 8 + b"\x05afterb\x01"
        headers = struct.pack(">I", len(table)) + table
        octets = header_frame(b"\x04text" + headers + b"\xff" * 8 + b"\x02ap", 1 << 15 | 1 << 13 | 1 << 6 | 1 << 3)
        header = await read_frame(octets)
        assert isinstance(header, UnreadableHeader)
        assert header.reason.endswith("the dead letter is without the header 'when', timestamp")
        kept, _ = amqp_messages.dead_letter_properties(header.properties, {"cause": "no"}, 131_072)
        assert kept.headers == {"before": "x", "after": 1, "cause": "no"}
        assert (kept.content_type, kept.app_id, kept.timestamp) == ("text", "ap", None)

    run(scenario)


def test_lengths_of_amqp_are_refused_before_a_byte_of_them_is_awaited() -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidFrameError, match="announces a frame of"):
            await read_frame(struct.pack(">BHI", 3, 1, MAX_FRAME + 1))
        with pytest.raises(InvalidFrameError, match="announces a message of"):
            await read_frame(header_frame(b"", 0, MAX_MESSAGE + 1))
        with pytest.raises(InvalidFrameError):
            await read_frame(rabbit_frame(1, b"\0\x0a\0\x0a" + b"\0\x09" + b"\0\0\0\x03\x01aQ"))

    run(scenario)


def test_a_good_message_of_amqp_is_read_as_the_library_does() -> None:
    async def scenario() -> None:
        properties = commands.Basic.Properties(headers={"a": 1}, message_id="ID:7")
        found = await read_frame(frame.marshal(ContentHeader(0, 4, properties), 1))
        assert isinstance(found, ContentHeader)
        assert (found.body_size, dict(found.properties)["headers"]) == (4, {"a": 1})

    run(scenario)


@pytest.mark.parametrize(
    ("agreed", "intervals"),
    [("²,²", (0, 0)), ("9" * 5_000 + ",0", (0, 0)), ("99999999999,1", (10_000, MAX_BEAT_MS)), ("0,20000", (20_000, 0))],
)
def test_heart_beats_of_stomp_that_are_no_numbers_count_as_none(agreed: str, intervals: tuple[int, int]) -> None:
    assert _intervals(agreed) == intervals


@pytest.mark.parametrize(("agreed", "is_probed"), [("0,0", True), ("0,20000", True), ("10000,10000", False)])
def test_a_broker_of_stomp_without_heart_beats_is_probed_by_the_system(agreed: str, is_probed: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\0")
        writer.write(f"CONNECTED\nversion:1.2\nheart-beat:{agreed}\n\n\0".encode())
        await reader.read()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = await connect(Place("here", "127.0.0.1", port, False, "", {}, None, None), None, None)
        opened = connection._writer.get_extra_info("socket")
        assert (opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1) == is_probed
        if is_probed and sys.platform == "linux":
            idle, pause, count = (opened.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name, _ in PROBES)
            assert idle + pause * count == GONE_S
        await connection.close()
        server.close()

    run(scenario)


def test_a_time_of_rabbitmq_beyond_a_long_is_the_longest() -> None:
    decoder = FrameDecoder()
    decoder.accept(V1_2)
    (found,) = decoder.feed(b"MESSAGE\ntimestamp:999999999999999999\nJMSXGroupSeq:4294967296\n\nbody\0")
    message = stomp_message(found, True, 0)
    assert (message.timestamp_ms, message.group_sequence) == (2**63 - 1, 0)


@pytest.mark.parametrize(
    ("value", "sequence"), [(7, 7), (2**31 - 1, 2**31 - 1), (2**31, 0), (-1, 0), (True, 0), ("7", 0)]
)
def test_a_group_sequence_beyond_jms_is_none(value: object, sequence: int) -> None:
    assert sequence_of(value) == sequence


def test_a_broker_that_sends_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(inbox_module, "MAX_FLOOD", 10 * inbox_module.OVERHEAD)
        flood: Inbox[int] = Inbox()
        for number in range(10):
            flood.put(number, 0)
        assert await flood.take(4, 100, 0) == [0, 1, 2, 3]
        for number in range(5):
            flood.put(number, 0)
        with pytest.raises(
            JmsError, match=r"11 messages wait, more than .* MiB: the broker sends what nobody has asked"
        ):
            await flood.take(1, 100, 0)
        assert (len(flood), flood.octets) == (0, 0)

    run(scenario)


def test_kafka_waits_while_the_inbox_is_full_of_octets() -> None:
    async def scenario() -> None:
        asked: list[int] = []

        async def getmany(**wishes: int) -> dict[object, list[object]]:
            asked.append(wishes["max_records"])
            record = SimpleNamespace(value=b"x" * MAX_OCTETS, key=None, headers=(("h", b"text"),))
            return {"T": [record]}

        source = Source(ConnectionFactory("kafka://host"), T, subscription="group")
        receiver = object.__new__(KafkaReceiver)
        values = {
            "_source": source, "_place": address_of(source.factory), "_credit": 10, "_waiting": 0, "inbox": Inbox(),
            "_consumer": SimpleNamespace(getmany=getmany),
        }  # fmt: skip
        for name, value in values.items():
            setattr(receiver, name, value)
        reading = asyncio.create_task(receiver._read())
        await asyncio.sleep(0.05)
        assert asked == [10]
        assert receiver.inbox.octets > MAX_OCTETS  # headers count
        await receiver.inbox.take(1, 1, 0)
        while len(asked) < 2:
            await asyncio.sleep(0.01)
        reading.cancel()

    run(scenario)


def test_redis_reads_few_large_entries_at_a_time() -> None:
    source = RedisSource(Source(ConnectionFactory("redis://host"), T, None, "g"), 100)

    def entries(count: int, octets: int) -> list[Any]:
        begin = len(source._held)
        return [[b"%d-0" % number, [b"body", b"x" * octets]] for number in range(begin, begin + count)]

    counts = [source._count]
    for _ in range(3):
        source._put(entries(source._count, 10), False)
        counts.append(source._count)
    assert counts == [1, 2, 4, 8]
    source._put(entries(1, READ_OCTETS // 3), False)
    assert source._count == 2
    source._put(entries(1, 2 * READ_OCTETS), False)
    assert source._count == 1
