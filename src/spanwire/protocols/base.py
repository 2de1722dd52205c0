"""The interface of a protocol's connection: bytes and time in, bytes out, no socket.

A transport passes the received bytes on, writes the connection's output, and calls back when a timer is due::

    connection.receive_data(data, now)
    for chunk in connection.data_to_send(): socket.write(chunk)
    wait(min(connection.next_timeout(), …)); connection.handle_timeout(now)
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.model.environment import Time
from spanwire.model.info import MAX_CONSUMERS_PER_CONNECTION, MAX_PRODUCERS_PER_CONNECTION
from spanwire.protocols.cluster import ClusterClients

MAX_FRAME_SIZE: Final = 101 * 1024 * 1024  # bytes; the largest body (100 MiB) and its headers
MAX_OPENWIRE_FRAME_BEFORE_LOGIN: Final = 64 * 1024  # bytes; a ConnectionInfo or BrokerInfo is far smaller
MAX_INTRODUCTION: Final = 1024 * 1024  # bytes; a bridge announces some thousand durable subscriptions before its login
MAX_STOMP_FRAME_BEFORE_LOGIN: Final = 8 * 1024  # bytes; a CONNECT frame is far smaller
REQUEST_STEPS: Final = 1_000  # steps of the broker for one connection in a turn; take some milliseconds
LOGIN_DEADLINE: Final = 10.0  # seconds from the start of the connection to an accepted login


class ProtocolConnection(Protocol):
    """A protocol's connection, as a transport sees it. No method raises an error for the peer's bytes."""

    def receive_data(self, data: bytes, now: Time) -> None:
        """Process bytes from the peer and every complete frame in them.

        Requests that need more than `REQUEST_STEPS` steps of the broker are postponed. Then `go_on` follows in the next
        turn, and no further bytes arrive before all postponed requests are done. Empty ``data`` means that the kernel
        may have unread bytes of the peer, so its silence is no sign of inactivity.
        """
        ...

    def go_on(self, now: Time) -> None:
        """Process postponed requests, as many as a turn allows."""
        ...

    def receive_eof(self, now: Time) -> None:
        """Release all broker resources of the connection after its end; a second call has no effect."""
        ...

    def data_to_send(self) -> list[bytes]:
        """Return the output in order and forget it."""
        ...

    def unsent(self, count: int) -> None:
        """Set the number of bytes that the kernel has not taken from the transport yet.

        The number measures back-pressure.
        """
        ...

    def next_timeout(self) -> float | None:
        """Return the monotonic time in seconds of the next `handle_timeout`, or None."""
        ...

    def handle_timeout(self, now: Time) -> None:
        """Send keep-alives; close an inactive connection."""
        ...

    @property
    def holds_requests(self) -> bool:
        """Return True while received frames wait for the next turn."""
        ...

    @property
    def wants_read(self) -> bool:
        """Return False while the transport should leave the peer's bytes in the kernel."""
        ...

    @property
    def closed(self) -> bool:
        """Return True once the transport should write the remaining output and close the socket."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Return the bytes in memory of an incomplete frame."""
        ...


class ConnectionSettings:
    """Settings of a transport connector for an accepted connection.

    ``login_timeout`` and ``detection_timeout`` are in seconds from the start of the connection. ``certificate_subject``
    is the distinguished name in the client's verified TLS certificate, as Java prints it. ``certificate_subject`` is
    None without a certificate, also on an ``encrypted`` connection. With ``offers_tls`` the client may begin TLS on the
    open connection (STARTTLS). ``audit_makers`` is ActiveMQ's auditNetworkProducers. ``cluster`` announces other
    brokers to the client.
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
        "offers_tls",
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
        offers_tls: bool = False,
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
        self.offers_tls: Final[bool] = offers_tls

    def with_certificate(self, subject: str | None) -> ConnectionSettings:
        """Return a copy for a connection inside TLS.

        ``subject`` is None if the client has sent no certificate.
        """
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
