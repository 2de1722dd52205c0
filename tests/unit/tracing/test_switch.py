"""The switch of traces: OpenTelemetry's variables of the environment, and the extra."""

from __future__ import annotations

import sys

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.model.observation.span_records import SpanRecords
from spanwire.tracing.endpoint import check_endpoint
from spanwire.tracing.switch import is_switched_off, is_switched_on, span_export

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        (BASE, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({"OTEL_SERVICE_NAME": "orders"}, False),
        ({**BASE, "OTEL_SDK_DISABLED": "true"}, False),
        ({**BASE, "OTEL_SDK_DISABLED": "false"}, True),
        ({**BASE, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**BASE, "OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_the_environment_switches_traces_on_and_off(environment: dict[str, str], expected: bool) -> None:
    assert is_switched_on(environment) is expected


def test_the_environment_forbids_what_a_configuration_asks_for() -> None:
    assert is_switched_off({"OTEL_SDK_DISABLED": "TRUE"})
    assert is_switched_off({"OTEL_TRACES_EXPORTER": "none"})
    assert not is_switched_off({})


@pytest.mark.parametrize("endpoint", ["http://localhost:4318", "https://collector.example/otlp"])
def test_a_url_is_taken_as_an_endpoint(endpoint: str) -> None:
    check_endpoint(endpoint)


@pytest.mark.parametrize("endpoint", ["", "localhost:4318", "ftp://a", "http://", "http://a:x", "http://[::1"])
def test_an_endpoint_that_is_no_url_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigurationError, match="is no URL such as"):
        check_endpoint(endpoint)


def test_a_password_in_an_endpoint_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_OTLP_HEADERS") as refused:
        check_endpoint("https://me:s3cret@collector.example")
    assert "s3cret" not in str(refused.value)


def test_a_missing_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "spanwire.tracing.collector", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigurationError, match="pip install"):
        span_export(SpanRecords(), "spanwire.test", "here")
