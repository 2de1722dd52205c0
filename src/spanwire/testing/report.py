"""Description of a broker's messages for the report of a failed test."""

from __future__ import annotations

from typing import Final

from spanwire.broker.admin.views import ConnectionView, DestinationView
from spanwire.model.destination import parse_destination
from spanwire.model.errors import SpanwireError
from spanwire.testing.broker import Broker

MAX_DESTINATIONS: Final = 50  # lines for queues and topics
MAX_CONNECTIONS: Final = 20  # lines for clients, and for links
HEADS: Final = ("pending", "in flight", "enqueued", "dequeued", "consumers")


def describe(broker: Broker, messages: int) -> str:
    """Describe a broker: counters of its destinations, the first ``messages`` of each queue, its clients.

    Never raises: the text says if the broker does not answer.
    """
    if not broker.is_running:
        return "the broker is stopped"
    try:
        return "\n".join(
            [
                *_destinations(broker, messages),
                *_durables(broker, messages),
                *_links(broker),
                *_clients(broker.clients()),
            ]
        )
    except SpanwireError as error:
        return f"the broker cannot be asked: {error}"


def _destinations(broker: Broker, messages: int) -> list[str]:
    views = broker.destinations()
    if not views:
        return ["no queues, no topics"]
    described = views[:MAX_DESTINATIONS]
    width = max(len(view.destination) for view in described)
    lines = [" ".join([" " * width, *(head.rjust(9) for head in HEADS)])]
    for view in described:
        lines.append(_counters(view, width))
        if view.pending > view.in_flight and view.destination.startswith("queue://"):
            lines += _heads(broker, view, messages)
        if view.in_flight and view.destination.startswith("queue://"):
            lines += _in_flight(broker, view, messages)
    if len(views) > len(described):
        lines.append(f"and {len(views) - len(described)} more")
    return lines


def _counters(view: DestinationView, width: int) -> str:
    numbers = (view.pending, view.in_flight, view.enqueued, view.dequeued, view.consumers)
    return " ".join([view.destination.ljust(width), *(str(number).rjust(9) for number in numbers)])


def _heads(broker: Broker, view: DestinationView, count: int) -> list[str]:
    waiting = view.pending - view.in_flight
    oldest = broker.queue(view.destination).messages(count)
    lines = [f"    {message.line()}" for message in oldest]
    if waiting > len(oldest):
        lines.append(f"    … and {waiting - len(oldest)} more")
    return lines


def _in_flight(broker: Broker, view: DestinationView, count: int) -> list[str]:
    lines: list[str] = []
    for in_flight in broker.held(parse_destination(view.destination), count)[:MAX_CONNECTIONS]:
        lines.append(f"    {in_flight.count} with {in_flight.client_id or 'a client'}, not acknowledged:")
        lines += [f"        {message.line()}" for message in in_flight.oldest]
    return lines


def _durables(broker: Broker, count: int) -> list[str]:
    lines: list[str] = []
    for durable in broker.durables(count)[:MAX_DESTINATIONS]:
        if durable.pending:
            where = f"{durable.pending - durable.in_flight} waiting, {durable.in_flight} in flight"
            state = "" if durable.active else ", which is away"
            lines.append(f"durable {durable.name} of {durable.client_id} on {durable.topic}: {where}{state}")
            lines += [f"    {message.line()}" for message in durable.oldest]
    return lines


def _links(broker: Broker) -> list[str]:
    return [
        f"link {link['name']} to {link['uri']} is {link['state']}, {link['demand']} destination(s) asked for there,"
        f" {link['in_flight']} message(s) on the way {link['reason']}".rstrip()
        for link in broker.links()[:MAX_CONNECTIONS]
    ]


def _clients(views: list[ConnectionView]) -> list[str]:
    lines = [f"client {client_line(view)}" for view in views[:MAX_CONNECTIONS]]
    if len(views) > len(lines):
        lines.append(f"and {len(views) - len(lines)} more clients")
    return lines


def client_line(view: ConnectionView) -> str:
    """Describe a client in a few words."""
    user = f" as {view.user_name}" if view.user_name else ""
    slow = ", does not read what was sent to it" if view.slow else ""
    return (
        f"{view.client_id or view.connection_id}{user} ({view.protocol} from {view.remote_address}, "
        f"{view.consumers} consumer(s), {view.producers} producer(s){slow})"
    )
