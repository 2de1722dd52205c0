"""What a standby shows over HTTP: its page, its health, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from spanwire.stores.lock_file import LOCK_NAME
from spanwire.web.serving.standby_server import StandbyFacts, standby_application

SINCE_MS = 1_700_000_000_000


def client(directory: Path, *, is_loopback: bool = True, name: str = "orders") -> TestClient:
    facts = StandbyFacts(name, directory, SINCE_MS)
    application = standby_application(facts, is_loopback=is_loopback, now=lambda: SINCE_MS / 1_000 + 90.0)
    return TestClient(application, base_url="http://localhost:8161")


def test_the_page_says_that_it_waits_since_when_and_for_whom(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_text("4711 host-a\n")
    answer = client(tmp_path).get("/")
    assert answer.status_code == 200
    for text in ("Standby: orders", "process 4711 on host-a", str(tmp_path), "2023-11-14", "1 m"):
        assert text in answer.text
    (tmp_path / LOCK_NAME).write_text("4712 host-b\n")
    assert "process 4712 on host-b" in client(tmp_path).get("/").text


def test_other_machines_are_not_shown_where_the_store_is(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_text("4711 host-a\n")
    text = client(tmp_path, is_loopback=False).get("/").text
    assert "another broker" in text
    assert "4711" not in text
    assert str(tmp_path) not in text


def test_a_standby_is_alive_and_not_ready_and_says_its_role(tmp_path: Path) -> None:
    live, ready = client(tmp_path).get("/health/live"), client(tmp_path).get("/health/ready")
    assert (live.status_code, live.json()["status"], live.json()["role"]) == (200, "pass", "standby")
    assert (ready.status_code, ready.json()["status"], ready.json()["role"]) == (503, "fail", "standby")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/v1/queues"), ("POST", "/api/message/Q"), ("DELETE", "/api/v1/session"), ("GET", "/metrics")],
)
def test_everything_else_waits_for_the_take_over(tmp_path: Path, method: str, path: str) -> None:
    answer = client(tmp_path).request(method, path)
    assert answer.status_code == 503
    assert "this broker is a standby" in answer.json()["detail"]


def test_the_page_has_its_style_sheet_and_the_console_leads_to_it(tmp_path: Path) -> None:
    web = client(tmp_path)
    text = web.get("/admin").text
    assert "Standby: orders" in text
    sheet = text.partition('rel="stylesheet" href="')[2].partition('"')[0]
    assert web.get(sheet).headers["content-type"].startswith("text/css")
    assert web.get("/admin/assets/x/../../secret").status_code == 503
    assert web.get("/admin/assets/x/other.css").status_code == 404


def test_s21_a_name_is_shown_and_not_run(tmp_path: Path) -> None:
    text = client(tmp_path, name="<script>alert(1)</script>").get("/").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_s23_another_host_name_is_refused(tmp_path: Path) -> None:
    assert client(tmp_path).get("/", headers={"host": "evil.example.org"}).status_code >= 400
