"""``spanwire pause QUEUE…`` and ``spanwire resume QUEUE…``: stop the dispatch of queues for a while."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client
from spanwire.model.text import escaped

PAUSING: Final = (
    "Stop dispatching from queues of a running broker. The queues still accept messages, messages in flight can be "
    "acknowledged, and browsers see all messages. A restart of the broker resumes the queues."
)
RESUMING: Final = "Let queues that were paused dispatch again."


def pause(arguments: Sequence[str]) -> int:
    """Pause queues; print a line for each queue."""
    return _change("pause", PAUSING, arguments)


def resume(arguments: Sequence[str]) -> int:
    """Resume queues; print a line for each queue."""
    return _change("resume", RESUMING, arguments)


def _change(command: str, description: str, arguments: Sequence[str]) -> int:
    parser = Parser(prog=f"spanwire {command}", description=description)
    parser.add_argument("queues", nargs="+", metavar="QUEUE", help="a name, or a pattern such as 'ORDERS.>'")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    answer = control_client(options).ask(command, destinations=options.queues)
    for row in answer if isinstance(answer, list) else []:
        state = "paused" if row["paused"] else "dispatching"
        waiting = f", {row['waiting']} messages wait"
        sys.stdout.write(f"{escaped(str(row['destination']))}: {state}{waiting}\n")
    return 0
