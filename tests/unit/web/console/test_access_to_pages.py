"""Roles of pages: a page is public by name only, and each role reaches its own."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from spanwire.management.tables.operation_table import Role
from spanwire.web.calls import RouteRow
from spanwire.web.console.console_routes import CONSOLE_ROUTES
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
