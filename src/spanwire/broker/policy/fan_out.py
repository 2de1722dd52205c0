"""The work of one message with many receivers, in steps of at most a microsecond.

Limited when consumers are attached.

The dispatch of one message is never divided: between two slices the sender could commit or leave, and destinations
could disappear. Instead a topic limits its consumers, so that one message holds the event loop for less than 20 ms.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import MAX_COMPOSITE_PARTS

MAX_FAN_OUT: Final = 20_000  # steps of one message; enough for two consumers on each of 10,000 connections
COPY_STEPS: Final = 4  # steps of a copy for a queue or durable subscription, perhaps with a write to the store
TOPIC_STEPS: Final = 2  # steps for each of several topics, without the topic's consumers
MAX_WILD_FAN_OUT: Final = MAX_FAN_OUT // 2  # steps for wildcard consumers; a new topic's first message attaches them
MAX_STEPS_OF_SEND: Final = MAX_FAN_OUT + MAX_COMPOSITE_PARTS * COPY_STEPS  # a full topic may be one of the parts
CHARACTERS_PER_STEP: Final = 64  # characters of a selector without arithmetic; 0.9 microseconds at most
OPERATORS: Final = "+-*/%"  # arithmetic operators of a selector, a step each
STEPS_OF_REQUEST: Final = 16  # steps of fan-out that count as one step of a connection's requests


def selector_steps(selector: str | None) -> int:
    """Return the steps that one evaluation of ``selector`` takes, 0 without a selector."""
    if selector is None:
        return 0
    steps = 1 + len(selector) // CHARACTERS_PER_STEP
    for index, part in enumerate(selector.split("'")):
        if index % 2 == 0:  # the other parts are between quotes
            for operator in OPERATORS:
                steps += part.count(operator)
    return steps
