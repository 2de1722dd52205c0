"""The settings of traces: read from XML and TOML, checked, and without a place for a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import TracingConfiguration
from spanwire.service.config.reading import read_configuration
from spanwire.service.plugins import NoTraces, broker_traces

XML = Path("/etc/spanwire/activemq.xml")
TOML = Path("/etc/spanwire/broker.toml")
ENDPOINT = "http://localhost:4318"


def read(text: str, path: Path = XML) -> TracingConfiguration | None:
    return read_configuration(text.encode(), path, {}, {}).tracing


def obstacle(attribute: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        read(f"<broker><tracing {attribute}/></broker>")
    return str(refused.value)


def test_traces_are_off_without_a_word_about_them() -> None:
    assert read("<broker/>") is None


def test_both_forms_of_a_file_have_the_settings() -> None:
    expected = TracingConfiguration(ENDPOINT, 0.25)
    assert read(f'<broker><tracing endpoint="{ENDPOINT}" samplingRate="0.25"/></broker>') == expected
    assert read(f'[tracing]\nendpoint = "{ENDPOINT}"\nsampling_rate = 0.25\n', TOML) == expected
    assert read("[tracing]\n", TOML) == TracingConfiguration(None, 0.0)


@pytest.mark.parametrize("share", ["2", "-0.1", "a", "", "nan"])
def test_a_share_outside_of_0_to_1_is_refused(share: str) -> None:
    assert "samplingRate of <tracing> is" in obstacle(f'samplingRate="{share}"')


def test_a_password_in_the_endpoint_is_refused_without_being_shown() -> None:
    text = obstacle('endpoint="http://me:s3cret@localhost:4318"')
    assert "endpoint of <tracing> has no place for a user" in text
    assert "s3cret" not in text


def test_a_broker_traces_if_its_file_or_its_environment_says_so() -> None:
    quiet = read_configuration(b"<broker/>", XML, {}, {})
    asked = read_configuration(b"<broker><tracing/></broker>", XML, {}, {})
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT}
    assert isinstance(broker_traces(quiet, {}), NoTraces)
    assert broker_traces(quiet, {}).plugins(quiet.plugins) is quiet.plugins
    for configuration, variables in ((asked, {}), (quiet, environment)):
        assert broker_traces(configuration, variables).plugins(quiet.plugins).tracing is not None
    off = broker_traces(asked, {"OTEL_SDK_DISABLED": "true"})
    assert off.plugins(quiet.plugins).tracing is None
    assert off.row() == {}
