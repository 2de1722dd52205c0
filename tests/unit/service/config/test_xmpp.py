"""Connectors for XMPP in a configuration: their schemes, options and keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration
from spanwire.tls.settings import NEED_CLIENT_CERTIFICATE

STORES = '<sslContext><sslContext keyStore="/k/broker.pem" trustStore="/k/trust.pem"/></sslContext>'


def read(uri: str, stores: str = "") -> BrokerConfiguration:
    text = f'<broker>{stores}<transportConnectors><transportConnector uri="{uri}"/></transportConnectors></broker>'
    return read_configuration(text.encode(), Path("/etc/a.xml"), {}, {})


def test_an_xmpp_connector_offers_tls_if_the_broker_has_keys() -> None:
    (plain,) = read("xmpp://127.0.0.1:61222").connectors
    assert (plain.spoken(), plain.tls) == (("xmpp",), None)
    (offering,) = read("xmpp://127.0.0.1:61222?transport.needClientAuth=true", STORES).connectors
    assert offering.tls is not None
    assert offering.tls.client_certificate == NEED_CLIENT_CERTIFICATE
    (encrypted,) = read("xmpp+ssl://127.0.0.1:5223", STORES).connectors
    assert encrypted.tls is not None
    with pytest.raises(ConfigurationError, match="needs a key store"):
        read("xmpp+ssl://127.0.0.1:5223")


def test_passwords_in_clear_are_an_option_of_xmpp_alone() -> None:
    (found,) = read("xmpp://127.0.0.1:61222?transport.plainWithoutTls=true").connectors
    assert found.options == {"plainWithoutTls": "true"}
    with pytest.raises(ConfigurationError, match="true or false"):
        read("xmpp://127.0.0.1:61222?plainWithoutTls=maybe")
    with pytest.raises(ConfigurationError, match="plainWithoutTls"):
        read("tcp://127.0.0.1:61616?plainWithoutTls=true")


def test_a_certificate_that_an_xmpp_client_must_show_needs_keys() -> None:
    with pytest.raises(ConfigurationError, match="needs a key store"):
        read("xmpp://127.0.0.1:61222?needClientAuth=true")


def test_a_detecting_connector_takes_no_xmpp_and_says_where_it_belongs() -> None:
    (found,) = read("auto://127.0.0.1:61616").connectors
    assert found.spoken() == ("openwire", "stomp")
