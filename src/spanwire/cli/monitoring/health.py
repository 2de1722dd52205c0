"""``spanwire health``: judges a running broker, with the output and exit codes of a Nagios plug-in."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client, directory_of
from spanwire.cli.standbys import standby_text, standbys_of
from spanwire.management.control_client import ControlError, NotRunningError
from spanwire.management.health import Check, Level, broker_checks, queue_check, worst
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import printable


def run(arguments: Sequence[str]) -> int:
    """Print the checks of a broker; return 0 if good, 1 for a warning, 2 for a critical state."""
    parser = Parser(
        prog="spanwire health",
        description="Judge a running broker: memory, store, disk, waiting sends, connectors, links.\n"
        "Exit status as Nagios wants it: 0 good, 1 warning, 2 critical or no broker.",
    )
    placement(parser)
    parser.whole_number("maxPending", "warn of queues with more pending messages; 0 for no such check", 0)
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    options = parser.parse(arguments)
    checks: list[Check]
    try:
        client = control_client(options)
        status = client.ask("summary")
        checks = broker_checks(status if isinstance(status, dict) else {})
        if options.max_pending:
            queues = client.ask("destinations")
            rows = [row for row in queues if isinstance(row, dict)] if isinstance(queues, list) else []
            checks.append(
                queue_check([row for row in rows if "queue://" in str(row["destination"])], options.max_pending)
            )
    except NotRunningError as error:
        waiting = standbys_of(directory_of(options))
        checks = [Check("standby", Level.OK, standby_text(broker)) for broker in waiting]
        checks = checks or [Check("broker", Level.CRITICAL, str(error))]
    except (ControlError, ConfigurationError) as error:  # also: none of this name runs
        checks = [Check("broker", Level.CRITICAL, str(error))]
    level = worst(checks)
    sys.stdout.write(_as_json(level, checks) if options.json else _as_text(level, checks))
    return int(level)


def _as_text(level: Level, checks: Sequence[Check]) -> str:
    """Return the line of the plug-in, which names faults first, and a line for each check."""
    faults = [check for check in checks if check.level is not Level.OK]
    summary = "; ".join(f"{check.name}: {check.text}" for check in faults) or f"{len(checks)} checks"
    lines = [f"SPANWIRE {level.name} - {summary}"]
    lines += [f"{check.level.name} {check.name}: {check.text}" for check in checks]
    return "".join(f"{printable(line)}\n" for line in lines)


def _as_json(level: Level, checks: Sequence[Check]) -> str:
    shown = [{"name": check.name, "level": check.level.name, "text": check.text} for check in checks]
    return json.dumps({"level": level.name, "checks": shown}, indent=2) + "\n"
