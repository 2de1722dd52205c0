"""``spanwire status`` prints what is known, a line each."""

from __future__ import annotations

from spanwire.cli.process.status import _lines


def test_a_figure_that_nobody_measures_has_no_line() -> None:
    lines = _lines({"name": "orders", "statistics": {"pending_messages": 3, "average_size_bytes": None}})
    assert "pending messages: 3" in lines
    assert not any("average" in line for line in lines)
