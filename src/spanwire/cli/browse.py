"""``spanwire browse``: prints the messages of a queue and leaves them there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.cli.endpoint import connect, destination, endpoint_options, printable
from spanwire.client.session import body_of, message_id_text
from spanwire.model.errors import ConfigurationError
from spanwire.protocols.openwire import _marshallers as wire

PREFETCH: Final = 500  # ActiveMQ's queueBrowserPrefetch
END_TIMEOUT_S: Final = 30.0  # a browse whose end does not come within this time is broken
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
    with connect(options) as connection:
        consumer = connection.consumer(target, PREFETCH, options.selector, browser=True)
        dispatch = connection.receive(END_TIMEOUT_S)
        while dispatch is not None and dispatch.message is not None:
            count += 1
            sys.stdout.write(_line(dispatch.message) + "\n")
            if count == options.message_count:
                break
            connection.send(consumer.acknowledgement(dispatch, dispatch, 1))
            dispatch = connection.receive(END_TIMEOUT_S)
    sys.stdout.write(f"{count} messages in {target}\n")
    return 0


def _line(message: wire.Message) -> str:
    body = body_of(message)
    shown = f"({len(body)} bytes)" if isinstance(body, bytes) else printable((body or "")[:SHOWN_BODY])
    kind = wire.TYPE_NAMES.get(message.type_id(), "Message").removeprefix("ActiveMQ")
    persistent = "persistent" if message.persistent else "non-persistent"
    return f"{printable(message_id_text(message))} {kind} {persistent} priority={message.priority} {shown}"
