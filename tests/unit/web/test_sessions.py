"""Sessions of browsers: cookie, time-outs, bounds, log-out, and proof of the origin."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from spanwire.web.login.cookies import proves_origin
from spanwire.web.login.sessions import IDLE_S, MAX_OF_USER, MAX_SESSIONS, TOTAL_S, Sessions
from spanwire.web.routes import application
from tests.support.fake_broker_link import FakeBrokerLink

NAME = "spanwire-session-8161"
SECURE_NAME = f"__Host-{NAME}"
SESSION = "/api/v1/session"
PAUSE = "/api/v1/queues/A/pause"
OWN = {"Origin": "http://127.0.0.1:8161"}


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def client_of(link: FakeBrokerLink, clock: Clock | None = None, base: str = "http://127.0.0.1:8161") -> TestClient:
    return TestClient(application(link, is_loopback=True, now=clock or Clock()), base_url=base)


def logged_in(link: FakeBrokerLink, user: str = "otto", clock: Clock | None = None) -> TestClient:
    client = client_of(link, clock)
    answer = client.post(SESSION, auth=(user, f"{user[0]}-word"))
    assert answer.status_code == 200
    return client


def test_a_cookie_replaces_the_credentials_until_the_log_out() -> None:
    client = logged_in(FakeBrokerLink())
    assert client.get("/metrics").status_code == 200
    assert client.post(PAUSE, headers=OWN).status_code == 200
    token = client.cookies[NAME]
    assert client.delete(SESSION, headers=OWN).status_code == 200
    assert NAME not in client.cookies
    assert client.get("/metrics", headers={"Cookie": f"{NAME}={token}"}).status_code == 401


def test_the_cookie_is_for_this_site_alone_and_hidden_from_scripts() -> None:
    answer = client_of(FakeBrokerLink()).post(SESSION, auth=("vera", "v-word"))
    name, *attributes = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"{NAME}=")
    assert {one.lower() for one in attributes} == {"httponly", "samesite=strict", "path=/", f"max-age={TOTAL_S}"}
    assert answer.json() == {"result": {"user": "vera", "role": "view", "idle_s": IDLE_S, "total_s": TOTAL_S}}


def test_over_tls_the_cookie_is_secure() -> None:
    client = client_of(FakeBrokerLink(), base="https://127.0.0.1:8161")
    cookie = client.post(SESSION, auth=("vera", "v-word")).headers["set-cookie"]
    assert cookie.startswith(f"{SECURE_NAME}=")
    assert "; Secure" in cookie
    assert client.get("/metrics").status_code == 200
    token = client.cookies[SECURE_NAME]
    other = client_of(FakeBrokerLink())
    assert other.get("/metrics", headers={"Cookie": f"{NAME}={token}"}).status_code == 401


@pytest.mark.parametrize("auth", [None, ("vera", "wrong")])
def test_only_credentials_begin_a_session(auth: tuple[str, str] | None) -> None:
    answer = client_of(FakeBrokerLink()).post(SESSION, auth=auth)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


def test_a_session_begins_no_further_one_and_nobody_needs_one_without_users() -> None:
    client = logged_in(FakeBrokerLink())
    assert client.post(SESSION, headers=OWN).status_code == 400
    assert client_of(FakeBrokerLink(is_open=True)).post(SESSION).status_code == 400


@pytest.mark.parametrize("headers", [{}, {"Sec-Fetch-Site": "none"}])
@pytest.mark.parametrize(("method", "path"), [("POST", PAUSE), ("DELETE", SESSION), ("POST", "/api/jolokia")])
def test_s23_a_cookie_without_a_proof_of_the_origin_changes_nothing(
    method: str, path: str, headers: dict[str, str]
) -> None:
    link = FakeBrokerLink()
    client = logged_in(link)
    assert client.request(method, path, headers=headers).status_code == 403
    assert link.count("pause") == 0
    assert client.get("/metrics").status_code == 200


@pytest.mark.parametrize("headers", [OWN, {"Sec-Fetch-Site": "same-origin"}])
def test_s23_a_page_of_this_host_operates(headers: dict[str, str]) -> None:
    assert logged_in(FakeBrokerLink()).post(PAUSE, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_s23_a_page_of_another_host_is_refused_with_a_cookie(headers: dict[str, str]) -> None:
    link = FakeBrokerLink()
    assert logged_in(link).post(PAUSE, headers=headers).status_code == 403
    assert link.count("pause") == 0


def test_s23_credentials_need_no_origin() -> None:
    answer = client_of(FakeBrokerLink()).post(PAUSE, auth=("otto", "o-word"))
    assert answer.status_code == 200
    assert proves_origin("HEAD", {})


def test_a_session_ends_when_it_is_idle_and_after_a_day_s_work() -> None:
    clock = Clock()
    client = logged_in(FakeBrokerLink(), clock=clock)
    clock.time = IDLE_S - 1
    assert client.get("/metrics").status_code == 200
    clock.time = 2 * IDLE_S - 1
    assert client.get("/metrics").status_code == 401
    client = logged_in(FakeBrokerLink(), clock=clock)
    began = clock.time
    while clock.time < began + TOTAL_S - IDLE_S / 2:
        assert client.get("/metrics").status_code == 200
        clock.time += IDLE_S / 2
    clock.time = began + TOTAL_S
    assert client.get("/metrics").status_code == 401


def test_a_changed_password_ends_the_session() -> None:
    link, clock = FakeBrokerLink(), Clock()
    client = logged_in(link, clock=clock)
    link.users = {"otto": ("new", "operate")}
    clock.time = 60
    assert client.get("/metrics").status_code == 401
    link.users = {"otto": ("o-word", "operate")}
    assert client.get("/metrics").status_code == 401


def test_a_broker_that_has_started_again_is_logged_in_to_again() -> None:
    link = FakeBrokerLink()
    client = logged_in(link)
    link.forget_handles()
    assert client.post(PAUSE, headers=OWN).status_code == 200


def test_one_user_keeps_a_bounded_number_and_ends_no_other_s() -> None:
    sessions = Sessions(Clock())
    other = sessions.begin("vera", "v")
    first, *rest = [sessions.begin("otto", "o") for _ in range(MAX_OF_USER + 1)]
    assert sessions.find(first) is None
    assert all(sessions.find(token) for token in (*rest, other))


def test_of_too_many_sessions_the_one_that_was_idle_longest_ends() -> None:
    sessions = Sessions(Clock())
    first, second = sessions.begin("a", ""), sessions.begin("b", "")
    assert sessions.find(first)
    for number in range(MAX_SESSIONS - 1):
        sessions.begin(f"user {number}", "")
    assert sessions.find(second) is None
    assert sessions.find(first)


def test_ended_sessions_make_room_first() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    sessions.begin("a", "")
    clock.time = IDLE_S
    kept = [sessions.begin("b", "") for _ in range(MAX_OF_USER)]
    assert all(sessions.find(token) for token in kept)


@pytest.mark.parametrize("token", ["", "x", "\udc80", "x" * 8_000])
def test_a_made_up_token_is_no_session(token: str) -> None:
    assert Sessions(Clock()).find(token) is None
