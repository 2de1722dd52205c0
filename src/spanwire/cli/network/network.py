"""``spanwire network``: checks the files of a network, and shows routes and links."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from spanwire.cli.arguments import Parser, offer_actions, placement
from spanwire.cli.endpoint import login_options, password, tls_settings
from spanwire.cli.network.network_change import add, remove, start, stop
from spanwire.cli.network.network_map import MAX_BROKERS, Login, ask, lines
from spanwire.cli.network.network_simulate import run as simulate
from spanwire.cli.process.status import counted
from spanwire.cli.running import control_client
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped
from spanwire.service.network_lint.dry_run import DryRun, dry_runs
from spanwire.service.network_lint.network_clients import read_clients
from spanwire.service.network_lint.network_files import read_network
from spanwire.service.network_lint.network_lint import NetworkLint

FAULTS: Final = 1
USAGE_ERROR: Final = 2
USAGE: Final = """usage: spanwire network lint [--clients FILE] [--before FILE]... [--skip-unsupported] FILE...
       spanwire network route --from BROKER (--queue NAME | --topic NAME) [--to BROKER] FILE...
       spanwire network map [--ask] [--at URL]... [--user NAME --password SECRET] [--json]
       spanwire network simulate (--topology KIND --brokers N | --edges FILE | FILE...) [OPTIONS]
       spanwire network start NAME...
       spanwire network stop NAME...
       spanwire network add [--link NAME] [--set ATTRIBUTE=VALUE]... URI
       spanwire network remove NAME...

lint   checks the configurations of all brokers of a network and lists faults and hints, each with file, line, reason
       and remedy; --clients describes the clients, --before names the previous files
route  shows the route of a message to a consumer at another broker, and why other routes are closed
map    shows the links of a running broker: state, demand by destination, pending messages, messages in flight, and
       the ids of the brokers beyond, as far as consumers there announce them; --ask asks the brokers of these links,
       and --at other brokers, for their links by the statistics plugin of Spanwire or ActiveMQ
simulate  shows with Spark how demand, messages and advisories spread in a network of up to a million brokers;
       spanwire network simulate --help
start  starts network connectors that were stopped, or that have autoStart="false"
stop   ends the links of network connectors until they are started, or the broker is started again
add    adds a network connector to a running broker, over its starts until it is removed
remove  ends the links of network connectors, and forgets these; those of the configuration until the next start
"""


def run(arguments: Sequence[str]) -> int:
    """Run one of the actions; return its exit status."""
    words = list(arguments)
    offer_actions("spanwire network", words, ACTIONS)
    if words and words[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        raise SystemExit(0)
    action = ACTIONS.get(words[0]) if words else None
    if action is None:
        sys.stderr.write(f"spanwire network: name an action: {', '.join(ACTIONS)}; spanwire network --help\n")
        return USAGE_ERROR
    return action(words[1:])


def _lint(arguments: Sequence[str]) -> int:
    parser = Parser(prog="spanwire network lint", description="Look for faults in the files of a network.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="activemq.xml or TOML, one for each broker")
    parser.add_argument("--clients", metavar="FILE", help="TOML with a [[client]] for each client of the network")
    parser.add_argument(
        "--before", action="append", metavar="FILE", help="a file of a broker as it was until now, for each one"
    )
    parser.add_argument(
        "--skip-unsupported",
        "--skipUnsupported",
        action="store_true",
        help="the brokers are started with this option, so skipped settings are no faults",
    )
    options = parser.parse(arguments)
    files = read_network(options.files)
    clients = read_clients(options.clients) if options.clients else None
    before = read_network(options.before) if options.before else None
    if before is not None and before.errors:
        raise ConfigurationError("\n".join(before.errors))
    findings = NetworkLint(files, clients, before).findings()
    for finding in findings:
        _print(str(finding))
    skipped_lines = (
        []
        if options.skip_unsupported
        else [line for configuration in files.configurations for line in configuration.skipped]
    )
    for line in skipped_lines:
        _print(f"{line.replace(': skipped: ', ': fault 0: spanwire start refuses ', 1)}; see spanwire config check")
    for stranger in files.strangers:
        _print(f"{stranger}, so the brokers behind it are unknown")
    faults = sum(finding.is_fault for finding in findings) + len(skipped_lines)
    hints = sum(not finding.is_fault for finding in findings)
    links = sum(not link.reverse for link in files.plan.links)
    _print(
        f"{len(files.configurations)} brokers, {links} links: {faults} faults, {hints} hints",
    )
    return FAULTS if faults else 0


def _route(arguments: Sequence[str]) -> int:
    parser = Parser(prog="spanwire network route", description="Show the route of messages without sending any.")
    parser.add_argument("--from", dest="start", required=True, metavar="BROKER", help="where the producer is")
    parser.add_argument("--to", dest="goal", metavar="BROKER", help="where the consumer is; else each broker in turn")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--queue", metavar="NAME", help="the queue it is sent to")
    kind.add_argument("--topic", metavar="NAME", help="the topic it is sent to")
    parser.add_argument("files", nargs="+", metavar="FILE", help="activemq.xml or TOML, one for each broker")
    parser.add_argument("--selector", metavar="TEXT", help="the selector of the consumer; names brokers that would "
                        "be sent its messages by a conduit")  # fmt: skip
    options = parser.parse(arguments)
    destination = Destination(QUEUE, options.queue) if options.queue is not None else Destination(TOPIC, options.topic)
    runs = list(dry_runs(read_network(options.files), options.start, destination, options.goal, options.selector))
    for run in runs:
        for line in _route_lines(run):
            _print(line)
    return 0 if all(run.arrived for run in runs) else FAULTS


def _route_lines(run: DryRun) -> list[str]:
    """Return the route on one line, then a line for each unused link, and for each stray consumer."""
    lines = [f"{run.start} does not reach a consumer at {run.goal}"]
    if run.arrived:
        hops = [f"-> {hop.far} ({hop.connector}, priority {hop.priority})" for hop in run.hops]
        lines = [" ".join([run.start, *hops])]
    for link in run.closed:
        way = "duplex end of " if link.is_way_back else ""
        lines.append(f"  not {link.near} -> {link.far}: {link.reason} ({way}{link.connector}, {link.location})")
    lines += [
        f"  also to {name}, if a consumer there wants other messages: {link.reason} ({link.connector}, {link.location})"
        for name, link in run.stray
    ]
    return lines


def _map(arguments: Sequence[str]) -> int:
    parser = Parser(prog="spanwire network map", description="Show the links of a running broker, and of others.")
    placement(parser)
    parser.add_argument(
        "--ask", action="store_true", help="ask the brokers of its links for their links and pending messages"
    )
    parser.add_argument("--at", action="append", default=[], metavar="URL", help="ask the broker there, too")
    login_options(parser)
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")
    options = parser.parse(arguments)
    client = control_client(options)
    status = client.ask("status")
    if not isinstance(status, dict):
        raise ConfigurationError("the broker's answer is no status")
    rows = _rows(status.get("network_connectors"))
    waiting = {str(row["destination"]): int(str(row["pending"])) for row in _rows(client.ask("destinations"))}
    addresses = list(options.at)
    if options.ask:
        addresses += asked(rows, _rows(status.get("network_settings")), options.user is not None)
    others = [
        ask(
            address, Login(options.user, password(options), tls_settings(address, options) if is_tls(address) else None)
        )
        for address in list(dict.fromkeys(addresses))[:MAX_BROKERS]
    ]
    if options.json:
        links = [{**row, "waiting": _waiting(row, waiting)} for row in rows]
        summary = {"name": status.get("name"), "id": status.get("id"), "links": links}
        sys.stdout.write(json.dumps({**summary, "brokers": [asdict(other) for other in others]}, indent=2) + "\n")
        return 0
    _print(f"broker {status.get('name')} (id {status.get('id')})")
    for row in rows:
        _print(_link(row))
        for name, count in _waiting(row, waiting).items():
            _print(f"    wants {name}: {count} waiting")
        for line in beyond(row.get("ways"), {other.broker_id: other.name for other in others if other.name}):
            _print(line)
    for other in others:
        for line in lines(other):
            _print(line)
    return 0


def asked(links: list[dict[str, object]], connectors: list[dict[str, object]], has_login: bool) -> list[str]:
    """Return the addresses of the remote brokers of links, for requests to these brokers.

    The result leaves out remote brokers that opened the link. The remote end of such a link is a port without a
    listener, not a configured address.
    """
    callers = {row.get("uri") for row in connectors if row.get("autoStart") is None}  # as in accepted_settings_view
    listed = str([row.get("uri") for row in connectors if row.get("autoStart") is not None])
    addresses = [str(row["uri"]) for row in links if row["uri"] not in callers]
    return [address for address in addresses if is_asked(address, listed, has_login)]


def is_asked(address: str, listed: str, has_login: bool) -> bool:
    """Return True if the broker at ``address`` may be asked.

    The address must have a known scheme. With a login, the configuration must name the address, because a discovered
    address is an unverified claim.
    """
    is_listed = (
        re.search(re.escape(address) + r"(?!\w)", listed) is not None
    )  # one port may be the beginning of another
    return address.startswith(("tcp://", "ssl://", "nio://", "nio+ssl://")) and (not has_login or is_listed)


def is_tls(address: str) -> bool:
    """Return True for an address with TLS, which may need stores."""
    return "ssl" in address.partition(":")[0]


def _waiting(row: dict[str, object], waiting: dict[str, int]) -> dict[str, int]:
    """Return the pending messages here for each destination of a link."""
    wanted = row.get("destinations")
    names = wanted if isinstance(wanted, (list, tuple)) else ()
    return {str(name): waiting.get(str(name), 0) for name in names}


def _rows(answer: object) -> list[dict[str, object]]:
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []


def beyond(ways: object, names: Mapping[str, str] | None = None) -> list[str]:
    """Return a line for each path to consumers beyond the remote broker.

    Brokers appear by the names in ``names``, else by their ids.
    """
    known = names or {}
    lines_beyond: list[str] = []
    for way in ways if isinstance(ways, (list, tuple)) else []:
        if isinstance(way, (list, tuple)) and len(way) > 1:
            lines_beyond.append(f"    leads on: {' -> '.join([known.get(str(broker), str(broker)) for broker in way])}")
    return lines_beyond


def _link(row: dict[str, object]) -> str:
    reason = f" ({row['reason']})" if row.get("reason") else ""
    way = "<->" if row.get("duplex") else "-->"
    remote = row.get("remote") or "?"
    return (
        f"  {way} {remote} by {row['name']} ({row['uri']}): {row['state']}{reason}, {row['in_flight']} on their way, "
        f"{row['dequeued']} of {row['enqueued']} answered, for {row.get('since_s', 0)} s, "
        f"{row.get('reconnects', 0)} reconnects{counted(row)}"
    )


def _print(line: str) -> None:
    sys.stdout.write(escaped(line) + "\n")


ACTIONS: Final[dict[str, Callable[[Sequence[str]], int]]] = {
    "lint": _lint,
    "route": _route,
    "map": _map,
    "simulate": simulate,
    "start": start,
    "stop": stop,
    "add": add,
    "remove": remove,
}
