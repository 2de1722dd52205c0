"""Figures beside their aims, and the comparison of a figure alone and beside something."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from spanwire._build import version_text


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value that must stay below its aim; ``rounds`` shows what it was made of."""

    what: str
    value: float
    aim: float
    unit: str
    rounds: str = ""

    @property
    def is_met(self) -> bool:
        return self.value < self.aim

    def line(self) -> str:
        verdict = "met   " if self.is_met else "MISSED"
        rounds = f" ({self.rounds})" if self.rounds else ""
        return f"{verdict}  {self.what}: {self.value:.4g} {self.unit}, aim < {self.aim:g}{rounds}"

    def view(self) -> dict[str, object]:
        """The figure for a line of JSON."""
        return {
            "what": self.what, "value": round(self.value, 4), "aim": self.aim, "unit": self.unit, "met": self.is_met,
            "rounds": self.rounds, "build": version_text(),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pairs:
    """What alternating rounds have measured alone and beside something."""

    alone: list[float]
    beside: list[float]

    @property
    def ratio(self) -> float:
        """Between the medians."""
        return statistics.median(self.beside) / statistics.median(self.alone)

    @property
    def difference(self) -> float:
        """Between the medians."""
        return statistics.median(self.beside) - statistics.median(self.alone)

    def text(self) -> str:
        """All rounds."""
        parts = (("alone", self.alone), ("beside", self.beside))
        return ", ".join(f"{name} {' '.join(f'{one:.3g}' for one in values)}" for name, values in parts)


def compared(
    measure: Callable[[], float], around: Callable[[], contextlib.AbstractContextManager[None]], rounds: int
) -> Pairs:
    """Measure alone and beside something; which comes first changes from round to round."""
    found = Pairs([], [])
    for number in range(rounds):
        for is_beside in (number % 2 == 1, number % 2 == 0):
            if is_beside:
                with around():
                    found.beside.append(measure())
            else:
                found.alone.append(measure())
    return found
