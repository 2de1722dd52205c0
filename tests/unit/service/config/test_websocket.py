"""What a configuration says about WebSocket connectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.config.reading import read_configuration

STORES = '<sslContext><sslContext keyStore="file:/k/broker.p12" keyStorePassword="x"/></sslContext>'
ALLOWED = "ws://h:1?websocket.allowedOrigins="


def read(uri: str, inside: str = "") -> BrokerConfiguration:
    uri = uri.replace("&", "&amp;")
    connectors = f"<transportConnectors><transportConnector name='c' uri='{uri}'/></transportConnectors>"
    text = f"<broker>{inside}{connectors}</broker>"
    return read_configuration(text.encode(), Path("/etc/activemq.xml"), {}, {})


def refused(uri: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        read(uri)
    return str(raised.value)


def test_the_connector_of_classic_s_activemq_xml_speaks_stomp_and_admits_no_page() -> None:
    (settings,) = read("ws://0.0.0.0:61614?maximumConnections=1000&wireFormat.maxFrameSize=104857600").connectors
    assert (settings.protocol, settings.is_websocket, settings.tls) == ("stomp", True, None)
    assert (settings.maximum_connections, settings.max_frame_size) == (1000, 104857600)
    assert settings.origins == ()


def test_wss_needs_the_keys_of_the_broker() -> None:
    (settings,) = read("wss://h:1?needClientAuth=false", STORES).connectors
    assert settings.tls is not None
    assert settings.is_websocket
    assert "needs a key store" in refused("wss://h:1")


def test_toml_says_the_same() -> None:
    text = b'[[transport_connectors]]\nuri = "ws://h:1?websocket.allowedOrigins=https://shop.example"\n'
    (settings,) = read_configuration(text, Path("/etc/broker.toml"), {}, {}).connectors
    assert settings.is_websocket
    assert settings.origins == ("https://shop.example",)


@pytest.mark.parametrize(
    ("written", "origins"),
    [
        ("https://Shop.example", ("https://shop.example",)),
        ("http://a:8080,%20https://b/", ("http://a:8080", "https://b")),
        ("https://a:443,http://a:80,http://a:443", ("https://a", "http://a", "http://a:443")),
        ("http://[::1]:3000", ("http://[::1]:3000",)),
        ("*", ("*",)),
        ("", ()),
    ],
)
def test_origins_are_compared_as_browsers_write_them(written: str, origins: tuple[str, ...]) -> None:
    assert read(ALLOWED + written).connectors[0].origins == origins


@pytest.mark.parametrize("written", ["shop.example", "https://", "https://a/page", "https://*.example", "https://a b"])
def test_s23_what_is_no_origin_is_refused(written: str) -> None:
    assert "write scheme://host or scheme://host:port" in refused(ALLOWED + written)


@pytest.mark.parametrize("name", ["maxFrameSize", "maxDataLength", "websocket.maxTextMessageSize"])
def test_the_smallest_limit_of_a_message_counts(name: str) -> None:
    assert read(f"ws://h:1?{name}=1000").connectors[0].max_frame_size == 1000
    assert read(f"ws://h:1?{name}=-1").connectors[0].max_frame_size == MAX_FRAME_SIZE


def test_jetty_s_options_without_a_meaning_here_are_named() -> None:
    configuration = read("ws://h:1?websocket.maxIdleTime=1000&http.enableTrace=false")
    assert [line.partition("the option ")[2].split()[0] for line in configuration.warnings] == ["websocket.maxIdleTime"]
    assert "http.enableTrace" in refused("ws://h:1?http.enableTrace=true")


@pytest.mark.parametrize("uri", ["tcp://h:1", "stomp://h:1", "auto://h:1"])
def test_other_connectors_have_no_such_options(uri: str) -> None:
    assert "websocket.allowedOrigins" in refused(f"{uri}?websocket.allowedOrigins=*")
