from __future__ import annotations

import subprocess
import sys
import zlib
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
    PropertyValue,
)
from spanwire.pipeline.arrow.record_batch import record_batch
from spanwire.pipeline.arrow.schema import arrow_schema
from spanwire.pipeline.columns.body_types import BODY_KINDS
from spanwire.pipeline.columns.column_decoder import MAX_KNOWN_TEXT, MAX_KNOWN_TEXTS, ColumnDecoder
from spanwire.pipeline.columns.variant import decode_variant
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import DataStructure
from tests.support.pipeline_messages import Raw, id_of, raw, raw_of, structure


def batch_of(*messages: Raw, bodies: frozenset[str] = frozenset(BODY_KINDS)) -> pa.RecordBatch:
    decoder = ColumnDecoder(bodies)
    for one in messages:
        decoder.add(one.raw, one.version, one.redelivery_count)
    return record_batch(decoder.take_columns())


def row_of(message: Raw) -> dict[str, object]:
    rows: list[dict[str, object]] = batch_of(message).to_pylist()
    return rows[0]


def decoded(variant: object) -> PropertyValue:
    assert isinstance(variant, dict)
    return decode_variant(variant["value"], variant["metadata"])


def test_headers_stand_in_columns_of_their_names() -> None:
    message = structure(7)
    message.expiration = 1_700_000_001_500
    message.correlation_id = "c-1"
    message.reply_to = wire.ActiveMQTempQueue("ID:x:1")
    message.type = "trade"
    message.group_id = "g"
    message.group_sequence = 3
    row = row_of(raw_of(message))
    assert row["JMSMessageID"] == id_of(7)
    assert row["JMSDestination"] == "queue://ORDERS"
    assert row["JMSTimestamp"] == datetime.fromtimestamp(1_700_000_000.007, UTC)
    assert row["JMSExpiration"] == datetime.fromtimestamp(1_700_000_001.5, UTC)
    assert (row["JMSPriority"], row["JMSDeliveryMode"]) == (4, "PERSISTENT")
    assert (row["JMSCorrelationID"], row["JMSReplyTo"], row["JMSType"]) == ("c-1", "temp-queue://ID:x:1", "trade")
    assert (row["JMSXGroupID"], row["JMSXGroupSeq"], row["sequence"]) == ("g", 3, 7)


def test_what_a_message_does_not_have_is_null() -> None:
    row = row_of(raw(1))
    absent = [
        "JMSExpiration",
        "JMSCorrelationID",
        "JMSReplyTo",
        "JMSType",
        "JMSXGroupID",
        "JMSXGroupSeq",
        "bytes",
        "body",
    ]
    assert [name for name in absent if row[name] is not None] == []


def test_a_redelivered_message_says_so_with_its_count() -> None:
    row = row_of(raw(1).again().again())
    assert (row["JMSRedelivered"], row["JMSXDeliveryCount"]) == (True, 3)
    assert row_of(raw(1))["JMSRedelivered"] is False


def test_properties_keep_their_jms_types() -> None:
    properties: dict[str, PropertyValue] = {
        "a": (BYTE_VALUE, 1),
        "b": (SHORT_VALUE, 1),
        "c": (INT_VALUE, 1),
        "d": (LONG_VALUE, 1),
        "e": (FLOAT_VALUE, 0.5),
        "f": (STRING_VALUE, "x"),
        "g": (LIST_VALUE, [(INT_VALUE, 1), (STRING_VALUE, "y")]),
    }
    found = row_of(raw(1, "text", properties))["properties"]
    assert isinstance(found, list)
    assert {name: decoded(value) for name, value in found} == properties


@pytest.mark.parametrize("text", ["", "plain", "ä € \U0001f600 \x00"])
def test_a_text_is_a_text(text: str) -> None:
    row = row_of(raw(1, text))
    assert (row["body_type"], row["text"], row["bytes"]) == ("text", text, None)


def test_a_compressed_text_is_inflated() -> None:
    message = structure(1, "abc" * 100)
    assert message.content is not None
    message.content = zlib.compress(message.content)
    message.compressed = True
    assert row_of(raw_of(message))["text"] == "abc" * 100


def test_a_compressed_body_counts_with_what_it_inflates_to() -> None:
    message = structure(1, "abc" * 10_000)
    assert message.content is not None
    message.content = zlib.compress(message.content, 1)
    message.compressed = True
    decoder = ColumnDecoder(frozenset(BODY_KINDS))
    decoder.add(raw_of(message).raw, raw_of(message).version, 0)
    assert decoder.columns.octets >= 30_000


def test_bodies_of_other_kinds_have_their_columns() -> None:
    rows = batch_of(
        raw(1, b"\x00\xff"), raw(2, {"n": (INT_VALUE, 1)}), raw(3, [(INT_VALUE, 1)]), raw(4, None)
    ).to_pylist()
    assert [row["body_type"] for row in rows] == ["bytes", "map", "stream", "message"]
    assert rows[0]["bytes"] == b"\x00\xff"
    assert decoded(rows[1]["body"])[1] == {"n": (INT_VALUE, 1)}
    assert decoded(rows[2]["body"])[1] == [(INT_VALUE, 1)]
    assert (rows[3]["text"], rows[3]["bytes"], rows[3]["body"]) == (None, None, None)


def test_a_serialized_java_object_is_octets() -> None:
    message = wire.ActiveMQObjectMessage()
    template = structure(1)
    message.producer_id, message.message_id, message.destination = (
        template.producer_id,
        template.message_id,
        template.destination,
    )
    message.content = b"\xac\xed\x00\x05"
    row = row_of(raw_of(message))
    assert (row["body_type"], row["bytes"]) == ("object", b"\xac\xed\x00\x05")


def test_a_body_that_cannot_be_read_is_handed_on_as_it_came() -> None:
    message = structure(1)
    message.content = b"\x00\x00\x00\x09abc"
    row = row_of(raw_of(message))
    assert (row["body_type"], row["bytes"], row["text"]) == ("unreadable", b"\x00\x00\x00\x09abc", None)


def test_properties_that_cannot_be_read_make_the_row_unreadable_and_leave_the_next_alone() -> None:
    message = structure(1)
    message.marshalled_properties = b"\x00\x00\x00\x01\x00\x01a\x63"
    rows = batch_of(raw_of(message), raw(2, "text", {"n": (INT_VALUE, 2)})).to_pylist()
    assert [row["body_type"] for row in rows] == ["unreadable", "text"]
    assert [len(row["properties"]) for row in rows] == [0, 1]


def test_bodies_that_were_not_asked_for_are_left_out() -> None:
    rows = batch_of(raw(1, "text"), raw(2, b"bytes"), bodies=frozenset({"bytes"})).to_pylist()
    assert [(row["text"], row["bytes"]) for row in rows] == [(None, None), (None, b"bytes")]
    assert [row["body_type"] for row in rows] == ["text", "bytes"]


def test_batches_have_the_announced_schema_and_what_is_taken_is_gone() -> None:
    decoder = ColumnDecoder(frozenset(BODY_KINDS))
    decoder.add(raw(1).raw, raw(1).version, 0)
    assert decoder.columns.octets > 0
    assert record_batch(decoder.take_columns()).schema.equals(arrow_schema(), check_metadata=True)
    empty = record_batch(decoder.take_columns())
    assert (empty.num_rows, decoder.columns.octets) == (0, 0)
    assert empty.schema.equals(arrow_schema(), check_metadata=True)


def test_the_way_of_a_message_and_the_times_at_its_last_broker_are_columns() -> None:
    message = structure(1)
    message.broker_path = [wire.BrokerId("ID:a"), wire.BrokerId("ID:b")]
    message.broker_in_time, message.broker_out_time = 1_700_000_000_500, 1_700_000_000_600
    row, plain = batch_of(raw_of(message), raw(2)).to_pylist()
    assert row["JMSActiveMQBrokerPath"] == ["ID:a", "ID:b"] and plain["JMSActiveMQBrokerPath"] is None
    assert row["JMSActiveMQBrokerInTime"] == datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC)
    assert row["JMSActiveMQBrokerOutTime"] == datetime(2023, 11, 14, 22, 13, 20, 600_000, tzinfo=UTC)
    assert plain["JMSActiveMQBrokerInTime"] is None and plain["JMSActiveMQBrokerOutTime"] is None


def told(subject: DataStructure) -> PropertyValue:
    """What the column body tells of an advisory about it."""
    advisory = structure(1, None)
    advisory.data_structure = subject
    (row,) = batch_of(raw_of(advisory)).to_pylist()
    assert row["body_type"] == "message"
    return decode_variant(row["body"]["value"], row["body"]["metadata"])


def test_an_advisory_tells_of_clients_without_their_passwords() -> None:
    producer = wire.ProducerId(connection_id="ID:c:1", session_id=2, value=3)
    consumer = wire.ConsumerId(connection_id="ID:c:1", session_id=2, value=4)
    assert told(
        wire.ConnectionInfo(connection_id=wire.ConnectionId("ID:c:1"), client_id="shop", password="p", user_name="u")
    ) == (
        MAP_VALUE,
        {
            "type": (STRING_VALUE, "ConnectionInfo"),
            "connectionId": (STRING_VALUE, "ID:c:1"),
            "clientId": (STRING_VALUE, "shop"),
            "userName": (STRING_VALUE, "u"),
        },
    )
    assert told(wire.ProducerInfo(producer_id=producer, destination=wire.ActiveMQQueue("ORDERS"))) == (
        MAP_VALUE,
        {
            "type": (STRING_VALUE, "ProducerInfo"),
            "producerId": (STRING_VALUE, "ID:c:1:2:3"),
            "connectionId": (STRING_VALUE, "ID:c:1"),
            "destination": (STRING_VALUE, "queue://ORDERS"),
        },
    )
    assert told(
        wire.ConsumerInfo(
            consumer_id=consumer,
            destination=wire.ActiveMQTopic("T"),
            network_subscription=True,
            broker_path=[wire.BrokerId("ID:b")],
        )
    ) == (
        MAP_VALUE,
        {
            "type": (STRING_VALUE, "ConsumerInfo"),
            "consumerId": (STRING_VALUE, "ID:c:1:2:4"),
            "connectionId": (STRING_VALUE, "ID:c:1"),
            "destination": (STRING_VALUE, "topic://T"),
            "networkSubscription": (BOOLEAN_VALUE, True),
            "brokerPath": (LIST_VALUE, [(STRING_VALUE, "ID:b")]),
        },
    )
    for gone, text in ((producer, "ID:c:1:2:3"), (consumer, "ID:c:1:2:4"), (wire.ConnectionId("ID:c:1"), "ID:c:1")):
        entries = {"type": (STRING_VALUE, "RemoveInfo"), "objectId": (STRING_VALUE, text)}
        assert told(wire.RemoveInfo(object_id=gone)) == (MAP_VALUE, entries)


def test_an_advisory_tells_of_a_message_where_it_was_and_when() -> None:
    message = structure(7, "text")
    message.original_destination = wire.ActiveMQQueue("FIRST")
    message.broker_path = [wire.BrokerId("ID:a")]
    message.broker_in_time = 1_700_000_000_500
    assert told(message) == (
        MAP_VALUE,
        {
            "type": (STRING_VALUE, "Message"),
            "messageId": (STRING_VALUE, id_of(7)),
            "producerId": (STRING_VALUE, "ID:host-1-2-3:1:1:1"),
            "connectionId": (STRING_VALUE, "ID:host-1-2-3:1"),
            "destination": (STRING_VALUE, "queue://ORDERS"),
            "originalDestination": (STRING_VALUE, "queue://FIRST"),
            "timestamp": (LONG_VALUE, 1_700_000_000_007),
            "brokerPath": (LIST_VALUE, [(STRING_VALUE, "ID:a")]),
            "brokerInTime": (LONG_VALUE, 1_700_000_000_500),
            "size": (LONG_VALUE, 8),
        },
    )


def test_an_advisory_tells_of_destinations_brokers_and_of_what_nobody_knows() -> None:
    assert told(wire.DestinationInfo(destination=wire.ActiveMQQueue("Q"), operation_type=1)) == (
        MAP_VALUE,
        {
            "type": (STRING_VALUE, "DestinationInfo"),
            "destination": (STRING_VALUE, "queue://Q"),
            "isRemoved": (BOOLEAN_VALUE, True),
        },
    )
    assert told(wire.BrokerInfo(broker_id=wire.BrokerId("ID:b"), broker_name="B", broker_url="tcp://b:61616")) == (
        MAP_VALUE,
        {
            "type": (STRING_VALUE, "BrokerInfo"),
            "brokerId": (STRING_VALUE, "ID:b"),
            "brokerName": (STRING_VALUE, "B"),
            "brokerURL": (STRING_VALUE, "tcp://b:61616"),
        },
    )
    other = wire.RemoveSubscriptionInfo(subscription_name="s", client_id="c")
    assert told(other) == (MAP_VALUE, {"type": (STRING_VALUE, "other"), "number": (INT_VALUE, other.type_id())})


@pytest.mark.parametrize("octets", [b"", b"\x00", raw(1).raw[:-1], raw(1).raw + b"x", b"\x16\x00\x00\x00\x00\x00"])
def test_octets_that_are_no_message_are_one_error(octets: bytes) -> None:
    with pytest.raises(MessageFormatError):
        ColumnDecoder(frozenset()).add(octets, raw(1).version, 0)


def test_an_id_of_another_system_is_taken_as_it_is() -> None:
    message = structure(1)
    assert message.message_id is not None
    message.message_id.text_view = "ID:elsewhere"
    assert row_of(raw_of(message))["JMSMessageID"] == "ID:elsewhere"


@st.composite
def messages(draw: st.DrawFn) -> Raw:
    """Of two producers for two destinations, most of them plain."""
    body = draw(st.sampled_from([None, "", "text", "ä\x00\U0001f600", b"", b"\xff", {"k": (INT_VALUE, 1)}]))
    choices: list[dict[str, PropertyValue] | None] = [None, {"n": (INT_VALUE, 1)}, {"s": (STRING_VALUE, "ä")}]
    properties = draw(st.sampled_from(choices))
    message = structure(draw(st.integers(1, 9)), body, properties)
    if draw(st.booleans()):
        message.destination = wire.ActiveMQTopic("T")
    if draw(st.booleans()):
        assert message.message_id is not None
        message.message_id.producer_id = wire.ProducerId(connection_id="ID:other:1", value=2, session_id=3)
    message.persistent, message.priority = draw(st.booleans()), draw(st.sampled_from([4, 9]))
    message.timestamp, message.expiration = draw(st.sampled_from([0, 7, -7])), draw(st.sampled_from([0, 1_000]))
    message.broker_in_time, message.broker_out_time = draw(st.sampled_from([0, 8])), draw(st.sampled_from([0, 9]))
    message.correlation_id = draw(st.sampled_from([None, None, "c"]))
    message.user_id = draw(st.sampled_from([None, None, "u"]))
    if isinstance(body, str) and draw(st.booleans()):
        message.content = draw(st.sampled_from([b"", b"\x00\x00\x00\x09abc", b"\xff\xff\xff\xff", None]))
    if draw(st.integers(0, 5)) == 0:
        message.marshalled_properties = b"\x00\x00\x00\x01\x00\x01a\x63"
    one = raw_of(message)
    return one.again() if draw(st.booleans()) else one


@pytest.mark.large
@settings(deadline=None)
@given(st.lists(messages(), max_size=8))
def test_a_row_is_the_same_whatever_came_before_it(found: list[Raw]) -> None:
    together = batch_of(*found)
    together.validate(full=True)
    assert together.to_pylist() == [row_of(one) for one in found]


def test_pandas_is_not_loaded_for_a_record_batch() -> None:
    program = f"""
import sys
from spanwire.pipeline.arrow.record_batch import record_batch
from spanwire.pipeline.columns.column_decoder import ColumnDecoder
decoder = ColumnDecoder(frozenset({{"text", "map"}}))
for raw in {[raw(1, "t", {"n": (INT_VALUE, 1)}).raw, raw(2).raw, raw(3, {"k": (INT_VALUE, 1)}).raw]!r}:
    decoder.add(raw, {raw(1).version}, 0)
print(record_batch(decoder.take_columns()).num_rows, "pandas" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout.split() == ["3", "False"]


def test_messages_of_several_queues_are_told_apart_by_their_destinations() -> None:
    decoder = ColumnDecoder(frozenset())
    for name in ("A", "B", "B"):
        message = structure(1)
        message.destination = wire.ActiveMQQueue(name)
        decoder.add(raw_of(message).raw, raw_of(message).version, 0)
    gathered = decoder.take_columns()
    assert gathered.keys(False) == [id_of(1)] * 3
    assert gathered.keys(True) == [f"{id_of(1)} queue://{name}" for name in ("A", "B", "B")]


def test_only_producers_and_destinations_of_a_usual_length_are_remembered() -> None:
    decoder = ColumnDecoder(frozenset())
    for size in (10, MAX_KNOWN_TEXT):
        message = structure(1)
        message.destination = wire.ActiveMQQueue("Q" * size)
        assert message.message_id is not None
        message.message_id.producer_id = wire.ProducerId(connection_id="c" * size, value=1, session_id=1)
        for _ in range(2):
            decoder.add(raw_of(message).raw, raw_of(message).version, 0)
        row = record_batch(decoder.take_columns()).to_pylist()[1]
        assert (row["JMSMessageID"], row["JMSDestination"]) == ("c" * size + ":1:1:1", "queue://" + "Q" * size)
    assert [len(known) for known in (decoder._destinations, decoder._producers)] == [1, 1]


def test_more_producers_and_destinations_than_are_remembered_are_still_told_right() -> None:
    found = []
    for number in [*range(MAX_KNOWN_TEXTS + 2), 0, MAX_KNOWN_TEXTS]:
        message = structure(1)
        message.destination = wire.ActiveMQQueue(f"Q{number}")
        assert message.message_id is not None
        message.message_id.producer_id = wire.ProducerId(connection_id=f"ID:c:{number}", value=1, session_id=1)
        found.append(raw_of(message))
    rows = batch_of(*found, *found).to_pylist()
    assert [(row["JMSMessageID"], row["JMSDestination"]) for row in rows[-2:]] == [
        ("ID:c:0:1:1:1", "queue://Q0"),
        (f"ID:c:{MAX_KNOWN_TEXTS}:1:1:1", f"queue://Q{MAX_KNOWN_TEXTS}"),
    ]
