"""Builds a report from archives, on a Spark session."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from spanwire.pipeline.report.clients import client_flows
from spanwire.pipeline.report.counters import counters
from spanwire.pipeline.report.hops import broker_names, hops, route_table
from spanwire.pipeline.report.ledger import Ledger, ledger
from spanwire.pipeline.report.model import Figure, Report, Table, Tone
from spanwire.pipeline.report.sources import Inputs, events, messages, statistics
from spanwire.pipeline.report.traffic import MAX_DESTINATIONS, Traffic, traffic

NO_TIMES = (
    "No broker told when a message came in. For the time from broker to broker set advisoryForDelivery in the brokers' "
    "policies and archive their advisories."
)


@dataclass(frozen=True, slots=True)
class BuiltReport:
    """The report, and all flagged ids, of which the report shows some."""

    report: Report
    flagged: DataFrame


def build(spark: SparkSession, inputs: Inputs, stuck_after_s: int) -> BuiltReport:
    """Build the report.

    Raises:
        ConfigurationError: an input is no archive.
    """
    inputs.check()
    advisories, rows = events(spark, inputs).persist(), messages(spark, inputs).persist()
    report = Report([*inputs.messages, *inputs.advisories, *inputs.statistics, *inputs.sent])
    flow = traffic(rows, advisories)
    report.begin, report.end = flow.begin, flow.end
    clients = client_flows(rows, advisories)
    ledger_result = ledger(spark, rows, advisories, clients.consumers, stuck_after_s)
    names = broker_names(advisories)
    hop_table, hop_chart = hops(advisories, names)
    routes = route_table(rows, names)
    report.is_broken = ledger_result.is_broken
    report.figures = figures(flow, ledger_result, len(names))
    report.tables = [
        ledger_result.table,
        ledger_result.ids,
        flow.table,
        hop_table,
        routes,
        clients.sending,
        clients.receiving,
    ]
    report.charts = [chart for chart in (flow.chart, hop_chart, clients.chart) if chart is not None]
    report.notes = list(ledger_result.notes)
    if inputs.statistics:
        counter_table, sizes = counters(statistics(spark, inputs))
        report.tables.append(counter_table)
        report.charts += [sizes] if sizes is not None else []
    if not hop_table.rows and any(row[3] is None for row in routes.rows):
        report.notes.append(NO_TIMES)
    report.notes += incomplete(report.tables)
    report.tables = [table for table in report.tables if table.rows]
    return BuiltReport(report, ledger_result.flagged)


def incomplete(tables: list[Table]) -> list[str]:
    """Return notes about tables whose rows were limited in the driver."""
    return [
        f"{table.title}: only {MAX_DESTINATIONS:,} rows were looked at; figures and sums leave the others out."
        for table in tables
        if table.key != "ids" and table.total >= MAX_DESTINATIONS
    ]


def figures(flow: Traffic, ledger_result: Ledger, brokers: int) -> list[Figure]:
    """Return the numbers at the top of the report."""
    counts = ledger_result.counts
    shown = [Figure("messages", flow.messages), Figure("destinations", flow.table.total)]
    if brokers:
        shown.append(Figure("brokers", brokers))
    if ledger_result.table.rows:
        for name in ("lost", "doubled", "unannounced"):
            shown.append(Figure(name, counts[name], Tone.BAD if counts[name] else Tone.GOOD))
        shown.append(Figure("stuck", counts["stuck"], Tone.WARNING if counts["stuck"] else Tone.GOOD))
    return shown
