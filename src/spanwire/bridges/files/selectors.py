"""Selectors of sources, which are read before a bridge or route starts."""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import InvalidSelectorError
from spanwire.routes.readers.nodes import Location
from spanwire.selector.parser import parse_selector

# Providers whose brokers have Spanwire's language of selectors. Clients in Java may have another one.
SAME_LANGUAGE: Final = frozenset({"openwire", "stomp", "amqp"})
# Beginnings of selectors that other brokers read: XPath and XQuery of ActiveMQ, names with hyphens of Artemis.
OF_OTHER_BROKERS: Final = ("XPATH ", "XQUERY ", "hyphenated_props:", "no_convert_string_expressions:")


def checked_selector(text: str | None, provider: str, location: Location) -> str | None:
    """Return the selector of a source.

    Raises:
        ConfigurationError: the selector has an error, which the broker would name only when the bridge runs.
    """
    if text is None or not text.strip() or provider not in SAME_LANGUAGE or text.startswith(OF_OTHER_BROKERS):
        return text
    try:
        parse_selector(text)
    except InvalidSelectorError as error:
        raise location.error(f"selector: {error}") from None
    return text
