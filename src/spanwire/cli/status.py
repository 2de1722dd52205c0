"""``spanwire status``: who runs, since when, and where it listens."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client


def run(arguments: Sequence[str]) -> int:
    """Prints the status of a running broker."""
    parser = Parser(prog="spanwire status", description="Tell who runs, since when, and where it listens.")
    placement(parser)
    parser.add_argument("--json", action="store_true", help="print the answer of the control socket as JSON")
    options = parser.parse(arguments)
    status = control_client(options).ask("status")
    if options.json or not isinstance(status, dict):
        sys.stdout.write(json.dumps(status, indent=2) + "\n")
        return 0
    sys.stdout.write("\n".join(_lines(status)) + "\n")
    return 0


def _lines(status: dict[str, object]) -> list[str]:
    lines = []
    for name in (
        "name",
        "id",
        "pid",
        "version",
        "compiled",
        "uptime_s",
        "data_directory",
        "persistent",
        "configuration",
    ):
        value = status.get(name)
        shown = ("no", "yes")[value] if isinstance(value, bool) else f"{value} s" if name == "uptime_s" else value
        lines.append(f"{name.removesuffix('_s').replace('_', ' ')}: {shown}")
    connectors = status.get("connectors")
    for connector in connectors if isinstance(connectors, list) else []:
        lines.append(f"connector {connector['name']}: {connector['uri']} ({connector['connections']} connections)")
    links = status.get("network_connectors")
    lines += [_link(link) for link in links if isinstance(link, dict)] if isinstance(links, list) else []
    statistics = status.get("statistics")
    if isinstance(statistics, dict):
        lines += [f"{name.replace('_', ' ')}: {value}" for name, value in statistics.items()]
    return lines


def _link(link: dict[str, object]) -> str:
    """One link of a network connector on one line."""
    remote = f" to {link['remote']}" if link["remote"] else ""
    reason = f" ({link['reason']})" if link["reason"] else ""
    return (
        f"network connector {link['name']}: {link['uri']}{remote} {link['state']}{reason} for {link['since_s']} s, "
        f"reconnects {link['reconnects']}, demand {link['demand']}, "
        f"enqueued {link['enqueued']}, dequeued {link['dequeued']}, in flight {link['in_flight']}{counted(link)}"
    )


def counted(link: dict[str, object]) -> str:
    """What else was counted on a link, each with a comma before it; nothing for what did not occur."""
    words = [f", {name} {link[name]}" for name in ("received", "failed", "unserved") if link.get(name)]
    filtered = link.get("filtered")
    if isinstance(filtered, dict) and filtered:
        words.append(f", held back {', '.join([f'{reason} {count}' for reason, count in filtered.items()])}")
    return "".join(words)
