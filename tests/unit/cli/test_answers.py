"""The line of an operation shows the object and what is known of it."""

from __future__ import annotations

from spanwire.cli.management.actions import _shown


def test_a_line_leaves_out_what_an_object_does_not_have() -> None:
    row = {"task": "D1", "user_name": "", "state": "running", "left": 0, "is_done": False, "total": None}
    assert _shown("task", "cancel", {"task": "D1"}, row) == "D1: state running, left 0, is done false\n"


def test_an_object_without_anything_else_is_done() -> None:
    assert _shown("queue", "pause", {"destination": "A"}, {"destination": "A", "error": None}) == "A: done\n"
