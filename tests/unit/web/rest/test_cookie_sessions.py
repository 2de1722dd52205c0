"""Sessions of clients that keep cookies and name no ``clientId``, at a broker in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from spanwire.model.destination import TOPIC, Destination
from spanwire.web.rest import sessions
from spanwire.web.rest.logins import Login
from tests.support.web_application import Web, running

T = Destination(TOPIC, "T")
READ = "/api/message/T?type=topic&timeout=1"


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Web]:
    with running(monkeypatch, f"cookies-{abs(hash(request.node.name))}") as made:
        yield made


def send(web: Web, text: str) -> None:
    answer = web.client.post("/api/message/T?type=topic", content=text, headers={"Content-Type": "text/plain"})
    assert answer.text == "Message sent"


def login(web: Web) -> Login:
    """The login of the test's user."""
    (task,) = web.logins._logins.values()
    return task.result()


def sweep(web: Web) -> None:
    assert web.client.portal is not None
    web.client.portal.call(web.logins.sweep)


def test_a_client_with_a_cookie_gets_what_a_topic_had_between_two_reads(web: Web) -> None:
    assert web.client.get(READ).status_code == 204
    send(web, "one")
    send(web, "two")
    assert [web.client.get(READ).text, web.client.get(READ).text] == ["one", "two"]
    assert login(web).sessions.count == 1


def test_the_cookie_is_hidden_from_scripts_and_other_sites(web: Web) -> None:
    cookie = web.client.get(READ).headers["set-cookie"]
    assert cookie.startswith("spanwire-reader-")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert "set-cookie" not in web.client.get(READ).headers


def test_a_message_brings_the_cookie_too(web: Web) -> None:
    async def read_and_send() -> str:
        reading = asyncio.to_thread(web.client.get, READ.replace("timeout=1", "timeout=5000"))
        task = asyncio.ensure_future(reading)
        while not any(one.done() and one.result().sessions.count for one in web.logins._logins.values()):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(send, web, "first")
        answer = await task
        return f"{answer.text} {answer.headers['set-cookie'].partition('=')[0]}"

    assert asyncio.run(read_and_send()).startswith("first spanwire-reader-")


def test_a_queue_needs_no_cookie_and_an_only_read_neither(web: Web) -> None:
    for query in ("type=queue&timeout=1", "type=topic&timeout=1&oneShot=true", "type=topic&timeout=1&clientId=c"):
        assert "set-cookie" not in web.client.get(f"/api/message/T?{query}").headers


def test_another_client_has_another_session(web: Web) -> None:
    web.client.get(READ)
    web.client.cookies.clear()
    web.client.get(READ)
    send(web, "both")
    assert web.client.get(READ).text == "both"
    assert login(web).sessions.count == 2


@pytest.mark.parametrize("value", ["", "short", "a" * 65, "clientId with blanks and more", "é" * 20])
def test_s16_a_cookie_of_another_form_is_none(web: Web, value: str) -> None:
    name = web.client.get(READ).headers["set-cookie"].partition("=")[0]
    web.client.cookies.clear()
    answer = web.client.get(READ, headers={"Cookie": f"{name}={value}".encode()})
    assert answer.status_code == 204
    assert "set-cookie" in answer.headers


def test_a_session_by_cookie_is_unsubscribed(web: Web) -> None:
    path = "/api/message/T?type=topic&action=unsubscribe"
    assert web.client.post(path).status_code == 400
    web.client.get(READ)
    assert web.client.post(path).status_code == 200
    assert web.client.post(path).status_code == 404
    assert login(web).sessions.count == 0


def test_the_last_read_ends_a_session_by_cookie(web: Web) -> None:
    web.client.get(READ)
    assert web.client.get(f"{READ}&oneShot=true").status_code == 204
    assert login(web).sessions.count == 0


def test_a_session_whose_cookie_never_comes_back_ends_early(web: Web) -> None:
    web.client.get(READ)
    web.client.cookies.clear()
    web.client.get(READ)
    web.client.get(READ)  # with the cookie of the second session
    web.clock.seconds = sessions.UNCONFIRMED_S
    sweep(web)
    assert login(web).sessions.count == 1
    send(web, "kept")
    assert web.client.get(READ).text == "kept"


def test_s24_clients_without_cookies_fill_no_user_s_sessions(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_UNCONFIRMED", 3)
    monkeypatch.setattr(sessions, "MAX_READERS", 4)
    for _ in range(10):
        web.client.cookies.clear()
        assert web.client.get(READ).status_code == 204
    assert login(web).sessions.count == 3
    for number in range(4):  # a name takes the place of a client that keeps no cookies
        assert web.client.get(f"{READ}&clientId=named{number}").status_code == 204
    assert login(web).sessions.count == 4
    assert web.client.get(f"{READ}&clientId=more").status_code == 429
    web.client.cookies.clear()
    answer = web.client.get(READ)  # as without a session
    assert (answer.status_code, "set-cookie" in answer.headers) == (204, False)
