"""Received messages as FastStream hands them to handlers."""

from __future__ import annotations

from re import Pattern
from typing import Any, Final

from faststream.message import StreamMessage, decode_message

from spanwire.client import Message
from spanwire.client.aio import Session
from spanwire.model.errors import MessageFormatError

CONTENT_TYPE: Final = "content-type"  # the property that holds FastStream's content type
REJECTED: Final = "a subscriber rejected the message"


class SpanwireMessage(StreamMessage):
    """A received message: ``raw_message`` is the message of the client."""

    raw_message: Message

    async def ack(self) -> None:
        """Acknowledge the message at the broker."""
        if self.committed is None:
            self.raw_message.acknowledge()
        await super().ack()

    async def nack(self) -> None:
        """Have the message come again, by the redelivery policy of the broker's URL."""
        session = self._deciding_session()
        if session is not None:
            session.redeliver(self.raw_message)
        await super().nack()

    async def reject(self, cause: str = REJECTED) -> None:
        """Have the broker send the message to the dead letters, with a reason for the operator."""
        session = self._deciding_session()
        if session is not None:
            session.reject(self.raw_message, cause)
        await super().reject()

    def _deciding_session(self) -> Session | None:
        """Return the session of a message that waits for a decision; a message of a test broker has none."""
        session = self.raw_message.acknowledger if self.committed is None else None
        return session if isinstance(session, Session) and session.decides_singly else None


class MessageParser:
    """Reads messages of the client for FastStream, with the parameters of a subscriber's path."""

    def __init__(self, path: Pattern[str] | None = None) -> None:
        self._path: Final = path

    async def parse_message(self, message: Message) -> SpanwireMessage:
        """Return FastStream's form of a message."""
        headers = dict(message.properties)
        content_type = headers.pop(CONTENT_TYPE, None)
        reply_to = message.reply_to
        found = None if self._path is None else self._path.match(message.destination.name)
        return SpanwireMessage(
            raw_message=message,
            body=body_of(message),
            headers=headers,
            reply_to="" if reply_to is None else reply_to.qualified_name,
            path={} if found is None else found.groupdict(),
            content_type=content_type if isinstance(content_type, str) else None,
            correlation_id=message.correlation_id,
            message_id=message.message_id,
        )

    async def decode_message(self, message: StreamMessage) -> Any:
        """Return the value of a body; maps and lists of other JMS clients are values already."""
        if not isinstance(message.body, (bytes, str)):
            return message.body
        return decode_message(message)


def check_readable(message: Message) -> None:
    """Decode what handlers get of a message, which keeps it.

    Raises:
        JmsError: properties or body cannot be decoded.
    """
    try:
        _ = message.properties
        body_of(message)
    except ValueError as error:
        raise MessageFormatError(str(error)) from None


def body_of(message: Message) -> Any:
    """Return the bytes of a text or bytes message, and the value of a map or stream message."""
    if message.kind in ("map", "stream"):
        return message.body
    return message.neutral_body() or b""
