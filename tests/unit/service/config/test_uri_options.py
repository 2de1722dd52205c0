"""Each option of ActiveMQ's URIs is honoured, warned about or refused by name, and none is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spanwire.client.addressing.address import parse_url
from spanwire.client.addressing.consumer_options import parsed
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.model.traffic_class import traffic_class
from spanwire.service.config.interpretation.addresses.remote_options import RemoteOptions
from spanwire.service.config.interpretation.addresses.uri import connector_settings, parse_uri
from spanwire.service.config.reading import read_configuration
from spanwire.service.config.tables import uri_options
from spanwire.service.config.values.diagnostics import Findings, RefusedConfigurationError
from spanwire.service.embedding.vm_url import parse_vm_url

SOURCES: Final = Path(__file__).parents[4] / "src" / "spanwire"
OPTIONS_FILE: Final = Path(__file__).parents[3] / "vectors" / "activemq-uri-options.txt"
UNKNOWN: Final = re.compile(r"unknown|has no option|no name of a transport option")
VALUES: Final = {"boolean": "true", "string": "x"}  # of a type; numbers have 5
# Options that ActiveMQ reads from the URI without a setter of the transport.
BESIDE: Final = {
    "socket": ["soWriteTimeout", "stackSize", "useInactivityMonitor"],
    "tls": ["enabledCipherSuites", "enabledProtocols"],
    "vm": ["create", "waitForStart", "brokerConfig", "broker.persistent"],
}
TEXTS: Final = {"brokerConfig": "xbean:a.xml", "diffServ": "EF", "priorityURIs": "tcp://h:1"}


def read_options() -> dict[str, list[tuple[str, str]]]:
    groups: dict[str, list[tuple[str, str]]] = {}
    group = ""
    for line in OPTIONS_FILE.read_text("utf-8").splitlines():
        if line.startswith(" "):
            name, kind = line.split()
            groups[group].append((name, TEXTS.get(name) or VALUES.get(kind, "5")))
        elif not line.startswith("#"):
            group = line
            groups[group] = [(name, TEXTS.get(name, "5")) for name in BESIDE.get(group, [])]
    return groups


OPTIONS: Final = read_options()


def of(prefix: str, *groups: str) -> list[str]:
    """Return the options of some groups as they stand in a URI."""
    return [f"{prefix}{name}={value}" for group in groups for name, value in OPTIONS[group]]


def told(uri: str, element: str = "networkConnector") -> list[str]:
    document = f'<broker><{element}s><{element} uri="{uri.replace("&", "&amp;")}"/></{element}s></broker>'
    try:
        return list(read_configuration(document.encode(), Path("a.xml"), {}, {}).warnings)
    except RefusedConfigurationError as error:
        return [*str(error).splitlines(), *error.warnings]


def of_a_client(url: str) -> list[str]:
    try:
        parse_url(url)
    except (ConfigurationError, JmsError) as error:
        return [str(error)]
    return []


def documents() -> Iterator[tuple[str, list[str]]]:
    """Yield each URI with one option, and what is told about it."""
    for option in [*of("", "listener", "socket"), *of("transport.", "socket"), *of("wireFormat.", "wireFormat")]:
        for scheme in ("tcp", "nio", "ssl", "stomp", "auto"):
            if scheme == "auto" or "protocolDetection" not in option:
                uri = f"{scheme}://127.0.0.1:1?{option}"
                yield uri, told(uri, "transportConnector")
    for option in [*of("", "tls"), *of("transport.", "tls")]:
        yield option, told(f"ssl://127.0.0.1:1?{option}", "transportConnector")
    for option in [*of("", "socket"), *of("wireFormat.", "wireFormat"), *of("socket.", "socket")]:
        yield option, told(f"static:(tcp://h:1?{option})")
    for option in of("", "static"):
        yield option, told(f"static:(tcp://h:1)?{option}")
    for option in of("", "failover"):
        yield option, told(f"static:(failover:(tcp://h:1,tcp://h:2)?{option})")
    for option in of("", "multicast"):
        yield option, told(f"multicast://default?{option}")


def urls() -> Iterator[tuple[str, list[str]]]:
    """Yield each URL of a client with one option, and what is told about it."""
    for group in ("jms", "jms.prefetchPolicy", "jms.redeliveryPolicy", "jms.blobTransferPolicy"):
        for option in of(f"{group}.", group):
            yield option, of_a_client(f"tcp://h:1?{option}")
            yield option, of_a_client(f"failover:(tcp://h:1)?{option}")
    for option in [*of("", "socket"), *of("socket.", "socket"), *of("wireFormat.", "wireFormat")]:
        yield option, of_a_client(f"tcp://h:1?{option}")
    for option in of("", "failover"):
        yield option, of_a_client(f"failover:(tcp://h:1)?{option}")
    for option in of("", "fanout"):
        yield option, of_a_client(f"fanout:(tcp://h:1,tcp://h:2)?{option}")
    for option in of("", "multicast"):
        yield option, of_a_client(f"discovery:(multicast://default?{option})")
    for option in of("", "vm"):
        name, _, value = option.partition("=")
        try:
            parse_vm_url("vm://b", {name: "true" if value == "5" and name == "create" else value})
        except JmsError as error:
            yield option, [str(error)]
    for option in of("consumer.", "consumer"):
        try:
            parsed(f"queue://Q?{option}")
        except ConfigurationError as error:
            yield option, [str(error)]


def test_no_option_of_a_configuration_is_unknown() -> None:
    found = list(documents())
    assert len(found) > 300
    assert [(uri, line) for uri, lines in found for line in lines if UNKNOWN.search(line)] == []


def test_no_option_of_a_client_is_unknown() -> None:
    found = list(urls())
    assert len(found) > 150
    assert [(uri, line) for uri, lines in found for line in lines if UNKNOWN.search(line)] == []


def test_an_option_without_a_warning_is_read_somewhere() -> None:
    """A word that is accepted silently and read by nobody is a promise that is not kept."""
    readers = "".join(
        path.read_text("utf-8")
        for path in (SOURCES / "protocols", SOURCES / "service", SOURCES / "transports")
        for path in path.rglob("*.py")
        if path.name not in ("uri_options.py", "remote_options.py", "failover_options.py")
    )
    tables = (
        uri_options.SOCKET,
        uri_options.WIRE_FORMAT,
        uri_options.STOMP,
        uri_options.TLS,
        uri_options.WEBSOCKET,
        uri_options.XMPP,
    )
    unread = [
        name
        for table in (*tables, uri_options.DETECTION, uri_options.TUNNEL)
        for name, (_, only) in table.items()
        if only is None
        and name not in uri_options.WITHOUT_EFFECT
        and f'"{name}"' not in readers
        and f'"{name.removeprefix("wireFormat.")}"' not in readers
    ]
    assert unread == []


@pytest.mark.parametrize(
    ("option", "told_about"),
    [
        ("transport.defaultHeartBeat=5000", "must be two whole numbers"),
        ("transport.defaultHeartBeat=a,b", "must be two whole numbers"),
        ("transport.hbGracePeriodMultiplier=0.5", "must be a number from 1 to 1000"),
        ("transport.hbGracePeriodMultiplier=x", "must be a number from 1 to 1000"),
    ],
)
def test_a_wrong_heart_beat_is_refused(option: str, told_about: str) -> None:
    (line,) = told(f"stomp://127.0.0.1:1?{option}", "transportConnector")
    assert told_about in line


def test_a_misspelt_option_is_found_by_the_same_means() -> None:
    assert UNKNOWN.search(told("tcp://127.0.0.1:1?soLingers=5", "transportConnector")[0])
    assert UNKNOWN.search(told("static:(tcp://h:1?soLingers=5)")[0])
    assert UNKNOWN.search(of_a_client("tcp://h:1?soLingers=5")[0])


def settings_of(uri: str) -> tuple[object, ...]:
    findings = Findings("a.xml")
    found = connector_settings(uri, None, 1, findings)
    assert found is not None and findings.warnings == ()
    return found.tcp_no_delay, found.traffic_class, found.max_inactivity_ms


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", (True, 0, 30_000)),
        ("tcpNoDelay=false", (False, 0, 30_000)),
        ("transport.typeOfService=8", (True, 8, 30_000)),
        ("transport.diffServ=EF", (True, 184, 30_000)),
        ("transport.useInactivityMonitor=false", (True, 0, 0)),
    ],
)
def test_a_connector_has_its_options(query: str, expected: tuple[object, ...]) -> None:
    assert settings_of(f"tcp://127.0.0.1:1?{query}") == expected


def test_a_limit_of_a_connector_above_the_highest_is_told() -> None:
    findings = Findings("b.xml")
    uri = "tcp://127.0.0.1:1?maximumConnections=10001&wireFormat.maxFrameSize=105906177&connectAttemptTimeout=600001"
    settings = connector_settings(uri, None, 3, findings)
    assert settings is not None
    assert (settings.maximum_connections, settings.max_frame_size, settings.login_timeout) == (10_000, 105906176, 600)
    assert findings.warnings == (
        "b.xml:3: maximumConnections of tcp://127.0.0.1:1?… is 10001; the highest value 10000 is used",
        "b.xml:3: wireFormat.maxFrameSize of tcp://127.0.0.1:1?… is 105906177; the highest value 105906176 is used",
        "b.xml:3: connectAttemptTimeout of tcp://127.0.0.1:1?… is 600001; the highest value 600000 is used",
    )
    lower = Findings("b.xml")
    connector_settings(uri.replace("10001", "10000").replace("177", "176").replace("001", "000"), None, 3, lower)
    assert lower.warnings == ()


def test_the_class_of_traffic_of_a_link_is_that_of_its_address() -> None:
    uri = parse_uri("tcp://h:1?socket.diffServ=AF11", pytest.fail)
    assert uri is not None
    assert RemoteOptions(uri, 1, Findings("a.xml")).socket_options().traffic_class == 40


def test_the_class_of_traffic_of_a_client_is_that_of_its_url() -> None:
    (address,) = parse_url("tcp://h:1?typeOfService=16&useInactivityMonitor=false").addresses
    assert (address.settings.traffic_class, address.settings.wire_format.max_inactivity_ms) == (16, 0)


@pytest.mark.parametrize(
    ("type_of_service", "diff_serv", "expected"),
    [
        (None, None, 0),
        ("255", None, 255),
        (None, "63", 252),
        (None, "cs1", 32),
        (None, "AF43", 152),
        (None, "AF44", "must be a number from 0 to 63 or a name such as EF"),
        (None, "64", "must be a number from 0 to 63"),
        ("256", None, "must be a number from 0 to 255"),
        ("-1", None, "must be a number from 0 to 255"),
        ("1", "EF", "exclude each other"),
    ],
)
def test_a_class_of_traffic_is_a_number_or_a_name(
    type_of_service: str | None, diff_serv: str | None, expected: int | str
) -> None:
    if isinstance(expected, int):
        assert traffic_class(type_of_service, diff_serv) == expected
    else:
        with pytest.raises(ConfigurationError, match=expected):
            traffic_class(type_of_service, diff_serv)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("tcp://h:1?jms.strictCompliance=true", "the API is not that of Java; remove it"),
        ("tcp://h:1?soWriteTimeout=5", "write jms.sendTimeout"),
        ("failover:(tcp://h:1)?updateURIsURL=file:/x", "write the brokers into the list"),
        ("failover:(tcp://h:1)?nestedExtraQueryOptions=a=b", "write nested.NAME=VALUE"),
    ],
)
def test_a_client_says_why_it_refuses_a_value_and_what_to_do(url: str, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(advice)):
        parse_url(url)
