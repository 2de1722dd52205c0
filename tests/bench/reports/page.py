"""The page of `make bench`: charts, tables, how to read them and how to measure again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.bench.loads.workloads import Workload
from tests.bench.reports import chart
from tests.bench.reports.chart import short
from tests.bench.reports.results import OWN, TITLES, Results, Row

GENERATOR_LIMIT: Final = 0.9  # cores above which the generator, not the broker, sets the rate

HOW_TO_READ: Final = f"""## How to read the figures

- A program in C sends messages to a broker and receives them again. All brokers run on one machine beside that program.
  They take turns, so that a busy minute meets all alike. Each figure is the median of the runs of its line.
- **Messages per second** say how fast a broker is when it is asked for all it can. They depend on the machine and on
  whatever else runs on it. "± 5 %" is half of the distance from the slowest to the fastest run. With a star the program
  itself used more than {GENERATOR_LIMIT} cores: the broker might do more.
- **CPU per message** is the processor time of the broker's process, all of its threads, for one message. Other work on
  the machine hardly changes it, so it is the better figure to compare. It decides how many messages a small machine can
  take.
- *1:10* stands for one producer and ten consumers. A message has 1 KiB, and the producer writes 16 messages at a time
  to its socket, unless the line says otherwise.
- *Synchronous*: the producer waits for the broker's answer to a message before it sends the next.
- *Persistent*: the broker stores each message on the disk. All else is in memory, and is lost with the broker.
- *Client-individual*: the consumer acknowledges each message by itself.
- *After a restart*: the broker is stopped and started again, then one consumer reads a queue of stored messages.
- Every run is checked: no message lost, none twice, none in another order than it was sent in, none changed.
"""


def write(results: Results, directory: Path, name: str) -> Path:
    """Write the figures, the charts and the page about them; return the page."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.json").write_text(results.to_json(), encoding="utf-8")
    charts = chart.draw(results, directory, name)
    page = directory / f"{name}.md"
    page.write_text(text(results, charts), encoding="utf-8")
    return page


def text(results: Results, charts: dict[str, str]) -> str:
    """Return the page in Markdown; ``charts`` are the files' names by what they show."""
    others = [TITLES[label] for label in results.labels if label not in OWN]
    ours = any(label in OWN for label in results.labels)
    title = " beside ".join(["Spanwire"] * ours + ([_list(others)] if others else []))
    machine, date = results.about["machine"], results.about["date"]
    if results.labels == ["given"]:
        parts = [
            "# A message broker under load\n",
            f"{results.brokers['given']}, measured from a machine with {machine}, {date}.\n",
        ]
    else:
        parts = [f"# {title}\n", f"Message brokers under the same load, on {machine}, {date}.\n"]
    if not results.is_complete:
        parts.append("The run did not come to its end: the lines below are those that were measured until then.\n")
    parts += [f"- {line}" for line in [*summary(results), *results.left_out]]
    parts += [f"- Failed: {row.failure}." for row in results.failures]
    parts.append("")
    if "overview" in charts:
        parts.append(f"![Bars: messages per second and CPU of a few workloads]({charts['overview']})\n")
    parts.append(HOW_TO_READ)
    parts.append("## Messages per second\n")
    if "rate" in charts:
        parts.append(
            "A mark is the median of a broker; the stroke through it reaches over all of its runs. The scale is "
            f"logarithmic.\n\n![Marks on lines: messages per second]({charts['rate']})\n"
        )
    loaded = [workload for workload in results.workloads if not workload.rate]
    parts.append(_table(results, loaded, _rate, ("rate", lambda row: row.median.rate)))
    parts.append("## CPU per message\n\nµs of the broker's processor time for a message.\n")
    if "cpu" in charts:
        parts.append(f"![Marks on lines: CPU per message]({charts['cpu']})\n")
    parts.append(_table(results, results.workloads, _cpu, ("CPU", lambda row: row.median.cpu_us)))
    timed = [workload for workload in results.workloads if workload.rate]
    if timed:
        parts.append(
            "## Latency\n\nOne producer sends 2,000 messages per second. µs from the send of a message to its receipt: "
            "half of them take at most the first figure, 99 of 100 at most the second.\n"
        )
        if "latency" in charts:
            parts.append(f"![Lines from the median to the 99th percentile]({charts['latency']})\n")
        parts.append(_table(results, timed, _latency, ("median", lambda row: row.median.p50_us)))
    parts.append(_memory(results))
    parts.append(_measured(results))
    return "\n".join(parts)


def summary(results: Results) -> list[str]:
    """Return a sentence for each comparison of the compiled build, and one that says what the pure build costs."""
    lines: list[str] = []
    for label in results.labels:
        if label in OWN:
            continue
        rates = _throughput(results, "compiled", label)
        costs = results.ratios("compiled", label, lambda figures: figures.cpu_us)
        if rates:
            faster = sum(ratio > 1 for ratio in rates.values())
            lines.append(
                f"Beside {TITLES[label]} the compiled build of Spanwire is faster in {faster} of {len(rates)} "
                f"workloads, with {_span(rates)} times its rate{_cost(costs)}{_slower(rates)}."
            )
    lines += _cost_of_pure(results)
    return lines


def _cost_of_pure(results: Results) -> list[str]:
    costs = results.ratios("pure", "compiled", lambda figures: figures.cpu_us)
    rates = _throughput(results, "pure", "compiled")
    if not costs or not rates:
        return []
    line = (
        f"The pure build of Spanwire needs no compiler. It costs: a message takes {_span(costs)} times the CPU of the "
        f"compiled build, and the rate is {_span(rates)} times that of the compiled one."
    )
    beside = _throughput(results, "pure", "classic")
    if beside:
        classic = results.ratios("pure", "classic", lambda figures: figures.cpu_us)
        line += f" That is {_span(beside)} times the rate of {TITLES['classic']}{_cost(classic)}."
    return [line]


def _throughput(results: Results, label: str, other: str) -> dict[str, float]:
    """Ratios of rates, but for the workloads whose rate is given."""
    timed = {workload.name for workload in results.workloads if workload.rate}
    ratios = results.ratios(label, other, lambda figures: figures.rate)
    return {name: ratio for name, ratio in ratios.items() if name not in timed}


def _cost(costs: dict[str, float]) -> str:
    return f" and {_span(costs)} times its CPU for a message" if costs else ""


def _slower(rates: dict[str, float]) -> str:
    slower = [f"{name} ({ratio:.2f} times)" for name, ratio in rates.items() if ratio < 1]
    return f"; slower in {_list(slower)}" if slower else ""


def _span(ratios: dict[str, float]) -> str:
    low, high = min(ratios.values()), max(ratios.values())
    return f"{short(low)} to {short(high)}" if short(low) != short(high) else short(low)


def _list(names: Sequence[str]) -> str:
    return (
        " and ".join(", ".join(names).rsplit(", ", 1)) if not any("," in name for name in names) else "; ".join(names)
    )


def _table(
    results: Results,
    workloads: Sequence[Workload],
    cell: Callable[[Row], str],
    ratio: tuple[str, Callable[[Row], float | None]],
) -> str:
    """Return a table with a column for each broker and one with the ratio of the compiled build to Classic."""
    labels = results.labels
    name, figure = ratio
    compared = {"compiled", "classic"} <= set(labels)
    heads = ["workload", *(TITLES[label] for label in labels), *([f"compiled : Classic, {name}"] if compared else [])]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    section = ""
    for workload in workloads:
        if workload.section != section:
            section = workload.section
            lines.append(f"| **{section}** |" + " |" * (len(heads) - 1))
        rows = {label: results.row(workload, label) for label in labels}
        cells = [cell(row) if row is not None else "" for row in rows.values()]
        if compared:
            one, two = rows["compiled"], rows["classic"]
            above, below = (figure(one), figure(two)) if one is not None and two is not None else (None, None)
            cells.append(f"{short(above / below)} ×" if above is not None and below else "")
        lines.append(f"| {' | '.join([workload.name, *cells])} |")
    return "\n".join(lines) + "\n"


def _rate(row: Row) -> str:
    star = "*" if row.median.generator_cores > GENERATOR_LIMIT else ""
    spread = f" ± {row.spread * 100:.0f} %" if len(row.runs) > 1 else ""
    return f"{short(row.median.rate)}{star}{spread}"


def _cpu(row: Row) -> str:
    return "not known" if row.median.cpu_us is None else short(row.median.cpu_us)


def _latency(row: Row) -> str:
    return f"{row.median.p50_us:,.0f} / {row.median.p99_us:,.0f}"


def _memory(results: Results) -> str:
    """Return the most memory that each broker had after a run."""
    heads = [TITLES[label] for label in results.labels]
    most: list[str] = []
    for label in results.labels:
        runs = [run for row in results.rows if row.broker == label for run in row.runs]
        known = [run.resident_mib for run in runs if run.resident_mib is not None]
        most.append(f"{max(known):,.0f} MiB" if known else "not known")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", f"| {' | '.join(most)} |"]
    return "## Memory\n\nThe most that a broker's process had after a run.\n\n" + "\n".join(lines) + "\n"


def _measured(results: Results) -> str:
    """Return what was measured, and the way to do it again."""
    lines = ["## What was measured, and how to do it again\n"]
    lines += [f"- {key}: {value}" for key, value in results.about.items()]
    lines += [f"- {TITLES[label]}: {about}" for label, about in results.brokers.items()]
    lines += [f"- this machine's floor, {name}: {' '.join(line.split())}" for name, line in results.floors.items()]
    lines.append(
        "\n`make bench` in Spanwire's repository measures the same again. `BENCH_ARGS` passes options on: `--brokers "
        "compiled,classic` chooses brokers, `--only STOMP` workloads, and `--address stomp://HOST:PORT` measures a "
        "broker of yours that is running.\n"
    )
    return "\n".join(lines)
