"""Interprets URIs of connectors and of the tools' broker: ``scheme://host:port?option=value&…``.

Options have ActiveMQ's spelling; ``wireformat.`` of older documents is read as ``wireFormat.``. Options of later
versions are distinguished from unknown ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from spanwire.model.errors import ConfigurationError
from spanwire.model.traffic_class import traffic_class
from spanwire.protocols.base import LOGIN_DEADLINE, MAX_FRAME_SIZE
from spanwire.registry import AUTO, STARTTLS_SCHEMES, TRANSPORT_SCHEMES, TUNNEL_SCHEMES
from spanwire.registry import DETECTED as DETECTED_PROTOCOLS
from spanwire.service.config.security.tls import NO_STORES, Stores, connector_tls, unknown_option
from spanwire.service.config.tables.uri_options import (
    ALIASES,
    DECIMAL,
    DETECTION,
    FLAG,
    HEART_BEAT,
    LATER_OPTIONS,
    NUMBERS,
    SOCKET,
    STOMP,
    TLS,
    TUNNEL,
    WEBSOCKET,
    WIRE_FORMAT,
    WITHOUT_EFFECT,
    XMPP,
)
from spanwire.service.config.values.diagnostics import MAX_WORD, Findings
from spanwire.service.config.values.values import MAX_LONG, NUMBER, as_flag
from spanwire.tls.settings import TlsSettings
from spanwire.transports.base import ACCEPT_BACKLOG, MAX_CONNECTIONS, WEBSOCKET_SCHEMES, ConnectorSettings

MAX_URI: Final = 4_096  # characters; bounds the work of parsing
MAX_OPTIONS: Final = 64
DEFAULT_INACTIVITY_MS: Final = 30_000
MAX_LOGIN_TIMEOUT: Final = 600.0  # seconds; highest connectAttemptTimeout
# option → the highest value; a limit may be lower, never off
HIGHEST: Final = {
    "maximumConnections": MAX_CONNECTIONS,
    "wireFormat.maxFrameSize": MAX_FRAME_SIZE,
    "connectAttemptTimeout": int(MAX_LOGIN_TIMEOUT * 1000),
}

CLIENT_SCHEMES: Final = frozenset(
    "discovery failover fanout masterslave multicast peer rendezvous simple static zeroconf".split()
)  # schemes for clients and network connectors, not for listening
DATAGRAMS: Final = "datagrams, of which any may be lost without an answer"
# scheme → the feature that it asks for
LATER_SCHEMES: Final[dict[str, str]] = {
    **dict.fromkeys(CLIENT_SCHEMES, "failover and discovery"),
    **dict.fromkeys("amqp amqp+nio amqp+nio+ssl amqp+ssl amqp+ws amqp+wss".split(), "AMQP"),
    **dict.fromkeys("mqtt mqtt+nio mqtt+nio+ssl mqtt+ssl".split(), "MQTT"),
    **dict.fromkeys("udp multicast".split(), DATAGRAMS),
}
LISTENING: Final = "use tcp:// or stomp://, remove it"

MONITOR: Final = "useInactivityMonitor"
SIZES: Final = ("maxFrameSize", "maxDataLength", "websocket.maxTextMessageSize", "websocket.maxBinaryMessageSize")
ANY_ORIGIN: Final = "*"
ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.\-]*://(?:\[[0-9a-f:.]+\]|[\w.\-]+)(?::[0-9]{1,5})?")
DETECTED: Final = {"default": "openwire", "openwire": "openwire", "stomp": "stomp"}  # ActiveMQ's names
LATER_PROTOCOLS: Final = {"amqp": "AMQP", "mqtt": "MQTT", "ws": "WebSocket on a port with other protocols"}
INTERVALS: Final = re.compile(r"[0-9]{1,9}\s*,\s*[0-9]{1,9}", re.ASCII)  # milliseconds
MULTIPLIER: Final = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,6})?", re.ASCII)
OPTION: Final = re.compile(r"[A-Za-z][A-Za-z0-9.]*")
AUTHORITY: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([\w.\-]*))(?::([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class TransportUri:
    """The parts of a transport URI; ``port`` is None if absent. The options may contain secrets."""

    scheme: str
    host: str
    port: int | None
    options: dict[str, str] = field(default_factory=dict, repr=False)


def parse_uri(text: str, report_fault: Callable[[str], None]) -> TransportUri | None:
    """Split a URI into its parts; call ``report_fault`` with a text and return None for an invalid URI."""
    shown = redacted(text)
    scheme, colon, rest = text.strip().partition(":")
    if len(text) > MAX_URI or not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+]*", scheme):
        report_fault(f"{shown!r} is no transport URI; write scheme://host:port")
        return None
    address, _, query = rest.partition("?")
    authority = AUTHORITY.fullmatch(address.removeprefix("//").rstrip("/"))
    if authority is None or not address.startswith("//"):
        report_fault(f"{shown!r} is no transport URI; write scheme://host:port")
        return None
    port = None if authority.group(3) is None else int(authority.group(3))
    if port is not None and port > 65535:
        report_fault(f"the port of {shown!r} is above 65535")
        return None
    options = _options(query, report_fault)
    if options is None:
        return None
    return TransportUri(scheme.lower(), authority.group(1) or authority.group(2) or "", port, options)


def _options(query: str, report_fault: Callable[[str], None]) -> dict[str, str] | None:
    options: dict[str, str] = {}
    pairs = [pair for pair in query.split("&") if pair] if query else []
    if len(pairs) > MAX_OPTIONS:
        report_fault(f"a transport URI has more than {MAX_OPTIONS} options")
        return None
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not OPTION.fullmatch(name):
            report_fault(f"{name[:MAX_WORD]!r} is no name of a transport option")
            return None
        if name.startswith("wireformat."):
            name = "wireFormat." + name.removeprefix("wireformat.")
        options[name] = unquote(value)
    return options


def redacted(text: str) -> str:
    """Return a URI for people: without user, password and option values, shortened if long."""
    without_user = re.sub(r"//[^/?@]*@", "//…@", text)
    address, question, _ = without_user.partition("?")
    shown = address if len(address) <= MAX_WORD else address[:MAX_WORD] + "…"
    return shown + ("?…" if question else "")


def connector_settings(
    text: str, name: str | None, line: int, findings: Findings, stores: Stores = NO_STORES
) -> ConnectorSettings | None:
    """Return the settings of a ``transportConnector``; None, with findings, if unusable.

    ``stores`` are for TLS.
    """
    scheme = text.strip().partition(":")[0].lower()
    if scheme in CLIENT_SCHEMES and (scheme != "multicast" or "(" in text):
        findings.error(line, f"{scheme}: is for clients, no connector can listen there; write tcp://host:port")
        return None
    if scheme in LATER_SCHEMES:
        word = f"the transport {scheme}:// of {redacted(text)}"
        findings.not_yet(line, word, LATER_SCHEMES[scheme], LISTENING)
        return None
    uri = parse_uri(text, lambda reason: findings.error(line, reason))
    if uri is None:
        return None
    protocol = TRANSPORT_SCHEMES.get(uri.scheme)
    if protocol is None:
        findings.unknown(line, "transport", uri.scheme, [*TRANSPORT_SCHEMES, *LATER_SCHEMES], spelt=True)
        return None
    if uri.port is None:
        findings.error(
            line, f"the uri {redacted(text)} names no port; write {uri.scheme}://host:port, 0 for any free one"
        )
        return None
    options = _checked_options(uri, protocol, line, findings)
    protocols = _protocols(options, line, findings) if protocol == AUTO else ()
    if protocols is None:
        return None
    _warn_of_limits(redacted(text), options, line, findings)
    login_timeout = _seconds(options, "connectAttemptTimeout", LOGIN_DEADLINE, MAX_LOGIN_TIMEOUT)
    return ConnectorSettings(
        name=name or f"{uri.scheme}://{uri.host}:{uri.port}",
        scheme=uri.scheme,
        host=uri.host,
        port=uri.port,
        protocol=protocol,
        maximum_connections=min(_number(options, "maximumConnections", MAX_CONNECTIONS), MAX_CONNECTIONS),
        backlog=min(_number(options, "backlog", ACCEPT_BACKLOG), ACCEPT_BACKLOG),
        max_frame_size=_frame_size(options, protocol),
        max_inactivity_ms=_inactivity_ms(options),
        socket_buffer_size=_number(options, "socketBufferSize", 0),
        tcp_no_delay=options.get("tcpNoDelay", "true").lower() == "true",
        traffic_class=_traffic_class(options, line, findings),
        keep_alive=options.get("keepAlive", "false").lower() == "true",
        steals_links=options.get("allowLinkStealing", "false").lower() == "true",
        options=options,
        protocols=protocols,
        login_timeout=login_timeout,
        detection_timeout=_seconds(options, "protocolDetectionTimeOut", login_timeout, login_timeout),
        tls=_tls(uri, f"the connector {redacted(text)}", options, stores, line, findings),
        origins=_origins(options, line, findings),
    )


def _warn_of_limits(word: str, options: dict[str, str], line: int, findings: Findings) -> None:
    """Warn of options above their highest values."""
    for name, highest in HIGHEST.items():
        if _number(options, name, 0) > highest:
            findings.warn(line, f"{name} of {word} is {options[name]}; the highest value {highest} is used")


def _tls(
    uri: TransportUri, word: str, options: dict[str, str], stores: Stores, line: int, findings: Findings
) -> TlsSettings | None:
    """Return the TLS settings of a connector; None without TLS, or with findings.

    A connector with STARTTLS offers it if there is a key store; an option of TLS asks for one.
    """
    offers_tls = uri.scheme in STARTTLS_SCHEMES and (stores.key_store is not None or not TLS.keys().isdisjoint(options))
    return connector_tls(word, options, stores, line, findings) if is_tls(uri) or offers_tls else None


def _inactivity_ms(options: dict[str, str]) -> int:
    """Return the longest silence of a client in milliseconds; 0 without a limit."""
    if options.get(MONITOR, "true").lower() != "true":
        options["wireFormat.maxInactivityDuration"] = "0"  # which the peer is told
    return _number(options, "wireFormat.maxInactivityDuration", DEFAULT_INACTIVITY_MS)


def _traffic_class(options: dict[str, str], line: int, findings: Findings) -> int:
    """Return the class of traffic of accepted sockets; 0, with findings, for a wrong one."""
    try:
        return traffic_class(options.get("typeOfService"), options.get("diffServ"))
    except ConfigurationError as error:
        findings.error(line, str(error))
        return 0


def is_tls(uri: TransportUri) -> bool:
    """Return True if the transport is encrypted."""
    return uri.scheme in ("ssl", "wss", "https") or uri.scheme.endswith("+ssl")


def _origins(options: dict[str, str], line: int, findings: Findings) -> tuple[str, ...]:
    """Return the origins of pages that may open a WebSocket, as browsers write them."""
    origins: list[str] = []
    for name in options.get("websocket.allowedOrigins", "").split(","):
        origin = name.strip().lower().rstrip("/")
        if not origin:
            continue
        if origin != ANY_ORIGIN and ORIGIN.fullmatch(origin) is None:
            advice = "write scheme://host or scheme://host:port, several with commas, or * for all"
            findings.error(line, f"{name.strip()[:MAX_WORD]!r} in websocket.allowedOrigins is no origin; {advice}")
            continue
        origins.append(_without_usual_port(origin))
    return tuple(dict.fromkeys(origins))


def _without_usual_port(origin: str) -> str:
    """Return an origin without the usual port of the scheme, as in browsers (RFC 6454, section 6.2)."""
    for scheme, port in (("http://", ":80"), ("https://", ":443")):
        if origin.startswith(scheme):
            return origin.removesuffix(port)
    return origin


def _protocols(options: dict[str, str], line: int, findings: Findings) -> tuple[str, ...] | None:
    """Return the protocols of a detecting connector: the named protocols, or all without names.

    Returns:
        None if no named protocol is supported, because the connector must not accept other protocols.
    """
    protocols: list[str] = []
    text = options.get("auto.protocols") or options.get("protocols") or ""
    for name in (part.strip().lower() for part in text.split(",")):
        if name in DETECTED:
            protocols.append(DETECTED[name])
        elif name in LATER_PROTOCOLS:
            findings.not_yet(line, f"the protocol {name}", LATER_PROTOCOLS[name])
        elif name:
            findings.unknown(line, "protocol", name, DETECTED, spelt=True)
    if text.strip(" ,"):
        return tuple(dict.fromkeys(protocols)) or None
    return DETECTED_PROTOCOLS


def _seconds(options: dict[str, str], name: str, default: float, highest: float) -> float:
    """Return an option in seconds, within bounds; 0 does not disable a deadline."""
    return min(_number(options, name, 0) / 1000 or default, highest)


def _checked_options(uri: TransportUri, protocol: str, line: int, findings: Findings) -> dict[str, str]:
    """Return the supported options without ``transport.``; report the others."""
    known = {**SOCKET, **WIRE_FORMAT, **(STOMP if protocol in ("stomp", AUTO) else {})}
    known |= XMPP if protocol == "xmpp" else {}
    known |= {
        **(TLS if is_tls(uri) or uri.scheme in STARTTLS_SCHEMES else {}),
        **(DETECTION if protocol == AUTO else {}),
    }
    known |= WEBSOCKET if uri.scheme in WEBSOCKET_SCHEMES else {}
    known |= TUNNEL if uri.scheme in TUNNEL_SCHEMES else {}
    options: dict[str, str] = {}
    for full_name, value in uri.options.items():
        name = ALIASES.get(full_name, full_name.removeprefix("transport."))
        rule = known.get(name)
        if rule is None and name in LATER_OPTIONS:
            findings.not_yet(line, f"the option {full_name}", *LATER_OPTIONS[name])
            continue
        if rule is None:
            unknown_option(uri.scheme, full_name, _spellings(known), line, findings)
            continue
        kind, only = rule
        if not _is_of_kind(kind, value):
            findings.error(line, f"the option {full_name} must be {kind}")
        elif only is not None and value.strip().lower() != only:
            word = f"the option {full_name} with another value than {only}"
            findings.not_yet(line, word, *_feature(name), guards=name in TLS)
        else:
            holds, reason = WITHOUT_EFFECT.get(name, ((value.strip().lower(),), ""))
            if value.strip().lower() not in holds:
                findings.warn(line, f"the option {full_name} has no effect here: {reason}")
            options[name] = value.strip()
    return options


def _feature(name: str) -> tuple[str, str]:
    """Return what another value of an option asks for, and the way round."""
    if name.startswith("wireFormat."):
        return "frames without sizes or a limit, which a stream cannot have", "remove it"
    return "another behaviour of the connector", "remove it"


def _is_of_kind(kind: str, value: str) -> bool:
    """Return True if the value of an option is of its kind."""
    if kind == FLAG:
        return as_flag(value) is not None
    if kind == NUMBERS:
        return _is_number(value)
    if kind == HEART_BEAT:
        return INTERVALS.fullmatch(value.strip()) is not None
    return kind != DECIMAL or (MULTIPLIER.fullmatch(value.strip()) is not None and 1 <= float(value) <= 1000)


def _spellings(known: dict[str, tuple[str, str | None]]) -> list[str]:
    spelt = [*known, *(f"transport.{name}" for name in known if not name.startswith("wireFormat."))]
    return [*spelt, *(alias for alias, name in ALIASES.items() if name in known)]


def _is_number(text: str) -> bool:
    return NUMBER.fullmatch(text.strip()) is not None and abs(int(text)) <= MAX_LONG


def _number(options: dict[str, str], name: str, default: int) -> int:
    text = options.get(name)
    return default if text is None else max(0, int(text))


def _frame_size(options: dict[str, str], protocol: str) -> int:
    asked = [_number(options, "wireFormat.maxFrameSize", MAX_FRAME_SIZE)]
    if protocol in ("stomp", AUTO):
        asked += [_number(options, name, MAX_FRAME_SIZE) for name in SIZES]
    return min([MAX_FRAME_SIZE, *(size for size in asked if size > 0)])
