"""``spanwire status``: shows the process, uptime, connectors, links and usage of a broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client, directory_of
from spanwire.cli.standbys import standby_row, standby_text, standbys_of
from spanwire.management.control_client import NotRunningError
from spanwire.management.running_brokers import ListedBroker
from spanwire.model.units import KIB

IN_USAGE: Final = (
    "memory_bytes", "memory_limit_bytes", "store_bytes", "store_limit_bytes", "temporary_limit_bytes", "disk_full",
)  # fmt: skip


def run(arguments: Sequence[str]) -> int:
    """Print the status of a running broker."""
    parser = Parser(
        prog="spanwire status",
        description="Show a running broker: process, uptime, connectors, links, use of memory, store and disk, "
        "and totals.",
    )
    placement(parser)
    parser.add_argument("--json", action="store_true", help="print the answer of the control socket as JSON")
    options = parser.parse(arguments)
    directory = directory_of(options)
    waiting = standbys_of(directory)
    try:
        status = control_client(options).ask("status")
    except NotRunningError:
        if not waiting:
            raise
        return _show_standbys(waiting, as_json=bool(options.json))
    if options.json or not isinstance(status, dict):
        sys.stdout.write(json.dumps(status, indent=2) + "\n")
        return 0
    lines = _lines(status) + [f"standby: {standby_text(broker)}" for broker in waiting]
    if status.get("standby") and not waiting:
        lines.append("standby: one waits on another machine, or as another user")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _show_standbys(waiting: Sequence[ListedBroker], *, as_json: bool) -> int:
    """Print standbys without a master on the machine: one standby as an object, more as a list."""
    if as_json:
        rows = [standby_row(broker) for broker in waiting]
        sys.stdout.write(json.dumps(rows[0] if len(rows) == 1 else rows, indent=2) + "\n")
        return 0
    for broker in waiting:
        sys.stdout.write(f"name: {broker.name}\nstandby: {standby_text(broker)}\n")
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
    lines += usage_lines(status.get("statistics"), status.get("usage"))
    connectors = status.get("connectors")
    for connector in connectors if isinstance(connectors, list) else []:
        lines.append(f"connector {connector['name']}: {connector['uri']} ({connector['connections']} connections)")
    links = status.get("network_connectors")
    lines += [_link(link) for link in links if isinstance(link, dict)] if isinstance(links, list) else []
    bridges = status.get("bridges")
    lines += [bridge_line(bridge) for bridge in bridges] if isinstance(bridges, list) else []
    statistics = status.get("statistics")
    if isinstance(statistics, dict):
        shown_here = [(name, value) for name, value in statistics.items() if name not in IN_USAGE and value is not None]
        lines += [f"{name.replace('_', ' ')}: {value}" for name, value in shown_here]
    return lines


def usage_lines(statistics: object, usage: object) -> list[str]:
    """Return lines about memory, store and disk, with a note if sends wait."""
    if not isinstance(statistics, dict) or not isinstance(usage, dict):
        return []
    memory = f"memory: {usage['memory_percent']} % of {size(statistics['memory_limit_bytes'])} used"
    free = usage["disk_free_bytes"]
    if free is None:
        return [memory]
    store_limit, temporary_limit = statistics["store_limit_bytes"], statistics["temporary_limit_bytes"]
    full = "; FULL: persistent sends wait until there is room, consumers go on" if usage["disk_full"] else ""
    return [
        memory,
        f"store: {usage['store_percent']} % used, {size(statistics['store_bytes'])}{_limited(store_limit)}",
        f"temp: {usage['temporary_percent']} % used{_limited(temporary_limit)}",
        f"disk: {size(free)} free{full}",
    ]


def _limited(limit: int) -> str:
    return f", limit {size(limit)}" if limit else ", limited by the disk alone"


def size(count: int) -> str:
    """Format bytes as ``512 B``, ``1.5 MiB`` or ``20.0 GiB``."""
    if count < KIB:
        return f"{count} B"
    shown = count / KIB
    for unit in ("KiB", "MiB", "GiB"):
        if shown < KIB:
            return f"{shown:.1f} {unit}"
        shown /= KIB
    return f"{shown:.1f} TiB"


def _link(link: dict[str, object]) -> str:
    """Return a link of a network connector on one line."""
    remote = f" to {link['remote']}" if link["remote"] else ""
    reason = f" ({link['reason']})" if link["reason"] else ""
    return (
        f"network connector {link['name']}: {link['uri']}{remote} {link['state']}{reason} for {link['since_s']} s, "
        f"reconnects {link['reconnects']}, demand {link['demand']}, "
        f"enqueued {link['enqueued']}, dequeued {link['dequeued']}, in flight {link['in_flight']}{counted(link)}"
    )


def bridge_line(bridge: dict[str, object]) -> str:
    """Return a bridge on one line."""
    advice = "; start it again with spanwire bridge restart" if bridge["gave_up"] else ""
    error = f", last error: {bridge['last_error']}" if bridge["last_error"] else ""
    words = [f", {name.replace('_', ' ')} {bridge[name]}" for name in ("dead_letters", "perhaps_lost") if bridge[name]]
    return (
        f"bridge {bridge['name']}: {bridge['source']} to {bridge['target']}, {bridge['state']} for "
        f"{bridge['since_s']} s{advice}, received {bridge['received']}, forwarded {bridge['forwarded']} in "
        f"{bridge['batches']} batches, retries {bridge['retries']}, lag {bridge['lag_s']} s{''.join(words)}{error}"
    )


def counted(link: dict[str, object]) -> str:
    """Return the other counters of a link, each after a comma; counters of 0 are left out."""
    words = [f", {name} {link[name]}" for name in ("received", "failed", "unserved") if link.get(name)]
    filtered = link.get("filtered")
    if isinstance(filtered, dict) and filtered:
        words.append(f", held back {', '.join([f'{reason} {count}' for reason, count in filtered.items()])}")
    return "".join(words)
