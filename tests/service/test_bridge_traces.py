"""Traces over bridges: those of a broker, and those of a file to a system with headers instead of JMS properties."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spanwire import client
from spanwire.testing import Broker
from tests.service.started import Started, spanwire
from tests.service.test_native_bridges import BEAN, BRIDGES
from tests.support.otlp_receiver import OtlpReceiver

TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN: Final = "00f067aa0ba902b7"
PROPERTIES: Final = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}
TIMEOUT_S: Final = 30.0
FILE: Final = """\
[connectionFactories.near]
url = "{near}"

[connectionFactories.other]
provider = "stomp"
url = "{other}"

[bridges.orders]
sourceConnectionFactory = "near"
sourceDestination = "queue://A"
targetConnectionFactory = "other"
targetDestination = "queue://B"
"""


class TracedBridges(Started):
    """A broker that traces, with bridges to another broker."""

    def __init__(self, directory: Path, far_url: str, endpoint: str) -> None:
        super().__init__(directory)
        self._far_url: Final = far_url
        self._tracing: Final = f'<tracing endpoint="{endpoint}"/>'

    def text(self) -> str:
        head, end, tail = super().text().partition("</broker>")
        bridges = BRIDGES.replace("{policy}", "")
        return f"<beans>{head}{bridges}{self._tracing}{end}{tail}{BEAN.format(self._far_url)}</beans>"


def send(url: str, queue: str) -> None:
    with client.connect(url) as connection, connection.session() as session:
        session.create_producer(f"queue://{queue}").send("an order", properties=PROPERTIES)


def received_properties(url: str, queue: str) -> dict[str, object]:
    with client.connect(url) as connection, connection.session() as session:
        message = session.create_consumer(f"queue://{queue}").receive(TIMEOUT_S)
        assert message is not None
        return dict(message.properties)


def test_a_bridge_of_a_broker_carries_the_context_and_makes_a_span(tmp_path: Path) -> None:
    with OtlpReceiver() as collector, Broker() as far, TracedBridges(tmp_path, far.url, collector.endpoint) as broker:
        send(far.url, "A")
        properties = received_properties(broker.broker_url, "FROM.A")
        spans = collector.awaits(lambda spans: {"forward FROM.A", "send FROM.A"} <= {span.name for span in spans})
    assert {name: properties[name] for name in PROPERTIES} == PROPERTIES
    (forward,) = [span for span in spans if span.name == "forward FROM.A"]
    assert (forward.instance, forward.trace_id, forward.parent_id) == ("bridges", TRACE, SPAN)
    assert forward.attributes["messaging.spanwire.bridge.name"] == "far.inbound.A"
    assert forward.attributes["messaging.spanwire.bridge.source"] == "queue://A"
    assert {span.trace_id for span in spans} == {TRACE}


def test_a_bridge_to_another_protocol_carries_the_context_in_headers(tmp_path: Path) -> None:
    with OtlpReceiver() as collector, Broker() as near, Broker() as other:
        send(near.url, "A")
        file = tmp_path / "bridges.toml"
        file.write_text(FILE.format(near=near.url, other=other.stomp_url), "utf-8")
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
        done = spanwire("bridge", "run", str(file), "--untilEmpty", environment=environment)
        assert done.returncode == 0, done.stderr
        properties = received_properties(other.url, "B")
        (forward,) = collector.awaits(lambda spans: len(spans) == 1)
    assert {name: properties[name] for name in PROPERTIES} == PROPERTIES
    assert (forward.name, forward.trace_id, forward.parent_id) == ("forward B", TRACE, SPAN)


ROUTE: Final = """\
<camelContext xmlns="http://camel.apache.org/schema/spring"><route id="orders">
<from uri="activemq:queue:A"/><setHeader name="seen"><constant>yes</constant></setHeader><to uri="activemq:queue:B"/>
</route></camelContext>
"""


class TracedRoute(Started):
    """A broker that traces, with a Camel route between its queues."""

    def __init__(self, directory: Path, endpoint: str) -> None:
        super().__init__(directory)
        self._tracing: Final = f'<tracing endpoint="{endpoint}"/>'

    def text(self) -> str:
        return f"<beans>{super().text().replace('</broker>', f'{self._tracing}</broker>')}{ROUTE}</beans>"


def test_a_camel_route_of_a_broker_carries_the_context_and_makes_a_span(tmp_path: Path) -> None:
    with OtlpReceiver() as collector, TracedRoute(tmp_path, collector.endpoint) as broker:
        send(broker.broker_url, "A")
        properties = received_properties(broker.broker_url, "B")
        spans = collector.awaits(lambda spans: {"forward B", "send B"} <= {span.name for span in spans})
    assert {name: properties[name] for name in (*PROPERTIES, "seen")} == {**PROPERTIES, "seen": "yes"}
    (forward,) = [span for span in spans if span.name == "forward B"]
    assert (forward.instance, forward.trace_id, forward.parent_id) == ("bridges", TRACE, SPAN)
    assert forward.attributes["messaging.spanwire.bridge.name"] == "orders"
    assert {span.trace_id for span in spans} == {TRACE}
