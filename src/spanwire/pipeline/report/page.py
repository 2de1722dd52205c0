"""Writes a report as one self-contained HTML file, without scripts and without references.

The content security policy keeps the browser from loading or running anything that a name might contain; names are
escaped in addition.
"""

from __future__ import annotations

from html import escape
from typing import Final

from spanwire.pipeline.report.model import Chart, Column, Figure, FlowChart, Report, Table, Tone, Value
from spanwire.pipeline.report.svg import svg_of
from spanwire.pipeline.report.terminal import verdict
from spanwire.pipeline.report.texts import is_number, printable, short, text_of

MAX_TEXT: Final = 300  # characters of one value on the page; report.json has the whole value
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
STATES: Final[dict[str, str]] = {
    "lost": "bad", "doubled": "bad", "unannounced": "bad", "is broken": "bad", "stuck": "warning", "holds": "good",
}  # fmt: skip
STYLE: Final = """
:root{--ink:#1c2733;--soft:#5b6773;--line:#e1e6eb;--paper:#fff;--wash:#f6f8fa;--good:#1d7a4a;--bad:#b3261e;
--warning:#8f5a00}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 24px 64px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;font-weight:650}
h2{font-size:19px;margin:44px 0 4px;font-weight:650}
h3{font-size:15px;margin:22px 0 2px;font-weight:650}
p{margin:4px 0 10px;color:var(--soft);max-width:110ch}
.verdict{display:inline-block;margin:14px 0 0;padding:7px 14px;border-radius:6px;font-weight:600;background:var(--wash);
color:var(--ink)}
.verdict.good{background:#e8f5ee;color:var(--good)}.verdict.bad{background:#fdecea;color:var(--bad)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:12px;margin:20px 0 8px;padding:0}
.figures div{border:1px solid var(--line);border-radius:8px;padding:12px 14px}
.figures dt{color:var(--soft);font-size:13px}
.figures dd{margin:0;font-size:25px;font-weight:650;font-variant-numeric:tabular-nums}
.good{color:var(--good)}.bad{color:var(--bad)}.warning{color:var(--warning)}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{padding:7px 12px;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
th{background:var(--wash);font-weight:600;white-space:nowrap}
td{overflow-wrap:break-word;max-width:52ch}
td.id code{overflow-wrap:break-word}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.t{white-space:nowrap;font-variant-numeric:tabular-nums}
td.state{font-weight:600;white-space:nowrap}
figure{margin:10px 0 0;border:1px solid var(--line);border-radius:8px;padding:14px;overflow-x:auto}
svg{display:block;width:100%;min-width:640px;height:auto;font:13px system-ui,-apple-system,"Segoe UI",Arial,sans-serif}
svg text{fill:#3a4653}svg .grid{stroke:#e8ecf0}
ul{color:var(--soft);padding-left:20px;max-width:110ch}li{margin:5px 0;overflow-wrap:anywhere}
code{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
footer{margin-top:44px;border-top:1px solid var(--line);padding-top:12px;color:var(--soft);font-size:13px}
@media(max-width:600px){main{padding:18px 14px 48px}h1{font-size:22px}.figures{grid-template-columns:repeat(2,1fr)}
th,td{padding:6px 9px}}
@media print{figure,.scroll{break-inside:avoid;overflow:visible}}
"""


def page(report: Report, title: str) -> str:
    """Return the text of the file."""
    charts = {chart.key: chart for chart in report.charts}
    tables = {table.key: table for table in report.tables}
    sections = [
        _section("The ledger", [tables.get("ledger"), tables.get("ids")], []),
        _section("Traffic", [tables.get("destinations")], [charts.get("rates")]),
        _section("From broker to broker", [tables.get("hops"), tables.get("routes")], [charts.get("hops")]),
        _section("Who sends to whom", [tables.get("senders"), tables.get("receivers")], [charts.get("parties")]),
        _section("What the brokers count", [tables.get("counters")], [charts.get("sizes")]),
    ]
    notes = "".join(f"<li>{_safe(note)}</li>" for note in report.notes)
    sources = ", ".join(f"<code>{_safe(source)}</code>" for source in report.sources)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_safe(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>{_safe(title)}</h1>{_span(report)}{_verdict(report)}"
        f'<dl class="figures">{"".join(_figure(figure) for figure in report.figures)}</dl>'
        f"{''.join(sections)}"
        f"{f'<h2>What is not known</h2><ul>{notes}</ul>' if notes else ''}"
        f"<footer>Made from {sources} by <code>spanwire pipeline report</code>. All times are UTC.</footer>"
        "</main></body></html>\n"
    )


def _span(report: Report) -> str:
    if report.begin is None or report.end is None:
        return "<p>No messages.</p>"
    begin, end = (moment.strftime("%Y-%m-%d %H:%M:%S") for moment in (report.begin, report.end))
    return f"<p>Messages from {begin} to {end}</p>"


def _verdict(report: Report) -> str:
    has_ledger = any(table.key == "ledger" for table in report.tables)
    tone = "bad" if report.is_broken else "good" if has_ledger else "plain"
    return f'<div class="verdict {tone}">{_safe(verdict(report).partition(":")[0])}</div>'


def _figure(figure: Figure) -> str:
    value = figure.value if isinstance(figure.value, str) else f"{figure.value:,}"
    tone = "" if figure.tone is Tone.PLAIN else f' class="{figure.tone.value}"'
    return f"<div><dt>{_safe(figure.name)}</dt><dd{tone}>{_safe(value)}</dd></div>"


def _section(title: str, tables: list[Table | None], charts: list[Chart | None]) -> str:
    parts = [_chart(chart, title) for chart in charts if chart is not None]
    parts += [_table(table, title) for table in tables if table is not None]
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>" if parts else ""


def _chart(chart: Chart, above: str) -> str:
    caption = chart.title if isinstance(chart, FlowChart) else f"{chart.title}, {chart.unit}"
    caption = "" if caption == above else f"<p>{_safe(caption)}</p>"
    return f"{caption}<figure>{svg_of(chart)}</figure>"


def _table(table: Table, above: str) -> str:
    title = "" if table.title in (above, "Ledger") else f"<h3>{_safe(table.title)}</h3>"
    heads = "".join(f"<th{_class(column)}>{_safe(column.name)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(_cell(value, column) for value, column in zip(row, table.columns, strict=True))}</tr>"
        for row in table.rows
    )
    cut = f"<p>{table.total - len(table.rows):,} more are not shown.</p>" if table.is_cut else ""
    return (
        f'{title}<p>{_safe(table.about)}</p><div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{cut}"
    )


def _cell(value: Value, column: Column) -> str:
    text = short(text_of(value, column.kind), MAX_TEXT)
    if isinstance(value, str) and column.name in ("is", "the ledger") and value in STATES:
        return f'<td class="state {STATES[value]}">{_safe(text)}</td>'
    if column.name == "message id":
        return f'<td class="id"><code>{_safe(text)}</code></td>'
    return f"<td{_class(column)}>{_safe(text)}</td>"


def _class(column: Column) -> str:
    if is_number(column.kind):
        return ' class="n"'
    return ' class="t"' if column.kind.value == "time" else ""


def _safe(text: str) -> str:
    return escape(printable(text))
