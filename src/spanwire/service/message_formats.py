"""The message formats of all protocols in the registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from spanwire import registry
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.ports import MessageFormat


def message_formats() -> MessageFormats:
    """Return all message formats of the registry."""
    formats: dict[int, MessageFormat] = {}
    for reference in registry.MESSAGE_FORMATS.values():
        formats.update(cast(Callable[[], dict[int, MessageFormat]], registry.load(reference))())
    return MessageFormats(formats)
