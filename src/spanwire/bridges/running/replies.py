"""Replies to requests that a bridge has forwarded.

A reply destination exists at the source's broker, so the receiver of a forwarded request cannot reach it. A temporary
queue of the target stands for each reply destination, and its messages return to the original.

    requester ──▶ source ──▶ bridge ──▶ target ──▶ receiver
        ▲                                              │
        └── reply destination ◀── bridge ◀── temporary queue
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.steps import ProxyReplyTo
from spanwire.bridges.ports import MessageSource, MessageTarget
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError

logger = logging.getLogger(__name__)


class ReplyProxies:
    """The temporary queues of one link. At the limit the queue that was used longest ago is removed."""

    def __init__(self, source: MessageSource, target: MessageTarget, limit: int) -> None:
        self._source: Final[MessageSource] = source
        self._target: Final[MessageTarget] = target
        self._limit: Final[int] = limit
        self._queues: Final[dict[Destination, Destination]] = {}  # by reply destination, the last used one at the end

    async def replace(self, messages: list[BridgeMessage]) -> None:
        """Replace the reply destinations of messages. Raises `JmsError`."""
        for message in messages:
            if message.reply_to is not None and message.reply_to not in self._queues.values():
                message.reply_to = await self._queue_of(message.reply_to)

    async def _queue_of(self, original: Destination) -> Destination:
        queue = self._queues.pop(original, None)
        if queue is None:
            while len(self._queues) >= self._limit:
                oldest = next(iter(self._queues))
                await self._target.close_reply_queue(self._queues.pop(oldest))

            async def forward(message: BridgeMessage) -> None:
                await self._forward(message, original)

            queue = await self._target.open_reply_queue(forward)
        self._queues[original] = queue
        return queue

    async def _forward(self, message: BridgeMessage, original: Destination) -> None:
        """Send a reply to its original destination; drop the reply if the destination is gone."""
        message.reply_to = None
        try:
            await self._source.send_reply(message, original)
        except JmsError as error:
            logger.warning("the reply %s to %s is lost: %s", message.message_id, original, error)


def reply_proxies(definition: BridgeDefinition, source: MessageSource, target: MessageTarget) -> ReplyProxies | None:
    """Return the proxies of a bridge with reply proxies.

    A batch never removes the queue of a message of the batch.
    """
    for step in definition.steps:
        if isinstance(step, ProxyReplyTo):
            return ReplyProxies(source, target, max(step.cache_size, definition.batch.size))
    return None
