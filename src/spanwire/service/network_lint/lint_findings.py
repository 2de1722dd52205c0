"""Findings of ``spanwire network lint``, and the destinations for the checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.service.network_lint.network_files import NetworkFiles

PROBE: Final = "SPANWIRE.PROBE"
MAX_PROBES: Final = 12  # destinations of one kind; each needs all ways between all brokers


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A finding with number, place, reason and remedy.

    A fault contradicts the intention of the configuration for all clients, a hint only for the clients in the reason.
    """

    location: str
    number: int
    is_fault: bool
    reason: str
    remedy: str

    def __str__(self) -> str:
        kind = "fault" if self.is_fault else "hint"
        return f"{self.location}: {kind} {self.number}: {self.reason}; {self.remedy}"


@dataclass(slots=True)
class LintFindings:
    """Collects findings, each once."""

    findings: list[LintFinding] = field(default_factory=list)
    keys: set[tuple[str, int]] = field(default_factory=set)  # places and numbers of the findings

    def fault(self, location: str, number: int, reason: str, remedy: str) -> None:
        """Add a fault."""
        self._add(LintFinding(location, number, True, reason, remedy))

    def hint(self, location: str, number: int, reason: str, remedy: str) -> None:
        """Add a hint, valid for the clients in ``reason``."""
        self._add(LintFinding(location, number, False, reason, remedy))

    def add(self, location: str, number: int, is_fault: bool, reason: str, remedy: str) -> None:
        """Add a fault or a hint."""
        self._add(LintFinding(location, number, is_fault, reason, remedy))

    def has(self, location: str, number: int) -> bool:
        """Return True if there is a finding with the number at the location."""
        return (location, number) in self.keys

    def _add(self, finding: LintFinding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)
            self.keys.add((finding.location, finding.number))


def probe(settings: BridgeSettings, kind: int) -> Destination | None:
    """Return a destination with the kind that a connector's lists permit, or None."""
    return next((one for one in _candidates(settings, kind) if settings.is_permitted(one)), None)


def probes(files: NetworkFiles, kind: int) -> list[Destination]:
    """Return destinations of the given kind: one for each pattern of the connectors' lists, and `PROBE`."""
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
    """Return a destination with a name for a pattern, such as ``A.PROBE`` for ``A.*``."""
    stand_ins = {"*": "PROBE", ">": PROBE}
    return Destination(pattern.kind, ".".join(stand_ins.get(one, one) for one in pattern.elements))


def are_disjoint(one: BridgeSettings, other: BridgeSettings) -> bool:
    """Return True if two connectors forward different destinations, such as queues and topics."""
    for kind in (QUEUE, TOPIC):
        candidates = [*_candidates(one, kind), *_candidates(other, kind)]
        if any(one.is_permitted(each) and other.is_permitted(each) for each in candidates):
            return False
    return True
