"""``spanwire bench``: load for one broker, or for several one after the other, with percentiles."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.cli.bench.clients import MODES
from spanwire.cli.bench.plan import MAX_BODY, MAX_CLIENTS, MAX_MARK_BYTES, MAX_MESSAGES, MAX_SECONDS, STAMP, Plan
from spanwire.cli.bench.reports import as_csv, as_svg, figures, milliseconds, remarks, table
from spanwire.cli.bench.running import Result, Row, run_plan
from spanwire.cli.endpoint import DEFAULT_BROKER_URL, PASSWORD_VARIABLE
from spanwire.client.addressing.redaction import redacted
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.model.text import escaped
from spanwire.model.written_destination import written_destination

DEFAULT_SECONDS: Final = 10
DEFAULT_WINDOW: Final = 10_000
PREFIX: Final = "SPANWIRE.BENCH."


def run(arguments: Sequence[str]) -> int:
    """Run the load and print the figures; return 1 if messages are lost or come twice."""
    parser = _parser()
    options = parser.parse(arguments)
    _check(options)
    is_topic, name = _destination(options)
    results: list[Result] = []
    for url in options.urls or [DEFAULT_BROKER_URL]:
        plan = _plan(options, url, is_topic, name)
        sys.stderr.write(escaped(f"{redacted(url)}: {_shown(plan)}") + "\n")
        try:
            result = run_plan(plan, _progress if not options.quiet else lambda row: None)
        except SpanwireError as error:
            raise SpanwireError(f"{redacted(url)}: {error}") from error
        result.url = redacted(url)
        results.append(result)
    if options.json:
        sys.stdout.write(json.dumps([figures(one) for one in results], indent=2) + "\n")
    else:
        sys.stdout.write(table(results))
    for result in results:
        for line in remarks(result):
            sys.stderr.write(escaped(line) + "\n")
    _write(options.csv, as_csv(results))
    _write(options.svg, as_svg(results, _shown(plan)))
    return int(any(one.lost or one.duplicates for one in results))


def _parser() -> Parser:
    parser = Parser(
        prog="spanwire bench",
        description="Send and receive messages, and print how many arrive in a second and how long they take.\n"
        "Of several brokers one is loaded after the other. Each run has a destination of its own unless one is named;\n"
        "it stays at the broker. With --rate, a latency counts from the time at which the message was due, so a\n"
        "broker that stops is charged with all messages that it holds up. Exit status 1 if one is lost or comes twice.",
    )
    parser.add_argument(
        "urls",
        nargs="*",
        metavar="URL",
        help=f"addresses of ActiveMQ, Artemis or Spanwire, with stomp: over STOMP; {DEFAULT_BROKER_URL}",
    )
    parser.option("destination", "queue://NAME or topic://NAME; else a queue of its own", metavar="NAME")
    parser.flag("topic", "a topic of its own in place of a queue: each consumer gets each message")
    parser.whole_number("producers", "connections that send", 1)
    parser.whole_number("consumers", "connections that receive", 1)
    parser.whole_number("messageSize", f"bytes of a body, {STAMP.size} at least", 1024, STAMP.size)
    parser.flag("persistent", "store the messages (the default)", default=True)
    parser.whole_number("rate", "messages a second of all producers together; 0 for as many as the broker takes", 0)
    parser.whole_number("messages", "messages in all; 0 for those of the time", 0)
    parser.whole_number("seconds", "how long to send", DEFAULT_SECONDS, 1)
    parser.whole_number("warmUp", "seconds at the begin whose latencies do not count", 0)
    parser.whole_number("window", "messages on their way at most, without --rate; 0 for no such limit", DEFAULT_WINDOW)
    parser.add_argument(
        "--wait", choices=("auto", "always", "never"), default="auto",
        help="whether a producer waits for the answer to each send; auto waits for persistent messages",
    )  # fmt: skip
    parser.add_argument("--ack-mode", "--ackMode", choices=tuple(MODES), default="auto", help="how to acknowledge")
    parser.whole_number("patience", "seconds without a message after which the rest counts as lost", 10, 1)
    parser.option("user", "user name", metavar="NAME")
    parser.option("password", f"password; ${PASSWORD_VARIABLE} keeps it out of the list of processes", metavar="SECRET")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each second")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write charts of latency and rate over time")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.flag("quiet", "print no line for each second")
    return parser


def _check(options: argparse.Namespace) -> None:
    """Refuse an impossible plan. Raises `ConfigurationError`."""
    if not options.producers:
        raise ConfigurationError("--producers is at least 1: without messages there is nothing to measure")
    for name, most in (
        ("producers", MAX_CLIENTS),
        ("consumers", MAX_CLIENTS),
        ("messages", MAX_MESSAGES),
        ("seconds", MAX_SECONDS),
        ("message_size", MAX_BODY),
    ):
        if getattr(options, name) > most:
            raise ConfigurationError(f"--{name.replace('_', '-')} is at most {most}")
    if options.warm_up >= options.seconds and not options.messages:
        raise ConfigurationError("--warm-up is shorter than --seconds")
    copies = max(1, options.consumers) if options.topic else 1
    if options.messages * copies > MAX_MARK_BYTES * 8:
        raise ConfigurationError(f"--messages times the consumers of a topic are at most {MAX_MARK_BYTES * 8}")


def _destination(options: argparse.Namespace) -> tuple[bool, str]:
    """Return True for a run over a topic, and the name of the destination, "" for a new name."""
    if options.destination is None:
        return bool(options.topic), ""
    named: Destination = written_destination(str(options.destination))
    if named.is_pattern or named.is_composite or named.is_temporary:
        raise ConfigurationError(f"--destination {named.qualified_name[:100]}: name one queue or topic")
    return named.kind == TOPIC, named.qualified_name


def _plan(options: argparse.Namespace, url: str, is_topic: bool, name: str) -> Plan:
    run_id = secrets.token_bytes(8)
    own = f"{'topic' if is_topic else 'queue'}://{PREFIX}{run_id.hex()}"
    waits = {"auto": None, "always": True, "never": False}[options.wait]
    password = options.password or os.environ.get(PASSWORD_VARIABLE)
    return Plan(
        run_id,
        url,
        name or own,
        is_topic,
        options.producers,
        options.consumers,
        options.message_size,
        bool(options.persistent),
        float(options.rate),
        options.messages,
        float(options.seconds),
        float(options.warm_up),
        options.window,
        waits,
        options.ack_mode,
        float(options.patience),
        options.user,
        password if options.user is not None else None,
    )


def _shown(plan: Plan) -> str:
    amount = f"{plan.messages:,} messages" if plan.messages else f"{plan.seconds:g} s"
    speed = f"{plan.rate:,.0f} messages/s" if plan.rate else "as fast as it takes them"
    kind = "topic" if plan.is_topic else "queue"
    stored = "persistent" if plan.persistent else "not persistent"
    return f"{kind}, {plan.producers}:{plan.consumers}, {plan.size:,} bytes, {stored}, {speed}, {amount}"


def _progress(row: Row) -> None:
    times = f", p50 {milliseconds(row.p50_us)} ms, p99 {milliseconds(row.p99_us)} ms" if row.is_measured else ""
    sys.stderr.write(f"{row.second:>4} s: sent {row.sent:,}, received {row.received:,}{times}\n")


def _write(path: Path | None, text: str) -> None:
    if path is None:
        return
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror or error}") from error
