"""The settings of TLS cross the control socket unchanged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.service.config.model import BrokerConfiguration, WebConfiguration
from spanwire.service.web_keys import web_keys
from spanwire.tls.settings import NEED_CLIENT_CERTIFICATE, KeyStore, TlsSettings, TrustStore
from spanwire.transports.base import ConnectorSettings
from spanwire.web.serving.keys import settings_of

FULL = TlsSettings(
    KeyStore(Path("/k.pem"), Secret("one"), Path("/key.pem"), Secret("two")),
    TrustStore(Path("/t.p12"), Secret("three")),
    NEED_CLIENT_CERTIFICATE,
    ("TLSv1.3",),
    ("TLS_AES_128_GCM_SHA256",),
)
PLAIN = TlsSettings(KeyStore(Path("/k.pem")))


@pytest.mark.parametrize("settings", [FULL, PLAIN], ids=["full", "plain"])
def test_settings_of_the_web_port_arrive_unchanged(settings: TlsSettings) -> None:
    answer = json.loads(json.dumps(web_keys(BrokerConfiguration(web=WebConfiguration(tls=settings)))))
    assert settings_of(answer) == settings


def test_without_settings_the_keys_of_a_connector_are_used_without_its_client_certificates() -> None:
    connector = ConnectorSettings(name="ssl", scheme="ssl", host="a", port=1, protocol="openwire", tls=FULL)
    answer = web_keys(BrokerConfiguration(connectors=(connector,), web=WebConfiguration()))
    assert answer is not None
    assert settings_of(answer) == replace(FULL, client_certificate=0)


def test_a_broker_without_keys_answers_nothing() -> None:
    assert web_keys(BrokerConfiguration()) is None


@pytest.mark.parametrize("answer", [{}, {"key_store": 5}, {"key_store": {"path": "/k"}, "trust_store": None}])
def test_an_answer_of_another_form_is_refused(answer: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="another form"):
        settings_of(answer)
