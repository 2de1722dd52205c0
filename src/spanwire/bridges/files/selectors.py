"""Selectors of sources, which are read before a bridge or route starts."""

from __future__ import annotations

import re
from typing import Final

from spanwire.model.errors import InvalidSelectorError
from spanwire.routes.readers.nodes import Location
from spanwire.selector.parser import parse_selector

# Providers whose brokers have Spanwire's language of selectors. Clients in Java may have another one.
SAME_LANGUAGE: Final = frozenset({"openwire", "stomp"})
# What other brokers read and Spanwire does not: languages and functions of ActiveMQ, and names with hyphens of Artemis.
OF_OTHER_BROKERS: Final = re.compile(
    r"hyphenated_props:|convert_string_expressions:"
    r"|\b(XPATH|XQUERY|INLIST|MAKELIST|REGEX|REPLACE|SPLIT)\b|<>\s*NULL\b",
    re.IGNORECASE,
)
MAX_CHECKED: Final = 2_000  # characters; a longer selector may pass limits that other brokers do not have


def checked_selector(text: str | None, provider: str, location: Location) -> str | None:
    """Return the selector of a source.

    Raises:
        ConfigurationError: the selector has an error, which the broker would name only when the bridge runs.
    """
    if text is None or not text.strip() or len(text) > MAX_CHECKED:
        return text
    if provider not in SAME_LANGUAGE or OF_OTHER_BROKERS.search(text) is not None:
        return text
    try:
        parse_selector(text)
    except InvalidSelectorError as error:
        raise location.error(f"selector: {error}") from None
    return text
