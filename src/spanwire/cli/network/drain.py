"""``spanwire drain URI``: all messages of a broker's queues go to another broker over a link of their own."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client
from spanwire.management.control_client import ControlClient
from spanwire.model.destination import QUEUE, parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import escaped

LINK: Final = "DRAIN"  # the name of the network connector
POLL_S: Final = 0.5  # seconds between two looks at the queues
STALL_S: Final = (
    30.0  # seconds without a message on its way after which the rest will not go; a link connects meanwhile
)
PATIENCE_S: Final = 60.0  # seconds for one answer of the broker
MAX_SHOWN: Final = 10  # queues named that are not empty


def run(arguments: Sequence[str]) -> int:
    """Drain a running broker; return 0 once its queues are empty."""
    parser = Parser(
        prog="spanwire drain",
        description="Send all messages of the queues of a running broker to another broker, until they are empty.",
    )
    parser.add_argument("uri", metavar="URI", help="address of the other broker, such as tcp://host:61616")
    parser.add_argument(
        "--queue", action="append", default=[], metavar="PATTERN", help="only queues that match; all without it"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="ATTRIBUTE=VALUE",
        help="an attribute of the <networkConnector>, such as userName=drain",
    )
    parser.add_argument(
        "--close-connectors",
        "--closeConnectors",
        action="store_true",
        help="close the connectors before, so that clients go to other brokers and nobody sends any more",
    )
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    patterns = queue_patterns(options.queue or [">"])
    settings: dict[str, object] = {
        "staticallyIncludedDestinations": [f"queue://{pattern}" for pattern in patterns],
        "staticBridge": "true",
    }
    for pair in options.set:
        attribute, equals, value = str(pair).partition("=")
        if not equals:
            parser.error(f"--set {pair[:100]}: write ATTRIBUTE=VALUE")
        settings[attribute] = value
    client = control_client(options, PATIENCE_S)
    client.ask("network-add", uri=f"static:({options.uri})", name=LINK, settings=settings)
    try:
        if options.close_connectors:  # a link that is refused has closed nothing
            _close_connectors(client)
        return _wait(client, patterns, str(options.uri))
    finally:
        client.ask("network-remove", connectors=[LINK])


def queue_patterns(names: Sequence[str]) -> list[str]:
    """Return the names of queues, or patterns of them.

    Raises:
        ConfigurationError: a name is that of a topic, of several queues, or of none.
    """
    patterns: list[str] = []
    for name in names:
        destination = parse_destination(name, QUEUE)
        if not destination.is_queue or destination.is_temporary or destination.is_composite:
            raise ConfigurationError(
                f"--queue {name[:100]}: name one queue or a pattern; give --queue again for another"
            )
        patterns.append(destination.name)
    return patterns


def _close_connectors(client: ControlClient) -> None:
    status = client.ask("status")
    rows = status.get("connectors") if isinstance(status, dict) else None
    names = [row["name"] for row in rows if row["started"]] if isinstance(rows, list) else []
    if names:
        client.ask("connector-stop", connectors=names)


def _wait(client: ControlClient, patterns: Sequence[str], uri: str) -> int:
    """Wait until the queues are empty. Raises `ConfigurationError` if messages stay."""
    queues = [parse_destination(pattern, QUEUE) for pattern in patterns]
    first, last = -1, -1
    since = time.monotonic()
    while True:
        rows = client.ask("destinations")
        left: dict[str, int] = {}
        for row in rows if isinstance(rows, list) else []:
            destination = parse_destination(str(row["destination"]))
            pending = row["pending"]
            if isinstance(pending, int) and pending > 0 and any(one.matches(destination) for one in queues):
                left[str(row["destination"])] = pending
        count = sum(left.values())
        first = count if first < 0 else first
        if count == 0:
            sys.stdout.write(f"the queues are empty: {first} messages or more went to {escaped(uri)}\n")
            return 0
        if count != last:
            last, since = count, time.monotonic()
            if sys.stderr.isatty():
                sys.stderr.write(f"\r\x1b[K{count} messages left in {len(left)} queues")
                sys.stderr.flush()
        elif time.monotonic() - since > STALL_S:
            raise ConfigurationError(_stalled(client, left))
        time.sleep(POLL_S)


def _stalled(client: ControlClient, left: dict[str, int]) -> str:
    """Return why messages stay, as far as the link says."""
    status = client.ask("status")
    links = status.get("network_connectors") if isinstance(status, dict) else None
    reasons = [str(row["reason"]) for row in links if row["name"] == LINK] if isinstance(links, list) else []
    reason = next((reason for reason in reasons if reason), "")
    names = ", ".join(f"{name} ({count})" for name, count in list(left.items())[:MAX_SHOWN])
    why = f"the link says: {reason}" if reason else "spanwire why QUEUE says why"
    return escaped(f"for {STALL_S:.0f} s no message has gone; left are {names}; {why}")
