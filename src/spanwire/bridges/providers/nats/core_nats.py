"""Source and target over core NATS, which keeps and acknowledges nothing."""

from __future__ import annotations

import logging
from typing import Final

from nats.aio.msg import Msg

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, SourceWithoutReplies, TargetWithoutReplies
from spanwire.bridges.providers.dead_letters import CAUSE, ORIGIN, SUFFIX, cause_text
from spanwire.bridges.providers.inbox import MAX_OCTETS, Inbox
from spanwire.bridges.providers.nats.connecting import NatsConnection, translated
from spanwire.bridges.providers.nats.messages import bridge_message, outgoing_message
from spanwire.model.errors import JmsError, MessageFormatError

MAX_WAITING: Final = 10_000  # messages in the inbox; core NATS has no credit that would hold others back

logger = logging.getLogger(__name__)


class CoreSource(SourceWithoutReplies):
    """A subscription; what comes while the bridge is away is lost."""

    def __init__(self, source: Source) -> None:
        self._source: Final[Source] = source
        self._inbox: Final[Inbox[Msg]] = Inbox()
        self._connection: Final = NatsConnection(source.factory, self._inbox.fail)
        self._last: Msg | None = None  # the last message that the bridge has received
        self._drops = False

    async def open(self) -> None:
        """Connect and subscribe."""
        await self._connection.open()
        with translated(self._connection.place):
            await self._connection.subscribe(self._source.destination.name, cb=self._on_message)
        await self._connection.flushed()

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages, but no dead letters of this source."""
        arrived = await self._inbox.take(max_messages, max_bytes, wait_s)
        wanted = [message for message in arrived if not self._is_own_dead_letter(message)]
        self._last = wanted[-1] if wanted else self._last
        return [bridge_message(message) for message in wanted]

    def _is_own_dead_letter(self, message: Msg) -> bool:
        is_marked = (message.headers or {}).get(ORIGIN) == str(self._source.destination)
        return is_marked and message.subject.endswith(SUFFIX)

    async def acknowledge(self) -> None:
        """Do nothing: core NATS has no acknowledgements."""
        self._inbox.check()

    async def dead_letter(self, cause: str) -> None:
        """Publish the last message with its cause to the subject ``NAME.DLQ``."""
        last = self._last
        assert last is not None, "a dead letter was received before"
        notes = {CAUSE: cause_text(cause), ORIGIN: str(self._source.destination)}
        with translated(self._connection.place):
            await self._connection.publish(last.subject + SUFFIX, last.data, headers=(last.headers or {}) | notes)
        await self._connection.flushed()

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._inbox.check()
        self._connection.check()

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.end()

    async def _on_message(self, message: Msg) -> None:
        if len(self._inbox) >= MAX_WAITING or self._inbox.octets >= MAX_OCTETS:
            if not self._drops:
                logger.warning("%s: messages come too fast, and some are lost", self._connection.place.shown)
            self._drops = True
            return
        self._inbox.put(message, len(message.data))


class CoreTarget(TargetWithoutReplies):
    """A publisher to one subject. A message counts as sent when the server has read it."""

    def __init__(self, target: Target) -> None:
        self._subject: Final[str] = target.destination.name
        self._failure: JmsError | None = None
        self._connection: Final = NatsConnection(target.factory, self._fail)

    async def open(self) -> None:
        """Connect."""
        await self._connection.open()

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Publish messages, and wait until the server has read them."""
        outgoing: list[tuple[bytes, dict[str, str]]] = []
        for index, message in enumerate(messages):
            try:
                outgoing.append(outgoing_message(message, self._subject, self._connection.max_payload))
            except MessageFormatError as error:
                raise MessageRefusedError(index, str(error)) from None
        self.check()
        with translated(self._connection.place):
            for body, headers in outgoing:
                await self._connection.publish(self._subject, body, headers=headers)
        await self._connection.flushed()
        self.check()

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        if self._failure is not None:
            raise JmsError(str(self._failure))
        self._connection.check()

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.end()

    def _fail(self, error: JmsError) -> None:
        self._failure = self._failure or error
