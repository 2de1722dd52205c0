"""How old a page is: five seconds at most while it follows changes, or it says so."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from importlib.resources import files

from starlette.testclient import TestClient

from spanwire.web.events.changes import SLOW_S
from spanwire.web.link import MAX_AGE_S, Snapshots
from spanwire.web.routes import application
from tests.support.fake_broker_link import FakeBrokerLink, destination

HOST = "http://127.0.0.1:8161"
LIMIT_S = 5.0
LIVE = files("spanwire.web.console").joinpath("assets/live.js").read_text("utf-8")


def test_the_waits_of_a_page_that_follows_changes_are_less_than_five_seconds_together() -> None:
    found = re.search(r"LEAST_MS = ([0-9_]+);", LIVE)
    assert found is not None
    between_loads_s = int(found[1].replace("_", "")) / 1_000
    # A change waits for the next round of readings, whose answer may be shared, and then for the next load of the page.
    assert SLOW_S + MAX_AGE_S + between_loads_s < LIMIT_S


def test_a_page_is_loaded_again_once_its_stream_is_open_and_no_older_answer_is_shared() -> None:
    """The stream tells changes since its first reading; a page may be made from an older one."""
    found = re.search(r"SHARED_MS = ([0-9_]+);", LIVE)
    assert found is not None
    assert int(found[1].replace("_", "")) / 1_000 >= MAX_AGE_S
    opened = LIVE[LIVE.index('addEventListener("open"') :]
    assert "schedule(SHARED_MS);" in opened[: opened.index("});")]


def test_a_page_has_what_the_broker_said_within_the_last_second() -> None:
    link, now = FakeBrokerLink(), 0.0
    snapshots = Snapshots(link, lambda: now)

    async def pending() -> object:
        rows = await snapshots.answer("destinations")
        assert isinstance(rows, list)
        return rows[0]["pending"]

    async def scenario() -> None:
        nonlocal now
        assert await pending() == 3
        link.answers["destinations"] = [destination("queue://A", 4)]
        assert await pending() == 3
        now += MAX_AGE_S
        assert await pending() == 4

    asyncio.run(scenario())


def test_each_page_says_when_it_was_made() -> None:
    client = TestClient(application(FakeBrokerLink(), is_loopback=True), base_url=HOST)
    before = datetime.now(UTC).replace(microsecond=0)
    name = "name=queue://A"
    for path in ("/admin", "/admin/queues", f"/admin/queue?{name}", f"/admin/messages?{name}", "/admin/tasks"):
        text = client.get(path, auth=("vera", "v-word")).text
        made = re.search(r'id="made">Shown as of <time datetime="([^"]+)"', text)
        assert made is not None, path
        assert before <= datetime.fromisoformat(made[1]) <= datetime.now(UTC)
    assert 'id="made"' not in client.get("/admin/login").text
