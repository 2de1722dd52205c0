"""The broker's view of a consumer on an OpenWire connection."""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import MessageConsumer
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.ids import ConsumerId, MessageId
from spanwire.model.message import Message
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.messages.dispatch import (
    append_dispatch,
    dispatch_chunks,
    dispatch_start,
    full_dispatch,
    passes,
)
from spanwire.protocols.openwire.messages.identities import wire_consumer_id
from spanwire.protocols.openwire.messages.message_format import CANONICAL_VERSIONS, CARRYING, OpenWireMessageFormat
from spanwire.protocols.openwire.output import SEPARATE_CHUNK_BYTES, OutputBuffer

WIDE: Final = 64  # places that hold a message from which on its consumers share its octets instead of copying them
SHARED_BYTES: Final = 512  # smaller messages are always copied: that takes no longer than sharing

logger = logging.getLogger(__name__)


class Undelivered:
    """A message that cannot be encoded for a consumer, and is to become a dead letter."""

    __slots__ = ("consumer", "message_id")

    def __init__(self, consumer: OpenWireConsumer, message_id: MessageId) -> None:
        self.consumer: Final[OpenWireConsumer] = consumer
        self.message_id: Final[MessageId] = message_id


class OpenWireConsumer(MessageConsumer):
    """Writes dispatches into the connection's output; the broker chooses the messages.

    The first part of a MessageDispatch is equal for all messages of a destination and cached for the last destination.
    ``undelivered`` is the connection's list, emptied after each turn's flush.
    """

    def __init__(
        self,
        consumer_id: ConsumerId,
        output: OutputBuffer,
        formats: MessageFormats,
        message_format: OpenWireMessageFormat,
        undelivered: list[Undelivered],
    ) -> None:
        self.consumer_id: Final[ConsumerId] = consumer_id
        self.subscription: Subscription | None = None
        self._wire_id: Final[wire.ConsumerId] = wire_consumer_id(consumer_id)
        self._start: Final[bytes] = dispatch_start(self._wire_id)
        self._output: Final[OutputBuffer] = output
        self._formats: Final[MessageFormats] = formats
        self._message_format: Final[OpenWireMessageFormat] = message_format
        self._format_id: Final[int] = message_format.format_id
        self._undelivered: Final[list[Undelivered]] = undelivered
        self._head_destination: Destination | None = None
        self._head = b""

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Encode a message, or put the message aside if the connection cannot take more."""
        own = message
        if message.format_id != self._format_id:
            try:
                own = self._converted(message)
            except (JmsError, ProtocolError) as error:
                self._put_aside(message, error)
                return
        output = self._output
        if (not output.passes_messages or own.format_index & CARRYING) and not passes(own, output.encoder):
            self._dispatch_command(own, sequence, redelivery_count)
            return
        destination = own.destination
        if destination is not self._head_destination:
            self._head = self._start + self._message_format.destination_octets.of(destination)
            self._head_destination = destination
        size = len(own.raw)
        if size <= SEPARATE_CHUNK_BYTES and (size <= SHARED_BYTES or message.holders <= WIDE):
            append_dispatch(output.writer, self._head, own, sequence, redelivery_count)
        else:
            large = self._message_format.large
            for chunk in dispatch_chunks(self._head, own, sequence, redelivery_count, large):
                output.append_chunk(chunk)
            output.large = large

    def dispatch_end(self) -> None:
        """Write a MessageDispatch without a message."""
        self._output.append(wire.MessageDispatch(consumer_id=self._wire_id))

    def close(self, reason: JmsError) -> None:
        """Ask the client to close this consumer; OpenWire has no field for the reason."""
        logger.info("consumer %s ended: %s", self.consumer_id, reason)
        self._output.append(wire.ConsumerControl(consumer_id=self._wire_id, close=True))

    def switch_to_pull(self) -> bool:
        """Set the client's prefetch to 0, so that it pulls; return True."""
        self._output.append(wire.ConsumerControl(consumer_id=self._wire_id, prefetch=0))
        return True

    def _converted(self, message: Message) -> Message:
        if message.format_id in CANONICAL_VERSIONS:
            return self._message_format.from_version(message)
        return self._formats.converted(message, self._format_id)

    def _dispatch_command(self, message: Message, sequence: int, redelivery_count: int) -> None:
        try:
            self._output.append(full_dispatch(self._wire_id, message, sequence, redelivery_count))
        except ProtocolError as error:
            self._put_aside(message, error)

    def _put_aside(self, message: Message, error: Exception) -> None:
        logger.warning(
            "message %s cannot be written for consumer %s: %s; it becomes a dead letter",
            message.message_id,
            self.consumer_id,
            error,
        )
        self._undelivered.append(Undelivered(self, message.message_id))
