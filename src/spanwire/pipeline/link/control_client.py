"""Client of the control destination, for cursors and sinks.

``docs/reference/control-destination.md`` describes the protocol. Every request can be repeated, and is repeated if the
connection breaks before the reply. Rows, batches and Spark are left to the callers.

A cursor reads ranges repeatedly; a sink commits each batch once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from spanwire.client import blocking
from spanwire.client.blocking.consumer import Consumer
from spanwire.client.blocking.producer import Producer
from spanwire.client.blocking.session import Session
from spanwire.client.messages.content_types import Properties, Property
from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.protocol.producer import SendDefaults
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import JmsError
from spanwire.pipeline.link.batch_sender import portions
from spanwire.pipeline.link.control_answers import (
    INCOMPLETE,
    NO_ANSWER,
    BegunSink,
    CommitResult,
    ControlError,
    CursorView,
    Part,
    PublishedView,
    Reservation,
    SinkView,
    check_status,
    control_error,
    cursors_in,
    number_of,
    pipelines_in,
    reservation_of,
    sinks_in,
)

CONTROL: Final = Destination(QUEUE, "ActiveMQ.Spanwire.Control")
ANSWER_SECONDS: Final = 30.0  # seconds; a broker may be busy with a large commit, or restart
ASK_AGAIN_SECONDS: Final = 10.0  # seconds; the reply may have been lost with a connection
MAX_RESERVED: Final = 100_000  # messages of one reservation; the broker refuses more
MAX_STAGED: Final = 10_000  # messages in one transaction of `Control.stage`; bounds the broker's memory
SEND_DEFAULTS: Final = SendDefaults()


@dataclass(frozen=True, slots=True)
class _Requestor:
    queue: Destination
    producer: Producer
    consumer: Consumer


class Control:
    """Sends requests over one connection of the caller; not thread-safe."""

    def __init__(
        self,
        connection: blocking.Connection,
        answer_seconds: float = ANSWER_SECONDS,
        defaults: SendDefaults = SEND_DEFAULTS,
    ) -> None:
        """Use ``defaults`` for staged messages without own delivery mode, priority or time to live.

        A request without reply fails after ``answer_seconds``.
        """
        self._connection: Final = connection
        self._answer_seconds: Final = answer_seconds
        self._defaults: Final = defaults
        self._requestor: _Requestor | None = None
        self._read_session: Session | None = None
        self._stage_session: Session | None = None
        self._sender: Producer | None = None
        self._last_request = 0

    def open_cursor(
        self, name: str, queue: str, run: str, *, exclusive: bool = False, selector: str = ""
    ) -> Reservation:
        """Create or take over the cursor ``name`` on ``queue`` (a name without ``queue://``).

        ``selector`` chooses the messages, empty for all.

        Raises:
            ControlError: the broker refuses the request, or is of a version that looks at no selector.
        """
        request: dict[str, Property] = {"cursor": name, "queue": queue, "run": run, "exclusive": exclusive}
        return self._open(request, selector)

    def _open(self, request: dict[str, Property], selector: str) -> Reservation:
        if selector:
            request["selector"] = selector
        answer = self._ask("open", request)
        if selector and answer.properties.get("selector") != selector:
            raise ControlError(
                "malformed",
                "this broker's version knows no selectors of cursors; update the broker, or leave the option selector "
                "out",
            )
        return reservation_of(answer)

    def open_subscription_cursor(
        self, name: str, client_id: str, subscription: str, run: str, *, exclusive: bool = False, selector: str = ""
    ) -> Reservation:
        """Create or take over the cursor ``name`` on an existing durable subscription.

        ``selector`` is the one that the subscription must have, empty for any.

        Raises:
            ControlError: the broker refuses the request, or is of a version that looks at no selector.
        """
        request: dict[str, Property] = {
            "cursor": name, "clientId": client_id, "subscription": subscription, "run": run, "exclusive": exclusive,
        }  # fmt: skip
        return self._open(request, selector)

    def reserve(
        self, name: str, epoch: int, messages: int, *, max_bytes: int = 0, acknowledge: int | None = None
    ) -> Reservation:
        """Acknowledge all messages below ``acknowledge``, then reserve up to ``messages`` in total.

        It waits for no messages. With a selector the broker may have looked at some; `waiting` tells of the others.

        Raises:
            FencedError: another run has taken over.
            NotHeldError: ``acknowledge`` is beyond the reservation.
        """
        request: dict[str, Property] = {"cursor": name, "epoch": epoch, "messages": messages, "bytes": max_bytes}
        if acknowledge is not None:
            request["acknowledge"] = acknowledge
        return reservation_of(self._ask("reserve", request), epoch)

    def acknowledge(self, name: str, epoch: int, end: int) -> Reservation:
        """Acknowledge all messages below ``end``; the broker removes them. Raises like `reserve`."""
        return reservation_of(self._ask("acknowledge", {"cursor": name, "epoch": epoch, "to": end}), epoch)

    def read_range(self, name: str, epoch: int, start: int, end: int) -> Iterator[tuple[int, Message]]:
        """Yield the messages from ``start`` to ``end`` exclusive, each with its sequence.

        Raises:
            FencedError: another run has taken over.
            NotHeldError: a message is not reserved.
            ControlError: the broker returned fewer messages.
        """
        number = start
        for messages in self.read_portions(name, epoch, start, end):
            for message in messages:
                yield number, message
                number += 1

    def read_portions(self, name: str, epoch: int, start: int, end: int) -> Iterator[list[Message]]:
        """Yield the messages of a range in lists, as they arrive; raises like `read_range`."""
        if self._read_session is None:
            self._read_session = self._connection.session()
        selector = f"cursor = '{name}' AND epoch = {epoch} AND from = {start} AND to = {end}"
        number = start
        try:
            for messages in self._read_session.create_browser(CONTROL, selector).portions():
                count = _contiguous_count(number, messages)
                number += count
                yield messages[:count]
                if count < len(messages):
                    break
        except JmsError as error:
            raise control_error(error) from None
        if number != end:
            raise ControlError(
                INCOMPLETE,
                f"{INCOMPLETE}: numbers {start} to {end} of cursor {name} ended at {number}: another run may have "
                f"taken over",
            )

    def release(self, name: str, epoch: int) -> int:
        """End the cursor with its present ``epoch``; return the number of messages that are pending again."""
        return number_of(self._ask("release", {"cursor": name, "epoch": epoch}), "released")

    def cursors(self) -> list[CursorView]:
        """Return all cursors visible to the user."""
        return cursors_in(self._ask("cursors", {}))

    def begin(self, query: str, run: str, target: str = "") -> BegunSink:
        """Create or take over the sink ``query`` and drop messages staged by older runs.

        ``target`` is a free text for the destination of the messages.

        Raises:
            FencedError: this run was superseded.
            OtherTargetError: the sink was begun for another target; the sink is unchanged.
        """
        request = {"query": query, "run": run}
        if target:
            request["target"] = target
        answer = self._ask("begin", request)
        return BegunSink(number_of(answer, "epoch"), number_of(answer, "batch"))

    def stage(
        self, query: str, epoch: int, batch: int, partition: int, attempt: int, messages: Iterable[Outgoing]
    ) -> Part:
        """Stage the messages of one attempt of one partition.

        Raises:
            FencedError: another run has taken over; none of the messages counts.
        """
        session, sender = self._open_sender()
        request: dict[str, Property] = {
            "action": "stage", "query": query, "epoch": epoch, "batch": batch, "partition": partition,
            "attempt": attempt,
        }  # fmt: skip
        count = 0
        try:
            for portion in portions(messages, MAX_STAGED):
                sender.send_all(portion)
                count += len(portion)
                if count % MAX_STAGED == 0:
                    sender.send(None, request, CONTROL, time_to_live_ms=0)
                    session.commit()
            if count % MAX_STAGED:
                sender.send(None, request, CONTROL, time_to_live_ms=0)
                session.commit()
        except BaseException as error:
            with contextlib.suppress(JmsError):
                session.rollback()
            if isinstance(error, JmsError):
                raise control_error(error) from None
            raise
        return Part(partition, attempt, count)

    def commit(self, query: str, epoch: int, batch: int, parts: Iterable[Part]) -> CommitResult:
        """Make the batch visible, once.

        Raises:
            FencedError: another run has taken over.
            ControlError: a part is missing.
        """
        part_list = "\n".join(f"{part.partition} {part.attempt} {part.messages}" for part in parts)
        answer = self._ask("commit", {"query": query, "epoch": epoch, "batch": batch}, part_list)
        return CommitResult(number_of(answer, "messages"), bool(answer.properties["repeated"]))

    def abort(self, query: str, epoch: int, batch: int) -> int:
        """Drop the staged messages of ``batch`` and return their number."""
        return number_of(self._ask("abort", {"query": query, "epoch": epoch, "batch": batch}), "messages")

    def forget(self, query: str, epoch: int) -> int:
        """Remove the sink with all staged messages and return the number of messages."""
        return number_of(self._ask("forget", {"query": query, "epoch": epoch}), "messages")

    def drop(self, query: str) -> None:
        """Remove the sink ``query`` at its present epoch, if there is one.

        Raises:
            ControlError: the broker refuses.
        """
        for view in self.sinks():
            if view.query == query:
                self.forget(query, view.epoch)

    def sinks(self) -> list[SinkView]:
        """Return all sinks permitted to the user."""
        return sinks_in(self._ask("sinks", {}))

    def publish(self, pipeline: str, run: str, text: str, *, has_ended: bool = False) -> bool:
        """Publish the status of a run; return True if somebody wants the pipeline to stop.

        Raises:
            ControlError: the broker refuses the status.
        """
        answer = self._ask("publish", {"pipeline": pipeline, "run": run, "ended": has_ended}, text)
        return bool(answer.properties["stop"])

    def pipelines(self) -> list[PublishedView]:
        """Return the statuses that this user may see."""
        return pipelines_in(self._ask("pipelines", {}))

    def stop(self, run: str) -> None:
        """Let the next publication of a run tell the pipeline to stop.

        Raises:
            ControlError: there is no such run, or it belongs to another user.
        """
        self._ask("stop", {"run": run})

    def _ask(self, action: str, properties: Properties, body: str | None = None) -> Message:
        """Send a request and return the reply.

        The request is repeated without a reply, because the reply may have been lost with a connection.
        """
        requestor = self._open_requestor()
        self._last_request += 1
        number = f"{self._connection.client_id}:control-{self._last_request}"
        end = time.monotonic() + self._answer_seconds
        while True:
            try:
                requestor.producer.send(
                    body, {"action": action, **properties}, CONTROL, correlation_id=number, reply_to=requestor.queue,
                    wait=True,
                )  # fmt: skip
            except JmsError as error:
                raise control_error(error) from None
            answer = _answer_to(number, requestor.consumer, min(end, time.monotonic() + ASK_AGAIN_SECONDS))
            if answer is not None:
                return check_status(answer)
            if time.monotonic() >= end:
                raise ControlError(
                    NO_ANSWER,
                    f"{NO_ANSWER}: {CONTROL} does not answer {action} within {self._answer_seconds:g} s: is it a "
                    f"Spanwire broker?",
                )

    def _open_requestor(self) -> _Requestor:
        if self._requestor is None:
            session = self._connection.session()
            queue = session.create_temporary_queue()
            producer = session.create_producer(None, persistent=False)
            self._requestor = _Requestor(queue, producer, session.create_consumer(queue))
        return self._requestor

    def _open_sender(self) -> tuple[Session, Producer]:
        if self._stage_session is None or self._sender is None:
            self._stage_session = self._connection.session(acknowledge="transacted")
            defaults = self._defaults
            self._sender = self._stage_session.create_producer(
                None, defaults.persistent, defaults.priority, defaults.time_to_live_ms
            )
        return self._stage_session, self._sender


def _contiguous_count(number: int, messages: list[Message]) -> int:
    """Return the number of leading messages whose sequences continue from ``number``."""
    for count, message in enumerate(messages):
        if message.broker_sequence != number + count:
            return count
    return len(messages)


def _answer_to(number: str, consumer: Consumer, until: float) -> Message | None:
    """Return the reply with this correlation id; late replies to earlier requests are dropped."""
    while (remaining_s := until - time.monotonic()) > 0:
        message = consumer.receive(timeout=remaining_s)
        if message is None or message.correlation_id == number:
            return message
    return None
