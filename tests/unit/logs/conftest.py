"""A log that begins in the process of its test leaves no handler behind."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _log_handlers_end_with_their_test() -> Iterator[None]:
    """A log on standard error, which in a test is closed soon, or in a directory of a test."""
    root = logging.getLogger()
    before = list(root.handlers), root.level
    yield
    root.handlers[:], level = before
    root.setLevel(level)
