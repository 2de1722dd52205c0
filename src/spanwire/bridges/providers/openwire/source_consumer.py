"""The consumer of a source, which another one replaces when messages do not fit into memory.

A broker counts messages, and the answers that a bridge waits for stand behind messages already sent. So a source reads
on, and keeps `MAX_OCTETS` of messages, or one larger message. A message without room stays unacknowledged at the
broker. Once all kept messages are acknowledged, the consumer is closed, and the next one asks for fewer messages.
ActiveMQ Classic may change the order of messages that it takes back twice, so it has more room, `MAX_IN_ORDER`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from spanwire.bridges.model.definition import Source
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.inbox import MAX_FLOOD, MAX_IN_ORDER, MAX_OCTETS
from spanwire.bridges.providers.openwire.connecting import is_classic
from spanwire.bridges.providers.openwire.messages import bridge_messages
from spanwire.bridges.providers.window import Window
from spanwire.client.addressing.consumer_options import ConsumerOptions
from spanwire.client.aio.connection import Connection
from spanwire.client.aio.consumer import Consumer
from spanwire.client.aio.session import Session
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.model.errors import JmsError
from spanwire.model.units import MIB


class SourceConsumer:
    """Receives the messages of a source in one session."""

    def __init__(self, connection: Connection, session: Session, source: Source, credit: int, retains: bool) -> None:
        """``retains`` keeps delivered messages until the end of their transaction."""
        self._connection: Final[Connection] = connection
        self._session: Final[Session] = session
        self._source: Final[Source] = source
        self._retains: Final[bool] = retains
        # A broker sends the messages of a topic without a durable subscription once.
        self._is_fixed: Final[bool] = not source.destination.is_queue and source.subscription is None
        self._window: Final = Window(credit, is_fixed=self._is_fixed)
        self._consumer: Consumer | None = None
        self._opening: asyncio.Future[None] | None = None  # the next consumer
        self._acknowledged: Final = asyncio.Event()
        self._is_delayed = False  # the last call has waited for acknowledgements alone

    @property
    def core(self) -> ClientConsumer:
        """The client's core of the present consumer."""
        assert self._consumer is not None, "a source is opened before its use"
        return self._consumer.core

    async def open(self) -> None:
        """Begin to consume."""
        source = self._source
        options = ConsumerOptions(
            source.selector, None, self._window.size, subscription_name=source.subscription, max_octets=self._room()
        )
        self._consumer = await self._session.subscribe(source.destination, options)
        if not self._retains:
            self.core.discard_delivered()  # the broker alone redelivers

    def _room(self) -> int:
        """Return the octets of messages that may wait."""
        if self._is_fixed:
            return MAX_FLOOD
        return MAX_IN_ORDER if is_classic(self._connection) else MAX_OCTETS

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Wait for the first message, then take all messages at hand, without a further wait."""
        self._is_delayed = False
        if self._is_closed() and self.core.octets == 0:
            if self._window.held and not await self._wait_for_acknowledgements(wait_s):
                self._is_delayed = True
                return []
            if self._opening is None:
                self._opening = asyncio.ensure_future(self._open_next())
        if self._opening is not None:
            await asyncio.shield(self._opening)  # a cancelled call must not cancel half of it
            self._opening = None
        assert self._consumer is not None
        first = await self._consumer.receive(wait_s)
        if first is None:
            return []
        shared = self._connection.shared
        room = max_bytes - len(first.raw)
        more = self.core.next_messages(max_messages - 1, room, shared.machine.now()) if room > 0 else []
        if more:
            shared.on_delivered()
        messages = bridge_messages([first, *more])
        self._window.take(len(messages), sum([message.size for message in messages]))
        return messages

    def _is_closed(self) -> bool:
        """Return True if the present consumer keeps no further message."""
        if self.core.is_full and not self._window.is_closed:
            if self._is_fixed:
                raise JmsError(
                    f"more than {MAX_FLOOD // MIB} MiB of messages of {self._source.destination} wait, and the broker "
                    "sends them once; set subscriptionName, so that it keeps them"
                )
            self._window.overflow()
        self.core.is_full = self._window.is_closed  # for want of room, or because a larger window comes next
        return self._window.is_closed

    async def _wait_for_acknowledgements(self, wait_s: float) -> bool:
        self._acknowledged.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self._window.held:
                    await self._acknowledged.wait()
                    self._acknowledged.clear()
        return not self._window.held

    async def _open_next(self) -> None:
        """Return the messages that were not kept to the broker, and consume with the next window."""
        assert self._consumer is not None
        await self._consumer.close()
        self._window.open_next()
        await self.open()

    def is_exhausted(self) -> bool:
        """Return True if no message comes before an acknowledgement, or none came for want of one that is there now."""
        if self._consumer is None or self._opening is not None:
            return False
        return self._is_closed() and self.core.octets == 0 and (self._window.held > 0 or self._is_delayed)

    @property
    def held(self) -> int:
        """Received messages without an acknowledgement."""
        return self._window.held

    def acknowledge(self, count: int) -> None:
        """Count messages whose acknowledgement is written, or whose transaction has ended."""
        self._window.acknowledge(count)
        self._acknowledged.set()

    async def stop_opening(self) -> None:
        """Give the next consumer up, because the source is closed."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
