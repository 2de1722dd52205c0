"""``spanwire network simulate``: simulates networks of up to a million brokers.

The report has demand, routes and advisories.

Modules that need PySpark are imported on use, so that a missing extra is an error of one line.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast

from spanwire import registry
from spanwire.cli.arguments import Parser
from spanwire.extras import install_command
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.routing import DEFAULT_PRIORITY_BASE
from spanwire.service.network_lint.network_files import read_network

KINDS: Final = ("hub", "ring", "tree", "grid", "regular", "scale-free", "mesh")
NEEDED: Final = ("pyspark", "pyarrow", "numpy")  # packages of the extra `spark`
DESTINATION: Final = "SIMULATED"
UNSET: Final = -2  # not a valid TTL
TRUTHS: Final = (
    "conduit_subscriptions", "conduit_network_queue_subscriptions", "suppress_duplicate_queue_subscriptions",
    "suppress_duplicate_topic_subscriptions", "decrease_network_consumer_priority",
)  # fmt: skip
SETTINGS: Final = ("network_ttl", "message_ttl", "consumer_ttl", *TRUTHS, "consumer_priority_base")

COMMAND: Final = "spanwire.pipeline.simulation.command"
RULES: Final = "spanwire.pipeline.simulation.rules"
READ_PLAN: Final = "spanwire.cli.network.network_arrays:read_plan"

DESCRIPTION: Final = """Simulate a network of brokers: which brokers learn of remote consumers, where messages arrive
or get stuck, and how many advisories go over each link.

    spanwire network simulate --topology regular --brokers 100000 --degree 4 --network-ttl 3
    spanwire network simulate --edges links.csv --one-way --message-ttl 4 --consumer-ttl 1 --out DIRECTORY
    spanwire network simulate a.xml b.xml c.xml --queue ORDERS --subscribers ALL

In a generated network and in a list of connectors, all connectors have the same settings, with the defaults of
networkConnector; files have their own settings. All numbers are exact unless marked "at most" or "sampled"."""


def run(arguments: Sequence[str]) -> int:
    """Simulate a network."""
    prepared, choice = asked(arguments)
    _load(f"{COMMAND}:run")(prepared, choice)
    return 0


def asked(arguments: Sequence[str]) -> tuple[object, object]:
    """Return the network and the output choice of the command line; exits for a wrong command line."""
    parser = _parser()
    options = parser.parse(arguments)
    if sum((options.topology is not None, options.edges is not None, bool(options.files))) != 1:
        parser.error("name a network: --topology KIND --brokers N, or --edges FILE, or the files of its brokers")
    if options.topology is None and (options.brokers is not None or options.degree is not None):
        parser.error("--brokers and --degree belong to --topology")
    if options.topology is not None and options.brokers is None:
        parser.error("--topology needs --brokers N")
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(f"{missing[0]} is not installed; run: {install_command('spark')}")
    kind, name = (TOPIC, options.topic) if options.topic else (QUEUE, options.queue or DESTINATION)
    destination = Destination(kind, name)
    out = Path(options.out) if options.out else None
    choice = _load(f"{COMMAND}:Choice")(
        destination.qualified_name,
        options.subscribers,
        options.consumers,
        options.seed,
        options.master,
        options.json,
        out,
    )
    if options.files:
        return _of_files(parser, options, destination, choice), choice
    rules, duplex = _rules(options, destination), not options.one_way
    if options.edges is not None:
        return _load(f"{COMMAND}:listed_network")(Path(options.edges), duplex, rules, choice), choice
    make = _load(f"{COMMAND}:generated_network")
    return make(options.topology, options.brokers, options.degree, duplex, rules, choice), choice


def _parser() -> Parser:
    parser = Parser(prog="spanwire network simulate", description=DESCRIPTION)
    parser.add_argument("files", nargs="*", metavar="FILE", help="activemq.xml or TOML, one for each broker")
    parser.add_argument("--topology", choices=KINDS, help="generate a network of this kind")
    parser.add_argument("--brokers", type=_whole, metavar="N", help="how many it has")
    parser.add_argument(
        "--degree",
        type=_whole,
        metavar="N",
        help="neighbours of each (regular, else 4; scale-free: on average, else 4), or below each (tree, else 2)",
    )
    parser.option("edges", "a CSV or Parquet file with a line for each connector: near,far", metavar="FILE")
    parser.flag("oneWay", "connectors lead one way, from the broker that has them; else all are duplex")
    for name, usual in (("networkTTL", "1"), ("messageTTL", "networkTTL"), ("consumerTTL", "networkTTL")):
        parser.add_argument(
            f"--{name[:-3]}-ttl", f"--{name}", type=_ttl, default=UNSET, metavar="N", help=f"else {usual}; -1: no limit"
        )
    for name, word in (
        ("conduitSubscriptions", "true"),
        ("conduitNetworkQueueSubscriptions", "false"),
        ("suppressDuplicateQueueSubscriptions", "false"),
        ("suppressDuplicateTopicSubscriptions", "true"),
        ("decreaseNetworkConsumerPriority", "true"),
    ):
        parser.flag(name, f"else {word}")
    parser.set_defaults(**dict.fromkeys(TRUTHS))  # None means that the option is absent
    parser.add_argument(
        "--consumer-priority-base",
        "--consumerPriorityBase",
        type=int,
        metavar="N",
        help=f"else {DEFAULT_PRIORITY_BASE}",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--queue", metavar="NAME", help=f"the consumed queue; else {DESTINATION}")
    kind.add_argument("--topic", metavar="NAME", help="the consumed topic, instead of a queue")
    parser.option("subscribers", "at how many brokers, drawn at random, or ALL; else 1000 or all", metavar="N|ALL")
    parser.whole_number("consumers", "how many at each of them", 1, 1)
    parser.whole_number("seed", "another one draws others", 1)
    parser.option("out", "write brokers.parquet, links.parquet and summary.json there", metavar="DIRECTORY")
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")
    parser.option("master", "where Spark runs: local[*], local[2], or a cluster's URL", "local[*]", metavar="URL")
    return parser


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is no whole number from 1 on")
    return int(text)


def _ttl(text: str) -> int:
    try:
        hops = int(text) if len(text) <= 9 else UNSET
    except ValueError:
        hops = UNSET
    if hops < -1:
        raise argparse.ArgumentTypeError(
            f"{text[:60]!r} is no number of hops; write a whole number, or -1 for no limit"
        )
    return hops


def _rules(options: argparse.Namespace, destination: Destination) -> object:
    def chosen(value: bool | None, default: bool) -> bool:
        return default if value is None else value

    limited = _load(f"{RULES}:limited")
    network = 1 if options.network_ttl == UNSET else options.network_ttl
    consumer = network if options.consumer_ttl == UNSET else options.consumer_ttl
    message = network if options.message_ttl == UNSET else options.message_ttl
    conduit = chosen(options.conduit_subscriptions, True)
    is_topic = not destination.is_queue
    base = options.consumer_priority_base
    return _load(f"{RULES}:Rules")(
        consumer_ttl=limited(consumer),
        message_ttl=limited(message),
        conduit=conduit,
        joins=conduit and (is_topic or chosen(options.conduit_network_queue_subscriptions, False)),
        suppress=chosen(options.suppress_duplicate_topic_subscriptions, True)
        if is_topic
        else chosen(options.suppress_duplicate_queue_subscriptions, False),
        decreases=chosen(options.decrease_network_consumer_priority, True),
        priority_base=DEFAULT_PRIORITY_BASE if base is None else base,
        is_topic=is_topic,
    )


def _of_files(parser: Parser, options: argparse.Namespace, destination: Destination, choice: object) -> object:
    names = [name for name in SETTINGS if getattr(options, name) not in (None, UNSET)]
    if names or options.one_way:
        word = names[0] if names else "one_way"
        parser.error(f"--{word.replace('_', '-')} belongs in the brokers' files, not here")
    files = read_network(options.files)
    if files.errors:
        raise ConfigurationError("\n".join(files.errors))
    graph, rules = cast(tuple[object, object], _load(READ_PLAN)(files.plan, destination))
    connectors = sum(not link.reverse for link in files.plan.links)
    return _load(f"{COMMAND}:planned_network")(graph, rules, connectors, list(files.plan.brokers), choice)


def _load(reference: str) -> Callable[..., object]:
    return cast(Callable[..., object], registry.load(reference))
