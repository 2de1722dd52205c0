"""Makes spans of the notes about traced messages, and sends the spans to a collector.

The core and other machines take the notes.

- A *note* is a `spanwire.model.observation.span_records.SpanRecord`; the core knows no other form.
- A *collector* takes spans over OTLP (HTTP, Protobuf). OpenTelemetry's SDK sends them, with the extra ``tracing``.

Only `collector` and `spans` import OpenTelemetry, and only a tracing process loads both.
"""
