"""``spanwire connector list``, ``start``, ``stop``, ``rebalance``: connectors of a running broker.

A connector is an address on which the broker listens.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, offer_actions, placement
from spanwire.cli.running import control_client
from spanwire.model.text import escaped

USAGE_ERROR: Final = 2
USAGE: Final = """usage: spanwire connector list
       spanwire connector start NAME...
       spanwire connector stop NAME...
       spanwire connector rebalance NAME...

list   shows the connectors of a running broker
start  lets connectors that were stopped accept connections again
stop   closes the ports of connectors and their connections until they are started, or the broker is started again
rebalance asks clients with failover once to spread over this broker and those that it is linked to
"""
TEXTS: Final = {
    "list": "Show the connectors of a running broker.",
    "start": "Let connectors that were stopped accept connections again.",
    "stop": "Close the ports of connectors, and their connections.",
    "rebalance": "Ask clients with failover once to spread over this broker and those that it is linked to.",
}


def run(arguments: Sequence[str]) -> int:
    """Run an action and return the exit status."""
    words = list(arguments)
    offer_actions("spanwire connector", words, TEXTS)
    if words and words[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        raise SystemExit(0)
    if not words or words[0] not in TEXTS:
        sys.stderr.write(
            "spanwire connector: name an action: list, start, stop or rebalance; spanwire connector --help\n"
        )
        return USAGE_ERROR
    action = words[0]
    parser = Parser(prog=f"spanwire connector {action}", description=TEXTS[action])
    if action != "list":
        parser.add_argument("names", nargs="+", metavar="NAME", help="the name of a connector")
    placement(parser, names_others=action != "list")
    options = parser.parse(words[1:])
    client = control_client(options)
    if action == "list":
        status = client.ask("status")
        rows = status.get("connectors") if isinstance(status, dict) else None
    else:
        rows = client.ask(f"connector-{action}", connectors=options.names)
    for row in rows if isinstance(rows, list) else []:
        if action == "rebalance":
            line = (
                f"connector {row['name']}: {row['clients']} clients are asked to spread over {row['brokers']} brokers"
            )
            sys.stdout.write(escaped(line) + "\n")
            continue
        state = "started" if row["started"] else "stopped"
        line = f"connector {row['name']}: {row['uri']} {state}, {row['connections']} connections"
        sys.stdout.write(escaped(line) + "\n")
    return 0
