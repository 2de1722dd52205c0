"""Publish, browse, receive, lease and stream messages as JSON, at a broker in the same process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import pytest

from spanwire.model.destination import TOPIC, Destination
from spanwire.web.messages import handlers, message_stream
from spanwire.web.messages.message_json import read_message
from spanwire.web.rest import leases
from tests.support.web_application import BASE, Web, running

Scope = MutableMapping[str, Any]


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Web]:
    with running(monkeypatch, f"json-{abs(hash(request.node.name))}") as made:
        yield made


def test_a_message_is_published_browsed_received_and_acknowledged(web: Web) -> None:
    (sent,) = web.post("destinations/A/messages", {"body": "hello", "properties": {"n": 1}})["ids"]
    (browsed,) = web.get("destinations/A/messages")["messages"]
    assert (browsed["id"], browsed["body"], browsed["properties"]) == (sent, "hello", {"n": 1})
    leased = web.receive("A")
    assert [message["id"] for message in leased["messages"]] == [sent]
    assert web.receive("A") == {"lease": None, "messages": []}
    assert web.post(f"leases/{leased['lease']}/acknowledge") == {"acknowledged": 1}
    assert web.bodies("A") == []
    assert "no such lease" in web.post(f"leases/{leased['lease']}/acknowledge", status=404)["detail"]


def test_many_messages_are_published_together_or_none(web: Web) -> None:
    messages = [{"body": str(number)} for number in range(5)]
    assert len(web.post("destinations/A/messages", {"messages": messages})["ids"]) == 5
    assert web.bodies("A") == ["0", "1", "2", "3", "4"]
    wrong = [{"body": "good"}, {"body": "bad", "properties": {"not a name": 1}}]
    assert "message 2" in web.post("destinations/A/messages", {"messages": wrong}, 400)["detail"]
    assert len(web.bodies("A")) == 5


@pytest.mark.parametrize(
    "content", [{"messages": []}, {"messages": "x"}, {"messages": [1]}, {"messages": [{}], "body": "x"}, {"bdy": 1}]
)
def test_a_wrong_publication_is_refused(web: Web, content: object) -> None:
    web.post("destinations/A/messages", content, 400)
    assert web.bodies("A") == []


def test_s24_a_publication_of_too_many_messages_or_bytes_is_refused(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "MAX_PUBLISHED", 2)
    web.post("destinations/A/messages", {"messages": [{}] * 3}, 400)
    monkeypatch.setattr(handlers, "MAX_JSON_BYTES", 20)
    assert "/api/message" in web.post("destinations/A/messages", {"body": "x" * 20}, 413)["detail"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_s23_a_publication_that_a_form_could_send_is_refused(web: Web, content_type: str) -> None:
    path = f"{BASE}/api/v1/destinations/A/messages"
    assert web.client.post(path, content=b"{}", headers={"Content-Type": content_type}).status_code == 415


def test_a_selector_chooses_and_a_number_bounds(web: Web) -> None:
    messages = [{"body": str(n), "properties": {"n": n}} for n in range(6)]
    web.post("destinations/A/messages", {"messages": messages})
    assert len(web.get("destinations/A/messages?limit=2")["messages"]) == 2
    chosen = web.get("destinations/A/messages?selector=n%20%3E%203")["messages"]
    assert [message["body"] for message in chosen] == ["4", "5"]
    leased = web.receive("A", max_messages=2, selector="n < 3")
    assert [message["body"] for message in leased["messages"]] == ["0", "1"]
    assert web.client.get(f"{BASE}/api/v1/destinations/A/messages?selector=n%20%3E").status_code == 400


def test_messages_that_are_not_acknowledged_go_back_when_the_time_is_over(web: Web) -> None:
    web.post("destinations/A/messages", {"body": "x"})
    leased = web.receive("A", lease_ms=5_000)
    assert leased["lease_ms"] == 5_000
    web.clock.seconds = 4.9
    assert web.receive("A")["messages"] == []
    web.clock.seconds = 5.0
    web.post(f"leases/{leased['lease']}/acknowledge", status=404)
    assert web.client.portal is not None
    web.client.portal.call(web.logins.sweep)
    (again,) = web.receive("A")["messages"]
    assert (again["body"], again["redelivery_count"]) == ("x", 1)


def test_a_lease_is_extended_and_released(web: Web) -> None:
    web.post("destinations/A/messages", {"body": "x"})
    leased = web.receive("A", lease_ms=5_000)
    assert web.post(f"leases/{leased['lease']}/extend", {"lease_ms": 60_000})["lease_ms"] == 60_000
    web.clock.seconds = 30.0
    assert web.post(f"leases/{leased['lease']}/release") == {"released": 1}
    assert len(web.receive("A")["messages"]) == 1


@pytest.mark.parametrize(("asked", "given"), [(1, 400), (1_000, 1_000), (10**15, handlers.MAX_LEASE_MS)])
def test_a_lease_is_as_long_as_asked_from_a_second_to_twelve_hours(web: Web, asked: int, given: int) -> None:
    web.post("destinations/A/messages", {"body": "x"})
    if given == 400:
        assert "lease_ms" in web.post("destinations/A/messages/receive", {"lease_ms": asked}, 400)["detail"]
    else:
        assert web.receive("A", lease_ms=asked)["lease_ms"] == given


def test_some_messages_of_a_lease_are_acknowledged_and_the_others_go_back(web: Web) -> None:
    ids = web.post("destinations/A/messages", {"messages": [{"body": str(n)} for n in range(3)]})["ids"]
    leased = web.receive("A", max_messages=10)
    assert [message["id"] for message in leased["messages"]] == ids
    lease = f"leases/{leased['lease']}"
    assert "it goes on" in web.post(f"{lease}/acknowledge", {"ids": ["ID:other"]}, 404)["detail"]
    assert web.post(f"{lease}/acknowledge", {"ids": [ids[1]]}) == {"acknowledged": 1}
    assert web.bodies("A") == ["0", "2"]


def test_leases_of_a_user_are_bounded(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MAX_LEASES", 1)
    web.post("destinations/A/messages", {"messages": [{"body": "0"}, {"body": "1"}]})
    leased = web.receive("A")
    assert "at most 1 leases" in web.post("destinations/A/messages/receive", {}, 429)["detail"]
    web.post(f"leases/{leased['lease']}/acknowledge")
    assert len(web.receive("A")["messages"]) == 1


def test_messages_go_back_when_other_requests_have_taken_the_last_lease(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "MAX_LEASES", 1)
    web.post("destinations/A/messages", {"messages": [{"body": "0"}, {"body": "1"}]})
    leased = web.receive("A")
    check, has_room = leases.Leases.check, [True]  # the room of a moment before

    def checked(self: leases.Leases) -> None:
        if has_room:
            has_room.pop()
        else:
            check(self)

    monkeypatch.setattr(leases.Leases, "check", checked)
    assert "at most 1 leases" in web.post("destinations/A/messages/receive", {}, 429)["detail"]
    web.post(f"leases/{leased['lease']}/acknowledge")
    assert [message["body"] for message in web.receive("A", wait_ms=20_000)["messages"]] == ["1"]


def test_the_bytes_of_all_leases_are_bounded(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MAX_LEASED_BYTES", 1_000)
    web.post("destinations/A/messages", {"messages": [{"body": "x" * 2_000}, {"body": "y"}]})
    leased = web.receive("A")
    assert "1000 bytes" in web.post("destinations/A/messages/receive", {}, 429)["detail"]
    web.post(f"leases/{leased['lease']}/release")
    assert len(web.receive("A")["messages"]) == 1


def test_an_answer_takes_no_further_message_behind_its_bytes(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "MAX_ANSWER_BYTES", 1_000)
    web.post("destinations/A/messages", {"messages": [{"body": "x" * 2_000}, {"body": "y"}]})
    assert len(web.get("destinations/A/messages")["messages"]) == 1
    assert len(web.receive("A", max_messages=9)["messages"]) == 1


def test_a_topic_keeps_nothing_to_receive_or_browse(web: Web) -> None:
    assert "stream" in web.get("destinations/T/messages?type=topic", 400)["detail"]
    assert "stream" in web.post("destinations/T/messages/receive?type=topic", {}, 400)["detail"]
    web.post("destinations/T/messages?type=topic", {"body": "nobody listens"})


@pytest.mark.parametrize("name", ["A%00B", "A,B", "A%3Fx=1", "x%3A%2F%2Fy", "temp-queue%3A%2F%2FA"])
def test_s17_a_name_that_is_no_destination_is_refused_in_json(web: Web, name: str) -> None:
    web.post(f"destinations/{name}/messages", {"body": "x"}, 400)
    web.post(f"destinations/A/messages?type={name}", {"body": "x"}, 400)


@pytest.mark.parametrize("name", ["A/B", "A/messages", "Ä ö", "queue%3A%2F%2FQ"])
def test_a_name_is_taken_as_it_is(web: Web, name: str) -> None:
    web.post(f"destinations/{name}/messages", {"body": "x"})
    assert web.bodies(name) == ["x"]


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_s18_a_page_of_another_origin_takes_no_message(web: Web, headers: dict[str, str]) -> None:
    web.post("destinations/A/messages", {"body": "x"})
    path = f"{BASE}/api/v1/destinations/A/messages"
    assert web.client.post(f"{path}/receive", json={}, headers=headers).status_code == 403
    assert web.client.get(f"{path}/stream", headers={**headers, "Accept": "text/event-stream"}).status_code == 403
    assert web.client.get(f"{path}/stream").status_code == 406
    assert web.client.head(f"{path}/stream", headers={"Accept": "text/event-stream"}).status_code == 405
    assert web.bodies("A") == ["x"]


class Follower:
    """One request for a stream of messages, as the server makes it."""

    def __init__(self, web: Web, path: str) -> None:
        self.events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.gone = asyncio.Event()
        self._is_asked = False
        head, _, query = path.partition("?")
        path = f"/api/v1/destinations/{head}/messages/stream"
        scope: Scope = {
            "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "root_path": "", "scheme": "http", "http_version": "1.1", "client": ("127.0.0.1", 1), "server": None,
            "headers": [(b"host", b"127.0.0.1:8161"), (b"accept", b"text/event-stream")],
        }  # fmt: skip
        self.task = asyncio.get_running_loop().create_task(web.app(scope, self.receive, self.send))

    async def receive(self) -> Scope:
        if not self._is_asked:
            self._is_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        for event in message.get("body", b"").decode().split("\n\n"):
            if event.startswith("event: "):
                head, _, data = event.partition("\ndata: ")
                await self.events.put((head.removeprefix("event: "), json.loads(data)))
            elif event == ":":
                await self.events.put(("", None))

    async def next(self) -> tuple[str, Any]:
        async with asyncio.timeout(30):
            return await self.events.get()

    async def leave(self) -> None:
        self.gone.set()
        async with asyncio.timeout(30):
            await self.task


def run(web: Web, dialogue: Callable[[], Awaitable[None]]) -> None:
    """Run a dialogue in the event loop of the application."""
    assert web.client.portal is not None
    web.client.portal.call(dialogue)


def test_a_stream_has_one_event_for_each_message_of_a_topic(web: Web) -> None:
    async def dialogue() -> None:
        follower = Follower(web, "T?type=topic&selector=n%20%3D%201")
        assert await follower.next() == ("", None)
        login = await web.logins.login(None, None, "127.0.0.1")
        for number in (0, 1, 1):
            message = read_message({"body": f"{number}", "properties": {"n": number}})
            await login.send_together(Destination(TOPIC, "T"), [message])
        for _ in range(2):
            kind, message = await follower.next()
            assert (kind, message["destination"], message["body"]) == ("message", "topic://T", "1")
        await follower.leave()

    run(web, dialogue)


def test_a_stream_of_a_queue_takes_its_messages_and_gives_the_others_back(web: Web) -> None:
    web.post("destinations/A/messages", {"messages": [{"body": str(n)} for n in range(30)]})

    async def dialogue() -> None:
        follower = Follower(web, "A")
        assert await follower.next() == ("", None)
        assert [(await follower.next())[1]["body"] for _ in range(30)] == [str(n) for n in range(30)]
        await follower.leave()

    run(web, dialogue)
    assert web.bodies("A") == []


def test_a_message_that_could_not_be_written_stays_in_the_queue(web: Web) -> None:
    web.post("destinations/A/messages", {"messages": [{"body": "0"}, {"body": "1"}]})

    class Broken(Follower):
        async def send(self, message: MutableMapping[str, Any]) -> None:
            if b"event: message" in message.get("body", b""):
                raise OSError("the connection is broken")

    async def dialogue() -> None:
        with pytest.raises(OSError, match="broken"):
            await Broken(web, "A").task

    run(web, dialogue)
    assert web.bodies("A") == ["0", "1"]


def test_a_silent_stream_sends_comments_and_ends_after_an_hour(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_stream, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(message_stream, "STREAM_S", 0.05)

    async def dialogue() -> None:
        follower = Follower(web, "A")
        kinds = [(await follower.next())[0]]
        while kinds[-1] != "end":
            kinds.append((await follower.next())[0])
        assert kinds[:2] == ["", ""]
        await follower.task

    run(web, dialogue)
