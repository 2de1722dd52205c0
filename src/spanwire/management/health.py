"""Judges a broker's health from the answer to ``summary``: a check for each thing that an operator must know of.

Pure: `spanwire health` and the web process ask the control socket, and show the checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spanwire.management.view_table import BRIDGES, CONNECTORS, LINKS, broker_row, rows_of

MEMORY_WARNING: Final = 70  # percent; producers of a topic with slow consumers begin to wait soon
MEMORY_CRITICAL: Final = 95  # percent; producer flow control stops sends at 100
STORE_WARNING: Final = 80  # percent; time to enlarge the disk or to consume
STORE_CRITICAL: Final = 95  # percent; persistent sends wait at 100
UP: Final = ("running", "stopped")  # a link that an operator has stopped is no fault
AT_WORK: Final = ("running", "paused")  # a bridge that an operator has paused is no fault
MAX_NAMED: Final = 5  # links named in the text of a check


class Level(IntEnum):
    """The result of a check; the values are exit codes of Nagios plug-ins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Check:
    """One check with its level and one line of text."""

    name: str
    level: Level
    text: str


def broker_checks(status: Mapping[str, object]) -> list[Check]:
    """Return the checks of a broker that has answered ``summary``."""
    broker = broker_row(status)
    bridges = rows_of(BRIDGES, status)
    return [
        _share("memory", broker.get("memory_percent"), MEMORY_WARNING, MEMORY_CRITICAL),
        _share("store", broker.get("store_percent"), STORE_WARNING, STORE_CRITICAL),
        _disk(broker),
        _parked(broker.get("parked_sends")),
        _connectors(rows_of(CONNECTORS, status)),
        _links(rows_of(LINKS, status)),
        *([_bridges(bridges)] if bridges else []),
    ]


def _bridges(bridges: list[dict[str, object]]) -> Check:
    """Return the check of the bridges of a broker that has some."""
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


def _links(links: list[dict[str, object]]) -> Check:
    down = [link for link in links if link.get("state") not in UP]
    if not down:
        return Check("links", Level.OK, f"{len(links)} up" if links else "none configured")
    shown = ", ".join(f"{link.get('name')} {link.get('state')}" for link in down[:MAX_NAMED])
    return Check("links", Level.WARNING, f"{len(down)} of {len(links)} not running: {shown}")


def _number(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
