"""``spanwire consumer``: receives messages and prints the texts.

The options have the names of ActiveMQ's tool.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final, cast

from spanwire import registry
from spanwire.cli.arguments import Command, Parser
from spanwire.cli.endpoint import connect, destination, endpoint_options, rate
from spanwire.cli.messages.threads import in_threads, thread_option
from spanwire.client.blocking import Connection, Consumer, Session
from spanwire.client.messages.content_types import AcknowledgeMode
from spanwire.client.messages.message import Message
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped

ACTIONS: Final = "spanwire.cli.management.nouns:consumer"  # loaded for an action alone
OF_A_BROKER: Final = "spanwire consumer list | show | end is about the consumers of a running broker."
DEFAULT_COUNT: Final = 1000  # ActiveMQ's default
MODES: Final[dict[str, AcknowledgeMode]] = {
    "SESSION_TRANSACTED": "transacted",
    "AUTO_ACKNOWLEDGE": "auto",
    "CLIENT_ACKNOWLEDGE": "client",
    "DUPS_OK_ACKNOWLEDGE": "dups_ok",
}
DURABLE_NAME: Final = "consumer"


def run(arguments: Sequence[str]) -> int:
    """Receive messages and print the rate, or run an action about the consumers of a broker."""
    if arguments and not arguments[0].startswith("-"):
        about_consumers = cast(Command, registry.load(ACTIONS))
        return about_consumers(arguments)
    parser = Parser(
        prog="spanwire consumer",
        description=f"Receive messages from a queue or topic and print them.\n{OF_A_BROKER}",
    )
    endpoint_options(parser)
    parser.whole_number("messageCount", f"stop after so many messages, {DEFAULT_COUNT} without it", DEFAULT_COUNT)
    parser.whole_number("sleep", "milliseconds to wait after each message", 0)
    parser.whole_number("timeout", "stop when no message came for so many milliseconds; 0 waits for ever", 0)
    parser.flag("durable", "subscribe durably to a topic, under the client id")
    parser.add_argument("--ack-mode", "--ackMode", choices=MODES, default="AUTO_ACKNOWLEDGE", help="how to acknowledge")
    parser.whole_number(
        "batchSize", "acknowledge or commit after so many messages in client mode or transactions", 10, lowest=1
    )
    parser.option("selector", "only messages that this SQL-92 expression selects", metavar="EXPRESSION")
    parser.flag("bytesAsText", "print bytes messages as UTF-8 text")
    parser.flag("quiet", "print the last line only")
    thread_option(parser, "receive with so many sessions at a time, --messageCount messages each")
    options = parser.parse(arguments)
    target = destination(options)
    if options.durable and (options.client_id is None or target.kind != TOPIC):
        raise ConfigurationError("--durable needs --clientId and a topic")
    if options.durable and options.parallel_threads > 1:
        raise ConfigurationError("--durable has one consumer: leave out --parallelThreads")
    with connect(options) as connection:
        started = time.monotonic()
        count = in_threads(options.parallel_threads, lambda: _receive_in_session(connection, target, options))
        seconds = time.monotonic() - started
    sys.stdout.write(f"received {count} messages in {rate(count, seconds)}\n")
    return 0


def _receive_in_session(connection: Connection, target: Destination, options: argparse.Namespace) -> int:
    """Receive all messages of one session; return their number."""
    with connection.session(MODES[options.ack_mode]) as session:
        return _receive(session, _subscribe(session, target, options), options)


def _subscribe(session: Session, target: Destination, options: argparse.Namespace) -> Consumer:
    if options.durable:
        return session.create_durable_subscriber(target, DURABLE_NAME, options.selector)
    return session.create_consumer(target, options.selector)


def _receive(session: Session, consumer: Consumer, options: argparse.Namespace) -> int:
    """Receive until the count or the timeout is reached; acknowledge all received messages."""
    timeout_s = options.timeout / 1000 if options.timeout else None
    count = 0
    last: Message | None = None
    while count < options.message_count:
        message = consumer.receive(timeout_s)
        if message is None:
            break
        count += 1
        last = message
        if not options.quiet:
            sys.stdout.write(_shown(message, options.bytes_as_text) + "\n")
        if count % options.batch_size == 0:
            _settle(session, message, options)
        if options.sleep:
            time.sleep(options.sleep / 1000)
    if last is not None:
        _settle(session, last, options)
    return count


def _settle(session: Session, message: Message, options: argparse.Namespace) -> None:
    """Acknowledge or commit the messages received so far, if the mode requires."""
    if options.ack_mode == "SESSION_TRANSACTED":
        session.commit()
    else:
        message.acknowledge()


def _shown(message: Message, bytes_as_text: bool) -> str:
    body = message.body
    if isinstance(body, str):
        return escaped(body)
    if isinstance(body, bytes):
        if bytes_as_text:
            return escaped(body.decode("utf-8", "replace"))
        return f"({len(body)} bytes)"
    return f"({message.kind})"
