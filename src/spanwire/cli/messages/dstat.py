"""``spanwire dstat [queues|topics]``: prints a table of counters with the columns of ActiveMQ's dstat."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.process.list import duration
from spanwire.cli.running import control_client
from spanwire.management.control_client import ControlClient
from spanwire.model.text import escaped

SCHEMES: Final = {"queues": ("queue://", "temp-queue://"), "topics": ("topic://", "temp-topic://")}
ADVISORIES: Final = "topic://ActiveMQ.Advisory."
COLUMNS: Final = (
    ("Queue Size", "pending"),
    ("Producer #", "producers"),
    ("Consumer #", "consumers"),
    ("Enqueue #", "enqueued"),
    ("Dequeue #", "dequeued"),
    ("In Flight", "in_flight"),
    ("Memory B", "memory_bytes"),
)
NARROWEST_NAME: Final = 30
HEADINGS: Final = ("Client id", "Subscription", "State", "Pending", "In Flight", "Enqueue #", "Dequeue #", "Topic")
NUMBERS: Final = range(3, 7)  # indexes of right-aligned columns of subscriptions


def run(arguments: Sequence[str]) -> int:
    """Print the counters of a running broker."""
    parser = Parser(
        prog="spanwire dstat",
        description="Counters of a running broker's destinations: spanwire dstat [queues|topics] [FILE]",
    )
    words = [word for word in arguments if word not in SCHEMES]
    kinds = [word for word in arguments if word in SCHEMES]
    kind = kinds[0] if len(kinds) == 1 else None
    placement(parser)
    parser.add_argument("--advisories", action="store_true", help="show the advisory topics, too")
    parser.add_argument("--json", action="store_true", help="print the answer of the control socket as JSON")
    options = parser.parse(words)
    client = control_client(options)
    answer = client.ask("destinations")
    rows = [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
    if kind is not None:
        rows = [row for row in rows if str(row["destination"]).startswith(SCHEMES[kind])]
    if not options.advisories:
        rows = [row for row in rows if not str(row["destination"]).startswith(ADVISORIES)]
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return 0
    sys.stdout.write(table(rows))
    durables = ask_subscriptions(client) if kind != "queues" else []
    if durables:
        sys.stdout.write("\n" + subscription_table(durables))
    return 0


def table(rows: list[dict[str, object]]) -> str:
    """Return the rows under their headings, one line each."""
    names = [escaped(str(row["destination"])) for row in rows]
    width = max([NARROWEST_NAME, *(len(name) for name in names)])
    lines = [f"{'Name':<{width}}" + "".join(f"  {heading:>10}" for heading, _ in COLUMNS)]
    for name, row in zip(names, rows, strict=True):
        lines.append(f"{name:<{width}}" + "".join(f"  {row[key]!s:>10}" for _, key in COLUMNS) + _note(row))
    return "\n".join(lines) + "\n"


def _note(row: dict[str, object]) -> str:
    """Return a note about a destination in an unusual state."""
    return "  paused" if row.get("paused") else ""


def ask_subscriptions(client: ControlClient) -> list[dict[str, object]]:
    """Return the durable subscriptions of a running broker."""
    answer = client.ask("subscriptions")
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []


def subscription_table(rows: Sequence[dict[str, object]]) -> str:
    """Return the durable subscriptions under their headings, one line each."""
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    lines = []
    for row in cells:
        shown = [
            cell.rjust(widths[column]) if column in NUMBERS else cell.ljust(widths[column])
            for column, cell in enumerate(row)
        ]
        lines.append("  ".join(shown).rstrip())
    return "\n".join(lines) + "\n"


def _cells(row: dict[str, object]) -> tuple[str, ...]:
    away = row.get("away_s")
    state = f"away {duration(away)}" if isinstance(away, int) else "active"
    selector = f" where {row['selector']}" if row["selector"] else ""
    numbers = (str(row[key]) for key in ("pending", "in_flight", "enqueued", "dequeued"))
    topic = str(row["topic"]) + selector
    return tuple(escaped(cell) for cell in (str(row["client_id"]), str(row["name"]), state, *numbers, topic))
