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
    """A refused request with the text ``WORD: explanation``.

    ``docs/reference/control-destination.md`` lists the words.
    """


def refusal(word: str, text: str) -> ControlRefusal:
    """Return a refusal with a word of this module."""
    return ControlRefusal(f"{word}: {text}")


def refusal_of(error: JmsError) -> ControlRefusal:
    """Return an error of the broker as a `ControlRefusal`."""
    if isinstance(error, ControlRefusal):
        return error
    if isinstance(error, AuthorizationError):
        return refusal(UNAUTHORIZED, str(error))
    if isinstance(error, ResourceAllocationError):
        return refusal(LIMIT, str(error))
    return refusal(MALFORMED, str(error))


def word_of(error: ControlRefusal) -> str:
    """Return the word at the beginning of the refusal."""
    return str(error).partition(":")[0]


def unreadable(what: str) -> StoreError:
    """Return the error for a stored metadata record that the broker cannot decode at its start."""
    return StoreError(f"{what} in the store cannot be read: stop the broker and run spanwire store check")
