from __future__ import annotations

import pyarrow as pa
import pytest

from spanwire.client.values import Byte, Double, Int, Long
from spanwire.model.errors import ConfigurationError
from spanwire.model.message_view import BYTE_VALUE, INT_VALUE, LIST_VALUE, MAP_VALUE, STRING_VALUE, PropertyValue
from spanwire.pipeline.body_types import BODY_KINDS
from spanwire.pipeline.columns import record_batch
from spanwire.pipeline.gathering import MessageGatherer
from spanwire.pipeline.options import write_options
from spanwire.pipeline.rows import OutgoingRow, RowReader, check_columns
from spanwire.pipeline.schema import TIMESTAMP, VARIANT
from spanwire.pipeline.sending import send_all
from spanwire.pipeline.variant import encode_variant
from tests.support.pipeline_messages import raw

NOW_MS = 1_700_000_000_000


def variant(entry: PropertyValue) -> dict[str, bytes]:
    value, metadata = encode_variant(entry)
    return {"value": value, "metadata": metadata}


def rows_of(batch: pa.RecordBatch, **options: str) -> list[OutgoingRow]:
    given = {"destination": "OUT", **options}
    return list(RowReader(write_options(given), lambda: NOW_MS).rows(batch))


def one_row(columns: dict[str, pa.Array]) -> OutgoingRow:
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
        ([("txt", "string")], "a message has no column 'txt'; the closest is 'text'"),
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
    rows = list(RowReader(write_options({}), lambda: NOW_MS).rows(batch))
    assert [str(row.destination) for row in rows] == ["queue://A", "queue://B", "queue://A"]
    topics = pa.record_batch({"JMSDestination": ["topic://T"], "text": ["1"]})
    assert [str(row.destination) for row in RowReader(write_options({}), lambda: NOW_MS).rows(topics)] == ["topic://T"]
    patterns = pa.record_batch({"JMSDestination": ["queue://A.>"], "text": ["1"]})
    with pytest.raises(ConfigurationError, match="names more than one destination"):
        list(RowReader(write_options({}), lambda: NOW_MS).rows(patterns))


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
    assert (row.body, row.correlation_id, row.message_type, row.reply_to) == ("hello", "c", "t", "queue://R")
    assert (row.group_id, row.group_sequence, row.priority, row.persistent) == ("g", 2, 7, False)
    assert row.time_to_live_ms == 5000


def test_what_has_expired_on_the_way_is_left_to_the_broker() -> None:
    past = pa.array([(NOW_MS - 1) * 1000], pa.int64()).cast(TIMESTAMP)
    assert one_row({"text": pa.array(["x"]), "JMSExpiration": past}).time_to_live_ms == 1


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"JMSPriority": pa.array([10])}, "JMSPriority is 10; it must lie between 0 and 9"),
        ({"JMSDeliveryMode": pa.array(["fast"])}, "JMSDeliveryMode is 'fast'"),
        ({"text": pa.array(["a"]), "bytes": pa.array([b"b"])}, "a row has text and bytes"),
        ({"body_type": pa.array(["object"]), "bytes": pa.array([b"b"])}, "a body of type object cannot be sent"),
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
    assert row.properties == {"a": Byte(1), "b": "x", "c": None}


@pytest.mark.parametrize(
    ("kind", "value", "sent"),
    [
        (pa.string(), "x", "x"),
        (pa.bool_(), True, True),
        (pa.int32(), 1, Int(1)),
        (pa.int64(), 1, Long(1)),
        (pa.float64(), 1.5, Double(1.5)),
    ],
)
def test_properties_of_one_type_have_that_type(kind: pa.DataType, value: object, sent: object) -> None:
    assert one_row({"properties": pa.array([[("n", value)]], pa.map_(pa.string(), kind))}).properties == {"n": sent}


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
    assert [row.body for row in rows_of(batch)] == ["t", b"b", {"n": Int(1)}, [Int(1), "x"], None]


def test_a_row_that_was_read_is_sent_as_it_was() -> None:
    gatherer = MessageGatherer(frozenset(BODY_KINDS))
    properties: dict[str, PropertyValue] = {"n": (BYTE_VALUE, 1), "s": (STRING_VALUE, "x")}
    for number, body in enumerate(["text", b"bytes", {"k": (INT_VALUE, 1)}, [(INT_VALUE, 1)], [], None]):
        gatherer.add(raw(number, body, properties).raw, raw(number).version, 0, [])
    rows = rows_of(record_batch(gatherer.take()))
    assert [row.body for row in rows] == ["text", b"bytes", {"k": Int(1)}, [Int(1)], [], None]
    assert all(row.properties == {"n": Byte(1), "s": "x"} for row in rows)
    assert {str(row.destination) for row in rows} == {"queue://OUT"}


class FakeSink:
    def __init__(self) -> None:
        self.log: list[str] = []

    def send(self, row: OutgoingRow) -> None:
        self.log.append(str(row.properties.get("_AMQ_DUPL_ID", row.body)))

    def commit(self) -> None:
        self.log.append("commit")

    def close(self) -> None:
        self.log.append("close")


def test_a_partition_is_sent_in_transactions_with_ids_that_name_its_rows() -> None:
    sink = FakeSink()
    rows = [OutgoingRow(body=str(number)) for number in range(3)]
    assert send_all(write_options({"maxRowsPerTransaction": "2"}), lambda: sink, "q/0/1", rows) == 3
    assert sink.log == ["q/0/1/0", "q/0/1/1", "commit", "q/0/1/2", "commit", "close"]


def test_a_partition_without_rows_connects_to_nothing() -> None:
    sinks: list[FakeSink] = []

    def connect() -> FakeSink:
        sinks.append(FakeSink())
        return sinks[-1]

    assert send_all(write_options({}), connect, "q", []) == 0
    assert sinks == []


def test_what_fails_in_the_middle_is_not_committed() -> None:
    sink = FakeSink()

    batch = pa.record_batch({"JMSDestination": ["A", "A"], "JMSPriority": [1, 11]})
    outgoing = RowReader(write_options({}), lambda: 0).rows(batch)
    with pytest.raises(ConfigurationError):
        send_all(write_options({}), lambda: sink, "q", outgoing)
    assert sink.log == ["q/0", "close"]


def test_a_part_of_a_batch_has_its_own_properties_and_a_null_has_none() -> None:
    a, b = variant((INT_VALUE, 1)), variant((STRING_VALUE, "x"))
    maps = [[("a", a)], None, [("a", None), ("b", b)], [], [("c", a), ("d", b)]]
    columns = {
        "text": pa.array(["0", None, "2", "3", "4"]),
        "properties": pa.array(maps, pa.map_(pa.string(), VARIANT)),
    }
    expected: list[dict[str, object]] = [{"a": Int(1)}, {}, {"a": None, "b": "x"}, {}, {"c": Int(1), "d": "x"}]
    batch = pa.record_batch(columns)
    for start, count in ((0, 5), (1, 3), (2, 3), (4, 1), (3, 0)):
        rows = rows_of(batch.slice(start, count))
        assert [row.properties for row in rows] == expected[start : start + count]
        assert [row.body for row in rows] == ["0", None, "2", "3", "4"][start : start + count]
