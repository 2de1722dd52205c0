"""The port of the web process, and who may open it."""

from __future__ import annotations

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.web.serving.deadline import DeadlineProtocol
from spanwire.web.serving.listening import listening_socket
from spanwire.web.serving.quick import QuickProtocol
from spanwire.web.serving.server import http_protocol, refuse_exposure


def test_a_port_that_is_taken_is_named_with_the_remedy() -> None:
    with listening_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"web port {port} of 127\.0\.0\.1 .*--port"):
            listening_socket("127.0.0.1", port)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"web host nowhere\.invalid"):
        listening_socket("nowhere.invalid", 0)


def test_s19_a_port_for_other_machines_needs_users() -> None:
    refuse_exposure({"obstacle": None}, "0.0.0.0")
    with pytest.raises(ConfigurationError, match=r"without authentication.*--allow-anonymous"):
        refuse_exposure({"obstacle": "without authentication"}, "0.0.0.0")
    with pytest.raises(ConfigurationError, match=r"another version"):
        refuse_exposure(None, "0.0.0.0")


@pytest.mark.parametrize(("is_installed", "expected"), [(True, QuickProtocol), (False, DeadlineProtocol)])
def test_httptools_reads_requests_where_it_is_installed(
    is_installed: bool, expected: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if is_installed else None)
    assert http_protocol() is expected
