"""What ``spanwire network lint`` finds, and the destinations with which it tries a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.network.settings import BridgeSettings
from spanwire.service.network_lint.network_plan import NetworkFiles

PROBE: Final = "SPANWIRE.PROBE"
MAX_PROBES: Final = 12  # of one kind: each asks for all ways between all brokers


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing, its number, where it stands, why it matters and what mends it. A fault does something else than its
    owner wants; a hint does so if clients do what it tells of.
    """

    place: str
    number: int
    is_fault: bool
    why: str
    mend: str

    def __str__(self) -> str:
        kind = "fault" if self.is_fault else "hint"
        return f"{self.place}: {kind} {self.number}: {self.why}; {self.mend}"


@dataclass(slots=True)
class LintFindings:
    """All of them, each once."""

    found: list[LintFinding] = field(default_factory=list)
    told: set[tuple[str, int]] = field(default_factory=set)  # places and numbers

    def fault(self, place: str, number: int, why: str, mend: str) -> None:
        """Something does something else than its owner wants."""
        self._add(LintFinding(place, number, True, why, mend))

    def hint(self, place: str, number: int, why: str, mend: str) -> None:
        """It does so if clients do what ``why`` tells."""
        self._add(LintFinding(place, number, False, why, mend))

    def add(self, place: str, number: int, is_fault: bool, why: str, mend: str) -> None:
        """Either."""
        self._add(LintFinding(place, number, is_fault, why, mend))

    def has(self, place: str, number: int) -> bool:
        """Whether it was told of that place."""
        return (place, number) in self.told

    def _add(self, finding: LintFinding) -> None:
        if finding not in self.found:
            self.found.append(finding)
            self.told.add((finding.place, finding.number))


def probe(settings: BridgeSettings, kind: int) -> Destination | None:
    """A destination of this kind that a connector forwards; None if its lists let none through."""
    return next((one for one in _tries(settings, kind) if settings.is_permitted(one)), None)


def probes(files: NetworkFiles, kind: int) -> list[Destination]:
    """A destination of this kind for each of the lists in a network, and one that stands in none."""
    found = [Destination(kind, PROBE)]
    for link in files.plan.links:
        for one in _tries(link.settings, kind):
            if one not in found and len(found) < MAX_PROBES:
                found.append(one)
    return found


def _tries(settings: BridgeSettings, kind: int) -> list[Destination]:
    patterns = [one for one in (*settings.included, *settings.static, *settings.excluded) if one.kind == kind]
    return [Destination(kind, PROBE), *[example(pattern) for pattern in patterns]]


def example(pattern: Destination) -> Destination:
    """A name that a pattern matches."""
    stand_ins = {"*": "PROBE", ">": PROBE}
    return Destination(pattern.kind, ".".join(stand_ins.get(one, one) for one in pattern.elements))


def apart(one: BridgeSettings, other: BridgeSettings) -> bool:
    """Whether two connectors forward different things, such as queues the one and topics the other."""
    for kind in (QUEUE, TOPIC):
        tried = [*_tries(one, kind), *_tries(other, kind)]
        if any(one.is_permitted(each) and other.is_permitted(each) for each in tried):
            return False
    return True
