from __future__ import annotations

import json

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.source.offsets import (
    changed,
    cursor_offset,
    numbers_of,
    offset,
    segment_of,
    segments_between,
    sources_offset,
)


def test_a_batch_is_the_one_segment_that_its_end_names() -> None:
    assert segments_between(offset(3), offset(4)) == [4]
    assert segments_between(offset(4), offset(4)) == []


def test_numbers_without_a_segment_are_passed_over() -> None:
    assert segments_between(offset(3), offset(8)) == [8]


@pytest.mark.parametrize("found", [{}, {"segment": "4"}, {"segment": -1}, {"topic": 4}])
def test_an_offset_of_another_source_is_refused(found: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="choose another checkpointLocation"):
        segment_of(found)


def test_the_offset_of_several_sources_is_the_same_text_for_the_same_numbers() -> None:
    assert json.dumps(sources_offset({"b": 2, "a": 1})) == '{"sources": {"a": 1, "b": 2}}'
    assert numbers_of(sources_offset({"b": 2, "a": 1})) == {"a": 1, "b": 2}


def test_a_source_that_only_the_end_names_begins_there() -> None:
    assert changed({"a": 1, "c": 3}, {"a": 4, "b": 7, "c": 3}) == {"a": (1, 4)}


@pytest.mark.parametrize("found", [offset(4), cursor_offset("c", 4), {"sources": {"a": "1"}}, {}])
def test_an_offset_of_one_source_is_none_of_several(found: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="a query without the option brokers; choose another checkpoint"):
        numbers_of(found)
