"""Warning about delayed messages at a broker without a scheduler.

Such messages are delivered at once, as in ActiveMQ. Without the warning the missing delay is hard to explain.

Only the first messages of a producer are examined: most producers of delayed messages send them from the beginning.
Later messages cost no more than a comparison of numbers.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.scheduler.schedule import MARK, asks
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message

LOOKED_AT: Final = 16  # messages of a producer; the first is often only a test
MAX_NAMED_PRODUCERS: Final = 100  # producers named by one run of the broker; more would fill the log

logger = logging.getLogger(__name__)


class Unscheduled:
    """Warns once for each producer of delayed messages, as the broker cannot delay messages."""

    def __init__(self, formats: MessageFormats) -> None:
        self._formats: Final[MessageFormats] = formats
        self._named: Final[set[str]] = set()

    def look(self, message: Message) -> None:
        """Examine one of the first messages of a producer."""
        if message.raw.find(MARK) < 0 or len(self._named) >= MAX_NAMED_PRODUCERS:
            return
        producer = str(message.producer_id)
        if producer in self._named:
            return
        try:
            if not asks(self._formats.properties(message)):
                return
        except (JmsError, ProtocolError):
            return  # the next reader of the properties refuses the message
        self._named.add(producer)
        logger.warning(
            "producer %s sends messages to %s that ask for a delay, and this broker has no scheduler: they are "
            'delivered at once; write schedulerSupport="true" at <broker>',
            producer,
            message.destination,
        )
