"""``spanwire trace``: follows messages live through a broker and a network."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client
from spanwire.management.control_client import ControlClient, ControlError
from spanwire.management.tables.operation_table import OBSERVATIONS, TRACE, TRACE_DRY_RUN, TRACE_END
from spanwire.model.text import escaped

PATIENCE_S: Final = 60.0  # seconds for an answer; brokers of a network have 20
PAUSE_S: Final = 0.5  # seconds between two questions
SEEN: Final = 0
NOTHING: Final = 3
MILLISECONDS: Final = 1_000
DESCRIPTION: Final = """Follow messages live: each step of a marked message with its time and broker, until the trace
has run for its seconds, or Ctrl-C.

  spanwire trace ORDERS
  spanwire trace ORDERS --network --selector "amount > 100" --rate 0.1
  spanwire trace ORDERS --dry-run --from brokerB --property amount=120
  spanwire trace topic://PRICES --id ID:host-41017-1795246514000-0:1:1:1:7 --json

Without --selector, --id and --rate the next messages are followed. No body and no property is shown. --dry-run follows
a message that nobody sends: each broker of the network says what it would do with it now.

Exit status: 0 a message was seen, or would be delivered, 1 the broker cannot be asked or refuses, 2 wrong usage, 3 no
message was seen, or it would not be delivered."""


def run(arguments: Sequence[str]) -> int:
    """Print the steps of marked messages; return 0, or 3 without a seen message."""
    parser = Parser(prog="spanwire trace", description=DESCRIPTION)
    parser.add_argument("destination", metavar="DESTINATION", help="queue, or topic://NAME")
    parser.option("selector", "follow only messages that a selector chooses")
    parser.add_argument("--id", action="append", default=[], metavar="ID", help="follow only the message of this id")
    parser.option("rate", "follow this share of the messages, such as 0.01; all brokers choose the same", metavar="R")
    parser.whole_number("seconds", "seconds after which the trace ends, 3600 at most", 60, 1)
    parser.whole_number("messages", "messages that are followed, 1000 at most", 100, 1)
    parser.flag("network", "follow the messages at the other brokers of the network, too")
    parser.add_argument("--json", action="store_true", help="print each step as a line of JSON")
    parser.add_argument("--dry-run", "--dryRun", action="store_true", help="ask brokers about a message nobody sends")
    parser.add_argument("--from", dest="start", metavar="BROKER", help="where the message of --dry-run would be sent")
    parser.add_argument(
        "--property", action="append", default=[], metavar="NAME=VALUE", help="a property of the message of --dry-run"
    )
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    asked: dict[str, object] = {
        "destination": options.destination, "selector": options.selector, "ids": options.id or None,
        "one_in": _one_in(parser, options.rate), "seconds": options.seconds, "messages": options.messages,
        "network": True if options.network else None,
    }  # fmt: skip
    client = control_client(options, PATIENCE_S)
    if options.dry_run:
        return show_dry_run(client, options.destination, options.start, _properties(parser, options.property), options)
    if options.start or options.property:
        parser.error("--from and --property are for --dry-run")
    return follow(client, {key: value for key, value in asked.items() if value is not None}, as_json=options.json)


def follow(client: ControlClient, asked: Mapping[str, object], *, as_json: bool = False) -> int:
    """Start a trace, print the steps until the end or Ctrl-C, and return the exit status."""
    answer = _checked(client.ask(TRACE.command, **asked))
    name = str(answer["trace"])
    if not as_json:
        locations = "at all brokers of the network" if answer.get("network") else f"at broker {answer.get('broker')}"
        sys.stderr.write(
            escaped(f"{name}: {answer.get('destination')} {locations} for {answer.get('left_s')} s") + "\n"
        )
    after = seen = 0
    try:
        while True:
            answer = _checked(client.ask(OBSERVATIONS.command, trace=name, after=after))
            rows = _rows(answer.get("observations"))
            for row in rows:
                sys.stdout.write((json.dumps(row) if as_json else escaped(observation_line(row))) + "\n")
            sys.stdout.flush()
            seen += len(rows)
            after = int(str(answer.get("next", after)))
            if rows:
                continue
            if (answer.get("ended") or not answer.get("left_s")) and answer.get("complete"):
                break
            time.sleep(PAUSE_S)
    except KeyboardInterrupt:
        client.ask(TRACE_END.command, trace=name)
        answer = _checked(client.ask(OBSERVATIONS.command, trace=name, after=after))
    if not as_json:
        for line in closing_lines(answer):
            sys.stderr.write(escaped(line) + "\n")
    return SEEN if seen else NOTHING


def show_dry_run(
    client: ControlClient, destination: str, start: str | None, properties: str, options: argparse.Namespace
) -> int:
    """Print the hops of a message without sending a message; return the exit status."""
    asked = {"destination": destination, "from": start, "properties": properties}
    answer = client.ask(TRACE_DRY_RUN.command, **{key: value for key, value in asked.items() if value})
    if not isinstance(answer, dict) or not isinstance(answer.get("hops"), list):
        raise ControlError("the broker answers in another form than expected: it is of another version")
    if options.json:
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        for hop in _rows(answer["hops"]):
            sys.stdout.write("".join(f"{escaped(line)}\n" for line in hop_lines(hop)))
    return SEEN if answer.get("delivered") else NOTHING


def hop_lines(hop: Mapping[str, object]) -> list[str]:
    """Return the decision of one broker: the receivers of the message, and the reasons against all others."""
    way, name = hop.get("way"), hop.get("broker")
    before = [str(one) for one in way] if isinstance(way, list) else []
    lines = [" -> ".join([*before, str(name)])]
    if hop.get("silence"):
        return [f"{lines[0]}: nobody knows what happens there: {hop['silence']}"]
    answers = _rows(hop.get("answers"))
    for one in answers:
        if one.get("taken"):
            goes = f"to broker {one.get('target')}" if one.get("target_id") else "delivered"
            lines.append(f"  {goes}: {one.get('location')} (priority {one.get('priority')})")
    if hop.get("held"):
        lines.append(f"  held: {hop['held']}")
    forwards = hop.get("forwards")
    if isinstance(forwards, list):
        lines += [f"  forwarded to {one}: ask for it, too" for one in forwards]
    for one in answers:
        if not one.get("taken"):
            who = f"broker {one.get('target')}" if one.get("target_id") else one.get("location")
            lines.append(f"  not {who}: {one.get('text')}")
    lines += [f"  not {one.get('location')}: {one.get('text')}" for one in _rows(hop.get("closed"))]
    if hop.get("untold"):
        lines.append(f"  and {hop['untold']} further consumers that would not get it")
    return lines


def _properties(parser: Parser, words: Sequence[str]) -> str:
    """Return properties as a JSON object; numbers, true and false are no texts."""
    found: dict[str, object] = {}
    for word in words:
        name, mark, value = word.partition("=")
        if not mark or not name:
            parser.error(f"--property {word[:60]!r} is not of the form NAME=VALUE")
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        found[name] = read if isinstance(read, (int, float)) else value
    return json.dumps(found) if found else ""


def _one_in(parser: Parser, rate: str | None) -> int | None:
    """Return the number of messages for one followed message."""
    if rate is None:
        return None
    try:
        share = float(rate)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        parser.error(f"--rate {rate[:20]!r} is no share above 0 and up to 1, such as 0.01")
    return round(1 / share)


def _checked(answer: object) -> dict[str, object]:
    if not isinstance(answer, dict) or "trace" not in answer:
        raise ControlError("the broker answers in another form than expected: it is of another version")
    return answer


def _rows(rows: object) -> list[dict[str, object]]:
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def observation_line(row: Mapping[str, object]) -> str:
    """Return one step as a line: time, name of the broker, step, message, and place."""
    words = [
        time_text(row.get("time_ms")), f"{row.get('broker')!s:<10}", f"{row.get('step')!s:<13}",
        str(row.get("message_id")), str(row.get("destination")),
    ]  # fmt: skip
    if row.get("location"):
        words.append(f"-> {row.get('location')}")
    notes = [str(row["detail"])] if row.get("detail") else []
    if row.get("deliveries"):
        notes.append(f"delivered {row['deliveries']} times before")
    return " ".join(words) + (f" ({', '.join(notes)})" if notes else "")


def closing_lines(answer: Mapping[str, object]) -> list[str]:
    """Return the remarks at the end of a trace: unseen steps, and the accuracy of comparisons of clocks."""
    lines = [f"ended: {answer.get('ended') or 'its time is over'}; {answer.get('marked')} messages were marked here"]
    if answer.get("dropped"):
        lines.append(f"{answer['dropped']} further steps were not kept: choose fewer messages")
    for broker in _rows(answer.get("brokers")):
        name = broker.get("broker")
        if broker.get("silence"):
            lines.append(f"{name}: not followed there: {broker['silence']}")
        elif broker.get("uncertain_ms"):
            lines.append(
                f"{name}: its clock is {broker.get('offset_ms')} ms ahead of this broker's, measured within "
                f"{broker.get('uncertain_ms')} ms; times nearer than that have no order"
            )
    return lines


def time_text(time_ms: object) -> str:
    """Return the time of day in the machine's zone, with milliseconds."""
    try:
        at = datetime.fromtimestamp(int(str(time_ms)) / MILLISECONDS).astimezone()
    except (ValueError, OverflowError, OSError):
        return "-"
    return at.strftime("%H:%M:%S.%f")[:-3]
