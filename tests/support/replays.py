"""Replays of an archive on the session of the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from spanwire.pipeline.archive.commands import exact_options
from spanwire.pipeline.archive.replay import Replay
from spanwire.pipeline.archive.replay_portions import SparkPortions, open_note
from spanwire.pipeline.archive.selection import Selection
from spanwire.pipeline.sink.exactly_once import batch_sink

RATE = 24  # messages per second, so that batches have six


def replayed(
    spark: SparkSession,
    choice: Selection,
    url: str,
    state: Path,
    wait: Callable[[float], bool] = lambda seconds: False,
) -> int:
    """Replay what was not replayed before, as a process of its own does; the number of messages."""
    options = exact_options({"url": url})
    note = open_note(spark, choice, "", state)
    sink = batch_sink(options)
    try:
        replay = Replay(note, SparkPortions(spark, state, options), sink, RATE)
        return replay.run(lambda: 0.0, wait, lambda progress: None)
    finally:
        sink.close()
