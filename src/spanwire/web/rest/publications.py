"""Publications: messages sent together by one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spanwire.client.aio import Connection
from spanwire.client.messages.content_types import BodyValue
from spanwire.client.messages.typed_values import Typed
from spanwire.model.destination import Destination
from spanwire.model.errors import MessageFormatError

NewBody = str | bytes | dict[str, BodyValue] | list[BodyValue] | None
Value = str | bool | int | float | Typed | None


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to send."""

    body: NewBody
    properties: dict[str, Value]
    persistent: bool
    priority: int
    lifetime_ms: int
    delay_ms: int | None
    correlation_id: str | None
    reply_to: Destination | None
    message_type: str | None
    group: str | None
    group_sequence: int = 0


async def publish_together(
    connection: Connection, destination: Destination, messages: Sequence[NewMessage]
) -> list[str]:
    """Send messages, all or none, and wait until the broker's answer. Returns the message ids.

    Raises:
        MessageFormatError: a message cannot be sent; the text has its number.
        JmsError: the broker refuses a message, or the connection has failed.
    """
    ids: list[str] = []
    is_single = len(messages) == 1
    async with connection.session("auto" if is_single else "transacted") as session:
        producer = await session.create_producer(destination)
        for number, message in enumerate(messages, 1):
            try:
                await producer.send(
                    message.body,
                    message.properties or None,
                    message_type=message.message_type,
                    correlation_id=message.correlation_id,
                    reply_to=message.reply_to,
                    persistent=message.persistent,
                    priority=message.priority,
                    time_to_live_ms=message.lifetime_ms,
                    group_id=message.group,
                    group_sequence=message.group_sequence,
                    wait=is_single,
                    delay_ms=message.delay_ms,
                )
            except MessageFormatError as error:
                raise MessageFormatError(f"message {number}: {error}") from error
            ids.append(producer.last_message_id or "")
        if not is_single:
            await session.commit()
    return ids
