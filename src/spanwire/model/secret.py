"""Passwords and keys, hidden from repr, text, errors and log lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from spanwire import registry

HIDDEN: Final = "********"


class Secret:
    """Wraps a secret text; every form but `reveal` is a fixed number of asterisks."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text: Final[str] = text

    def reveal(self) -> str:
        """Return the text itself. Use the result only where the secret is needed, never in a message."""
        return self._text

    def is_empty(self) -> bool:
        """Return True if the text is empty."""
        return not self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return False
        compare_digest = cast(Callable[[bytes, bytes], bool], registry.load(registry.SAME_DIGEST))
        return compare_digest(self._text.encode("utf-8", "surrogatepass"), other._text.encode("utf-8", "surrogatepass"))

    def __hash__(self) -> int:
        return hash(self._text)
