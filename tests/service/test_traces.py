"""Traces over two linked brokers as processes, with a collector that decodes what they send."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from spanwire.client import Property, blocking
from tests.service.started import Started, StompClient
from tests.support.otlp_receiver import OtlpReceiver, ReceivedSpan

TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN: Final = "00f067aa0ba902b7"
PARENT: Final = f"00-{TRACE}-{SPAN}-01"
BODY: Final = "c4n4ry-b0dy"


class Traced(Started):
    """A broker that traces, with a connector to another broker if there is one."""

    def __init__(self, directory: Path, name: str, endpoint: str, peer: Started | None = None, rate: str = "") -> None:
        link = "" if peer is None else _link(peer)
        share = f' samplingRate="{rate}"' if rate else ""
        super().__init__(directory, inside=f'{link}<tracing endpoint="{endpoint}"{share}/>')
        self._name: Final = name

    def text(self) -> str:
        return super().text().replace('"tested"', f'"{self._name}"')


def _link(peer: Started) -> str:
    uri = f"static:(tcp://127.0.0.1:{peer.ports['tcp']})?initialReconnectDelay=100"
    return f'<networkConnectors><networkConnector name="link" uri="{uri}"/></networkConnectors>'


def seen(spans: list[ReceivedSpan]) -> set[tuple[object, str]]:
    return {(span.instance, span.name) for span in spans}


def has(expected: set[tuple[object, str]]) -> Callable[[list[ReceivedSpan]], bool]:
    return lambda spans: expected <= seen(spans)


def test_a_message_is_followed_over_two_brokers_from_one_client_to_the_other(tmp_path: Path) -> None:
    properties: dict[str, Property] = {"traceparent": PARENT, "tracestate": "vendor=1", "n": 1}
    expected: set[tuple[object, str]] = {
        ("near", "send ORDERS"),
        ("near", "store ORDERS"),
        ("near", "dispatch ORDERS"),
        ("near", "forward ORDERS"),
        ("far", "send ORDERS"),
        ("far", "store ORDERS"),
        ("far", "dispatch ORDERS"),
        ("far", "acknowledge ORDERS"),
    }
    with OtlpReceiver() as collector, Traced(tmp_path / "far", "far", collector.endpoint) as far:
        with Traced(tmp_path / "near", "near", collector.endpoint, far) as near:
            with blocking.connect(far.broker_url) as there, there.session("client") as receiving:
                consumer = receiving.create_consumer("queue://ORDERS")
                with blocking.connect(near.broker_url) as here, here.session() as sending:
                    sending.create_producer("queue://ORDERS").send(BODY, properties=properties)
                message = consumer.receive(timeout=30)
                assert message is not None
                message.acknowledge()
            spans = collector.awaits(has(expected))
    assert message.body == BODY
    assert dict(message.properties) == properties
    assert seen(spans) == expected
    assert {span.trace_id for span in spans} == {TRACE}
    assert {span.trace_state for span in spans} == {"vendor=1"}
    by_name = {(span.instance, span.name): span for span in spans}
    for broker in ("near", "far"):
        assert by_name[broker, "send ORDERS"].parent_id == SPAN
        assert by_name[broker, "store ORDERS"].parent_id == by_name[broker, "send ORDERS"].span_id
    assert by_name["near", "forward ORDERS"].parent_id == SPAN
    assert by_name["far", "acknowledge ORDERS"].parent_id == SPAN
    assert len({span.attributes["messaging.message.id"] for span in spans}) == 1
    assert {span.resource["service.name"] for span in spans} == {"spanwire"}
    assert all(span.start_ms <= span.end_ms for span in spans)
    assert not any(BODY.encode() in body for body in collector.bodies)


def test_a_stomp_client_s_headers_carry_the_context(tmp_path: Path) -> None:
    with OtlpReceiver() as collector, Traced(tmp_path, "near", collector.endpoint) as broker:
        with StompClient(broker.ports["stomp"]) as client:
            client.transact(f"SEND\ndestination:/queue/ORDERS\ntraceparent:{PARENT}\nreceipt:1\n\n{BODY}", "1")
            client.send("SUBSCRIBE\ndestination:/queue/ORDERS\nid:1\nack:client-individual\n\n")
            head, _, body = client.receive().partition("\n\n")
            headers = dict(line.split(":", 1) for line in head.splitlines()[1:])
            assert (headers["traceparent"], body) == (PARENT, BODY)
            client.transact(f"ACK\nid:{headers['ack']}\nreceipt:2\n\n", "2")
        spans = collector.awaits(has({("near", "send ORDERS"), ("near", "acknowledge ORDERS")}))
    assert {(span.trace_id, span.parent_id) for span in spans if span.name == "acknowledge ORDERS"} == {(TRACE, SPAN)}


def test_a_broker_begins_traces_for_messages_without_one(tmp_path: Path) -> None:
    with OtlpReceiver() as collector, Traced(tmp_path, "near", collector.endpoint, rate="1") as broker:
        with blocking.connect(broker.broker_url) as connection, connection.session() as session:
            session.create_producer("queue://ORDERS").send(BODY, properties={"n": 1})
            message = session.create_consumer("queue://ORDERS").receive(timeout=30)
            assert message is not None
        spans = collector.awaits(has({("near", "send ORDERS"), ("near", "acknowledge ORDERS")}))
    (root,) = [span for span in spans if span.name == "send ORDERS"]
    assert root.parent_id == ""
    assert message.properties["traceparent"] == f"00-{root.trace_id}-{root.span_id}-01"
    assert (message.properties["n"], message.body) == (1, BODY)
    assert {span.parent_id for span in spans if span is not root} == {root.span_id}


def test_a_collector_that_refuses_costs_spans_and_no_message(tmp_path: Path) -> None:
    with OtlpReceiver(status=500) as collector, Traced(tmp_path, "near", collector.endpoint) as broker:
        with blocking.connect(broker.broker_url) as connection, connection.session() as session:
            producer = session.create_producer("queue://ORDERS")
            consumer = session.create_consumer("queue://ORDERS")
            for number in range(100):
                producer.send(str(number), properties={"traceparent": PARENT})
            taken = [consumer.receive(timeout=30) for _ in range(100)]
        collector.awaits_requests(1)
        broker.awaits("[trace-export-failed]")
        assert broker.stop() == 0
    assert [message and message.body for message in taken] == [str(number) for number in range(100)]
    failures = [line for line in broker.errors if "trace-export-failed" in line]
    assert len(failures) == 1
    assert "the collector does not take spans" in failures[0]


PROGRAM: Final = """
import asyncio, sys, threading
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from spanwire.client import JmsError, aio, blocking

provider = TracerProvider(resource=Resource.create({"service.instance.id": "program"}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(sys.argv[2] + "/v1/traces")))
trace.set_tracer_provider(provider)
url = sys.argv[1]


async def take_two() -> None:
    done = asyncio.Event()
    async with aio.connect(url) as connection, connection.session() as session:
        consumer = await session.create_consumer("queue://ORDERS")
        message = await consumer.receive(timeout=30)
        print(message.text, sorted(message.properties))

        async def listener(message):
            with trace.get_tracer("program").start_as_current_span("work"):
                done.set()

        consumer.listen(listener)
        await asyncio.wait_for(done.wait(), 30)
        await consumer.stop_listening()


with blocking.connect(url) as connection, connection.session() as session:
    producer = session.create_producer("queue://ORDERS")
    with trace.get_tracer("program").start_as_current_span("order"):
        producer.send("one", properties={"n": 1})
        producer.send("two")
    asyncio.run(take_two())
    producer.send("three")
    print(session.create_consumer("queue://ORDERS").receive(timeout=30).text)
    try:
        producer.send("s3cret", destination="queue://OTHER")
    except JmsError:
        print("refused")
provider.shutdown()
"""


def test_a_program_with_opentelemetry_and_the_broker_are_in_one_trace(tmp_path: Path) -> None:
    with OtlpReceiver() as collector, Traced(tmp_path, "near", collector.endpoint) as broker:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, broker.broker_url, collector.endpoint],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.stdout, done.stderr) == ("one ['n', 'traceparent']\nthree\nrefused\n", "")
        spans = collector.awaits(lambda spans: sum(span.name == "acknowledge ORDERS" for span in spans) == 3)
    program = [span for span in spans if span.instance == "program"]
    (order,) = [span for span in program if span.name == "order"]
    first, second, third = [span for span in program if span.name == "send ORDERS"]
    assert (first.parent_id, second.parent_id, third.parent_id) == (order.span_id, order.span_id, "")
    assert first.kind == 4  # producer
    at_broker = [span for span in spans if span.instance == "near" and span.name == "send ORDERS"]
    assert [span.parent_id for span in at_broker] == [span.span_id for span in (first, second, third)]
    received = [span for span in program if span.name == "receive ORDERS"]
    assert [span.parent_id for span in received] == [first.span_id, third.span_id]
    assert received[0].links == [(order.trace_id, first.span_id)]
    (processed,) = [span for span in program if span.name == "process ORDERS"]
    (work,) = [span for span in program if span.name == "work"]
    assert (processed.parent_id, work.parent_id) == (second.span_id, processed.span_id)
    (refused,) = [span for span in program if span.name == "send OTHER"]
    assert refused.is_error
    assert refused.attributes["error.type"] == "IllegalStateError"
    assert {span.trace_id for span in spans if span.name != "send OTHER"} == {order.trace_id, third.trace_id}
    assert not any(b"s3cret" in body for body in collector.bodies)


QUIET: Final = """
import sys
from spanwire import client
from spanwire.testing import Broker
with Broker() as broker, client.connect(broker.url) as connection, connection.session() as session:
    session.create_producer("queue://Q").send("1", properties={"traceparent": "PARENT"})
    print(session.create_consumer("queue://Q").receive(timeout=30).properties["traceparent"])
words = "opentelemetry tracing_plugin filtered_broker tracing.collector tracing.spans service.tracing .traced".split()
print([name for name in sys.modules if any(word in name for word in words)])
"""


def test_a_broker_and_a_client_without_traces_load_none_of_their_code() -> None:
    program = QUIET.replace("PARENT", PARENT)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    assert (done.stdout, done.returncode) == (f"{PARENT}\n[]\n", 0), done.stderr
