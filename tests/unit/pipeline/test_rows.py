from __future__ import annotations

import subprocess
import sys
from itertools import accumulate, chain

import pyarrow as pa
import pytest

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.messages.typed_values import EncodedText, Int, Serialized
from spanwire.client.protocol.producer import MAX_TIME_TO_LIVE_MS
from spanwire.model.errors import ConfigurationError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP,
    MAP_VALUE,
    NULL_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
    PropertyValue,
)
from spanwire.pipeline.arrow.record_batch import record_batch
from spanwire.pipeline.arrow.rows import RowReader, check_columns, row_errors
from spanwire.pipeline.arrow.schema import TIMESTAMP, VARIANT
from spanwire.pipeline.columns.body_types import BODY_KINDS
from spanwire.pipeline.columns.column_builder import MAX_MICROS_MS
from spanwire.pipeline.columns.column_decoder import ColumnDecoder
from spanwire.pipeline.columns.variant import encode_variant
from spanwire.pipeline.link.batch_sender import SENT_AT_ONCE, portions, send_all
from spanwire.pipeline.options import write_options
from spanwire.protocols.octets import decode_text
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import LATEST_VERSION
from spanwire.protocols.openwire.messages.message_body import KINDS, deflated, neutral_body
from spanwire.protocols.primitive_map import decode_map
from tests.support.client_dialogue import PlayedBroker
from tests.support.pipeline_messages import raw, raw_of, structure

NOW_MS = 1_700_000_000_000


def variant(entry: PropertyValue) -> dict[str, bytes]:
    value, metadata = encode_variant(entry)
    return {"value": value, "metadata": metadata}


def rows_of(batch: pa.RecordBatch, **options: str) -> list[Outgoing]:
    given = {"destination": "OUT", "duplicateIdProperty": "", **options}
    return list(RowReader(write_options(given)).rows(batch))


def body_of(row: Outgoing) -> object:
    """A text as text, everything else as it is sent."""
    if not isinstance(row.body, EncodedText):
        return row.body
    return None if row.body.octets is None else decode_text(row.body.octets)


def properties_of(row: Outgoing) -> dict[str, PropertyValue]:
    assert isinstance(row.properties, bytes)
    return decode_map(row.properties)


def one_row(columns: dict[str, pa.Array]) -> Outgoing:
    (row,) = rows_of(pa.record_batch(columns))
    return row


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ([("text", "int")], "the column text is int; it must be string"),
        (
            [("properties", "map<int,string>")],
            "the column properties is map<int,string>; it must be map<string,variant>",
        ),
        ([("JMSPriority", "double")], "it must be tinyint or smallint or int or bigint"),
        ([("txt", "string")], "a message has no column 'txt', drop it or rename it; did you mean text?"),
        ([("body", "string")], "the column body is string; it must be variant"),
    ],
)
def test_columns_that_make_no_message_are_refused_in_one_line(columns: list[tuple[str, str]], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as caught:
        check_columns(columns, write_options({"destination": "OUT"}))
    assert "\n" not in str(caught.value)


def test_a_destination_must_come_from_somewhere() -> None:
    with pytest.raises(ConfigurationError, match="no destination"):
        check_columns([("text", "string")], write_options({}))
    check_columns([("text", "string"), ("JMSDestination", "string")], write_options({}))


def test_each_row_may_name_its_queue() -> None:
    batch = pa.record_batch({"JMSDestination": ["queue://A", "B", "queue://A"], "text": ["1", "2", "3"]})
    rows = list(RowReader(write_options({})).rows(batch))
    assert [str(row.destination) for row in rows] == ["queue://A", "queue://B", "queue://A"]
    topics = pa.record_batch({"JMSDestination": ["topic://T"], "text": ["1"]})
    assert [str(row.destination) for row in RowReader(write_options({})).rows(topics)] == ["topic://T"]
    patterns = pa.record_batch({"JMSDestination": ["queue://A.>"], "text": ["1"]})
    with pytest.raises(ConfigurationError, match="names more than one destination"):
        list(RowReader(write_options({})).rows(patterns))


def test_headers_come_from_their_columns() -> None:
    row = one_row(
        {
            "text": pa.array(["hello"]),
            "JMSCorrelationID": pa.array(["c"]),
            "JMSType": pa.array(["t"]),
            "JMSReplyTo": pa.array(["queue://R"]),
            "JMSXGroupID": pa.array(["g"]),
            "JMSXGroupSeq": pa.array([2], pa.int32()),
            "JMSPriority": pa.array([7], pa.int8()),
            "JMSDeliveryMode": pa.array(["NON_PERSISTENT"]),
            "JMSExpiration": pa.array([(NOW_MS + 5000) * 1000], pa.int64()).cast(TIMESTAMP),
        }
    )
    assert (body_of(row), row.correlation_id, row.message_type, row.reply_to) == ("hello", "c", "t", "queue://R")
    assert (row.group_id, row.group_sequence, row.priority, row.persistent) == ("g", 2, 7, False)
    assert row.expires_at_ms == NOW_MS + 5000


def test_a_temporary_destination_for_answers_can_be_left_out() -> None:
    names = ["queue://R", "temp-queue://ID:1", "temp-topic://ID:2", None]
    batch = pa.record_batch({"text": ["x"] * 4, "JMSReplyTo": names})
    assert [row.reply_to for row in rows_of(batch)] == names
    assert [row.reply_to for row in rows_of(batch, dropTemporaryReplyTo="true")] == ["queue://R", None, None, None]


def test_rows_of_which_no_message_can_be_made_are_told_with_their_reasons() -> None:
    batch = pa.record_batch(
        {"text": ["x"] * 4, "JMSPriority": [1, 10, 2, 3], "JMSReplyTo": [None, None, None, "queue://"]}
    )
    first, second, third, fourth = row_errors(batch, write_options({"destination": "OUT"}))
    assert (first, second, third) == (None, "JMSPriority is 10; it must lie between 0 and 9", None)
    assert fourth is not None and fourth.startswith("JMSReplyTo: ")


def sent_expirations(row: Outgoing, *times_ms: int) -> list[int]:
    broker = PlayedBroker()
    broker.lets_in()
    producer = broker.producer(broker.session("transacted"), None)
    for time_ms in times_ms:
        assert producer.post_all([row], 0, 1 << 20, time_ms) == 1
    return [command.expiration for command in broker.receives() if isinstance(command, wire.Message)]


@pytest.mark.parametrize("kind", [None, "order"])
def test_a_row_expires_when_it_says_however_long_it_waits_to_be_sent(kind: str | None) -> None:
    end = pa.array([(NOW_MS + 60_000) * 1000], pa.int64()).cast(TIMESTAMP)
    row = one_row({"text": pa.array(["x"]), "JMSType": pa.array([kind], pa.string()), "JMSExpiration": end})
    assert sent_expirations(row, NOW_MS, NOW_MS + 50_000) == [NOW_MS + 60_000] * 2


@pytest.mark.parametrize("kind", [None, "order"])
def test_what_has_expired_on_the_way_is_left_to_the_broker(kind: str | None) -> None:
    for millis in (NOW_MS - 1, NOW_MS, 0, -1):
        past = pa.array([millis * 1000], pa.int64()).cast(TIMESTAMP)
        row = one_row({"text": pa.array(["x"]), "JMSType": pa.array([kind], pa.string()), "JMSExpiration": past})
        assert sent_expirations(row, NOW_MS) == [NOW_MS + 1]


@pytest.mark.parametrize("kind", [None, "order"])
def test_the_largest_expiration_that_is_read_can_be_written(kind: str | None) -> None:
    last = pa.array([MAX_MICROS_MS * 1000], pa.int64()).cast(TIMESTAMP)
    row = one_row({"text": pa.array(["x"]), "JMSType": pa.array([kind], pa.string()), "JMSExpiration": last})
    assert sent_expirations(row, NOW_MS) == [NOW_MS + MAX_TIME_TO_LIVE_MS]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"JMSPriority": pa.array([10])}, "JMSPriority is 10; it must lie between 0 and 9"),
        ({"JMSDeliveryMode": pa.array(["fast"])}, "JMSDeliveryMode is 'fast'"),
        ({"text": pa.array(["a"]), "bytes": pa.array([b"b"])}, "a row has text and bytes"),
        ({"body_type": pa.array(["unreadable"]), "bytes": pa.array([b"b"])}, "could not be read cannot be sent"),
        ({"body_type": pa.array(["xml"])}, "body_type is 'xml', not text"),
        ({"body": pa.array([variant((INT_VALUE, 1))], VARIANT)}, "a map body needs an object, a stream an array"),
        (
            {"body": pa.array([{"value": b"\x2c", "metadata": b"\x01"}], VARIANT)},
            "the column body: a date has no JMS type",
        ),
    ],
)
def test_a_value_that_no_message_can_have_is_refused_in_one_line(columns: dict[str, pa.Array], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as caught:
        one_row(columns)
    assert "\n" not in str(caught.value)


def test_properties_of_variants_keep_their_types() -> None:
    entries = [("a", variant((BYTE_VALUE, 1))), ("b", variant((STRING_VALUE, "x"))), ("c", None)]
    row = one_row({"properties": pa.array([entries], pa.map_(pa.string(), VARIANT))})
    assert properties_of(row) == {"a": (BYTE_VALUE, 1), "b": (STRING_VALUE, "x"), "c": (NULL_VALUE, None)}


@pytest.mark.parametrize(
    ("kind", "value", "sent"),
    [
        (pa.string(), "x", (STRING_VALUE, "x")),
        (pa.string(), "\u20ac\0", (STRING_VALUE, "\u20ac\0")),
        (pa.string(), None, (NULL_VALUE, None)),
        (pa.bool_(), True, (BOOLEAN_VALUE, True)),
        (pa.int8(), 1, (BYTE_VALUE, 1)),
        (pa.int16(), 1, (SHORT_VALUE, 1)),
        (pa.int32(), 1, (INT_VALUE, 1)),
        (pa.int64(), 1, (LONG_VALUE, 1)),
        (pa.float32(), 1.5, (FLOAT_VALUE, 1.5)),
        (pa.float64(), 1.5, (DOUBLE_VALUE, 1.5)),
        (pa.float64(), None, (NULL_VALUE, None)),
    ],
)
def test_properties_of_one_type_have_that_type(kind: pa.DataType, value: object, sent: PropertyValue) -> None:
    row = one_row({"properties": pa.array([[("n", value)]], pa.map_(pa.string(), kind))})
    assert properties_of(row) == {"n": sent}


def test_parts_of_a_batch_have_the_values_and_nulls_of_their_rows() -> None:
    mapped, streamed = variant((MAP_VALUE, {"n": (INT_VALUE, 1)})), variant((LIST_VALUE, [(INT_VALUE, 1)]))
    texts = [None if n % 3 else f"t{n}" for n in range(40)]
    octets = [b"b%d" % n if n % 3 == 1 else None for n in range(40)]
    bodies = [(mapped if n % 2 else streamed) if n % 3 == 2 and n % 4 else None for n in range(40)]
    batch = pa.record_batch(
        {
            "text": pa.array(texts, pa.large_string()),
            "bytes": pa.array(octets, pa.binary()),
            "body": pa.array(bodies, VARIANT),
            "JMSType": pa.array([str(n) if n % 5 else None for n in range(40)]),
        }
    )
    whole = [(body_of(row), row.message_type) for row in rows_of(batch)]
    assert [body for body, _ in whole[:6]] == ["t0", b"b1", [Int(1)], "t3", b"b4", {"n": Int(1)}]
    assert whole[8] == (None, "8")
    for start in range(17):
        for count in (0, 1, 7, 9, 23):
            found = [(body_of(row), row.message_type) for row in rows_of(batch.slice(start, count))]
            assert found == whole[start : start + count]


WITHOUT_PANDAS = """
import sys
import pyarrow as pa
from spanwire.pipeline.options import write_options
from spanwire.pipeline.arrow.rows import RowReader
with pa.ipc.open_stream(sys.stdin.buffer) as batches:
    reader = RowReader(write_options({"destination": "OUT"}), "ids")
    print(*(row.body.octets.decode() for batch in batches for row in reader.rows(batch)))
print({"pandas", "pyarrow.compute"} & set(sys.modules) or "none")
"""


def test_sending_a_message_that_was_read_loads_no_pandas() -> None:
    decoder = ColumnDecoder(frozenset(BODY_KINDS))
    for number in range(3):
        decoder.add(raw(number, str(number), {"n": (INT_VALUE, number)}).raw, raw(number).version, 0)
    batch = record_batch(decoder.take_columns())
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    octets = out.getvalue().to_pybytes()
    answer = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], input=octets, capture_output=True, check=True)
    assert answer.stdout.decode().split() == ["0", "1", "2", "none"]


def test_bodies_come_from_the_column_that_is_not_null() -> None:
    mapped = variant((MAP_VALUE, {"n": (INT_VALUE, 1)}))
    streamed = variant((LIST_VALUE, [(INT_VALUE, 1), (STRING_VALUE, "x")]))
    batch = pa.record_batch(
        {
            "text": pa.array(["t", None, None, None, None]),
            "bytes": pa.array([None, b"b", None, None, None], pa.binary()),
            "body": pa.array([None, None, mapped, streamed, None], VARIANT),
        }
    )
    assert [body_of(row) for row in rows_of(batch)] == ["t", b"b", {"n": Int(1)}, [Int(1), "x"], None]


def test_a_row_that_was_read_is_sent_as_it_was() -> None:
    decoder = ColumnDecoder(frozenset(BODY_KINDS))
    properties: dict[str, PropertyValue] = {"n": (BYTE_VALUE, 1), "s": (STRING_VALUE, "x")}
    for number, body in enumerate(["text", b"bytes", {"k": (INT_VALUE, 1)}, [(INT_VALUE, 1)], [], None]):
        decoder.add(raw(number, body, properties).raw, raw(number).version, 0)
    rows = rows_of(record_batch(decoder.take_columns()))
    assert [body_of(row) for row in rows] == ["text", b"bytes", {"k": Int(1)}, [Int(1)], [], None]
    assert all(properties_of(row) == properties for row in rows)
    assert {str(row.destination) for row in rows} == {"queue://OUT"}


BODIES: dict[str, object] = {
    "text": "caf\u00e9 \0 \u20ac",
    "empty text": "",
    "bytes": b"\x00\xff",
    "empty bytes": b"",
    "map": {
        "none": (NULL_VALUE, None),
        "flag": (BOOLEAN_VALUE, True),
        "byte": (BYTE_VALUE, -1),
        "short": (SHORT_VALUE, 2),
        "int": (INT_VALUE, 3),
        "long": (LONG_VALUE, 4),
        "float": (FLOAT_VALUE, 0.5),
        "double": (DOUBLE_VALUE, 0.25),
        "octets": (BYTES_VALUE, b"\x01"),
        "map": (MAP_VALUE, {"list": (LIST_VALUE, [(INT_VALUE, 1), (STRING_VALUE, "x")])}),
    },
    "stream": [(BYTE_VALUE, 1), (STRING_VALUE, "x"), (BYTES_VALUE, b"\x02")],
    "empty stream": [],
    "object": Serialized(b"\xac\xed\x00\x05p"),
    "object without content": Serialized(b""),
    "message": None,
}


def messages_of_all_kinds() -> list[wire.Message]:
    """Each body as it is, and compressed where it has content; a text and a map without content."""
    found = [structure(0, body) for body in BODIES.values()]
    for body in BODIES.values():
        message = structure(0, body)
        if message.content:
            message.content = deflated(KINDS[message.type_id()], message.content)
            message.compressed = True
            found.append(message)
    for body in ("", {}):
        message = structure(0, body)
        message.content = None
        found.append(message)
    return found


@pytest.mark.parametrize("kind", [None, "order"])
def test_a_row_that_was_read_is_sent_with_its_kind_and_body(kind: str | None) -> None:
    decoder = ColumnDecoder(frozenset(BODY_KINDS))
    sent = messages_of_all_kinds()
    for message in sent:
        message.type = kind
        decoder.add(raw_of(message).raw, LATEST_VERSION, 0)
    broker = PlayedBroker()
    broker.lets_in()
    producer = broker.producer(broker.session("transacted"), None)
    rows = rows_of(record_batch(decoder.take_columns()))
    assert producer.post_all(rows, 0, 1 << 20, NOW_MS) == len(rows)
    arrived = [command for command in broker.receives() if isinstance(command, wire.Message)]
    for before, after in zip(sent, arrived, strict=True):
        assert after.type_id() == before.type_id()
        assert (after.content is None) == (before.content is None)
        of_kind = KINDS[before.type_id()]
        old = neutral_body(of_kind, before.content, before.compressed)
        new = neutral_body(of_kind, after.content, after.compressed)
        if of_kind == MAP:  # VARIANTs have their names in order
            assert decode_map(new or b"") == decode_map(old or b"")
        else:
            assert new == old


class FakeSink:
    def __init__(self) -> None:
        self.log: list[str] = []

    def send(self, messages: list[Outgoing]) -> None:
        self.log += [str(body_of(message)) for message in messages]

    def commit(self) -> None:
        self.log.append("commit")

    def close(self) -> None:
        self.log.append("close")


def test_a_partition_is_sent_in_transactions() -> None:
    sink = FakeSink()
    rows = [Outgoing(str(number)) for number in range(3)]
    assert send_all(write_options({"maxRowsPerTransaction": "2"}), lambda: sink, rows) == 3
    assert sink.log == ["0", "1", "commit", "2", "commit", "close"]


@pytest.mark.parametrize("limit", [1, SENT_AT_ONCE - 1, SENT_AT_ONCE, 2 * SENT_AT_ONCE, 2 * SENT_AT_ONCE + 1])
def test_portions_end_where_a_transaction_ends(limit: int) -> None:
    count = 5 * SENT_AT_ONCE
    sizes = [len(portion) for portion in portions((Outgoing(None) for _ in range(count)), limit)]
    assert sum(sizes) == count and max(sizes) <= SENT_AT_ONCE
    ends = set(accumulate(sizes))
    assert all(end in ends for end in range(limit, count, limit))


@pytest.mark.parametrize("kind", [VARIANT, pa.string(), pa.int32(), None])
def test_rows_carry_ids_that_name_them_when_the_options_ask_for_it(kind: pa.DataType | None) -> None:
    values: dict[object, object] = {VARIANT: variant((INT_VALUE, 1)), pa.string(): "x", pa.int32(): 1}
    columns = {"text": pa.array(["a", "b", "c"])}
    if kind is not None:
        entry = values[kind]
        maps = [[("n", entry), ("id", entry)], None, [("n", entry)]]
        columns["properties"] = pa.array(maps, pa.map_(pa.string(), kind))
    batch = pa.record_batch(columns)
    reader = RowReader(write_options({"destination": "OUT", "duplicateIdProperty": "id"}), "q/7/3")
    found = [properties_of(row) for _ in range(2) for row in reader.rows(batch)]
    assert [entries["id"] for entries in found] == [(STRING_VALUE, f"q/7/3/{index}") for index in range(6)]
    assert [sorted(entries) for entries in found[:3]] == [["id", "n"], ["id"], ["id", "n"]] if kind else [["id"]] * 3
    assert rows_of(batch)[1].properties == b""


def test_an_id_may_begin_with_any_text() -> None:
    reader = RowReader(write_options({"destination": "OUT", "duplicateIdProperty": "id"}), "\u20ac" * 3000)
    (row,) = reader.rows(pa.record_batch({"text": ["a"]}))
    assert properties_of(row) == {"id": (STRING_VALUE, "\u20ac" * 3000 + "/0")}


def test_a_partition_without_rows_connects_to_nothing() -> None:
    sinks: list[FakeSink] = []

    def connect() -> FakeSink:
        sinks.append(FakeSink())
        return sinks[-1]

    assert send_all(write_options({}), connect, []) == 0
    assert sinks == []


def test_what_fails_in_the_middle_is_not_committed() -> None:
    sink = FakeSink()
    reader = RowReader(write_options({}))
    batches = [
        pa.record_batch({"JMSDestination": ["A"] * SENT_AT_ONCE, "text": ["a"] * SENT_AT_ONCE}),
        pa.record_batch({"JMSDestination": ["A", "A"], "JMSPriority": [1, 11]}),
    ]
    with pytest.raises(ConfigurationError):
        send_all(write_options({}), lambda: sink, chain.from_iterable(reader.rows(batch) for batch in batches))
    assert sink.log == ["a"] * SENT_AT_ONCE + ["close"]


def test_a_part_of_a_batch_has_its_own_properties_and_a_null_has_none() -> None:
    a, b = variant((INT_VALUE, 1)), variant((STRING_VALUE, "x"))
    maps = [[("a", a)], None, [("a", None), ("b", b)], [], [("c", a), ("d", b)]]
    columns = {
        "text": pa.array(["0", None, "2", "3", "4"]),
        "properties": pa.array(maps, pa.map_(pa.string(), VARIANT)),
    }
    one, text = (INT_VALUE, 1), (STRING_VALUE, "x")
    expected = [{"a": one}, {}, {"a": (NULL_VALUE, None), "b": text}, {}, {"c": one, "d": text}]
    batch = pa.record_batch(columns)
    for start, count in ((0, 5), (1, 3), (2, 3), (4, 1), (3, 0)):
        rows = rows_of(batch.slice(start, count))
        assert [properties_of(row) for row in rows] == expected[start : start + count]
        assert [body_of(row) for row in rows] == ["0", None, "2", "3", "4"][start : start + count]


def test_the_context_of_a_trace_crosses_from_the_source_to_the_sink() -> None:
    context: dict[str, PropertyValue] = {
        "traceparent": (STRING_VALUE, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        "tracestate": (STRING_VALUE, "vendor=1"),
    }
    message = raw(1, "an order", context)
    decoder = ColumnDecoder(frozenset(BODY_KINDS))
    decoder.add(message.raw, message.version, message.redelivery_count)
    (row,) = RowReader(write_options({"destination": "OUT", "duplicateIdProperty": ""})).rows(
        record_batch(decoder.take_columns()).select(["text", "properties"])
    )
    assert properties_of(row) == context
