"""Clocks, random bytes and socket options for both shells, and the errors of connection attempts."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from spanwire.client.addressing.address import BrokerAddress, BrokerUrl
from spanwire.client.protocol.transport.in_process import InProcessTransport
from spanwire.model.environment import Time
from spanwire.model.errors import IllegalStateError, JmsError, ProtocolError
from spanwire.protocols.openwire.codec.other_protocol import OtherProtocolError
from spanwire.registry import CLIENT_TLS, FANOUT, FIND_BROKERS, IN_PROCESS, TLS_REFUSAL, load

if TYPE_CHECKING:
    import ssl

    from spanwire.discovery.groups.agent_settings import AgentSettings
    from spanwire.tls.settings import ClientTlsSettings

READ_BYTES: Final = 256 * 1024
CERTIFICATE_ALERTS: Final = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE")  # parts of the names of OpenSSL
NO_CERTIFICATE: Final = "if the other side asks for a client certificate, name one that it trusts as key store"
CLOCK_JUMP_MS: Final = 5_000  # milliseconds; a system clock that is set back by more is followed


class Forks:
    """Counts the forks above this process, so that a send need not read the process id."""

    def __init__(self) -> None:
        self.count = 0
        self._is_watching = False

    def watch(self) -> int:
        """Start to count, and return the count so far."""
        if not self._is_watching:
            self._is_watching = True
            if hasattr(os, "register_at_fork"):  # Windows has no forks
                os.register_at_fork(after_in_child=self._forked)
        return self.count

    def _forked(self) -> None:
        self.count += 1


FORKS: Final = Forks()


class Machine:
    """`Environment` of this machine. The wall clock does not go back by less than `CLOCK_JUMP_MS`."""

    def __init__(self) -> None:
        self._latest_ms = 0
        self._host_name: Final = host_name()

    @property
    def host_name(self) -> str:
        """Host name for generated ids."""
        return self._host_name

    def now(self) -> Time:
        """Return the time of both clocks."""
        wall_ms = int(time.time() * 1000)
        if wall_ms > self._latest_ms or self._latest_ms - wall_ms > CLOCK_JUMP_MS:
            self._latest_ms = wall_ms
        return Time(time.monotonic(), self._latest_ms)

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes from the system."""
        return os.urandom(count)


def host_name() -> str:
    """Return the host name, reduced to the permitted characters of an id."""
    name = "".join(character for character in socket.gethostname() if character.isalnum() or character in "-.")
    return name or "localhost"


def tls_context(address: BrokerAddress, tls: ClientTlsSettings | None) -> ssl.SSLContext | None:
    """Return the TLS context for an address, or None for an address without TLS.

    Raises `ConfigurationError`.
    """
    if not address.is_secure:
        return None
    make = cast("Callable[[BrokerAddress, ClientTlsSettings | None], ssl.SSLContext]", load(CLIENT_TLS))
    return make(address, tls)


def find_brokers(url: BrokerUrl, group: AgentSettings, tls: ClientTlsSettings | None) -> tuple[BrokerAddress, ...]:
    """Return the announced brokers; see `spanwire.client.io.broker_lookup`. Raises `JmsError`."""
    find = cast(
        "Callable[[BrokerUrl, AgentSettings, ClientTlsSettings | None], tuple[BrokerAddress, ...]]", load(FIND_BROKERS)
    )
    return find(url, group, tls)


def in_process_transport(address: BrokerAddress, tls: ClientTlsSettings | None = None) -> InProcessTransport:
    """Connect to a broker in this process, or to the brokers of a ``fanout:`` URL. Raises `JmsError`."""
    connect = load(IN_PROCESS[address.scheme] if address.inner is None else FANOUT)
    assert callable(connect)
    if address.inner is not None:
        fanout: InProcessTransport = connect(address.inner, tls)
        return fanout
    transport: InProcessTransport = connect(address.url, address.options)
    return transport


def set_options(channel: socket.socket, address: BrokerAddress) -> None:
    """Set the socket options of the URL."""
    settings = address.settings
    if address.is_tunnelled:
        return  # the channel is one end of a pair inside this process
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1 if settings.tcp_no_delay else 0)
    if settings.keep_alive:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if settings.traffic_class > 0 and channel.family == socket.AF_INET6:
        channel.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, settings.traffic_class)
    elif settings.traffic_class > 0:
        channel.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, settings.traffic_class)
    if settings.buffer_size > 0:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.buffer_size)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.buffer_size)


def connection_error(address: BrokerAddress, error: Exception) -> JmsError:
    """Return the error of a failed connection attempt, in one line with advice."""
    if address.is_secure:
        refusal = cast("Callable[[BrokerAddress, Exception], JmsError | None]", load(TLS_REFUSAL))(address, error)
        if refusal is not None:
            return refusal
    if isinstance(error, socket.gaierror):
        return JmsError(f"no connection to {address.url}: {short_reason(error)}; check the name of the host")
    return JmsError(f"no connection to {address.url}: {short_reason(error)}; is the broker started?")


def protocol_error(address: BrokerAddress, error: ProtocolError) -> JmsError:
    """Return the error for bytes of another protocol than OpenWire."""
    if isinstance(error, OtherProtocolError):
        return JmsError(f"{address.url} {error}")
    return JmsError(f"{address.url} does not speak OpenWire as it should: {error}")


def login_timeout_error(address: BrokerAddress, is_open: bool, timeout: float | None = None) -> JmsError:
    """Return the error of a too slow connection or login."""
    seconds = address.settings.connect_timeout_ms / 1000 if timeout is None else timeout
    if is_open:
        return JmsError(
            f"{address.url} accepted the connection, but no login within {seconds:g} s; is it an OpenWire connector?"
        )
    return JmsError(f"no connection to {address.url} within {seconds:g} s; is the broker started?")


def is_alert(error: Exception) -> bool:
    """Return True if the other side speaks TLS, and has ended it with an alert."""
    return "_ALERT_" in str(getattr(error, "reason", None))


def short_reason(error: Exception) -> str:
    """Return the reason of an exception in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    tls_reason = getattr(error, "reason", None)  # of the errors of sockets only `ssl.SSLError` has one
    if isinstance(error, OSError) and isinstance(tls_reason, str) and tls_reason:
        words = tls_reason.lower().replace("_", " ")
        is_about_certificates = is_alert(error) and any(name in tls_reason for name in CERTIFICATE_ALERTS)
        return f"{words}; {NO_CERTIFICATE}" if is_about_certificates else words
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def check_process(process: int) -> None:
    """Raise `IllegalStateError` in a child of the connection's process."""
    if os.getpid() != process:
        raise IllegalStateError("the connection belongs to the process that opened it; open one after the fork")
