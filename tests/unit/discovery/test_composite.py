"""URIs inside of URIs."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spanwire.discovery.addresses.composite import MAX_DEPTH, MAX_PARTS, MAX_URI, Composite, parse_composite
from spanwire.model.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tcp://h:1?a=1&b=%20x", Composite("tcp", "//h:1", options={"a": "1", "b": "x"}, query="a=1&b=%20x")),
        ("FAILOVER:(tcp://a:1,tcp://b:2)", Composite("failover", "", True, ("tcp://a:1", "tcp://b:2"))),
        ("failover://(tcp://a:1)?x=1", Composite("failover", "", True, ("tcp://a:1",), "", {"x": "1"}, "x=1")),
        ("failover:tcp://a:1?x=1,tcp://b:2", Composite("failover", "", True, ("tcp://a:1?x=1", "tcp://b:2"))),
        ("failover://tcp://a:1", Composite("failover", "", True, ("tcp://a:1",))),
        (
            "static:(failover:(tcp://a:1,tcp://b:2)?x=1,tcp://c:3)",
            Composite("static", "", True, ("failover:(tcp://a:1,tcp://b:2)?x=1", "tcp://c:3")),
        ),
        (
            "broker:(tcp://a:1,network:static:(tcp://b:2,tcp://c:3))/me?persistent=false",
            Composite(
                "broker",
                "",
                True,
                ("tcp://a:1", "network:static:(tcp://b:2,tcp://c:3)"),
                "me",
                {"persistent": "false"},
                "persistent=false",
            ),
        ),
        ("broker:()/me", Composite("broker", "", True, (), "me")),
        (
            "vm:(broker:(tcp://a:1)?x=1)?y=2",
            Composite("vm", "", True, ("broker:(tcp://a:1)?x=1",), "", {"y": "2"}, "y=2"),
        ),
        ("tcp://h:1?wireformat.cacheSize=1", Composite("tcp", "//h:1", options={"wireFormat.cacheSize": "1"},
                                                       query="wireformat.cacheSize=1")),
    ],
)  # fmt: skip
def test_a_uri_is_taken_apart_one_level_at_a_time(text: str, found: Composite) -> None:
    assert parse_composite(text) == found


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "no scheme"),
        ("(tcp://a:1)", "no scheme"),
        ("failover:(tcp://a:1", "do not match"),
        ("failover:(tcp://a:1))", "something stands behind"),
        ("failover:tcp://a:1)", "do not match"),
        ("failover:()", "names no broker"),
        ("discovery:()", "names no agent"),
        ("failover:(tcp://a:1)x=1", "something stands behind"),
        ("tcp://h:1?%=1", "letters, digits and dots"),
        ("tcp://h:1?" + "&".join(f"a{n}=1" for n in range(65)), "more than 64 options"),
        ("failover:(" + ",".join(["tcp://a:1"] * (MAX_PARTS + 1)) + ")", "101 brokers"),
        ("failover:" + "(" * (MAX_DEPTH + 3) + ")" * (MAX_DEPTH + 3), "lists inside each other"),
        ("x:" + "y" * MAX_URI, "longer than 4096"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong):
        parse_composite(text)


def test_lists_inside_of_each_other_have_an_end() -> None:
    with pytest.raises(ConfigurationError, match="lists inside each other"):
        parse_composite("tcp://a:1", MAX_DEPTH + 1)


@given(st.text(alphabet="ab:/(),?&=.%", max_size=60) | st.text(max_size=60))
@example("failover:(((((((((((")
@example("a:" + ")(" * 500)
def test_any_text_is_a_uri_or_refused_in_one_line_that_shows_nothing_of_it(text: str) -> None:
    refusal = ""
    try:
        found = parse_composite(text)
    except ConfigurationError as error:
        refusal = str(error)
    assert "\n" not in refusal
    if refusal:
        return
    assert found.is_list == bool(found.parts or found.scheme == "broker")
    for part in found.parts:
        assert part in text and part.count("(") == part.count(")")
