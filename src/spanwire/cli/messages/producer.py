"""``spanwire producer``: sends messages, with the options of ActiveMQ's tool."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.cli.arguments import Command, Parser
from spanwire.cli.endpoint import connect, destination, endpoint_options, rate
from spanwire.cli.messages.threads import in_threads, thread_option
from spanwire.client.blocking import Connection
from spanwire.client.messages.content_types import AcknowledgeMode
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

ACTIONS: Final = "spanwire.cli.management.nouns:producer"  # loaded for an action alone
OF_A_BROKER: Final = "spanwire producer list | show is about the producers of a running broker."
DEFAULT_COUNT: Final = 1000  # ActiveMQ's default
DEFAULT_PRIORITY: Final = 4  # JMS 1.1 §3.4.10
SAMPLE_TEXT: Final = "The quick brown fox jumps over the lazy dog. "
MAX_PAYLOAD_BYTES: Final = 100 * 1024 * 1024  # maxFrameSize of a broker's connector, which a message has to fit into
PAYLOAD_TIMEOUT_S: Final = 60
# Loads `urllib.request`, for a payload from a web server alone: its import takes longer than the rest of the command.
OPEN_URL: Final = "urllib.request:urlopen"
BROKEN_ANSWER: Final = "http.client:HTTPException"
NO_TIMESTAMPS: Final = "jms.disableTimeStampsByDefault=true"


def run(arguments: Sequence[str]) -> int:
    """Send messages and print the rate, or run an action about the producers of a broker."""
    if arguments and not arguments[0].startswith("-"):
        about_producers = cast(Command, registry.load(ACTIONS))
        return about_producers(arguments)
    parser = Parser(prog="spanwire producer", description=f"Send messages to a queue or topic.\n{OF_A_BROKER}")
    endpoint_options(parser)
    parser.whole_number("messageCount", f"how many messages, {DEFAULT_COUNT} without it", DEFAULT_COUNT)
    parser.whole_number("messageSize", "send bytes messages of this size", 0)
    parser.whole_number("textMessageSize", "send texts of so many characters", 0)
    parser.option("message", "the text to send; default: the number of the message")
    parser.option("payloadUrl", "send the text of this file or web page", metavar="URL")
    parser.flag("persistent", "store the messages (the default)", default=True)
    parser.whole_number("messagePriority", f"0 to 9, {DEFAULT_PRIORITY} without it", DEFAULT_PRIORITY)
    parser.whole_number("msgTTL", "milliseconds until the messages expire; 0 for never", 0)
    parser.option("msgGroupID", "message group (JMSXGroupID)", metavar="GROUP")
    parser.flag("disableMessageTimestamp", "send without JMSTimestamp")
    parser.whole_number("sleep", "milliseconds between two messages", 0)
    parser.whole_number("transactionBatchSize", "commit after this many messages; 0 for no transactions", 0)
    thread_option(parser, "send from so many sessions at a time, --messageCount messages each")
    options = parser.parse(arguments)
    body, target = _body(options), destination(options)
    if options.disable_message_timestamp:
        options.broker_url = with_option(str(options.broker_url), NO_TIMESTAMPS)
    started = time.monotonic()
    with connect(options) as connection:
        in_threads(options.parallel_threads, lambda: _send(connection, target, options, body))
    count = options.message_count * options.parallel_threads
    sys.stdout.write(f"sent {count} messages in {rate(count, time.monotonic() - started)}\n")
    return 0


def _send(
    connection: Connection, target: Destination, options: argparse.Namespace, body: Callable[[int], str | bytes]
) -> int:
    """Send all messages of one session; return their number."""
    batch: int = options.transaction_batch_size
    acknowledge: AcknowledgeMode = "transacted" if batch else "auto"
    with connection.session(acknowledge) as session:
        producer = session.create_producer(target, options.persistent, options.message_priority, options.msg_ttl)
        for number in range(options.message_count):
            producer.send(body(number), group_id=options.msg_group_id)
            if batch and ((number + 1) % batch == 0 or number + 1 == options.message_count):
                session.commit()
            if options.sleep:
                time.sleep(options.sleep / 1000)
    return int(options.message_count)


def _body(options: argparse.Namespace) -> Callable[[int], str | bytes]:
    """Return a function from the number of a message to its body.

    Raises `ConfigurationError` if the options name more than one body.
    """
    named = [
        f"--{name}"
        for name, value in (
            ("message", options.message),
            ("messageSize", options.message_size),
            ("textMessageSize", options.text_message_size),
            ("payloadUrl", options.payload_url),
        )
        if value
    ]
    if len(named) > 1:
        raise ConfigurationError(f"{' and '.join(named)} name two bodies: give one of them")
    body: str | bytes
    if options.message is not None:
        body = str(options.message)
    elif options.message_size:
        body = b"x" * int(options.message_size)
    elif options.text_message_size:
        size = int(options.text_message_size)
        body = (SAMPLE_TEXT * (size // len(SAMPLE_TEXT) + 1))[:size]
    elif options.payload_url is not None:
        body = payload(str(options.payload_url))
    else:
        return lambda number: f"test message: {number}"
    return lambda _: body


def payload(url: str) -> str:
    """Return the text at a ``file:``, ``http:`` or ``https:`` URL, or in a file.

    Raises `ConfigurationError` if it cannot be read, is longer than a frame may be, or is not UTF-8.
    """
    try:
        if url.startswith(("http://", "https://")):
            octets = _web_page(url)
        else:
            with Path(url.removeprefix("file://").removeprefix("file:")).open("rb") as file:
                octets = file.read(MAX_PAYLOAD_BYTES + 1)
    except (OSError, ValueError) as error:  # URLError, HTTPError and, of a malformed URL, InvalidURL, too
        raise ConfigurationError(f"--payloadUrl {url}: {getattr(error, 'strerror', None) or error}") from error
    if len(octets) > MAX_PAYLOAD_BYTES:
        raise ConfigurationError(f"--payloadUrl {url}: has more than {MAX_PAYLOAD_BYTES} bytes, the limit of a message")
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"--payloadUrl {url}: is not UTF-8 from byte {error.start} on") from error


def _web_page(url: str) -> bytes:
    """Return the first bytes of a page. Raises `OSError` or `ValueError`."""
    open_url = cast("Callable[..., AbstractContextManager[IO[bytes]]]", registry.load(OPEN_URL))
    broken = cast("type[Exception]", registry.load(BROKEN_ANSWER))
    try:
        with open_url(url, timeout=PAYLOAD_TIMEOUT_S) as answer:
            return answer.read(MAX_PAYLOAD_BYTES + 1)
    except broken as error:
        raise OSError(f"{type(error).__name__} {error}") from error


def with_option(url: str, option: str) -> str:
    """Return a broker's URL with one more option, behind the parentheses of a composite one."""
    return f"{url}{'&' if '?' in url.rpartition(')')[2] else '?'}{option}"
