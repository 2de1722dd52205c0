"""``spanwire subscription list | remove``: lists or removes durable subscriptions of a running broker."""

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

USAGE_ERROR: Final = 2
USAGE: Final = """usage: spanwire subscription ACTION [OPTIONS]

The durable subscriptions of a running broker. Each keeps a copy of every message for its topic until its subscriber
acknowledges the message, also while the subscriber is away: a forgotten subscription fills the disk.

actions:
  list    show client id, name, state, backlog, topic and selector of each
  remove  delete a subscription whose subscriber is away, with its pending messages

spanwire subscription ACTION --help shows its options.
"""
HEADINGS: Final = ("Client id", "Subscription", "State", "Pending", "In Flight", "Enqueue #", "Dequeue #", "Topic")
NUMBERS: Final = range(3, 7)  # indexes of right-aligned columns


def run(arguments: Sequence[str]) -> int:
    """Run one of the actions; return its exit status."""
    words = list(arguments)
    if words and words[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        raise SystemExit(0)
    action = {"list": _list, "remove": _remove}.get(words[0]) if words else None
    if action is None:
        sys.stderr.write("spanwire subscription: name an action: list or remove; spanwire subscription --help\n")
        return USAGE_ERROR
    return action(words[1:])


def _list(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="spanwire subscription list",
        description="List the durable subscriptions of a running broker. Pending messages wait for the subscriber "
        "or are not acknowledged yet.",
    )
    placement(parser)
    parser.add_argument("--json", action="store_true", help="print the answer of the control socket as JSON")
    options = parser.parse(arguments)
    rows = ask_subscriptions(control_client(options))
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    else:
        sys.stdout.write(subscription_table(rows) if rows else "there are no durable subscriptions\n")
    return 0


def _remove(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="spanwire subscription remove",
        description="Delete a durable subscription whose subscriber is away, with all its pending messages.",
    )
    parser.add_argument("client_id", metavar="CLIENT_ID", help="the client id, as spanwire subscription list shows it")
    parser.add_argument("name", metavar="NAME", help="the name of the subscription")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    answer = control_client(options).ask("remove-subscription", client_id=options.client_id, name=options.name)
    removed = answer.get("removed") if isinstance(answer, dict) else None
    name = f"{escaped(options.name)} of client {escaped(options.client_id)}"
    sys.stdout.write(f"durable subscription {name}: removed, with {removed} messages\n")
    return 0


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
