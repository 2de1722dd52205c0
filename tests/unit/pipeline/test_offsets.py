from __future__ import annotations

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.source.offsets import offset, segment_of, segments_between


def test_a_batch_is_the_one_segment_that_its_end_names() -> None:
    assert segments_between(offset(3), offset(4)) == [4]
    assert segments_between(offset(4), offset(4)) == []


def test_numbers_without_a_segment_are_passed_over() -> None:
    assert segments_between(offset(3), offset(8)) == [8]


@pytest.mark.parametrize("found", [{}, {"segment": "4"}, {"segment": -1}, {"topic": 4}])
def test_an_offset_of_another_source_is_refused(found: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="choose another checkpointLocation"):
        segment_of(found)
