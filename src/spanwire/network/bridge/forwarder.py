"""One direction of a link: what subscriptions here get is sent there, and acknowledged here when it was answered there.

Opening the link and what else is said on it is left to `spanwire.network.bridge.bridge` and
`spanwire.network.bridge.duplex_bridge`.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.ports import ClientConnection
from spanwire.broker.security.audit_log import printable
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.ids import SessionId
from spanwire.model.info import ConnectionInfo
from spanwire.model.message import Message
from spanwire.network.bridge.forward_retries import RefusedMessage, RefusedMessages
from spanwire.network.bridge.frame_encoder import MessageForwarder
from spanwire.network.bridge.local_broker import LocalBroker
from spanwire.network.bridge.remote_broker import RemoteBroker, said
from spanwire.network.bridge_statistics import LinkCounts
from spanwire.network.demand.demand import BRIDGE_SESSION, DemandSubscription, Forwarded, Forwarding, RemoteConsumer
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.demand.remote_registry import LinkedBrokers
from spanwire.network.settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.messages.message_format import OpenWireMessageFormat, format_id_of

FLAGGED: Final = 1  # deliveries before, as the next broker is told: breaks of a link alone make no poisoned message
GONE_DESTINATION: Final = "org.apache.activemq.DestinationDoesNotExistException"
MAX_LOGGED_REFUSALS: Final = 10  # messages of one link; a remote broker that refuses all must not fill the log

logger = logging.getLogger(__name__)


class Crossing(Forwarding):
    """The messages of one bridge on their way; ``connection`` is who the broker here tells that there is output."""

    def __init__(
        self,
        broker: Broker,
        settings: BridgeSettings,
        remote: RemoteBroker,
        connection: ClientConnection,
        login: ConnectionInfo,
        routes: NetworkRoutes,
        now: Time,
    ) -> None:
        client = broker.add_connection(connection, login, now)
        try:
            routes.linked.enter(remote.broker_id, remote.name, broker.broker_id, broker.name)
        except JmsError:
            broker.remove_connection(client, now)
            raise
        routes.linked.hold(remote.broker_id, remote.name)
        broker.add_session(client, SessionId(login.connection_id, BRIDGE_SESSION))
        wire_format = remote.wire_format
        assert wire_format is not None
        version = wire_format.version
        message_format = broker.formats.format(format_id_of(version))
        assert isinstance(message_format, OpenWireMessageFormat)
        self.forwarded = 0
        self._linked: Final[LinkedBrokers] = routes.linked
        self.local: Final[LocalBroker] = LocalBroker(broker, client, settings, remote, self, routes)
        self._broker: Final[Broker] = broker
        self._settings: Final[BridgeSettings] = settings
        self._remote: Final[RemoteBroker] = remote
        self._forwarder: Final[MessageForwarder] = MessageForwarder(
            broker.broker_id, remote.producer_id, broker.formats, message_format, version, wire_format.max_frame_size,
            settings.compresses,
        )  # fmt: skip
        self._sent: Final[dict[int, Forwarded]] = {}
        self._unflushed: Final[list[Forwarded]] = []
        self._refused: Final[RefusedMessages] = RefusedMessages()
        self._refusals_logged = 0
        self._over = False

    @property
    def in_flight(self) -> int:
        """How many messages are on their way: forwarded and not answered."""
        return len(self._sent) + len(self._unflushed) + self._refused.waiting

    def counts(self) -> LinkCounts:
        """What crossed and what did not; what is received is the business of the link."""
        counts = LinkCounts()
        counts.sent = self.forwarded
        counts.answered = self.local.acknowledged
        counts.failed = self.local.failed
        counts.unserved = self.local.unserved
        counts.refusals.add(self.local.demand.refusals)
        return counts

    def forward(
        self, demand: DemandSubscription, message: Message, reference: MessageReference, redelivery_count: int
    ) -> None:
        """Send ``message`` to the remote broker."""
        entry = Forwarded(demand, message.message_id)
        demand.out.append(entry)
        local = self.local
        if message.destination.is_advisory or (demand.is_durable and not local.demand.passes(message)):
            local.answered(entry)  # each broker tells its own advisories; a durable subscription has no filter
            return
        command_id = self._remote.next_command_id()
        answered = message.persistent or self._settings.always_sync_send
        try:
            number = self._broker.producer_audit.number_of(reference.home.destination, reference.sequence)
            self._forwarder.append(
                self._remote.output, message, command_id, answered, min(redelivery_count, FLAGGED), number
            )
        except (JmsError, ProtocolError) as error:
            local.gives_up(entry, str(error))
            return
        self.forwarded += 1
        if answered:
            self._sent[command_id] = entry
        else:
            self._unflushed.append(entry)

    def demand_ended(self, demand: DemandSubscription, reason: JmsError) -> None:
        """The destination of ``demand`` is gone here."""
        self.local.ended(demand)

    def replaced(self, demand: DemandSubscription, now: Time) -> list[RemoteConsumer]:
        """There is a better route to what ``demand`` is for; gives those to be reconsidered when it is made."""
        return [] if self._over else self.local.takes_back(demand, now)

    def reconsider(self, consumer: RemoteConsumer, now: Time) -> None:
        """The better route to a consumer that this bridge told of is gone."""
        if not self._over:
            self.local.reconsider(consumer, now)

    def answered(self, correlation_id: int) -> bool:
        """A Response came; False when it is none to a message."""
        entry = self._sent.pop(correlation_id, None)
        if entry is None:
            return False
        if self._refused.known:
            self._forget_refusal(entry)
        self.local.answered(entry)
        return True

    def answered_all(self, correlation_ids: list[int]) -> list[int]:
        """Responses came; gives those that are none to messages."""
        sent = self._sent
        others: list[int] = []
        for correlation_id in correlation_ids:
            entry = sent.pop(correlation_id, None)
            if entry is None:
                others.append(correlation_id)
                continue
            if self._refused.known:
                self._forget_refusal(entry)
            self.local.answered(entry)
        return others

    def refused(self, command: wire.ExceptionResponse, now: Time) -> bool:
        """An ExceptionResponse came; False when it is none to a message. The message is sent again after a while, and
        goes to the dead letters when that was of no use.
        """
        entry = self._sent.pop(command.correlation_id, None)
        if entry is None:
            return False
        words = said(command.exception)
        kind = None if command.exception is None else command.exception.class_name
        if kind == GONE_DESTINATION:
            self.local.gives_up(entry, words)  # whoever waited for it there is gone, which is nobody's fault
            return True
        message = self._refused.known.get(entry)
        if message is None:
            reference = self.local.reference_of(entry)
            if reference is None:
                return True  # it is out no more: its subscription has ended
            message = RefusedMessage(entry, reference)
            entry.demand.refused += 1
            self.local.fails(entry, words)
            self._log_refusal(entry, words)
        if not self._refused.hold(message, kind, now.monotonic):
            self._forget_refusal(entry)
            self.local.buries(entry, f"refused {message.tries} times: {words}")
        return True

    def _forget_refusal(self, entry: Forwarded) -> None:
        if self._refused.forget(entry):
            entry.demand.refused -= 1

    def _log_refusal(self, entry: Forwarded, words: str) -> None:
        self._refusals_logged += 1
        if self._refusals_logged <= MAX_LOGGED_REFUSALS:
            more = "" if self._refusals_logged < MAX_LOGGED_REFUSALS else "; others are not reported"
            logger.warning("broker %s refused message %s, which is tried again: %s%s",
                           self._remote.name, printable(str(entry.message_id)), printable(words), more)  # fmt: skip

    def next_timeout(self) -> float | None:
        """When to call `handle_timeout`, in monotonic seconds."""
        return self._refused.next_timeout()

    def handle_timeout(self, now: Time) -> None:
        """Send again what was refused long enough ago."""
        for message in self._refused.take_due(now.monotonic):
            self._send_again(message)

    def _send_again(self, refused: RefusedMessage) -> None:
        entry, reference = refused.entry, refused.reference
        subscription = entry.demand.subscription
        if subscription is None or subscription.removed:
            self._forget_refusal(entry)
            return
        command_id = self._remote.next_command_id()
        number = self._broker.producer_audit.number_of(reference.home.destination, reference.sequence)
        count = min(reference.redelivery_count, FLAGGED)
        self._forwarder.append(self._remote.output, reference.message, command_id, True, count, number)
        self._sent[command_id] = entry

    def told(self, subject: DataStructure | None, now: Time) -> None:
        """An advisory came."""
        self.local.told(subject, now)

    def synchronised(self, command: wire.BrokerSubscriptionInfo, now: Time) -> None:
        """The remote broker told of its durable subscriptions."""
        self.local.synchronised(command, now)

    def unsent(self, count: int, now: Time) -> None:
        """The transport still holds ``count`` bytes."""
        local = self.local
        if count == 0 and self._unflushed:
            for entry in self._unflushed:
                local.answered(entry)
            self._unflushed.clear()
        self._broker.output_progress(local.client, count, now)
        self.settle(now)

    def settle(self, now: Time) -> None:
        """Acknowledge here what was answered there."""
        if not self._over:
            self.local.settle(now)

    def leave(self, now: Time) -> None:
        """The link is over. A second call does nothing."""
        if self._over:
            return
        self._over = True
        self._linked.leave(self._remote.broker_id)
        self.local.leaves(now)
        self._sent.clear()
        self._unflushed.clear()
        self._refused.clear()
