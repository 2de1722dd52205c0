"""Messages that ask to be delivered later at a broker that has no scheduler: they are delivered at once, as ActiveMQ
does, and the log says so. Otherwise nobody sees why a delay has no effect.

Only the first messages of a producer are looked at: those who send delayed messages mostly do so from the beginning,
and the messages behind them cost nothing but a comparison of numbers.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.scheduler.schedule import MARK, asks
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message

LOOKED_AT: Final = 16  # messages of a producer: a first one is often a test or a greeting
MAX_TOLD: Final = 100  # producers that are named while the broker runs: more would fill the log

logger = logging.getLogger(__name__)


class Unscheduled:
    """Warns once for each producer whose messages ask for a delay that the broker does not know."""

    def __init__(self, formats: MessageFormats) -> None:
        self._formats: Final[MessageFormats] = formats
        self._told: Final[set[str]] = set()

    def look(self, message: Message) -> None:
        """Look at one of the first messages of a producer."""
        if message.raw.find(MARK) < 0 or len(self._told) >= MAX_TOLD:
            return
        producer = str(message.message_id.producer_id)
        if producer in self._told:
            return
        try:
            if not asks(self._formats.properties(message)):
                return
        except (JmsError, ProtocolError):
            return  # whoever reads its properties next refuses them
        self._told.add(producer)
        logger.warning(
            "producer %s sends messages to %s that ask for a delay, and this broker has no scheduler: they are "
            'delivered at once; write schedulerSupport="true" at <broker>',
            producer,
            message.destination,
        )
