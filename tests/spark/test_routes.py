"""Routes of files on Spark, from both brokers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spanwire.client import blocking
from spanwire.client.messages.message import Message
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.functions import load_functions
from spanwire.pipeline.routes.query import AVAILABLE_NOW
from spanwire.pipeline.routes.route_runner import run_routes
from spanwire.pipeline.routes.supervisor import RouteEvent
from spanwire.routes.readers.parsing import RouteFile, read_routes
from spanwire.routes.readers.placeholders import Placeholders
from tests.support.broker_process import BrokerProcess
from tests.support.queues import TIMEOUT_S, Sent, numbered, send, take, take_all

SAMPLES = Path(__file__).resolve().parents[1] / "vectors/configurations"
END_S = 240.0


def routes(text: str, **definitions: str) -> RouteFile:
    return read_routes(text.encode(), "routes.yaml", Placeholders(definitions, {}))


def run(
    spark: SparkSession,
    file: RouteFile,
    state: Path,
    functions: Path | None = None,
    trigger: str = AVAILABLE_NOW,
    stop: threading.Event | None = None,
) -> list[RouteEvent]:
    """Until the routes have ended; what they told. A machine under load may make Spark start one of them twice."""
    news: list[RouteEvent] = []
    is_fine = run_routes(
        spark, file, state, trigger, load_functions(file.functions(), functions), news.append, stop or threading.Event()
    )
    assert is_fine, news
    return news


def by_number(messages: list[Message]) -> dict[int, Message]:
    return {int(str(message.properties["n"])): message for message in messages}


BRANCHES = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: orders
    deadLetter: shop:queue:BRANCHED.DEAD
    from:
      uri: "shop:queue:BRANCHED"
      steps:
        - filter: {selector: "n < 30 AND NOT (n = 7)"}
        - setHeader: {name: JMSType, constant: order}
        - setHeader: {name: twice, sql: "properties['n']::int * 2"}
        - removeHeader: {name: noise}
        - transform: {function: words.loud}
        - choice:
            when:
              - selector: "n < 10"
                steps: [{to: "shop:queue:BRANCHED.SMALL"}]
              - sql: "properties['n']::int < 20"
                steps:
                  - setBody: {sql: "concat(text, '!')"}
                  - to: "shop:queue:BRANCHED.MIDDLE"
            otherwise:
              steps: [{to: "{{files}}"}]
        - wireTap: "shop:queue:BRANCHED.ALL"
"""
WORDS = """
def loud(text, properties):
    if properties["n"] == 3:
        raise ValueError("three is too quiet")
    return text.upper()
"""


@pytest.mark.long
def test_rows_take_their_branches_and_those_that_fail_become_dead_letters(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    (tmp_path / "words.py").write_text(WORDS)
    file = routes(BRANCHES, url=url, files=f"parquet:{tmp_path}/large")
    with pytest.raises(
        ConfigurationError,
        match=r"routes\.yaml:13: words\.loud is a Python function; name its directory with --functions",
    ):
        run(spark, file, tmp_path / "state")
    send(url, "BRANCHED", [Sent(f"text {n}", {"n": n, "noise": "x"}) for n in range(40)])
    news = run(spark, file, tmp_path / "state", tmp_path)
    assert sum(one.rows for one in news) == 40
    small, middle = by_number(take_all(url, "BRANCHED.SMALL")), by_number(take_all(url, "BRANCHED.MIDDLE"))
    assert sorted(small) == [0, 1, 2, 4, 5, 6, 8, 9]
    assert sorted(middle) == list(range(10, 20))
    assert (small[4].body, middle[14].body, middle[14].message_type) == ("TEXT 4", "TEXT 14!", "order")
    assert middle[14].properties["twice"] == 28 and "noise" not in middle[14].properties
    large = spark.read.parquet(str(tmp_path / "large")).selectExpr("properties['n']::int", "text").collect()
    assert sorted(map(tuple, large)) == [(n, f"TEXT {n}") for n in range(20, 30)]
    assert sorted(by_number(take_all(url, "BRANCHED.ALL"))) == [n for n in range(30) if n not in (3, 7)]
    (dead,) = take_all(url, "BRANCHED.DEAD")
    assert (dead.body, dead.message_type) == ("text 3", "order")
    assert "words.loud: ValueError: three is too quiet" in str(dead.properties["dlqDeliveryFailureCause"])


KEPT = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: kept
    from:
      uri: "shop:queue:KEPT"
      steps:
        - split: {sql: "split(text, ' ')"}
        - deduplicate: {key: "text", watermark: "10 minutes"}
        - join:
            table: "csv:{{table}}?header=true"
            "on": "message.text = table.word"
            columns: {meaning: "table.meaning"}
        - transform: {select: {text: "to_json(struct(text AS word, meaning))"}}
        - to: "{{files}}"
"""


@pytest.mark.long
def test_a_plain_route_splits_joins_and_drops_doubles_over_restarts(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    (tmp_path / "words.csv").write_text("word,meaning\na,one\nb,two\n")
    file = routes(KEPT, url=url, table=str(tmp_path / "words.csv"), files=f"text:{tmp_path}/found")
    for text in ("a c a", "b a"):
        send(url, "KEPT", [Sent(text)])
        run(spark, file, tmp_path / "state")
    found = [json.loads(row["value"]) for row in spark.read.text(str(tmp_path / "found")).collect()]
    assert sorted((row["word"], row["meaning"]) for row in found) == [("a", "one"), ("b", "two")]


COUNTED = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: counted
    from:
      uri: "shop:queue:COUNTED"
      steps:
        - deduplicate: {key: "text", watermark: "1 second"}
        - aggregate: {window: "1 second", watermark: "1 second", columns: {n: "count(*)"}}
        - transform: {select: {text: "n::string"}}
        - to: "{{files}}"
"""


@pytest.mark.long
def test_a_route_drops_doubles_and_then_counts_under_one_watermark(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    file = routes(COUNTED, url=url, files=f"text:{tmp_path}/found")
    for texts in ([*"aaaaaab"], ["c"], ["d"]):  # each run begins seconds after the one before
        send(url, "COUNTED", [Sent(text) for text in texts])
        run(spark, file, tmp_path / "state")
    found = [int(row["value"]) for row in spark.read.text(str(tmp_path / "found")).collect()]
    assert 2 <= sum(found) <= 4  # the last windows wait for later messages


def test_a_route_that_is_told_to_stop_goes_on_where_it_was(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    text = 'from: {uri: "jms:queue:STOPPED?brokerURL={{url}}", steps: [{to: "parquet:{{files}}"}]}'
    file = routes(f"- {text}", url=url, files=str(tmp_path / "parquet"))
    stop = threading.Event()
    news: list[RouteEvent] = []

    ended: list[bool] = []

    def work() -> None:
        ended.append(run_routes(spark, file, tmp_path / "state", "100 milliseconds", {}, news.append, stop))

    send(url, "STOPPED", numbered(100))
    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait_for(lambda: sum(one.rows for one in news) == 100)
    finally:
        stop.set()
        thread.join(END_S)
    assert ended == [True]
    send(url, "STOPPED", numbered(100, 100))
    run(spark, file, tmp_path / "state")
    found = spark.read.parquet(str(tmp_path / "parquet")).selectExpr("properties['n']::int").collect()
    assert sorted(row[0] for row in found) == list(range(200))
    other = routes('- from: {uri: "jms:queue:OTHER", steps: [{to: "json:/x"}]}')
    with pytest.raises(ConfigurationError, match="belongs to the source 'queue://STOPPED', not 'queue://OTHER'"):
        run(spark, other, tmp_path / "state")


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + END_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.smoke
def test_the_four_camel_routes_run_as_they_are(
    spark: SparkSession, spanwire: BrokerProcess, classic: BrokerProcess, tmp_path: Path
) -> None:
    ours, theirs = spanwire.openwire_uri(), classic.openwire_uri()
    sample = SAMPLES / "25-camel-four-routes.xml"
    overrides = {"activemq": ours, "websphere": theirs}
    file = read_routes(sample.read_bytes(), str(sample), Placeholders({}, {}), overrides)
    for url, queue, topic, route in ((ours, "QueueA", "TopicA", "route2"), (theirs, "QueueX", "TopicX", "route4")):
        with (
            blocking.connect(url, client_id=f"spanwire.{route}") as connection,
            connection.session(acknowledge="auto") as session,
        ):
            session.create_durable_subscriber(f"topic://{topic}", route).close()  # as an earlier run leaves it
            session.create_producer(f"topic://{topic}").send("news")
        send(url, queue, numbered(5))
    with (
        blocking.connect(theirs) as their_connection,
        their_connection.session(acknowledge="auto") as their_session,
        blocking.connect(ours) as our_connection,
        our_connection.session(acknowledge="auto") as our_session,
    ):
        listeners = [their_session.create_consumer("topic://TopicA"), our_session.create_consumer("topic://TopicX")]
        run(spark, file, tmp_path / "state")
        bodies = [None if (found := one.receive(timeout=TIMEOUT_S)) is None else found.body for one in listeners]
    assert bodies == ["news", "news"]
    assert sorted(by_number(take(theirs, "QueueA", 5))) == list(range(5))
    assert sorted(by_number(take(ours, "QueueX", 5))) == list(range(5))


ONCE = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: once
    deadLetter: "shop:queue:LATE.DEAD?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
    from:
      uri: "shop:queue:LATE"
      steps:
        - transform: {function: words.loud}
"""
GOOD = """
        - to: "shop:queue:LATE.GOOD?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
"""
NEW = """
        - to: "shop:queue:LATE.NEW?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"
"""


@pytest.mark.long
def test_a_route_that_commits_once_gets_its_first_dead_letter_and_a_new_endpoint_late(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    (tmp_path / "words.py").write_text(WORDS)
    for text, numbers in ((ONCE + GOOD, (1, 2)), (ONCE + GOOD, (3, 4)), (ONCE + NEW + GOOD, (3, 5))):
        send(url, "LATE", [Sent(f"text {n}", {"n": n}) for n in numbers])
        run(spark, routes(text, url=url), tmp_path / "state", tmp_path)
    assert sorted(by_number(take_all(url, "LATE.GOOD"))) == [1, 2, 4, 5]
    assert sorted(by_number(take_all(url, "LATE.NEW"))) == [5]
    assert [dead.body for dead in take_all(url, "LATE.DEAD")] == ["text 3", "text 3"]
