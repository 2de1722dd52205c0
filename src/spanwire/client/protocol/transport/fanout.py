"""One client connection to several brokers at once, without sockets (ActiveMQ's fanout transport).

    the client's connection  ── OpenWire ──  FanoutHub  ── a Branch ── OpenWire ──  broker 1
                                                        ── a Branch ── OpenWire ──  broker 2

The hub is a broker for the client, and a client for each broker. Messages for topics go to all brokers. Messages for
queues go to the first broker, the *primary*, or with ``fanOutQueues`` to all. Consumers exist at the primary only, and
move when the primary is lost. All other commands go to all brokers.

The hub forwards commands once ``minAckCount`` brokers are connected, and answers a request after so many responses. A
broker that connects later gets the state and all unanswered requests.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from spanwire.client.addressing.address import BrokerAddress
from spanwire.client.addressing.reconnect_policy import FanoutPolicy
from spanwire.client.protocol.error_mapping import refusal
from spanwire.client.protocol.transport.link import Link
from spanwire.model.errors import AuthenticationError, JmsError
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder, decode_message
from spanwire.protocols.openwire.codec.schema import DataStructure, Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, negotiate, wire_format_info

BEGIN: Final = 0
ROLLBACKS: Final = (4, 7)  # rollback, end
COMMITS: Final = (2, 3)
ADD_DESTINATION: Final = 0
ROLLED_BACK: Final = "javax.jms.TransactionRolledBackException"
TO_PRIMARY: Final = (wire.ConsumerInfo, wire.MessageAck, wire.MessagePull, wire.ConsumerControl,
                     wire.RemoveSubscriptionInfo)  # fmt: skip
IN_PROCESS: Final = WireFormatPreferences(max_inactivity_ms=0)  # one process needs no inactivity check
TOPICS: Final = (wire.ActiveMQTopic, wire.ActiveMQTempTopic)

logger = logging.getLogger(__name__)


class Branch:
    """One broker of a hub, and the link while the broker is connected."""

    def __init__(self, hub: FanoutHub, address: BrokerAddress) -> None:
        self.address: Final[BrokerAddress] = address
        self.link: Link | None = None
        self.is_online = False
        self.failure: JmsError | None = None  # refusal of the login
        self._hub: Final[FanoutHub] = hub

    def on_negotiated(self, wire_format: WireFormat) -> None:
        """Log in, once the client has sent its ConnectionInfo."""
        self._hub.log_in(self)

    def on_dispatch(
        self, consumer: wire.ConsumerId | None, destination: bytes, raw: bytes, redelivery_count: int
    ) -> None:
        """Pass a message to the hub. The hub accepts messages of the primary only."""
        self._hub.on_dispatch(self, consumer, raw, redelivery_count)

    def on_command(self, command: DataStructure) -> None:
        """Pass any other command to the hub."""
        self._hub.on_command(self, command)

    def send(self, command: DataStructure) -> None:
        """Send a command to the broker; dropped without a link."""
        if self.link is not None:
            self.link.send(command)


class Pending:
    """A request of the client, complete after ``needed`` responses."""

    def __init__(self, command: wire.BaseCommand, needed: int, to_primary: bool) -> None:
        self.command: Final[wire.BaseCommand] = command
        self.needed: Final[int] = needed
        self.to_primary: Final[bool] = to_primary
        self.answered: Final[set[Branch]] = set()
        self.refusal: Throwable | None = None
        self.result: wire.Response | None = None


class FanoutHub:
    """Connects one client with several brokers: takes bytes and time, returns bytes.

    The shell owns sockets.

    `queued_bytes` counts commands of the client that wait for enough brokers.
    """

    def __init__(self, policy: FanoutPolicy, is_fault_tolerant: bool = True) -> None:
        self.policy: Final[FanoutPolicy] = policy
        self.primary: Branch | None = None
        self.branches: Final[list[Branch]] = []
        self.queued_bytes = 0
        self.is_shut_down = False
        self._is_fault_tolerant: Final[bool] = is_fault_tolerant
        self._decoder: Final[FrameDecoder] = FrameDecoder(MAX_FRAME_SIZE, pass_messages=False)
        self._encoder = FrameEncoder()
        self._client_frames: Final[list[bytes]] = [self._encoder.encode(wire_format_info(IN_PROCESS))]
        self._queued: Final[deque[tuple[wire.Command, int]]] = deque()
        self._login: wire.ConnectionInfo | None = None
        self._is_logged_in = False
        self._pending: Final[dict[int, Pending]] = {}
        self._temporary: Final[dict[str, wire.DestinationInfo]] = {}
        self._sessions: Final[dict[str, wire.SessionInfo]] = {}
        self._producers: Final[dict[str, wire.ProducerInfo]] = {}
        self._consumers: Final[dict[str, wire.ConsumerInfo]] = {}
        self._pulls: Final[dict[str, wire.MessagePull]] = {}
        self._transactions: Final[dict[str, set[Branch]]] = {}

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the client. Raises `ProtocolError` for invalid OpenWire."""
        commands = self._decoder.feed(data)
        size = len(data)
        while commands:
            for command in commands:
                self._on_client_command(command, size)
                size = 0
            commands = self._decoder.feed(b"")

    def data_for_client(self) -> bytes:
        """Return and remove the bytes for the client."""
        data = b"".join(self._client_frames)
        self._client_frames.clear()
        return data

    def _send_to_client(self, command: DataStructure) -> None:
        self._client_frames.append(self._encoder.encode(command))

    def _on_client_command(self, command: wire.Command, size: int) -> None:
        if isinstance(command, wire.WireFormatInfo):
            agreed = negotiate(IN_PROCESS, command)
            self._decoder.negotiated(agreed)
            self._decoder.authenticated()
            self._encoder = FrameEncoder(agreed)
            self._send_to_client(
                wire.BrokerInfo(broker_id=wire.BrokerId("fanout"), broker_url="", broker_name="fanout")
            )
        elif isinstance(command, wire.KeepAliveInfo):
            if command.response_required:
                self._send_to_client(wire.KeepAliveInfo())
        elif isinstance(command, wire.ConnectionInfo):
            self._login = command
            for branch in self.branches:
                self.log_in(branch)
        elif isinstance(command, wire.ShutdownInfo):
            self._shut_down(command)
        elif self._is_connection_removal(command) or (not self._queued and self._has_quorum()):
            self._forward(command)
        else:
            self._queued.append((command, size))
            self.queued_bytes += size

    def _is_connection_removal(self, command: wire.Command) -> bool:
        return isinstance(command, wire.RemoveInfo) and isinstance(command.object_id, wire.ConnectionId)

    def _shut_down(self, command: wire.ShutdownInfo) -> None:
        for branch in self.online_branches():
            branch.send(command)
        self.is_shut_down = True

    def online_branches(self) -> list[Branch]:
        """Return the brokers that have accepted the login."""
        return [branch for branch in self.branches if branch.is_online]

    def _has_quorum(self) -> bool:
        return len(self.online_branches()) >= self.policy.min_ack_count

    def _forward_queued(self) -> None:
        while self._queued and self._has_quorum():
            command, size = self._queued.popleft()
            self.queued_bytes -= size
            self._forward(command)

    def _forward(self, command: wire.Command) -> None:
        """Send a command to the chosen brokers. Enough brokers are connected."""
        if isinstance(command, wire.TransactionInfo):
            self._transaction(command)
            return
        to_primary = self._is_for_primary(command)
        self._remember(command)
        targets = [self.primary] if to_primary and self.primary is not None else self.online_branches()
        self._send(command, targets, 1 if to_primary else self.policy.min_ack_count, to_primary)

    def _send(self, command: wire.Command, targets: list[Branch], needed: int, to_primary: bool) -> None:
        if isinstance(command, wire.BaseCommand) and command.response_required:
            if self._is_connection_removal(command) or isinstance(command, wire.RemoveInfo):
                needed = min(needed, len(targets))
            if needed <= 0:
                self._send_to_client(wire.Response(command.command_id))
                return
            self._pending[command.command_id] = Pending(command, needed, to_primary)
        for branch in targets:
            branch.send(command)

    def _is_for_primary(self, command: wire.Command) -> bool:
        if isinstance(command, wire.Message):
            return not (self.policy.fan_out_queues or isinstance(command.destination, TOPICS))
        if isinstance(command, wire.RemoveInfo):
            return isinstance(command.object_id, wire.ConsumerId)
        return isinstance(command, TO_PRIMARY)

    def _remember(self, command: wire.Command) -> None:
        """Keep a command for later brokers, or drop the state ended by a RemoveInfo."""
        if isinstance(command, wire.SessionInfo):
            self._sessions[str_id(command.session_id)] = command
        elif isinstance(command, wire.ProducerInfo):
            self._producers[str_id(command.producer_id)] = command
        elif isinstance(command, wire.ConsumerInfo):
            self._consumers[str_id(command.consumer_id)] = command
        elif isinstance(command, wire.MessagePull):
            self._pulls[str_id(command.consumer_id)] = command
        elif isinstance(command, wire.DestinationInfo):
            name = "" if command.destination is None else command.destination.physical_name or ""
            if command.operation_type == ADD_DESTINATION:
                self._temporary[name] = command
            else:
                self._temporary.pop(name, None)
        elif isinstance(command, wire.RemoveInfo):
            self._forget(command)

    def _forget(self, command: wire.RemoveInfo) -> None:
        key = str_id(command.object_id)
        if isinstance(command.object_id, wire.SessionId):
            self._sessions.pop(key, None)
            for members in (self._producers, self._consumers):
                for inner in [name for name in members if name.startswith(f"{key}:")]:
                    members.pop(inner)
        elif isinstance(command.object_id, wire.ProducerId):
            self._producers.pop(key, None)
        elif isinstance(command.object_id, wire.ConsumerId):
            self._consumers.pop(key, None)
            self._pulls.pop(key, None)

    def _transaction(self, command: wire.TransactionInfo) -> None:
        """Forward a transaction command to the brokers of the transaction.

        All brokers connected at the beginning are brokers of the transaction. A commit fails with fewer than
        ``minAckCount`` brokers.
        """
        key = str_id(command.transaction_id)
        if command.type == BEGIN:
            self._transactions[key] = set(self.online_branches())
        members = [branch for branch in self.online_branches() if branch in self._transactions.get(key, set())]
        if command.type in COMMITS or command.type in ROLLBACKS:
            self._transactions.pop(key, None)
        if command.type not in COMMITS or len(members) >= self.policy.min_ack_count:
            needed = min(self.policy.min_ack_count, len(members))
            self._send(command, members, needed, False)
            return
        undo = wire.TransactionInfo(connection_id=command.connection_id, transaction_id=command.transaction_id, type=4)
        for branch in members:
            branch.send(undo)
        thrown = Throwable(ROLLED_BACK, f"{len(members)} of the brokers of the transaction are left, "
                                        f"minAckCount is {self.policy.min_ack_count}")  # fmt: skip
        self._send_to_client(wire.ExceptionResponse(correlation_id=command.command_id, exception=thrown))

    def add(self, address: BrokerAddress) -> Branch:
        """Add a broker."""
        branch = Branch(self, address)
        self.branches.append(branch)
        return branch

    def remove(self, branch: Branch) -> None:
        """Remove a broker."""
        if branch in self.branches:
            self.branches.remove(branch)

    def on_connected(self, branch: Branch, now: float) -> None:
        """Start the handshake with a broker."""
        branch.failure = None
        branch.link = Link(branch.address.settings.wire_format, branch, now)

    def on_data(self, branch: Branch, data: bytes, now: float) -> None:
        """Take bytes from a broker. Raises `JmsError` or `ProtocolError` for an unusable link."""
        if branch.link is not None:
            branch.link.receive_data(data, now)

    def on_disconnected(self, branch: Branch) -> None:
        """Note a lost link; another broker becomes the primary if the primary is lost."""
        branch.link = None
        branch.is_online = False
        for members in self._transactions.values():
            members.discard(branch)
        if self.primary is branch:
            online = self.online_branches()
            self.primary = online[0] if online else None
            if self.primary is not None:
                self._replay_consumers(self.primary)
                self._replay_pending(self.primary, True)

    def log_in(self, branch: Branch) -> None:
        """Send the client's ConnectionInfo once the link is negotiated."""
        link, login = branch.link, self._login
        if link is None or login is None or not link.is_negotiated:
            return
        if self._is_logged_in:
            branch.send(wire.ConnectionControl(fault_tolerant=True))
        info = wire.ConnectionInfo(
            connection_id=login.connection_id,
            client_id=login.client_id,
            user_name=login.user_name,
            password=login.password,
            fault_tolerant=self._is_fault_tolerant,
            failover_reconnect=self._is_logged_in,
        )
        info.command_id = login.command_id
        info.response_required = True
        branch.send(info)

    def on_command(self, branch: Branch, command: DataStructure) -> None:
        """Handle a command of a broker. Raises `JmsError` if the broker refuses the login."""
        login = self._login
        if isinstance(command, wire.Response):
            if login is not None and command.correlation_id == login.command_id:
                self._on_login_response(branch, login, command)
            else:
                self._on_response(branch, command)
        elif isinstance(command, wire.KeepAliveInfo):
            if command.response_required:
                branch.send(wire.KeepAliveInfo())
        elif isinstance(command, (wire.ConnectionError, wire.ProducerAck)):
            if branch is self.primary or isinstance(command, wire.ConnectionError):
                self._send_to_client(command)
        elif isinstance(command, wire.ConsumerControl) and branch is self.primary:
            self._send_to_client(command)

    def _on_login_response(self, branch: Branch, login: wire.ConnectionInfo, response: wire.Response) -> None:
        if isinstance(response, wire.ExceptionResponse):
            branch.failure = refusal(response.exception, logging_in=True)
            if not self._is_logged_in and isinstance(branch.failure, AuthenticationError):
                self._send_to_client(response)  # one refused login is reported at once
            raise branch.failure
        assert branch.link is not None
        branch.link.authenticated()
        branch.is_online = True
        if self.primary is None:
            self.primary = branch
        waiting = self._unanswered()
        for command in (*self._temporary.values(), *self._sessions.values(), *self._producers.values()):
            if command.command_id not in waiting:
                branch.send(command)
        if self.primary is branch:
            self._replay_consumers(branch)
        self._replay_pending(branch, False)
        if not self._is_logged_in and self._has_quorum():
            self._is_logged_in = True
            self._send_to_client(wire.Response(login.command_id))
        self._forward_queued()

    def _replay_consumers(self, branch: Branch) -> None:
        waiting = self._unanswered()
        for info in (*self._consumers.values(), *self._pulls.values()):
            if info.command_id not in waiting:
                branch.send(info)

    def _unanswered(self) -> set[int]:
        """Return the command ids of pending requests. Requests are repeated separately."""
        return set(self._pending)

    def _replay_pending(self, branch: Branch, only_primary: bool) -> None:
        for pending in list(self._pending.values()):
            command = pending.command
            if isinstance(command, wire.TransactionInfo) or branch in pending.answered:
                continue
            if pending.to_primary == only_primary or (pending.to_primary and branch is self.primary):
                branch.send(command)

    def _on_response(self, branch: Branch, response: wire.Response) -> None:
        pending = self._pending.get(response.correlation_id)
        if isinstance(response, wire.ExceptionResponse):
            logger.warning("the broker at %s reports: %s", branch.address.url, refusal(response.exception))
        if pending is None or (pending.to_primary and branch is not self.primary):
            return
        pending.answered.add(branch)
        if isinstance(response, wire.ExceptionResponse):
            pending.refusal = response.exception
        elif pending.result is None:
            pending.result = response
        if len(pending.answered) < pending.needed:
            return
        del self._pending[response.correlation_id]
        if pending.refusal is not None:
            self._send_to_client(
                wire.ExceptionResponse(correlation_id=response.correlation_id, exception=pending.refusal)
            )
        else:
            self._send_to_client(pending.result if pending.result is not None else response)

    def on_dispatch(self, branch: Branch, consumer: wire.ConsumerId | None, raw: bytes, redelivery_count: int) -> None:
        """Pass a message of the primary, or the end of a browse, to the client."""
        if branch is not self.primary or branch.link is None or consumer is None:
            return
        message = decode_message(raw, branch.link.wire_format.version) if raw else None
        self._pulls.pop(str_id(consumer), None)
        self._send_to_client(
            wire.MessageDispatch(
                consumer_id=consumer,
                destination=None if message is None else message.destination,
                message=message,
                redelivery_counter=redelivery_count,
            )
        )


def str_id(identity: DataStructure | None) -> str:
    """Return an id as a key; the key of a producer or consumer begins with the key of its session."""
    if isinstance(identity, (wire.ProducerId, wire.ConsumerId)):
        return f"{identity.connection_id}:{identity.session_id}:{identity.value}"
    if isinstance(identity, wire.SessionId):
        return f"{identity.connection_id}:{identity.value}"
    if isinstance(identity, wire.LocalTransactionId):
        connection = identity.connection_id
        return f"{'' if connection is None else connection.value}:{identity.value}"
    if isinstance(identity, wire.XATransactionId):
        return f"{identity.format_id}:{identity.global_transaction_id!r}:{identity.branch_qualifier!r}"
    return "" if identity is None else type(identity).__name__
