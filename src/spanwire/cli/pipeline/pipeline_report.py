"""The command ``spanwire pipeline report``: the flow of messages through brokers, from archives."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spanwire.cli.arguments import Parser
from spanwire.cli.spark_parts import load

INPUTS: Final = "spanwire.pipeline.report.sources:Inputs"
REPORT: Final = "spanwire.pipeline.report.commands:report"
TEXT: Final = "spanwire.pipeline.report.terminal:report_text"
JSON: Final = "spanwire.pipeline.report.terminal:json_of"
DEFAULT_STUCK_S: Final = 60
IS_BROKEN: Final = 3  # exit status of a broken ledger


def run_report(arguments: Sequence[str]) -> int:
    """Make a report; return 3 if the ledger has ids that break it."""
    parser = Parser(
        prog="spanwire pipeline report",
        description=(
            "Rates, sizes, times from broker to broker, who sends to whom, and the ledger of queues:\n"
            "sent = delivered + dead + expired + pending, or the exact messages that break it.\n"
            "From archives that spanwire pipeline archive has written. The exit status is 3 when the ledger is broken."
        ),
    )
    parser.add_argument("archives", nargs="*", metavar="ARCHIVE", help="archives of received messages")
    for name, text in (
        ("advisories", "an archive of topic://ActiveMQ.Advisory.> of a broker; may be repeated, once for each broker"),
        ("statistics", "an archive of replies of the statistics plugin; may be repeated"),
        ("sent", "an archive with a copy of every sent message; may be repeated"),
    ):
        parser.add_argument(f"--{name}", action="append", default=[], metavar="ARCHIVE", help=text)
    parser.whole_number("stuckAfter", "seconds after which a pending message is stuck", DEFAULT_STUCK_S)
    parser.option(
        "out", "directory for report.html, report.json, charts, and Parquet of all flagged ids", metavar="DIRECTORY"
    )
    parser.option("master", "Spark's master: local[*], local[2], or the URL of a cluster", "local[*]", metavar="URL")
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")
    options = parser.parse(arguments)
    inputs = load(INPUTS)(
        tuple(options.archives), tuple(options.advisories), tuple(options.statistics), tuple(options.sent)
    )
    directory = Path(options.out) if options.out else None
    report = load(REPORT)(options.master, inputs, directory, options.stuck_after)
    sys.stdout.write(json.dumps(load(JSON)(report)) + "\n" if options.json else str(load(TEXT)(report)))
    if directory is not None and not options.json:
        sys.stdout.write(f"The page is {directory / 'report.html'}\n")
    return IS_BROKEN if getattr(report, "is_broken", False) else 0
