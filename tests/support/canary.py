"""A password that must never be seen again: tests log in with it, and no log record of any test may hold it."""

from __future__ import annotations

import logging
from typing import Final

CANARY: Final = "canary-7f3a9c-password"


class CanaryWatch(logging.Handler):
    """Notes every log record that holds the canary, in its text, its arguments or its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if CANARY in self.format(record) or CANARY in repr(record.args):
            self.seen.append(f"{record.name}:{record.lineno}")

    def take(self) -> list[str]:
        """Where the canary was seen since the last call."""
        seen, self.seen = self.seen, []
        return seen
