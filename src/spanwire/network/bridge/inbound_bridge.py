"""The other direction of a duplex link at its opener: the remote broker's bridge is a client here.

Its commands arrive over the link like answers and advisories. The bridge is logged in with the user of the connector,
and served like the bridge of any other broker.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.ports import NO_TOKEN, ClientConnection
from spanwire.broker.reserved_destinations import CONTROL
from spanwire.broker.security.access_control import BRIDGE_TOPIC
from spanwire.broker.security.audit_log import printable
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, SpanwireError, StoreError
from spanwire.model.info import ConnectionInfo
from spanwire.model.routing import UNNAMED, DestinationCounts
from spanwire.network.bridge.invitation import invited_seconds
from spanwire.network.bridge.remote_broker import RemoteBroker
from spanwire.network.demand.bridge_settings import MAX_DEMAND, BridgeSettings
from spanwire.protocols.openwire.client_commands import ClientCommands
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.ack_run import AckRun
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.exceptions import throwable_of
from spanwire.protocols.openwire.messages.identities import connection_id_of
from spanwire.protocols.openwire.messages.message_format import OpenWireMessageFormat, format_id_of

MAX_LOGGED_REFUSALS: Final = 10  # refused requests of one link; a peer must not fill the log
MAX_ID_LENGTH: Final = 1024  # characters of a connection or client id, as of any client

logger = logging.getLogger(__name__)


class InboundBridge:
    """Executes the commands of the remote broker's bridge; ``connection`` is the link, for late answers."""

    def __init__(
        self, broker: Broker, settings: BridgeSettings, remote: RemoteBroker, connection: ClientConnection
    ) -> None:
        self._broker: Final[Broker] = broker
        self._settings: Final[BridgeSettings] = settings
        self._remote: Final[RemoteBroker] = remote
        self._connection: Final[ClientConnection] = connection
        self._client: ClientCommands | None = None
        self._refusals_logged = 0
        self.received = 0

    @property
    def is_logged_in(self) -> bool:
        """True once the remote broker's bridge has logged in."""
        return self._client is not None

    def log_in(self, command: wire.ConnectionInfo, counts: DestinationCounts, now: Time) -> None:
        """Log in the remote broker's bridge, and count its messages in ``counts``.

        Raises `JmsError` if the bridge cannot be a client.
        """
        if self._client is not None:
            raise OpenWireProtocolError("a second ConnectionInfo arrived on one link")
        connection_id = connection_id_of(command.connection_id)
        client_id = command.client_id or connection_id
        if len(connection_id) > MAX_ID_LENGTH or len(client_id) > MAX_ID_LENGTH:
            raise JmsError(f"connection id and client id have at most {MAX_ID_LENGTH} characters")
        settings, broker = self._settings, self._broker
        password = settings.password
        info = ConnectionInfo(
            connection_id=connection_id,
            client_id=client_id,
            user_name=settings.user_name,
            password=None if password is None else password.reveal(),
            remote_address=f"vm://{broker.name}#{settings.name}-duplex",
            protocol="network",
            max_consumers=MAX_DEMAND,
            audit_makers=settings.check_duplicates,
            unnamed_broker_id=self._remote.broker_id if self._remote.name == UNNAMED else "",
        )
        state = broker.add_connection(self._connection, info, now, self._remote.principal)
        state.network_role = True
        state.received = counts
        wire_format = self._remote.wire_format
        assert wire_format is not None
        message_format = broker.formats.format(format_id_of(wire_format.version))
        assert isinstance(message_format, OpenWireMessageFormat)
        client = ClientCommands(broker, state, self._remote.output, message_format, wire_format.version, now)
        client.serve_bridge(self._remote.broker_id, self._remote.name)
        self._client = client
        if command.response_required:
            self._remote.output.respond(command.command_id)

    def _invite(self, client: ClientCommands, seconds: int) -> None:
        """Report to the remote broker for so many seconds, if the user of the connector has the right of links."""
        access, reporter = self._broker.access, self._broker.assembly.control.reporter
        if reporter is None or seconds == 0:
            return
        if access.may_administer(client.state, BRIDGE_TOPIC) or access.may_administer(client.state, CONTROL):
            reporter.invite(self._remote.name, seconds)

    def take(self, command: wire.Command, now: Time) -> bool:
        """Execute a client's command; False for a command to a broker's own connection."""
        client = self._client
        if client is None:
            return False
        if isinstance(command, AckRun):
            count = client.ack_run(command)
            for sequence in command.sequences.after(count):
                self._act(client, command.pattern.acknowledgement(sequence), now)
            return True
        if isinstance(command, wire.MessageFrame):
            self._take_message(client, command, now)
            return True
        if isinstance(command, wire.ConnectionControl):
            self._invite(client, invited_seconds(command))
            return True
        if isinstance(
            command,
            (wire.SessionInfo, wire.ProducerInfo, wire.ConsumerInfo, wire.MessageAck, wire.RemoveInfo),
        ):
            self._act(client, command, now)
            return True
        return False

    def _take_message(self, client: ClientCommands, command: wire.MessageFrame, now: Time) -> None:
        self.received += 1
        client.begin(now)
        try:
            client.message(command)
        except (JmsError, StoreError) as error:
            self._refuse(error, command.command_id if command.response_required else None)
            client.refused()
            return
        if command.response_required and not client.withheld:
            self._remote.output.respond(command.command_id)

    def _act(self, client: ClientCommands, command: wire.BaseCommand, now: Time) -> None:
        client.begin(now)
        try:
            command.visit(client)
        except (JmsError, StoreError) as error:
            self._refuse(error, command.command_id if command.response_required else None)
            return
        if command.response_required and not client.withheld:
            self._remote.output.respond(command.command_id)
        if client.is_disconnected:
            self._client = None  # further commands are protocol errors

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """Answer a send after the message was stored."""
        client = self._client
        if client is None or token == NO_TOKEN:
            return
        if error is None:
            client.answer(token)
        else:
            self._refuse(error, client.correlation_of(token))
            client.release_window(token)

    def _refuse(self, error: SpanwireError, correlation_id: int | None) -> None:
        self._refusals_logged += 1
        if self._refusals_logged <= MAX_LOGGED_REFUSALS:
            logger.warning("a request of broker %s is refused: %s", self._remote.name, printable(str(error)))
        throwable = throwable_of(error)
        if correlation_id is not None:
            self._remote.output.answer(wire.ExceptionResponse(correlation_id=correlation_id, exception=throwable))
        else:
            self._remote.output.answer(wire.ConnectionError(exception=throwable))

    def unsent(self, count: int, now: Time) -> None:
        """Note that ``count`` bytes of the output are unsent."""
        client = self._client
        if client is not None:
            if client.undelivered:
                client.acknowledge_undelivered(now)
            self._broker.output_progress(client.state, count, now)

    def leave(self, now: Time) -> None:
        """End the connection of the remote broker's bridge."""
        client, self._client = self._client, None
        if client is not None:
            self._broker.remove_connection(client.state, now)
