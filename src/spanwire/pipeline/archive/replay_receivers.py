"""The pending messages at the queues of a replay, asked of the broker's statistics plug-in.

Spanwire and ActiveMQ answer alike, if ``<statisticsBrokerPlugin/>`` is in their configuration.
"""

from __future__ import annotations

import contextlib
from typing import Final

from spanwire.client import blocking
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.archive.replay import Receivers
from spanwire.pipeline.link.connections import connect
from spanwire.pipeline.options import Login

PREFIX: Final = "ActiveMQ.Statistics.Destination."
LAST: Final = Destination(QUEUE, "ActiveMQ.Statistics.Broker")  # always answered, and in the order of the requests
ANSWER_S: Final = 10.0  # seconds; a broker answers such a request at once
AHEAD: Final = 1000  # messages pending at a queue with consumers: as in a move (`spanwire.broker.moves.pace`)


class QueueReceivers(Receivers):
    """A connection with requests for statistics; not thread-safe."""

    def __init__(self, login: Login) -> None:
        """Connect to the broker.

        Raises:
            JmsError: the broker is lost or refuses the login.
            ConfigurationError: the URL is invalid.
        """
        self._connection: Final[blocking.Connection] = connect(login)
        session = self._connection.session()
        self._answers: Final[Destination] = session.create_temporary_queue()
        self._consumer: Final = session.create_consumer(self._answers)
        self._producer: Final = session.create_producer(None, persistent=False, time_to_live_ms=round(ANSWER_S * 1000))

    def waits_for(self, rows: list[Outgoing]) -> str:
        """Return the first queue of the messages that has consumers and enough messages for them."""
        for destination in dict.fromkeys(row.destination for row in rows):
            if not isinstance(destination, Destination) or destination.kind != QUEUE:
                continue
            pending, consumers = self._ask(destination)
            if consumers > 0 and pending >= AHEAD:
                return f"consumers of {destination}"
        return ""

    def _ask(self, queue: Destination) -> tuple[int, int]:
        """Return the pending messages and the consumers of a queue; 0 for one that does not exist yet."""
        request = Destination(QUEUE, PREFIX + queue.name)
        self._producer.send(None, destination=request, reply_to=self._answers)
        self._producer.send(None, destination=LAST, reply_to=self._answers, correlation_id=LAST.name)
        pending = consumers = 0
        while (answer := self._consumer.receive(timeout=ANSWER_S)) is not None:
            if answer.correlation_id == LAST.name:
                return pending, consumers
            body = answer.body if isinstance(answer.body, dict) else {}
            pending = int(body.get("size", 0)) - int(body.get("inflightCount", 0))
            consumers = int(body.get("consumerCount", 0))
        raise ConfigurationError(
            f"--follow: the broker does not say how much is pending at {queue}; add <statisticsBrokerPlugin/> to its "
            "<plugins>, or leave --follow out"
        )

    def close(self) -> None:
        """Disconnect. Raises nothing."""
        with contextlib.suppress(JmsError):
            self._connection.close()
