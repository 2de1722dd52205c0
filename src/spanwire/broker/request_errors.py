"""Refusals of requests to the control destination: one line that begins with a word for programs."""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import AuthorizationError, JmsError, ResourceAllocationError, StoreError

MALFORMED: Final = "malformed"
UNAUTHORIZED: Final = "unauthorized"
UNKNOWN: Final = "unknown"
FENCED: Final = "fenced"
NOT_HELD: Final = "not-held"
OTHER_TARGET: Final = "other-target"
INCOMPLETE: Final = "incomplete"
LIMIT: Final = "limit"
UNAVAILABLE: Final = "unavailable"


class ControlRefusal(JmsError):
    """The text is ``WORD: what is wrong``; the words are those of ``docs/reference/control-destination.md``."""


def refusal(word: str, text: str) -> ControlRefusal:
    """A refusal with one of the words of this module."""
    return ControlRefusal(f"{word}: {text}")


def told(error: JmsError) -> ControlRefusal:
    """Any refusal of the broker's as one of this kind."""
    if isinstance(error, ControlRefusal):
        return error
    if isinstance(error, AuthorizationError):
        return refusal(UNAUTHORIZED, str(error))
    if isinstance(error, ResourceAllocationError):
        return refusal(LIMIT, str(error))
    return refusal(MALFORMED, str(error))


def word_of(error: ControlRefusal) -> str:
    """The word with which it begins."""
    return str(error).partition(":")[0]


def unreadable(what: str) -> StoreError:
    """What a start of the broker says of a fact that nobody of this broker's kind wrote."""
    return StoreError(f"{what} in the store cannot be read: stop the broker and run spanwire store check")
