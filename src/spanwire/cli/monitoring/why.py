"""``spanwire why``: explains why a message, or an object of a running broker, does not move."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client
from spanwire.management.control_client import ControlError
from spanwire.management.tables.operation_table import WHY
from spanwire.model.text import escaped

KINDS: Final = next(argument.choices for argument in WHY.arguments if argument.name == "kind")
PATIENCE_S: Final = 600.0  # seconds; 200,000 messages on a slow disk are read in minutes
EXPLAINED: Final = 0
UNKNOWN: Final = 3
DESCRIPTION: Final = """Explain why a message does not move, or what a queue, topic, durable subscription,
connection or link waits for: one sentence, the evidence, and what to do.

  spanwire why ID:host-41017-1795246514000-0:1:1:1:7
  spanwire why queue ORDERS
  spanwire why subscription invoices --clientId billing

Exit status: 0 explained, 1 the broker cannot be asked or has no such object, 2 wrong usage, 3 nothing is known of the
message."""


def run(arguments: Sequence[str]) -> int:
    """Print the explanations of a message or object; return 0, or 3 without an explanation."""
    parser = Parser(prog="spanwire why", description=DESCRIPTION)
    parser.add_argument(
        "words",
        nargs="+",
        metavar="[KIND] NAME",
        help=f"a message id or a name; before it {', '.join(KINDS)}, if another object has the name too",
    )
    parser.option("clientId", "client of the durable subscription, if several have one of the name")
    parser.option(
        "queue", "compare only the stored messages of this queue with the id, which is faster", metavar="NAME"
    )
    parser.flag("network", "ask the other brokers of the network about the message, too")
    parser.add_argument("--json", action="store_true", help="print the broker's answer as JSON")
    placement(parser, names_others=True)
    options = parser.parse(arguments)
    kind, name = _subject(parser, options.words)
    asked = {"name": name, "kind": kind, "client_id": options.client_id, "queue": options.queue}
    if options.network:
        asked["network"] = "true"
    client = control_client(options, PATIENCE_S)
    answer = client.ask(WHY.command, **{key: value for key, value in asked.items() if value})
    if not isinstance(answer, dict) or not isinstance(answer.get("explanations"), list):
        raise ControlError("the broker answers in another form than expected: it is of another version")
    if options.json:
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        texts = ["".join(f"{line}\n" for line in explanation_lines(one)) for one in answer["explanations"]]
        sys.stdout.write("\n".join(texts))
    return UNKNOWN if all(one.get("cause") == "unknown" for one in answer["explanations"]) else EXPLAINED


def _subject(parser: Parser, words: Sequence[str]) -> tuple[str, str]:
    """Return kind and name; a kind alone is a name."""
    if len(words) == 1:
        return "", words[0]
    if len(words) == 2 and words[0] in KINDS:
        return words[0], words[1]
    parser.error(f"write spanwire why NAME, or one of {', '.join(KINDS)} before the name")


def explanation_lines(explanation: dict[str, object]) -> list[str]:
    """Return an explanation as lines: the sentence, the evidence with place and time, and the advice."""
    lines = [f"{explanation.get('subject')}: {explanation.get('sentence')}  [{explanation.get('cause')}]"]
    evidence, advice = explanation.get("evidence"), explanation.get("advice")
    if isinstance(evidence, list):
        for one in evidence:
            place = f"{one.get('broker')}, {one.get('object')}"
            lines.append(f"  {_time(one.get('time_ms'))}  {place}: {one.get('text')}")
    if isinstance(advice, list):
        lines += [f"  do: {one}" for one in advice]
    return [escaped(line) for line in lines]


def _time(time_ms: object) -> str:
    """Return a time in the machine's zone, or ``-`` for a time outside of the calendar."""
    try:
        return datetime.fromtimestamp(int(str(time_ms)) / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "-"
