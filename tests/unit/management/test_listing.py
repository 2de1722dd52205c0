"""Filter, order and page of lists."""

from __future__ import annotations

import pytest

from spanwire.management.tables.listing import MAX_PATTERN, MAX_SIZE, QueryError, read_listing
from spanwire.management.tables.view_table import QUEUES, SUBSCRIPTIONS
from tests.support.fake_broker_link import destination

ROWS = [destination(f"queue://Q.{number:03}", number % 7, number) for number in range(250)]


def names(query: dict[str, str], rows: list[dict[str, object]] = ROWS) -> list[str]:
    items = read_listing(QUEUES, query.items()).select(rows)["items"]
    assert isinstance(items, list)
    return [str(row["destination"]).removeprefix("queue://") for row in items]


def test_a_list_comes_by_name_a_hundred_at_a_time() -> None:
    shown = read_listing(QUEUES, []).select(list(reversed(ROWS)))
    assert (shown["total"], shown["page"], shown["size"]) == (250, 1, 100)
    assert names({}) == [f"Q.{number:03}" for number in range(100)]
    assert names({"page": "3"}) == [f"Q.{number:03}" for number in range(200, 250)]
    assert names({"page": "4"}) == []
    assert names({"page": "2", "size": "3"}) == ["Q.003", "Q.004", "Q.005"]


def test_a_list_is_sorted_by_any_attribute_and_by_name_among_equals() -> None:
    assert names({"sort": "-enqueued", "size": "2"}) == ["Q.249", "Q.248"]
    assert names({"sort": "pending", "size": "3"}) == ["Q.000", "Q.007", "Q.014"]


def test_rows_without_a_value_come_before_others() -> None:
    rows = [{"client_id": "c", "name": str(number), "away_s": away} for number, away in enumerate((5, None, 3))]
    items = read_listing(SUBSCRIPTIONS, [("sort", "away_s")]).select(rows)["items"]
    assert [row["away_s"] for row in items] == [None, 3, 5]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"destination": "*Q.24?"}, [f"Q.24{number}" for number in range(10)]),
        ({"destination": "queue://Q.007"}, ["Q.007"]),
        ({"destination": "Q*"}, []),
        ({"destination": "*[0-9]"}, []),
        ({"enqueued": ">247"}, ["Q.248", "Q.249"]),
        ({"enqueued": "<2"}, ["Q.000", "Q.001"]),
        ({"enqueued": "17"}, ["Q.017"]),
        ({"paused": "true"}, []),
        ({"enqueued": ">100", "pending": "0", "size": "1"}, ["Q.105"]),
    ],
)
def test_filters_choose_rows(query: dict[str, str], expected: list[str]) -> None:
    assert names(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        {"page": "0"},
        {"page": "-1"},
        {"page": "x"},
        {"page": "1" * 30},
        {"size": str(MAX_SIZE + 1)},
        {"size": "0"},
        {"sort": "nothing"},
        {"sort": ""},
        {"sort": "--pending"},
        {"pendin": "1"},
        {"pending": "many"},
        {"pending": ">"},
        {"pending": "1e5"},
        {"pending": "\u0663"},
        {"paused": "1"},
        {"destination": "x" * (MAX_PATTERN + 1)},
        {"destination": "*a*a*a*a*a*a"},
        {"__class__": "x"},
    ],
)
def test_a_query_without_meaning_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(QueryError):
        read_listing(QUEUES, query.items())


def test_an_unknown_attribute_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(QueryError, match=r"'pendin'.*pending"):
        read_listing(QUEUES, [("pendin", "1")])
