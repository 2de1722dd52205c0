"""Consumer of the client core: dispatched messages, their delivery and acknowledgement.

Follows ActiveMQ's client. `AUTO` acknowledges each delivered message, `DUPS_OK` half a prefetch at a time. In the other
modes the session acknowledges, and DELIVERED_ACK keeps the prefetch window open meanwhile. Rolled back messages are
redelivered from here, by the redelivery policy.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.client.addressing.options import MAX_PREFETCH, ClientSettings
from spanwire.client.messages.ack_range import AckRange
from spanwire.client.messages.message import Message, MessageAcknowledger
from spanwire.client.messages.message_encoder import NULL
from spanwire.client.protocol.delivered_messages import DeliveredMessages
from spanwire.client.protocol.redelivery_queue import RedeliveryQueue, insert_by_priority
from spanwire.client.protocol.response_correlator import Request, ResponseCorrelator
from spanwire.model.acks import (
    EXPIRED_ACK,
    LAST_DELIVERED_UNSET,
    REDELIVERED_ACK,
    STANDARD_ACK,
)
from spanwire.model.environment import Time
from spanwire.model.errors import IllegalStateError, JmsError, RemoteProtocolError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.messages.message_layout import MessageScanner

TRANSACTED: Final = 0  # numbers of javax.jms.Session; INDIVIDUAL is ActiveMQSession's
AUTO: Final = 1
CLIENT: Final = 2
DUPS_OK: Final = 3
INDIVIDUAL: Final = 4

WINDOW_SLACK: Final = 1_000  # dispatches beyond two prefetches that are tolerated
FOREVER: Final = 0  # timeout of a MessagePull
AT_ONCE: Final = -1
OPTIMIZED_PERCENT: Final = 65  # of the prefetch, as in ActiveMQ
PULL_GRACE: Final = 10.0  # seconds; time for the broker to report an empty pull


class ClientConsumer:
    """A consumer of a session.

    A shell sets ``is_waiting`` before a wait; the consumer's number is added to `ResponseCorrelator.woken` to end the
    wait.
    """

    def __init__(
        self,
        correlator: ResponseCorrelator,
        info: wire.ConsumerInfo,
        mode: int,
        settings: ClientSettings,
        acknowledger: MessageAcknowledger | None,
    ) -> None:
        consumer_id = info.consumer_id
        assert consumer_id is not None
        self.number: Final[int] = consumer_id.value
        self.info: Final[wire.ConsumerInfo] = info
        self.prefetch = info.prefetch_size
        self.is_browser: Final[bool] = info.browser
        self.mode: Final[int] = DUPS_OK if info.browser else mode
        self.failure: JmsError | None = None
        self.is_waiting = False
        self.is_ended = False  # the browse has ended, or a pull found no message
        self.is_pulling = False
        self._pull_end: float | None = None
        self._announced: Request | None = None
        self.is_closed = False
        self.closes_with_transaction = False
        self.is_leaving = False  # waiting receives return None
        self.is_listening = False  # AUTO: `on_listener_done` acknowledges
        self.max_octets = 0  # of undelivered messages; 0 for no limit
        self.is_full = False  # messages without room come, or have come, and are not kept: they stay at the broker
        self.octets = 0  # of undelivered messages
        self.last_batch_bytes = 0  # bytes that the last `next_messages` returned
        self.last_delivered = LAST_DELIVERED_UNSET
        self._correlator: Final[ResponseCorrelator] = correlator
        self._settings: Final[ClientSettings] = settings
        self._acknowledger: Final[MessageAcknowledger | None] = acknowledger
        self._scanner = MessageScanner(12)
        self._optimized: Final[bool] = settings.optimize_acknowledge and self.mode == AUTO
        self._acknowledges_each: Final[bool] = self.mode == AUTO and not self._optimized
        self._acknowledged_at = 0.0
        self._in_listener: Message | None = None
        self._buffer: Final[deque[Message]] = deque()
        self._redeliveries: Final[RedeliveryQueue] = RedeliveryQueue(settings)
        self._delivered: Final[DeliveredMessages] = DeliveredMessages(correlator, consumer_id)
        self._delivered.is_sorted = settings.message_priority and not info.browser
        self._new_count = 0  # messages in the buffer without rolled back ones

    def announce(self) -> Request:
        """Announce the consumer. The broker refuses, or begins to dispatch messages."""
        assert self.info.consumer_id is not None
        request = self._correlator.request(self.info, owner=self.info.consumer_id.session_id)
        self._announced = request
        return request

    @property
    def is_announced(self) -> bool:
        """True after the broker has accepted the consumer."""
        request = self._announced
        return request is not None and request.done and not request.is_refused

    @property
    def is_refused(self) -> bool:
        """True after the broker has refused the consumer."""
        request = self._announced
        return request is not None and request.is_refused

    def on_dispatch(self, destination: bytes, raw: bytes, redelivery_count: int) -> None:
        """Take a dispatched message; empty ``raw`` is the end of a browse, or of a pull without a message.

        Raises `RemoteProtocolError` for a message that cannot be read, or beyond the prefetch window.
        """
        self.is_pulling = False
        if not raw:
            self.is_ended = True
            self.wake()
            return
        if self._new_count > 2 * self.prefetch + WINDOW_SLACK:
            raise RemoteProtocolError(f"the broker sends more than the {self.prefetch} messages it was asked for")
        if self.max_octets > 0 and self.octets > 0 and self.octets + len(raw) > self.max_octets:
            self.is_full = True
        if self.is_full:
            return
        scanner = self._scanner
        if scanner.version != self._correlator.version:
            scanner = MessageScanner(self._correlator.version)
            self._scanner = scanner
        scanner.scan(raw)
        message = Message(raw, scanner.version, scanner, destination, redelivery_count)
        message.epoch = self._correlator.epoch
        message.consumer_number = self.number
        message.acknowledger = self._acknowledger
        self._new_count += 1
        self._add_octets(len(raw))
        if self._delivered.is_sorted:
            self._delivered.number(message)
            insert_by_priority(self._buffer, message, self._new_count)
        else:
            self._buffer.append(message)
        if self.is_waiting:
            self.wake()

    def _add_octets(self, count: int) -> None:
        self.octets += count
        self._correlator.buffered_bytes += count

    def on_control(self, command: wire.ConsumerControl) -> None:
        """Handle a ConsumerControl: a new prefetch, or the end of the consumer."""
        if command.close:
            self.fail(JmsError("the broker closed the consumer"))
        elif command.prefetch > 0:
            self.prefetch = min(command.prefetch, MAX_PREFETCH)

    def wake(self) -> None:
        """End the wait of the shell."""
        self.is_waiting = False
        self._correlator.woken.append(self.number)

    def fail(self, error: JmsError) -> None:
        """Store the error for the next receive, and end the wait of the shell."""
        if self.failure is None:
            self.failure = error
        self.wake()

    def on_interrupted(self) -> None:
        """Handle a lost link: drop all messages, because the broker dispatches the messages again."""
        self._forget_buffer()
        self._delivered.clear()
        self.is_pulling = False
        if self.is_browser and not self.is_ended:
            self.fail(JmsError("the connection broke during the browse; begin again"))

    def next_message(self, now: Time) -> Message | None:
        """Return the next message for the application, or None.

        Raises:
            IllegalStateError: The consumer is closed.
            JmsError: The consumer has failed.
        """
        if self.is_closed:
            raise IllegalStateError("the consumer is closed")
        buffer = self._buffer
        rolled_back = self._redeliveries
        while True:
            if rolled_back.resume_at > 0.0 and not self._requeue_due(now.monotonic):
                break
            if not buffer:
                break
            message = buffer.popleft()
            self._add_octets(-len(message.raw))
            if self._new_count > len(buffer):
                self._new_count = len(buffer)
            if message.expiration > 0 and self._is_dropped(message, now):
                continue
            if self.mode == TRANSACTED and self._settings.redelivery.is_refused(message.redelivery_count):
                self._poison(message)
                continue
            self._deliver(message, now.monotonic)
            return message
        if self.failure is not None:
            raise self.failure
        return None

    def next_messages(self, max_count: int, max_bytes: int, now: Time) -> list[Message]:
        """Return the next messages, at most ``max_count``, until the total is ``max_bytes``.

        Sets `last_batch_bytes`. Without a message, raises the errors of `next_message`.
        """
        messages: list[Message] = []
        octets = 0
        while len(messages) < max_count and octets < max_bytes:
            try:
                message = self.next_message(now)
            except JmsError:
                if messages:
                    break  # the next call raises it again
                raise
            if message is None:
                break
            octets += len(message.raw)
            messages.append(message)
        self.last_batch_bytes = octets
        return messages

    def discard_delivered(self) -> None:
        """Do not retain delivered messages, for a reader that never recovers. They come in the order of the broker.

        Raises `IllegalStateError` unless the session's mode is client acknowledgement.
        """
        if self.mode != CLIENT:
            raise IllegalStateError('only a consumer of a session("client") can discard delivered messages')
        self._delivered.is_retained = self._delivered.is_sorted = False

    @property
    def resume_at(self) -> float:
        """Time of the next redelivery in monotonic seconds; 0 for none."""
        return self._redeliveries.resume_at

    def _requeue_due(self, now: float) -> bool:
        """Put due redeliveries at the front of the buffer. Returns True if messages may be delivered."""
        rolled_back = self._redeliveries
        back = rolled_back.due(now)
        back.reverse()
        self._buffer.extendleft(back)
        for message in back:
            self._add_octets(len(message.raw))
        return rolled_back.resume_at <= 0.0 or not rolled_back.is_blocking

    def _is_dropped(self, message: Message, now: Time) -> bool:
        if self.is_browser or not self._settings.check_expiry or not message.is_expired(now.wall_ms):
            return False
        self._delivered.send(EXPIRED_ACK, message, message, 1, NULL)
        self._pull_again()
        return True

    def _pull_again(self) -> None:
        """Let the shell pull again: the pulled message was not delivered to the application."""
        if self.prefetch == 0 and not self._buffer:
            self.is_ended = False

    def _deliver(self, message: Message, now: float) -> None:
        self.last_delivered = message.broker_sequence
        if self._acknowledges_each:
            if self.is_listening:
                self._in_listener = message
            else:
                self._delivered.send(STANDARD_ACK, message, message, 1, NULL)
            return
        delivered = self._delivered
        is_half = delivered.add(message, self.prefetch)
        if self._optimized:
            self._acknowledge_often_enough(now)
        elif is_half and self.mode == DUPS_OK:
            delivered.acknowledge_all(NULL)
        elif is_half:
            delivered.extend(message, self._buffer, self._redeliveries)

    def _acknowledge_often_enough(self, now: float) -> None:
        """Acknowledge at 65 percent of the prefetch or after a timeout (``jms.optimizeAcknowledge``)."""
        timeout_ms = self._settings.optimize_acknowledge_timeout_ms
        is_late = timeout_ms > 0 and 1000 * (now - self._acknowledged_at) >= timeout_ms
        if is_late or 100 * len(self._delivered) >= OPTIMIZED_PERCENT * self.prefetch:
            self._acknowledged_at = now
            self.acknowledge_delivered(NULL)

    def acknowledge_scheduled(self) -> None:
        """Acknowledge after ``jms.optimizedAckScheduledAckInterval``."""
        if self._optimized:
            self.acknowledge_delivered(NULL)

    def on_listener_done(self) -> None:
        """Acknowledge the message after the listener has processed the message."""
        message = self._in_listener
        self._in_listener = None
        if message is not None and message.epoch == self._correlator.epoch:
            self._delivered.send(STANDARD_ACK, message, message, 1, NULL)

    def on_listener_failed(self, now: Time) -> None:
        """Redeliver the message of a failed listener, except in the modes in which the application decides."""
        message = self._in_listener
        self._in_listener = None
        if message is not None:
            self.redeliver([message], now)
        elif self.mode == AUTO or self.mode == DUPS_OK or self.mode == INDIVIDUAL:
            self.redeliver(self.take_delivered(), now)

    def pull(self, timeout_ms: int) -> None:
        """Send a MessagePull if the prefetch is 0, the buffer is empty and no pull is pending."""
        if self.prefetch > 0 or self.is_pulling or self._buffer or not self._correlator.is_online:
            return
        if self.resume_at > 0.0 and self._redeliveries.is_blocking:
            return
        self.is_ended = False
        self.is_pulling = True
        self._correlator.send(
            wire.MessagePull(consumer_id=self.info.consumer_id, destination=self.info.destination, timeout=timeout_ms)
        )

    def begin_receive(self) -> None:
        """Forget the result of an earlier pull without a message."""
        if self.prefetch == 0:
            self.is_ended = False

    def pull_until(self, end: float | None, now: Time) -> float | None:
        """Pull a message before a wait, if the consumer has no prefetch.

        Returns:
            The end of the wait in monotonic seconds. A pull has `PULL_GRACE` more, because the broker reports an empty
            pull at the end of the timeout.
        """
        if self.prefetch > 0:
            return end
        if not self.is_pulling:
            remaining_ms = FOREVER if end is None else int(1000 * (end - now.monotonic))
            self.pull(remaining_ms if end is None else max(1, remaining_ms) if end > now.monotonic else AT_ONCE)
            self._pull_end = end
        if end is None or not self.is_pulling or self._pull_end is None or self._pull_end > end:
            return end
        return end + PULL_GRACE

    def prepare_wait(self) -> None:
        """Acknowledge delivered messages before a wait, in `DUPS_OK` and with optimized acknowledgement."""
        if len(self._delivered) > 0 and (
            self.mode == DUPS_OK or (self._optimized and self._settings.scheduled_acknowledge_ms == 0)
        ):
            self.acknowledge_delivered(NULL)

    def _acknowledge_last(self) -> None:
        """Before the close, send the acknowledgements delayed by the mode."""
        if self.mode == DUPS_OK or self._optimized:
            self.acknowledge_delivered(NULL)

    @property
    def has_delivered(self) -> bool:
        """True if delivered messages are unacknowledged."""
        return not self._delivered.is_empty

    def acknowledge_delivered(self, transaction: bytes) -> None:
        """Acknowledge all delivered messages. In a transaction the messages are retained until the end."""
        self._delivered.acknowledge_all(transaction)

    def take_range(self) -> AckRange:
        """Return the delivered messages for a later `acknowledge_stored`; after `discard_delivered` alone."""
        return self._delivered.take_range()

    def acknowledge_stored(self, taken: AckRange | None = None) -> Request | None:
        """Acknowledge all delivered messages, or those of `take_range`, as `DeliveredMessages.acknowledge_range`."""
        return self._delivered.acknowledge_range(self.take_range() if taken is None else taken)

    def poison_last(self, cause: str) -> None:
        """Send the message that was delivered last to the dead-letter queue with a cause."""
        self._delivered.poison_last(cause)

    def on_committed(self) -> None:
        """Remove the messages of a successful commit."""
        self._delivered.on_committed()

    def acknowledge_one(self, message: Message) -> None:
        """Acknowledge one message, unless it is acknowledged or came over an earlier link."""
        self._delivered.acknowledge_one(message)

    def redeliver_one(self, message: Message, now: Time) -> None:
        """Redeliver one message as `redeliver` does, unless it is acknowledged or came over an earlier link."""
        if self._delivered.take_one(message):
            self.redeliver([message], now)

    def reject_one(self, message: Message, cause: str) -> None:
        """Send one message to the dead-letter queue, unless it is acknowledged or came over an earlier link."""
        if self._delivered.take_one(message):
            self._delivered.send_poison(message, cause)

    def rollback(self, now: Time) -> None:
        """Redeliver all delivered messages; messages beyond the redelivery limit go to the dead-letter queue."""
        if self._optimized:
            self.acknowledge_delivered(NULL)  # optimized acknowledgement covers every delivered message
        else:
            self.redeliver(self.take_delivered(), now)

    def take_delivered(self) -> list[Message]:
        """Return and remove the delivered messages."""
        return self._delivered.take()

    def redeliver(self, messages: list[Message], now: Time) -> None:
        """Redeliver messages after a delay, or let the broker move the messages to the dead-letter queue.

        Messages of an earlier link are skipped, because the broker dispatches such messages again.
        """
        policy = self._settings.redelivery
        again: list[Message] = []
        most = 0
        for message in messages:
            if self.is_closed or message.epoch != self._correlator.epoch:
                continue
            before = message.redelivery_count
            message.redelivery_count = before + 1
            if policy.is_exceeded(before + 1):
                self._poison(message)
                continue
            self._delivered.send(REDELIVERED_ACK, message, message, 1, NULL)
            again.append(message)
            most = max(most, before + 1)
        if not again:
            return
        dice = 0.0
        if policy.use_collision_avoidance:
            dice = again[0].id_octets[-1] / 127.5 - 1.0  # differs between consumers, because their messages differ
        self._redeliveries.put(again, now.monotonic, policy.delay_ms(most, dice))
        if self._redeliveries.resume_at <= now.monotonic:
            self._requeue_due(now.monotonic)
        self.wake()

    def _poison(self, message: Message) -> None:
        limit = self._settings.redelivery.maximum_redeliveries
        cause = f"Exceeded redelivery policy limit: {limit}, redelivered {message.redelivery_count} times"
        self._delivered.send_poison(message, cause)
        self._pull_again()

    def close(self) -> Request | None:
        """Close the consumer. The broker dispatches unacknowledged messages to other consumers."""
        if self.is_closed:
            return None
        self.is_closed = True
        self._acknowledge_last()
        command = self._removal()
        self._forget_buffer()
        assert self.info.consumer_id is not None
        return self._correlator.remove(command, self.info.consumer_id.session_id)

    def leave_with_owner(self) -> None:
        """Close with the session or connection.

        Reports the last delivered message, so that redeliveries are marked.
        """
        self._acknowledge_last()
        if (
            not self.is_closed
            and self._correlator.is_online
            and (self.has_delivered or self._last_rolled_back() is not None)
        ):
            self._correlator.send(self._removal())
        self._forget_buffer()

    def _forget_buffer(self) -> None:
        self._add_octets(-self.octets)
        self._buffer.clear()
        self._redeliveries.clear()
        self._in_listener = None
        self._new_count = 0

    def _last_rolled_back(self) -> Message | None:
        """Return the rolled back message with the latest dispatch by the broker, or None."""
        rolled_back = len(self._buffer) - self._new_count
        last = self._redeliveries.last()
        if rolled_back > 0:
            message = self._buffer[rolled_back - 1]
            if last is None or message.broker_sequence > last.broker_sequence:
                return message
        return last

    def _removal(self) -> wire.RemoveInfo:
        """Return the RemoveInfo with the sequence of the last delivered and unacknowledged message.

        With the sequence of an acknowledged message the broker would mark no message as delivered. In the buffer,
        rolled back messages come before undelivered messages.
        """
        last = self.last_delivered
        rolled_back = self._last_rolled_back()
        if rolled_back is not None:
            last = rolled_back.broker_sequence
        else:
            delivered = self._delivered.last()
            if delivered is not None:
                last = delivered.broker_sequence
        return wire.RemoveInfo(object_id=self.info.consumer_id, last_delivered_sequence_id=last)
