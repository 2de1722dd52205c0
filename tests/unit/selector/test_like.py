"""LIKE patterns against a table of all short texts."""

from __future__ import annotations

from itertools import product

import pytest

from spanwire.model.errors import InvalidSelectorError
from spanwire.selector.like import LikePattern
from tests.support.selector_oracle import is_like


def test_every_short_pattern_matches_what_the_slow_table_says() -> None:
    texts = ["".join(letters) for length in range(5) for letters in product("ab", repeat=length)]
    for length in range(6):
        for signs in product("ab%_", repeat=length):
            pattern = LikePattern("".join(signs), None)
            for text in texts[:: 1 if length < 5 else 3]:
                assert pattern.matches(text) == is_like(text, "".join(signs), None), ("".join(signs), text)


@pytest.mark.parametrize(
    ("pattern", "escape", "text", "answer"),
    [
        ("!%", "!", "%", True),
        ("!%", "!", "x", False),
        ("!_!!", "!", "_!", True),
        ("!a", "!", "!a", True),
        ("a!", "!", "a!", True),
        ("%%%", "%", "%x", True),
        ("\\%", None, "\\x", True),
        ("_", None, "\U0001f600", True),
        ("a%b", None, "a\r\n\u2028b", True),
        ("%b_d%", None, "abbcdd", True),
        ("%_b_d_%", None, "xabcdx", True),
        ("%b_d%b_d", None, "bxdbd", False),
    ],
)
def test_signs_and_escapes(pattern: str, escape: str | None, text: str, answer: bool) -> None:
    assert LikePattern(pattern, escape).matches(text) is answer


@pytest.mark.parametrize("escape", ["", "ab", "\U0001f600"])
def test_an_escape_is_one_character_of_utf_16(escape: str) -> None:
    with pytest.raises(InvalidSelectorError, match="ESCAPE must be one character"):
        LikePattern("a", escape)
