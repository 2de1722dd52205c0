"""What the control socket answers, also to nonsense."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.management.control import ControlServer


def fail() -> object:
    raise RuntimeError("planted")


def server() -> ControlServer:
    return ControlServer(Path("/nowhere"), {"status": lambda: {"name": "orders"}, "broken": fail})


def test_a_command_gets_its_result() -> None:
    assert server().answer(b'{"command": "status"}') == {"ok": True, "result": {"name": "orders"}}


@pytest.mark.parametrize(
    "request_", [b"", b"{", b"[]", b"1", b"null", b'{"command": 1}', b'{"command": "exec"}', b"\xff"]
)
def test_nonsense_is_refused(request_: bytes) -> None:
    answer = server().answer(request_)
    assert answer["ok"] is False
    assert answer["error"]


def test_a_failing_command_is_logged_and_answered_without_its_inside(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = server().answer(b'{"command": "broken"}')
    assert answer["ok"] is False
    assert "planted" not in str(answer)
    assert "planted" in caplog.text


@given(st.binary(max_size=200))
def test_any_request_gets_an_answer_that_is_json(request_: bytes) -> None:
    json.dumps(server().answer(request_))


def test_deep_json_is_refused() -> None:
    assert server().answer(b"[" * 4000)["ok"] is False
