"""An independent count of what went into queues and what came out: the total-queue check.

Whoever sends, receives or watches a disk writes what it saw into a `Ledger`, in the order of time; `check` compares.
Nothing here knows the broker: a message is a text that is unique in the ledger, sent by a producer under a number.

    ledger = Ledger()
    ledger.attempted("Q", "p", 1, "p-1")        before the send leaves the producer
    ledger.synced("p-1")                        a watcher of the disk saw it reach the platter (optional)
    ledger.granted("p-1")                       the producer got its receipt
    ledger.delivered("p-1", "c", False)         consumer c got it, with or without the redelivered flag
    ledger.acknowledged("p-1")                  before c's acknowledgement leaves
    ledger.settled("p-1")                       the broker confirmed c's acknowledgement
    ledger.buried("p-1")                        it expired or went to the dead letters
    ledger.pending("p-1")                       at the end it still waits in the queue
    verdict = check(ledger)
    assert verdict.ok, verdict.report()

Ledgers that several processes wrote are JSON lines (`Ledger.lines`, `read_ledger`), merged in any order that keeps each
line behind those it depends on. The promises, of the reliability chapter in ``docs/internals/architecture.md``:

- nothing granted is lost: it was acknowledged, buried or is pending (``lost``)
- nothing comes out that was not attempted (``invented``)
- what was settled never comes back (``doubled``); a second delivery says so (``unflagged``)
- first deliveries to one consumer follow the order of their producer (``reordered``)
- no receipt before the disk has it, where a watcher tells (``early``)
- the messages of one unit come out all or not at all (``torn``)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

ATTEMPTED = "attempted"
GRANTED = "granted"
SYNCED = "synced"
DELIVERED = "delivered"
ACKNOWLEDGED = "acknowledged"
SETTLED = "settled"
BURIED = "buried"
PENDING = "pending"
KINDS = (ATTEMPTED, GRANTED, SYNCED, DELIVERED, ACKNOWLEDGED, SETTLED, BURIED, PENDING)


@dataclass(frozen=True)
class Event:
    """One line of the ledger. ``who`` is the producer of an attempt and the consumer of a delivery; ``number`` counts
    the attempts of that producer for that queue; ``flag`` is durable for an attempt, redelivered for a delivery.
    """

    kind: str
    message: str
    queue: str = ""
    who: str = ""
    number: int = 0
    flag: bool = False
    unit: str = ""


class Ledger:
    """What happened, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def attempted(
        self, queue: str, producer: str, number: int, message: str, *, durable: bool = True, unit: str = ""
    ) -> None:
        """A producer is about to send. ``unit`` names the transaction it belongs to."""
        self.events.append(Event(ATTEMPTED, message, queue, producer, number, durable, unit))

    def granted(self, message: str) -> None:
        """The producer was told that the broker has it."""
        self.events.append(Event(GRANTED, message))

    def synced(self, message: str) -> None:
        """A watcher of the disk saw that it is safe."""
        self.events.append(Event(SYNCED, message))

    def delivered(self, message: str, consumer: str, redelivered: bool) -> None:
        """A consumer got it. A consumer that connects anew counts as another one."""
        self.events.append(Event(DELIVERED, message, "", consumer, 0, redelivered))

    def acknowledged(self, message: str) -> None:
        """A consumer is about to acknowledge it: from now on it may be gone, or come back with the flag."""
        self.events.append(Event(ACKNOWLEDGED, message))

    def settled(self, message: str) -> None:
        """The consumer was told that its acknowledgement is safe."""
        self.events.append(Event(SETTLED, message))

    def buried(self, message: str) -> None:
        """It expired or was found among the dead letters."""
        self.events.append(Event(BURIED, message))

    def pending(self, message: str) -> None:
        """It is in the queue at the end."""
        self.events.append(Event(PENDING, message))

    def lines(self) -> list[str]:
        """The ledger as JSON lines."""
        return [json.dumps([e.kind, e.message, e.queue, e.who, e.number, e.flag, e.unit]) for e in self.events]


def read_ledger(lines: Iterable[str]) -> Ledger:
    """A ledger from its lines; raises ValueError for a line that is none."""
    ledger = Ledger()
    for line in lines:
        kind, message, queue, who, number, flag, unit = json.loads(line)
        if kind not in KINDS:
            raise ValueError(f"the ledger knows no {kind!r}")
        ledger.events.append(Event(kind, message, queue, who, number, flag, unit))
    return ledger


@dataclass
class Verdict:
    """Counts and faults. ``doubled`` and the others name messages, each with a few words."""

    sent: int = 0
    delivered: int = 0
    duplicated: int = 0
    redelivered: int = 0
    lost: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    unflagged: list[str] = field(default_factory=list)
    reordered: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)

    @property
    def faults(self) -> dict[str, list[str]]:
        """The broken promises by name."""
        found = {
            "lost": self.lost,
            "invented": self.invented,
            "doubled": self.doubled,
            "unflagged": self.unflagged,
            "reordered": self.reordered,
            "early": self.early,
            "torn": self.torn,
        }
        return {name: faults for name, faults in found.items() if faults}

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.faults

    def summary(self) -> str:
        """One line of counts."""
        return (
            f"ledger: sent={self.sent} delivered={self.delivered} lost={len(self.lost)} "
            f"duplicated={self.duplicated} redelivered={self.redelivered}"
        )

    def report(self) -> str:
        """The counts and the first faults of each kind."""
        lines = [self.summary()]
        for name, faults in self.faults.items():
            lines.append(f"{name} ({len(faults)}): " + "; ".join(faults[:5]))
        return "\n".join(lines)


class Checker:
    """Goes through a ledger once. ``at_most_once`` forbids every second delivery, flagged or not; ``ordered`` names the
    queues in which order counts (None: all): those with one consumer at a time.
    """

    def __init__(self, at_most_once: bool = False, ordered: tuple[str, ...] | None = None) -> None:
        self._at_most_once = at_most_once
        self._ordered = ordered
        self._attempts: dict[str, Event] = {}
        self._granted: set[str] = set()
        self._synced: set[str] = set()
        self._seen: set[str] = set()
        self._acknowledged: set[str] = set()
        self._settled: set[str] = set()
        self._kept: set[str] = set()
        self._watched = False
        self._last: dict[tuple[str, str, str], Event] = {}
        self._verdict = Verdict()

    def check(self, events: list[Event]) -> Verdict:
        """The verdict on all events."""
        self._watched = any(event.kind == SYNCED for event in events)
        for event in events:
            if event.kind == ATTEMPTED:
                self._attempts[event.message] = event
            elif event.message not in self._attempts:
                self._verdict.invented.append(f"{event.message} was {event.kind} and never attempted")
            elif event.kind == GRANTED:
                self._grant(event)
            elif event.kind == SYNCED:
                self._synced.add(event.message)
            elif event.kind == DELIVERED:
                self._deliver(event)
            elif event.kind == ACKNOWLEDGED:
                self._acknowledged.add(event.message)
            elif event.kind == SETTLED:
                self._acknowledged.add(event.message)
                self._settled.add(event.message)
            else:
                self._keep(event)
        self._close()
        return self._verdict

    def _grant(self, event: Event) -> None:
        self._granted.add(event.message)
        if self._watched and self._attempts[event.message].flag and event.message not in self._synced:
            self._verdict.early.append(f"{event.message} was granted before it was synced")

    def _deliver(self, event: Event) -> None:
        verdict = self._verdict
        message = event.message
        verdict.redelivered += event.flag
        if message in self._settled:
            verdict.doubled.append(f"{message} was delivered to {event.who} after it was settled")
        if message in self._seen:
            verdict.duplicated += 1
            if self._at_most_once:
                verdict.doubled.append(f"{message} was delivered to {event.who} a second time")
            elif not event.flag:
                verdict.unflagged.append(f"{message} was delivered to {event.who} again and does not say so")
        else:
            verdict.delivered += 1
            self._seen.add(message)
        if not event.flag:
            self._follow(event)

    def _follow(self, event: Event) -> None:
        attempt = self._attempts[event.message]
        if self._ordered is not None and attempt.queue not in self._ordered:
            return
        key = (attempt.queue, attempt.who, event.who)
        last = self._last.get(key)
        if last is not None and last.number > attempt.number:
            self._verdict.reordered.append(f"{event.message} came to {event.who} after {last.message}")
        self._last[key] = attempt

    def _keep(self, event: Event) -> None:
        self._kept.add(event.message)
        if event.kind == PENDING and event.message in self._settled:
            self._verdict.doubled.append(f"{event.message} is pending though it was settled")

    def _close(self) -> None:
        verdict = self._verdict
        verdict.sent = len(self._attempts)
        safe = self._acknowledged | self._kept
        out = self._seen | safe
        units: dict[str, list[Event]] = {}
        for message, attempt in self._attempts.items():
            if attempt.unit:
                units.setdefault(attempt.unit, []).append(attempt)
            if message in self._granted and attempt.flag and message not in safe:
                seen = "delivered, not acknowledged" if message in self._seen else "never delivered"
                verdict.lost.append(f"{message} of {attempt.queue} ({seen})")
        for unit, attempts in units.items():
            there = sum(1 for attempt in attempts if attempt.message in out)
            if 0 < there < len(attempts):
                verdict.torn.append(f"{unit}: {there} of {len(attempts)} messages came out")


def check(ledger: Ledger, *, at_most_once: bool = False, ordered: tuple[str, ...] | None = None) -> Verdict:
    """Compare what went in with what came out."""
    return Checker(at_most_once, ordered).check(ledger.events)
