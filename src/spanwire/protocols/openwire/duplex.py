"""What a duplex link needs of the network: its other direction, in which this broker's bridge speaks over the
connection that the peer's bridge has opened.

The connection stays the peer's client connection; what is not a client's command goes to the `ReverseBridge`.
"""

from __future__ import annotations

from typing import Protocol

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.ports import ClientConnection
from spanwire.model.environment import Time
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.output import OutputBuffer


class ReverseBridge(Protocol):
    """This broker's bridge over a connection of the peer."""

    @property
    def reason(self) -> str:
        """Why it is over; empty while it lives."""
        ...

    def take(self, command: wire.Command, now: Time) -> bool:
        """Act on an answer or an advisory of the peer; False for what a client sends. Raises `RemoteProtocolError`."""
        ...

    def settle(self, now: Time) -> None:
        """Everything that came in one piece was taken."""
        ...

    def unsent(self, count: int, now: Time) -> None:
        """The transport still holds ``count`` bytes."""
        ...

    def next_timeout(self) -> float | None:
        """When to call `handle_timeout`, in monotonic seconds; None for never."""
        ...

    def handle_timeout(self, now: Time) -> None:
        """That time has come, or another."""
        ...

    def leave(self, reason: str, now: Time) -> None:
        """The connection is over, for ``reason``. May be called twice; the first reason counts."""
        ...


class NetworkAcceptor(Protocol):
    """Knows the bridges of remote brokers that come in, and makes the reverse ones of one broker."""

    def hears_out(self, connection: ClientConnection) -> bool:
        """Whether a bridge may tell of its durable subscriptions at length before its login, up to `falls_silent`."""
        ...

    def falls_silent(self, connection: ClientConnection) -> None:
        """It has logged in, or is gone."""
        ...

    def enter(self, info: wire.BrokerInfo) -> None:
        """A bridge of the remote broker came in. Raises `JmsError` when another broker has its id or name."""
        ...

    def left(self, info: wire.BrokerInfo) -> None:
        """It is gone."""
        ...

    def subscriptions(self, info: wire.BrokerInfo, version: int) -> wire.BrokerSubscriptionInfo | None:
        """The durable subscriptions here, if the peer's connector asks for them; raises `JmsError`."""
        ...

    def accept(
        self,
        info: wire.BrokerInfo,
        connection: ClientConnection,
        state: ConnectionState,
        output: OutputBuffer,
        wire_format: WireFormat,
        now: Time,
    ) -> ReverseBridge:
        """The bridge that a duplex BrokerInfo of a logged-in broker asks for; raises `JmsError`."""
        ...
