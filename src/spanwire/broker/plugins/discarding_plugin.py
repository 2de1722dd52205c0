"""Dead letters that nobody wants: dropped as they come, by what they were sent to (ActiveMQ, "Message Redelivery and
DLQ Handling", the discarding DLQ plugin).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.routing.dead_letters import DROP, KEEP, DeathRule
from spanwire.model.destination import TEMP_QUEUE, TEMP_TOPIC
from spanwire.selector.regular_expression import RegularExpression

DEFAULT_REPORT_INTERVAL: Final = 1_000  # of ActiveMQ
MAX_PATTERNS: Final = 64  # of one plugin, each bounded by `spanwire.selector.regular_expression`
MAX_KNOWN: Final = 1_000  # names for which it is remembered whether a pattern fits; all are forgotten when it is full

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DiscardingSettings:
    """Which dead letters are dropped. ``drop_only`` are regular expressions of whole names; there is a line in the log
    for each ``report_interval`` of them, none if that is 0.
    """

    drop_all: bool = True
    drop_temporary_topics: bool = True
    drop_temporary_queues: bool = True
    drop_only: tuple[str, ...] = ()
    report_interval: int = DEFAULT_REPORT_INTERVAL


def name_pattern(pattern: str) -> RegularExpression:
    """What fits a whole name that ``pattern`` describes; raises `InvalidSelectorError`."""
    RegularExpression(pattern)  # alone, so that no bracket of it closes that of the next line
    return RegularExpression(f"^({pattern})$")


class Discarding(DeathRule):
    """Drops dead letters. What is not dropped is left to the next rule and to the policy of the destination."""

    def __init__(self, settings: DiscardingSettings) -> None:
        """Raises `InvalidSelectorError` for a pattern that is none."""
        self._settings: Final[DiscardingSettings] = settings
        self._patterns: Final[list[RegularExpression]] = [name_pattern(text) for text in settings.drop_only]
        self.known: Final[dict[str, bool]] = {}
        self.dropped = 0

    def fate(self, reference: MessageReference, cause: str) -> int:
        """`DROP` or `KEEP`, by the destination that the message was sent to."""
        destination = reference.message.destination
        settings = self._settings
        if not (
            settings.drop_all
            or (settings.drop_temporary_topics and destination.kind == TEMP_TOPIC)
            or (settings.drop_temporary_queues and destination.kind == TEMP_QUEUE)
            or self._names(destination.name)
        ):
            return KEEP
        self.dropped += 1
        if settings.report_interval > 0 and self.dropped % settings.report_interval == 0:
            logger.info("%d dead letters were dropped, as the configuration says", self.dropped)
        return DROP

    def deliver_later(self, reference: MessageReference, cause: str) -> bool:
        """Never asked for."""
        return False

    def _names(self, name: str) -> bool:
        """Whether a pattern fits; looking takes time that a name costs once."""
        if not self._patterns:
            return False
        found = self.known.get(name)
        if found is None:
            found = False
            for pattern in self._patterns:
                found = found or pattern.is_found_in(name)
            if len(self.known) >= MAX_KNOWN:
                self.known.clear()
            self.known[name] = found
        return found
