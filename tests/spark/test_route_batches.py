"""A batch of a route that is tried again: all its endpoints get the rows of the first try."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from spanwire.client.messages.message import Message
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.batch_writer import BatchWriter
from spanwire.pipeline.routes.delivery import Delivery
from spanwire.pipeline.routes.functions import load_functions
from spanwire.pipeline.routes.query import AVAILABLE_NOW
from spanwire.pipeline.routes.route_runner import run_routes
from spanwire.pipeline.routes.step_builder import StepBuilder
from spanwire.pipeline.routes.supervisor import RouteEvent
from spanwire.routes.model import Endpoint, Patience
from tests.spark.test_routes import routes, run
from tests.support.broker_process import BrokerProcess
from tests.support.queues import numbered, send, take_all

COUNT = 60
CHANCE = """
import random

def heads(text, properties):
    if random.random() < 0.3:
        raise ValueError("tails")
    return f"{text} {random.random()}"
"""
ROUTE = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: chance
    deadLetter: "shop:queue:CHANCE.DEAD?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
    from:
      uri: "shop:queue:CHANCE"
      steps:
        - transform: {function: chance.heads}
        - wireTap: "shop:queue:CHANCE.ALL?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
        - setHeader: {name: dice, sql: "rand()"}
        - choice:
            when:
              - sql: "rand() < 0.5"
                steps: [{to: "shop:queue:CHANCE.ODD?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"}]
            otherwise:
              steps: [{to: "parquet:{{files}}"}]
        - to: "shop:queue:CHANCE.DICE?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
"""


@pytest.mark.long
def test_endpoints_get_the_same_rows_when_a_batch_is_tried_again_though_its_steps_throw_dice(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url, state = spanwire.openwire_uri(), tmp_path / "state [a]"
    (tmp_path / "chance.py").write_text(CHANCE)
    file = routes(ROUTE, url=url, files=f"{tmp_path}/even")
    functions = load_functions(file.functions(), tmp_path)
    send(url, "CHANCE", numbered(COUNT))
    (tmp_path / "even").write_text("a file where a directory is to be")
    once = replace(file, routes=[replace(file.routes[0], patience=Patience(retries=0))])
    news: list[RouteEvent] = []
    assert not run_routes(spark, once, state, AVAILABLE_NOW, functions, news.append, threading.Event())
    assert len(list((state / "chance" / "batches").glob("*-0000000000/*"))) == 3
    (tmp_path / "even").unlink()
    run(spark, file, state, tmp_path)
    texts = bodies(take_all(url, "CHANCE.ALL"))
    failed = bodies(take_all(url, "CHANCE.DEAD"))
    assert sorted([*[text.rpartition(" ")[0] for text in texts], *failed]) == sorted(f"text {n}" for n in range(COUNT))
    dice = take_all(url, "CHANCE.DICE")
    assert bodies(dice) == texts
    odd = take_all(url, "CHANCE.ODD")
    even = spark.read.parquet(f"{tmp_path}/even").selectExpr("text", "properties['dice']::double AS dice").collect()
    assert sorted([*bodies(odd), *[row["text"] for row in even]]) == texts
    thrown = {one.body: one.properties["dice"] for one in odd} | {row["text"]: row["dice"] for row in even}
    assert thrown == {one.body: one.properties["dice"] for one in dice}
    (before,) = (state / "chance" / "batches").iterdir()
    send(url, "CHANCE", numbered(1))
    run(spark, file, state, tmp_path)
    (left,) = (state / "chance" / "batches").iterdir()
    assert left.name > before.name
    for queue in ("ALL", "DEAD", "DICE", "ODD"):
        take_all(url, f"CHANCE.{queue}")


CHOICE = """
- route:
    from:
      uri: "json:/in"
      steps:
        - to: "json:/all"
        - choice:
            when: [{sql: "rand() < 0.5", steps: [{to: "json:/odd"}]}]
            otherwise: {steps: [{to: "json:/even"}]}
        - to: "json:/last"
"""


class Counting:
    """Counts the rows of an endpoint, and how many frames are held meanwhile."""

    def __init__(self, spark: SparkSession) -> None:
        self.rows: dict[str, int] = {}
        self.held: list[int] = []
        self._context = spark.sparkContext

    def write(self, frame: DataFrame, endpoint: Endpoint, is_rare: bool = False) -> None:
        self.rows[endpoint.uri] = frame.count()
        self.held.append(self.count())

    def count(self) -> int:
        java = self._context._jsc
        assert java is not None
        return int(java.getPersistentRDDs().size())


def test_a_choice_holds_its_rows_only_until_each_has_taken_its_way(spark: SparkSession) -> None:
    (route,) = routes(CHOICE).routes
    writer = Counting(spark)
    before = writer.count()
    delivery = Delivery(StepBuilder(spark, {}), None, cast(BatchWriter, writer))
    delivery.deliver(spark.range(COUNT).toDF("n"), [], route.steps, is_repeatable=False)
    assert [held - before for held in writer.held] == [1, 2, 2, 1]
    assert writer.count() == before
    assert writer.rows["json:/odd"] + writer.rows["json:/even"] == writer.rows["json:/last"] == COUNT


INTERVAL = """
- brokers: {shop: {url: "tcp://127.0.0.1:9"}}
- route:
    id: waits
    from:
      uri: "json:{{files}}"
      steps:
        - transform: {columns: {wait: "make_interval(1)"}}
        - to: "shop:queue:WAITS?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
        - to: "json:{{files}}/out"
"""


def test_a_column_that_cannot_be_kept_is_told_when_the_route_starts(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"text": "a"}')
    file = routes(INTERVAL, files=f"{tmp_path}/in")
    with pytest.raises(ConfigurationError, match=r":9: the column 'wait' holds an INTERVAL"):
        run_routes(spark, file, tmp_path / "state", AVAILABLE_NOW, {}, print, threading.Event())


def bodies(messages: list[Message]) -> list[str]:
    return sorted(str(one.body) for one in messages)
