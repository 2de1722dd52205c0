"""Logins, and that nothing is served without the role that its route names."""

from __future__ import annotations

import asyncio

import pytest
from starlette.testclient import TestClient

from spanwire.management.tables.operation_table import Role
from spanwire.web.access import Access
from spanwire.web.calls import RouteRow, json_refusal
from spanwire.web.problems import ProblemError
from spanwire.web.routes import ROUTES, application
from tests.support.fake_broker_link import USERS, FakeBrokerLink

ROLES = {"anna": Role.ADMIN, "otto": Role.OPERATE, "vera": Role.VIEW}
PUBLIC = {"/health/live", "/health/ready"}


def client_of(link: FakeBrokerLink) -> TestClient:
    return TestClient(application(link, is_loopback=True), base_url="http://127.0.0.1:8161")


def path_of(path: str) -> str:
    return (
        path.replace("jolokia/{name:path}", "jolokia/version")
        .replace("{name:path}", "A")
        .replace("{client_id}", "c")
        .replace("{name}", "A")
    )


MANAGEMENT = [route for route in ROUTES if not route.is_messaging and route.refusal is json_refusal]


def test_a_route_of_messages_has_no_role_and_says_so_in_its_path() -> None:
    for route in [one for one in ROUTES if one.refusal is json_refusal]:
        assert not route.is_messaging or route.role is Role.NONE
        words = ("/message", "queueBrowse", "/demo", "/leases")
        assert route.is_messaging == any(word in route.path for word in words)


@pytest.mark.parametrize("route", MANAGEMENT, ids=lambda route: f"{route.method} {route.path}")
def test_s19_a_route_is_public_by_name_only_and_others_ask_for_a_login(route: RouteRow) -> None:
    answer = client_of(FakeBrokerLink()).request(route.method, path_of(route.path))
    assert (route.role is Role.NONE) == (route.path in PUBLIC)
    if route.path not in PUBLIC:
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("user", sorted(USERS))
def test_s19_each_role_reaches_its_routes_and_no_others(user: str) -> None:
    for route in MANAGEMENT:
        link = FakeBrokerLink()
        answer = client_of(link).request(route.method, path_of(route.path), auth=(user, USERS[user][0]), json={})
        assert (answer.status_code == 403) == (ROLES[user] < route.role), route.path
        if answer.status_code == 403:
            assert {command for command, _ in link.asked} == {"login"}


@pytest.mark.parametrize(
    "header",
    ["Basic", "Basic !", "Basic dmVyYQ==", "Bearer x", "basic " + "=" * 40, "Basic /////w==", "Digest a"],
)
def test_a_malformed_login_is_refused_without_asking_the_broker(header: str) -> None:
    link = FakeBrokerLink()
    answer = client_of(link).get("/metrics", headers={"Authorization": header})
    assert answer.status_code == 401
    assert link.asked == []


def test_a_wrong_password_is_refused_each_time_by_the_broker() -> None:
    link = FakeBrokerLink()
    client = client_of(link)
    assert [client.get("/metrics", auth=("vera", "x")).status_code for _ in range(3)] == [401] * 3
    assert link.count("login") == 3
    assert client.get("/metrics", auth=("vera", "v-word")).status_code == 200


def test_a_broker_without_authentication_lets_everybody_view_and_nobody_change() -> None:
    client = client_of(FakeBrokerLink(is_open=True))
    assert client.get("/metrics").status_code == 200
    for route in ROUTES:
        if route.role > Role.VIEW:
            assert client.request(route.method, path_of(route.path), json={}).status_code == 403


@pytest.mark.parametrize("method", ["PUT", "MOVE", "DELETE", "PATCH", "TRACE", "CONNECT", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/fileserver/x", "/admin/", "/admin/move/Q", "/metrics", "/../etc/passwd"])
def test_s22_nothing_is_served_beside_the_table(method: str, path: str) -> None:
    answer = client_of(FakeBrokerLink()).request(method, path, auth=("anna", "a-word"))
    assert answer.status_code in (404, 405)
    is_page = path.startswith("/admin/")
    assert answer.headers["content-type"] == ("text/html; charset=utf-8" if is_page else "application/problem+json")


@pytest.mark.parametrize(
    "path", ["/metrics/..%2f..%2fetc%2fpasswd", "/metrics%00", "/%2e%2e/metrics", "http://127.0.0.1:8161//metrics"]
)
def test_s17_a_path_is_looked_up_in_the_table_alone(path: str) -> None:
    assert client_of(FakeBrokerLink()).get(path, auth=("anna", "a-word")).status_code == 404


def test_a_realm_guards_messages_of_a_broker_without_users() -> None:
    link = FakeBrokerLink()
    access = Access(link)
    asyncio.run(access.admit(None, None, "10.0.0.1"))
    assert link.count("login") == 0
    link.answers["exposure"] = {"obstacle": None, "realm": True}
    asyncio.run(access.admit("vera", "v-word", "10.0.0.1"))
    assert link.asked[-1] == ("login", {"user": "vera", "password": "v-word", "address": "http://10.0.0.1:0"})
    with pytest.raises(ProblemError) as caught:
        asyncio.run(access.admit("vera", "wrong", "10.0.0.1"))
    assert caught.value.status == 401


def test_s19_an_open_port_serves_nobody_once_the_broker_has_no_users() -> None:
    link = FakeBrokerLink()
    link.answers["exposure"] = {"obstacle": None}
    now = 0.0
    app = application(link, is_loopback=False, is_guarded=True, now=lambda: now)
    client = TestClient(app, base_url="http://broker.example:8161")
    assert client.get("/metrics", auth=("vera", "v-word")).status_code == 200
    link.answers["exposure"] = {"obstacle": "without authentication"}
    link.is_open = True
    answer = client.get("/metrics")
    assert (answer.status_code, "without authentication" in answer.json()["detail"]) == (403, True)
    now = 60.0
    assert client.get("/metrics", auth=("vera", "v-word")).status_code == 403
    assert client.get("/health/live").status_code == 200
