from __future__ import annotations

import pytest

from spanwire.pipeline.watch.progress import Lag, batch_of, duration_ms_of, has_worked, lag_of, rows_of, speed_of

UNKNOWN = Lag(None, None)


@pytest.mark.parametrize(
    ("progress", "lag"),
    [
        ({}, UNKNOWN),
        ({"sources": []}, UNKNOWN),
        ({"sources": {}}, UNKNOWN),
        ({"sources": [{}]}, UNKNOWN),
        ({"sources": [{"latestOffset": "7"}]}, UNKNOWN),
        ({"sources": [{"latestOffset": "no JSON"}]}, UNKNOWN),
        ({"sources": [{"latestOffset": '{"waiting": true}'}]}, UNKNOWN),
        ({"sources": [{"latestOffset": '{"behindMs": 40}'}]}, Lag(None, 40)),
        ({"sources": [{"latestOffset": '{"waiting": 0}'}]}, Lag(0, None)),
        ({"sources": [{"latestOffset": {"waiting": 3}}, {"latestOffset": '{"waiting": 4, "behindMs": 9}'}]}, Lag(7, 9)),
    ],
)
def test_the_lag_is_read_from_the_offsets_of_sources(progress: dict[str, object], lag: Lag) -> None:
    assert lag_of(progress) == lag


def test_the_lag_of_several_sources_has_the_unit_of_their_kind() -> None:
    progress: dict[str, object] = {"sources": [{"latestOffset": '{"sources": {"a": 1}, "lag": {"a": 3, "b": 40}}'}]}
    assert lag_of(progress, has_cursor=True) == Lag(43, None)
    assert lag_of(progress) == Lag(None, 40)


def test_numbers_of_a_batch_are_read_and_nonsense_is_nothing() -> None:
    progress: dict[str, object] = {
        "batchId": 4, "numInputRows": 10, "processedRowsPerSecond": 2.5,
        "durationMs": {"addBatch": 3, "triggerExecution": 8},
    }  # fmt: skip
    assert (batch_of(progress), rows_of(progress), speed_of(progress), duration_ms_of(progress)) == (4, 10, 2.5, 8)
    assert has_worked(progress) and not has_worked({"durationMs": {"triggerExecution": 8}})
    nonsense: dict[str, object] = {"batchId": None, "numInputRows": "x", "processedRowsPerSecond": "y", "durationMs": 1}
    assert (batch_of(nonsense), rows_of(nonsense), speed_of(nonsense), duration_ms_of(nonsense)) == (-1, 0, 0.0, 0)
