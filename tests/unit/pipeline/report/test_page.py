from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from spanwire.pipeline.report.hops import HOP_COLUMNS
from spanwire.pipeline.report.model import (
    Bar,
    BarChart,
    Chart,
    Column,
    Figure,
    FlowChart,
    Kind,
    LineChart,
    Link,
    Report,
    Series,
    Table,
    Tone,
)
from spanwire.pipeline.report.page import page
from spanwire.pipeline.report.svg import nice, svg_of
from spanwire.pipeline.report.terminal import json_of, report_text

BEGIN = datetime(2026, 1, 31, tzinfo=UTC)


def report_with(name: str) -> Report:
    """A report in which everything that others may choose has this name."""
    charts: list[Chart] = [
        LineChart("rates", "Rates", "per second", [Series(name, [(BEGIN, 1.0), (BEGIN + timedelta(hours=1), None)])]),
        BarChart("hops", "Hops", "ms", "half", "most", [Bar(name, 1.0, 2.0)]),
        FlowChart("parties", "Who", [Link(name, f"{name} queue", 3)], [Link(f"{name} queue", name, None)]),
    ]
    columns = (Column("is"), Column("message id"), Column("queue"), Column("sent", Kind.TIME))
    ids = Table("ids", "Messages to look at", name, columns, [("lost", name, name, BEGIN)], 3)
    ledger = Table("ledger", "Ledger", "", (Column("queue"), Column("the ledger")), [(name, "is broken")], 1)
    figures = [Figure("messages", 1234), Figure("lost", 1, Tone.BAD)]
    return Report([name], BEGIN, BEGIN + timedelta(hours=1), figures, [ledger, ids], charts, [name], True)


class Tags(HTMLParser):
    """All tags with the names of their attributes, and the text outside of tags."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data


def tags_of(name: str) -> Tags:
    tags = Tags()
    tags.feed(page(report_with(name), name))
    return tags


@given(st.text(st.sampled_from("<>\"'&;/=ab \x00\x1b\u202e-![]"), min_size=1, max_size=40))
def test_no_name_becomes_markup(name: str) -> None:
    assert [tag for tag, _ in tags_of(name).found if tag != "title"] == [
        tag for tag, _ in tags_of("n" * len(name)).found if tag != "title"
    ]


def test_a_script_in_a_name_is_text() -> None:
    hostile = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
    tags = tags_of(hostile)
    assert hostile in tags.text
    assert not {"script", "img"} & {tag for tag, _ in tags.found}
    assert not any(name.startswith("on") for _, names in tags.found for name in names)


def test_the_page_refers_to_nothing_outside_and_forbids_it() -> None:
    text = page(report_with("queue://A"), "Title")
    names = {name for _, found in tags_of("queue://A").found for name in found}
    assert not {"src", "href", "srcset", "action", "data"} & names
    assert "default-src &#x27;none&#x27;" in text and "url(" not in text and "@import" not in text


def test_charts_are_well_formed() -> None:
    charts = report_with("<a & b>").charts
    assert charts
    for chart in charts:
        root = ElementTree.fromstring(svg_of(chart))
        assert root.tag == "svg" and "<a & b>" in "".join(root.itertext())


def test_a_chart_of_one_moment_shows_a_point() -> None:
    chart = LineChart("sizes", "Sizes", "most", [Series("A", [(BEGIN, 0.0)])])
    assert "<circle" in svg_of(chart)


@given(st.floats(1e-9, 1e12))
def test_an_axis_ends_at_a_round_number_not_below_and_not_far_above(value: float) -> None:
    top = nice(value)
    assert value <= top <= max(value * 10, 1.0)
    assert f"{top:e}"[0] in "125"


def test_the_terminal_ends_with_the_verdict() -> None:
    text = report_text(report_with("queue://A"))
    assert text.endswith("The ledger is broken: 1,234 messages, 1 lost.\n")
    assert "… 2 more" in text and "2026-01-31 00:00:00" in text


def test_a_name_gives_a_terminal_no_command() -> None:
    assert "\x1b" not in report_text(report_with("\x1b[2J"))


def test_machines_get_times_and_rows_by_name() -> None:
    found = json_of(report_with("queue://A"))
    assert found["begin"] == "2026-01-31T00:00:00+00:00"
    assert found["tables"] == {
        "ledger": {"title": "Ledger", "total": 1, "rows": [{"queue": "queue://A", "the ledger": "is broken"}]},
        "ids": {
            "title": "Messages to look at",
            "total": 3,
            "rows": [
                {"is": "lost", "message id": "queue://A", "queue": "queue://A", "sent": "2026-01-31T00:00:00+00:00"}
            ],
        },
    }


def test_times_have_usual_names_for_people_and_keep_their_keys_in_json() -> None:
    hops = Table("hops", "Hops", "", HOP_COLUMNS, [("A", "B", 3, 1.0, 2.0, 3.0, 4.0)], 1)
    report = Report(["a"], BEGIN, BEGIN, [Figure("messages", 3)], [hops], [], [], False)
    for text in (report_text(report), page(report, "T")):
        assert "median" in text and "95th percentile" in text and "below" not in text
        assert "No record of what was sent" in text
    (row,) = json_of(report)["tables"]["hops"]["rows"]  # type: ignore[index]
    assert row == {
        "from": "A", "to": "B", "messages": 3, "least": 1.0, "median": 2.0, "95th percentile": 3.0, "most": 4.0,
    }  # fmt: skip
