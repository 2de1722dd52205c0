"""Suggestions for misspelt words, among the known words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, cast

from spanwire import registry

MAX_COMPARED: Final = 60  # characters compared of an unknown word; real names are shorter
LIKE: Final = 0.6  # least ratio of `difflib` between near words
MAX_LISTED: Final = 20  # words listed in one line; more would hide the error


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most like ``word``, ignoring case; None if no word is near."""
    by_lower = {name.lower(): name for name in known}
    close_matches = cast(Callable[[str, list[str], int, float], list[str]], registry.load(registry.CLOSE_MATCHES))
    matches = close_matches(word[:MAX_COMPARED].lower(), list(by_lower), 1, LIKE)
    return by_lower[matches[0]] if matches else None


def suggestion(word: str, known: Iterable[str], before: str = "; ", most: int = MAX_LISTED) -> str:
    """Return the end of an error text about an unknown word.

    Returns:
        A near word if there is one, otherwise all known words, or "" for more than ``most`` words.
    """
    words = sorted(set(known))
    nearest = closest(word, words)
    if nearest is not None:
        return f"{before}did you mean {nearest}?"
    return f"{before}there are {', '.join(words)}" if 0 < len(words) <= most else ""
