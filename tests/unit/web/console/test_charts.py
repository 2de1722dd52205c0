"""Charts over time: rates, averages, ticks, gaps, and what a page shows of them."""

from __future__ import annotations

import asyncio
import math

import pytest
from starlette.testclient import TestClient

from spanwire.web.console.figures.charts import LEFT, averages, chart, charts_of, rates, tick_step
from spanwire.web.console.figures.history import MINUTES, SECONDS
from spanwire.web.console.figures.recorder import Recorder
from spanwire.web.link import Snapshots
from spanwire.web.login.sessions import IDLE_S
from spanwire.web.routes import application
from tests.support.fake_broker_link import FakeBrokerLink, destination

NAN = math.nan
HOST = "http://127.0.0.1:8161"


def test_rates_go_over_gaps_and_stop_at_a_restart() -> None:
    found = rates([NAN, 10, 12, NAN, NAN, 18, 3, 4], 2)
    assert [str(value) for value in found] == ["nan", "nan", "1.0", "nan", "nan", "1.0", "nan", "0.5"]


def test_averages_leave_out_what_is_unknown() -> None:
    assert [str(value) for value in averages([1, 3, NAN, 5, NAN, NAN], 2)] == ["2.0", "5.0", "nan"]


@pytest.mark.parametrize(
    ("greatest", "step"), [(0, 1), (0.3, 1), (1, 1), (3, 1), (9, 5), (40, 10), (117, 50), (1_000_000, 500_000)]
)
def test_ticks_are_round_numbers(greatest: float, step: float) -> None:
    assert tick_step(greatest) == step


def test_a_line_is_not_drawn_through_a_gap() -> None:
    values = [NAN] * SECONDS
    values[0:20] = [5] * 20
    values[-20:] = [10] * 20
    drawn = chart("Pending", "messages", [("pending", values)], is_day=False)
    [line] = drawn.lines
    assert line.path.count("M") == 2
    assert (line.last, line.greatest, drawn.is_empty) == ("10", "10", False)
    assert [text for _, text in drawn.ticks] == ["0", "5", "10"]
    assert [text for _, text in drawn.times] == ["1 h ago", "45 min ago", "30 min ago", "15 min ago", "now"]
    assert max(float(part.split()[0]) for part in line.path.replace("h0.1", "").replace("M", "L").split("L")[1:]) == 600


def test_a_chart_of_a_young_process_says_what_is_not_recorded() -> None:
    link, time = FakeBrokerLink(), 1_800_000_000.0
    recorder = Recorder(Snapshots(link, lambda: time), lambda: time)
    client = TestClient(application(link, is_loopback=True, recorder=recorder), base_url=HOST)

    async def record(seconds: int) -> None:
        nonlocal time
        for _ in range(seconds):
            await recorder.record()
            time += 1

    asyncio.run(record(60))
    time -= 1
    [pending, _] = charts_of(recorder, "", is_day=False)
    assert pending.begins == 590.8  # a minute of an hour is a sixtieth of the width
    text = client.get("/admin", auth=("vera", "v-word")).text
    assert text.count(">not recorded</text>") == 2 and "nothing is recorded before" in text
    assert 'Recorded since <time datetime="2027-01-15T08:00:00Z">' in text
    full = chart("Pending", "messages", [("pending", [1.0] * SECONDS)], is_day=False)
    rate = chart("Rates", "messages a second", [("sent", [NAN, *[1.0] * (SECONDS - 1)])], is_day=False)
    assert full.begins == rate.begins == LEFT


def test_a_chart_without_values_says_so() -> None:
    drawn = chart("Pending", "messages", [("pending", [NAN] * MINUTES)], is_day=True)
    assert drawn.is_empty
    assert drawn.times[0][1] == "24 h ago"


def test_pages_have_charts_of_what_was_recorded() -> None:
    link = FakeBrokerLink()
    time = 1_800_000_000.0
    recorder = Recorder(Snapshots(link, lambda: time), lambda: time)
    client = TestClient(application(link, is_loopback=True, recorder=recorder), base_url=HOST)
    auth = ("vera", "v-word")
    assert "Nothing is recorded yet" in client.get("/admin", auth=auth).text

    async def record() -> None:
        nonlocal time
        for number in range(20):
            link.answers["destinations"] = [destination("queue://A", number, 10 * number)]
            await recorder.record()
            time += 1

    asyncio.run(record())
    time -= 1
    pending, flow = charts_of(recorder, "queue://A", is_day=False)
    assert (pending.lines[0].last, flow.lines[0].last, flow.lines[1].last) == ("14.5", "10", "9")
    for path in ("/admin", "/admin/queue?name=queue://A", "/admin?span=day"):
        text = client.get(path, auth=auth).text
        assert '<path class="line line-1" d="M' in text
        assert "Recorded since" in text


def test_a_link_has_charts_of_both_directions() -> None:
    link = FakeBrokerLink()
    recorder = Recorder(Snapshots(link, lambda: 0.0), lambda: 1_800_000_000.0)
    asyncio.run(recorder.record())
    client = TestClient(application(link, is_loopback=True, recorder=recorder), base_url=HOST)
    text = client.get("/admin/link?name=to-billing", auth=("vera", "v-word")).text
    assert "In flight over the last hour; in flight now 0, at most 0" in text
    assert "<dd>tcp://billing:61616</dd>" in text
    assert "/admin/do/links" not in text
    assert "/admin/do/links/stop?connectors=to-billing" in client.get(
        "/admin/link?name=to-billing", auth=("anna", "a-word")
    ).text  # fmt: skip
    assert client.get("/admin/link?name=none", auth=("vera", "v-word")).status_code == 404


def test_a_page_that_follows_changes_is_no_use_of_the_session() -> None:
    now = 0.0
    link = FakeBrokerLink()
    client = TestClient(application(link, is_loopback=True, now=lambda: now), base_url=HOST, follow_redirects=False)
    client.post("/admin/login", data={"user": "vera", "password": "v-word"}, headers={"Origin": HOST})
    now = IDLE_S - 1
    assert client.get("/admin", headers={"X-Spanwire-Live": "1"}).status_code == 200
    now = IDLE_S + 1
    assert client.get("/admin").status_code == 303


def test_pages_name_the_views_that_they_follow() -> None:
    client = TestClient(application(FakeBrokerLink(), is_loopback=True), base_url=HOST)
    auth = ("otto", "o-word")
    for path, words in (
        ("/admin", 'data-views="broker,links,connectors,tasks"'),
        ("/admin/queues", 'data-views="queues"'),
        ("/admin/queue?name=queue://A", 'data-views="queues" data-destination="queue://A"'),
    ):
        assert words in client.get(path, auth=auth).text
    assert "data-views" not in client.get("/admin/send", auth=auth).text
