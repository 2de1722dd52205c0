"""``spanwire delete QUEUE…`` and ``spanwire disconnect CLIENT``.

The first removes empty destinations, the second closes connections.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client
from spanwire.model.text import escaped


def delete(arguments: Sequence[str]) -> int:
    """Print a line for each deleted destination."""
    parser = Parser(
        prog="spanwire delete",
        description="Delete queues or topics of a running broker. Refused while one has messages, consumers or durable "
        "subscriptions. A producer that sends there later makes the destination anew.",
    )
    parser.add_argument("destinations", nargs="+", metavar="NAME", help="a queue, or topic://NAME")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    answer = control_client(options).ask("delete", destinations=options.destinations)
    for row in answer if isinstance(answer, list) else []:
        sys.stdout.write(f"{escaped(str(row['destination']))}: deleted\n")
    return 0


def disconnect(arguments: Sequence[str]) -> int:
    """Print a line for each closed connection."""
    parser = Parser(
        prog="spanwire disconnect",
        description="Close the connections of a client. Unacknowledged messages go to other consumers. A client "
        "with failover: connects again at once; to keep it out, change its password or rights and reload.",
    )
    parser.add_argument(
        "client", metavar="CLIENT", help="its client id, connection id, or remote address, as spanwire bstat shows it"
    )
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    answer = control_client(options).ask("disconnect", client=options.client)
    for row in answer if isinstance(answer, list) else []:
        sys.stdout.write(f"{escaped(str(row['connection_id']))}: disconnected\n")
    return 0
