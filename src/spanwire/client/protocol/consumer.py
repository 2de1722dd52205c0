"""A message consumer: what the broker has dispatched, what the application has got, and what is acknowledged of it.

Follows ActiveMQ's client. In `AUTO` each message is acknowledged as it is handed over, in `DUPS_OK` half a prefetch
at a time; in the other modes the session says when, and meanwhile "delivered" acknowledgements keep the window open.
Rolled back messages come again from here, after the delay of the redelivery policy and at most as often as it allows.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.client.addressing.options import MAX_PREFETCH, ClientSettings
from spanwire.client.messages.message import Message, MessageAcknowledger
from spanwire.client.messages.message_encoder import NULL
from spanwire.client.protocol.delivered_messages import DeliveredMessages
from spanwire.client.protocol.redelivery_queue import RedeliveryQueue
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

TRANSACTED: Final = 0  # the numbers are those of javax.jms.Session, and ActiveMQSession's for INDIVIDUAL
AUTO: Final = 1
CLIENT: Final = 2
DUPS_OK: Final = 3
INDIVIDUAL: Final = 4

WINDOW_SLACK: Final = 1_000  # dispatches beyond two prefetches: the broker sends more than was asked for
FOREVER: Final = 0  # the timeouts of a MessagePull
AT_ONCE: Final = -1
OPTIMIZED_PERCENT: Final = 65  # of the prefetch, ActiveMQ's
PULL_GRACE: Final = 10.0  # seconds for the broker to say that a pull found nothing


class ClientConsumer:
    """One consumer of a session.

    ``waiting`` is set by a shell before it waits, and the consumer's number put into `Line.woken` when there is
    something to look at.
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
        self.is_ended = False  # of a browse, or nothing came for a pull
        self.is_pulling = False
        self._pull_end: float | None = None
        self._announced: Request | None = None
        self.is_closed = False
        self.closes_with_transaction = False
        self.is_leaving = False  # whoever waits for a message shall go without
        self.is_listening = False  # AUTO: what is handed over is acknowledged when `on_listener_done` says so
        self.last_batch_bytes = 0  # by the last `next_messages`
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
        self._new_count = 0  # dispatches in the buffer, without those rolled back

    def announce(self) -> Request:
        """Tell the broker, which may refuse and otherwise begins to dispatch."""
        assert self.info.consumer_id is not None
        request = self._correlator.request(self.info, owner=self.info.consumer_id.session_id)
        self._announced = request
        return request

    @property
    def is_announced(self) -> bool:
        """Whether the broker knows it."""
        request = self._announced
        return request is not None and request.done and request.error is None

    @property
    def is_refused(self) -> bool:
        """Whether the broker has said that it does not want it."""
        request = self._announced
        return request is not None and request.error is not None

    def on_dispatch(self, destination: bytes, raw: bytes, redelivery_count: int) -> None:
        """The broker has sent a message, or with no octets the end. Raises `RemoteProtocolError`."""
        self.is_pulling = False
        if not raw:
            self.is_ended = True
            self.wake()
            return
        if self._new_count > 2 * self.prefetch + WINDOW_SLACK:
            raise RemoteProtocolError(f"the broker sends more than the {self.prefetch} messages it was asked for")
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
        self._correlator.buffered_bytes += len(raw)
        if self._settings.message_priority:
            self._put_by_priority(message)
        else:
            self._buffer.append(message)
        if self.is_waiting:
            self.wake()

    def _put_by_priority(self, message: Message) -> None:
        """Before those of a lower priority, behind what was rolled back."""
        buffer = self._buffer
        index = len(buffer)
        first = index + 1 - self._new_count
        while index > first and buffer[index - 1].priority < message.priority:
            index -= 1
        buffer.insert(index, message)

    def on_control(self, command: wire.ConsumerControl) -> None:
        """The broker has chosen another prefetch, or closes the consumer."""
        if command.close:
            self.fail(JmsError("the broker closed the consumer"))
        elif command.prefetch > 0:
            self.prefetch = min(command.prefetch, MAX_PREFETCH)

    def wake(self) -> None:
        """Whoever waits shall look."""
        self.is_waiting = False
        self._correlator.woken.append(self.number)

    def fail(self, error: JmsError) -> None:
        """Nothing more will come."""
        if self.failure is None:
            self.failure = error
        self.wake()

    def on_interrupted(self) -> None:
        """The link is gone: what is unacknowledged will be dispatched again, so nothing of it is kept."""
        self._forget_buffer()
        self._delivered.clear()
        self.is_pulling = False
        if self.is_browser and not self.is_ended:
            self.fail(JmsError("the connection broke during the browse; begin again"))

    def next_message(self, now: Time) -> Message | None:
        """The next message for the application; None when there is none to hand over now."""
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
            self._correlator.buffered_bytes -= len(message.raw)
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
        """What there is to hand over now, as by so many calls of `next_message`: at most ``max_count``, and no more
        when they have ``max_bytes``; `taken_bytes` tells how many they have.
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
        """For a reader that never recovers: what it has had stays in no memory. Raises `IllegalStateError` when the
        session's mode is not client acknowledgement.
        """
        if self.mode != CLIENT:
            raise IllegalStateError("only under client acknowledgement may a consumer forget what it has delivered")
        self._delivered.is_retained = False

    @property
    def resume_at(self) -> float:
        """When rolled back messages may come again, in monotonic seconds; 0 for none."""
        return self._redeliveries.resume_at

    def _requeue_due(self, now: float) -> bool:
        """Rolled back messages whose time has come stand in front again. Whether anything may be handed over."""
        rolled_back = self._redeliveries
        back = rolled_back.due(now)
        back.reverse()
        self._buffer.extendleft(back)
        for message in back:
            self._correlator.buffered_bytes += len(message.raw)
        return rolled_back.resume_at <= 0.0 or not rolled_back.is_blocking

    def _is_dropped(self, message: Message, now: Time) -> bool:
        if self.is_browser or not self._settings.check_expiry or not message.is_expired(now.wall_ms):
            return False
        self._delivered.send(EXPIRED_ACK, message, message, 1, NULL)
        self._pull_again()
        return True

    def _pull_again(self) -> None:
        """The one message that a pull brought was not for the application: the shell looks again."""
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
            delivered.extend(message)

    def _acknowledge_often_enough(self, now: float) -> None:
        """``jms.optimizeAcknowledge``: at 65 percent of the prefetch, or when the last one is a while ago."""
        timeout_ms = self._settings.optimize_acknowledge_timeout_ms
        is_late = timeout_ms > 0 and 1000 * (now - self._acknowledged_at) >= timeout_ms
        if is_late or 100 * len(self._delivered) >= OPTIMIZED_PERCENT * self.prefetch:
            self._acknowledged_at = now
            self.acknowledge_delivered(NULL)

    def acknowledge_scheduled(self) -> None:
        """``jms.optimizedAckScheduledAckInterval`` is over."""
        if self._optimized:
            self.acknowledge_delivered(NULL)

    def on_listener_done(self) -> None:
        """A listener has done its work with the message that it got last."""
        message = self._in_listener
        self._in_listener = None
        if message is not None and message.epoch == self._correlator.epoch:
            self._delivered.send(STANDARD_ACK, message, message, 1, NULL)

    def on_listener_failed(self, now: Time) -> None:
        """A listener has raised. In the modes in which nobody else decides, what it had comes again."""
        message = self._in_listener
        self._in_listener = None
        if message is not None:
            self.redeliver([message], now)
        elif self.mode == AUTO or self.mode == DUPS_OK or self.mode == INDIVIDUAL:
            self.redeliver(self.take_delivered(), now)

    def pull(self, timeout_ms: int) -> None:
        """Ask for one message, when this consumer has no prefetch and nothing at hand, and nothing is asked for yet."""
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
        """The application wants a message: that an earlier pull found none does not count."""
        if self.prefetch == 0:
            self.is_ended = False

    def pull_until(self, end: float | None, now: Time) -> float | None:
        """Before each wait: without a prefetch ask the broker, unless that is done; with one nothing happens.

        Gives until when to wait for ``end``, both in monotonic seconds: the broker says itself that a pull found
        nothing, and has some time for that.
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
        """The application is about to wait: what it has had may be acknowledged now."""
        if len(self._delivered) > 0 and (
            self.mode == DUPS_OK or (self._optimized and self._settings.scheduled_acknowledge_ms == 0)
        ):
            self.acknowledge_delivered(NULL)

    def _acknowledge_last(self) -> None:
        """The consumer leaves: what the application has had without a word from it is acknowledged."""
        if self.mode == DUPS_OK or self._optimized:
            self.acknowledge_delivered(NULL)

    @property
    def has_delivered(self) -> bool:
        """Whether something waits to be acknowledged."""
        return not self._delivered.is_empty

    def acknowledge_delivered(self, transaction: bytes) -> None:
        """Everything that the application has got; inside a transaction it is kept until that is settled."""
        self._delivered.acknowledge_all(transaction)

    def acknowledge_stored(self) -> Request | None:
        """Everything that a reader that keeps nothing has got; the answer tells that the broker has that on its disk.
        None when there is nothing to acknowledge, or its connection broke: the broker delivers it again.

        One message goes last and is answered. ActiveMQ waits for its disk once for each message of an answered range,
        and whatever it has written before is safe with the last (KahaDB: enableJournalDiskSyncs).
        """
        return self._delivered.acknowledge_stored()

    def on_committed(self) -> None:
        """What was delivered before the commit is acknowledged for good; more may have been since."""
        self._delivered.on_committed()

    def acknowledge_one(self, message: Message) -> None:
        """One message; nothing when it is acknowledged already, or its connection broke meanwhile."""
        self._delivered.acknowledge_one(message)

    def rollback(self, now: Time) -> None:
        """What was delivered comes again, or has had all its chances and goes to the dead letters."""
        if self._optimized:
            self.acknowledge_delivered(NULL)  # the application has had them
        else:
            self.redeliver(self.take_delivered(), now)

    def take_delivered(self) -> list[Message]:
        """What the application has got and nobody has settled; the consumer forgets it."""
        return self._delivered.take()

    def redeliver(self, messages: list[Message], now: Time) -> None:
        """These come again, or go to the dead letters. Those of an earlier link do not: the broker sends them again."""
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
            if before > 0:  # the first one is counted by the broker when the consumer leaves
                self._delivered.send(REDELIVERED_ACK, message, message, 1, NULL)
            again.append(message)
            most = max(most, before + 1)
        if not again:
            return
        dice = 0.0
        if policy.use_collision_avoidance:
            dice = again[0].id_octets[-1] / 127.5 - 1.0  # as good as any: the messages of two consumers differ
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
        """The consumer leaves. What was delivered and not acknowledged goes to others."""
        if self.is_closed:
            return None
        self.is_closed = True
        self._acknowledge_last()
        command = self._removal()
        self._forget_buffer()
        assert self.info.consumer_id is not None
        return self._correlator.remove(command, self.info.consumer_id.session_id)

    def leave_with_owner(self) -> None:
        """Its session or connection leaves: if the application holds messages, say which, so that they come flagged."""
        self._acknowledge_last()
        if (
            not self.is_closed
            and self._correlator.is_online
            and (self.has_delivered or self._last_rolled_back() is not None)
        ):
            self._correlator.send(self._removal())
        self._forget_buffer()

    def _forget_buffer(self) -> None:
        for message in self._buffer:
            self._correlator.buffered_bytes -= len(message.raw)
        self._buffer.clear()
        self._redeliveries.clear()
        self._in_listener = None
        self._new_count = 0

    def _last_rolled_back(self) -> Message | None:
        """The last message, in the order of dispatch, that waits to come again."""
        rolled_back = len(self._buffer) - self._new_count
        last = self._redeliveries.last()
        if rolled_back > 0:
            message = self._buffer[rolled_back - 1]
            if last is None or message.broker_sequence > last.broker_sequence:
                return message
        return last

    def _removal(self) -> wire.RemoveInfo:
        """Names the last message, in the order of dispatch, that the application has seen; it must still be out, or
        the broker takes none for seen. One that was rolled back waits in the buffer, in front of those not seen yet.
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
