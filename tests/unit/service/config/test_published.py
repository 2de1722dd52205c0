"""``publishedAddressPolicy``: the rules of a connector's announced address."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.reading import read_configuration
from spanwire.service.published_addresses import published_uri
from spanwire.transports.base import ConnectorSettings
from spanwire.transports.published_address import PublishedAddress


def connector(policy: str, uri: str = "tcp://10.0.0.5:61616") -> ConnectorSettings:
    text = (
        '<broker xmlns="http://activemq.apache.org/schema/core"><transportConnectors>'
        f'<transportConnector uri="{uri}"><publishedAddressPolicy>{policy}</publishedAddressPolicy>'
        "</transportConnector></transportConnectors></broker>"
    )
    configuration = read_configuration(text.encode(), Path("a.xml"), {}, {})
    assert configuration.warnings == ()
    return configuration.connectors[0]


def announced(policy: str, uri: str = "tcp://10.0.0.5:61616", port: int = 61616) -> str:
    return published_uri(connector(policy, uri), port, "docker-1")


@pytest.mark.parametrize(
    ("policy", "uri", "expected"),
    [
        ("<publishedAddressPolicy/>", "tcp://10.0.0.5:61616", "tcp://10.0.0.5:61616"),
        ("<publishedAddressPolicy/>", "tcp://0.0.0.0:61616", "tcp://docker-1:61616"),
        (
            '<publishedAddressPolicy hostMapping="10.0.0.5=mq.example.com,docker-1=x" portMapping="61616=30616"/>',
            "stomp://10.0.0.5:61616",
            "stomp://mq.example.com:30616",
        ),
        ('<publishedAddressPolicy hostMapping="docker-1=mq"/>', "tcp://0.0.0.0:61616", "tcp://mq:61616"),
        (
            "<publishedAddressPolicy><hostMapping><map xmlns='http://www.springframework.org/schema/beans'>"
            "<entry key='10.0.0.5'><value>mq</value></entry></map></hostMapping>"
            "<portMapping><props><prop key='61616'>1</prop></props></portMapping></publishedAddressPolicy>",
            "tcp://10.0.0.5:61616",
            "tcp://mq:1",
        ),
        (
            '<publishedAddressPolicy clusterClientUriQuery="socket.keepAlive=true" hostMapping="10.0.0.5=fd00::1"/>',
            "tcp://10.0.0.5:61616",
            "tcp://[fd00::1]:61616?socket.keepAlive=true",
        ),
        ('<publishedAddressPolicy publishedHostStrategy="IpAddress"/>', "tcp://localhost:1", "tcp://127.0.0.1:61616"),
        ('<publishedAddressPolicy publishedHostStrategy="HOSTNAME"/>', "tcp://0.0.0.0:1", "tcp://docker-1:61616"),
        ('<publishedAddressPolicy publishedHostStrategy="FQDN"/>', "tcp://127.0.0.1:1", "tcp://localhost:61616"),
    ],
)
def test_the_announced_address_follows_the_policy(policy: str, uri: str, expected: str) -> None:
    assert announced(policy, uri) == expected


def test_a_machine_is_announced_by_no_loopback_address_that_its_name_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanwire.service.published_addresses._outgoing", lambda address: "10.1.2.3")
    settings = connector('<publishedAddressPolicy publishedHostStrategy="IPADDRESS"/>', "tcp://0.0.0.0:1")
    assert published_uri(settings, 1, "localhost") == "tcp://10.1.2.3:1"


def test_a_host_that_cannot_be_looked_up_is_announced_as_it_is_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = connector('<publishedAddressPolicy publishedHostStrategy="IPADDRESS"/>', "tcp://nowhere.invalid:1")
    for _ in range(3):
        assert published_uri(settings, 1, "x") == "tcp://nowhere.invalid:1"
    assert len(caplog.records) == 1 and "nowhere.invalid" in caplog.text


def test_a_host_is_looked_up_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may start before the network does."""
    settings = connector('<publishedAddressPolicy publishedHostStrategy="IPADDRESS"/>', "tcp://late.invalid:1")
    assert published_uri(settings, 1, "x") == "tcp://late.invalid:1"
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("10.9.9.9", 0))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *words, **names: found)
    assert published_uri(settings, 1, "x") == "tcp://10.9.9.9:1"


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ('publishedHostStrategy="NAME"', "is 'name', there are DEFAULT, IPADDRESS, HOSTNAME, FQDN"),
        ('hostMapping="a"', "'' is no host; write old=new"),
        ('hostMapping="a/b=c"', "'a/b' is no host"),
        ('portMapping="1=70000"', "'70000' is no port"),
        ('portMapping="x=1"', "'x' is no port"),
        ('clusterClientUriQuery="a b"', "must be options of a URL"),
        (f'portMapping="{",".join(f"{port}=1" for port in range(1, 103))}"', "maps more than 100"),
    ],
)
def test_a_wrong_policy_is_refused(policy: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        connector(f"<publishedAddressPolicy {policy}/>")
    (line,) = str(caught.value).splitlines()
    assert told in line


def test_toml_has_the_same_policy() -> None:
    text = (
        '[[transport_connectors]]\nuri = "tcp://0.0.0.0:61616"\n[transport_connectors.published_address_policy]\n'
        'host_mapping = "h=mq.example.com"\npublished_host_strategy = "FQDN"\n'
    )
    (found,) = read_configuration(text.encode(), Path("a.toml"), {}, {}).connectors
    assert found.published == PublishedAddress("fqdn", (("h", "mq.example.com"),))
