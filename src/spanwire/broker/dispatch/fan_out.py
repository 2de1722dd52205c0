"""The work of one message that goes to many, in steps of a microsecond at most: bounded when consumers come.

Handing a message on is never cut: between two slices its sender could commit or leave, and destinations go. Instead a
topic takes only so many consumers that one message of it holds the event loop for less than 20 ms.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import MAX_COMPOSITE_PARTS

MAX_FAN_OUT: Final = 20_000  # steps of one message: two consumers for each of 10,000 connections
COPY_STEPS: Final = 4  # for each queue or durable subscription that gets a copy, which the store may take
TOPIC_STEPS: Final = 2  # for each topic of several, its consumers not counted
MAX_WILD_FAN_OUT: Final = (
    MAX_FAN_OUT // 2
)  # of these for wildcards, whose consumers a new topic's first message attaches
MAX_STEPS_OF_SEND: Final = (
    MAX_FAN_OUT + MAX_COMPOSITE_PARTS * COPY_STEPS
)  # so that a full topic can be one of the parts
CHARACTERS_PER_STEP: Final = 32  # of a selector, which is evaluated for each message
STEPS_OF_REQUEST: Final = 16  # of these steps, which are one of those that a connection's requests have in a turn


def selector_steps(selector: str | None) -> int:
    """Return the steps that one evaluation of ``selector`` takes, 0 for none."""
    return 0 if selector is None else 1 + len(selector) // CHARACTERS_PER_STEP
