"""Eviction of pending messages of a slow topic consumer (ActiveMQ's messageEvictionStrategy)."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.policy.topic_policy import LOWEST_PRIORITY, OLDEST, EvictionPolicy
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message

MAX_CANDIDATES: Final = 1_000  # oldest messages to choose from, as in ActiveMQ

OLDEST_ALONE: Final[list[int]] = [0]


class Eviction:
    """Chooses among the oldest pending messages. `TunedTopic` discards the messages."""

    def __init__(self, policy: EvictionPolicy, formats: MessageFormats | None) -> None:
        self._policy: Final[EvictionPolicy] = policy
        self._formats: Final[MessageFormats | None] = formats
        self.takes_oldest: Final[bool] = policy.kind == OLDEST

    def victims(self, candidates: list[MessageReference]) -> list[int]:
        """Return the ascending indexes of the messages to discard, at least one index; ``candidates`` is not empty."""
        if self.takes_oldest:
            return OLDEST_ALONE
        if self._policy.kind == LOWEST_PRIORITY:
            return [_lowest(candidates)]
        return self._superseded(candidates)

    def _superseded(self, candidates: list[MessageReference]) -> list[int]:
        """Return all but the newest message of each value of the property; messages without the property are included.

        Only the oldest message is returned if no message has the property, or if all values differ.
        """
        newest: dict[tuple[int, str], int] = {}
        for place, reference in enumerate(candidates):
            key = self._key(reference)
            if key is None:
                continue
            known = newest.get(key)
            if known is None or reference.message.timestamp_ms > candidates[known].message.timestamp_ms:
                newest[key] = place
        if not newest or len(newest) == len(candidates):
            return OLDEST_ALONE
        kept = set(newest.values())
        return [place for place in range(len(candidates)) if place not in kept]

    def _key(self, reference: MessageReference) -> tuple[int, str] | None:
        """Return type and value of the property, None if the message lacks the property."""
        name = self._policy.property_name
        formats = self._formats
        if name is None or formats is None:
            return None
        message: Message = reference.message
        try:
            found = formats.properties(message).get(name)
        except (JmsError, ProtocolError):
            return None
        reference.home.count_forms(message)
        return None if found is None or found[1] is None else (found[0], str(found[1]))


def _lowest(candidates: list[MessageReference]) -> int:
    """Return the index of the oldest message with the lowest priority."""
    found = 0
    for place in range(1, len(candidates)):
        if candidates[place].message.priority < candidates[found].message.priority:
            found = place
    return found
