from __future__ import annotations

from spanwire.model.text import escaped, printable

FOREIGN = "a b\n\x1b[2Jé\u202e\u00a0\u2028中"


def test_text_that_steers_a_terminal_is_replaced() -> None:
    assert printable(FOREIGN) == "a b??[2Jé???中"
    assert printable(FOREIGN, " ") == "a b  [2Jé   中"


def test_text_that_steers_a_terminal_is_escaped() -> None:
    assert escaped(FOREIGN) == "a b\\u000a\\u001b[2Jé\\u202e\\u00a0\\u2028中"
