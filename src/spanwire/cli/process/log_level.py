"""``spanwire log-level``: shows and sets levels of a running broker's loggers, until the broker's end."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from spanwire.cli.arguments import LOG_LEVELS, Parser, placement
from spanwire.cli.running import control_client
from spanwire.model.text import escaped


def run(arguments: Sequence[str]) -> int:
    """Print a line for each logger with an own level."""
    parser = Parser(
        prog="spanwire log-level",
        description="Show the loggers of a running broker that have a level of their own, or set the level of one. A "
        "level that is set holds until the broker ends.",
    )
    parser.add_argument("logger", nargs="?", metavar="LOGGER", help="such as spanwire.network; root for all")
    parser.add_argument(
        "level", nargs="?", choices=(*LOG_LEVELS, "inherited"), help="the new level; without it the level is shown"
    )
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    request = {name: value for name in ("logger", "level") if (value := getattr(options, name)) is not None}
    answer = control_client(options).ask("log-level", **request)
    for row in answer if isinstance(answer, list) else []:
        sys.stdout.write(escaped(f"{row['level']:<9} {row['logger']}") + "\n")
    return 0
