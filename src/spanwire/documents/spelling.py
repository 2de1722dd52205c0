"""Words that people misspell: which of those that are known they may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

MAX_COMPARED: Final = 60  # characters of a word that is looked for; names that people write are shorter
LIKE: Final = 0.6  # from which ratio of `difflib` on a word is near another
MAX_LISTED: Final = 20  # words that one line lists; more would hide what it says


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like ``word``, whatever its case; None when nothing is near."""
    by_lower = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(word[:MAX_COMPARED].lower(), list(by_lower), n=1, cutoff=LIKE)
    return by_lower[matches[0]] if matches else None


def suggestion(word: str, known: Iterable[str], before: str = "; ", most: int = MAX_LISTED) -> str:
    """Return the end of an error about an unknown word: the known word that may be meant; all known words when none is
    near; nothing when they are more than ``most``.
    """
    words = sorted(set(known))
    nearest = closest(word, words)
    if nearest is not None:
        return f"{before}did you mean {nearest}?"
    return f"{before}there are {', '.join(words)}" if 0 < len(words) <= most else ""
