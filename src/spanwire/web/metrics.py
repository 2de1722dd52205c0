"""Metrics in OpenMetrics or Prometheus's text format, from views of the broker.

The views are the answers to ``summary`` and ``destinations``; names and meanings come from the table of views. The name
of a destination is a label, so only the busiest destinations have separate series; sums cover all destinations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from spanwire.management.health import SERIES, broker_checks
from spanwire.management.histograms import MEANINGS, buckets_of
from spanwire.management.tables.attributes import COUNTER, METRIC_PREFIX, Attribute, ViewTable
from spanwire.management.tables.network_tables import BRIDGES, LINKS
from spanwire.management.tables.view_table import (
    BROKER,
    CONNECTORS,
    DESTINATION_ATTRIBUTES,
    QUEUES,
    SUMMED,
    metric_type_of,
    rows_of,
)

BUSIEST: Final = 100  # destinations with separate series; a scrape of 1,000 series is small
SERIES_NAMES: Final = frozenset(attribute.name for attribute in QUEUES.metrics())
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0"

Row = Mapping[str, object]
Labels = tuple[str, ...]


def exposition(
    status: Row,
    destinations: Sequence[Row],
    accept: str,
    busiest: int | None = BUSIEST,
    series: frozenset[str] = SERIES_NAMES,
) -> tuple[bytes, str]:
    """Return the metrics of a broker and the content type.

    Args:
        status: the answer to ``summary``.
        destinations: the answer to ``destinations``.
        accept: the ``Accept`` header, for the choice of the format.
        busiest: the number of destinations with separate series; None for all.
        series: shown attributes of these destinations.
    """
    registry = CollectorRegistry()
    registry.register(BrokerCollector(status, destinations, busiest, series))
    pid = status.get("pid")
    if isinstance(pid, int):
        ProcessCollector(namespace="spanwire_broker", pid=lambda: pid, registry=registry)
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


class BrokerCollector(Collector):
    """Makes the metrics of one scrape."""

    def __init__(
        self, status: Row, destinations: Sequence[Row], busiest: int | None, series: frozenset[str] = SERIES_NAMES
    ) -> None:
        self._status: Final = status
        self._destinations: Final = destinations
        self._busiest: Final = busiest
        self._series: Final = series

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics."""
        status = self._status
        (broker,) = rows_of(BROKER, status)
        yield InfoMetricFamily(
            "spanwire_broker", "The broker.", {name: str(broker.get(name)) for name in ("name", "id", "version")}
        )
        yield from _of_rows(BROKER, [broker])
        yield from self._sums()
        yield from _of_rows(CONNECTORS, rows_of(CONNECTORS, status))
        yield from _of_rows(LINKS, rows_of(LINKS, status))
        yield from _of_rows(BRIDGES, rows_of(BRIDGES, status))
        yield from _of_rows(QUEUES, self._chosen(), self._series)
        yield from _histograms(status)
        levels = GaugeMetricFamily(SERIES, "Level of a check: 0 good, 1 warning, 2 critical.", labels=["check"])
        for check in broker_checks(status):
            levels.add_metric([check.name], int(check.level))
        yield levels

    def _chosen(self) -> list[Row]:
        """Return the busiest destinations without advisory topics, the busiest first."""
        rows = [{**row, "type": metric_type_of(row), "name": _name(row)} for row in self._destinations]
        chosen = [row for row in rows if row["type"] != "advisory"]
        chosen.sort(key=_traffic, reverse=True)
        return list(chosen if self._busiest is None else chosen[: self._busiest])

    def _sums(self) -> Iterable[Metric]:
        """Yield the sums over all destinations, by type."""
        counts: dict[str, int] = {}
        sums: dict[tuple[str, str], float] = {}
        for row in self._destinations:
            kind = metric_type_of(row)
            counts[kind] = counts.get(kind, 0) + 1
            for name in SUMMED:
                sums[kind, name] = sums.get((kind, name), 0) + _value(row.get(name))
        existing = GaugeMetricFamily("spanwire_broker_destinations", "Queues and topics.", labels=["type"])
        for kind in sorted(counts):
            existing.add_metric([kind], counts[kind])
        yield existing
        for attribute in DESTINATION_ATTRIBUTES:
            if attribute.name in SUMMED:
                family = _family(BROKER, attribute, f"Sum over all destinations: {attribute.meaning}.", ["type"])
                for kind in sorted(counts):
                    family.add_metric([kind], sums[kind, attribute.name])
                yield family


def _histograms(status: Row) -> Iterable[Metric]:
    """Yield the histograms of the broker."""
    for name, meaning in MEANINGS.items():
        buckets = buckets_of(status, name)
        if buckets is not None:
            family = HistogramMetricFamily(f"{METRIC_PREFIX}_{name}_seconds", f"{meaning[0].upper()}{meaning[1:]}.")
            family.add_metric([], buckets.counts, buckets.total)
            yield family


def _of_rows(view: ViewTable, rows: Sequence[Row], names: frozenset[str] | None = None) -> Iterable[Metric]:
    """Yield the metrics of the rows of a view, or only some by name; rows with equal labels count once."""
    labels = [label for label, _ in view.labels]
    distinct = {tuple(_text(row.get(key)) for _, key in view.labels): row for row in rows}
    for attribute in view.metrics():
        if names is not None and attribute.name not in names:
            continue
        family = _family(view, attribute, f"{attribute.meaning[0].upper()}{attribute.meaning[1:]}.", labels)
        for values, row in distinct.items():
            if row.get(attribute.name) is not None:
                family.add_metric(list(values), _value(row[attribute.name]))
        yield family


def _family(
    view: ViewTable, attribute: Attribute, text: str, labels: Sequence[str]
) -> CounterMetricFamily | GaugeMetricFamily:
    if attribute.metric == COUNTER:
        return CounterMetricFamily(view.metric_name(attribute), text, labels=labels)
    return GaugeMetricFamily(view.metric_name(attribute), text, labels=labels)


def _traffic(row: Row) -> float:
    return sum(_value(row.get(name)) for name in ("enqueued", "dequeued", "pending"))


def _name(row: Row) -> str:
    return str(row.get("destination")).partition("://")[2]


def _text(value: object) -> str:
    """Return a label valid in UTF-8, for any name of a queue."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _value(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
