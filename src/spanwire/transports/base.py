"""What the transports need from the layers around them, and the limits that hold for every socket.

A transport owns sockets and nothing else: it feeds bytes and time into a `ProtocolConnection`, writes what that has to
send, and calls the broker's timers. The ports below are met by ``broker.Broker`` and by ``service.environment``; tests
pass fakes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from spanwire.model.environment import Time
from spanwire.model.errors import SpanwireError
from spanwire.model.info import MAX_CONSUMERS_PER_CONNECTION, MAX_PRODUCERS_PER_CONNECTION
from spanwire.model.units import KIB
from spanwire.protocols.base import LOGIN_DEADLINE, MAX_FRAME_SIZE, ConnectionSettings, ProtocolConnection
from spanwire.registry import AUTO
from spanwire.tls.settings import TlsSettings

MAX_CONNECTIONS: Final = 10_000  # over all connectors; the system's own file limit is often lower
MAX_CONNECTIONS_PER_ADDRESS: Final = 1_000  # from one remote address; loopback is exempt
ACCEPT_BACKLOG: Final = 4_096  # connections the kernel completes before we accept them: its own upper bound, somaxconn
MAX_BYTES_PER_CALLBACK: Final = 64 * KIB  # bytes parsed in one go, so that no connection keeps the loop for long
CALLBACK_BUDGET: Final = 0.002  # seconds after which a big read goes on in the next turn
DIRECT_WRITE_BYTES: Final = 32 * KIB  # chunks of this size are written as they are, smaller ones are joined
CLOSE_LINGER: Final = 2.0  # seconds a closing socket may take to write what is left
END_LINGER: Final = 1.0  # seconds in which a peer should close when the broker stops: some round trips
SWEEP_INTERVAL: Final = 0.25  # seconds between two looks at the timers of the connections
MIN_TIMER: Final = 0.001  # seconds; a connection whose timer is always due costs a thousand calls a second at most
SWEEP_BUDGET: Final = 0.002  # seconds of looking at connections before other work gets its turn
SWEEP_SLICE: Final = 16  # connections looked at between two looks at the clock; closing one costs about 0.1 ms
FLUSH_ROUNDS: Final = 4  # flushes of one turn: a flush can make further dispatches possible
RECEIVE_SHARE: Final = 25  # percent of memoryUsage that half-received frames of all connections may take

ConnectionFactory = Callable[[ConnectionSettings, Time], ProtocolConnection]


class TransportError(SpanwireError):
    """A socket cannot be opened; the text names the connector, the address and what to do."""


class Clock(Protocol):
    """Both clocks of the machine."""

    def now(self) -> Time:
        """The time of this turn."""
        ...


class TurnBroker(Protocol):
    """What the end of a turn asks of the broker (``broker/broker.py``)."""

    def take_dirty(self) -> Sequence[object]:
        """The connections whose `data_to_send` must be written now."""
        ...

    def next_timeout(self) -> float | None:
        """Monotonic seconds at which `run` wants to be called, or None."""
        ...

    def run(self, now: Time) -> None:
        """Timers that are due, and one slice of each job under way."""
        ...

    def is_behind(self) -> bool:
        """Whether more is on its way to the disk than should be."""
        ...


class TurnStore(Protocol):
    """What the end of a turn asks of the message store (``stores/journal_store.py``)."""

    def turn(self, now: float) -> None:
        """Hand over to the disk what gathered. ``now`` is monotonic seconds."""
        ...

    def next_deadline(self) -> float | None:
        """Monotonic seconds at which `turn` must come even if nothing happens, or None."""
        ...


class Timer(Protocol):
    """A call that is going to happen."""

    def cancel(self) -> None:
        """Let it not happen."""
        ...


class EventLoop(Protocol):
    """The part of an asyncio loop that the turn uses."""

    def call_soon(self, callback: Callable[[], object]) -> object:
        """Call after the callbacks that are ready now."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call in ``delay`` seconds."""
        ...


class StreamTransport(Protocol):
    """The part of an asyncio transport that a pump uses; uvloop's and the in-process one have it too."""

    def write(self, data: bytes) -> None:
        """Send, or keep what cannot be sent yet."""
        ...

    def get_write_buffer_size(self) -> int:
        """Bytes that are kept."""
        ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """At how many kept bytes the protocol is told to pause."""
        ...

    def pause_reading(self) -> None:
        """Let the bytes wait in the kernel."""
        ...

    def resume_reading(self) -> None:
        """Go on."""
        ...

    def can_write_eof(self) -> bool:
        """Return True if `write_eof` may be called."""
        ...

    def write_eof(self) -> None:
        """Tell the peer, after what is kept, that nothing follows; it can still send."""
        ...

    def close(self) -> None:
        """Close after what is kept is sent."""
        ...

    def abort(self) -> None:
        """Close now."""
        ...

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Facts about the socket."""
        ...


@runtime_checkable
class Carrier(Protocol):
    """A connection that carries another one inside, such as TLS."""

    @property
    def carried(self) -> object:
        """The innermost connection, the one that the broker knows. Changes as the layers get to know each other."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """One listening address and what holds for the connections it accepts. ``port`` 0 lets the system choose.

    ``protocol`` is `AUTO` when the first bytes of a client choose one of ``protocols``. ``discovery_uri`` is the agent
    that announces the connector, "" for none. With ``updates_clients`` they are told of other brokers, with
    ``rebalances_clients`` asked to spread over these, with ``updates_on_remove`` told when one of them goes;
    ``cluster_filter`` are patterns of the names of those that they are told of, any when there are none.
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

    def spoken(self) -> tuple[str, ...]:
        """The protocols that clients may speak."""
        return self.protocols if self.protocol == AUTO else (self.protocol,)

    def uri(self, port: int | None = None) -> str:
        """``scheme://host:port``; options stay out of it, since they may hold what is nobody's business."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port if port is None else port}"


class Flushable(Protocol):
    """One socket, as the turn sees it (`spanwire.transports.loop.pump.SocketPump`)."""

    touched: bool

    def flush(self, now: Time) -> None:
        """Write what its connection has to send."""
        ...

    def sweep(self, now: Time) -> None:
        """Look at its connection's timers."""
        ...

    def note_activity(self) -> None:
        """Its peer counts as heard from just now."""
        ...

    def wants_read(self) -> bool:
        """Whether its connection would take bytes now."""
        ...

    def set_throttled(self, is_throttled: bool) -> None:
        """Do not read, until told otherwise: there is no memory for more of its frame."""
        ...

    def stop_reading(self) -> None:
        """Take nothing from its peer any more."""
        ...

    def close(self, now: Time) -> None:
        """Write what is left, then close."""
        ...

    def give_up(self, reason: str, now: Time) -> None:
        """Close at once and say why."""
        ...
