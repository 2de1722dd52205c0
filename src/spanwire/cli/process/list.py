"""``spanwire list``: lists the user's running brokers."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.management.running_brokers import ListedBroker, running_brokers, standbys
from spanwire.model.text import escaped

HEADINGS: Final = ("Name", "PID", "Uptime", "Listens at", "Data directory", "Configuration")


def run(arguments: Sequence[str]) -> int:
    """Print a table; return 0 even if no broker runs."""
    parser = Parser(
        prog="spanwire list",
        description="List the running brokers of this user, with the names, directories and files by which the other "
        "commands find them.",
    )
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    options = parser.parse(arguments)
    running = running_brokers(os.environ)
    brokers = [*running, *(broker for broker in standbys(os.environ) if broker not in running)]
    if options.json:
        sys.stdout.write(json.dumps([broker._asdict() for broker in brokers], indent=2) + "\n")
    elif brokers:
        sys.stdout.write(table(brokers, int(time.time() * 1000)))
    else:
        sys.stdout.write("no broker of this user runs\n")
    return 0


def table(brokers: Sequence[ListedBroker], wall_ms: int) -> str:
    """Return the brokers under headings."""
    rows = [HEADINGS, *(_cells(broker, wall_ms) for broker in brokers)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def _cells(broker: ListedBroker, wall_ms: int) -> tuple[str, ...]:
    cells = (
        broker.name,
        str(broker.pid),
        duration(max(0, wall_ms - broker.started_ms) // 1000),
        f"standby of {broker.waits_for}" if broker.waits_for else ", ".join(broker.connectors) or "-",
        broker.data_directory,
        broker.configuration or "(built-in default)",
    )
    return tuple(escaped(cell) for cell in cells)


def duration(seconds: int) -> str:
    """Format seconds as ``42 s``, ``5 min 10 s``, ``3 h 5 min`` or ``12 d 4 h``."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h"
    if hours:
        return f"{hours} h {minute} min"
    return f"{minutes} min {second} s" if minutes else f"{seconds} s"
