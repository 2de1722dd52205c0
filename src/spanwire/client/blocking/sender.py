"""Sending calls of a blocking producer (JMS 1.1 §4.6).

This part of a producer differs between the shells: a message is encoded under the lock of the connection. A call
between would cost each message more.
"""

from __future__ import annotations

from time import time_ns
from typing import Final

from spanwire.client.blocking.shared.core_connection import FLUSH_BYTES, CoreConnection
from spanwire.client.io.environment import FORKS
from spanwire.client.messages.content_types import Body, Properties
from spanwire.client.messages.message_encoder import Outgoing, delayed_properties
from spanwire.client.protocol.producer import ClientProducer
from spanwire.model.destination import Destination

NANOSECONDS: Final = 1_000_000  # in a millisecond


class Sender:
    """Sends the messages of a producer."""

    def __init__(self, core: ClientProducer, shared: CoreConnection) -> None:
        self.core: Final = core
        self._shared: Final = shared
        self._ready: Final = shared.ready()

    def send(
        self,
        body: Body = None,
        properties: Properties | None = None,
        destination: Destination | str | None = None,
        message_type: str | None = None,
        correlation_id: str | None = None,
        reply_to: Destination | str | None = None,
        persistent: bool | None = None,
        priority: int | None = None,
        time_to_live_ms: int | None = None,
        group_id: str | None = None,
        group_sequence: int = 0,
        wait: bool | None = None,
        delay_ms: int | None = None,
    ) -> None:
        """Send one message.

        Arguments:
            body: str, bytes, dict, list, None or a received `Message`; the type of the body decides the JMS message
                type.
            properties: Message properties; None with a `Message` as body sends the properties of that message.
            destination: Destination, only for a producer without a destination.
            message_type: JMSType.
            correlation_id: JMSCorrelationID.
            reply_to: JMSReplyTo.
            persistent: Delivery mode; None for the producer's default.
            priority: 0 to 9; None for the producer's default.
            time_to_live_ms: Milliseconds until expiry, 0 for none; None for the producer's default.
            group_id: JMSXGroupID.
            group_sequence: JMSXGroupSeq.
            wait: True waits for the broker's response, False never waits. None waits for persistent messages outside of
                a transaction, unless the URL says ``jms.useAsyncSend=true``.
            delay_ms: Milliseconds of delay in the broker's scheduler.

        Raises:
            MessageFormatError: The body, a property, the priority or a time is not allowed.
            InvalidDestinationError: The destination is missing or wrong.
            ResourceAllocationError: No response within ``jms.sendTimeout``, or the message exceeds the broker's frame
                limit.
            JmsError: The broker refused the message, or the connection has failed.
        """
        sent_properties = properties if delay_ms is None else delayed_properties(properties, body, delay_ms)
        shared = self._shared
        if shared.forks == FORKS.count:
            with shared.lock:
                if not shared.unsent:
                    size = self.core.post(
                        body,
                        sent_properties,
                        destination,
                        message_type,
                        correlation_id,
                        reply_to,
                        persistent,
                        priority,
                        time_to_live_ms,
                        group_id,
                        group_sequence,
                        wait,
                        time_ns() // NANOSECONDS,
                    )
                    if size >= 0:
                        if size >= FLUSH_BYTES or not shared.batching.is_on:
                            shared.write_soon()
                        return
        outgoing = Outgoing(
            body,
            sent_properties,
            destination,
            message_type,
            correlation_id,
            reply_to,
            persistent,
            priority,
            time_to_live_ms,
            group_id,
            group_sequence,
        )
        self._send(outgoing, wait)

    def send_all(self, messages: list[Outgoing]) -> None:
        """Send several messages in order, as `send` does for each.

        Consecutive messages without a response are encoded under one lock and written together. After an exception the
        messages before the failed one are sent.

        Raises:
            JmsError: As `send`, for the first message that cannot be sent.
        """
        shared = self._shared
        index = 0
        while index < len(messages):
            start = index
            if shared.forks == FORKS.count:
                with shared.lock:
                    if not shared.unsent:
                        try:
                            index = self.core.post_all(messages, start, FLUSH_BYTES, time_ns() // NANOSECONDS)
                        finally:
                            shared.write_soon()
            if index == start:
                self._send(messages[index], None)
                index += 1

    def _send(self, outgoing: Outgoing, wait: bool | None) -> None:
        """Send with a response, or while the connection reconnects or the socket is full."""
        shared = self._shared
        timeout_ms = shared.core.settings.send_timeout_ms
        timeout = timeout_ms / 1000 if timeout_ms else None
        with self._ready:
            shared.wait_writable(timeout)
            request = self.core.send(outgoing, wait, shared.machine.now().wall_ms)
            if request is None:
                shared.write_soon()
                return
            shared.answer(request, timeout)
