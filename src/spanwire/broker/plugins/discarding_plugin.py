"""The discarding plug-in: drops dead letters by the original destination of the message.

Source: ActiveMQ, "Message Redelivery and DLQ Handling", the discarding DLQ plug-in.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.routing.dead_letters import DROP, KEEP, DeathRule
from spanwire.model.destination import TEMP_QUEUE, TEMP_TOPIC
from spanwire.selector.regular_expression import RegularExpression

DEFAULT_REPORT_INTERVAL: Final = 1_000  # as in ActiveMQ
MAX_PATTERNS: Final = 64  # patterns of one plug-in; each is bounded by `spanwire.selector.regular_expression`
MAX_KNOWN: Final = 1_000  # remembered names; all are forgotten at this number

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DiscardingSettings:
    """The dead letters to be dropped.

    ``drop_only`` holds regular expressions for whole names. One log line reports each ``report_interval`` dropped
    messages, 0 for none.
    """

    drop_all: bool = True
    drop_temporary_topics: bool = True
    drop_temporary_queues: bool = True
    drop_only: tuple[str, ...] = ()
    report_interval: int = DEFAULT_REPORT_INTERVAL


def name_pattern(pattern: str) -> RegularExpression:
    """Return the compiled regular expression ``pattern`` for whole names.

    Raises:
        InvalidSelectorError: ``pattern`` is no regular expression.
    """
    RegularExpression(pattern)  # alone, so that no bracket closes the one below
    return RegularExpression(f"^({pattern})$")


class Discarding(DeathRule):
    """Drops dead letters. The next rule and the policy of the destination decide about others."""

    def __init__(self, settings: DiscardingSettings) -> None:
        """Compile the patterns.

        Raises:
            InvalidSelectorError: a pattern is no regular expression.
        """
        self._settings: Final[DiscardingSettings] = settings
        self._patterns: Final[list[RegularExpression]] = [name_pattern(text) for text in settings.drop_only]
        self.known: Final[dict[str, bool]] = {}
        self.dropped = 0

    def fate(self, reference: MessageReference, cause: str) -> int:
        """Return `DROP` or `KEEP`, by the original destination of the message."""
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
        """Return False; never called."""
        return False

    def _names(self, name: str) -> bool:
        """Return True if a pattern matches ``name``. Results are remembered."""
        if not self._patterns:
            return False
        is_match = self.known.get(name)
        if is_match is None:
            is_match = False
            for pattern in self._patterns:
                is_match = is_match or pattern.is_found_in(name)
            if len(self.known) >= MAX_KNOWN:
                self.known.clear()
            self.known[name] = is_match
        return is_match
