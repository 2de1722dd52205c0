"""Reports of runs: a table, CSV with a row for each second, and a chart as SVG."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from spanwire.cli.bench.latencies import Latencies
from spanwire.cli.bench.running import Result, Row
from spanwire.pipeline.report.model import LineChart, Series
from spanwire.pipeline.report.svg import WIDTH, line_svg

PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9, 99.99, 100.0)
BUSY: Final = 90  # percent of a processor from which the clients, not the broker, may be the limit
COLUMNS: Final = ("url", "second", "sent", "received", "p50_ms", "p99_ms", "max_ms")
MIDNIGHT: Final = datetime(2000, 1, 1, tzinfo=UTC)  # the charts' axis shows the time since the begin of a run
STYLE: Final = "text{font:13px sans-serif;fill:#3a4653}.grid{stroke:#e8ecf0}.title{font-weight:600}"
HEADING: Final = 34
VIEW: Final = re.compile(r'<svg viewBox="0 0 \d+ (\d+)"')


Times = Callable[[Result], Latencies]


def milliseconds(time_us: int) -> float:
    """Return a time in milliseconds, to a microsecond."""
    return round(time_us / 1000, 3)


def figures(result: Result) -> dict[str, object]:
    """Return the figures of a run, for JSON."""
    return {
        "url": result.url,
        "sent": result.sent,
        "received": result.received,
        "lost": result.lost,
        "duplicates": result.duplicates,
        "redelivered": result.redelivered,
        "foreign": result.foreign,
        "seconds": round(result.seconds, 3),
        "messages_per_second": round(result.rate, 1),
        "latency_ms": _percentiles(result.latencies),
        "send_ms": _percentiles(result.answers),
        "producer_cpu_percent": _percent(result.producer_cpu_s, result.seconds),
        "consumer_cpu_percent": _percent(result.consumer_cpu_s, result.seconds),
    }


def table(results: Sequence[Result]) -> str:
    """Return the figures of runs side by side, one column for each broker."""
    lines: list[list[str]] = [["", *(result.url for result in results)]]

    def line(name: str, value: Callable[[Result], str]) -> None:
        lines.append([name, *(value(result) for result in results)])

    line("sent", lambda one: f"{one.sent:,}")
    line("received", lambda one: f"{one.received:,}")
    line("lost", lambda one: f"{one.lost:,}")
    line("duplicates", lambda one: f"{one.duplicates:,}")
    line("messages/s", lambda one: f"{one.rate:,.0f}")
    timed: tuple[tuple[str, Times], ...] = (
        ("latency", lambda one: one.latencies),
        ("answer to a send", lambda one: one.answers),
    )
    for name, times in timed:
        for percent in PERCENTILES if any(times(one).total for one in results) else ():
            line(f"{name} {_name(percent)} ms", _cell(times, percent))
    line("CPU of producers", lambda one: f"{_percent(one.producer_cpu_s, one.seconds)} %")
    line("CPU of consumers", lambda one: f"{_percent(one.consumer_cpu_s, one.seconds)} %")
    widths = [max(len(row[column]) for row in lines) for column in range(len(lines[0]))]
    text = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in lines
    ]
    return "\n".join(one.rstrip() for one in text) + "\n"


def remarks(result: Result) -> list[str]:
    """Return remarks about the doubtful figures of a run."""
    lines = []
    for name, cpu_s in (("producers", result.producer_cpu_s), ("consumers", result.consumer_cpu_s)):
        if _percent(cpu_s, result.seconds) >= BUSY:
            lines.append(f"{result.url}: the {name} used a whole processor: the broker may be faster than they are")
    if result.foreign:
        lines.append(f"{result.url}: {result.foreign} messages of others were in the destination, and are consumed now")
    if result.redelivered:
        lines.append(f"{result.url}: {result.redelivered} messages were delivered again")
    return lines


def as_csv(results: Sequence[Result]) -> str:
    """Return a row for each second of each run; times are empty in the warm-up and without messages."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for result in results:
        for row in result.rows:
            times = (
                [milliseconds(one) for one in (row.p50_us, row.p99_us, row.longest_us)] if row.is_measured else [""] * 3
            )
            writer.writerow([result.url, row.second, row.sent, row.received, *times])
    return text.getvalue()


def as_svg(results: Sequence[Result], title: str) -> str:
    """Return charts of latency and rate over the time of the runs, as one file."""
    charts = [
        _chart(results, "p99 of the latency of each second, ms", lambda row: _measured(row, row.p99_us)),
        _chart(results, "median of the latency of each second, ms", lambda row: _measured(row, row.p50_us)),
        _chart(results, "messages received in each second", lambda row: float(row.received)),
    ]
    parts, top = [], 40
    for chart in charts:
        if chart is None:
            continue
        drawn = line_svg(chart)
        match = VIEW.match(drawn)
        assert match is not None
        height = int(match[1])
        parts.append(f'<text x="16" y="{top + 18}" class="title">{chart.title}</text>')
        parts.append(drawn.replace("<svg ", f'<svg y="{top + HEADING}" width="{WIDTH}" height="{height}" ', 1))
        top += height + HEADING + 12
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}">'
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{top}" fill="#fff"/>'
    )
    shown = "".join(character for character in title if character.isprintable() and character not in "<>&")
    return "".join([head, f'<text x="16" y="26" class="title">{shown}</text>', *parts, "</svg>\n"])


def _chart(results: Sequence[Result], title: str, value: Callable[[Row], float | None]) -> LineChart | None:
    series = [
        Series(one.url, [(MIDNIGHT + timedelta(seconds=row.second), value(row)) for row in one.rows])
        for one in results
        if one.rows
    ]
    return LineChart("bench", title, "", series) if series else None


def _measured(row: Row, time_us: int) -> float | None:
    """Return a time in milliseconds; None in the warm-up, and without messages."""
    return time_us / 1000 if row.is_measured else None


def _percentiles(times: Latencies) -> dict[str, float]:
    return {_name(percent): milliseconds(times.percentile(percent)) for percent in PERCENTILES} if times.total else {}


def _cell(times: Times, percent: float) -> Callable[[Result], str]:
    return lambda one: f"{milliseconds(times(one).percentile(percent)):,.3f}" if times(one).total else "-"


def _name(percent: float) -> str:
    return "max" if percent >= 100 else f"p{percent:g}"


def _percent(cpu_s: float, seconds: float) -> int:
    return round(cpu_s * 100 / seconds) if seconds > 0 else 0
