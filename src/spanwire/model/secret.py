"""A password or key that must not be seen: no repr, no text, no error and no log line shows it."""

from __future__ import annotations

import hmac
from typing import Final

HIDDEN: Final = "********"


class Secret:
    """Holds a text that only `reveal` gives. Shows itself as asterisks everywhere else, whatever its length."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text: Final[str] = text

    def reveal(self) -> str:
        """The text itself; for the one place that needs it, never for a message."""
        return self._text

    def is_empty(self) -> bool:
        """Whether there is nothing to hide."""
        return not self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return False
        return hmac.compare_digest(
            self._text.encode("utf-8", "surrogatepass"), other._text.encode("utf-8", "surrogatepass")
        )

    def __hash__(self) -> int:
        return hash(self._text)
