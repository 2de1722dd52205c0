"""The subscription of a source over STOMP, and the acknowledgements.

A broker counts messages, and receipts stand behind messages already sent. So a connection reads on, and keeps
`MAX_OCTETS` of messages, or one larger message. A message without room stays unacknowledged at the broker. Once all
kept messages are acknowledged, another subscription asks for the others again, with fewer messages ahead. ActiveMQ
Classic may change the order of messages that it takes back twice, so it has more room, `MAX_IN_ORDER`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from spanwire.bridges.model.definition import Source
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.dead_letters import CAUSE, ORIGIN, SUFFIX, cause_text
from spanwire.bridges.providers.stomp.connection import Headers, StompConnection
from spanwire.bridges.providers.stomp.messages import bridge_message, dead_letter_frame
from spanwire.bridges.providers.window import AIM, Window
from spanwire.client.io.environment import Machine
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.protocols.stomp.bodies.transformation import JSON, TRANSFORMATION
from spanwire.protocols.stomp.codec.frames import ACK, BEGIN, COMMIT, SUBSCRIBE, UNSUBSCRIBE, Frame
from spanwire.protocols.stomp.destinations import destination_text

SUBSCRIPTION: Final = "bridge"  # beginning of the id of a subscription
ACTIVEMQ_DEAD_LETTERS: Final = Destination(QUEUE, "ActiveMQ.DLQ")


class StompReceiver:
    """Receives and acknowledges the messages of a source."""

    def __init__(
        self,
        connection: StompConnection,
        source: Source,
        credit: int,
        reconnect: Callable[[], Awaitable[StompConnection]],
    ) -> None:
        """``credit`` messages may come ahead of their acknowledgement. ``reconnect`` opens another connection."""
        self.connection = connection
        self._source: Final[Source] = source
        self._reconnect: Final = reconnect
        self._machine: Final = Machine()
        # A broker sends the messages of a topic without a durable subscription once.
        is_fixed = not source.destination.is_queue and source.subscription is None
        self._keeps_all: Final[bool] = is_fixed
        self._window: Final = Window(credit, is_fixed=is_fixed)
        self._opening: asyncio.Future[None] | None = None  # the next subscription
        self._asks_for_maps = False
        self._subscriptions = 0
        self._last: Frame | None = None  # the last received message without an acknowledgement
        self._dead_letters = 0

    async def subscribe(self, asks_for_maps: bool) -> None:
        """Subscribe with a window of messages ahead of their acknowledgement, and with maps as JSON if asked for."""
        source, is_rabbit = self._source, self.connection.is_rabbit
        if source.selector is not None and is_rabbit:
            raise ConfigurationError("RabbitMQ has no selectors, so all messages would cross; remove selector")
        self._asks_for_maps = asks_for_maps
        self.connection.keeps_all = self._keeps_all
        self._subscriptions += 1
        self.connection.subscription = f"{SUBSCRIPTION}-{self._subscriptions}"
        if is_rabbit and source.subscription is not None:
            self.connection.subscription = source.subscription  # the id is its name
        headers: Headers = [
            ("id", self.connection.subscription),
            ("destination", destination_text(source.destination)),
            ("ack", "client"),
            ("prefetch-count" if is_rabbit else "activemq.prefetchSize", str(self._window.size)),
        ]
        if not is_rabbit:  # Artemis reads the header of ActiveMQ as octets, unless there is its own
            headers.append(("consumer-window-size", str(AIM)))
        if asks_for_maps and not is_rabbit:
            headers.append((TRANSFORMATION, JSON))
        if source.selector is not None:
            headers.append(("selector", source.selector))
        if source.subscription is not None and is_rabbit:
            headers += [("durable", "true"), ("auto-delete", "false")]
        elif source.subscription is not None:
            headers.append(("activemq.subscriptionName", source.subscription))
        self.connection.is_full = False
        await self.connection.request(SUBSCRIBE, headers)

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Wait for the first message, then take all messages at hand."""
        if self._is_closed() and self._window.is_due() and not len(self.connection.inbox) and self._opening is None:
            self._opening = asyncio.ensure_future(self._open_next())
        if self._opening is not None:
            await asyncio.shield(self._opening)  # a cancelled call must not cancel half of it
            self._opening = None
        frames = await self.connection.inbox.take(max_messages, max_bytes, wait_s)
        if frames:
            self._last = frames[-1]
        now_ms = self._machine.now().wall_ms
        messages = [bridge_message(frame, self.connection.is_rabbit, now_ms) for frame in frames]
        self._window.take(len(messages), sum([message.size for message in messages]))
        return messages

    def _is_closed(self) -> bool:
        """Return True if no further message is kept: for want of room, or because a larger window comes next."""
        if self.connection.is_full and not self._window.is_closed:
            self._window.overflow()
        self.connection.is_full = self._window.is_closed
        return self._window.is_closed

    async def _open_next(self) -> None:
        """Return the messages that were not kept to the broker, and subscribe with the next window.

        RabbitMQ takes them back at the end of their connection alone.
        """
        if self.connection.is_rabbit:
            await self.connection.leave()
            self.connection = await self._reconnect()
        else:
            await self.connection.request(UNSUBSCRIBE, [("id", self.connection.subscription)])
        self._window.open_next()
        await self.subscribe(self._asks_for_maps)

    def is_exhausted(self) -> bool:
        """Return True if no message comes before an acknowledgement."""
        if self._opening is not None:
            return False
        self._is_closed()
        return self._window.is_exhausted(len(self.connection.inbox))

    async def acknowledge(self, transaction: str | None = None) -> None:
        """Acknowledge all received messages; wait for the receipt without a transaction."""
        last, self._last = self._last, None
        if last is None:
            return
        headers: Headers = [("id", last.headers.get("ack", ""))]
        if transaction is None:
            await self.connection.request(ACK, headers)
            self.note_acknowledged()
        else:
            await self.connection.send(ACK, [*headers, ("transaction", transaction)])

    def note_acknowledged(self) -> None:
        """Note that the broker has all received messages acknowledged."""
        self._window.acknowledge(self._window.held)

    async def close(self) -> None:
        """Close the connection."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        await self.connection.close()

    async def dead_letter(self, cause: str) -> None:
        """Send the last message with the cause to the dead letter queue, and acknowledge, in one transaction."""
        assert self._last is not None, "a dead letter was received before"
        connection, last = self.connection, self._last
        queue = ACTIVEMQ_DEAD_LETTERS
        if connection.is_rabbit:
            queue = Destination(QUEUE, self._source.destination.name + SUFFIX)
        annotations: Headers = [(CAUSE, cause_text(cause)), (ORIGIN, str(self._source.destination))]
        if connection.is_rabbit:
            name, receipt = connection.receipt()
            try:
                await connection.write([dead_letter_frame(last, queue, [*annotations, ("receipt", name)])])
                await receipt
            finally:
                connection.forget([(name, receipt)])
            await self.acknowledge()
            return
        self._dead_letters += 1
        transaction = f"dead-letter-{self._dead_letters}"
        await connection.send(BEGIN, [("transaction", transaction)])
        await connection.write([dead_letter_frame(last, queue, [*annotations, ("transaction", transaction)])])
        await self.acknowledge(transaction)
        await connection.request(COMMIT, [("transaction", transaction)])
        self.note_acknowledged()
