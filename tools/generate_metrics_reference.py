"""Writes docs/reference/metrics.md from the table of views.

python tools/generate_metrics_reference.py            # writes the page
python tools/generate_metrics_reference.py --check    # fails if the page is not what the table gives
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spanwire.management.histograms import MEANINGS
from spanwire.management.tables.attributes import COUNTER, METRIC_PREFIX, Attribute, ViewTable
from spanwire.management.tables.network_tables import BRIDGES, LINKS
from spanwire.management.tables.view_table import BROKER, CONNECTORS, DESTINATION_ATTRIBUTES, QUEUES, SUMMED

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "metrics.md"
HEAD: Final = """\
# Metrics

The series of `GET /metrics` and `spanwire metrics`. `tools/generate_metrics_reference.py` writes this page from the
table that the metrics are made from. [Watch a broker](../operations/watch.md) names the ten figures to begin with.

- Counters begin again at 0 when the broker starts.
- The sums of counters are over the destinations that exist. The removal of a destination lowers them, which Prometheus
  takes for a start of the broker.
- `spanwire_broker_process_…` are processor time, memory and files of the broker's process, on Linux.
- `spanwire_broker_info` has name, id and version as labels.
- `spanwire_health_level` has the label `check`, and the value 0, 1 for a warning or 2 for a critical state, as
  `spanwire health` shows it.
"""
HISTOGRAMS_HEAD: Final = """\
## Times

Each is a histogram with bounds from 0.1 ms to 10 s. `_bucket`, `_count` and `_sum` follow the name.

| metric | type | meaning |
|---|---|---|"""
SECTIONS: Final = (
    ("Broker", "", BROKER, BROKER.metrics()),
    (
        "Sums over destinations",
        "The label `type` is `queue`, `topic`, `temp-queue`, `temp-topic` or `advisory`. "
        "`spanwire_broker_destinations` has the number of destinations.",
        BROKER,
        [attribute for attribute in DESTINATION_ATTRIBUTES if attribute.name in SUMMED],
    ),
    (
        "Destinations",
        "Labels are `type` and `destination`. Series exist for the 100 destinations with the highest sum of enqueued, "
        "dequeued and pending messages, without advisory topics. `/metrics?destinations=all`, or another number, and "
        "`spanwire metrics --all` show more; `/metrics?series=pending,enqueued` leaves out their other figures.",
        QUEUES,
        QUEUES.metrics(),
    ),
    ("Connectors", "The label `connector` is the name in the configuration.", CONNECTORS, CONNECTORS.metrics()),
    (
        "Links to other brokers",
        "Labels are `link` (the name of the network connector), `remote` (the name of the other broker) and `uri`.",
        LINKS,
        LINKS.metrics(),
    ),
    (
        "Bridges",
        "The label `bridge` is the name of the [bridge](../guides/bridges/native-bridges.md). Counters begin anew with "
        "the process of the bridges.",
        BRIDGES,
        BRIDGES.metrics(),
    ),
)


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text("utf-8") != text:
            sys.stdout.write(f"{TARGET.name} is not what the table gives: run tools/generate_metrics_reference.py\n")
            return 1
        return 0
    TARGET.write_text(text, "utf-8")
    return 0


def page() -> str:
    parts = [HEAD]
    for title, text, view, attributes in SECTIONS:
        parts += section(title, text, view, attributes)
    parts.append(HISTOGRAMS_HEAD)
    parts += [f"| `{METRIC_PREFIX}_{name}_seconds` | histogram | {meaning} |" for name, meaning in MEANINGS.items()]
    return "\n".join([*parts, ""])


def section(title: str, text: str, view: ViewTable, attributes: list[Attribute]) -> Iterator[str]:
    """Return a heading, a paragraph and a table of metrics."""
    yield f"## {title}\n"
    if text:
        yield f"{text}\n"
    yield "| metric | type | meaning |\n|---|---|---|"
    for attribute in attributes:
        suffix = "_total" if attribute.metric == COUNTER else ""
        yield f"| `{view.metric_name(attribute)}{suffix}` | {attribute.metric} | {attribute.meaning} |"
    yield ""


if __name__ == "__main__":
    raise SystemExit(main())
