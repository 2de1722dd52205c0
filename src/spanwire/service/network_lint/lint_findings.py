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
    reason: str
    remedy: str

    def __str__(self) -> str:
        kind = "fault" if self.is_fault else "hint"
        return f"{self.place}: {kind} {self.number}: {self.reason}; {self.remedy}"


@dataclass(slots=True)
class LintFindings:
    """All of them, each once."""

    findings: list[LintFinding] = field(default_factory=list)
    keys: set[tuple[str, int]] = field(default_factory=set)  # places and numbers

    def fault(self, place: str, number: int, reason: str, remedy: str) -> None:
        """Something does something else than its owner wants."""
        self._add(LintFinding(place, number, True, reason, remedy))

    def hint(self, place: str, number: int, reason: str, remedy: str) -> None:
        """It does so if clients do what ``reason`` tells."""
        self._add(LintFinding(place, number, False, reason, remedy))

    def add(self, place: str, number: int, is_fault: bool, reason: str, remedy: str) -> None:
        """Either."""
        self._add(LintFinding(place, number, is_fault, reason, remedy))

    def has(self, place: str, number: int) -> bool:
        """Whether it was told of that place."""
        return (place, number) in self.keys

    def _add(self, finding: LintFinding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)
            self.keys.add((finding.place, finding.number))


def probe(settings: BridgeSettings, kind: int) -> Destination | None:
    """A destination of this kind that a connector forwards; None if its lists let none through."""
    return next((one for one in _candidates(settings, kind) if settings.is_permitted(one)), None)


def probes(files: NetworkFiles, kind: int) -> list[Destination]:
    """A destination of this kind for each of the lists in a network, and one that stands in none."""
    findings = [Destination(kind, PROBE)]
    for link in files.plan.links:
        for one in _candidates(link.settings, kind):
            if one not in findings and len(findings) < MAX_PROBES:
                findings.append(one)
    return findings


def _candidates(settings: BridgeSettings, kind: int) -> list[Destination]:
    patterns = [one for one in (*settings.included, *settings.static, *settings.excluded) if one.kind == kind]
    return [Destination(kind, PROBE), *[example(pattern) for pattern in patterns]]


def example(pattern: Destination) -> Destination:
    """A name that a pattern matches."""
    stand_ins = {"*": "PROBE", ">": PROBE}
    return Destination(pattern.kind, ".".join(stand_ins.get(one, one) for one in pattern.elements))


def are_disjoint(one: BridgeSettings, other: BridgeSettings) -> bool:
    """Whether two connectors forward different things, such as queues the one and topics the other."""
    for kind in (QUEUE, TOPIC):
        candidates = [*_candidates(one, kind), *_candidates(other, kind)]
        if any(one.is_permitted(each) and other.is_permitted(each) for each in candidates):
            return False
    return True
