"""Ports of the transports to the layers around them, and the limits of every socket.

A transport owns a socket and nothing else. It feeds bytes and time into a `ProtocolConnection`, writes the output of
the connection, and calls the broker's timers. ``broker.Broker`` and ``service.machine.environment`` implement the
ports; tests pass fakes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from spanwire.model.environment import Time
from spanwire.model.errors import SpanwireError
from spanwire.model.info import MAX_CONSUMERS_PER_CONNECTION, MAX_PRODUCERS_PER_CONNECTION
from spanwire.protocols.base import LOGIN_DEADLINE, MAX_FRAME_SIZE, ConnectionSettings, ProtocolConnection
from spanwire.registry import AUTO
from spanwire.transports.published_address import PublishedAddress

if TYPE_CHECKING:
    from spanwire.tls.settings import TlsSettings

MAX_CONNECTIONS: Final = 10_000  # over all connectors; the limit of open files of the system is often lower
MAX_CONNECTIONS_PER_ADDRESS: Final = 1_000  # from one remote address; loopback is exempt
ACCEPT_BACKLOG: Final = 4_096  # connections that wait in the kernel to be accepted; Linux' own limit, somaxconn
MAX_BYTES_PER_CALLBACK: Final = 64 * 1024  # bytes parsed at a time; bounds the time that one connection keeps the loop
CALLBACK_BUDGET: Final = 0.002  # seconds after which the rest of a large read is left to the next turn
DIRECT_WRITE_BYTES: Final = 32 * 1024  # chunks of this size are written without a copy, smaller chunks are joined
CLOSE_LINGER: Final = 2.0  # seconds in which a closing socket may write its remaining output
END_LINGER: Final = 1.0  # seconds in which a peer should close when the broker stops; some round trips
SWEEP_INTERVAL: Final = 0.25  # seconds between two checks of the timers of all connections
MIN_TIMER: Final = 0.001  # seconds; limits a connection whose timer is always due to a thousand calls a second
SWEEP_BUDGET: Final = 0.002  # seconds of one sweep before other callbacks of the loop run
SWEEP_SLICE: Final = 16  # connections swept between two readings of the clock; to close one costs about 0.1 ms
MAX_FLUSHES: Final = 500  # sockets in one turn, some 10 microseconds each where there is something to write
FLUSH_ROUNDS: Final = 4  # flushes of one turn; a flush can make further dispatches possible
WEBSOCKET_SCHEMES: Final = ("ws", "wss")
RECEIVE_SHARE: Final = 25  # percent of memoryUsage that half-received frames of all connections may take

ConnectionFactory = Callable[[ConnectionSettings, Time], ProtocolConnection]


class TransportError(SpanwireError):
    """Raised when a socket cannot be opened; the text names the connector, the address and the remedy."""


class Clock(Protocol):
    """The monotonic clock and the wall clock of the machine."""

    def now(self) -> Time:
        """Return the time of the turn."""
        ...


class TurnBroker(Protocol):
    """The part of the broker used by the end of a turn (``broker/broker.py``)."""

    def take_dirty(self) -> Sequence[object]:
        """Return and forget the connections with output to be written now."""
        ...

    def next_timeout(self) -> float | None:
        """Return the time of the next call of `run`, in monotonic seconds; None if no timer is set."""
        ...

    def run(self, now: Time) -> None:
        """Run all due timers, and one slice of each job under way."""
        ...

    def is_behind(self) -> bool:
        """Return True if more bytes wait for the disk than should."""
        ...

    def awaits_login(self, connection: object) -> bool:
        """Return True if the login of ``connection`` waits for a directory; `take_dirty` ends the wait."""
        ...


class TurnStore(Protocol):
    """The part of the message store used by the end of a turn (``stores/driver/journal_store.py``)."""

    def turn(self, now: float, active: int) -> None:
        """Write the changes of the turn, or schedule the write. ``now`` is in monotonic seconds.

        ``active`` sockets had input in the turn. Without other sockets the store may block for a fast sync.
        """
        ...

    def next_deadline(self) -> float | None:
        """Return the time of the next call of `turn` without any event, in monotonic seconds, or None."""
        ...


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""
        ...


class EventLoop(Protocol):
    """The part of an asyncio loop used by a turn."""

    def call_soon(self, callback: Callable[[], object]) -> object:
        """Call ``callback`` after the callbacks already due."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call ``callback`` in ``delay`` seconds."""
        ...


class StreamTransport(Protocol):
    """The part of an asyncio transport used by a pump; uvloop and `VmTransport` have the same methods."""

    def write(self, data: bytes) -> None:
        """Send bytes; bytes not taken by the kernel are kept."""
        ...

    def get_write_buffer_size(self) -> int:
        """Return the number of kept bytes."""
        ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the numbers of kept bytes at which the protocol is paused and resumed."""
        ...

    def pause_reading(self) -> None:
        """Stop reading; the bytes stay in the kernel."""
        ...

    def resume_reading(self) -> None:
        """Start reading again."""
        ...

    def can_write_eof(self) -> bool:
        """Return True if `write_eof` may be called."""
        ...

    def write_eof(self) -> None:
        """Announce the end of the output after all kept bytes; the peer can still send."""
        ...

    def close(self) -> None:
        """Close after all kept bytes are sent."""
        ...

    def abort(self) -> None:
        """Close at once and drop the kept bytes."""
        ...

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return a fact about the socket, such as ``peername``."""
        ...


@runtime_checkable
class Carrier(Protocol):
    """A connection with another connection inside, such as TLS."""

    @property
    def carried(self) -> object:
        """The innermost connection, known to the broker. Changes while the layers are set up."""
        ...

    def note_peer_end(self) -> None:
        """Note the peer's end of sending.

        The received bytes are held even for a connection that reads nothing.
        """
        ...


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """The settings of one listening address and of the accepted connections.

    ``port`` 0 lets the system choose. ``protocol`` is `AUTO` if the first bytes of a client choose one of
    ``protocols``. ``discovery_uri`` names the agent for announcing the connector, "" for none. With ``updates_clients``
    clients learn of other brokers, with ``rebalances_clients`` clients spread over the brokers, with
    ``updates_on_remove`` clients also learn of leaving brokers. ``cluster_filter`` are patterns of broker names; no
    pattern lets all brokers pass. Without ``auto_start`` the connector stays closed until an operator starts it.
    Scripts in pages of ``origins`` may open a WebSocket, ``*`` allows all. ``traffic_class`` is an octet of the IP
    header, 0 leaves the octet to the system. ``published`` has the rules for the published address.
    """

    name: str
    scheme: str
    host: str
    port: int
    protocol: str
    maximum_connections: int = MAX_CONNECTIONS
    backlog: int = ACCEPT_BACKLOG
    max_frame_size: int = MAX_FRAME_SIZE
    max_inactivity_ms: int = 30_000
    socket_buffer_size: int = 0
    tcp_no_delay: bool = True
    traffic_class: int = 0
    published: PublishedAddress | None = None
    keep_alive: bool = False
    options: dict[str, str] = field(default_factory=dict)
    protocols: tuple[str, ...] = ()
    login_timeout: float = LOGIN_DEADLINE
    detection_timeout: float = LOGIN_DEADLINE
    max_consumers: int = MAX_CONSUMERS_PER_CONNECTION
    max_producers: int = MAX_PRODUCERS_PER_CONNECTION
    audit_makers: bool = False
    steals_links: bool = False
    tls: TlsSettings | None = None
    discovery_uri: str = ""
    updates_clients: bool = False
    rebalances_clients: bool = False
    updates_on_remove: bool = False
    cluster_filter: tuple[str, ...] = ()
    auto_start: bool = True
    origins: tuple[str, ...] = ()

    @property
    def is_websocket(self) -> bool:
        """True if the clients' protocol is inside of a WebSocket."""
        return self.scheme in WEBSOCKET_SCHEMES

    def spoken(self) -> tuple[str, ...]:
        """Return the names of the protocols open to clients."""
        return self.protocols if self.protocol == AUTO else (self.protocol,)

    def uri(self, port: int | None = None) -> str:
        """Return ``scheme://host:port`` without options, because options may contain secrets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port if port is None else port}"


class Flushable(Protocol):
    """The turn's view of one socket (`spanwire.transports.loop.pump.SocketPump`)."""

    touched: bool

    def flush(self, now: Time) -> None:
        """Write the output of the connection."""
        ...

    def sweep(self, now: Time) -> None:
        """Run the due timers of the connection."""
        ...

    def note_activity(self) -> None:
        """Restart the inactivity timer of the connection, as if bytes had arrived."""
        ...

    def wants_read(self) -> bool:
        """Return True if the connection accepts bytes now."""
        ...

    def set_throttled(self, is_throttled: bool) -> None:
        """Stop reading while ``is_throttled``, because there is no memory for more of the frame."""
        ...

    def stop_reading(self) -> None:
        """Drop all further input of the peer."""
        ...

    def close(self, now: Time) -> None:
        """Write the remaining output, then close."""
        ...

    def give_up(self, reason: str, now: Time) -> None:
        """Close at once and log ``reason``."""
        ...
