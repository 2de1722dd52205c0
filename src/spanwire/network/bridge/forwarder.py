"""One direction of a link: forwards messages, and acknowledges them after the remote answer.

`spanwire.network.bridge.bridge` and `spanwire.network.bridge.duplex_bridge` open the link and handle other commands.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.persistence.sync_gate import HeldMessage, SyncGate
from spanwire.broker.ports import NO_TOKEN, ClientConnection
from spanwire.broker.security.audit_log import printable
from spanwire.model.acks import INDIVIDUAL_ACK, POISON_ACK, STANDARD_ACK, MessageAck
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, ProtocolError, SpanwireError
from spanwire.model.ids import MessageId, SessionId
from spanwire.model.info import ConnectionInfo
from spanwire.model.message import Message
from spanwire.network.bridge.bridge_statistics import BridgeStatistics, LinkCounts
from spanwire.network.bridge.forward_retries import ForwardRetries, RefusedMessage
from spanwire.network.bridge.frame_encoder import ForwardEncoder
from spanwire.network.bridge.local_demand import LocalDemand
from spanwire.network.bridge.remote_broker import RemoteBroker, exception_text
from spanwire.network.demand.bridge_settings import BRIDGE_SESSION, BridgeSettings
from spanwire.network.demand.demand_subscription import (
    DemandBridge,
    DemandSubscription,
    InFlightMessage,
    RemoteConsumer,
)
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.demand.remote_registry import RemoteBrokerRegistry
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.messages.message_format import OpenWireMessageFormat, format_id_of

FLAGGED: Final = 1  # largest forwarded redelivery count; breaks of links alone must not poison a message
GONE_DESTINATION: Final = "org.apache.activemq.DestinationDoesNotExistException"
MAX_LOGGED_REFUSALS: Final = 10  # messages of one link; a remote broker that refuses all must not fill the log

logger = logging.getLogger(__name__)


class Forwarder(DemandBridge):
    """Forwards the messages of one bridge and acknowledges them.

    The broker marks ``connection`` when there is output.
    """

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
        client = broker.add_connection(connection, login, now, remote.principal)
        try:
            routes.remote_brokers.add_link(remote.broker_id, remote.name, broker.broker_id, broker.name, remote.url)
        except JmsError:
            broker.remove_connection(client, now)
            raise
        routes.remote_brokers.reserve_label(remote.broker_id, remote.name)
        client.link = broker.assembly.context.links.number_of(remote.name)
        broker.add_session(client, SessionId(login.connection_id, BRIDGE_SESSION))
        wire_format = remote.wire_format
        assert wire_format is not None
        version = wire_format.version
        message_format = broker.formats.format(format_id_of(version))
        assert isinstance(message_format, OpenWireMessageFormat)
        self.counts: LinkCounts = LinkCounts()
        self.forwarded = 0
        self.acknowledged = 0
        self.failed = 0
        self._remote_brokers: Final[RemoteBrokerRegistry] = routes.remote_brokers
        self.local: Final[LocalDemand] = LocalDemand(broker, client, settings, remote, self, routes)
        self._broker: Final[Broker] = broker
        self._settings: Final[BridgeSettings] = settings
        self._remote: Final[RemoteBroker] = remote
        self._encoder: Final[ForwardEncoder] = ForwardEncoder(
            broker.broker_id, remote.producer_id, broker.formats, message_format, version, wire_format.max_frame_size,
            settings.compresses,
        )  # fmt: skip
        self._unanswered: Final[dict[int, InFlightMessage]] = {}
        self._unflushed: Final[list[InFlightMessage]] = []
        self._undeliverable: Final[list[tuple[InFlightMessage, str]]] = []
        self._touched: Final[list[DemandSubscription]] = []
        self._retries: Final[ForwardRetries] = ForwardRetries()
        self._gate: Final[SyncGate] = SyncGate(
            broker.assembly.context, broker.assembly.replies, client.output, self._send_held
        )
        self._refusals_logged = 0
        self._is_closed = False

    @property
    def in_flight(self) -> int:
        """The number of messages without an answer of the remote broker."""
        return len(self._unanswered) + len(self._unflushed) + len(self._gate) + self._retries.scheduled_count

    @property
    def remote_id(self) -> str:
        """The id of the remote broker."""
        return self._remote.broker_id

    def refusals(self, at_most: int) -> list[tuple[str, str]]:
        """Return id and refusal of up to ``at_most`` messages.

        The remote broker refused these messages, and the bridge tries again.
        """
        refused = list(islice(self._retries.messages.values(), at_most))
        return [(str(one.entry.message_id), printable(one.words)) for one in refused]

    def statistics(self) -> BridgeStatistics:
        """Return the counters of this direction; the link counts received messages."""
        statistics = BridgeStatistics()
        statistics.sent = self.forwarded
        statistics.answered = self.acknowledged
        statistics.failed = self.failed
        statistics.unserved = self.local.unserved
        statistics.refusals.add(self.local.demand.refusals)
        return statistics

    def forward(
        self, demand: DemandSubscription, message: Message, reference: MessageReference, redelivery_count: int
    ) -> None:
        """Send ``message`` to the remote broker."""
        entry = InFlightMessage(demand, message.message_id)
        demand.in_flight.append(entry)
        local = self.local
        if message.destination.is_advisory or (demand.is_durable and not local.demand.can_forward(message)):
            self._confirm(entry)  # advisories stay at their broker; a durable subscription has no filter of its own
        elif self._gate.lets_through(reference):
            self._send(entry, reference, redelivery_count)
        else:
            self._gate.hold(entry, reference, redelivery_count)

    def _send_held(self, held: HeldMessage) -> None:
        """Send a message that has just been synced, unless its consumer has ended."""
        entry = held.consumer
        assert isinstance(entry, InFlightMessage)
        subscription = entry.demand.subscription
        if subscription is not None and not subscription.removed:
            self._send(entry, held.reference, held.redelivery_count)

    def _send(self, entry: InFlightMessage, reference: MessageReference, redelivery_count: int) -> None:
        message = reference.message
        command_id = self._remote.next_command_id()
        answered = message.persistent or self._settings.always_sync_send
        try:
            number = self._broker.assembly.producer_audit.number_of(reference.destination.name, reference.sequence)
            self._encoder.append(
                self._remote.output, message, command_id, answered, min(redelivery_count, FLAGGED), number
            )
        except (JmsError, ProtocolError) as error:
            self._give_up(entry, str(error))
            return
        self.forwarded += 1
        self.counts.outbound.count(message.destination)
        if answered:
            self._unanswered[command_id] = entry
        else:
            self._unflushed.append(entry)

    def on_demand_ended(self, demand: DemandSubscription, reason: JmsError) -> None:
        """Forget ``demand``, because the local broker has removed the destination."""
        self.local.on_demand_ended(demand)

    def replace_demand(self, demand: DemandSubscription, now: Time) -> list[RemoteConsumer]:
        """End ``demand`` in favour of a better route. Returns the remote consumers to reconsider then."""
        return [] if self._is_closed else self.local.take_back(demand, now)

    def release(self, consumer: RemoteConsumer, now: Time) -> None:
        """Serve a consumer no longer, because another bridge has a better route to it."""
        self.local.release(consumer, now)

    def reconsider(self, consumer: RemoteConsumer, now: Time) -> None:
        """Serve a consumer again, because the better route is gone."""
        if not self._is_closed:
            self.local.reconsider(consumer, now)

    def announce_others(self, demand: DemandSubscription, now: Time) -> None:
        """Announce all consumers behind ``demand``, because there is another route to one of them."""
        if not self._is_closed:
            self.local.heralds.begin(demand, now)

    def on_response(self, correlation_id: int) -> bool:
        """Confirm the message of this Response. Returns False if no message has this id."""
        entry = self._unanswered.pop(correlation_id, None)
        if entry is None:
            return False
        if self._retries.messages:
            self._forget_refusal(entry)
        self._confirm(entry)
        return True

    def on_responses(self, correlation_ids: list[int]) -> list[int]:
        """Confirm the messages of several Responses. Returns the ids of no message."""
        sent = self._unanswered
        others: list[int] = []
        for correlation_id in correlation_ids:
            entry = sent.pop(correlation_id, None)
            if entry is None:
                others.append(correlation_id)
                continue
            if self._retries.messages:
                self._forget_refusal(entry)
            self._confirm(entry)
        return others

    def on_refusal(self, command: wire.ExceptionResponse, now: Time) -> bool:
        """Schedule a retry for a refused message. Returns False if the refused command is no message.

        After `MAX_TRIES` the message goes to the dead letter queue.
        """
        entry = self._unanswered.pop(command.correlation_id, None)
        if entry is None:
            return False
        words = exception_text(command.exception)
        kind = None if command.exception is None else command.exception.class_name
        if kind == GONE_DESTINATION:
            self._give_up(entry, words)  # the temporary destination is gone, so a retry is useless
            return True
        message = self._retries.messages.get(entry)
        if message is None:
            reference = self._reference_of(entry)
            if reference is None:
                return True  # the subscription has ended
            message = RefusedMessage(entry, reference, words)
            entry.demand.refused_count += 1
            self._report_failure(entry, words)
            self._log_refusal(entry, words)
        if not self._retries.schedule(message, kind, now.monotonic):
            self._forget_refusal(entry)
            self._send_to_dlq(entry, f"refused {message.tries} times: {words}")
        return True

    def _confirm(self, entry: InFlightMessage) -> None:
        """Note the remote broker's answer for a message."""
        entry.is_confirmed = True
        self._touch(entry.demand)

    def _give_up(self, entry: InFlightMessage, cause: str) -> None:
        """Give up a message without any prospect."""
        self._report_failure(entry, cause)
        self._send_to_dlq(entry, cause)

    def _report_failure(self, entry: InFlightMessage, cause: str) -> None:
        """Count a failure, and publish an advisory if the settings ask for one."""
        self.failed += 1
        advisories = self._broker.advisories
        if advisories is None or not self._settings.tells_failures:
            return
        reference = self._reference_of(entry)
        if reference is not None:
            advisories.forward_failed(reference.message, cause)

    def _send_to_dlq(self, entry: InFlightMessage, cause: str) -> None:
        """Send a message to the dead letter queue with the next `settle`."""
        self._undeliverable.append((entry, cause))

    def _reference_of(self, entry: InFlightMessage) -> MessageReference | None:
        """Return the local reference of a message; None if no longer in flight."""
        subscription = entry.demand.subscription
        if subscription is None or subscription.removed:
            return None
        return subscription.in_flight.find(entry.message_id)

    def _forget_refusal(self, entry: InFlightMessage) -> None:
        if self._retries.forget(entry):
            entry.demand.refused_count -= 1

    def _log_refusal(self, entry: InFlightMessage, words: str) -> None:
        self._refusals_logged += 1
        if self._refusals_logged <= MAX_LOGGED_REFUSALS:
            more = "" if self._refusals_logged < MAX_LOGGED_REFUSALS else "; others are not reported"
            logger.warning("broker %s refused message %s, which is tried again: %s%s",
                           self._remote.name, printable(str(entry.message_id)), printable(words), more)  # fmt: skip

    def next_timeout(self) -> float | None:
        """Return the time of the next retry, in monotonic seconds."""
        return self._retries.next_timeout()

    def handle_timeout(self, now: Time) -> None:
        """Resend all due messages."""
        for message in self._retries.take_due(now.monotonic):
            self._resend(message)

    def _resend(self, refused: RefusedMessage) -> None:
        entry, reference = refused.entry, refused.reference
        subscription = entry.demand.subscription
        if subscription is None or subscription.removed:
            self._forget_refusal(entry)
            return
        command_id = self._remote.next_command_id()
        number = self._broker.assembly.producer_audit.number_of(reference.destination.name, reference.sequence)
        count = min(reference.redelivery_count, FLAGGED)
        self._encoder.append(self._remote.output, reference.message, command_id, True, count, number)
        self._unanswered[command_id] = entry

    def on_advisory(self, subject: DataStructure | None, now: Time) -> None:
        """Pass an advisory on to the local demand."""
        self.local.on_advisory(subject, now)

    def on_subscription_info(self, command: wire.BrokerSubscriptionInfo, now: Time) -> None:
        """Pass the remote broker's durable subscriptions on to the local demand."""
        self.local.on_subscription_info(command, now)

    def unsent(self, count: int, now: Time) -> None:
        """Note the unsent bytes of the transport.

        At 0 all messages without a demanded answer count as confirmed.
        """
        local = self.local
        if count == 0 and self._unflushed:
            for entry in self._unflushed:
                self._confirm(entry)
            self._unflushed.clear()
        self._broker.output_progress(local.client, count, now)
        self.settle(now)

    def settle(self, now: Time) -> None:
        """Acknowledge the confirmed messages at the local broker."""
        if self._is_closed:
            return
        client = self.local.client
        while self._undeliverable:
            entry, cause = self._undeliverable.pop()
            self._acknowledge_poison(client, entry, cause, now)
        while self._touched:
            demand = self._touched.pop()
            demand.touched = False
            confirmed = demand.take_confirmed()
            subscription = demand.subscription
            if subscription is None or subscription.removed:
                continue
            if confirmed:
                self.acknowledged += len(confirmed)
                self._broker.acknowledge(
                    client,
                    subscription,
                    MessageAck(STANDARD_ACK, confirmed[0].message_id, confirmed[-1].message_id, len(confirmed)),
                    None,
                    NO_TOKEN,
                    now,
                )
            if demand.refused_count > 0:
                self._acknowledge_out_of_order(subscription, demand, now)
            if demand.is_ending and not demand.in_flight:
                self.local.end(demand, now)

    def _acknowledge_out_of_order(self, subscription: Subscription, demand: DemandSubscription, now: Time) -> None:
        """Acknowledge confirmed messages behind a refused message, so as not to fill the window."""
        unconfirmed: list[InFlightMessage] = []
        for entry in demand.in_flight:
            if entry.is_confirmed:
                self._acknowledge_one(subscription, entry.message_id, now)
            else:
                unconfirmed.append(entry)
        demand.in_flight.clear()
        demand.in_flight.extend(unconfirmed)

    def _acknowledge_poison(self, client: ConnectionState, entry: InFlightMessage, cause: str, now: Time) -> None:
        """Acknowledge a message as poisoned, so that the local broker sends it to the dead letter queue."""
        shown = printable(str(entry.message_id))
        logger.warning(
            "message %s cannot be forwarded to %s: %s; it becomes a dead letter",
            shown,
            self._remote.name,
            printable(cause),
        )
        demand = entry.demand
        subscription = demand.subscription
        demand.in_flight.remove(entry)
        if subscription is not None and not subscription.removed:
            message_id = entry.message_id
            self._broker.acknowledge(
                client, subscription, MessageAck(POISON_ACK, message_id, message_id, 1, cause), None, NO_TOKEN, now
            )
        self._touch(demand)

    def _touch(self, demand: DemandSubscription) -> None:
        if not demand.touched:
            demand.touched = True
            self._touched.append(demand)

    def acknowledge_confirmed(self, subscription: Subscription, demand: DemandSubscription, now: Time) -> None:
        """Acknowledge all confirmed messages of ``demand``, also those behind others."""
        for entry in demand.in_flight:
            if entry.is_confirmed:
                self._acknowledge_one(subscription, entry.message_id, now)

    def _acknowledge_one(self, subscription: Subscription, message_id: MessageId, now: Time) -> None:
        try:
            self._broker.acknowledge(
                self.local.client, subscription, MessageAck(INDIVIDUAL_ACK, None, message_id), None, NO_TOKEN, now
            )
            self.acknowledged += 1
        except SpanwireError as error:  # the message is forwarded again, flagged as redelivered
            logger.debug("message %s cannot be acknowledged at the end of a bridge: %s", message_id, error)

    def close(self, now: Time) -> None:
        """Close this direction. A second call has no effect."""
        if self._is_closed:
            return
        self._is_closed = True
        self._remote_brokers.remove_link(self._remote.broker_id)
        self.local.close(now)
        self._gate.clear()
        self._unanswered.clear()
        self._unflushed.clear()
        self._undeliverable.clear()
        self._touched.clear()
        self._retries.clear()
