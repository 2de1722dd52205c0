"""Network connectors that an operator adds: the rules of a file, and no way to code, files or other schemes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.interpretation.runtime_connector import read_connector
from spanwire.service.config.security.tls import Stores
from spanwire.tls.settings import TrustStore

NAMED = {"name": "toB"}


def test_attributes_are_those_of_a_file() -> None:
    settings = read_connector({**NAMED, "uri": "static:(tcp://b:61616,tcp://c:1)", "duplex": "true"}, None)
    assert (settings.bridge.name, settings.bridge.duplex) == ("toB", True)
    assert [(remote.host, remote.port) for remote in settings.remotes] == [("b", 61616), ("c", 1)]


def test_a_link_with_tls_trusts_what_the_broker_trusts() -> None:
    store = TrustStore(Path("/trust.p12"))
    settings = read_connector({**NAMED, "uri": "static:(ssl://b:61617)"}, Stores(trust_store=store))
    tls = settings.remotes[0].tls
    assert tls is not None
    assert tls.trust_store == store


@pytest.mark.parametrize(
    "uri",
    [
        "vm://evil?brokerConfig=xbean:http://evil/x.xml",
        "static:(vm://evil?brokerConfig=xbean:http://evil/x.xml)",
        "static:(failover:(vm://evil))",
        "static:(static:(vm://evil))",
        "failover:(vm://evil)",
        "masterslave:(vm://evil,tcp://a:1)",
        "discovery:(vm://evil)",
        "xbean:http://evil/x.xml",
        "broker:(tcp://a:1)",
        "file:///etc/passwd",
        "static:(file:///etc/passwd)",
        "http://evil/brokers",
        "jndi:ldap://evil/x",
        "static:(ldap://evil/x)",
        "peer://group/broker",
        "fanout:(static:(tcp://a:1))",
        "static:(" * 40 + "tcp://a:1" + ")" * 40,
        "",
        "tcp://a:1",
        "static:()",
    ],
)
def test_s20_an_address_leads_to_a_broker_over_a_known_transport_and_nowhere_else(uri: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_connector({**NAMED, "uri": uri}, None)
    assert "request:" not in str(caught.value)


@pytest.mark.parametrize(
    "more",
    [
        {"bridgeFactory": "#evil"},
        {"brokerName": "other"},
        {"messageTTL": "many"},
        {"class": "java.lang.Runtime"},
        {"sslContext": "#x"},
        {"password": "ENC(abc)"},
    ],
)
def test_s20_an_attribute_that_a_file_may_not_have_is_refused(more: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        read_connector({**NAMED, "uri": "static:(tcp://b:61616)", **more}, None)


def test_a_password_is_in_no_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_connector({**NAMED, "uri": "static:(vm://x)", "remotePassword": "canary", "messageTTL": "x"}, None)
    assert "canary" not in str(caught.value)
