"""A log of client events (ActiveMQ, "LoggingBrokerPlugin").

The log has one line for each event of the selected kinds.

Bodies and passwords are never logged. Text chosen by a peer is shortened and made printable.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from spanwire.broker.dispatch.broker_context import EventObserver
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.ports import MessageConsumer
from spanwire.broker.routing.dead_letters import EXPIRED, KEEP, DeathRule
from spanwire.broker.security.audit_log import printable
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError
from spanwire.model.message import Message

LOGGER: Final = "spanwire.broker.event_log"  # documented, independent of the module's name
MAX_LOGGERS: Final = 1_000  # loggers of single destinations; other destinations share one
FAMILIES: Final = ("Queue", "Topic", "TempQueue", "TempTopic")

logger = logging.getLogger(LOGGER)


@dataclass(frozen=True)
class EventLogSettings:
    """The kinds of events to be logged, with ActiveMQ's defaults.

    With ``per_destination`` each destination has a logger for sent messages. The name of the logger is that of the
    module's logger, then ``.Queue.NAME`` or ``.Topic.NAME``.
    """

    everything: bool = False
    connections: bool = True
    sessions: bool = True
    producers: bool = False
    consumers: bool = False
    transactions: bool = False
    internal: bool = False
    per_destination: bool = False


class EventLog(EventObserver):
    """Writes events reported by `spanwire.broker.plugins.logging_plugin` and by observers in the broker."""

    def __init__(self, settings: EventLogSettings) -> None:
        self._settings: Final[EventLogSettings] = settings
        self.connections: Final[bool] = settings.everything or settings.connections
        self.sessions: Final[bool] = settings.everything or settings.sessions
        self.producers: Final[bool] = settings.everything or settings.producers
        self.consumers: Final[bool] = settings.everything or settings.consumers
        self.transactions: Final[bool] = settings.everything or settings.transactions
        self.internal: Final[bool] = settings.everything or settings.internal
        self._names: Final[set[str]] = set()

    def write(self, event: str, who: str, what: str = "") -> None:
        """Write a line: ``event`` is the broker's text, ``who`` and ``what`` are a client's."""
        if what:
            logger.info("%s: %s, %s", event, printable(who), printable(what))
        else:
            logger.info("%s: %s", event, printable(who))

    def branch_event(self, event: str, xid: str) -> None:
        """Write a request about an XA branch."""
        if self.transactions:
            self.write(event, xid)

    def destination_event(self, event: str, name: str) -> None:
        """Write the creation or removal of a destination."""
        if self.internal:
            self.write(event, name)

    def sending(self, message: Message) -> None:
        """Write the arrival of a message."""
        line = f"{message.message_id}, {message.destination}"
        delivery = "persistent" if message.persistent else "not persistent"
        self._logger(message.destination).info(
            "sending message: %s, %s, %d bytes", printable(line), delivery, len(message.raw)
        )

    def _logger(self, destination: Destination) -> logging.Logger:
        if not self._settings.per_destination or destination.is_composite:
            return logger
        name = f"{LOGGER}.{FAMILIES[destination.kind]}.{printable(destination.name)}"
        if name not in self._names:
            if len(self._names) >= MAX_LOGGERS:
                return logger
            self._names.add(name)
        return logging.getLogger(name)


class LoggedConsumer(MessageConsumer):
    """Writes each dispatch to a consumer."""

    def __init__(self, consumer: MessageConsumer, name: str, log: EventLog) -> None:
        self._consumer: Final[MessageConsumer] = consumer
        self._name: Final[str] = name
        self._log: Final[EventLog] = log

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Write a line, then dispatch."""
        self._log.write("dispatching message", str(message.message_id), f"to consumer {self._name}")
        self._consumer.dispatch(message, sequence, redelivery_count)

    def dispatch_end(self) -> None:
        """End a browse."""
        self._consumer.dispatch_end()

    def close(self, reason: JmsError) -> None:
        """Log the end of the consumer by the broker, then end the consumer."""
        self._log.write("ending consumer", self._name, str(reason))
        self._consumer.close(reason)

    def switch_to_pull(self) -> bool:
        """Switch the client to pull mode."""
        return self._consumer.switch_to_pull()


class LoggedDeaths(DeathRule):
    """Writes each expired or rejected message, without a decision about the dead letter."""

    def __init__(self, log: EventLog) -> None:
        self._log: Final[EventLog] = log

    def fate(self, reference: MessageReference, cause: str) -> int:
        """Return `KEEP`."""
        message = reference.message
        event = "message has expired" if cause == EXPIRED else "message was given up"
        self._log.write(event, str(message.message_id), str(message.destination))
        return KEEP

    def deliver_later(self, reference: MessageReference, cause: str) -> bool:
        """Return False; never called."""
        return False
