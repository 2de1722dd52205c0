"""The stream of changes: rounds shared by all listeners, roles, bounds, and the ends of a stream."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from spanwire.management.control_client import ControlError
from spanwire.web.events.changes import (
    INTERVAL_S,
    MAX_INTERVAL_S,
    MAX_LISTENERS,
    MAX_ROWS,
    RENEWAL_S,
    ROWS_PER_S,
    Changes,
)
from spanwire.web.events.listener import HEARTBEAT_S, MAX_WAITING
from spanwire.web.events.stream import MAX_DESTINATIONS
from spanwire.web.login.sessions import IDLE_S
from spanwire.web.routes import application
from tests.support.fake_broker_link import LINK, SUMMARY, FakeBrokerLink, destination

Event = tuple[str, dict[str, object]]


class Client:
    """One open stream; it takes nothing while `reads` is not set."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.is_complete = False
        self.gone = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self._has_request = False

    async def receive(self) -> Message:
        if not self._has_request:
            self._has_request = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body += message["body"]
            self.is_complete = not message.get("more_body", False)

    def events(self) -> list[Event]:
        """The events since the last call."""
        taken, self.body = self.body.decode(), b""
        found: list[Event] = []
        for block in taken.split("\n\n"):
            lines = dict(line.partition(": ")[::2] for line in block.splitlines())
            if "event" in lines:
                found.append((lines["event"], json.loads(lines["data"])))
        return found


class Stage:
    """The application with time and rounds in the test's hand."""

    def __init__(self) -> None:
        self.link = FakeBrokerLink()
        self.time = 1_000.0
        self.pauses: list[float] = []
        self._ticks: asyncio.Queue[None] = asyncio.Queue()
        self.changes = Changes(lambda: self.time, self._pause)
        self.app = application(self.link, is_loopback=True, now=lambda: self.time, changes=self.changes)
        self._running: list[asyncio.Task[None]] = []

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self._ticks.get()

    async def settle(self) -> None:
        for _ in range(60):
            await asyncio.sleep(0)

    async def round(self, seconds: float = INTERVAL_S) -> None:
        self.time += seconds
        self._ticks.put_nowait(None)
        await self.settle()

    async def open(self, query: str = "views=queues", user: str = "vera:v-word", **headers: str) -> Client:
        client = Client()
        known = {"host": "127.0.0.1:8161", **headers}
        if user:
            known["authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        scope = {
            "type": "http", "method": "GET", "path": "/api/v1/events", "raw_path": b"/api/v1/events", "scheme": "http",
            "query_string": query.encode(), "client": ("127.0.0.1", 4711), "server": ("127.0.0.1", 8161),
            "headers": [(name.encode(), value.encode()) for name, value in known.items()], "root_path": "",
        }  # fmt: skip
        work = cast(Awaitable[None], self.app(scope, client.receive, client.send))
        self._running.append(asyncio.ensure_future(work))
        await self.settle()
        return client

    def set(self, *rows: dict[str, object]) -> None:
        self.link.answers["destinations"] = list(rows)


def run(scene: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        await scene(Stage())

    asyncio.run(main())


def test_a_listener_gets_rows_that_change_and_names_of_rows_that_go() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.open()
        assert client.events() == [("open", {"views": ["queues"]})]
        stage.set(destination("queue://A", 4, 11), destination("queue://B"))
        await stage.round()
        ((name, content),) = client.events()
        changed = content["changed"]
        assert isinstance(changed, list)
        assert (name, [(row["destination"], row["pending"]) for row in changed]) == (
            "queues", [("queue://A", 4), ("queue://B", 0)],
        )  # fmt: skip
        stage.set(destination("queue://A", 4, 11))
        await stage.round()
        assert client.events() == [
            ("queues", {"changed": [], "removed": [{"destination": "queue://B"}], "reload": False})
        ]
        await stage.round()
        assert client.events() == []

    run(scene)


def test_the_broker_is_asked_once_a_round_whatever_the_number_of_listeners() -> None:
    async def scene(stage: Stage) -> None:
        clients = [await stage.open("views=queues,topics") for _ in range(MAX_LISTENERS)]
        stage.set(destination("queue://A", 5, 10))
        before = stage.link.count("changes")
        for _ in range(3):
            await stage.round()
        assert stage.link.count("changes") - before == 3
        assert stage.link.count("login") == 1
        assert all(client.events()[-1][0] in ("queues", "topics") for client in clients)
        refused = await stage.open()
        assert (refused.status, refused.is_complete) == (503, True)

    run(scene)


@pytest.mark.parametrize(
    ("rows", "pause"), [(2, INTERVAL_S), (10 * ROWS_PER_S, 10.0), (61 * ROWS_PER_S, MAX_INTERVAL_S)]
)
def test_rounds_are_rarer_the_more_rows_the_broker_has_to_show(rows: int, pause: float) -> None:
    async def scene(stage: Stage) -> None:
        stage.link.answers["consumers"] = [{"consumer_id": str(number)} for number in range(rows)]
        await stage.open("views=consumers")
        assert stage.pauses == [pause]

    run(scene)


def test_clients_are_told_how_far_apart_the_readings_are() -> None:
    async def scene(stage: Stage) -> None:
        stage.link.answers["consumers"] = [{"consumer_id": str(number)} for number in range(10 * ROWS_PER_S)]
        first = await stage.open("views=consumers")
        await stage.round()
        second = await stage.open("views=consumers")
        assert first.events() == [("open", {"views": ["consumers"]}), ("pace", {"seconds": 10})]
        assert second.events() == [("open", {"views": ["consumers"]}), ("pace", {"seconds": 10})]
        stage.link.answers["consumers"] = []
        await stage.round(MAX_INTERVAL_S)
        assert [event for event in first.events() if event[0] == "pace"] == [("pace", {"seconds": 0})]

    run(scene)


def test_ages_that_grow_are_no_changes() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.open("views=links,broker")
        stage.link.answers["summary"] = {**SUMMARY, "uptime_s": 13.5, "network_connectors": [{**LINK, "since_s": 4.0}]}
        await stage.round()
        assert [name for name, _ in client.events()] == ["open"]
        stage.link.answers["summary"] = {**SUMMARY, "network_connectors": [{**LINK, "state": "waiting"}]}
        await stage.round()
        ((name, content),) = client.events()
        changed = content["changed"]
        assert isinstance(changed, list)
        assert (name, changed[0]["state"], changed[0]["up"]) == ("links", "waiting", False)

    run(scene)


def test_after_very_many_changes_a_list_is_loaded_again() -> None:
    async def scene(stage: Stage) -> None:
        stage.set(*(destination(f"queue://{number}") for number in range(MAX_ROWS + 1)))
        client = await stage.open()
        stage.set(*(destination(f"queue://{number}", 1) for number in range(MAX_ROWS + 1)))
        await stage.round()
        assert client.events()[1:] == [("queues", {"changed": [], "removed": [], "reload": True})]
        stage.set(*(destination(f"queue://{number}", 2 if number else 1) for number in range(MAX_ROWS + 1)))
        await stage.round()
        (content,) = [content for _, content in client.events()]
        assert len(cast(list[object], content["changed"])) == MAX_ROWS

    run(scene)


def test_a_listener_may_name_the_destinations_that_it_is_for() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.open("views=queues,connections&destination=queue://B&destination=queue://C")
        stage.set(destination("queue://A", 9), destination("queue://B", 1))
        stage.link.answers["connections"] = [{"connection_id": "c1"}]
        await stage.round()
        _, (_, queues), (_, connections) = client.events()
        assert [row["destination"] for row in cast(list[dict[str, object]], queues["changed"])] == ["queue://B"]
        assert connections["changed"] == [{"connection_id": "c1"}]
        stage.set(destination("queue://A", 8), destination("queue://B", 1))
        await stage.round()
        assert client.events() == []

    run(scene)


def test_a_client_that_does_not_read_is_dropped_and_delays_nobody() -> None:
    async def scene(stage: Stage) -> None:
        slow, quick = await stage.open(), await stage.open()
        slow.reads.clear()
        for number in range(MAX_WAITING + 2):
            stage.set(destination("queue://A", number + 100))
            await stage.round()
        assert len(quick.events()) == MAX_WAITING + 3
        slow.reads.set()
        await stage.settle()
        assert slow.events()[-1] == ("end", {"detail": f"{MAX_WAITING} events were not taken"})
        assert slow.is_complete
        assert not quick.is_complete

    run(scene)


def test_a_stream_without_changes_has_comments_that_keep_it_open() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.open()
        client.body = b""
        await stage.round(HEARTBEAT_S - 1)
        assert client.body == b""
        await stage.round(1)
        assert client.body == b":\n\n"

    run(scene)


def test_nobody_is_asked_after_the_last_client_has_gone() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.open()
        client.gone.set()
        await stage.settle()
        await stage.round()
        asked = len(stage.link.asked)
        await stage.round()
        assert len(stage.link.asked) == asked
        again = await stage.open()
        assert again.events() == [("open", {"views": ["queues"]})]

    run(scene)


def test_s19_a_stream_needs_a_login_with_a_role() -> None:
    async def scene(stage: Stage) -> None:
        assert (await stage.open(user="")).status == 401
        assert (await stage.open(user="vera:wrong")).status == 401
        assert stage.link.count("changes") == 0

    run(scene)


def test_s19_a_stream_ends_when_its_user_may_no_longer_view() -> None:
    async def scene(stage: Stage) -> None:
        vera, otto = await stage.open(), await stage.open(user="otto:o-word")
        del stage.link.users["vera"]
        await stage.round(RENEWAL_S)
        assert vera.events()[-1] == ("end", {"detail": "User name or password is invalid."})
        assert vera.is_complete
        assert not otto.is_complete

    run(scene)


def test_an_open_stream_does_not_keep_the_session_of_an_unattended_browser() -> None:
    async def scene(stage: Stage) -> None:
        browser = TestClient(stage.app, base_url="http://127.0.0.1:8161")
        assert browser.post("/api/v1/session", auth=("vera", "v-word")).status_code == 200
        ((name, token),) = browser.cookies.items()
        client = await stage.open(user="", cookie=f"{name}={token}")
        await stage.round(IDLE_S - 1)
        assert not client.is_complete
        await stage.round(RENEWAL_S)
        assert client.is_complete

    run(scene)


def test_a_stream_survives_a_restart_of_the_broker() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.open()
        stage.link.is_there = False
        await stage.round()
        await stage.round()
        assert client.events()[1:] == [("unreachable", {"detail": "no broker runs"})]
        stage.link.is_there = True
        stage.link.forget_handles()
        await stage.round()
        assert client.events() == [("open", {"views": ["queues"]})]
        assert stage.link.count("login") == 2

    run(scene)


def test_streams_end_with_the_web_process() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.open()
        stage.changes.stop()
        await stage.settle()
        assert client.events()[-1] == ("end", {"detail": "the web process ends"})
        assert client.is_complete
        assert (await stage.open()).status == 503

    run(scene)


def test_a_fault_of_the_web_process_ends_the_streams_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.open()

        async def fail(command: str, **arguments: object) -> object:
            raise RuntimeError("a fault of ours")

        stage.link.ask = fail  # type: ignore[method-assign]
        await stage.round()
        assert client.events()[-1] == ("end", {"detail": "the web process failed; its log says why"})

    run(scene)
    assert "the stream of changes failed" in caplog.text


@pytest.mark.parametrize(
    "query",
    [
        "",
        "views=",
        "views=queue",
        "views=queues,*",
        "views=queues&since=1",
        "views=queues&" + "&".join(f"destination={number}" for number in range(MAX_DESTINATIONS + 1)),
    ],
)
def test_a_query_without_meaning_opens_no_stream(query: str) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.open(query)
        assert (client.status, client.is_complete) == (400, True)

    run(scene)


def test_the_description_has_the_stream() -> None:
    client = TestClient(application(FakeBrokerLink(), is_loopback=True), base_url="http://127.0.0.1:8161")
    described = client.get("/api/v1/openapi.json", auth=("vera", "v-word")).json()["paths"]["/api/v1/events"]["get"]
    assert list(described["responses"]["200"]["content"]) == ["text/event-stream"]
    assert [(one["name"], one.get("required", False)) for one in described["parameters"]] == [
        ("views", True), ("destination", False),
    ]  # fmt: skip
    assert "queues" in described["parameters"][0]["schema"]["items"]["enum"]


def test_a_refusal_by_the_broker_is_shown() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.open()

        async def refuse(command: str, **arguments: object) -> object:
            raise ControlError("the broker stops", "refused")

        stage.link.ask = refuse  # type: ignore[method-assign]
        await stage.round()
        assert client.events()[-1] == ("unreachable", {"detail": "the broker stops"})

    run(scene)
