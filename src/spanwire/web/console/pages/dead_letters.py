"""The dead-letter page: messages of dead-letter queues in groups by cause, origin or age.

The broker writes the cause into a property of each dead letter. The text up to the first digit makes the group, so
causes with different numbers alone are one group, and a selector chooses exactly the messages of the group: the cause
is the same text, or goes on with a digit, or begins with the same `MAX_START` characters. No selector knows the origin,
so a group of one origin is chosen by the ids of its messages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.responses import Response

from spanwire.management.tables.view_table import QUEUES
from spanwire.web.api import listed
from spanwire.web.calls import Call
from spanwire.web.console.forms import read_words
from spanwire.web.console.rendering import page

PATH: Final = "/admin/dead-letters"
CAUSE: Final = "dlqDeliveryFailureCause"
MAX_LOOKED: Final = 400  # messages of a queue that are grouped on one page; the most that a browse shows
MAX_SKIPPED: Final = 100_000  # messages before a page; the broker leaves out no more
MAX_QUEUES: Final = 10  # queues that are looked at for one page, the longest ones
MAX_GROUPS: Final = 100  # groups of a queue
NAMES: Final = re.compile(
    r"queue://(ActiveMQ\.)?DLQ(\..*)?", re.DOTALL
)  # ActiveMQ's names, for queues before a restart
NUMBER: Final = re.compile(r"[0-9]{1,9}")
DIGIT: Final = re.compile(r"[0-9]")
DIGITS: Final = "0123456789"
MAX_START: Final = 100  # characters of a cause that a group is made by; a selector has them ten times
NO_CAUSE: Final = "no cause is known"
MORE: Final = "others"
BY_CAUSE: Final = "cause"
BY_ORIGIN: Final = "origin"
BY_AGE: Final = "age"
GROUPINGS: Final = (BY_CAUSE, BY_ORIGIN, BY_AGE)
MAX_IDS: Final = 100  # messages of an origin that are chosen by their ids; more make too long a link
MINUTE_MS: Final = 60_000
# Ages in minutes, with the name of the group of messages that are not older.
AGES: Final = ((60, "sent within an hour"), (1_440, "sent within a day"), (10_080, "sent within a week"))
OLDER: Final = "sent before more than a week"


@dataclass(slots=True)
class Group:
    """The dead letters of one cause, origin or age; times are milliseconds since 1970."""

    title: str
    selector: str
    count: int = 0
    origins: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    ids: list[str] = field(default_factory=list)
    oldest_ms: int = 0
    newest_ms: int = 0

    def add(self, message: Mapping[str, object]) -> None:
        """Count a message."""
        self.count += 1
        self.origins[_origin(message)] += 1
        self.causes[_cause(message) or NO_CAUSE] += 1
        if len(self.ids) < MAX_IDS:
            self.ids.append(str(message.get("message_id")))
        sent = message.get("timestamp_ms")
        if isinstance(sent, int) and sent > 0:
            self.oldest_ms = min(self.oldest_ms or sent, sent)
            self.newest_ms = max(self.newest_ms, sent)

    def similar_causes(self) -> Counter[str]:
        """Return the causes with their counts; those that differ in numbers alone count for the first of them."""
        firsts: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for cause, count in self.causes.items():
            counts[firsts.setdefault(DIGIT.sub("", cause), cause)] += count
        return counts


async def show_dead_letters(call: Call) -> Response:
    """Show the dead-letter queues with messages, each with its groups.

    The word ``queue`` names a single queue, and ``skip`` the number of messages before the grouped messages.
    """
    words = read_words(call)
    by = words.text("by") if words.text("by") in GROUPINGS else BY_CAUSE
    only = words.text("queue")
    skip = min(int(words.text("skip")), MAX_SKIPPED) if only and NUMBER.fullmatch(words.text("skip")) else 0
    rows = [row for row in await listed(QUEUES, call) if is_dead_letter_queue(row)]
    if only:
        rows = [row for row in rows if row.get("destination") == only]
    filled = sorted((row for row in rows if _pending(row) > 0), key=_pending, reverse=True)
    place = {"skip": skip} if skip else {}
    queues = []
    for row in filled[:MAX_QUEUES]:
        answer = await call.ask("browse", destination=row["destination"], limit=MAX_LOOKED, **place)
        found = answer.get("messages") if isinstance(answer, dict) else None
        messages = found if isinstance(found, list) else []
        behind = skip + len(messages) if messages and skip + len(messages) < min(_pending(row), MAX_SKIPPED) else 0
        queues.append((row, groups_of(messages, by, int(call.recorder.now() * 1_000)), len(messages), behind))
    return page(
        call,
        "dead_letters.html",
        "Dead letters",
        views=QUEUES.name,
        queues=queues,
        empty=[row for row in rows if _pending(row) == 0],
        more=filled[MAX_QUEUES:],
        by=by,
        only=only,
        skip=skip,
        groupings=GROUPINGS,
    )


def is_dead_letter_queue(row: Mapping[str, object]) -> bool:
    """Return True if a policy sends dead letters to a queue, or if the queue has a name of ActiveMQ's."""
    return bool(row.get("dead_letters")) or NAMES.fullmatch(str(row.get("destination"))) is not None


def groups_of(messages: Iterable[Mapping[str, object]], by: str = BY_CAUSE, now_ms: int = 0) -> list[Group]:
    """Return the groups of some messages, the largest first; groups by age from the youngest on."""
    groups: dict[str, Group] = {}
    for message in messages:
        key, title, selector = _group(message, by, now_ms)
        group = groups.get(key)
        if group is None:
            if len(groups) >= MAX_GROUPS:
                key, title, selector = MORE, MORE, ""
            group = groups.setdefault(key, Group(title, selector))
        group.add(message)
    if by == BY_ORIGIN:
        for group in groups.values():
            group.selector = chosen(group.ids) if group.count <= MAX_IDS and group.title != MORE else ""
    if by == BY_AGE:
        order = [name for _, name in AGES]
        return sorted(groups.values(), key=lambda group: order.index(group.title) if group.title in order else 9)
    return sorted(groups.values(), key=lambda group: -group.count)


def _group(message: Mapping[str, object], by: str, now_ms: int) -> tuple[str, str, str]:
    """Return key, title and selector of a message's group."""
    if by == BY_ORIGIN:
        return _origin(message), _origin(message), ""
    if by == BY_AGE:
        return _age(message, now_ms)
    cause = _cause(message)
    selector = selector_of(cause)
    return selector, cause or NO_CAUSE, selector


def _age(message: Mapping[str, object], now_ms: int) -> tuple[str, str, str]:
    sent, now = message.get("timestamp_ms"), now_ms // MINUTE_MS * MINUTE_MS  # so that a link stays the same a minute
    age, before = (now_ms - sent if isinstance(sent, int) else now_ms), ""
    for minutes, name in AGES:
        start = now - minutes * MINUTE_MS
        if age <= now_ms - start:
            return name, name, f"JMSTimestamp >= {start}{before}"
        before = f" AND JMSTimestamp < {start}"
    return OLDER, OLDER, before.removeprefix(" AND ")


def _cause(message: Mapping[str, object]) -> str | None:
    properties = message.get("properties")
    cause = properties.get(CAUSE) if isinstance(properties, dict) else None
    return cause if isinstance(cause, str) else None


def _origin(message: Mapping[str, object]) -> str:
    return str(message.get("original_destination") or "unknown")


def chosen(ids: Sequence[str]) -> str:
    """Return a selector for messages by their ids."""
    quoted = ", ".join("'" + one.replace("'", "''") + "'" for one in ids)
    return f"JMSMessageID IN ({quoted})" if len(ids) > 1 else f"JMSMessageID = {quoted}"


def selector_of(cause: str | None) -> str:
    """Return the selector for the messages in the group of a cause, or without a cause."""
    if cause is None:
        return f"{CAUSE} IS NULL"
    start = DIGIT.split(cause, maxsplit=1)[0]
    if len(start) >= MAX_START:
        return _begins_with(start[:MAX_START])
    if start == cause:
        return f"{CAUSE} = {_quoted(cause)}"
    return "(" + " OR ".join(_begins_with(start + digit) for digit in DIGITS) + ")"


def _begins_with(start: str) -> str:
    escaped = start.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"{CAUSE} LIKE {_quoted(escaped + '%')} ESCAPE '\\'"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _pending(row: Mapping[str, object]) -> int:
    value = row.get("pending")
    return value if isinstance(value, int) else 0
