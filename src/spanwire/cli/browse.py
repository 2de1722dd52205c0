"""``spanwire browse``: prints the messages of a queue and leaves them there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.cli.endpoint import connect, destination, endpoint_options, printable
from spanwire.client.message import Message
from spanwire.model.errors import ConfigurationError

KIND_NAMES: Final = {"message": "Message"}  # the others are TextMessage and so on
SHOWN_BODY: Final = 200  # characters


def run(arguments: Sequence[str]) -> int:
    """Prints one line a message, and how many there were."""
    parser = Parser(prog="spanwire browse", description="Print the messages of a queue without taking them.")
    parser.add_argument("queue", nargs="?", metavar="QUEUE", help="the queue; the same as --destination")
    endpoint_options(parser)
    parser.option("selector", "only messages that this SQL-92 expression selects", metavar="EXPRESSION")
    parser.whole_number("messageCount", "stop after so many messages; 0 for all", 0)
    options = parser.parse(arguments)
    if options.queue is not None:
        options.destination = options.queue
    target = destination(options)
    if not target.is_queue:
        raise ConfigurationError("only queues can be browsed")
    count = 0
    with connect(options) as connection, connection.session() as session:
        for message in session.create_browser(target, options.selector):
            count += 1
            sys.stdout.write(described(message) + "\n")
            if count == options.message_count:
                break
    sys.stdout.write(f"{count} messages in {target}\n")
    return 0


def described(message: Message) -> str:
    """A message on one line, with the brokers that it came through."""
    body = message.body
    shown = printable(body[:SHOWN_BODY]) if isinstance(body, str) else ""
    if isinstance(body, bytes):
        shown = f"({len(body)} bytes)"
    kind = KIND_NAMES.get(message.kind, f"{message.kind.capitalize()}Message")
    persistent = "persistent" if message.persistent else "non-persistent"
    path = [one.value or "" for one in message.headers.broker_path or []]
    came = f" BrokerPath=[{printable(', '.join(path))}]" if path else ""  # as ActiveMQ's tool shows it
    return f"{printable(message.message_id)} {kind} {persistent} priority={message.priority}{came} {shown}"
