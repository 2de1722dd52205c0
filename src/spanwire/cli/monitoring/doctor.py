"""``spanwire doctor``: judges a machine and a configuration before the first start."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from spanwire.cli.arguments import Parser, placement, start_options
from spanwire.cli.process.config import checked
from spanwire.management.health import Level
from spanwire.model.text import escaped
from spanwire.service.doctor.diagnosis import Finding, diagnose
from spanwire.service.doctor.gathering import gather


def run(arguments: Sequence[str]) -> int:
    """Print the findings and return the exit status.

    The status is 0 without findings, 1 for a warning, 2 for an obstacle to a working broker.
    """
    parser = Parser(
        prog="spanwire doctor",
        description="Say what is wrong with this machine and a configuration before the first start: limits, memory,\n"
        "disk and its syncs, clock, ports, certificates, extras, and all that spanwire config check says.\n"
        "Nothing is started; a file of a few kilobytes is written for the syncs, and removed.\n"
        "Exit status: 0 good, 1 warning, 2 critical.",
    )
    placement(parser, starts=True)
    start_options(parser)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    options = parser.parse(arguments)
    configuration, obstacles, warnings = checked(options)
    findings = diagnose(gather(configuration, obstacles, warnings, options.data_directory, os.environ))
    level = max(finding.level for finding in findings)
    sys.stdout.write(_as_json(level, findings) if options.json else _as_text(level, findings))
    return int(level)


def _as_text(level: Level, findings: Sequence[Finding]) -> str:
    """Return a line for each finding, the worst first, and a line with the numbers."""
    ordered = sorted(findings, key=lambda finding: -finding.level)
    counts = [
        (sum(one.level is kind for one in findings), kind.name.lower()) for kind in (Level.CRITICAL, Level.WARNING)
    ]
    summary = ", ".join(f"{count} {name}" for count, name in counts) + f" of {len(findings)} findings"
    return "".join(f"{escaped(line)}\n" for line in [*(one.line() for one in ordered), f"{level.name}: {summary}"])


def _as_json(level: Level, findings: Sequence[Finding]) -> str:
    shown = [
        {
            "subject": one.subject,
            "level": one.level.name,
            "where": one.where,
            "text": one.text,
            "advice": one.advice,
        }
        for one in findings
    ]
    return json.dumps({"level": level.name, "findings": shown}, indent=2) + "\n"
