"""Sends spans over OTLP with OpenTelemetry's exporter.

The exporter reads the variables of the environment.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from spanwire.model.observation.span_records import SpanRecord
from spanwire.tracing.spans import SpanMaker

PATH: Final = "/v1/traces"
EXPORTER_LOGGER: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
MAX_REASON: Final = 300  # characters of the exporter's words in a line of our log


class ExporterWords(logging.Filter):
    """Keeps the exporter's words in the creating thread out of the log.

    The log has one line for each failure. ``last`` are the last words. Records of a program's own exporter, in other
    threads, pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self.thread: Final = threading.current_thread()
        self.last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a record of our thread."""
        if threading.current_thread() is not self.thread:
            return True
        self.last = printable(record.getMessage())[:MAX_REASON]
        return False


class OtlpCollector:
    """One collector, named by ``endpoint`` or by the environment.

    Raises:
        ValueError: a variable of the environment is refused.
    """

    def __init__(self, scope: str, instance: str, endpoint: str | None) -> None:
        self._maker: Final = SpanMaker(scope, instance)
        self._exporter: Final = OTLPSpanExporter(None if endpoint is None else endpoint.removesuffix("/") + PATH)

    def send(self, records: list[SpanRecord]) -> str:
        """Send one batch; `Collector.send`."""
        words = ExporterWords()
        exporter_logger = logging.getLogger(EXPORTER_LOGGER)
        exporter_logger.addFilter(words)
        try:
            result = self._exporter.export(self._maker.spans(records))
        finally:
            exporter_logger.removeFilter(words)
        return "" if result is SpanExportResult.SUCCESS else words.last or "it gives no reason"

    def close(self) -> None:
        """End a running `send` soon."""
        self._exporter.shutdown()


def printable(text: str) -> str:
    """Return ``text`` without characters able to break or forge a line of a log."""
    return "".join(character if character.isprintable() else " " for character in text)
