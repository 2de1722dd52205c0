"""Brokers that one line, or a file of properties, describes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.discovery.groups.group import MulticastSettings
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.loading import load_configuration


def test_a_broker_uri_says_where_the_broker_listens_and_what_it_is_called() -> None:
    found = load_configuration("broker:(tcp://localhost:6000,stomp://localhost:6001)/me?persistent=false&useJmx=false")
    assert (found.broker_name, found.persistence.persistent) == ("me", False)
    assert [(one.scheme, one.host, one.port) for one in found.connectors] == [
        ("tcp", "localhost", 6000),
        ("stomp", "localhost", 6001),
    ]


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("broker:tcp://localhost:6000", "localhost"),
        ("broker://(tcp://localhost:6000)", "localhost"),
        ("broker:(tcp://localhost:6000)?brokerName=x", "x"),
        ("broker:(tcp://localhost:6000)/x?brokerName=x", "x"),
        ("broker:()/x", "x"),
    ],
)
def test_the_forms_of_a_broker_uri(uri: str, name: str) -> None:
    assert load_configuration(uri).broker_name == name


def test_what_stands_behind_network_becomes_a_network_connector() -> None:
    found = load_configuration(
        "broker:(tcp://localhost:6000,network:static:(tcp://a:1,tcp://b:2),network:multicast://default?group=g)"
    )
    assert len(found.connectors) == 1
    listed, looking = found.network_connectors
    assert [remote.uri for remote in listed.remotes] == ["tcp://a:1", "tcp://b:2"]
    assert looking.discovery is not None
    assert looking.discovery.agent == MulticastSettings(group="g")
    assert listed.bridge.name != looking.bridge.name


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("broker:(tcp://localhost:6000)/a?brokerName=b", "the path and brokerName of the broker: uri differ"),
        ("broker:(tcp://localhost:6000)?persistant=false", "unknown attribute of <broker> 'persistant'; did you mean"),
        ("broker:(proxy:tcp://localhost:6000)", "proxy: of the broker: uri is not supported"),
        ("broker:(tcp://localhost:6000", "do not match"),
        ("broker:(mqtt://x)", "the broker: uri:1: "),
        ("broker:(network:vm://x)", "vm: is for clients and links no brokers"),
    ],
)
def test_a_broker_uri_that_cannot_be_honoured_says_so(uri: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(uri)
    assert reason in str(caught.value)


def test_a_file_of_properties_describes_a_broker(tmp_path: Path) -> None:
    path = tmp_path / "broker.properties"
    path.write_text(
        "# a comment\nbrokerName = me\npersistent=false\nbroker.useJmx=false\n"
        "transportConnectorURIs=tcp://localhost:6000,stomp://localhost:6001\n"
        "networkConnectorURIs=static:(tcp://a:1,tcp://b:2)\n",
        "utf-8",
    )
    found = load_configuration(f"properties:{path}")
    assert (found.broker_name, found.persistence.persistent, found.source) == ("me", False, str(path))
    assert [one.port for one in found.connectors] == [6000, 6001]
    assert [remote.uri for remote in found.network_connectors[0].remotes] == ["tcp://a:1", "tcp://b:2"]


def test_a_file_of_properties_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no such file"):
        load_configuration(f"properties:{tmp_path}/none.properties")
    (tmp_path / "latin.properties").write_bytes(b"brokerName=\xff")
    with pytest.raises(ConfigurationError, match="not in UTF-8"):
        load_configuration(f"properties:{tmp_path}/latin.properties")
