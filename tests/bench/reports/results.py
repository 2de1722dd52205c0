"""The results of `make bench`: every run of every workload on every broker, and what follows from them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.bench.loads.generator import Figures
from tests.bench.loads.workloads import Workload

# In the order of tables and charts.
TITLES: Final = {
    "compiled": "Spanwire, compiled",
    "pure": "Spanwire, pure Python",
    "given": "your broker",
    "classic": "ActiveMQ Classic",
    "artemis": "ActiveMQ Artemis",
    "rabbitmq": "RabbitMQ",
}
OWN: Final = ("compiled", "pure")


@dataclass(frozen=True)
class Row:
    """One workload on one broker: every run; ``failure`` says why there is none, or no more."""

    workload: Workload
    broker: str
    runs: list[Figures] = field(default_factory=list)
    failure: str = ""

    @property
    def median(self) -> Figures:
        """The median of each figure by itself; there has to be a run."""
        return Figures(
            rate=statistics.median(run.rate for run in self.runs),
            cpu_us=_median(run.cpu_us for run in self.runs),
            generator_cores=statistics.median(run.generator_cores for run in self.runs),
            p50_us=statistics.median(run.p50_us for run in self.runs),
            p99_us=statistics.median(run.p99_us for run in self.runs),
            resident_mib=_median(run.resident_mib for run in self.runs),
        )

    @property
    def spread(self) -> float:
        """Half of the distance from the lowest to the highest rate, as a share of the median."""
        rates = [run.rate for run in self.runs]
        return (max(rates) - min(rates)) / 2 / statistics.median(rates)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


@dataclass
class Results:
    """What one call of the benchmark found so far."""

    about: dict[str, str]
    brokers: dict[str, str] = field(default_factory=dict)  # label → version and settings
    left_out: list[str] = field(default_factory=list)  # a sentence each
    rows: list[Row] = field(default_factory=list)
    floors: dict[str, str] = field(default_factory=dict)
    is_complete: bool = False

    @property
    def labels(self) -> list[str]:
        """The brokers that have a figure, in the order of `TITLES`."""
        measured = {row.broker for row in self.rows if row.runs}
        return [label for label in TITLES if label in measured]

    @property
    def workloads(self) -> list[Workload]:
        """The workloads that somebody has run."""
        return list(dict.fromkeys(row.workload for row in self.rows))

    def row(self, workload: Workload, label: str) -> Row | None:
        """The runs of a workload on a broker; None if there is none."""
        found = (row for row in self.rows if row.workload == workload and row.broker == label and row.runs)
        return next(found, None)

    @property
    def failures(self) -> list[Row]:
        """Rows with a run that failed."""
        return [row for row in self.rows if row.failure]

    def ratios(self, label: str, other: str, figure: Callable[[Figures], float | None]) -> dict[str, float]:
        """A figure of one broker in terms of another's, by the names of the workloads that both have run."""
        found: dict[str, float] = {}
        for workload in self.workloads:
            one, two = self.row(workload, label), self.row(workload, other)
            if one is not None and two is not None:
                above, below = figure(one.median), figure(two.median)
                if above is not None and below:
                    found[workload.name] = above / below
        return found

    def to_json(self) -> str:
        """Every run, for comparisons later, and to write the page anew."""
        return json.dumps(asdict(self), indent=1) + "\n"


def read_results(file: Path) -> Results:
    """Read what `Results.to_json` wrote."""
    found = json.loads(file.read_text(encoding="utf-8"))
    found["rows"] = [
        Row(Workload(**row["workload"]), row["broker"], [Figures(**run) for run in row["runs"]], row["failure"])
        for row in found["rows"]
    ]
    return Results(**found)
