"""``.properties`` files are read as Java reads them."""

from __future__ import annotations

import pytest

from spanwire.service.config.readers.properties import read_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("  a=1\r\n\tb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# no\n! no\na=#yes", {"a": "#yes"}),
        ("a=1\\\n   2\\\n 3", {"a": "123"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b\\==c\\:d", {"a b=": "c:d"}),
        ("a=\\u00e9\\t\\n\\q", {"a": "é\t\nq"}),
        ("a=1\na=2", {"a": "2"}),
        ("\n\n", {}),
    ],
)
def test_a_text_has_these_properties(text: str, found: dict[str, str]) -> None:
    assert read_properties(text) == found
