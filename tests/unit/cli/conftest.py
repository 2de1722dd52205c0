"""A command that starts in the process of its test leaves no log handler behind."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _log_handlers_end_with_their_test() -> Iterator[None]:
    """`spanwire start` writes its log to standard error, which in a test is closed soon."""
    root = logging.getLogger()
    before = list(root.handlers), root.level
    yield
    root.handlers[:], level = before
    root.setLevel(level)
