from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from spanwire.pipeline.selectors.filter_pushdown import MAX_MEMBERS, selector_of, selector_with
from spanwire.selector.parser import parse_selector

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT_MS = int(MOMENT.timestamp()) * 1000


def test_filters_of_headers_become_selectors() -> None:
    cases: dict[str, Filter] = {
        "JMSPriority > 4": GreaterThan(("JMSPriority",), 4),
        "JMSPriority <= 4": LessThanOrEqual(("JMSPriority",), 4),
        "JMSType = 'it''s'": EqualTo(("JMSType",), "it's"),
        "JMSXGroupID IN ('a', 'b')": In(("JMSXGroupID",), ("a", "b")),
        f"JMSTimestamp >= {MOMENT_MS - 1}": GreaterThan(("JMSTimestamp",), MOMENT),
        f"JMSTimestamp BETWEEN {MOMENT_MS - 1} AND {MOMENT_MS + 1}": EqualTo(("JMSTimestamp",), MOMENT),
        "JMSType LIKE 'a\\%%' ESCAPE '\\'": StringStartsWith(("JMSType",), "a%"),
    }
    for text, one in cases.items():
        assert selector_of(one) == text
        parse_selector(text)


def test_what_a_selector_cannot_say_stays_with_spark() -> None:
    for one in (
        EqualTo(("text",), "x"),
        EqualTo(("properties", "a"), 1),
        EqualTo(("JMSTimestamp",), datetime(2026, 1, 1)),
        EqualTo(("JMSPriority",), True),
        In(("JMSType",), tuple("x" * (MAX_MEMBERS + 1))),
        In(("JMSType",), (None, "a")),
        Not(EqualTo(("JMSPriority",), 4)),
        IsNotNull(("JMSType",)),
        StringContains(("JMSType",), "x"),
    ):
        assert selector_of(one) is None


def test_a_selector_of_the_options_counts_as_well() -> None:
    filters: list[Filter] = [EqualTo(("JMSPriority",), 4), IsNotNull(("JMSPriority",))]
    assert selector_with("a = 1 OR b = 2", filters) == "(a = 1 OR b = 2) AND JMSPriority = 4"
    assert selector_with(None, []) is None
