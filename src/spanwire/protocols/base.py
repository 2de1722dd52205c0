"""The shape of every protocol's connection: bytes and time in, bytes out, no socket in sight.

A transport feeds what it read, writes what the connection has to send, and calls back when a timer is due::

    connection.receive_data(data, now)
    for chunk in connection.data_to_send(): socket.write(chunk)
    wait(min(connection.next_timeout(), …)); connection.handle_timeout(now)
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.model.environment import Time
from spanwire.model.info import MAX_CONSUMERS_PER_CONNECTION, MAX_PRODUCERS_PER_CONNECTION
from spanwire.model.units import MIB
from spanwire.protocols.cluster import ClusterClients

MAX_FRAME_SIZE: Final = 101 * MIB  # largest body (100 MiB) and its headers
MAX_OPENWIRE_FRAME_BEFORE_LOGIN: Final = 64 * 1024  # a ConnectionInfo or BrokerInfo is far smaller
MAX_INTRODUCTION: Final = 1024 * 1024  # bytes of a bridge's durable subscriptions, some thousand, before its login
MAX_STOMP_FRAME_BEFORE_LOGIN: Final = 8 * 1024  # a CONNECT frame is far smaller
REQUEST_STEPS: Final = 1_000  # of the broker for one connection in a turn; some milliseconds
LOGIN_DEADLINE: Final = 10.0  # seconds from the first byte of the connection to an accepted login


class ProtocolConnection(Protocol):
    """One connection of one protocol, as a transport sees it. No method raises for what the peer sends."""

    def receive_data(self, data: bytes, now: Time) -> None:
        """Take bytes from the peer and act on every complete frame in them. Frames that ask for more than
        `REQUEST_STEPS` of the broker are held: then `go_on` follows in the next turn, and no bytes before it is done.
        No bytes say that the peer may have sent some that nobody has read yet: its silence proves nothing.
        """
        ...

    def go_on(self, now: Time) -> None:
        """Act on the requests that are held, as many as a turn allows."""
        ...

    def receive_eof(self, now: Time) -> None:
        """The peer is gone, or the socket broke: free everything the connection holds in the broker. May be called
        twice.
        """
        ...

    def data_to_send(self) -> list[bytes]:
        """Take what is to be written, in order; the connection forgets it."""
        ...

    def unsent(self, count: int) -> None:
        """The transport still holds ``count`` bytes that the kernel did not take: the measure of back-pressure."""
        ...

    def next_timeout(self) -> float | None:
        """Monotonic seconds of the next `handle_timeout`, or None."""
        ...

    def handle_timeout(self, now: Time) -> None:
        """Send keep-alives, close what is silent."""
        ...

    @property
    def holds_requests(self) -> bool:
        """True while frames that were received wait for the next turn."""
        ...

    @property
    def wants_read(self) -> bool:
        """False while the transport should leave the peer's bytes in the kernel."""
        ...

    @property
    def closed(self) -> bool:
        """True once the transport should write what is left and close the socket."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Bytes held of a frame whose end has not come yet."""
        ...


class ConnectionSettings:
    """What a transport connector tells each connection it accepts, and grants it.

    ``login_timeout`` and ``detection_timeout`` are seconds from the socket's first moment on. ``certificate_subject``
    is the distinguished name in the client's verified TLS certificate, as Java prints it; None without one, which may
    also be so on an ``encrypted`` connection. ``audit_makers`` is ActiveMQ's auditNetworkProducers. ``cluster`` tells
    clients of other brokers.
    """

    __slots__ = (
        "audit_makers",
        "certificate_subject",
        "cluster",
        "connector_name",
        "detection_timeout",
        "encrypted",
        "local_uri",
        "login_timeout",
        "max_consumers",
        "max_frame_size",
        "max_inactivity_ms",
        "max_producers",
        "options",
        "remote_address",
        "steals_links",
    )

    def __init__(
        self,
        remote_address: str = "tcp://127.0.0.1:0",
        local_uri: str = "",
        connector_name: str = "",
        max_frame_size: int = MAX_FRAME_SIZE,
        max_inactivity_ms: int = 30_000,
        options: dict[str, str] | None = None,
        *,
        login_timeout: float = LOGIN_DEADLINE,
        detection_timeout: float = LOGIN_DEADLINE,
        max_consumers: int = MAX_CONSUMERS_PER_CONNECTION,
        max_producers: int = MAX_PRODUCERS_PER_CONNECTION,
        certificate_subject: str | None = None,
        encrypted: bool = False,
        audit_makers: bool = False,
        steals_links: bool = False,
        cluster: ClusterClients | None = None,
    ) -> None:
        self.cluster: Final[ClusterClients | None] = cluster
        self.remote_address: Final[str] = remote_address
        self.local_uri: Final[str] = local_uri
        self.connector_name: Final[str] = connector_name
        self.max_frame_size: Final[int] = max_frame_size
        self.max_inactivity_ms: Final[int] = max_inactivity_ms
        self.options: Final[dict[str, str]] = options if options is not None else {}
        self.login_timeout: Final[float] = login_timeout
        self.detection_timeout: Final[float] = detection_timeout
        self.max_consumers: Final[int] = max_consumers
        self.max_producers: Final[int] = max_producers
        self.certificate_subject: Final[str | None] = certificate_subject
        self.encrypted: Final[bool] = encrypted
        self.audit_makers: Final[bool] = audit_makers
        self.steals_links: Final[bool] = steals_links

    def with_certificate(self, subject: str | None) -> ConnectionSettings:
        """The same inside TLS; ``subject`` None for a client that has shown no certificate."""
        return ConnectionSettings(
            self.remote_address,
            self.local_uri,
            self.connector_name,
            self.max_frame_size,
            self.max_inactivity_ms,
            self.options,
            login_timeout=self.login_timeout,
            detection_timeout=self.detection_timeout,
            max_consumers=self.max_consumers,
            max_producers=self.max_producers,
            certificate_subject=subject,
            encrypted=True,
            audit_makers=self.audit_makers,
            steals_links=self.steals_links,
            cluster=self.cluster,
        )
