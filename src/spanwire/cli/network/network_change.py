"""``spanwire network start``, ``stop``, ``add``, ``remove``: network connectors of a running broker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.network.link_settings import add_settings, settings_of
from spanwire.cli.running import control_client
from spanwire.model.text import escaped

TEXTS: Final = {
    "start": "Let network connectors of a running broker connect.",
    "stop": "End the links of network connectors of a running broker.",
    "remove": "End the links of network connectors of a running broker, and forget them; those of its\n"
    "configuration until its next start.",
}


def _named(action: str) -> Callable[[Sequence[str]], int]:
    """Return the command for an action on named connectors."""

    def run(arguments: Sequence[str]) -> int:
        parser = Parser(prog=f"spanwire network {action}", description=TEXTS[action])
        parser.add_argument("names", nargs="+", metavar="NAME", help="the name of a network connector")
        placement(parser, names_others=True)
        options = parser.parse(arguments)
        _print(control_client(options).ask(f"network-{action}", connectors=options.names))
        return 0

    return run


start: Final = _named("start")
stop: Final = _named("stop")
remove: Final = _named("remove")


def add(arguments: Sequence[str]) -> int:
    """Add a network connector to a running broker."""
    parser = Parser(
        prog="spanwire network add",
        description="Add a network connector to a running broker, and let it connect. It stays over starts of the\n"
        "broker, until it is removed; one with a password in clear until the next start.",
    )
    parser.add_argument("uri", metavar="URI", help="brokers to link to, such as 'static:(tcp://host:61616)'")
    parser.add_argument("--link", metavar="NAME", help="the name of the connector; else NC, NC-2, …")
    add_settings(parser, "duplex=true")
    placement(parser)
    options = parser.parse(arguments)
    settings = settings_of(parser, options.set, options.password_file)
    named = {} if options.link is None else {"name": options.link}
    _print(control_client(options).ask("network-add", uri=options.uri, settings=settings, **named))
    return 0


def _print(rows: object) -> None:
    notes: dict[str, None] = {}  # each once, after the links
    for row in rows if isinstance(rows, list) else []:
        said = " ".join(part for part in (row["uri"], row["state"]) if part)
        sys.stdout.write(escaped(f"network connector {row['name']}: {said}") + "\n")
        if row.get("note"):
            notes[f"network connector {row['name']} {row['note']}"] = None
    for note in notes:
        sys.stdout.write(escaped(note) + "\n")
