"""``spanwire drain URI``: all messages of a broker's queues go to another broker over a separate link."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.management.moving import begin
from spanwire.cli.network.link_settings import add_settings, settings_of
from spanwire.cli.running import control_client
from spanwire.management.control_client import ControlClient
from spanwire.model.text import escaped

PATIENCE_S: Final = 60.0  # seconds for one answer of the broker


def run(arguments: Sequence[str]) -> int:
    """Drain a running broker; return 0 once its queues are empty."""
    parser = Parser(
        prog="spanwire drain",
        description="Send all messages of the queues of a running broker to another broker, until they are empty.",
    )
    parser.add_argument("uri", metavar="URI", help="address of the other broker, such as tcp://host:61616")
    parser.add_argument(
        "--queue", action="append", default=[], metavar="PATTERN", help="only queues that match; all without it"
    )
    parser.add_argument("--keep", type=int, default=0, metavar="N", help="stop when about N messages are left")
    add_settings(parser, "userName=drain")
    parser.add_argument(
        "--close-connectors",
        "--closeConnectors",
        action="store_true",
        help="close the connectors before, so that clients go to other brokers and nobody sends any more",
    )
    parser.add_argument("--background", action="store_true", help="do not wait for the end")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    settings = settings_of(parser, options.set, options.password_file)
    client = control_client(options, PATIENCE_S)
    values = {"uri": options.uri, "queues": options.queue or [">"], "keep": options.keep, "settings": settings}
    # A drain that is refused has closed nothing.
    started = (lambda: _close_connectors(client)) if options.close_connectors else None
    row = begin(client, "drain", values, options.background, started)
    if row is not None:
        left = f", {row['left']} are left" if row["left"] else "; the queues are empty"
        sys.stdout.write(escaped(f"{row['processed']} messages went to {row['target']}{left}") + "\n")
    return 0


def _close_connectors(client: ControlClient) -> None:
    status = client.ask("status")
    rows = status.get("connectors") if isinstance(status, dict) else None
    names = [row["name"] for row in rows if row["started"]] if isinstance(rows, list) else []
    if names:
        client.ask("connector-stop", connectors=names)
