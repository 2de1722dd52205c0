"""What a broker has to be told again after a reconnect, in the order in which it can understand it.

Temporary destinations, sessions, producers, consumers; then whatever still waits for an answer, messages with the ids
they had. Open transactions are not told again: the broker has rolled them back, and their commit says so.
"""

from __future__ import annotations

from typing import Final

from spanwire.client.consumer import ClientConsumer
from spanwire.client.line import COMMIT, XA, Line, Request
from spanwire.client.session import ClientSession
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, TransactionRolledBackError
from spanwire.protocols.openwire import _marshallers as wire
from spanwire.protocols.openwire.identities import wire_destination

ADD: Final = 0


def settle_interrupted(line: Line, sessions: list[ClientSession]) -> None:
    """The link is gone: end what cannot be told again, keep what can."""
    for session in sessions:
        session.interrupted()
    for request in list(line.requests.values()):
        command = request.command
        if request.kind == COMMIT:
            for session in sessions:
                if session.number == request.owner:
                    session.transaction.is_broken = False  # this answer tells of it
            line.complete(
                request,
                TransactionRolledBackError("the connection broke during the commit, whose outcome is not known"),
            )
        elif request.kind == XA:
            line.complete(
                request, JmsError("the connection broke during this step of the branch; xa.recover tells its state")
            )
        elif request.in_transaction or isinstance(command, (wire.TransactionInfo, wire.RemoveInfo)):
            line.complete(request, None)  # the broker did it when the connection ended
    line.epoch += 1


def replay(
    line: Line,
    connection_id: str,
    temporary: list[Destination],
    sessions: list[ClientSession],
) -> list[tuple[ClientConsumer, Request]]:
    """Tell everything over the new link; gives the consumers that the broker has still to accept."""
    link = line.link
    assert link is not None
    waiting = sorted(line.requests.values(), key=request_number)
    for destination in temporary:
        link.send(temporary_info(connection_id, destination))
    for session in sessions:
        link.send(session.announcement())
        for producer in session.producers.values():
            if producer.is_announced:
                link.send(producer.announcement())
    line.is_online = True
    consumers: list[tuple[ClientConsumer, Request]] = []
    for session in sessions:
        for consumer in session.consumers.values():
            if consumer.is_announced and not consumer.is_browser and consumer.failure is None:
                consumers.append((consumer, consumer.announce()))
    line.resend_cached()
    for request in waiting:
        try:
            line.resend(request)
        except JmsError as error:
            line.complete(request, error)  # this broker takes no message so large, say; the others go on
    return consumers


def request_number(request: Request) -> int:
    """Requests in the order in which they were made."""
    return request.number


def temporary_info(connection_id: str, destination: Destination) -> wire.DestinationInfo:
    """The announcement of a temporary destination."""
    return wire.DestinationInfo(
        connection_id=wire.ConnectionId(connection_id), destination=wire_destination(destination), operation_type=ADD
    )
