"""The peer of a connection as a broker of the network, with the ports of a duplex connection.

Over a duplex connection, opened by the peer's bridge, works a bridge of this broker, too. The connection stays a client
connection of the peer; commands other than a client's go to the `ReverseBridge`.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.ports import ClientConnection
from spanwire.broker.security.audit_log import printable
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.protocols.openwire.client_commands import ClientCommands
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.login import Login
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


class NetworkPeer:
    """The peer of a connection as a broker of the network.

    The peer has an announcement and the bridges over the connection.

    ``reverse`` is this broker's bridge over a duplex connection.
    """

    def __init__(self, broker: Broker, acceptor: NetworkAcceptor | None) -> None:
        self.reverse: ReverseBridge | None = None
        self._broker: Final[Broker] = broker
        self._acceptor: Final[NetworkAcceptor | None] = acceptor
        self._introducing: ClientConnection | None = None  # has the permit for a long list before the login
        self._is_announced = False
        self._entered: wire.BrokerInfo | None = None

    def ask_to_introduce(self, connection: ClientConnection) -> bool:
        """Return True if the bridge on ``connection`` may send a long list of subscriptions before its login."""
        if self._acceptor is not None and self._acceptor.hears_out(connection):
            self._introducing = connection
            return True
        return False

    def end_introduction(self) -> bool:
        """End the permit for a long list; return True if the bridge had the permit."""
        introducing, self._introducing = self._introducing, None
        if introducing is None or self._acceptor is None:
            return False
        self._acceptor.falls_silent(introducing)
        return True

    def announce(
        self,
        command: wire.BrokerInfo,
        connection: ClientConnection,
        client: ClientCommands,
        login: Login,
        wire_format: WireFormat,
        now: Time,
    ) -> None:
        """Serve a logged-in broker after its announcement; other peers send a BrokerInfo without effect.

        Raises:
            JmsError: the broker is refused.
            OpenWireProtocolError: the peer has sent an announcement before.
        """
        if self._is_announced:
            raise OpenWireProtocolError("a second BrokerInfo came on one connection")
        self._is_announced = True
        if not (command.network_connection or command.slave_broker or command.duplex_connection):
            return
        if command.slave_broker:
            raise JmsError("slave brokers are not supported: open a network connector instead")
        self._broker.access.check_bridge(client.state)
        broker_id = "" if command.broker_id is None else command.broker_id.value or ""
        client.serve_bridge(broker_id, printable(command.broker_name or broker_id))
        acceptor = self._acceptor
        if acceptor is not None:
            acceptor.enter(command)
            self._entered = command
            subscriptions = acceptor.subscriptions(command, wire_format.version)
            if subscriptions is not None:
                client.output.append(subscriptions)
        if not command.duplex_connection:
            return
        if acceptor is None:
            raise JmsError("duplex connections are not served here: open a second network connector instead")
        self.reverse = acceptor.accept(command, connection, client.state, client.output, wire_format, now)
        parked = login.subscriptions
        if parked is not None:
            self.reverse.take(parked, now)

    def leave(self, reason: str, now: Time) -> None:
        """End the bridges over the connection for ``reason``; a second call has no effect."""
        if self.reverse is not None:
            self.reverse.leave(reason, now)
        entered, self._entered = self._entered, None
        if entered is not None and self._acceptor is not None:
            self._acceptor.left(entered)
