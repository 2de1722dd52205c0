"""Source and target over queues of SQS."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Final

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, SourceWithoutReplies, TargetWithoutReplies
from spanwire.bridges.providers.dead_letters import CAUSE, ORIGIN, cause_text
from spanwire.bridges.providers.inbox import MAX_OCTETS, Inbox
from spanwire.bridges.providers.sqs.connection import CLOSE_S, SqsConnection
from spanwire.bridges.providers.sqs.messages import (
    MAX_BYTES,
    attributes_of,
    bridge_message,
    outgoing_message,
    size_of,
    texts_of,
)
from spanwire.model.errors import JmsError, MessageFormatError

MAX_BATCH: Final = 10  # messages of one request
POLL_S: Final = 2  # seconds of one request without a message; a close waits for it, so that no message goes nowhere
ROOM_S: Final = 0.05  # seconds between two looks for room in the inbox
VISIBILITY_S: Final = 30  # seconds until the queue delivers the messages of a bridge that was killed to another
SHARE: Final = 3  # parts of that time in which a bridge says once that messages are in work
FIFO: Final = ".fifo"  # end of the names of queues that keep the order
SUFFIX: Final = "-DLQ"  # behind the name of the source; SQS takes no dots
REFUSALS: Final = ("InvalidParameterValue", "InvalidMessageContents", "InvalidAttributeValue")  # faults of a message

Placed = tuple[int, dict[str, Any]]  # the place of a message in the batch, and its entry of a request

logger = logging.getLogger(__name__)


class SqsSource(SourceWithoutReplies):
    """A consumer of a queue. Messages without an acknowledgement stay invisible to others."""

    def __init__(self, source: Source, credit: int) -> None:
        self._source: Final[Source] = source
        self._credit: Final[int] = credit
        self._inbox: Final[Inbox[dict[str, Any]]] = Inbox()
        self._connection: Final = SqsConnection(source.factory)
        self._url = ""
        self._held: Final[dict[str, int]] = {}  # octets of messages without an acknowledgement, by receipt
        self._octets = 0  # of these
        self._leaving: Final[set[str]] = set()  # receipts whose deletion is under way, or has failed
        self._received: list[dict[str, Any]] = []  # those of them that the bridge has
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closing = False

    async def open(self) -> None:
        """Connect, find the queue, and begin to receive."""
        self._url = await self._connection.open(self._source.destination.name)
        self._tasks = [asyncio.create_task(self._watched(work())) for work in (self._read, self._keep)]

    async def _watched(self, work: Any) -> None:
        try:
            await work
        except JmsError as error:
            self._inbox.fail(error)
        except Exception as error:  # noqa: BLE001 - an answer of an unknown form has to end the link
            self._inbox.fail(JmsError(f"{self._connection.place.shown}: an answer cannot be read: {error!r}"))

    async def _read(self) -> None:
        while not self._is_closing:
            free = self._credit - len(self._held)
            if free <= 0 or self._octets >= MAX_OCTETS:
                await asyncio.sleep(ROOM_S)
                continue
            answer = await self._connection.ask(
                "receive_message",
                QueueUrl=self._url,
                MaxNumberOfMessages=min(free, MAX_BATCH),
                WaitTimeSeconds=POLL_S,
                VisibilityTimeout=VISIBILITY_S,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            for message in answer.get("Messages") or ():
                octets = octets_of(message)
                self._held[message["ReceiptHandle"]] = octets
                self._octets += octets
                self._inbox.put(message, octets)

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages without an acknowledgement."""
        messages = await self._inbox.take(max_messages, max_bytes, wait_s)
        self._received += messages
        return [bridge_message(message) for message in messages]

    async def acknowledge(self) -> None:
        """Delete all received messages, and wait for the answers."""
        received, self._received = self._received, []
        self._inbox.check()
        for batch in batches([message["ReceiptHandle"] for message in received]):
            entries = [{"Id": str(index), "ReceiptHandle": receipt} for index, receipt in enumerate(batch)]
            self._leaving.update(batch)
            answer = await self._connection.ask("delete_message_batch", QueueUrl=self._url, Entries=entries)
            for failed in answer.get("Failed") or ():
                raise self._connection.error_of(failed)
            for receipt in batch:
                self._octets -= self._held.pop(receipt, 0)
            self._leaving.difference_update(batch)

    async def dead_letter(self, cause: str) -> None:
        """Send the last message with its cause to the queue ``NAME-DLQ``, which is created at need, and delete it."""
        last = self._received[-1]
        name = self._source.destination.name
        is_fifo = name.endswith(FIFO)
        words = {"Attributes": {"FifoQueue": "true"}} if is_fifo else {}
        url = (await self._connection.ask("create_queue", QueueName=dead_letters_of(name), **words))["QueueUrl"]
        texts = texts_of(last.get("MessageAttributes") or {})
        notes = {CAUSE: cause_text(cause), ORIGIN: str(self._source.destination)}
        entry: dict[str, Any] = {"MessageBody": last["Body"], "MessageAttributes": attributes_of(notes | texts | notes)}
        if size_of(entry) > MAX_BYTES:
            logger.warning(
                "%s: a dead letter of %s has no room for its cause: %s",
                self._connection.place.shown,
                self._source.destination,
                notes[CAUSE],
            )
            entry["MessageAttributes"] = attributes_of(texts)
        if is_fifo:
            own = last["Attributes"]
            entry |= {"MessageGroupId": own["MessageGroupId"], "MessageDeduplicationId": last["MessageId"]}
        await self._connection.ask("send_message", QueueUrl=url, **entry)
        await self.acknowledge()

    def check(self) -> None:
        """Raise `JmsError` after a failure."""
        self._inbox.check()
        self._connection.check()

    async def close(self) -> None:
        """Wait for the request under way, and make messages without an acknowledgement visible again."""
        self._is_closing = True
        for task in self._tasks[1:]:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=POLL_S + 1)
            self._tasks[0].cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(JmsError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._set_visibility(0, set())
        await self._connection.close()

    async def _keep(self) -> None:
        """Say that messages are in work, so that nobody else gets them while the target stalls."""
        while True:
            await asyncio.sleep(VISIBILITY_S / SHARE)
            await self._set_visibility(VISIBILITY_S, self._leaving)

    async def _set_visibility(self, seconds: int, without: set[str]) -> None:
        """Set the time of held messages. A refused entry is one that the queue has delivered again or deleted."""
        for batch in batches(list(self._held)):
            entries = [
                {"Id": str(index), "ReceiptHandle": receipt, "VisibilityTimeout": seconds}
                for index, receipt in enumerate(batch)
                if receipt in self._held and receipt not in without
            ]
            if entries:
                await self._connection.ask("change_message_visibility_batch", QueueUrl=self._url, Entries=entries)


class SqsTarget(TargetWithoutReplies):
    """A producer of one queue."""

    def __init__(self, target: Target) -> None:
        self._queue: Final[str] = target.destination.name
        self._connection: Final = SqsConnection(target.factory)
        self._url = ""
        self._max_bytes = MAX_BYTES
        self._stored: list[BridgeMessage] = []  # of the last batch, in which the queue refused another message

    async def open(self) -> None:
        """Connect, find the queue, and ask for its largest message."""
        self._url = await self._connection.open(self._queue)
        self._max_bytes = await self._connection.largest_message(self._url)

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send messages in requests of ten at most, and wait for the answers. A FIFO queue drops one that it has.

        A request to a FIFO queue has one message of each group, because the queue may refuse one message of a request
        and store others behind it.

        The batch after a refusal may be the same one without the refused message: what is stored is not sent again.
        """
        known = {id(message) for message in self._stored}
        is_fifo = self._queue.endswith(FIFO)
        outgoing: list[Placed] = []
        for index, message in enumerate(messages):
            if id(message) in known:
                continue
            try:
                outgoing.append((index, outgoing_message(message, is_fifo, self._max_bytes)))
            except MessageFormatError as error:
                raise MessageRefusedError(index, str(error)) from None
        sent: list[int] = []
        for batch in sized_batches(outgoing) if not is_fifo else ordered_batches(outgoing):
            entries = [{"Id": str(index), **entry} for index, (_, entry) in enumerate(batch)]
            answer = await self._connection.ask("send_message_batch", QueueUrl=self._url, Entries=entries)
            refused = {int(failed["Id"]): failed for failed in answer.get("Failed") or ()}
            for failed in refused.values():
                if not is_refusal(failed):
                    raise self._connection.error_of(failed)
            if refused:
                sent += [place for index, (place, _) in enumerate(batch) if index not in refused]
                self._stored += [messages[place] for place in sent]
                index = min(refused)
                raise MessageRefusedError(batch[index][0], str(self._connection.error_of(refused[index])))
            sent += [place for place, _ in batch]
        self._stored = []

    def check(self) -> None:
        """Raise `JmsError` after a failure."""
        self._connection.check()

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()


def octets_of(message: dict[str, Any]) -> int:
    """Return the size of a received message in memory, its attributes included."""
    attributes = message.get("MessageAttributes") or {}
    return len(message.get("Body", "")) + sum(len(str(value)) for value in attributes.values())


def dead_letters_of(name: str) -> str:
    """Return the name of the queue for dead letters of a queue."""
    return name.removesuffix(FIFO) + SUFFIX + (FIFO if name.endswith(FIFO) else "")


def is_refusal(failed: dict[str, Any]) -> bool:
    """Return True for an entry whose message the queue can never take; other faults pass, or concern the queue."""
    return bool(failed.get("SenderFault")) and str(failed.get("Code")).rpartition(".")[2] in REFUSALS


def batches(receipts: list[str]) -> Iterator[list[str]]:
    """Divide into requests."""
    for start in range(0, len(receipts), MAX_BATCH):
        yield receipts[start : start + MAX_BATCH]


def ordered_batches(entries: list[Placed]) -> Iterator[list[Placed]]:
    """Divide into requests with one message of each group: the first ones of all groups, then the second ones."""
    rounds: list[list[Placed]] = []
    counts: dict[str, int] = {}
    for placed in entries:
        group = placed[1]["MessageGroupId"]
        number = counts.get(group, 0)
        counts[group] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(placed)
    for one in rounds:
        yield from sized_batches(one)


def sized_batches(entries: list[Placed]) -> Iterator[list[Placed]]:
    """Divide into requests, each within the limits of number and bytes."""
    batch: list[Placed] = []
    octets = 0
    for placed in entries:
        size = size_of(placed[1])
        if batch and (len(batch) >= MAX_BATCH or octets + size > MAX_BYTES):
            yield batch
            batch, octets = [], 0
        batch.append(placed)
        octets += size
    if batch:
        yield batch
