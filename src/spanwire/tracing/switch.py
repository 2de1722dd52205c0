"""Decides if a process sends traces: OpenTelemetry's variables of the environment are the switch.

Names and meanings come from OpenTelemetry's specification ("Environment Variable Specification", "OpenTelemetry
Protocol Exporter"). The SDK reads all other variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError
from spanwire.model.observation.span_records import SpanRecords
from spanwire.registry import TRACE_COLLECTOR, load
from spanwire.tracing.export import SpanExport

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORTER: Final = "OTEL_TRACES_EXPORTER"
DISABLED: Final = "OTEL_SDK_DISABLED"
EXTRA: Final = "tracing"


def is_switched_off(environment: Mapping[str, str]) -> bool:
    """Return True if the environment forbids traces, against any configuration."""
    exporter = environment.get(EXPORTER, "").strip()
    return environment.get(DISABLED, "").strip().lower() == "true" or (exporter != "" and exporter != "otlp")


def is_switched_on(environment: Mapping[str, str]) -> bool:
    """Return True if the environment names a collector."""
    return any(environment.get(name, "").strip() for name in ENDPOINTS) and not is_switched_off(environment)


def span_export(records: SpanRecords, scope: str, instance: str, endpoint: str | None = None) -> SpanExport:
    """Return the thread for sending the notes of a process; not started.

    Arguments:
        records: the notes.
        scope: name of the instrumentation, such as ``spanwire.broker``.
        instance: name of the process in the service, such as the broker's.
        endpoint: base URL of the collector; None for the environment's URL.

    Raises:
        ConfigurationError: the extra ``tracing`` is not installed, or a variable of the environment is refused.
    """
    try:
        make = load(TRACE_COLLECTOR)
    except ImportError:
        command = install_command(EXTRA)
        raise ConfigurationError(f"traces need the extra {EXTRA}, which is not installed: {command}") from None
    assert callable(make)
    try:
        collector = make(scope, instance, endpoint)
    except ValueError as error:
        raise ConfigurationError(f"a variable of the environment for traces is refused: {error}") from None
    return SpanExport(records, collector)
