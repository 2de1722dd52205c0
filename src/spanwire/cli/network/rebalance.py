"""``spanwire rebalance QUEUE``: share pending messages evenly with other brokers, by a drain for each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.management.moving import begin
from spanwire.cli.network.link_settings import add_settings, settings_of
from spanwire.cli.running import control_client
from spanwire.management.control_client import ControlClient
from spanwire.model.destination import QUEUE, parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped

PATIENCE_S: Final = 60.0  # seconds for one answer of the broker
RUNNING: Final = "running"


def run(arguments: Sequence[str]) -> int:
    """Share the messages of a queue; return 0 once each broker has its part."""
    parser = Parser(
        prog="spanwire rebalance",
        description="Share what waits in a queue of a running broker evenly with other brokers, about.",
    )
    parser.add_argument("queue", metavar="QUEUE", help="the name of the queue")
    parser.add_argument(
        "--over",
        action="append",
        default=[],
        metavar="URI",
        help="address of another broker; without it those that running links lead to",
    )
    add_settings(parser, "userName=drain")
    parser.flag("dryRun", "show the parts, and change nothing")
    placement(parser)
    options = parser.parse(arguments)
    queue = parse_destination(options.queue, QUEUE)
    if not queue.is_queue or queue.is_temporary or queue.is_composite or queue.is_pattern:
        parser.error(f"{options.queue[:100]} is not the name of one queue")
    settings = settings_of(parser, options.set, options.password_file)
    client = control_client(options, PATIENCE_S)
    others = list(dict.fromkeys(options.over)) or _linked(client)
    waiting = _waiting(client, queue.qualified_name)
    for index, uri in enumerate(others, start=1):
        keep = waiting - waiting * index // (len(others) + 1)
        if options.dry_run:
            part = waiting * index // (len(others) + 1) - waiting * (index - 1) // (len(others) + 1)
            sys.stdout.write(escaped(f"{uri}: {part} of {waiting} messages would go there") + "\n")
            continue
        row = begin(
            client, "drain", {"uri": uri, "queues": [queue.name], "keep": keep, "settings": settings}, background=False
        )
        if row is not None:
            line = f"{row['target']}: {row['processed']} messages went there, {row['left']} are left"
            sys.stdout.write(escaped(line) + "\n")
    if options.dry_run:
        sys.stdout.write("nothing was changed\n")
    return 0


def _linked(client: ControlClient) -> list[str]:
    """Return one address of each broker that a running link of this broker leads to."""
    status = client.ask("status")
    rows = status.get("network_connectors") if isinstance(status, dict) else None
    found: dict[str, str] = {}
    for row in rows if isinstance(rows, list) else []:
        if row["state"] == RUNNING and not row["accepted"]:
            found.setdefault(str(row["remote"]), str(row["uri"]))
    if not found:
        raise ConfigurationError("no link of this broker runs: name the other brokers with --over URI")
    return list(found.values())


def _waiting(client: ControlClient, name: str) -> int:
    """Return the number of pending messages of a queue. Raises `ConfigurationError` without such a queue."""
    rows = client.ask("destinations")
    for row in rows if isinstance(rows, list) else []:
        if row["destination"] == name:
            return int(row["pending"])
    raise ConfigurationError(f"there is no queue {name.partition('://')[2][:100]}; spanwire queue list shows all")
