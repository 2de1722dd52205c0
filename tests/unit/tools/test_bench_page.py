"""The figures of `make bench`: medians, ratios, the sentences of the page and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.loads.generator import Figures
from tests.bench.loads.workloads import LATENCY, MEMORY_STOMP, WORKLOADS, Workload
from tests.bench.reports.chart import short
from tests.bench.reports.page import summary, text, write
from tests.bench.reports.results import Results, Row, read_results
from tests.bench.run import can_run, choose, line

QUEUE = Workload("a queue", "stomp", "queue", 1, 1, 1024, 100, section=MEMORY_STOMP)
SYNCHRONOUS = Workload("one by one", "stomp", "queue", 1, 1, 1024, 100, 1, synchronous=True, section=MEMORY_STOMP)
TIMED = Workload("a queue at a rate", "stomp", "queue", 1, 1, 1024, 100, 1, rate=2_000, section=LATENCY)
RUN = Figures(rate=1_000.0, cpu_us=10.0, generator_cores=0.5, p50_us=0.0, p99_us=0.0, resident_mib=100.0)


def row(workload: Workload, broker: str, *rates: float, cpu_us: float | None = 10.0) -> Row:
    return Row(workload, broker, [replace(RUN, rate=rate, cpu_us=cpu_us) for rate in rates])


def results(*rows: Row) -> Results:
    about = {"machine": "2 cores", "date": "2026-11-23"}
    return Results(about, {row.broker: "a version" for row in rows}, rows=list(rows), is_complete=True)


def compared() -> Results:
    return results(
        row(QUEUE, "classic", 1_000.0, cpu_us=20.0),
        row(QUEUE, "compiled", 5_000.0, cpu_us=2.0),
        row(QUEUE, "pure", 900.0, cpu_us=18.0),
        row(SYNCHRONOUS, "classic", 1_000.0, cpu_us=20.0),
        row(SYNCHRONOUS, "compiled", 660.0, cpu_us=10.0),
        row(SYNCHRONOUS, "pure", 500.0, cpu_us=15.0),
        row(TIMED, "classic", 2_000.0, cpu_us=20.0),
        row(TIMED, "compiled", 2_000.0, cpu_us=10.0),
        row(TIMED, "pure", 2_000.0, cpu_us=10.0),
    )


def test_the_median_of_each_figure_stands_by_itself() -> None:
    one = Row(
        QUEUE, "pure", [replace(RUN, rate=rate, cpu_us=cpu) for rate, cpu in ((1.0, 9.0), (3.0, 8.0), (2.0, 7.0))]
    )

    assert (one.median.rate, one.median.cpu_us) == (2.0, 8.0)


def test_the_spread_is_half_of_the_distance_as_a_share_of_the_median() -> None:
    assert row(QUEUE, "pure", 900.0, 1_000.0, 1_300.0).spread == pytest.approx(0.2)


def test_a_broker_whose_process_nobody_sees_has_no_cpu_in_median_and_ratios() -> None:
    found = results(row(QUEUE, "given", 1.0, cpu_us=None), row(QUEUE, "pure", 2.0))

    assert found.rows[0].median.cpu_us is None
    assert found.ratios("given", "pure", lambda figures: figures.cpu_us) == {}
    assert found.ratios("given", "pure", lambda figures: figures.rate) == {"a queue": 0.5}


def test_the_summary_counts_faster_workloads_and_names_slower_ones() -> None:
    assert summary(compared())[0] == (
        "Beside ActiveMQ Classic the compiled build of Spanwire is faster in 1 of 2 workloads, with 0.66 to 5.00 times "
        "its rate and 0.10 to 0.50 times its CPU for a message; slower in one by one (0.66 times)."
    )


def test_the_summary_says_what_the_pure_build_costs() -> None:
    assert summary(compared())[1] == (
        "The pure build of Spanwire needs no compiler. It costs: a message takes 1.00 to 9.00 times the CPU of the "
        "compiled build, and the rate is 0.18 to 0.76 times that of the compiled one. That is 0.50 to 0.90 times the "
        "rate of ActiveMQ Classic and 0.50 to 0.90 times its CPU for a message."
    )


def test_a_page_of_one_given_broker_compares_nothing() -> None:
    found = results(row(QUEUE, "given", 1_000.0, cpu_us=None))

    assert summary(found) == []
    assert text(found, {}).startswith("# A message broker under load\n\na version, measured from")
    assert "| a queue | not known |" in text(found, {})


def test_the_tables_have_a_column_for_each_broker_and_the_ratio() -> None:
    page = text(compared(), {})

    assert (
        "| workload | Spanwire, compiled | Spanwire, pure Python | ActiveMQ Classic | compiled : Classic, rate |"
        in page
    )
    assert "| a queue | 5,000 | 900 | 1,000 | 5.00 × |" in page
    assert "| a queue | 2.00 | 18.0 | 20.0 | 0.10 × |" in page
    assert page.count("| a queue at a rate |") == 2  # CPU and latency; its rate says nothing


def test_a_page_says_what_failed_what_is_left_out_and_that_it_is_not_complete() -> None:
    found = results(
        row(QUEUE, "pure", 1.0), Row(QUEUE, "classic", failure="a queue on classic broke a promise: 1 lost")
    )
    found.left_out.append("RabbitMQ is left out: it is not installed.")
    found.is_complete = False
    page = text(found, {})

    assert "- Failed: a queue on classic broke a promise: 1 lost.\n" in page
    assert "- RabbitMQ is left out: it is not installed.\n" in page
    assert "The run did not come to its end" in page
    assert "ActiveMQ Classic" not in page.split("\n")[0]


def test_a_page_is_written_anew_from_its_figures(tmp_path: Path) -> None:
    found = compared()
    page = write(found, tmp_path, "one")
    first = page.read_text("utf-8")

    assert read_results(tmp_path / "one.json") == found
    assert write(read_results(tmp_path / "one.json"), tmp_path, "one").read_text("utf-8") == first


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (531_967.0, "532,000"),
        (999.6, "1,000"),
        (1_380.4, "1,380"),
        (98.24, "98.2"),
        (14.35, "14.3"),
        (1.849, "1.85"),
        (0.0021, "0.002"),
    ],
)
def test_a_number_has_three_digits_that_count(value: float, written: str) -> None:
    assert short(value) == written


def test_all_workloads_have_names_of_their_own_and_a_section() -> None:
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)
    assert all(workload.section for workload in WORKLOADS)


def test_nothing_runs_after_the_restart_of_the_brokers() -> None:
    assert [workload.restart for workload in WORKLOADS] == [False] * (len(WORKLOADS) - 1) + [True]


def test_workloads_are_chosen_by_name_or_section_in_any_case() -> None:
    assert {workload.protocol for workload in choose("stomp QUEUE", False)} == {"stomp"}
    assert {workload.section for workload in choose("latency", False)} == {LATENCY}
    assert len(choose("", True)) < len(choose("", False)) == len(WORKLOADS)


def test_a_name_that_no_workload_has_is_refused() -> None:
    with pytest.raises(SystemExit, match="no workload is named 'mqtt'"):
        choose("mqtt", False)


def test_a_line_says_latency_where_the_rate_is_given() -> None:
    assert "p50" not in line(row(QUEUE, "pure", 1_000.0))
    assert "p50 0 p99 0" in line(row(TIMED, "pure", 2_000.0))


class Speaking:
    """A broker of which only the label and the protocols are looked at."""

    def __init__(self, label: str, *protocols: str) -> None:
        self.label = label
        self.host = "127.0.0.1"
        self.ports: Mapping[str, int] = dict.fromkeys(protocols, 1)
        self.login: Mapping[str, str] = {}
        self.prefix = "BENCH"

    def cpu_seconds(self) -> float | None:
        return None

    def resident_mib(self) -> float | None:
        return None

    def is_alive(self) -> bool:
        return True

    def restart(self) -> float:
        return 0.0


def test_a_given_broker_is_neither_restarted_nor_left_with_messages() -> None:
    restarted, stored = replace(QUEUE, restart=True), replace(QUEUE, consumers=0)

    assert can_run(Speaking("classic", "stomp"), restarted)
    assert can_run(Speaking("classic", "stomp"), stored)
    assert not can_run(Speaking("given", "stomp"), restarted)
    assert not can_run(Speaking("given", "stomp"), stored)


def test_a_broker_runs_the_workloads_of_its_protocols() -> None:
    assert can_run(Speaking("rabbitmq", "stomp"), QUEUE)
    assert not can_run(Speaking("rabbitmq", "stomp"), replace(QUEUE, protocol="openwire"))
