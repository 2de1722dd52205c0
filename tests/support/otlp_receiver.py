"""A collector on a free loopback port that decodes the spans it gets over OTLP (HTTP, Protobuf), or refuses them.

with OtlpReceiver() as collector:
    spans = collector.awaits(lambda spans: len(spans) >= 3)
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PATIENCE_S: Final = 30.0


class ReceivedSpan:
    """One span, with plain values."""

    def __init__(self, span: Any, resource: dict[str, object], scope: str) -> None:
        self.name: str = span.name
        self.kind: int = span.kind
        self.trace_id: str = span.trace_id.hex()
        self.span_id: str = span.span_id.hex()
        self.parent_id: str = span.parent_span_id.hex()
        self.trace_state: str = span.trace_state
        self.start_ms: int = span.start_time_unix_nano // 1_000_000
        self.end_ms: int = span.end_time_unix_nano // 1_000_000
        self.attributes = values(span.attributes)
        self.links: list[tuple[str, str]] = [(link.trace_id.hex(), link.span_id.hex()) for link in span.links]
        self.is_error: bool = span.status.code == 2
        self.resource = resource
        self.scope = scope

    @property
    def instance(self) -> object:
        """The name of the process that sent it."""
        return self.resource.get("service.instance.id")

    def __repr__(self) -> str:
        return f"{self.instance}: {self.name} {self.trace_id}/{self.span_id} below {self.parent_id or 'nothing'}"


def values(pairs: Any) -> dict[str, object]:
    """Attributes by name, all of them scalar."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


class OtlpReceiver:
    """The collector. ``status`` and ``delay_s`` are those of the next answers."""

    def __init__(self, status: int = 200, delay_s: float = 0.0) -> None:
        self.status = status
        self.delay_s = delay_s
        self.requests = 0
        self.bodies: list[bytes] = []  # as they were sent, for a look at what must not be there
        self.headers: list[dict[str, str]] = []
        self._spans: list[ReceivedSpan] = []
        self._changed: Final = threading.Condition()
        receiver = self

        class Answers(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.take(self.path, body, dict(self.headers))
                time.sleep(receiver.delay_s)
                self.send_response(receiver.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server: Final = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self._thread: Final = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        assert path == "/v1/traces", path
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportTraceServiceRequest.FromString(body)
        with self._changed:
            self.requests += 1
            self.bodies.append(body)
            self.headers.append(headers)
            if self.status == 200:
                for of_resource in request.resource_spans:
                    resource = values(of_resource.resource.attributes)
                    for of_scope in of_resource.scope_spans:
                        self._spans.extend(ReceivedSpan(one, resource, of_scope.scope.name) for one in of_scope.spans)
            self._changed.notify_all()

    @property
    def spans(self) -> list[ReceivedSpan]:
        """All spans so far."""
        with self._changed:
            return list(self._spans)

    def awaits(self, are_there: Callable[[list[ReceivedSpan]], bool]) -> list[ReceivedSpan]:
        """All spans, as soon as they are enough."""
        with self._changed:
            assert self._changed.wait_for(lambda: are_there(self._spans), PATIENCE_S), self._spans
            return list(self._spans)

    def awaits_requests(self, count: int) -> None:
        """Until so many requests have come, taken or refused."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.requests >= count, PATIENCE_S), self.requests
