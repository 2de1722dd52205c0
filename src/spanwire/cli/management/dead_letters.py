"""``spanwire dlq retry`` sends dead letters back to the original destinations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from spanwire.cli.arguments import Parser, offer_actions, placement
from spanwire.cli.management.moving import begin, preview_text
from spanwire.cli.running import control_client
from spanwire.model.text import escaped

SHARED_DEAD_LETTERS: Final = "ActiveMQ.DLQ"
PATIENCE_S: Final = 3_600.0  # seconds; ten million messages take minutes
_FOLLOW: Final = "wait while 1,000 messages are pending at a destination with consumers"
USAGE_ERROR: Final = 2


def run(arguments: Sequence[str]) -> int:
    """Run ``spanwire dlq retry``: send dead letters back to the original destinations.

    Prints the number of messages.
    """
    words = list(arguments)
    offer_actions("spanwire dlq", words, ["retry"])
    parser = Parser(
        prog="spanwire dlq retry",
        description="Send dead letters back to their original destinations, with a new time to live.",
    )
    parser.add_argument("queues", nargs="*", metavar="QUEUE", help=f"a dead letter queue; else {SHARED_DEAD_LETTERS}")
    parser.option("msgsel", "only messages that this SQL-92 expression selects", metavar="EXPRESSION")
    parser.whole_number("messageCount", "at most so many of each queue; 0 for all", 0)
    parser.whole_number("rate", "at most so many messages a second; 0 for no limit", 0)
    parser.flag("follow", _FOLLOW)
    parser.add_argument("--dry-run", "--dryRun", action="store_true", help="count the messages, and change nothing")
    parser.add_argument("--background", action="store_true", help="do not wait for the end of the task")
    placement(parser, names_others=True)
    if not words or words[0] not in ("retry", "-h", "--help"):
        sys.stderr.write("spanwire dlq: name an action: retry; spanwire dlq --help\n")
        return USAGE_ERROR
    options = parser.parse(words[1:] if words[0] == "retry" else words)
    client = control_client(options, PATIENCE_S)
    values: dict[str, object] = {"destinations": options.queues or [SHARED_DEAD_LETTERS], "selector": options.msgsel}
    values |= {"limit": options.message_count} if options.message_count else {}
    if options.dry_run:
        sys.stdout.write(preview_text("retry", client.ask("retry", **values, dry_run=True)))
        return 0
    values |= {"as_task": True, "rate": options.rate, "follow": options.follow}
    task = begin(client, "retry", values, options.background)
    result = None if task is None else task["result"]
    for row in result if isinstance(result, list) else []:
        remaining = f", {row['left']} left without an original destination" if row["left"] else ""
        sys.stdout.write(f"{escaped(str(row['destination']))}: {row['retried']} messages retried{remaining}\n")
    return 0
