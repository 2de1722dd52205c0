"""``spanwire top``: a live broker on a full screen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError

if TYPE_CHECKING:
    from spanwire.cli.top.app import TopApp
    from spanwire.management.control_client import ControlClient

EXTRA: Final = "top"
WHY_S: Final = 60.0  # seconds for an answer; a question why reads stored messages
DEFAULT_MS: Final = 1000


def run(arguments: Sequence[str]) -> int:
    """Show the broker until the user ends the screen."""
    parser = Parser(
        prog="spanwire top",
        description="Show a running broker live: queues, topics, connections, durable subscriptions, links and the\n"
        "brokers of its network, with rates. Enter opens a queue or topic with its consumers and messages, and on a\n"
        "message the reason why it waits. < and > choose the sorted column, r reverses, / filters, w asks why, p\n"
        f"pauses, q ends. Needs the extra {EXTRA}.",
    )
    placement(parser)
    parser.whole_number("interval", "milliseconds between two looks", DEFAULT_MS, 100)
    options = parser.parse(arguments)
    try:
        make = cast("Callable[[ControlClient, float], TopApp]", registry.load(registry.TOP))
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        raise ConfigurationError(f"the screen needs the extra {EXTRA}; run: {install_command(EXTRA)}") from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigurationError("this is no terminal; spanwire status, dstat and query print the same figures")
    client = control_client(options, WHY_S)
    client.ask("ping")  # a broker that does not run is one line, not a screen
    make(client, options.interval / 1000).run()
    return 0
