"""State to repeat to a broker after a reconnect (ActiveMQ's ConnectionStateTracker).

The order is temporary destinations, sessions, producers, consumers, open transactions, and pending requests with their
old ids. A transaction with received messages or with a pending commit is not repeated: the broker has rolled the
transaction back, or the outcome is unknown, and the commit reports the failure.
"""

from __future__ import annotations

from typing import Final

from spanwire.client.messages.message_template import ONE_WAY
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.client.protocol.response_correlator import COMMIT, XA, Request, ResponseCorrelator, same_layout
from spanwire.client.protocol.session import ClientSession
from spanwire.client.protocol.transaction import LocalTransaction, TransactedSend
from spanwire.client.protocol.transport.link import Link
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ProtocolError, TransactionRolledBackError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.openwire.messages.identities import wire_destination

ADD: Final = 0


class ConsumerReplays:
    """Repeats the state to a broker, and notes the broker's answers about consumers."""

    def __init__(self, correlator: ResponseCorrelator) -> None:
        self.pending: list[tuple[ClientConsumer, Request]] = []
        self._correlator: Final[ResponseCorrelator] = correlator

    def begin(self, connection_id: str, temporary: list[Destination], sessions: list[ClientSession]) -> None:
        """Repeat all state over the new link."""
        self.pending = replay(self._correlator, connection_id, temporary, sessions)

    def on_response(self, request: Request) -> None:
        """Fail a consumer refused by the broker, or let a waiting receive repeat the MessagePull."""
        for pair in self.pending:
            if pair[1] is request:
                self.pending.remove(pair)
                if request.error is not None:
                    pair[0].fail(request.error)
                elif pair[0].prefetch == 0:
                    pair[0].wake()
                return

    def forget(self) -> None:
        """Complete the pending requests, because the link has ended."""
        for _, request in self.pending:
            self._correlator.complete(request, None)
        self.pending = []


def settle_interrupted(correlator: ResponseCorrelator, sessions: list[ClientSession]) -> None:
    """Complete the unrepeatable requests after a lost link, and keep the other requests."""
    survivors: set[int] = set()
    for session in sessions:
        session.on_interrupted()
        if session.transaction.is_replayable and session.transaction.is_begun:
            survivors.add(session.number)
    for request in list(correlator.requests.values()):
        doubt = in_doubt(request)
        if doubt is not None:
            if request.kind == COMMIT:
                for session in sessions:
                    if session.number == request.owner:
                        session.transaction.is_broken = False  # the error of the commit reports the loss
            correlator.complete(request, doubt)
        elif request.in_transaction and request.owner in survivors:
            continue
        elif request.in_transaction or isinstance(request.command, (wire.TransactionInfo, wire.RemoveInfo)):
            correlator.complete(request, None)  # done by the broker when the connection ended
    correlator.epoch += 1


def in_doubt(request: Request) -> JmsError | None:
    """Return the error of a request with an unknown outcome, or None.

    Such a request must not be repeated to another broker.
    """
    if request.kind == COMMIT:
        return TransactionRolledBackError("the connection broke during the commit, whose outcome is not known")
    if request.kind == XA:
        return JmsError("the connection broke during this step of the branch; xa.recover tells its state")
    if isinstance(request.command, wire.MessageAck):  # another broker would apply it to its own dispatches
        return JmsError("the connection was lost before the broker had confirmed the acknowledgement")
    return None


def replay(
    correlator: ResponseCorrelator,
    connection_id: str,
    temporary: list[Destination],
    sessions: list[ClientSession],
) -> list[tuple[ClientConsumer, Request]]:
    """Repeat all state over the new link. Returns the consumers with a pending response."""
    link = correlator.link
    assert link is not None
    pending = sorted(correlator.requests.values(), key=request_number)
    for destination in temporary:
        link.send(temporary_info(connection_id, destination))
    for session in sessions:
        link.send(session.announcement())
        for producer in session.producers.values():
            if producer.is_announced:
                link.send(producer.announcement())
    correlator.is_online = True
    consumers = replay_consumers(sessions)
    correlator.resend_cached()
    for session in sessions:
        replay_transaction(correlator, link, session)
    for request in pending:
        if not request.in_transaction:
            try:
                correlator.resend(request)
            except JmsError as error:
                correlator.complete(request, error)  # a message above this broker's frame limit, for example
    return consumers


def replay_consumers(sessions: list[ClientSession]) -> list[tuple[ClientConsumer, Request]]:
    """Announce the consumers again, without browsers."""
    consumers: list[tuple[ClientConsumer, Request]] = []
    for session in sessions:
        for consumer in session.consumers.values():
            if consumer.is_announced and not consumer.is_browser and consumer.failure is None:
                consumers.append((consumer, consumer.announce()))
    return consumers


def replay_transaction(correlator: ResponseCorrelator, link: Link, session: ClientSession) -> None:
    """Repeat the sends of an open transaction with the original producer ids.

    A send refused for the new broker breaks the transaction, and the new broker rolls the transaction back.
    """
    transaction = session.transaction
    if not transaction.is_replayable or not transaction.is_begun:
        return
    if not transaction.fits(link.wire_format.max_frame_size):
        give_up(correlator, transaction)
        return
    closed_producers = transaction.closed_producers
    link.send(transaction.begin_command())
    for info in closed_producers.values():
        link.send(info)
    try:
        for sent in transaction.sends:
            resend_transacted(correlator, link, sent)
    except (JmsError, ProtocolError):
        link.send(transaction.rollback_command())
        give_up(correlator, transaction)
    for info in closed_producers.values():
        link.send(wire.RemoveInfo(object_id=info.producer_id))


def give_up(correlator: ResponseCorrelator, transaction: LocalTransaction) -> None:
    """Break a transaction: the commit fails, and pending requests of the transaction are completed."""
    transaction.forget()
    transaction.mark_broken()
    correlator.complete_in_transaction(transaction.session, None)


def resend_transacted(correlator: ResponseCorrelator, link: Link, sent: TransactedSend) -> None:
    """Send one message of a transaction; without a response if the request is no longer pending."""
    raw = sent.raw
    if sent.number not in correlator.requests:
        raw = raw[:1] + ONE_WAY + raw[1 + len(ONE_WAY) :]
    if same_layout(sent.version, link.wire_format.version):
        link.send_message(raw)
    else:
        link.send(decode_message(raw, sent.version))


def request_number(request: Request) -> int:
    """Return the command id, the order of requests."""
    return request.number


def temporary_info(connection_id: str, destination: Destination) -> wire.DestinationInfo:
    """Return the DestinationInfo for the creation of a temporary destination."""
    return wire.DestinationInfo(
        connection_id=wire.ConnectionId(connection_id), destination=wire_destination(destination), operation_type=ADD
    )
