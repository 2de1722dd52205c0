"""Answers to the question why: a sentence with cause, evidence and advice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from spanwire.model.environment import Time

# causes: words for programs, each in the table of docs/operations/why.md
NO_CONSUMER: Final = "no-consumer"
SELECTOR: Final = "selector"
WINDOW_FULL: Final = "window-full"
NOT_READING: Final = "not-reading"
NOT_STARTED: Final = "not-started"
NOT_PULLING: Final = "not-pulling"
GROUP_OWNER: Final = "group-owner"
EXCLUSIVE: Final = "exclusive-consumer"
NO_LOCAL: Final = "no-local"
NOT_READABLE: Final = "not-readable"
PAUSED: Final = "paused"
PURGING: Final = "purging"
RETURNING: Final = "returning"
START_WAIT: Final = "start-wait"
CURSOR: Final = "cursor"
UNACKNOWLEDGED: Final = "unacknowledged"
FORWARDING: Final = "forwarding"
TRANSACTION: Final = "transaction"
IN_DOUBT: Final = "in-doubt"
NO_MEMORY: Final = "memory"
NO_STORE: Final = "store"
NO_DISK: Final = "disk"
DISK_BEHIND: Final = "disk-behind"
SYNC: Final = "sync"
TURN: Final = "turn"
SCHEDULED: Final = "scheduled"
DEAD_LETTERED: Final = "dead-lettered"
TTL: Final = "ttl"
PATH: Final = "path"
REPLAY: Final = "replay"
NO_DEMAND: Final = "no-demand"
EXCLUDED: Final = "excluded"
CONDUIT: Final = "conduit"
LINK_DOWN: Final = "link-down"
REFUSED: Final = "refused"
NO_SUBSCRIBER: Final = "no-subscriber"
DISPATCHING: Final = "dispatching"
EMPTY: Final = "empty"
HEALTHY: Final = "healthy"
UNKNOWN: Final = "unknown"
ACKNOWLEDGED: Final = "acknowledged"

MAX_NAMED: Final = 20  # consumers or other objects named one by one in one explanation; the others are counted


@dataclass(frozen=True)
class Evidence:
    """One fact: the text, the object, and the time of the sight in milliseconds since 1970."""

    text: str
    seen_at: str
    when_ms: int


class Explanation:
    """The answer about one message in one location, or about one object.

    ``subject`` is the message or object. The sentence says the cause, the evidence proves the cause, and the advice is
    the remedy, most often a command.
    """

    def __init__(self, subject: str, cause: str, sentence: str) -> None:
        self.subject: Final[str] = subject
        self.cause = cause
        self.sentence = sentence
        self.evidence: Final[list[Evidence]] = []
        self.advice: Final[list[str]] = []

    def saw(self, text: str, seen_at: str, when_ms: int) -> None:
        """Add a piece of evidence."""
        self.evidence.append(Evidence(text, seen_at, when_ms))

    def advise(self, text: str) -> None:
        """Add a line of advice, once."""
        if text not in self.advice:
            self.advice.append(text)

    def row(self, broker: str) -> dict[str, object]:
        """Return the explanation as plain values, with the answering broker."""
        return {
            "broker": broker,
            "subject": self.subject,
            "cause": self.cause,
            "sentence": self.sentence,
            "evidence": [
                {"text": one.text, "broker": broker, "object": one.seen_at, "time_ms": one.when_ms}
                for one in self.evidence
            ],
            "advice": self.advice,
        }


def clock_text(wall_ms: int) -> str:
    """Return a time in milliseconds since 1970 as a text, in UTC to the second."""
    try:
        return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return f"{wall_ms} ms since 1970"


def wall_of(monotonic: float, now: Time) -> int:
    """Return a time in monotonic seconds as wall milliseconds."""
    return now.wall_ms - round((now.monotonic - monotonic) * 1000)


def since_text(monotonic: float, now: Time) -> str:
    """Return `` since TIME (AGE)`` for a time in monotonic seconds, "" for 0."""
    if monotonic == 0.0:
        return ""
    return f" since {clock_text(wall_of(monotonic, now))} ({age_text(now.monotonic - monotonic)})"


def age_text(seconds: float) -> str:
    """Return a number of seconds in words."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole < 172_800 else f"{whole // 86_400} days"


def counted(count: int, word: str) -> str:
    """Return a count with its noun, such as ``1 consumer`` and ``2 consumers``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def quoted(text: str) -> str:
    """Return a word of the command line as a shell takes it."""
    return "'" + text.replace("'", "'\\''") + "'"
