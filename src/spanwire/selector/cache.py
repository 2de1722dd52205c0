"""A bounded cache of parsed selectors by text.

Many consumers come and go with the same selector. A peer that sends millions of different selectors only evicts other
entries, which are then parsed again; memory stays bounded.
"""

from __future__ import annotations

from typing import Final

from spanwire.selector.expression import Selector
from spanwire.selector.parser import parse_selector

MAX_SELECTORS: Final = 256
MAX_CHARACTERS: Final = 128 * 1024  # characters of all cached texts; a tree takes about 60 bytes per character


class SelectorCache:
    """Caches parsed selectors and evicts the least recently used.

    Texts with errors are not cached: their error is cheap.
    """

    def __init__(self, max_selectors: int = MAX_SELECTORS, max_characters: int = MAX_CHARACTERS) -> None:
        self._selectors: Final[dict[str, Selector]] = {}
        self._max_selectors: Final = max_selectors
        self._max_characters: Final = max_characters
        self._characters = 0

    def __len__(self) -> int:
        return len(self._selectors)

    @property
    def characters(self) -> int:
        """Return the length of all cached texts together."""
        return self._characters

    def parse(self, text: str) -> Selector:
        """Return the selector of ``text``; raises `InvalidSelectorError`."""
        selector = self._selectors.pop(text, None)
        if selector is None:
            selector = parse_selector(text)
            self._characters += len(text)
        self._selectors[text] = selector
        while len(self._selectors) > self._max_selectors or self._characters > self._max_characters:
            oldest = next(iter(self._selectors))
            del self._selectors[oldest]
            self._characters -= len(oldest)
        return selector
