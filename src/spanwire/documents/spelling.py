"""Words that people misspell: which of those that are known they may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

MAX_COMPARED: Final = 60  # characters of a word that is looked for; names that people write are shorter
LIKE: Final = 0.6  # from which ratio of `difflib` on a word is near another
ANY: Final = 0.0  # however far it is


def closest(word: str, known: Iterable[str], least: float = LIKE) -> str | None:
    """The known word most like ``word``, whatever its case; None when nothing is near."""
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word[:MAX_COMPARED].lower(), list(by_lower), n=1, cutoff=least)
    return by_lower[found[0]] if found else None
