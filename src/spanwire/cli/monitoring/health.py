"""``spanwire health``: judges a running broker, with the output and exit codes of a Nagios plug-in."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from spanwire.cli.arguments import Parser, placement
from spanwire.cli.running import control_client, directory_of
from spanwire.cli.standbys import standby_text, standbys_of
from spanwire.management.control_client import ControlClient, ControlError, NotRunningError
from spanwire.management.health import (
    CERTIFICATE_DAYS,
    MEMORY_WARNING,
    STORE_WARNING,
    Check,
    Level,
    Thresholds,
    age_check,
    broker_checks,
    dead_letter_check,
    open_metrics,
    queue_check,
    worst,
)
from spanwire.model.errors import ConfigurationError
from spanwire.model.text import printable

NO_CHECK: Final = -1  # dead letters; 0 allows none


def run(arguments: Sequence[str]) -> int:
    """Print the checks of a broker; return 0 if good, 1 for a warning, 2 for a critical state."""
    parser = Parser(
        prog="spanwire health",
        description="Judge a running broker: memory, store, disk, waiting sends, connectors and their\n"
        "certificates, links, bridges, and queues where thresholds are given.\n"
        "Exit status as Nagios wants it: 0 good, 1 warning, 2 critical or no broker.",
    )
    placement(parser)
    parser.whole_number("maxPending", "warn of queues with more pending messages; 0 for no such check", 0)
    parser.whole_number(
        "maxAge", "warn of queues whose oldest message has waited for more seconds; 0 for no such check", 0
    )
    parser.whole_number("maxDeadLetters", "warn of more dead letters, all together", NO_CHECK, NO_CHECK)
    parser.whole_number("maxMemory", "warn if more percent of the memory limit are used", MEMORY_WARNING)
    parser.whole_number(
        "maxStore", "warn if more percent of the store's limit, or of the disk, are used", STORE_WARNING
    )
    parser.whole_number(
        "certificateDays", "warn so many days before the end of a connector's certificate", CERTIFICATE_DAYS
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the checks as JSON")
    form.add_argument("--metrics", action="store_true", help="print the levels of the checks in OpenMetrics")
    options = parser.parse(arguments)
    checks: list[Check]
    try:
        client = control_client(options)
        status = client.ask("summary")
        known = status if isinstance(status, dict) else {}
        thresholds = Thresholds(options.max_memory, options.max_store, options.certificate_days)
        checks = [*broker_checks(known, thresholds), *_queue_checks(client, options, known)]
    except NotRunningError as error:
        waiting = standbys_of(directory_of(options))
        checks = [Check("standby", Level.OK, standby_text(broker)) for broker in waiting]
        checks = checks or [Check("broker", Level.CRITICAL, str(error))]
    except (ControlError, ConfigurationError) as error:  # also: none of this name runs
        checks = [Check("broker", Level.CRITICAL, _on_one_line(str(error)))]
    level = worst(checks)
    if options.metrics:
        sys.stdout.write(open_metrics(checks))
    else:
        sys.stdout.write(_as_json(level, checks) if options.json else _as_text(level, checks))
    return int(level)


def _queue_checks(client: ControlClient, options: argparse.Namespace, status: Mapping[str, object]) -> list[Check]:
    """Return the requested checks of queues. Raises `ControlError`."""
    checks: list[Check] = []
    if options.max_pending or options.max_dead_letters > NO_CHECK:
        destinations = _rows(client.ask("destinations"))
        queues = [row for row in destinations if "queue://" in str(row["destination"])]
        if options.max_pending:
            checks.append(queue_check(queues, options.max_pending))
        if options.max_dead_letters > NO_CHECK:
            checks.append(dead_letter_check(destinations, options.max_dead_letters))
    if options.max_age:
        now_ms = status.get("time_ms")
        checks.append(age_check(_rows(client.ask("ages")), now_ms if isinstance(now_ms, int) else 0, options.max_age))
    return checks


def _on_one_line(text: str) -> str:
    """Return a headline and its list, such as that of the running brokers, as one line."""
    headline, *items = [line.strip() for line in text.splitlines()] or [""]
    return f"{headline} {'; '.join(items)}".rstrip()


def _rows(answer: object) -> list[dict[str, object]]:
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []


def _as_text(level: Level, checks: Sequence[Check]) -> str:
    """Return the line of the plug-in, with faults first, and a line for each check."""
    faults = [check for check in checks if check.level is not Level.OK]
    summary = "; ".join(f"{check.name}: {check.text}" for check in faults) or f"{len(checks)} checks"
    lines = [f"SPANWIRE {level.name} - {summary}"]
    lines += [f"{check.level.name} {check.name}: {check.text}" for check in checks]
    return "".join(f"{printable(line)}\n" for line in lines)


def _as_json(level: Level, checks: Sequence[Check]) -> str:
    shown = [{"name": check.name, "level": check.level.name, "text": check.text} for check in checks]
    return json.dumps({"level": level.name, "checks": shown}, indent=2) + "\n"
