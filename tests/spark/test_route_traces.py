"""Traces through the routes of `spanwire pipeline run`: a message keeps its context, and a batch has links to it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spanwire.pipeline.routes.route_runner import run_routes
from spanwire.pipeline.routes.route_watching import watching
from spanwire.pipeline.watch.batch_traces import tracing_batches
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders
from tests.support.broker_process import BrokerProcess
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.queues import Sent, send, take

TRACES = ["1" * 32, "2" * 32, "3" * 32]
PARENTS = [f"00-{trace}-00f067aa0ba902b7-01" for trace in TRACES]
UNSAMPLED = f"00-{'4' * 32}-00f067aa0ba902b7-00"
STREAM = '[{to: "shop:queue:TRACED.OUT"}]'
BATCHES = '[{filter: {sql: "true", steps: [{to: "shop:queue:TRACED.OUT"}]}}]'
ROUTE = """
- brokers: {{shop: {{url: "{url}"}}}}
- route:
    id: traced
    from:
      uri: "shop:queue:TRACED"
      steps: {steps}
"""


@pytest.mark.parametrize("steps", [STREAM, BATCHES], ids=["stream", "batches"])
def test_a_message_keeps_its_context_and_its_batch_has_a_link_to_it(
    steps: str, spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = spanwire.openwire_uri()
    messages = [Sent(parent, {"traceparent": parent}) for parent in [*PARENTS, UNSAMPLED, "no context"]]
    send(url, "TRACED", [*messages, Sent("none")])
    file = read_routes(ROUTE.format(url=url, steps=steps).encode(), "traced.yaml", Placeholders({}, {}))
    stop = threading.Event()
    with OtlpReceiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        with tracing_batches({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}, "traced.yaml") as traces:
            with watching(file, stop, traces) as watch_of:
                assert run_routes(
                    spark, file, tmp_path, "available-now", {}, lambda _: None, stop, watch_of, is_traced=True
                )
        spans = collector.awaits(lambda spans: sum(len(span.links) for span in spans) >= len(TRACES))
    assert sorted(link for span in spans for link in span.links) == [(trace, "00f067aa0ba902b7") for trace in TRACES]
    assert {(span.instance, span.name, span.parent_id) for span in spans} == {("traced.yaml", "process traced", "")}
    assert sum(int(str(span.attributes["messaging.batch.message_count"])) for span in spans) == len(messages) + 1
    found = {str(message.body): message.properties.get("traceparent") for message in take(url, "TRACED.OUT", 6)}
    assert found == {str(message.body): message.body for message in messages} | {"none": None}
