"""Makes spans of notes, by OpenTelemetry's semantic conventions for messaging.

Names and attributes are those of the conventions.

Source: OpenTelemetry, "Semantic Conventions for Messaging Spans". The table of names is in the reference
(``docs/reference/traces.md``).
"""

from __future__ import annotations

from typing import Final

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace.span import TraceState

from spanwire import __version__
from spanwire.model.observation.span_records import ACKNOWLEDGE, DISPATCH, FORWARD, PROCESS, SEND, STORE, SpanRecord
from spanwire.model.observation.trace_context import TraceContext

SYSTEM: Final = "activemq"  # the conventions' word for the protocols and names that all of these brokers share
SERVICE: Final = "spanwire"
NAMES: Final = {
    SEND: "send",
    STORE: "store",
    DISPATCH: "dispatch",
    FORWARD: "forward",
    ACKNOWLEDGE: "acknowledge",
    PROCESS: "process",
}
KINDS: Final = {
    SEND: SpanKind.SERVER,
    STORE: SpanKind.INTERNAL,
    DISPATCH: SpanKind.INTERNAL,
    FORWARD: SpanKind.PRODUCER,
    ACKNOWLEDGE: SpanKind.SERVER,
    PROCESS: SpanKind.CONSUMER,
}
TYPES: Final = {SEND: "send", FORWARD: "send", ACKNOWLEDGE: "settle", PROCESS: "process"}
PIPELINE: Final = "messaging.spanwire.pipeline.name"  # names a span of a batch, which has no destination
TEMPORARY: Final = "(temporary)"  # names of temporary destinations are as many as there are replies
NANOSECONDS: Final = 1_000_000


class NotedIds(IdGenerator):
    """Gives the next span the ids of the note, or random ids."""

    def __init__(self) -> None:
        self.trace_id = ""
        self.span_id = ""
        self._random: Final = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        return int(self.trace_id, 16)

    def generate_span_id(self) -> int:
        """Return the id of the next span."""
        return int(self.span_id, 16) if self.span_id else int(self._random.generate_span_id())


class EndedSpans(SpanProcessor):
    """Keeps the spans of one batch until the batch is taken."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span."""
        self.spans.append(span)


class SpanMaker:
    """Makes the spans of one process.

    The core has decided on the traced messages, so each note becomes a span.
    """

    def __init__(self, scope: str, instance: str) -> None:
        self._ids: Final = NotedIds()
        self._ended: Final = EndedSpans()
        provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource(instance), id_generator=self._ids, shutdown_on_exit=False
        )
        provider.add_span_processor(self._ended)
        self._tracer: Final = provider.get_tracer(scope, __version__)

    def spans(self, records: list[SpanRecord]) -> list[ReadableSpan]:
        """Return one span for each note."""
        for record in records:
            self._make(record)
        made, self._ended.spans = self._ended.spans, []
        return made

    def _make(self, record: SpanRecord) -> None:
        self._ids.trace_id = record.context.trace_id
        self._ids.span_id = record.span_id
        parent = None if record.is_root else NonRecordingSpan(span_context(record.context))
        operation = NAMES[record.step]
        attributes = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            **record.attributes,
        }
        name = f"{operation} {record.attributes.get(PIPELINE)}"
        if record.destination:
            name = span_name(operation, record.destination)
            attributes |= {"messaging.message.id": record.message_id, **destination_attributes(record.destination)}
        if record.step in TYPES:
            attributes["messaging.operation.type"] = TYPES[record.step]
        if record.error:
            attributes["error.type"] = record.error
        span = self._tracer.start_span(
            name,
            context=set_span_in_context(parent) if parent is not None else None,
            kind=KINDS[record.step],
            attributes=attributes,
            links=[Link(span_context(link)) for link in record.links],
            start_time=record.start_ms * NANOSECONDS,
        )
        if record.error:
            span.set_status(Status(StatusCode.ERROR))
        span.end(record.end_ms * NANOSECONDS)


def span_context(context: TraceContext) -> SpanContext:
    """Return the context in OpenTelemetry's form."""
    pairs = [member.strip().partition("=") for member in context.state.split(",") if member.strip()]
    state = TraceState(list({name: value for name, _, value in pairs}.items()))
    return SpanContext(int(context.trace_id, 16), int(context.span_id, 16), True, TraceFlags(context.flags), state)


def span_name(operation: str, destination: str) -> str:
    """Return the name of a span: the operation, then a name out of few."""
    scheme, _, name = destination.partition("://")
    return f"{operation} {TEMPORARY if scheme.startswith('temp-') else name}"


def destination_attributes(destination: str) -> dict[str, str | bool]:
    """Return the attributes of ``queue://ORDERS``."""
    scheme, _, name = destination.partition("://")
    attributes: dict[str, str | bool] = {
        "messaging.destination.name": name,
        "messaging.spanwire.destination.kind": scheme.removeprefix("temp-"),
    }
    if scheme.startswith("temp-"):
        attributes["messaging.destination.temporary"] = True
    return attributes


def resource(instance: str) -> Resource:
    """Return the service of the spans; the environment's words count before ours."""
    own = {"service.name": SERVICE, "service.version": __version__, "service.instance.id": instance}
    said = OTELResourceDetector().detect().attributes
    return Resource.create({name: value for name, value in own.items() if name not in said})
