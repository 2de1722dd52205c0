"""A route goes on from a checkpoint of every released format."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spanwire.pipeline.routes.batch_rows import BatchRows, kept_columns
from spanwire.pipeline.routes.delivery import step_key
from spanwire.pipeline.routes.query import AVAILABLE_NOW
from spanwire.pipeline.routes.route_runner import run_routes
from spanwire.pipeline.storage.state_format import FORMAT
from tests.support.broker_process import BrokerProcess
from tests.support.queues import send, take_all
from tests.unit.pipeline.test_state_format import CHECKPOINTS, restored, several
from tests.vectors.checkpoints.make import kept_messages, kept_route, several_route


@pytest.mark.long
@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_a_route_delivers_the_batch_in_which_it_was_cut_off_and_goes_on(
    number: int, spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    send(url, "KEPT", kept_messages(10))
    stop = threading.Event()
    assert run_routes(spark, kept_route(url), restored(number, tmp_path), AVAILABLE_NOW, {}, lambda _: None, stop)
    found = {str(message.body): message.properties["_AMQ_DUPL_ID"] for message in take_all(url, "KEPT.OUT")}
    ids = json.loads((CHECKPOINTS / f"format-{number}.json").read_text("utf-8"))
    assert sorted(found) == sorted(f"kept {n}" for n in range(5, 15))
    assert {body: found[body] for body in ids if body in found} == {f"kept {n}": ids[f"kept {n}"] for n in range(5, 10)}


@pytest.mark.long
@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_the_kept_rows_of_a_batch_stand_for_those_that_its_steps_would_give_now(
    number: int, spark: SparkSession, tmp_path: Path
) -> None:
    state, query, rows = several(number, tmp_path)
    (route,) = several_route("tcp://127.0.0.1:9", "/files").routes
    other = spark.createDataFrame([], kept_columns(rows))
    kept = BatchRows(spark, state.batches, query, 1)
    kept.sweep()
    found = (
        kept.keep(other, [step_key(0, route.steps[0])])
        .selectExpr("text", "properties['dice']::double AS dice")
        .collect()
    )
    dice = json.loads((CHECKPOINTS / f"format-{number}-several.json").read_text("utf-8"))
    assert {row["text"]: row["dice"] for row in found} == dice
