"""``spanwire browse``: prints the messages of a queue, and leaves all messages in the queue."""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.endpoint import DEFAULT_BROKER_URL, connect, destination, endpoint_options
from spanwire.cli.messages.message_fields import field_lines, read_groups
from spanwire.cli.running import control_client, named_configuration
from spanwire.client.messages.message import Message
from spanwire.logs.lines import local_time
from spanwire.management.running_brokers import running_brokers
from spanwire.model.destination import Destination
from spanwire.model.errors import AuthenticationError, ConfigurationError
from spanwire.model.text import escaped
from spanwire.protocols.openwire.messages.message_format import format_id_of
from spanwire.protocols.readable import BASE64, readable_or_fault
from spanwire.service.message_formats import message_formats

SHOWN_BODY: Final = 200  # characters of a body on one line
CAUSE: Final = "dlqDeliveryFailureCause"
HEADERS: Final = (
    ("destination", "destination"),
    ("original destination", "original_destination"),
    ("expires", "expiration_ms"),
    ("correlation id", "correlation_id"),
    ("reply to", "reply_to"),
    ("type", "type"),
    ("group", "group_id"),
    ("user", "user_id"),
    ("redeliveries", "redelivery_count"),
)
Row = dict[str, object]


def run(arguments: Sequence[str]) -> int:
    """Print one line per message and the number of messages."""
    parser = Parser(
        prog="spanwire browse",
        description="Print the messages of a queue without removing them. Without --brokerUrl and --user, the first "
        "400 pending messages in a running broker of this user; otherwise all messages that the user may read.",
    )
    parser.add_argument("queues", nargs="*", metavar="QUEUE", help="queues; one is the same as --destination")
    endpoint_options(parser)
    parser.set_defaults(broker_url=None)
    parser.add_argument("--amqurl", dest="broker_url", metavar="URL", help="the same as --brokerUrl")
    placement(parser, names_others=True)
    parser.option("selector", "only messages that this SQL-92 expression selects", metavar="EXPRESSION")
    parser.add_argument("--msgsel", dest="selector", metavar="EXPRESSION", help="the same as --selector")
    parser.add_argument(
        "-V",
        dest="groups",
        action="append",
        default=[],
        metavar="GROUPS",
        help="print the fields of these groups as ActiveMQ's browse: header, custom, body",
    )
    parser.option("view", "print these fields, such as JMSMessageID,JMSText", metavar="NAMES")
    parser.whole_number("messageCount", "stop after so many messages of a queue; 0 for all", 0)
    parser.add_argument("--verbose", action="store_true", help="show headers, time, properties and cause of death, too")
    parser.add_argument("--json", action="store_true", help="print each message as a JSON object on a line of its own")
    options = parser.parse(arguments)
    groups = read_groups(options.groups)
    names = [name.strip() for name in str(options.view).split(",")] if options.view else []
    show = _as_json if options.json else paragraph if options.verbose else described
    if groups or names:
        show = partial(field_lines, groups=groups, names=names)
    targets = []
    for name in options.queues or [options.destination]:
        options.destination = name
        targets.append(destination(options))
        if not targets[-1].is_queue:
            raise ConfigurationError("only queues can be browsed")
    for target in targets:
        _browse(options, target, show)
    return 0


def _browse(options: argparse.Namespace, target: Destination, show: Callable[[Row], str]) -> None:
    """Print the messages of one queue, and their number unless a program reads."""
    count = 0
    rows: Iterable[Row]
    rows, words = _browse_locally(options, target) if _is_local(options) else (_received(options, target), "")
    for row in rows:
        count += 1
        sys.stdout.write(show(row) + "\n")
    if not options.json:
        sys.stdout.write(f"{words or f'{count} messages in {target}'}\n")


def _is_local(options: argparse.Namespace) -> bool:
    """Return True if the options mean a broker of the current user; the control socket needs no login."""
    if options.broker_url is not None or options.user is not None:
        return False
    named = options.data_directory is not None or named_configuration(options, os.environ) is not None
    return named or len(running_brokers(os.environ)) > 0


def _browse_locally(options: argparse.Namespace, target: Destination) -> tuple[list[Row], str]:
    """Return the messages from the control socket and a summary line."""
    reply = control_client(options).ask(
        "browse", destination=target.qualified_name, selector=options.selector, limit=options.message_count
    )
    answer = reply if isinstance(reply, dict) else {}
    rows = [row for row in answer.get("messages", []) if isinstance(row, dict)]
    pending, in_flight = answer.get("waiting", 0), answer.get("in_flight", 0)
    words = f"{len(rows)} of {pending} waiting messages in {target}"
    if options.selector and answer.get("looked", 0) < pending:
        words += f"; the selector was tried on the first {answer.get('looked')}"
    return rows, words + (f"; {in_flight} more are at consumers" if in_flight else "")


def _received(options: argparse.Namespace, target: Destination) -> Iterator[Row]:
    """Yield the messages from a broker to a queue browser."""
    options.broker_url = options.broker_url or DEFAULT_BROKER_URL
    count = 0
    try:
        with connect(options) as connection, connection.session() as session:
            for message in session.create_browser(target, options.selector):
                count += 1
                yield row_of(message)
                if count == options.message_count:
                    return
    except AuthenticationError as error:
        advice = "; or name a broker of yours that runs with --configuration FILE"
        raise AuthenticationError(f"{error}{advice}" if options.user is None else str(error)) from error


def row_of(message: Message) -> Row:
    """Return a received message in the form of the control socket."""
    formats = message_formats()
    indexed = formats.index(format_id_of(message.version), message.raw)
    view = formats.view(indexed)
    view.redelivery_count = message.redelivery_count
    return {**readable_or_fault(view), "broker_path": list(indexed.broker_path)}


def described(row: Row) -> str:
    """Return a message on one line, with its broker path."""
    persistent = "persistent" if row.get("persistent") else "non-persistent"
    path = row.get("broker_path")
    brokers = f" BrokerPath=[{escaped(', '.join(path))}]" if isinstance(path, list) and path else ""  # as ActiveMQ's
    head = f"{escaped(str(row['message_id']))} {row.get('kind', '')} {persistent} priority={row.get('priority')}"
    body = _body(row)
    if row.get("kind") == "BytesMessage" and isinstance(row.get("body"), str):
        body = f"({len(body.encode('utf-8'))} bytes)"
    return f"{head}{brokers} {escaped(body[:SHOWN_BODY])}"


def _as_json(row: Row) -> str:
    return json.dumps(row)


def paragraph(row: Row) -> str:
    """Return a message with one line per header and property."""
    lines = [described(row)]
    if row.get("timestamp_ms"):
        lines.append(f"  sent: {_time(row['timestamp_ms'])}")
    for words, name in HEADERS:
        value = row.get(name)
        if value:
            lines.append(f"  {words}: {_time(value) if name == 'expiration_ms' else escaped(str(value))}")
    properties = row.get("properties")
    for name, value in sorted(properties.items()) if isinstance(properties, dict) else []:
        words = "died of" if name == CAUSE else f"property {escaped(name)}"
        lines.append(f"  {words}: {escaped(value if isinstance(value, str) else json.dumps(value))}")
    body = _body(row)
    if len(body) > SHOWN_BODY or row.get("kind") == "BytesMessage":
        lines.append(f"  body: {escaped(body)}")
    return "\n".join(lines)


def _body(row: Row) -> str:
    if "fault" in row:
        return f"({row['fault']})"
    body = row.get("body")
    if isinstance(body, dict) and list(body) == [BASE64]:
        return f"({len(base64.b64decode(str(body[BASE64])))} bytes)"
    return "" if body is None else body if isinstance(body, str) else json.dumps(body)


def _time(wall_ms: object) -> str:
    """Format milliseconds since 1970 in the local zone."""
    try:
        return local_time(int(str(wall_ms)) / 1000)
    except (ValueError, OverflowError, OSError):
        return str(wall_ms)
