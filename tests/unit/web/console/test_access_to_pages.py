"""Roles of pages: a page is public by name only, and each role reaches its own. A look at a page changes nothing."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from spanwire.management.tables.operation_table import Role
from spanwire.web.calls import RouteRow
from spanwire.web.console.console_routes import CONSOLE_ROUTES
from spanwire.web.console.rendering import HEADERS
from spanwire.web.link import CHANGING
from spanwire.web.routes import application
from tests.support.fake_broker_link import USERS, FakeBrokerLink

HOST = "http://127.0.0.1:8161"
ROLES = {"anna": Role.ADMIN, "otto": Role.OPERATE, "vera": Role.VIEW}
PUBLIC = {"/", "/admin/login", "/admin/logout", "/admin/assets/{version}/{file}"}


def answer_of(link: FakeBrokerLink, route: RouteRow, **arguments: object) -> tuple[int, str]:
    client = TestClient(application(link, is_loopback=True), base_url=HOST, follow_redirects=False)
    answer = client.request(route.method, route.path, headers={"Origin": HOST}, **arguments)
    return answer.status_code, answer.headers.get("location", "")


@pytest.mark.parametrize("route", CONSOLE_ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_s19_a_page_is_public_by_name_only(route: RouteRow) -> None:
    assert (route.role is Role.NONE) == (route.path in PUBLIC)
    link = FakeBrokerLink()
    status, target = answer_of(link, route, data={"x": "y"} if route.method == "POST" else None)
    if route.role is not Role.NONE:
        if route.path.startswith("/admin/xml/"):
            assert status == 401
            return
        assert (status, target.partition("?")[0]) == ((401, "") if route.method == "POST" else (303, "/admin/login"))
        assert {command for command, _ in link.asked} == {"login"}


@pytest.mark.parametrize("user", sorted(USERS))
def test_s19_each_role_reaches_its_pages_and_no_others(user: str) -> None:
    for route in CONSOLE_ROUTES:
        link = FakeBrokerLink()
        status, _ = answer_of(
            link, route, auth=(user, USERS[user][0]), data={"x": "y"} if route.method == "POST" else None
        )
        assert (status == 403) == (ROLES[user] < route.role), route.path


READ = [route for route in CONSOLE_ROUTES if route.method == "GET"]


@pytest.mark.parametrize("route", READ, ids=lambda route: route.path)
def test_s18_a_look_at_a_page_changes_nothing(route: RouteRow) -> None:
    link = FakeBrokerLink()
    words = "?name=queue://A&id=m&selector=x%20%3D%201&confirm=1&target=B&connectors=openwire&back=/admin"
    client = TestClient(application(link, is_loopback=True), base_url=HOST, follow_redirects=False)
    for method in ("GET", "HEAD"):
        client.request(method, route.path + words, auth=("anna", "a-word"))
    assert {command for command, _ in link.asked} & CHANGING == set()


def test_s18_properties_and_ids_of_a_message_set_no_header_of_its_page() -> None:
    link = FakeBrokerLink()
    strange = "x\r\nSet-Cookie: canary=1"
    message = {
        "message_id": strange, "kind": "TextMessage", "body": strange, "correlation_id": strange,
        "properties": {"Set-Cookie": "canary=1", "Content-Security-Policy": "canary", strange: strange},
    }  # fmt: skip
    link.answers["browse"] = {"messages": [message], "looked": 1, "waiting": 1, "in_flight": 0}
    client = TestClient(application(link, is_loopback=True), base_url=HOST)
    for path in ("/admin/messages?name=queue://A", "/admin/message?name=queue://A&id=x"):
        answer = client.get(path, auth=("anna", "a-word"))
        assert answer.status_code == 200
        assert "canary" not in str(answer.headers)
        assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize("route", READ, ids=lambda route: route.path)
def test_s23_every_answer_forbids_frames_foreign_scripts_and_guesses_of_its_type(route: RouteRow) -> None:
    client = TestClient(application(FakeBrokerLink(), is_loopback=True), base_url=HOST, follow_redirects=False)
    headers = client.get(route.path, auth=("anna", "a-word")).headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    policy = dict(part.partition(" ")[::2] for part in headers["content-security-policy"].split("; "))
    assert policy["frame-ancestors"] == policy["default-src"] == "'none'"
    assert policy.get("script-src", "'self'") == "'self'"


@pytest.mark.parametrize("route", [one for one in CONSOLE_ROUTES if one.method == "POST"], ids=lambda route: route.path)
def test_s23_no_form_of_another_site_is_taken(route: RouteRow) -> None:
    link = FakeBrokerLink()
    client = TestClient(application(link, is_loopback=True), base_url=HOST, follow_redirects=False)
    client.post("/admin/login", data={"user": "anna", "password": "a-word"}, headers={"Origin": HOST})
    link.asked.clear()
    for origin in ("http://evil.example", "null", ""):
        headers = {"Origin": origin} if origin else {}
        answer = client.post(f"{route.path}?name=queue://A", data={"name": "queue://A"}, headers=headers)
        assert answer.status_code == 403, origin
    assert {command for command, _ in link.asked} & CHANGING == set()
