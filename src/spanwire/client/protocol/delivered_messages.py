"""The delivered and unacknowledged messages of one consumer, and the encoding of acknowledgements."""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.client.messages.ack_range import AckRange
from spanwire.client.messages.ack_template import AcknowledgedIds, AcknowledgementEncoder
from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import NULL, nested_octets
from spanwire.client.protocol.redelivery_queue import RedeliveryQueue
from spanwire.client.protocol.response_correlator import Request, ResponseCorrelator
from spanwire.model.acks import DELIVERED_ACK, INDIVIDUAL_ACK, POISON_ACK, STANDARD_ACK
from spanwire.protocols.openwire.codec import _marshallers as wire

CLASSIC_PAGE: Final = 200  # messages; ActiveMQ's maxPageSize, its limit of dispatches without a MessageAck


class DeliveredMessages:
    """Keeps delivered messages until the acknowledgement, and encodes acknowledgements.

    With ``is_retained`` False only an `AckRange` stays in memory, for a reader that never recovers.
    """

    def __init__(self, correlator: ResponseCorrelator, consumer_id: wire.ConsumerId) -> None:
        self.is_retained = True
        self.is_sorted = False  # messages are delivered by priority, and a range counts in the order of the broker
        self._correlator: Final[ResponseCorrelator] = correlator
        self._consumer_id: Final[wire.ConsumerId] = consumer_id
        self._encoder: Final[AcknowledgementEncoder] = AcknowledgementEncoder(nested_octets(consumer_id))
        self._messages: Final[dict[bytes, Message]] = {}
        self._range = AckRange()
        self._arrivals = 0  # messages numbered so far
        self._extension = 0  # messages that DELIVERED_ACK has reported
        self._committing = 0  # messages, from the first, in a commit without a response

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_empty(self) -> bool:
        """Return True if no message waits for an acknowledgement."""
        return not self._messages and self._range.count == 0

    def add(self, message: Message, prefetch: int) -> bool:
        """Add a message. Returns True if the messages not yet reported fill half of the prefetch window."""
        if not self.is_retained:
            self._range.add(message)
            return 2 * (self._range.count - self._extension) >= min(prefetch, CLASSIC_PAGE)
        self._messages[message.id_octets] = message
        return 2 * (len(self._messages) - self._extension) >= prefetch

    def number(self, message: Message) -> None:
        """Number a dispatched message in the order of the broker, which differs from the order of delivery."""
        self._arrivals += 1
        message.arrival = self._arrivals

    def extend(self, last: Message, buffer: deque[Message], redeliveries: RedeliveryQueue) -> None:
        """Send a DELIVERED_ACK up to ``last``, so that the broker dispatches as many more messages.

        ActiveMQ uses the count of the acknowledgement. Spanwire and ActiveMQ before 5.16 count to the last message in
        their own order. So the report of sorted messages ends with the message that stands at their count in that
        order, delivered or not.
        """
        if self.is_sorted:
            in_flight = [*self._messages.values(), *buffer, *redeliveries.messages()]
            last = sorted(in_flight, key=_arrival)[len(self._messages) - 1]
        count = len(self._messages) if self.is_retained else self._range.count
        more = count - self._extension
        self._extension = count
        self.send(DELIVERED_ACK, last, last, more, NULL)

    def acknowledge_all(self, transaction: bytes) -> None:
        """Acknowledge all messages; inside of a transaction messages stay until `on_committed` or `take`."""
        first, last = self._range.first, self._range.last
        if first is not None and last is not None:
            self.send(STANDARD_ACK, first, last, self._range.count, transaction)
            self.clear()
        if not self._messages:
            return
        messages = list(self._messages.values())
        if self.is_sorted:  # not by INDIVIDUAL_ACK, with which ActiveMQ widens the window at each commit
            for message in messages:
                self.send(STANDARD_ACK, message, message, 1, transaction)
        else:
            self.send(STANDARD_ACK, messages[0], messages[-1], len(messages), transaction)
        if transaction == NULL:
            self.clear()
        else:
            self._committing = len(messages)

    def take_range(self) -> AckRange:
        """Return the messages delivered so far as a range, and begin the next range."""
        taken = self._range
        self._range = AckRange()
        self._extension = 0
        return taken

    def acknowledge_range(self, unkept: AckRange) -> Request | None:
        """Acknowledge a range of `take_range` with a request. The broker answers after a sync.

        Only the last message is acknowledged with a request. ActiveMQ syncs the disk once for each message of an
        answered range, and a sync covers all earlier writes (KahaDB: enableJournalDiskSyncs).

        Returns:
            None without a message to acknowledge, or after the connection broke: the broker redelivers the messages.
        """
        stored = unkept.stored
        first, before, after, last = unkept.first, unkept.before, unkept.after, unkept.last
        before_count = unkept.before_count
        after_count = unkept.count - before_count - 1
        if stored is None or stored.epoch != self._correlator.epoch:
            return None
        if first is not None and before is not None:
            self.send(STANDARD_ACK, first, before, before_count, NULL)
        if after is not None and last is not None:
            self.send(STANDARD_ACK, after, last, after_count, NULL)
        headers = stored.headers
        command = wire.MessageAck(
            destination=headers.destination,
            consumer_id=self._consumer_id,
            ack_type=STANDARD_ACK,
            first_message_id=headers.message_id,
            last_message_id=headers.message_id,
            message_count=1,
        )
        return self._correlator.request(command)

    def acknowledge_one(self, message: Message) -> None:
        """Acknowledge one message, unless the message is acknowledged or came over an earlier link."""
        if self.take_one(message):
            self.send(INDIVIDUAL_ACK, message, message, 1, NULL)

    def take_one(self, message: Message) -> bool:
        """Remove one message. Returns False if the message is acknowledged or came over an earlier link."""
        if message.epoch != self._correlator.epoch or self._messages.pop(message.id_octets, None) is None:
            return False
        if self._extension > 0:
            self._extension -= 1
        return True

    def on_committed(self) -> None:
        """Remove the messages of a successful commit, and keep messages delivered after the request."""
        count = self._committing
        if count < len(self._messages):
            for key in list(self._messages)[:count]:
                del self._messages[key]
            self._extension = max(0, self._extension - count)
            self._committing = 0
        else:
            self.clear()

    def take(self) -> list[Message]:
        """Return and remove all messages."""
        messages = list(self._messages.values())
        self.clear()
        return messages

    def last(self) -> Message | None:
        """Return the last delivered message, or None."""
        return list(self._messages.values())[-1] if self._messages else None

    def clear(self) -> None:
        """Remove all messages without an acknowledgement."""
        self._messages.clear()
        self._range.forget()
        self._extension = 0
        self._committing = 0

    def send(self, ack_type: int, first: Message, last: Message, count: int, transaction: bytes) -> None:
        """Send a MessageAck for ``count`` messages from ``first`` to ``last``; lost without a link."""
        ids = AcknowledgedIds(first.id_octets, last.id_octets, count)
        self._send(last.destination_octets, transaction, ack_type, ids)

    def send_poison(self, message: Message, cause: str) -> None:
        """Send a POISON_ACK: the broker moves the message to the dead-letter queue."""
        ids = AcknowledgedIds(message.id_octets, message.id_octets, 1, cause)
        self._send(message.destination_octets, NULL, POISON_ACK, ids)

    def poison_last(self, cause: str) -> None:
        """Send the message that was delivered last to the dead-letter queue, outside of the transaction.

        A caller that retains no messages calls this only if no other message waits for its acknowledgement.
        """
        message = self._range.last if self._range.last is not None else self.last()
        if message is None or message.epoch != self._correlator.epoch:
            return
        assert self._range.count <= 1, "a range of messages has one acknowledgement"
        self._range.forget()
        self._messages.pop(message.id_octets, None)
        self._extension = min(self._extension, len(self._messages))
        self.send_poison(message, cause)

    def _send(self, destination: bytes, transaction: bytes, ack_type: int, ids: AcknowledgedIds) -> None:
        correlator = self._correlator
        link = correlator.link
        if link is not None and correlator.is_online:
            link.send_frame(self._encoder.octets(link.wire_format, destination, transaction, ack_type, ids))


def _arrival(message: Message) -> int:
    return message.arrival
