"""The dead-letter page: the messages of dead-letter queues in groups by their cause, to retry, move or remove together.

The broker writes the cause into a property of each dead letter. Its text up to the first digit makes the group, so
causes that differ by a number alone are one group, and a selector chooses exactly its messages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.responses import Response

from spanwire.management.view_table import QUEUES
from spanwire.web.api import view_rows
from spanwire.web.calls import Call
from spanwire.web.console.rendering import page

PATH: Final = "/admin/dead-letters"
CAUSE: Final = "dlqDeliveryFailureCause"
MAX_LOOKED: Final = 400  # messages of a queue that are grouped; the most that a browse shows
MAX_QUEUES: Final = 10  # queues that are looked at for one page, the longest ones
MAX_GROUPS: Final = 100  # groups of a queue
NAMES: Final = re.compile(
    r"queue://(ActiveMQ\.)?DLQ(\..*)?", re.DOTALL
)  # ActiveMQ's names, for queues before a restart
DIGIT: Final = re.compile(r"[0-9]")
NO_CAUSE: Final = "no cause is known"
MORE: Final = "other causes"


@dataclass(slots=True)
class Group:
    """The dead letters of one cause; times are milliseconds since 1970."""

    cause: str
    selector: str
    count: int = 0
    origins: Counter[str] = field(default_factory=Counter)
    oldest_ms: int = 0
    newest_ms: int = 0

    def add(self, message: Mapping[str, object]) -> None:
        """Count a message."""
        self.count += 1
        self.origins[str(message.get("original_destination") or "unknown")] += 1
        sent = message.get("timestamp_ms")
        if isinstance(sent, int) and sent > 0:
            self.oldest_ms = min(self.oldest_ms or sent, sent)
            self.newest_ms = max(self.newest_ms, sent)


async def show_dead_letters(call: Call) -> Response:
    """Show the dead-letter queues that have messages, each with its groups."""
    rows = [row for row in await view_rows(QUEUES, call.view) if is_dead_letter_queue(row)]
    filled = sorted((row for row in rows if _pending(row) > 0), key=_pending, reverse=True)
    queues = []
    for row in filled[:MAX_QUEUES]:
        answer = await call.ask("browse", destination=row["destination"], limit=MAX_LOOKED)
        found = answer.get("messages") if isinstance(answer, dict) else None
        messages = found if isinstance(found, list) else []
        queues.append((row, groups_of(messages), len(messages)))
    return page(
        call,
        "dead_letters.html",
        "Dead letters",
        views=QUEUES.name,
        queues=queues,
        empty=[row for row in rows if _pending(row) == 0],
        more=filled[MAX_QUEUES:],
        most=MAX_LOOKED,
    )


def is_dead_letter_queue(row: Mapping[str, object]) -> bool:
    """Return True if a policy sends dead letters to a queue, or if it has one of ActiveMQ's names."""
    return bool(row.get("dead_letters")) or NAMES.fullmatch(str(row.get("destination"))) is not None


def groups_of(messages: Iterable[Mapping[str, object]]) -> list[Group]:
    """Return the groups of some messages, the largest first."""
    groups: dict[str, Group] = {}
    for message in messages:
        properties = message.get("properties")
        cause = properties.get(CAUSE) if isinstance(properties, dict) else None
        key = "" if not isinstance(cause, str) else DIGIT.split(cause, 1)[0]
        group = groups.get(key)
        if group is None:
            if len(groups) >= MAX_GROUPS:
                key = MORE
            group = groups.setdefault(key, Group(_title(key, cause), "" if key == MORE else selector_of(key)))
        group.add(message)
    return sorted(groups.values(), key=lambda group: -group.count)


def _title(key: str, cause: object) -> str:
    if key == MORE:
        return MORE
    return str(cause) if key else NO_CAUSE if cause is None else str(cause)


def selector_of(start: str) -> str:
    """Return the selector for causes that begin with a text; empty for messages without a cause."""
    if not start:
        return f"{CAUSE} IS NULL"
    escaped = start.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("'", "''")
    return f"{CAUSE} LIKE '{escaped}%' ESCAPE '\\'"


def _pending(row: Mapping[str, object]) -> int:
    value = row.get("pending")
    return value if isinstance(value, int) else 0
