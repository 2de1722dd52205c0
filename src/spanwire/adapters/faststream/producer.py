"""Sends what FastStream publishes, and waits for replies."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream.exceptions import FeatureNotSupportedException, IncorrectState

from spanwire.adapters.faststream.message import CONTENT_TYPE, MessageParser
from spanwire.adapters.faststream.replies import Replies
from spanwire.adapters.faststream.response import REQUEST_TIMEOUT_S, SpanwirePublishCommand
from spanwire.client import Message
from spanwire.client.aio import Connection, Producer
from spanwire.model.destination import Destination

TEXTS: Final = ("text/", "application/json")  # content types whose bodies are text messages


class SpanwireProducer(ProducerProto[SpanwirePublishCommand]):
    """Sends over one session of the broker's connection."""

    def __init__(self, parser: Any = None, decoder: Any = None) -> None:
        default = MessageParser()
        self._parser = ParserComposition(parser, default.parse_message)
        self._decoder = ParserComposition(decoder, default.decode_message)
        self.codec: Any = DefaultCodec()
        self._serializer: Any = None
        self._producer: Producer | None = None
        self._replies: Replies | None = None

    async def connect(self, connection: Connection, serializer: Any, codec: Any) -> None:
        """Open the session of all sends. Raises `JmsError`."""
        self.codec = codec
        self._serializer = serializer
        self._producer = await connection.session().create_producer()
        self._replies = Replies(connection)

    async def disconnect(self) -> None:
        """Forget the session, which ends with the connection; requests that wait fail."""
        self._producer = None
        if self._replies is not None:
            await self._replies.close()
            self._replies = None

    async def publish(self, cmd: SpanwirePublishCommand) -> None:
        """Send one message; returns when the broker has stored it, if it is persistent. Raises `JmsError`."""
        await self._send(cmd, cmd.reply_to or None)

    async def request(self, cmd: SpanwirePublishCommand) -> Message:
        """Send a request and return the reply.

        Raises:
            TimeoutError: No reply within ``timeout`` seconds.
            JmsError: The broker refused the request, or the connection has failed.
        """
        if self._replies is None:
            raise IncorrectState("the broker is not connected; await broker.connect() first")
        assert cmd.correlation_id is not None, "FastStream gives each request an id"
        async with asyncio.timeout(cmd.timeout or REQUEST_TIMEOUT_S):
            queue = await self._replies.queue()
            with self._replies.expecting(cmd.correlation_id) as reply:
                await self._send(cmd, queue)
                return await reply

    async def publish_batch(self, cmd: SpanwirePublishCommand) -> None:
        """Raise `FeatureNotSupportedException`: a send is one message."""
        raise FeatureNotSupportedException("Spanwire has no batches: publish the messages one by one")

    async def _send(self, cmd: SpanwirePublishCommand, reply_to: Destination | str | None) -> None:
        if self._producer is None:
            raise IncorrectState("the broker is not connected; await broker.connect() first")
        body, properties = await encoded(cmd, self.codec, self._serializer)
        await self._producer.send(
            body,
            properties,
            cmd.destination,
            correlation_id=cmd.correlation_id,
            reply_to=reply_to,
            persistent=cmd.persistent,
            priority=cmd.priority,
            time_to_live_ms=cmd.time_to_live_ms,
            group_id=cmd.group_id,
            delay_ms=cmd.delay_ms,
        )


async def encoded(cmd: SpanwirePublishCommand, codec: Any, serializer: Any) -> tuple[str | bytes, dict[str, Any]]:
    """Return body and properties of a message: a text message for texts and JSON, else a bytes message."""
    octets, content_type = await codec.encode(cmd.body, serializer)
    properties = dict(cmd.headers or {})
    if content_type:
        properties[CONTENT_TYPE] = content_type
        if content_type.startswith(TEXTS):
            try:
                return octets.decode("utf-8"), properties
            except UnicodeDecodeError:
                pass  # a codec of the program may write other texts: they go as bytes
    return octets, properties
