"""``spanwire producer``: sends messages, with the options of ActiveMQ's tool."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.cli.endpoint import connect, destination, endpoint_options, rate
from spanwire.client.blocking import Session
from spanwire.client.messages.content_types import AcknowledgeMode
from spanwire.model.destination import Destination

DEFAULT_COUNT: Final = 1000  # ActiveMQ's default


def run(arguments: Sequence[str]) -> int:
    """Send messages and print the rate."""
    parser = Parser(prog="spanwire producer", description="Send messages to a queue or topic.")
    endpoint_options(parser)
    parser.whole_number("messageCount", f"how many messages, {DEFAULT_COUNT} without it", DEFAULT_COUNT)
    parser.whole_number("messageSize", "send bytes messages of this size", 0)
    parser.option("message", "the text to send; default: the number of the message")
    parser.flag("persistent", "store the messages (the default)", default=True)
    parser.whole_number("sleep", "milliseconds between two messages", 0)
    parser.whole_number("transactionBatchSize", "commit after this many messages; 0 for no transactions", 0)
    options = parser.parse(arguments)
    target = destination(options)
    started = time.monotonic()
    acknowledge: AcknowledgeMode = "transacted" if options.transaction_batch_size else "auto"
    with connect(options) as connection, connection.session(acknowledge) as session:
        _send(session, target, options)
    sys.stdout.write(
        f"sent {options.message_count} messages in {rate(options.message_count, time.monotonic() - started)}\n"
    )
    return 0


def _send(session: Session, target: Destination, options: argparse.Namespace) -> None:
    batch: int = options.transaction_batch_size
    producer = session.create_producer(target, persistent=options.persistent)
    for number in range(options.message_count):
        producer.send(_body(options, number))
        if batch and ((number + 1) % batch == 0 or number + 1 == options.message_count):
            session.commit()
        if options.sleep:
            time.sleep(options.sleep / 1000)


def _body(options: argparse.Namespace, number: int) -> str | bytes:
    if options.message is not None:
        return str(options.message)
    if options.message_size:
        return b"x" * int(options.message_size)
    return f"test message: {number}"
