"""Makes spans of the notes that the core and other machines take of traced messages, and sends them to a collector.

- A *note* is a `spanwire.model.observation.span_records.SpanRecord`; the core knows no other form.
- A *collector* takes spans over OTLP (HTTP, Protobuf). OpenTelemetry's SDK does this, with the extra ``tracing``.

Only `collector` and `spans` import OpenTelemetry, and only a process that traces loads them.
"""
