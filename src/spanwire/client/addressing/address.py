"""Broker URLs: ``tcp://host:port?options``, ``ssl:``, ``vm:``, ``peer:``, and lists of addresses.

Lists are ``failover:(a,b)?options``, ``fanout:(a,b)?options`` and ``discovery:(agent)?options``, and may be nested. The
agent is ``multicast://default?group=name``, ``zeroconf://name``, ``fabric://name``, or a list ``static:(a,b)`` or
``masterslave:(a,b)``.

Options of the client (``jms.…``) belong to the outermost URL. Options ``nested.…`` or ``discovered.…`` of a list apply
to each of its addresses. Errors never show user, password or option values of a URL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.client.addressing.options import (
    JMS,
    MAX_NUMBER,
    SOCKET,
    SOCKET_PREFIX,
    TLS,
    WIRE_FORMAT,
    ClientSettings,
    Known,
    Options,
    SocketSettings,
    client_settings,
    socket_settings,
)
from spanwire.client.addressing.reconnect_policy import (
    DISCOVERY,
    FAILOVER,
    FANOUT,
    NO_RECONNECT,
    FanoutPolicy,
    ReconnectPolicy,
    fanout_policy,
    reconnect_policy,
)
from spanwire.client.addressing.redaction import AUTHORITY, redacted
from spanwire.discovery.addresses.address import read_address
from spanwire.discovery.addresses.composite import Composite, parse_composite, parse_options
from spanwire.discovery.groups.agent_names import AGENTS
from spanwire.discovery.groups.agent_names import OPTIONS as GROUP_OPTIONS
from spanwire.model.errors import ConfigurationError

if TYPE_CHECKING:
    from spanwire.discovery.groups.agent_settings import AgentSettings

MAX_URL: Final = 4_096  # characters
MAX_ADDRESSES: Final = 64  # addresses of one failover URL
PLAIN_SCHEMES: Final = ("tcp", "nio", "auto", "auto+nio", "http")
TLS_SCHEMES: Final = ("ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl", "https")
PLAIN_PORT: Final = 61616  # port of ActiveMQ's OpenWire connector
TLS_PORT: Final = 61617
WEB_PORTS: Final = {"http": 80, "https": 443}
FANOUT_SCHEME: Final = "fanout"
IN_PROCESS_SCHEMES: Final = ("vm", "peer", FANOUT_SCHEME)
FAILOVER_SCHEME: Final = "failover"
DISCOVERY_SCHEME: Final = "discovery"
MASTER_SLAVE: Final = "masterslave"
LIST_SCHEMES: Final = ("static", "simple", MASTER_SLAVE)
# Schemes that the client does not support, with advice.
OTHERS: Final[dict[str, str]] = {
    "udp": "a datagram may be lost without an answer; write tcp://host:port",
    **dict.fromkeys(
        ("ws", "wss"), "WebSocket is for STOMP in browsers: this client speaks OpenWire; write tcp:// or ssl://"
    ),
    **dict.fromkeys(
        ("stomp", "stomp+nio", "stomp+ssl", "stomp+nio+ssl"),
        "STOMP is for other clients: this one speaks OpenWire; write tcp://host:port or ssl://host:port",
    ),
    **dict.fromkeys(
        ("broker", "properties", "xbean"), "it configures a broker; write vm:(broker:(…)) or vm://NAME?brokerConfig=…"
    ),
    **dict.fromkeys(set(AGENTS) - set(registry.TUNNEL_SCHEMES), "an agent is no transport; write discovery:(agent)"),
}
DISCOVERED_PREFIX: Final = "discovered."
JMS_PREFIX: Final = "jms."
NESTED_PREFIX: Final = "nested."
BROKER_URI: Final = "(broker)"  # key of the URI inside of vm:(…); no option of a URL can have this name


@dataclass(frozen=True)
class BrokerAddress:
    """Address of one broker. ``url`` is the URL without options.

    ``options`` are those of a transport in this process. ``inner`` are the brokers of a ``fanout:`` URL, which is a
    single address for the connection.
    """

    scheme: str
    url: str
    host: str = ""
    port: int = 0
    settings: SocketSettings = field(default_factory=SocketSettings)
    options: dict[str, str] = field(default_factory=dict, repr=False)
    inner: BrokerUrl | None = field(default=None, repr=False)

    @property
    def is_secure(self) -> bool:
        """True if the socket uses TLS."""
        return self.scheme in TLS_SCHEMES

    @property
    def is_tunnelled(self) -> bool:
        """True if OpenWire passes as XML over HTTP."""
        return self.scheme in registry.TUNNEL_SCHEMES

    @property
    def is_in_process(self) -> bool:
        """True if the address needs no socket."""
        return self.scheme in IN_PROCESS_SCHEMES


@dataclass(frozen=True)
class BrokerUrl:
    """Parsed broker URL.

    With a ``group`` the addresses are discovered, and get the options ``discovered``. The login is sent to brokers
    verified by TLS only, unless ``sends_login`` is True.
    """

    addresses: tuple[BrokerAddress, ...]
    reconnect: ReconnectPolicy
    settings: ClientSettings
    group: AgentSettings | None = None
    discovered: dict[str, str] = field(default_factory=dict, repr=False)
    sends_login: bool = False
    fanout: FanoutPolicy | None = None

    @property
    def may_use_tls(self) -> bool:
        """True if TLS may be used, so that key and trust stores make sense."""
        if self.group is not None:
            return True
        for address in self.addresses:
            if address.is_secure or (address.inner is not None and address.inner.may_use_tls):
                return True
        return False


class Login:
    """Credentials given beside a URL."""

    def __init__(self, user_name: str | None, password: str | None, client_id: str | None) -> None:
        self.user_name: Final[str | None] = user_name
        self.password: Final[str | None] = password
        self.client_id: Final[str | None] = client_id

    def settings(self, options: Options) -> ClientSettings:
        """Return the client settings of the URL, overridden by the credentials."""
        return client_settings(options, self.user_name, self.password, self.client_id)


def parse_url(
    text: str, user_name: str | None = None, password: str | None = None, client_id: str | None = None
) -> BrokerUrl:
    """Parse a broker URL.

    Credentials override those in the URL. Raises `ConfigurationError` with one line.
    """
    if len(text) > MAX_URL:
        raise ConfigurationError(f"a broker URL of {len(text)} characters is longer than {MAX_URL}")
    login = Login(user_name, password, client_id)
    composite_url = composite(text, text)
    if composite_url.scheme == FANOUT_SCHEME:
        return fanout_url(composite_url, text, login)
    if composite_url.scheme == DISCOVERY_SCHEME:
        return discovery_url(composite_url, text, login)
    if composite_url.scheme == FAILOVER_SCHEME or composite_url.scheme in LIST_SCHEMES:
        return list_url(composite_url, text, login, FAILOVER, composite_url.scheme)
    jms, others = split_options(composite_url.options, JMS_PREFIX)
    address = broker_address(composite_url, others, text, JMS)
    return BrokerUrl((address,), NO_RECONNECT, login.settings(Options(redacted(text), jms, JMS)))


def composite(part: str, text: str, depth: int = 0) -> Composite:
    """Parse one level of a URL. Errors show the whole ``text`` without secrets."""
    try:
        return parse_composite(part, depth)
    except ConfigurationError as error:
        raise ConfigurationError(f"{redacted(text)!r} is no broker URL: {error}") from None


def split_options(options: dict[str, str], prefix: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options with a prefix, and the other options."""
    chosen = {name: value for name, value in options.items() if name.startswith(prefix)}
    return chosen, {name: value for name, value in options.items() if name not in chosen}


def is_option_of_each(name: str) -> bool:
    """Return True if an option of a list or of discovery applies to each address."""
    if name.startswith((DISCOVERED_PREFIX, NESTED_PREFIX)):
        return True
    return name.removeprefix(SOCKET_PREFIX) in SOCKET or name in WIRE_FORMAT


def each_options(options: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of each address, without their prefix, and the options of the list itself."""
    each = {
        name.removeprefix(DISCOVERED_PREFIX).removeprefix(NESTED_PREFIX): value
        for name, value in options.items()
        if is_option_of_each(name)
    }
    return each, {name: value for name, value in options.items() if not is_option_of_each(name)}


def list_url(composite_url: Composite, text: str, login: Login, known: Known, scheme: str) -> BrokerUrl:
    """Return a URL ``failover:(a,b)?options``, or a list of the same meaning.

    ``scheme`` decides the order of the addresses.
    """
    each, outer = each_options(composite_url.options)
    options = Options(redacted(text), outer, {**known, **JMS})
    addresses = list_addresses(composite_url, each, text, 0)
    if scheme == MASTER_SLAVE and len(addresses) < 2:
        raise ConfigurationError(f"{redacted(text)}: masterslave needs two brokers at least")
    is_discovery = known is not FAILOVER
    policy = reconnect_policy(options, scheme != MASTER_SLAVE, is_discovery)
    return BrokerUrl(addresses, policy, login.settings(options))


def discovery_url(composite_url: Composite, text: str, login: Login) -> BrokerUrl:
    """Return a URL ``discovery:(agent)?options``, with the options of failover and of each address."""
    if len(composite_url.parts) != 1:
        raise ConfigurationError(f"{redacted(text)!r} names no agent; write discovery:(multicast://default)")
    inner = composite(composite_url.parts[0], text, 1)
    known = {**FAILOVER, **DISCOVERY}
    if inner.scheme in LIST_SCHEMES:
        merged = Composite(inner.scheme, "", True, inner.parts, inner.path, {**inner.options, **composite_url.options})
        return list_url(merged, text, login, known, inner.scheme)
    if inner.scheme not in AGENTS:
        raise ConfigurationError(f"{redacted(text)!r} names no agent; write discovery:(multicast://default)")
    each, outer = each_options(composite_url.options)
    group, outer = agent_of(composite_url.parts[0], outer, text)
    options = Options(redacted(text), outer, {**known, **JMS})
    check_options_of_each(each, text)
    sends_login = options.flag("sendLoginToDiscovered", False)
    return BrokerUrl((), reconnect_policy(options), login.settings(options), group, each, sends_login)


def fanout_url(composite_url: Composite, text: str, login: Login) -> BrokerUrl:
    """Return a URL ``fanout:(agent)?options``.

    For the connection the URL is a single address, whose ``inner`` are all brokers.
    """
    each, outer = each_options(composite_url.options)
    group: AgentSettings | None = None
    addresses: tuple[BrokerAddress, ...] = ()
    inner = composite(composite_url.parts[0], text, 1)
    if inner.scheme == DISCOVERY_SCHEME and len(composite_url.parts) == 1 and len(inner.parts) == 1:
        composite_url = inner
        outer = {**inner.options, **outer}
        inner = composite(composite_url.parts[0], text, 2)
    if inner.scheme in AGENTS and len(composite_url.parts) == 1:
        group, outer = agent_of(composite_url.parts[0], outer, text)
        check_options_of_each(each, text)
    else:
        addresses = list_addresses(Composite(FANOUT_SCHEME, "", True, composite_url.parts), each, text, 0)
    options = Options(redacted(text), outer, {**FANOUT, **DISCOVERY, **JMS})
    policy = fanout_policy(options)
    if addresses and len(addresses) < policy.min_ack_count:
        raise ConfigurationError(
            f"{redacted(text)}: minAckCount={policy.min_ack_count} needs so many brokers, {len(addresses)} are named"
        )
    settings = login.settings(options)
    sends_login = options.flag("sendLoginToDiscovered", False)
    brokers = BrokerUrl(addresses, reconnect_policy(options), settings, group, each, sends_login, policy)
    wait = SocketSettings(connect_timeout_ms=MAX_NUMBER)  # until minAckCount brokers are connected
    one = BrokerAddress(FANOUT_SCHEME, redacted(text), settings=wait, inner=brokers)
    return BrokerUrl((one,), NO_RECONNECT, settings)


def agent_of(part: str, outer: dict[str, str], text: str) -> tuple[AgentSettings, dict[str, str]]:
    """Return the agent with its options in the outer URL, and the other outer options."""
    of_agent = {name: value for name, value in outer.items() if name in GROUP_OPTIONS}
    joined = "&".join([f"{name}={value}" for name, value in of_agent.items()])
    if joined:
        part += ("&" if "?" in part else "?") + joined
    parse_agent = cast("Callable[[str], AgentSettings]", registry.load(registry.PARSE_AGENT))
    try:
        group = parse_agent(part)
    except ConfigurationError as error:
        raise ConfigurationError(f"{redacted(text)}: {error}") from None
    return group, {name: value for name, value in outer.items() if name not in of_agent}


def check_options_of_each(each: dict[str, str], text: str) -> None:
    """Check the options of each address before a broker is discovered."""
    broker_address(Composite("tcp", "//h:1"), each, text, {})


def discovered_address(uri: str, url: BrokerUrl) -> BrokerAddress | None:
    """Return an announced address with the options of the URL, or None for an unsupported protocol."""
    address = read_address(uri)
    if address is None:
        return None
    composite_url = Composite(address.scheme, address.uri.partition(":")[2])
    return broker_address(composite_url, url.discovered, address.uri, {})


def list_addresses(composite_url: Composite, each: dict[str, str], text: str, depth: int) -> tuple[BrokerAddress, ...]:
    """Return the addresses of a list and of its inner lists."""
    addresses: list[BrokerAddress] = []
    for part in composite_url.parts:
        inner = composite(part, text, depth + 1)
        if inner.scheme in (FAILOVER_SCHEME, DISCOVERY_SCHEME) or inner.scheme in LIST_SCHEMES:
            of_each, own = each_options(inner.options)
            if own:
                name = next(iter(own))
                raise ConfigurationError(f"{redacted(text)}: the option {name[:60]} belongs to the outermost list")
            addresses += list_addresses(inner, {**each, **of_each}, text, depth + 1)
        elif inner.scheme == FANOUT_SCHEME:
            raise ConfigurationError(f"{redacted(text)}: fanout stands inside a list; write it outermost")
        else:
            addresses.append(broker_address(inner, {**each, **inner.options}, part, {}))
    if not addresses or len(addresses) > MAX_ADDRESSES:
        raise ConfigurationError(
            f"{redacted(text)!r} names {len(addresses)} brokers, one to {MAX_ADDRESSES} are possible"
        )
    return tuple(addresses)


def broker_address(composite_url: Composite, options_by_name: dict[str, str], text: str, outer: Known) -> BrokerAddress:
    """Return one address with its options.

    ``outer`` are options found beside the address, for hints in errors.
    """
    where = redacted(text)
    scheme, rest = composite_url.scheme, composite_url.address
    if scheme in ("vm", "peer"):
        return in_process_address(composite_url, options_by_name, where)
    if scheme in OTHERS:
        raise ConfigurationError(f"{where}: {OTHERS[scheme]}")
    if scheme not in PLAIN_SCHEMES and scheme not in TLS_SCHEMES:
        raise ConfigurationError(f"{where}: the client speaks OpenWire; write tcp://host:port or ssl://host:port")
    host, port = authority(scheme, "()" if composite_url.is_list else rest, where)
    known: Known = {**SOCKET, **WIRE_FORMAT, **(TLS if scheme in TLS_SCHEMES else {})}
    plain = {name.removeprefix(SOCKET_PREFIX): value for name, value in options_by_name.items()}
    for name in plain:
        if name not in known and name in TLS:
            raise ConfigurationError(f"{where}: {name} is an option of ssl://")
    options = Options(where, plain, {**known, **dict.fromkeys(outer, ("a text", ""))})
    url = f"{scheme}:{rest.rstrip('/')}"
    if not url.endswith(f":{port}"):
        url = f"{url}:{port}"
    return BrokerAddress(scheme, url, host, port, socket_settings(options, host))


def authority(scheme: str, rest: str, where: str) -> tuple[str, int]:
    """Return host and port of ``//host:port``, with the protocol's usual port by default.

    Raises `ConfigurationError`.
    """
    if "@" in rest or "…@" in where:
        raise ConfigurationError(
            f"{where!r} has a user before the host, where a broker URL has none: give user_name= and password= "
            "to connect, or write ?jms.userName=USER&jms.password=PASSWORD behind the URL"
        )
    match = AUTHORITY.fullmatch(rest)
    if match is None or not rest.strip("/"):
        raise ConfigurationError(f"{where!r} is no broker URL; write {scheme}://host:61616")
    usual = WEB_PORTS.get(scheme, TLS_PORT if scheme in TLS_SCHEMES else PLAIN_PORT)
    port = int(match.group(3) or usual)
    if not 0 < port <= 65535:
        raise ConfigurationError(f"the port of {where!r} is not between 1 and 65535")
    return match.group(1) or match.group(2) or "localhost", port


def in_process_address(composite_url: Composite, options_by_name: dict[str, str], where: str) -> BrokerAddress:
    """Return the address ``vm://NAME``, ``vm:(broker:(…)?…)`` or ``peer://group/NAME``.

    The options are for the broker.
    """
    wire_options, transport = split_options(options_by_name, "wireFormat.")
    settings = socket_settings(Options(where, wire_options, WIRE_FORMAT), "")
    if composite_url.is_list:
        if len(composite_url.parts) != 1:
            raise ConfigurationError(
                f"{where}: a {composite_url.scheme}: URL stands for one broker; write vm:(broker:(…)?…)"
            )
        transport = {**transport, BROKER_URI: composite_url.parts[0]}
        return BrokerAddress(composite_url.scheme, where, "", 0, settings, transport)
    return BrokerAddress(
        composite_url.scheme,
        f"{composite_url.scheme}:{composite_url.address}",
        composite_url.address.strip("/"),
        0,
        settings,
        transport,
    )


def options_of(query: str, text: str) -> dict[str, str]:
    """Return the options behind an address or a name. Errors show the text without its passwords."""
    return parse_options(repr(redacted(text)), query)
