"""Judges a broker's health from the answer to ``summary``: a check for each concern of an operator.

Pure: `spanwire health` and the web process ask the control socket, and show the checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spanwire.management.tables.network_tables import BRIDGES, LINKS
from spanwire.management.tables.view_table import CONNECTORS, broker_row, rows_of

MEMORY_WARNING: Final = 70  # percent; producers of a topic with slow consumers begin to wait soon
MEMORY_CRITICAL: Final = 95  # percent; producer flow control stops sends at 100
STORE_WARNING: Final = 80  # percent; time to enlarge the disk or to consume
STORE_CRITICAL: Final = 95  # percent; persistent sends wait at 100
UP: Final = ("running", "stopped")  # a link that an operator has stopped is no fault
CERTIFICATE_DAYS: Final = 30  # days before its end from which a certificate is a warning; time to get a new one
DAY_S: Final = 86_400
AT_WORK: Final = ("running", "paused")  # a bridge that an operator has paused is no fault
SERIES: Final = "spanwire_health_level"
MAX_NAMED: Final = 5  # links named in the text of a check


class Level(IntEnum):
    """The result of a check; the values are exit codes of Nagios plug-ins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Check:
    """One check with a level and one line of text."""

    name: str
    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of the warnings of `broker_checks`.

    The figures are percent of memory and store, and days before the end of a certificate.
    """

    memory: int = MEMORY_WARNING
    store: int = STORE_WARNING
    certificate_days: int = CERTIFICATE_DAYS


DEFAULT_THRESHOLDS: Final = Thresholds()


def broker_checks(status: Mapping[str, object], thresholds: Thresholds = DEFAULT_THRESHOLDS) -> list[Check]:
    """Return the checks of a broker from the answer to ``summary``."""
    broker = broker_row(status)
    bridges = rows_of(BRIDGES, status)
    connectors = rows_of(CONNECTORS, status)
    ends = {str(row.get("name")): _number(row.get("certificate_expires_s")) for row in connectors}
    now_s = _number(status.get("time_ms")) // 1000
    certificates = {name: (end - now_s) // DAY_S for name, end in ends.items() if end}
    return [
        _share("memory", broker.get("memory_percent"), thresholds.memory, MEMORY_CRITICAL),
        _share("store", broker.get("store_percent"), thresholds.store, STORE_CRITICAL),
        _disk(broker),
        _parked(broker.get("parked_sends")),
        _connectors(connectors),
        *([_certificates(certificates, thresholds.certificate_days)] if certificates else []),
        _links(rows_of(LINKS, status)),
        *([_bridges(bridges)] if bridges else []),
    ]


def _bridges(bridges: list[dict[str, object]]) -> Check:
    """Return the check of the bridges of a broker with bridges."""
    gave_up = [str(bridge.get("name")) for bridge in bridges if bridge.get("gave_up")]
    if gave_up:
        shown = ", ".join(gave_up[:MAX_NAMED])
        return Check("bridges", Level.CRITICAL, f"{len(gave_up)} of {len(bridges)} have used up all retries: {shown}")
    down = [
        f"{bridge.get('name')} is {bridge.get('state')}" for bridge in bridges if bridge.get("state") not in AT_WORK
    ]
    if down:
        return Check(
            "bridges", Level.WARNING, f"{len(down)} of {len(bridges)} forward nothing: {', '.join(down[:MAX_NAMED])}"
        )
    return Check("bridges", Level.OK, f"{len(bridges)} at work or paused")


def queue_check(queues: Iterable[Mapping[str, object]], most_pending: int) -> Check:
    """Return a warning if a queue has more than ``most_pending`` messages."""
    deep = [queue for queue in queues if _number(queue.get("pending")) > most_pending]
    if not deep:
        return Check("queues", Level.OK, f"no queue has more than {most_pending} messages")
    deep.sort(key=lambda queue: -_number(queue.get("pending")))
    shown = ", ".join(f"{queue.get('destination')} has {queue.get('pending')}" for queue in deep[:MAX_NAMED])
    return Check("queues", Level.WARNING, f"{len(deep)} queues have more than {most_pending} messages: {shown}")


def age_check(ages: Iterable[Mapping[str, object]], now_ms: int, most_s: int) -> Check:
    """Return a warning for messages older than ``most_s`` seconds; ``ages`` are rows of ``ages``."""
    found = [(now_ms - _number(row.get("oldest_ms")), str(row.get("destination"))) for row in ages]
    old = sorted([one for one in found if one[0] > most_s * 1000], reverse=True)
    if not old:
        return Check("ages", Level.OK, f"no message waits for more than {most_s} s")
    shown = ", ".join(f"{name} since {age_ms // 1000} s" for age_ms, name in old[:MAX_NAMED])
    return Check("ages", Level.WARNING, f"{len(old)} queues have older messages than {most_s} s: {shown}")


def dead_letter_check(destinations: Iterable[Mapping[str, object]], most: int) -> Check:
    """Return a warning if queues for dead letters have more than ``most`` messages, all together."""
    letters = {
        str(row.get("destination")): _number(row.get("pending")) for row in destinations if row.get("dead_letters")
    }
    total = sum(letters.values())
    filled = [f"{name} has {count}" for name, count in sorted(letters.items(), key=lambda one: -one[1]) if count]
    level = Level.WARNING if total > most else Level.OK
    return Check("dead letters", level, f"{total} dead letters" + "".join(f", {one}" for one in filled[:MAX_NAMED]))


def open_metrics(checks: Sequence[Check]) -> str:
    """Return the levels of checks in OpenMetrics, as the series of ``/metrics``."""
    lines = [f"# TYPE {SERIES} gauge", f"# HELP {SERIES} Level of a check: 0 good, 1 warning, 2 critical."]
    lines += [f'{SERIES}{{check="{check.name}"}} {float(check.level)}' for check in checks]
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def worst(checks: Iterable[Check]) -> Level:
    """Return the worst level of some checks."""
    return max((check.level for check in checks), default=Level.OK)


def _share(name: str, value: object, warning: int, critical: int) -> Check:
    used = _number(value)
    level = Level.CRITICAL if used >= critical else Level.WARNING if used >= warning else Level.OK
    return Check(name, level, f"{used} % used")


def _disk(broker: Mapping[str, object]) -> Check:
    if broker.get("disk_full"):
        return Check("disk", Level.CRITICAL, "full: persistent sends wait until there is room")
    return Check("disk", Level.OK, "has room")


def _parked(value: object) -> Check:
    parked = _number(value)
    return Check("sends", Level.WARNING if parked else Level.OK, f"{parked} wait for memory or disk")


def _connectors(connectors: list[dict[str, object]]) -> Check:
    if not connectors:
        return Check("connectors", Level.WARNING, "none listens: no client can connect")
    return Check("connectors", Level.OK, f"{len(connectors)} listen")


def _certificates(days_left: Mapping[str, int], warning: int) -> Check:
    """Return the check of the certificates of connectors, given the days until the end of each."""
    ended = sorted(name for name, days in days_left.items() if days < 0)
    if ended:
        return Check("certificates", Level.CRITICAL, f"expired: {', '.join(ended[:MAX_NAMED])}")
    left = min(days_left.values())
    first = ", ".join(sorted(name for name, days in days_left.items() if days == left)[:MAX_NAMED])
    return Check("certificates", Level.WARNING if left < warning else Level.OK, f"{left} days left at {first}")


def _links(links: list[dict[str, object]]) -> Check:
    down = [link for link in links if link.get("state") not in UP]
    if not down:
        return Check("links", Level.OK, f"{len(links)} up" if links else "none configured")
    shown = ", ".join(f"{link.get('name')} {link.get('state')}" for link in down[:MAX_NAMED])
    return Check("links", Level.WARNING, f"{len(down)} of {len(links)} not running: {shown}")


def _number(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
