"""Eviction of pending messages of a slow topic consumer (ActiveMQ's messageEvictionStrategy)."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.policy.topic_policy import LOWEST_PRIORITY, OLDEST, UNIQUE_PROPERTY, EvictionPolicy
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message

MAX_CANDIDATES: Final = 1_000  # oldest messages to choose from, as in ActiveMQ

PROPERTY_LOOKS: Final = 5  # looks that one message counts for where a property decides


class Eviction:
    """Chooses among the oldest pending messages. `PolicyTopic` discards the messages."""

    def __init__(self, policy: EvictionPolicy, formats: MessageFormats | None) -> None:
        self._policy: Final[EvictionPolicy] = policy
        self._formats: Final[MessageFormats | None] = formats
        self.takes_oldest: Final[bool] = policy.kind == OLDEST
        self._read_order = 0  # order of the last message of `read`
        self.looks: Final[int] = PROPERTY_LOOKS if policy.kind == UNIQUE_PROPERTY else 1  # for one candidate

    def read(self, reference: MessageReference) -> None:
        """Decode the properties of a message that arrives at many consumers.

        So no choice decodes a thousand.
        """
        if self._policy.kind == UNIQUE_PROPERTY and reference.order != self._read_order:
            self._read_order = reference.order
            self._key(reference)

    def victims(self, candidates: list[MessageReference], at_most: int) -> list[int]:
        """Return the ascending indexes of the messages to discard, at least one index.

        ``candidates`` is not empty.

        At most ``at_most`` messages are returned, unless a newer message with the same property supersedes others.
        """
        if self.takes_oldest:
            return list(range(min(at_most, len(candidates))))
        if self._policy.kind == LOWEST_PRIORITY:
            return _lowest(candidates, at_most)
        return self._superseded(candidates, at_most)

    def _superseded(self, candidates: list[MessageReference], at_most: int) -> list[int]:
        """Return all but the newest message of each value of the property.

        Messages without the property are included.

        Only the oldest messages are returned if no message has the property, or if all values differ.
        """
        newest: dict[tuple[int, str], int] = {}
        for index, reference in enumerate(candidates):
            key = self._key(reference)
            if key is None:
                continue
            known = newest.get(key)
            if known is None or reference.message.timestamp_ms > candidates[known].message.timestamp_ms:
                newest[key] = index
        if not newest or len(newest) == len(candidates):
            return list(range(min(at_most, len(candidates))))
        newest_indexes = set(newest.values())
        return [index for index in range(len(candidates)) if index not in newest_indexes]

    def _key(self, reference: MessageReference) -> tuple[int, str] | None:
        """Return type and value of the property, None if the message lacks the property."""
        name = self._policy.property_name
        formats = self._formats
        if name is None or formats is None:
            return None
        message: Message = reference.message
        try:
            value = formats.properties(message).get(name)
        except (JmsError, ProtocolError):
            return None
        reference.destination.count_forms(message)
        return None if value is None or value[1] is None else (value[0], str(value[1]))


def _lowest(candidates: list[MessageReference], at_most: int) -> list[int]:
    """Return the ascending indexes of the messages with the lowest priorities.

    Of equal priorities the oldest comes first.
    """
    if at_most > 1:
        order = sorted([(reference.message.priority, index) for index, reference in enumerate(candidates)])
        return sorted([index for _, index in order[:at_most]])
    lowest = 0
    for index in range(1, len(candidates)):
        if candidates[index].message.priority < candidates[lowest].message.priority:
            lowest = index
    return [lowest]
