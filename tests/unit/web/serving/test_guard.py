"""Requests that are refused by their form, before any route."""

from __future__ import annotations

import asyncio

import pytest
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from spanwire.web.routes import application
from spanwire.web.serving import guard
from spanwire.web.serving.guard import LEAST_RATE, MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_HEADERS, Guard, deadline
from tests.support.fake_broker_link import FakeBrokerLink

HERE = "127.0.0.1:8161"


def client_of(link: FakeBrokerLink, *, is_loopback: bool = True) -> TestClient:
    return TestClient(application(link, is_loopback=is_loopback), base_url=f"http://{HERE}")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8161", "127.0.0.1.evil.example", "0.0.0.0"])
def test_s23_a_name_of_another_host_does_not_reach_a_loopback_port(host: str) -> None:
    link = FakeBrokerLink(is_open=True)
    answer = client_of(link).get("/metrics", headers={"Host": host})
    assert answer.status_code == 421
    assert link.asked == []


@pytest.mark.parametrize("host", ["", "a b", "a/b", "user@127.0.0.1", "127.0.0.1:port", "[::1", "a:1:2", "é"])
def test_a_malformed_host_is_refused_on_every_port(host: str) -> None:
    client = client_of(FakeBrokerLink(), is_loopback=False)
    assert client.get("/health/live", headers={"Host": host.encode("utf-8")}).status_code == 400


@pytest.mark.parametrize("host", ["localhost:8161", "127.0.0.1", "[::1]:8161", "LOCALHOST"])
def test_the_names_of_loopback_are_served(host: str) -> None:
    assert client_of(FakeBrokerLink()).get("/health/live", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://127.0.0.1:8162", "http://[", "file://"])
def test_s23_a_page_of_another_origin_is_refused(origin: str) -> None:
    link = FakeBrokerLink()
    answer = client_of(link).get("/metrics", headers={"Origin": origin}, auth=("anna", "a-word"))
    assert answer.status_code == 403
    assert answer.json()["detail"] == f"the header Origin names another host or port than {HERE}: leave it out"
    assert link.asked == []


def test_s23_a_request_that_a_browser_calls_foreign_is_refused() -> None:
    client = client_of(FakeBrokerLink())
    assert client.get("/health/live", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.get("/health/live", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert client.get("/health/live", headers={"Origin": f"http://{HERE}"}).status_code == 200


def test_s23_every_response_forbids_frames_and_guesses() -> None:
    client = client_of(FakeBrokerLink())
    for path in ("/health/live", "/metrics", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_s24_a_large_head_is_refused() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    for headers in ({"X": "x" * MAX_HEAD_BYTES}, {f"X-{number}": "" for number in range(MAX_HEADERS)}):
        assert client.get("/metrics", headers=headers, auth=("anna", "a-word")).status_code == 431
    assert client.get("/" + "a" * MAX_HEAD_BYTES).status_code == 431
    assert link.asked == []


def test_s24_a_large_body_is_refused() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    assert client.post("/metrics", content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    assert client.post("/metrics", content=iter([b"x" * 1024] * 17)).status_code == 413
    assert client.post("/metrics", content=b"x" * MAX_BODY_BYTES).status_code == 405
    assert link.asked == []


@pytest.mark.parametrize("length", ["-1", "1e3", "9" * 5000, "1,1", ""])
def test_s24_a_false_length_is_refused(length: str) -> None:
    answer = client_of(FakeBrokerLink()).post("/metrics", content=b"", headers={"Content-Length": length})
    assert answer.status_code == 413


def test_s24_a_large_body_may_take_longer() -> None:
    assert deadline(100.0, 10.0, 0) == 110.0
    assert deadline(100.0, 10.0, 20 * LEAST_RATE) == 130.0


def test_s24_all_bodies_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_BODIES_BYTES", 1_000)
    client = client_of(FakeBrokerLink())
    for _ in range(3):  # the bytes of a request that has ended count no more
        assert client.post("/metrics", content=b"x" * 1_000).status_code == 405
        assert client.post("/metrics", content=b"x" * 1_001).status_code == 503


def test_s24_a_body_that_never_comes_is_given_up() -> None:
    async def application_(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("a route was reached")

    async def never() -> Message:
        waiting: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        return await waiting

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {"type": "http", "method": "POST", "headers": [(b"host", HERE.encode())]}
    asyncio.run(Guard(application_, is_loopback=True, body_s=0)(scope, never, send))
    assert sent[0]["status"] == 408


ADMINISTRATOR = ("anna", "a-word")


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Length": "5"},
        {"Content-Length": "5", "Content-Type": "application/json"},
        {"Transfer-Encoding": "chunked", "Content-Type": "application/json; charset=utf-8"},
        {"Content-Length": "0" * 5000 + "1"},
    ],
)
def test_s24_an_operation_whose_announced_body_has_not_come_is_refused(headers: dict[str, str]) -> None:
    link = FakeBrokerLink()
    answer = client_of(link).post("/api/v1/queues/A/purge", content=b"", headers=headers, auth=ADMINISTRATOR)
    assert answer.status_code == 400
    assert link.count("purge") == 0


@pytest.mark.parametrize("headers", [{}, {"Content-Length": "000"}, {"Content-Type": "application/json"}])
def test_an_operation_without_a_body_has_no_arguments(headers: dict[str, str]) -> None:
    link = FakeBrokerLink()
    answer = client_of(link).post("/api/v1/queues/A/purge", content=b"", headers=headers, auth=ADMINISTRATOR)
    assert answer.status_code == 200
    assert link.count("purge") == 1
