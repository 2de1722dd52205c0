"""``spanwire purge QUEUE…`` removes pending messages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client
from spanwire.model.text import escaped

PATIENCE_S: Final = 3_600.0  # seconds; purging ten million messages takes minutes


def run(arguments: Sequence[str]) -> int:
    """Print the number of removed messages of each queue."""
    parser = Parser(
        prog="spanwire purge",
        description="Remove the pending messages of queues of a running broker; messages in flight stay.",
    )
    parser.add_argument("queues", nargs="+", metavar="QUEUE", help="a name, or a pattern such as 'ORDERS.>'")
    parser.option("msgsel", "only messages that this SQL-92 expression selects", metavar="EXPRESSION")
    parser.add_argument("--reset", action="store_true", help="set the counters of the queues to 0, too")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    client = control_client(options, PATIENCE_S)
    rows = _rows(client.ask("purge", destinations=options.queues, selector=options.msgsel))
    for row in rows:
        sys.stdout.write(f"{escaped(str(row['destination']))}: {row['removed']} messages removed\n")
    if options.reset and rows:
        client.ask("reset-statistics", destinations=[row["destination"] for row in rows])
    return 0


def _rows(answer: object) -> list[dict[str, object]]:
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
