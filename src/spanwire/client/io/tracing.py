"""Spans of a client, in the program's own tracer.

Source: OpenTelemetry, "Semantic Conventions for Messaging Spans".

Loaded only in a program with a configuration of OpenTelemetry; `spanwire.client.io.tracing_switch` asks. Bodies and the
texts of errors are in no span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from spanwire import __version__
from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import property_octets
from spanwire.model.destination import Destination
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import STRING_VALUE
from spanwire.protocols.primitive_map import decode_map, encode_map

SCOPE: Final = "spanwire.client"
SYSTEM: Final = "activemq"
TEMPORARY: Final = "(temporary)"
ANY: Final = "(any)"  # a producer without a destination, before a name is known


class ClientTracing:
    """Makes the spans ``send``, ``receive`` and ``process`` of one connection."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        """``provider`` is the program's own without one."""
        self._tracer: Final = trace.get_tracer(SCOPE, __version__, provider)

    @contextmanager
    def sending(
        self, destination: Destination | str | None, body: object, properties: Mapping[str, object] | bytes | None
    ) -> Iterator[bytes]:
        """Run a send in a span. The value is the encoded properties with the context of the span.

        Raises:
            MessageFormatError: a property is not allowed.
        """
        values = decode_map(property_octets(properties, body))
        carried = {name: str(value) for name, (kind, value) in values.items() if kind == STRING_VALUE}
        parent = None if trace.get_current_span().get_span_context().is_valid else propagate.extract(carried)
        with self._span("send", destination, SpanKind.PRODUCER, parent):
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            for name, value in carrier.items():
                if name.isidentifier():  # the name of a JMS property; `traceparent` is one, `X-B3-TraceId` is none
                    values[name] = (STRING_VALUE, value)
            yield encode_map(values) if values else b""

    @contextmanager
    def processing(self, message: Message) -> Iterator[None]:
        """Run a listener in a span below the sender's."""
        with self._span("process", _destination(message), SpanKind.CONSUMER, _context(message)) as span:
            _describe(span, message)
            yield

    def received(self, message: Message) -> None:
        """Make a span for the reception of a message, with a link to the sender's span.

        The parent is the current span of the program, otherwise the sender's.
        """
        context = _context(message)
        sender = trace.get_current_span(context).get_span_context()
        parent = None if trace.get_current_span().get_span_context().is_valid else context
        name, attributes = _words("receive", _destination(message))
        span = self._tracer.start_span(
            name, parent, SpanKind.CLIENT, attributes, [Link(sender)] if sender.is_valid else None
        )
        _describe(span, message)
        span.end()

    @contextmanager
    def _span(
        self, operation: str, destination: Destination | str | None, kind: SpanKind, parent: Context | None
    ) -> Iterator[Any]:
        name, attributes = _words(operation, destination)
        with self._tracer.start_as_current_span(
            name, parent, kind, attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise


def _words(operation: str, destination: Destination | str | None) -> tuple[str, dict[str, str | bool]]:
    """Return the name of a span, and the known attributes at the begin."""
    qualified = "" if destination is None else str(destination)
    scheme, mark, name = qualified.partition("://")
    if not mark:
        scheme, name = "queue", qualified
    is_temporary = scheme.startswith("temp-")
    attributes: dict[str, str | bool] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    if name:
        name = name.partition("?")[0]
        attributes["messaging.destination.name"] = name
    if is_temporary:
        attributes["messaging.destination.temporary"] = True
    return f"{operation} {TEMPORARY if is_temporary else name or ANY}", attributes


def _describe(span: Any, message: Message) -> None:
    if span.is_recording():
        span.set_attribute("messaging.message.id", message.message_id)
        span.set_attribute("messaging.message.envelope.size", len(message.raw))


def _destination(message: Message) -> Destination | None:
    try:
        return message.destination
    except MessageFormatError:
        return None


def _context(message: Message) -> Context:
    """Return the context in a message.

    A message with unreadable properties has the context of no span.
    """
    try:
        properties = message.properties
    except MessageFormatError:
        return Context()
    return propagate.extract({name: value for name, value in properties.items() if isinstance(value, str)}, Context())
