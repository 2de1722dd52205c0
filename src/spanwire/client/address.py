"""Broker URLs of a client: ``tcp://host:port?options``, ``ssl:``, ``vm:``, ``peer:``, ``failover:(a,b)?options`` and
``discovery:(agent)?options``, where the agent is ``multicast://default?group=name`` or a list, ``static:(a,b)``.

Options of the client itself (``jms.…``) stand at the outermost URL; ``nested.…`` of a failover URL hold for each of its
addresses. A URL in an error shows neither user, password nor option values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from spanwire.client.options import (
    DISCOVERY,
    FAILOVER,
    JMS,
    MAX_WORD,
    NO_RECONNECT,
    SOCKET,
    SOCKET_PREFIX,
    TLS,
    WIRE_FORMAT,
    ClientSettings,
    Known,
    Options,
    ReconnectPolicy,
    SocketSettings,
    client_settings,
    reconnect_policy,
    socket_settings,
)
from spanwire.discovery.address import read_address
from spanwire.discovery.group import OPTIONS as GROUP_OPTIONS
from spanwire.discovery.group import SCHEME as MULTICAST
from spanwire.discovery.group import MulticastSettings, parse_multicast
from spanwire.model.errors import ConfigurationError

MAX_URL: Final = 4_096  # characters
MAX_OPTIONS: Final = 64
MAX_ADDRESSES: Final = 64  # of one failover URL
PLAIN_SCHEMES: Final = ("tcp", "nio", "auto", "auto+nio")
TLS_SCHEMES: Final = ("ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl")
IN_PROCESS_SCHEMES: Final = ("vm", "peer")
FAILOVER_SCHEME: Final = "failover"
DISCOVERY_SCHEME: Final = "discovery"
LIST_SCHEMES: Final = ("static", "simple")
LATER_AGENTS: Final = ("fabric", "http", "https", "masterslave", "rendezvous", "zeroconf")
LATER_SCHEMES: Final = ("fanout", "http", "https", "ws", "wss")
DISCOVERED_PREFIX: Final = "discovered."
JMS_PREFIX: Final = "jms."
NESTED_PREFIX: Final = "nested."

AUTHORITY: Final = re.compile(r"//(?:\[([0-9A-Fa-f:.%]+)\]|([\w.\-]*))(?::([0-9]{1,5}))?/?", re.ASCII)
SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+]*", re.ASCII)
OPTION: Final = re.compile(r"[A-Za-z][A-Za-z0-9.]*", re.ASCII)
ALL_OPTIONS: Final = re.compile(r"\?.*", re.DOTALL)
NESTED_OPTIONS: Final = re.compile(
    r"\?.*?(?=,\s*[A-Za-z][A-Za-z0-9+]*://|\)\?|\)?\s*$)", re.DOTALL
)  # up to the next address
USER: Final = re.compile(r"//(?:(?!,\s*[A-Za-z][A-Za-z0-9+]*://).)*@", re.DOTALL)
AFTER_SLASHES: Final = re.compile(r"//[^?,()]*")


@dataclass(frozen=True)
class BrokerAddress:
    """One broker. ``url`` is what the caller wrote, without options; those of a transport in this process are in
    ``options``, unread.
    """

    scheme: str
    url: str
    host: str = ""
    port: int = 0
    settings: SocketSettings = field(default_factory=SocketSettings)
    options: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_secure(self) -> bool:
        """Whether the socket speaks TLS."""
        return self.scheme in TLS_SCHEMES

    @property
    def is_in_process(self) -> bool:
        """Whether there is no socket at all."""
        return self.scheme in IN_PROCESS_SCHEMES


@dataclass(frozen=True)
class BrokerUrl:
    """Everything that a URL says. With ``group`` the addresses are those that are announced there; each has the options
    ``discovered``, and the login is sent to those whom TLS has verified, or to anybody if ``sends_login``.
    """

    addresses: tuple[BrokerAddress, ...]
    reconnect: ReconnectPolicy
    settings: ClientSettings
    group: MulticastSettings | None = None
    discovered: dict[str, str] = field(default_factory=dict, repr=False)
    sends_login: bool = False


def parse_url(
    text: str, user_name: str | None = None, password: str | None = None, client_id: str | None = None
) -> BrokerUrl:
    """Read a URL; credentials given beside it go before those in it. Raises `ConfigurationError` in one line."""
    if len(text) > MAX_URL:
        raise ConfigurationError(f"a broker URL of {len(text)} characters is longer than {MAX_URL}")
    scheme, rest, query = split_url(text.strip())
    given = options_of(query, text)
    jms = {name: value for name, value in given.items() if name.startswith(JMS_PREFIX)}
    others = {name: value for name, value in given.items() if not name.startswith(JMS_PREFIX)}
    if scheme in LIST_SCHEMES:
        scheme, rest = DISCOVERY_SCHEME, f"{scheme}:{rest}"
    if scheme == DISCOVERY_SCHEME:
        discovered = {name: value for name, value in others.items() if is_discovered_option(name)}
        outer = {name: value for name, value in given.items() if name not in discovered}
        return discovery_url(rest, discovered, outer, text, (user_name, password, client_id))
    if scheme != FAILOVER_SCHEME:
        address = broker_address(scheme, rest, others, text, JMS)
        settings = client_settings(Options(redacted(text), jms, JMS), user_name, password, client_id)
        return BrokerUrl((address,), NO_RECONNECT, settings)
    nested = {
        name.removeprefix(NESTED_PREFIX): value for name, value in others.items() if name.startswith(NESTED_PREFIX)
    }
    outer = {name: value for name, value in given.items() if not name.startswith(NESTED_PREFIX)}
    options = Options(redacted(text), outer, {**FAILOVER, **JMS})
    settings = client_settings(options, user_name, password, client_id)
    return BrokerUrl(failover_addresses(rest, nested, text), reconnect_policy(options), settings)


def is_discovered_option(name: str) -> bool:
    """Whether an option of a discovery URL holds for each address that is found."""
    return name.startswith(DISCOVERED_PREFIX) or name.removeprefix(SOCKET_PREFIX) in {**SOCKET, **WIRE_FORMAT}


def discovery_url(
    rest: str,
    discovered: dict[str, str],
    outer: dict[str, str],
    text: str,
    login: tuple[str | None, str | None, str | None],
) -> BrokerUrl:
    """``discovery:(agent)?options``: the options are those of failover, and those of each address."""
    inner = rest.removeprefix("//")
    if inner.startswith("(") and inner.endswith(")"):
        inner = inner[1:-1]
    agent, _, listed = inner.strip().partition(":")
    agent = agent.lower()
    of_agent = {name: value for name, value in outer.items() if name in GROUP_OPTIONS}
    given = {name: value for name, value in outer.items() if name not in of_agent}
    options = Options(redacted(text), given, {**FAILOVER, **DISCOVERY, **JMS})
    settings = client_settings(options, login[0], login[1], login[2])
    of_each = {name.removeprefix(DISCOVERED_PREFIX): value for name, value in discovered.items()}
    reconnect = reconnect_policy(options)
    if agent in LIST_SCHEMES:
        return BrokerUrl(failover_addresses(listed, of_each, text), reconnect, settings)
    if agent in LATER_AGENTS:
        raise ConfigurationError(f"{redacted(text)}: the agent {agent} is not yet supported; write multicast://default")
    if agent != MULTICAST:
        raise ConfigurationError(f"{redacted(text)!r} names no agent; write discovery:(multicast://default)")
    joined = "&".join([f"{name}={value}" for name, value in of_agent.items()])
    group = parse_multicast(inner + ("&" if "?" in inner else "?") + joined if joined else inner)
    broker_address("tcp", "//h:1", of_each, text, {})  # the options of each have to be right before one is found
    return BrokerUrl((), reconnect, settings, group, of_each, options.flag("sendLoginToDiscovered", False))


def found_address(uri: str, url: BrokerUrl) -> BrokerAddress | None:
    """What was announced, with the options of the URL; None for what the client cannot or, for the sake of its login,
    must not use unless TLS verifies it: see `BrokerAddress.is_secure`.
    """
    address = read_address(uri)
    if address is None:
        return None
    return broker_address(address.scheme, address.uri.partition(":")[2], url.discovered, address.uri, {})


def split_url(text: str) -> tuple[str, str, str]:
    """Scheme, what follows its colon, and the options behind the first question mark outside of parentheses."""
    scheme, colon, rest = text.partition(":")
    if not colon or not SCHEME.fullmatch(scheme):
        raise ConfigurationError(f"{redacted(text)!r} is no broker URL; write tcp://host:61616")
    depth = 0
    for place, character in enumerate(rest):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "?" and depth == 0 and not (scheme.lower() == FAILOVER_SCHEME and is_bare_list(rest)):
            return scheme.lower(), rest[:place], rest[place + 1 :]
    if depth:
        raise ConfigurationError(f"{redacted(text)!r} has parentheses that do not match")
    return scheme.lower(), rest, ""


def is_bare_list(rest: str) -> bool:
    """``failover:tcp://a:1?x=y,tcp://b:2``: without parentheses all options belong to the addresses."""
    return not rest.removeprefix("//").startswith("(")


def failover_addresses(rest: str, nested: dict[str, str], text: str) -> tuple[BrokerAddress, ...]:
    """The addresses of a failover URL."""
    inner = rest.removeprefix("//")
    if inner.startswith("("):
        if not inner.endswith(")"):
            raise ConfigurationError(f"{redacted(text)!r}: write failover:(tcp://a:61616,tcp://b:61616)?options")
        inner = inner[1:-1]
    parts = [part.strip() for part in inner.split(",") if part.strip()]
    if not parts or len(parts) > MAX_ADDRESSES:
        raise ConfigurationError(f"{redacted(text)!r} names {len(parts)} brokers, one to {MAX_ADDRESSES} are possible")
    found: list[BrokerAddress] = []
    for part in parts:
        scheme, address, query = split_url(part)
        if scheme == FAILOVER_SCHEME:
            raise ConfigurationError(f"{redacted(text)!r}: failover stands inside failover")
        found.append(broker_address(scheme, address, {**nested, **options_of(query, part)}, part, {}))
    return tuple(found)


def broker_address(scheme: str, rest: str, given: dict[str, str], text: str, outer: Known) -> BrokerAddress:
    """One address with its options; ``outer`` are the options that may stand beside them, for hints."""
    shown = redacted(text)
    if scheme in IN_PROCESS_SCHEMES:
        wire_options = {name: value for name, value in given.items() if name.startswith("wireFormat.")}
        settings = socket_settings(Options(shown, wire_options, WIRE_FORMAT), "")
        transport = {name: value for name, value in given.items() if not name.startswith("wireFormat.")}
        return BrokerAddress(scheme, f"{scheme}:{rest}", rest.strip("/"), 0, settings, transport)
    if scheme in LATER_SCHEMES:
        raise ConfigurationError(f"{shown}: {scheme} is not yet supported by the client; write tcp://host:port")
    if scheme not in PLAIN_SCHEMES and scheme not in TLS_SCHEMES:
        raise ConfigurationError(f"{shown}: the client speaks OpenWire; write tcp://host:port or ssl://host:port")
    found = AUTHORITY.fullmatch(rest)
    if found is None:
        raise ConfigurationError(f"{shown!r} is no broker URL; write {scheme}://host:61616")
    if found.group(3) is None:
        raise ConfigurationError(f"{shown} names no port; write {scheme}://host:61616")
    if not 0 < int(found.group(3)) <= 65535:
        raise ConfigurationError(f"the port of {shown!r} is not between 1 and 65535")
    host = found.group(1) or found.group(2) or "localhost"
    known: Known = {**SOCKET, **WIRE_FORMAT, **(TLS if scheme in TLS_SCHEMES else {})}
    plain = {name.removeprefix(SOCKET_PREFIX): value for name, value in given.items()}
    for name in plain:
        if name not in known and name in TLS:
            raise ConfigurationError(f"{shown}: {name} is an option of ssl://")
    options = Options(shown, plain, {**known, **dict.fromkeys(outer, ("a text", ""))})
    return BrokerAddress(scheme, f"{scheme}:{rest}", host, int(found.group(3)), socket_settings(options, host))


def options_of(query: str, text: str) -> dict[str, str]:
    """``a=1&b=2``; ``wireformat.`` of older documents is read as ``wireFormat.``."""
    options: dict[str, str] = {}
    pairs = [pair for pair in query.split("&") if pair]
    if len(pairs) > MAX_OPTIONS:
        raise ConfigurationError(f"{redacted(text)!r} has more than {MAX_OPTIONS} options")
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not OPTION.fullmatch(name):
            raise ConfigurationError(f"{redacted(text)!r}: an option's name holds more than letters, digits and dots")
        if "wireformat." in name:
            name = name.replace("wireformat.", "wireFormat.")
        options[name] = unquote(value).strip()
    return options


def redacted(text: str) -> str:
    """A URL for people: without user, password and option values, and cut when it is long.

    Secrets may hold commas, slashes, question marks and parentheses; what is in doubt is not shown.
    """
    is_list = text.strip().lower().startswith((FAILOVER_SCHEME, DISCOVERY_SCHEME, *LIST_SCHEMES))
    shown = (NESTED_OPTIONS if is_list else ALL_OPTIONS).sub("?…", text)
    shown = USER.sub("//…@", shown)
    if "@" in text:
        shown = AFTER_SLASHES.sub(_shown_authority, shown)
    shown = "".join([character if character.isprintable() else " " for character in shown])
    return shown if len(shown) <= 2 * MAX_WORD else shown[: 2 * MAX_WORD] + "…"


def _shown_authority(found: re.Match[str]) -> str:
    authority = found.group(0)
    return authority if authority.startswith("//…@") or AUTHORITY.fullmatch(authority) else "//…"
