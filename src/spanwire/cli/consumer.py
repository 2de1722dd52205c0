"""``spanwire consumer``: receives messages and prints their texts, with the options of ActiveMQ's tool."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.cli.endpoint import connect, destination, endpoint_options, printable, rate
from spanwire.client.blocking import BlockingConnection
from spanwire.client.session import Consumer, body_of
from spanwire.model.destination import TEMP_TOPIC, TOPIC
from spanwire.model.errors import ConfigurationError
from spanwire.protocols.openwire import _marshallers as wire

DEFAULT_COUNT: Final = 1000  # ActiveMQ's default
QUEUE_PREFETCH: Final = 1000  # ActiveMQ's defaults
TOPIC_PREFETCH: Final = 32766
MODES: Final = {
    "SESSION_TRANSACTED": 0,
    "AUTO_ACKNOWLEDGE": 1,
    "CLIENT_ACKNOWLEDGE": 2,
    "DUPS_OK_ACKNOWLEDGE": 3,
}
DURABLE_NAME: Final = "consumer"


def run(arguments: Sequence[str]) -> int:
    """Receives messages and says how fast that went."""
    parser = Parser(prog="spanwire consumer", description="Receive messages from a queue or topic and print them.")
    endpoint_options(parser)
    parser.whole_number("messageCount", f"stop after so many messages, {DEFAULT_COUNT} without it", DEFAULT_COUNT)
    parser.whole_number("sleep", "milliseconds to wait after each message", 0)
    parser.whole_number("timeout", "stop when no message came for so many milliseconds; 0 waits for ever", 0)
    parser.flag("durable", "subscribe durably to a topic, under the client id")
    parser.add_argument("--ack-mode", "--ackMode", choices=MODES, default="AUTO_ACKNOWLEDGE", help="how to acknowledge")
    parser.whole_number("batchSize", "acknowledge or commit after so many messages, but one in auto mode", 10, lowest=1)
    parser.option("selector", "only messages that this SQL-92 expression selects", metavar="EXPRESSION")
    parser.flag("quiet", "print the last line only")
    options = parser.parse(arguments)
    target = destination(options)
    if options.durable and (options.client_id is None or target.kind != TOPIC):
        raise ConfigurationError("--durable needs --clientId and a topic")
    with connect(options) as connection:
        prefetch = TOPIC_PREFETCH if target.kind in (TOPIC, TEMP_TOPIC) else QUEUE_PREFETCH
        name = DURABLE_NAME if options.durable else None
        consumer = connection.consumer(target, prefetch, options.selector, name)
        started = time.monotonic()
        count = _receive(connection, consumer, options)
        seconds = time.monotonic() - started
    sys.stdout.write(f"received {count} messages in {rate(count, seconds)}\n")
    return 0


def _receive(connection: BlockingConnection, consumer: Consumer, options: argparse.Namespace) -> int:
    """Receives until the count or the timeout is reached; everything received is acknowledged."""
    acknowledgements = _Acknowledgements(connection, consumer, options)
    timeout_s = options.timeout / 1000 if options.timeout else None
    count = 0
    while count < options.message_count:
        dispatch = connection.receive(timeout_s)
        if dispatch is None or dispatch.message is None:
            break
        count += 1
        if not options.quiet:
            sys.stdout.write(_shown(dispatch.message) + "\n")
        acknowledgements.add(dispatch)
        if options.sleep:
            connection.wait(options.sleep / 1000)
    acknowledgements.finish()
    return count


class _Acknowledgements:
    """Gathers what was received and acknowledges it as the mode asks."""

    def __init__(self, connection: BlockingConnection, consumer: Consumer, options: argparse.Namespace) -> None:
        self._connection: Final = connection
        self._consumer: Final = consumer
        self._transacted: Final = options.ack_mode == "SESSION_TRANSACTED"
        self._batch_size: Final = 1 if options.ack_mode == "AUTO_ACKNOWLEDGE" else int(options.batch_size)
        self._gathered: list[wire.MessageDispatch] = []

    def add(self, dispatch: wire.MessageDispatch) -> None:
        """One more."""
        self._gathered.append(dispatch)
        if len(self._gathered) >= self._batch_size:
            self.finish()

    def finish(self) -> None:
        """Acknowledge what is gathered; in a transaction, wait for its commit."""
        if not self._gathered:
            return
        session = self._connection.session
        if self._transacted:
            self._connection.send(session.begin())
        first, last = self._gathered[0], self._gathered[-1]
        self._connection.send(self._consumer.acknowledgement(first, last, len(self._gathered)))
        if self._transacted:
            self._connection.request(session.commit())
        self._gathered = []


def _shown(message: wire.Message) -> str:
    body = body_of(message)
    if isinstance(body, str):
        return printable(body)
    if isinstance(body, bytes):
        return f"({len(body)} bytes)"
    return f"({wire.TYPE_NAMES.get(message.type_id(), 'message')})"
