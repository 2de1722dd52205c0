"""The remote end of a bridge: identifies the remote broker and encodes commands.

    local → remote                             remote → local
    WireFormatInfo                             WireFormatInfo, BrokerInfo
    BrokerInfo (network connection)
    ConnectionInfo (answered), SessionInfo, ProducerInfo
    ConsumerInfo of the advisories (answered)  Response, Response, dispatches of advisories …
    messages (answered)                        Response each

ActiveMQ's own bridges use the same sequence (OpenWire, Networks of Brokers), but without answers for login and
subscription. With an answer a refusal has a reason.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.ports import Principal
from spanwire.broker.security.audit_log import printable
from spanwire.model.acks import STANDARD_ACK
from spanwire.model.ids import ProducerId
from spanwire.model.secret import Secret
from spanwire.network.bridge.settings_codec import properties_of
from spanwire.network.demand.bridge_settings import BRIDGE_SESSION, BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.other_protocol import check_first
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import (
    WireFormat,
    WireFormatPreferences,
    answer_preferences,
    negotiate,
    wire_format_info,
)
from spanwire.protocols.openwire.exceptions import throwable_text
from spanwire.protocols.openwire.messages.identities import wire_producer_id
from spanwire.protocols.openwire.output import MAX_UNREAD_ANSWER_BYTES, OutputBuffer

MAX_REMOTE_FRAME_BYTES: Final = 4 * 1024 * 1024  # a remote broker sends answers and advisories to a bridge, no messages
ADVISORY_PREFETCH: Final = 1_000
ADVISORY_ACK_AT: Final = ADVISORY_PREFETCH * 3 // 4  # ActiveMQ's advisoryAckPercentage
INVALID_CLIENT_ID: Final = ".InvalidClientIDException"
LAST_COMMAND_ID: Final = 0x7FFFFFFF  # the largest Java int; ids begin at 1 again after it


class RemoteBroker:
    """Numbers and encodes the commands of a bridge. The bridge decides.

    ``name``, fit for a log, and ``broker_id`` belong to the remote broker after its BrokerInfo. On a link opened by the
    remote broker, ``output`` and ``wire_format`` belong to the link's connection, without decoding here. ``principal``
    is the user of the link at this broker, if known before the login of the bridge.
    """

    def __init__(
        self,
        connection_id: str,
        preferences: WireFormatPreferences | None,
        output: OutputBuffer | None = None,
        wire_format: WireFormat | None = None,
        largest: int = MAX_REMOTE_FRAME_BYTES,
    ) -> None:
        self.output: Final[OutputBuffer] = output if output is not None else OutputBuffer()
        self.wire_format: WireFormat | None = wire_format
        self.name = ""
        self.broker_id = ""
        self.url = ""  # the broker URL in its BrokerInfo
        self.principal: Principal | None = None
        self.is_inbound: Final[bool] = preferences is None  # the remote broker opened the link
        self.producer_id: Final[wire.ProducerId] = wire_producer_id(ProducerId(connection_id, BRIDGE_SESSION, 1))
        self._connection_id: Final[str] = connection_id
        self._consumer_id: Final[wire.ConsumerId] = wire.ConsumerId(
            connection_id=connection_id, session_id=BRIDGE_SESSION, value=1
        )
        self._preferences: Final[WireFormatPreferences] = preferences or WireFormatPreferences()
        self._decoder: Final[FrameDecoder] = FrameDecoder(largest)
        self._command_id = 0
        self._unacknowledged = 0
        if preferences is not None:
            self.output.append(wire_format_info(preferences))

    @property
    def pending_bytes(self) -> int:
        """The bytes of an incomplete frame."""
        return self._decoder.pending_bytes

    def decode(self, data: bytes) -> list[wire.Command]:
        """Return the commands completed by ``data``.

        Call again with no bytes until no command is returned. Raises `RemoteProtocolError`.
        """
        if self.wire_format is None and self._decoder.pending_bytes == 0:
            check_first(data)
        return self._decoder.feed(data)

    def negotiate(self, command: wire.WireFormatInfo) -> WireFormat:
        """Return the wire format for the remote broker's offer."""
        wire_format = negotiate(answer_preferences(self._preferences, command), command)
        self.wire_format = wire_format
        self._decoder.negotiated(wire_format)
        self._decoder.gathers_answers = True
        self.output.negotiated(wire_format)
        return wire_format

    def identify(self, command: wire.BrokerInfo) -> None:
        """Take id and name of the remote broker from its BrokerInfo; raises `OpenWireProtocolError`."""
        if command.broker_id is None or not command.broker_id.value:
            raise OpenWireProtocolError("the remote broker has no id")
        self.broker_id = command.broker_id.value
        self.name = printable(command.broker_name or self.broker_id)
        self.url = command.broker_url or ""

    def on_login_accepted(self) -> None:
        """Accept frames of full size, because the login was accepted."""
        self._decoder.authenticated()

    def next_command_id(self) -> int:
        """Return the id of the next command."""
        self._command_id = 1 if self._command_id == LAST_COMMAND_ID else self._command_id + 1
        return self._command_id

    def send(self, command: wire.BaseCommand, answered: bool = False) -> int:
        """Send one command and return the command id."""
        command.command_id = self.next_command_id()
        command.response_required = answered
        self.output.append(command)
        return command.command_id

    def answer_keep_alive(self) -> None:
        """Send a keep-alive as an answer."""
        self.output.answer(wire.KeepAliveInfo(command_id=self.next_command_id()))

    def check_answers(self) -> None:
        """Raise `OpenWireProtocolError` if the remote broker leaves too many answers unread."""
        if self.output.unread_answers > MAX_UNREAD_ANSWER_BYTES:
            raise OpenWireProtocolError(f"{self.output.unread_answers} bytes of answers were not read")

    def send_broker_info(self, settings: BridgeSettings, broker_id: str, broker_name: str, broker_url: str) -> None:
        """Send the BrokerInfo of the local broker."""
        self.send(
            wire.BrokerInfo(
                broker_id=wire.BrokerId(broker_id),
                broker_name=broker_name,
                broker_url=broker_url,
                network_connection=True,
                duplex_connection=settings.duplex,
                network_properties=properties_of(settings, broker_name),
            )
        )

    def log_in_as_configured(self, settings: BridgeSettings, broker_name: str) -> int:
        """Log in with the user of the connector and return the id of the ConnectionInfo.

        The other end of a duplex link is a bridge itself and answers messages alone.
        """
        user = settings.remote_user_name
        if user is None:
            return self.log_in(settings, broker_name, settings.user_name, settings.password, not settings.duplex)
        return self.log_in(settings, broker_name, user, settings.remote_password, not settings.duplex)

    def log_in(
        self, settings: BridgeSettings, broker_name: str, user: str | None, password: Secret | None, answered: bool
    ) -> int:
        """Send the ConnectionInfo and return the command id."""
        return self.send(
            wire.ConnectionInfo(
                connection_id=wire.ConnectionId(self._connection_id),
                client_id=settings.client_id_token.join([settings.name, broker_name, "outbound"]),
                user_name=user,
                password=None if password is None else password.reveal(),
                client_master=True,
            ),
            answered=answered,
        )

    def subscribe(self, topics: str, answered: bool) -> int:
        """Announce session, producer and the consumer of the advisory ``topics``, if any.

        Returns:
            The id of the last command.
        """
        session_id = wire.SessionId(connection_id=self._connection_id, value=BRIDGE_SESSION)
        self.send(wire.SessionInfo(session_id=session_id))
        number = self.send(wire.ProducerInfo(producer_id=self.producer_id), answered=answered and not topics)
        if not topics:
            return number
        return self.send(
            wire.ConsumerInfo(
                consumer_id=self._consumer_id,
                destination=wire.ActiveMQTopic(topics),
                prefetch_size=ADVISORY_PREFETCH,
                dispatch_async=True,
            ),
            answered=answered,
        )

    def acknowledge_dispatch(self, dispatch: wire.MessageDispatch) -> None:
        """Acknowledge the advisory in a dispatch."""
        if dispatch.message is not None:
            self.acknowledge_advisory(dispatch.message)

    def acknowledge_advisory(self, message: wire.Message) -> None:
        """Count an advisory, and acknowledge all after most of a window."""
        self._unacknowledged += 1
        if self._unacknowledged < ADVISORY_ACK_AT:
            return
        self.send(
            wire.MessageAck(
                consumer_id=self._consumer_id,
                destination=message.destination,
                ack_type=STANDARD_ACK,
                last_message_id=message.message_id,
                message_count=self._unacknowledged,
            )
        )
        self._unacknowledged = 0


def refusal_text(exception: Throwable | None) -> str:
    """Return the reason of a refusal, with a remedy if another connection has the client id."""
    words = exception_text(exception)
    if exception is None or not (exception.class_name or "").endswith(INVALID_CLIENT_ID):
        return words
    return f"{words}; give each broker a brokerName of its own, and each of its connectors a name"


def exception_text(exception: Throwable | None) -> str:
    """Return the text of an exception of the remote broker."""
    return "no reason" if exception is None else throwable_text(exception)
