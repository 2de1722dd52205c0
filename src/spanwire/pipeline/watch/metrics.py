"""The status of pipelines as metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from spanwire.pipeline.watch.status import ORDER, PipelineStatus, RouteStatus


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a route; ``value`` returns ``None`` for an unknown value."""

    name: str
    kind: str
    text: str
    value: Callable[[RouteStatus], float | None]


METRICS: Final = (
    Metric("batches_total", "counter", "Batches since the start of the run.", lambda route: route.batches),
    Metric("rows_total", "counter", "Rows read since the start of the run.", lambda route: route.rows),
    Metric("failures_total", "counter", "Failures since the start of the run.", lambda route: route.failures),
    Metric("batch", "gauge", "Number of the last batch, -1 before the first.", lambda route: route.batch),
    Metric("rows_per_second", "gauge", "Rows per second of the last batch.", lambda route: route.rows_per_s),
    Metric("batch_seconds", "gauge", "Duration of the last batch.", lambda route: route.batch_ms / 1000),
    Metric("lag_messages", "gauge", "Messages at the source behind the last batch.", lambda route: route.lag_messages),
    Metric(
        "lag_seconds",
        "gauge",
        "Age of the last received message at its reception.",
        lambda route: None if route.lag_ms is None else route.lag_ms / 1000,
    ),
    Metric(
        "last_progress_timestamp_seconds",
        "gauge",
        "Time of the last progress.",
        lambda route: route.progress_at_ms / 1000 if route.progress_at_ms else None,
    ),
)
PREFIX: Final = "spanwire_pipeline_"
STATE: Final = "route_state"


def prometheus_text(statuses: Iterable[tuple[PipelineStatus, int]]) -> str:
    """Return the metrics of statuses, each with its age in milliseconds."""
    rows = list(statuses)
    lines = _head("age_seconds", "gauge", "Age of the status.")
    for status, age_ms in rows:
        lines.append(f"{PREFIX}age_seconds{{{_pipeline_labels(status)}}} {_text(age_ms / 1000)}")
    lines += _head(STATE, "gauge", "1 for the present state of a route.")
    for status, _ in rows:
        for route in status.routes:
            for state in ORDER:
                value = int(route.state == state)
                lines.append(f'{PREFIX}{STATE}{{{_labels(status, route)},state="{state}"}} {value}')
    for metric in METRICS:
        lines += _head(metric.name, metric.kind, metric.text)
        for status, _ in rows:
            for route in status.routes:
                value_or_none = metric.value(route)
                if value_or_none is not None:
                    lines.append(f"{PREFIX}{metric.name}{{{_labels(status, route)}}} {_text(value_or_none)}")
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} {kind}"]


def _pipeline_labels(status: PipelineStatus) -> str:
    return f'pipeline="{_escape(status.pipeline)}",run="{_escape(status.run)}"'


def _labels(status: PipelineStatus, route: RouteStatus) -> str:
    return f'{_pipeline_labels(status)},route="{_escape(route.route)}"'


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _text(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:.3f}".rstrip("0")
