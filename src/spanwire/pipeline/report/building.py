"""A report from archives, on a Spark session."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from spanwire.pipeline.report.counters import counters
from spanwire.pipeline.report.hops import broker_names, hops, ways
from spanwire.pipeline.report.ledger import Ledger, ledger
from spanwire.pipeline.report.model import Figure, Report, Table, Tone
from spanwire.pipeline.report.parties import parties
from spanwire.pipeline.report.sources import Inputs, events, messages, statistics
from spanwire.pipeline.report.traffic import MAX_DESTINATIONS, Traffic, traffic

NO_TIMES = (
    "No broker told when a message came in. For the time from broker to broker set advisoryForDelivery in the brokers' "
    "policies and archive their advisories."
)


@dataclass(frozen=True, slots=True)
class Built:
    """The report, and every id that stands out, of which the report shows some."""

    report: Report
    found: DataFrame


def build(spark: SparkSession, inputs: Inputs, stuck_after_s: int) -> Built:
    """Everything that can be said. Raises `ConfigurationError` for what is no archive."""
    inputs.check()
    told, rows = events(spark, inputs).persist(), messages(spark, inputs).persist()
    report = Report([*inputs.messages, *inputs.advisories, *inputs.statistics, *inputs.sent])
    flow = traffic(rows, told)
    report.begin, report.end = flow.begin, flow.end
    known = parties(rows, told)
    books = ledger(spark, rows, told, known.consumers, stuck_after_s)
    names = broker_names(told)
    hop_table, hop_chart = hops(told, names)
    way_table = ways(rows, names)
    report.is_broken = books.is_broken
    report.figures = figures(flow, books, len(names))
    report.tables = [books.table, books.ids, flow.table, hop_table, way_table, known.sending, known.receiving]
    report.charts = [chart for chart in (flow.chart, hop_chart, known.chart) if chart is not None]
    report.notes = list(books.notes)
    if inputs.statistics:
        counter_table, sizes = counters(statistics(spark, inputs))
        report.tables.append(counter_table)
        report.charts += [sizes] if sizes is not None else []
    if not hop_table.rows and any(row[3] is None for row in way_table.rows):
        report.notes.append(NO_TIMES)
    report.notes += incomplete(report.tables)
    report.tables = [table for table in report.tables if table.rows]
    return Built(report, books.found)


def incomplete(tables: list[Table]) -> list[str]:
    """What was too much to bring to one place."""
    return [
        f"{table.title}: only {MAX_DESTINATIONS:,} rows were looked at; figures and sums leave the others out."
        for table in tables
        if table.key != "ids" and table.total >= MAX_DESTINATIONS
    ]


def figures(flow: Traffic, books: Ledger, brokers: int) -> list[Figure]:
    """The numbers at the top."""
    counts = books.counts
    shown = [Figure("messages", flow.messages), Figure("destinations", flow.table.total)]
    if brokers:
        shown.append(Figure("brokers", brokers))
    if books.table.rows:
        for name in ("lost", "doubled", "unannounced"):
            shown.append(Figure(name, counts[name], Tone.BAD if counts[name] else Tone.GOOD))
        shown.append(Figure("stuck", counts["stuck"], Tone.WARNING if counts["stuck"] else Tone.GOOD))
    return shown
