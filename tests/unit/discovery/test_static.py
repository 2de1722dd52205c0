"""The static: URI."""

from __future__ import annotations

import pytest

from spanwire.discovery.addresses.static import StaticUri, parse_static
from spanwire.model.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "uris", "options"),
    [
        ("static:(tcp://a:1)", ("tcp://a:1",), ""),
        ("static:(tcp://a:1, ssl://b:2 ,tcp://c:3)", ("tcp://a:1", "ssl://b:2", "tcp://c:3"), ""),
        ("static:(tcp://a:1?x=1)?maxReconnectDelay=5000&y=2", ("tcp://a:1?x=1",), "maxReconnectDelay=5000&y=2"),
        ("static://(tcp://a:1)", ("tcp://a:1",), ""),
        ("static:tcp://a:1", ("tcp://a:1",), ""),
        (
            "static:(failover:(tcp://a:1,tcp://b:2),tcp://c:3)?x=1",
            ("failover:(tcp://a:1,tcp://b:2)", "tcp://c:3"),
            "x=1",
        ),
        ("static:failover:(tcp://a:1,tcp://b:2)?x=1", ("failover:(tcp://a:1,tcp://b:2)?x=1",), ""),
        (" static:(tcp://[::1]:1) ", ("tcp://[::1]:1",), ""),
    ],
)
def test_a_static_uri_lists_brokers_and_options(text: str, uris: tuple[str, ...], options: str) -> None:
    assert parse_static(text) == StaticUri(uris, options)


@pytest.mark.parametrize(
    "text",
    ["static:()", "static:", "tcp://a:1", "static:(tcp://a:1", "static:(tcp://a:1)x", "static", "",
     "static:(" + ",".join(["tcp://a:1"] * 101) + ")"],
)  # fmt: skip
def test_what_is_no_static_uri_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_static(text)


def test_simple_is_static_and_masterslave_is_one_of_them() -> None:
    assert parse_static("simple://(tcp://a:1,tcp://b:2)?x=1") == StaticUri(("tcp://a:1", "tcp://b:2"), "x=1")
    assert parse_static("masterslave:(tcp://a:1,tcp://b:2)?x=1") == StaticUri(("tcp://a:1", "tcp://b:2"), "x=1", True)
    with pytest.raises(ConfigurationError, match="two brokers at least"):
        parse_static("masterslave:(tcp://a:1)")
