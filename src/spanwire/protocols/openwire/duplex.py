"""Ports of a duplex connection: this broker's bridge works over the connection that the peer's bridge has opened.

The connection stays a client connection of the peer; commands that are not a client's go to the `ReverseBridge`.
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
        """Return the reason for the bridge's end; empty while the bridge is active."""
        ...

    def take(self, command: wire.Command, now: Time) -> bool:
        """Process a response or advisory of the peer.

        Returns:
            False for a command of a client.

        Raises:
            RemoteProtocolError: the command breaks the protocol of bridges.
        """
        ...

    def settle(self, now: Time) -> None:
        """Complete the processing of all commands of one read."""
        ...

    def unsent(self, count: int, now: Time) -> None:
        """Set the number of bytes that the kernel has not taken from the transport yet."""
        ...

    def next_timeout(self) -> float | None:
        """Return the time of the next `handle_timeout` in monotonic seconds; None for never."""
        ...

    def handle_timeout(self, now: Time) -> None:
        """Run the timers that are due at ``now``."""
        ...

    def leave(self, reason: str, now: Time) -> None:
        """End the bridge for ``reason``; a second call has no effect."""
        ...


class NetworkAcceptor(Protocol):
    """Registers the bridges of remote brokers and creates the reverse bridges of this broker."""

    def hears_out(self, connection: ClientConnection) -> bool:
        """Return True if a bridge may send a long list of durable subscriptions before its login.

        The permit ends with `falls_silent`.
        """
        ...

    def falls_silent(self, connection: ClientConnection) -> None:
        """End the permit of `hears_out` after the login or the end of the connection."""
        ...

    def enter(self, info: wire.BrokerInfo) -> None:
        """Register a bridge of a remote broker; raises `JmsError` if another broker has the same id or name."""
        ...

    def left(self, info: wire.BrokerInfo) -> None:
        """Remove a bridge after the end of its connection."""
        ...

    def subscriptions(self, info: wire.BrokerInfo, version: int) -> wire.BrokerSubscriptionInfo | None:
        """Return the local durable subscriptions if the peer's connector asks for them; raises `JmsError`."""
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
        """Create the bridge for the duplex BrokerInfo of a logged-in broker; raises `JmsError`."""
        ...
