"""The cache of parsed selectors."""

from __future__ import annotations

import pytest

from spanwire.model.errors import InvalidSelectorError
from spanwire.selector.cache import MAX_CHARACTERS, MAX_SELECTORS, SelectorCache


def test_the_same_text_gives_the_same_selector() -> None:
    cache = SelectorCache()
    assert cache.parse("a = 1") is cache.parse("a = 1")
    assert cache.parse("a = 1") is not cache.parse("convert_string_expressions:a = 1")


def test_the_least_recently_used_selector_goes_first() -> None:
    cache = SelectorCache(max_selectors=2)
    first, second = cache.parse("a = 1"), cache.parse("a = 2")
    cache.parse("a = 1")
    cache.parse("a = 3")
    assert cache.parse("a = 1") is first
    assert cache.parse("a = 2") is not second


def test_an_invalid_selector_is_not_kept() -> None:
    cache = SelectorCache()
    with pytest.raises(InvalidSelectorError):
        cache.parse("a = ")
    assert len(cache) == 0
    assert cache.characters == 0


def test_a_text_longer_than_the_whole_cache_is_parsed_and_not_kept() -> None:
    cache = SelectorCache(max_characters=4)
    assert cache.parse("a = 1").text == "a = 1"
    assert len(cache) == 0


def test_s29_cache_poisoning_by_endless_different_selectors_fills_no_memory() -> None:
    cache = SelectorCache()
    for number in range(3 * MAX_SELECTORS):
        cache.parse(f"a = {number}")
        assert len(cache) <= MAX_SELECTORS
    for number in range(40):
        cache.parse(f"a = {number} OR b = '{'x' * 8000}'")
        assert cache.characters <= MAX_CHARACTERS
