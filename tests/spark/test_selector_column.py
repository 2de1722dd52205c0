"""Selectors as columns decide as the broker's evaluator does, whatever the selector and the message."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import VariantVal

from spanwire.model.errors import ConfigurationError, InvalidSelectorError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    NULL_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
    PropertyValue,
)
from spanwire.pipeline.columns.variant import encode_variant
from spanwire.pipeline.selector_column import NotNativeError, native, selector_column
from spanwire.pipeline.selectors.selector_evaluation import RowValues, decide
from spanwire.selector.parser import CONVERT_STRING_EXPRESSIONS, parse_selector

SCHEMA = (
    "number INT, JMSPriority TINYINT, JMSTimestamp TIMESTAMP, JMSRedelivered BOOLEAN, JMSType STRING, "
    "JMSDeliveryMode STRING, JMSXGroupSeq INT, properties MAP<STRING, VARIANT>"
)
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT_MS = int(MOMENT.timestamp()) * 1000
MESSAGES = 60
SELECTORS = 40

NAMES = ["a", "b", "missing", "JMSPriority", "JMSTimestamp", "JMSRedelivered", "JMSType", "JMSXGroupSeq"]
TEXT = st.text(alphabet="ab%_!\\'é\U0001f600\n", max_size=3)
QUOTED = st.builds(lambda text: "'" + text.replace("'", "''") + "'", TEXT)
INTEGERS = [0, 1, -1, 7, 127, 2**24 + 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), MOMENT_MS]
NUMBER = st.sampled_from(
    [*map(str, INTEGERS), "9223372036854775808", "0.0", "-0.0", "1.5", "0.1", "1e999", "16777216.0"]
)
NAME = st.sampled_from(NAMES)
VALUE = NAME | NUMBER | st.builds("({} {} {})".format, NAME, st.sampled_from("+-*/%"), NUMBER)
SYMBOLS = st.sampled_from(["<", "<=", ">", ">="])
NEGATION = st.sampled_from(["", "NOT "])
ESCAPE = st.sampled_from(["", " ESCAPE '!'", " ESCAPE '\\'", " ESCAPE '%'"])
LEAVES = st.one_of(
    st.builds("{} = {}".format, NAME, NUMBER | QUOTED | st.sampled_from(["TRUE", "FALSE"])),
    st.builds("{} <> {}".format, NUMBER | QUOTED, NAME),
    st.builds("{} {} {}".format, NAME, SYMBOLS, NUMBER),
    st.builds("{} {} {}".format, NUMBER, SYMBOLS, NAME),
    st.builds("{} {} {}".format, VALUE, SYMBOLS, VALUE),
    st.builds("{} {}BETWEEN {} AND {}".format, NAME, NEGATION, NUMBER, NUMBER),
    st.builds("{} {}IN ({}, {})".format, NAME, NEGATION, QUOTED, QUOTED),
    st.builds("{} {}LIKE {}{}".format, NAME, NEGATION, QUOTED, ESCAPE),
    st.builds("{} IS {}NULL".format, NAME, NEGATION),
    st.builds("REGEX('^a', {})".format, NAME),
    st.sampled_from(["a", "b", "TRUE", "NULL", "'x' = 'x'", "1 < 1.5"]),
)
CONDITION = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT ({}))".format, inner),
    ),
    max_leaves=5,
)
SELECTOR = st.builds("{}{}".format, st.sampled_from(["", "", "", CONVERT_STRING_EXPRESSIONS]), CONDITION)


def narrow(value: float) -> float:
    (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    assert isinstance(rounded, float)
    return rounded


PROPERTY: st.SearchStrategy[PropertyValue] = st.one_of(
    TEXT.map(lambda text: (STRING_VALUE, text)),
    st.sampled_from(["1", "true", "1.5"]).map(lambda text: (STRING_VALUE, text)),
    st.booleans().map(lambda value: (BOOLEAN_VALUE, value)),
    st.sampled_from([0, 1, -1, 127]).map(lambda value: (BYTE_VALUE, value)),
    st.sampled_from([0, 1, -1, 127]).map(lambda value: (SHORT_VALUE, value)),
    st.sampled_from([0, 1, 7, 2**24 + 1, 2**31 - 1]).map(lambda value: (INT_VALUE, value)),
    st.sampled_from([n for n in INTEGERS if n < 2**63]).map(lambda value: (LONG_VALUE, value)),
    st.sampled_from([0.0, -0.0, 0.1, 1.5, 16777216.0, float("nan"), float("inf"), 2.0**63]).map(
        lambda value: (DOUBLE_VALUE, value)
    ),
    st.sampled_from([0.0, -0.0, 0.1, 1.5, 16777216.0, float("nan")]).map(lambda value: (FLOAT_VALUE, narrow(value))),
    st.sampled_from([(NULL_VALUE, None), (BYTES_VALUE, b"x"), (LIST_VALUE, [(INT_VALUE, 1)])]),
)
HEADERS = st.fixed_dictionaries(
    {
        "JMSPriority": st.integers(0, 9),
        "JMSTimestamp": st.sampled_from([0, MOMENT_MS, MOMENT_MS + 1]),
        "JMSRedelivered": st.booleans(),
        "JMSType": st.none() | TEXT,
        "JMSDeliveryMode": st.sampled_from(["PERSISTENT", "NON_PERSISTENT"]),
        "JMSXGroupSeq": st.integers(0, 2),
    }
)
PROPERTIES = st.dictionaries(st.sampled_from(["a", "b", "JMSType"]), PROPERTY)
Case = tuple[dict[str, object], dict[str, PropertyValue]]


def is_accepted(text: str) -> bool:
    try:
        parse_selector(text)
    except InvalidSelectorError:
        return False
    return True


def frame_of(spark: SparkSession, cases: list[Case]) -> DataFrame:
    rows = []
    for number, (headers, properties) in enumerate(cases):
        values = {name: VariantVal(*encode_variant(entry)) for name, entry in properties.items()}
        sent = headers["JMSTimestamp"]
        assert isinstance(sent, int)
        moment = MOMENT + timedelta(milliseconds=sent - MOMENT_MS) if sent else None
        row = {**headers, "JMSTimestamp": moment, "JMSXGroupSeq": headers["JMSXGroupSeq"] or None}
        rows.append((number, *[row[name] for name in SCHEMA_HEADERS], values))
    return spark.createDataFrame(rows, SCHEMA)


SCHEMA_HEADERS = ("JMSPriority", "JMSTimestamp", "JMSRedelivered", "JMSType", "JMSDeliveryMode", "JMSXGroupSeq")


@settings(max_examples=1, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    st.lists(SELECTOR.filter(is_accepted), min_size=SELECTORS, max_size=SELECTORS),
    st.lists(st.tuples(HEADERS, PROPERTIES), min_size=MESSAGES, max_size=MESSAGES),
)
def test_a_column_decides_as_the_broker_does(spark: SparkSession, texts: list[str], cases: list[Case]) -> None:
    columns = [selector_column(text).alias(f"s{number}") for number, text in enumerate(texts)]
    found = frame_of(spark, cases).select("number", *columns).collect()
    values = RowValues()
    for row in found:
        headers, properties = cases[row["number"]]
        values.bind(headers, properties)
        for number, text in enumerate(texts):
            wanted = decide(parse_selector(text), values)
            assert row[f"s{number}"] is wanted, f"{text} of {headers} {properties}"


def test_comparisons_with_literals_need_no_worker(spark: SparkSession) -> None:
    text = "region = 'us' AND price BETWEEN 10 AND 20 OR NOT (JMSPriority > 4) AND name NOT LIKE 'A!_%' ESCAPE '!'"
    native(parse_selector(text).root)
    with pytest.raises(NotNativeError):
        native(parse_selector("a + 1 = 2").root)
    plan = (
        spark.range(1).selectExpr("map('region', 'us'::variant) AS properties").where(selector_column("region = 'us'"))
    )
    assert "Python" not in plan._jdf.queryExecution().toString()
    assert plan.count() == 1


def test_a_header_that_rows_do_not_have_is_refused_by_name(spark: SparkSession) -> None:
    for name in ("JMSXUserID", "JMSActiveMQBrokerPath"):
        with pytest.raises(ConfigurationError, match=f"a row has no {name}"):
            selector_column(f"{name} = 'x'")
    with pytest.raises(ConfigurationError, match="expected a value"):
        selector_column("a = ")
