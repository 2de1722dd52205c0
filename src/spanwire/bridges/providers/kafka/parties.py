"""Source, target and local transaction over a consumer and a producer of Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import MessageSizeTooLargeError

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, SourceWithoutReplies, TargetWithoutReplies
from spanwire.bridges.providers.dead_letters import CAUSE, ORIGIN, SUFFIX, cause_text
from spanwire.bridges.providers.inbox import MAX_OCTETS, Inbox
from spanwire.bridges.providers.kafka.connecting import CLOSE_S, START_S, address_of, reason_of, settings_of, translated
from spanwire.bridges.providers.kafka.decompression import limit_batches
from spanwire.bridges.providers.kafka.header_keys import read_all_keys
from spanwire.bridges.providers.kafka.messages import bridge_message, outgoing_record
from spanwire.model.errors import JmsError, MessageFormatError

ANSWER_S: Final = 20.0  # seconds for a commit; without a limit the library waits for a lost cluster for good
SESSION_MS: Final = 10_000  # milliseconds until the group goes on without a member that was killed
POLL_MS: Final = 1_000  # milliseconds of one fetch without a record
ROOM_S: Final = 0.01  # seconds between two looks for room in the inbox
MAX_RECORD: Final = 1_048_576  # bytes of a record; the default of Kafka's brokers
MAX_REQUEST: Final = 104_857_600  # bytes of a request; socket.request.max.bytes of Kafka's brokers by default
RECORD_ROOM: Final = 1_024  # bytes of a batch around its records
TRANSACTION_MS: Final = 30_000  # milliseconds until the cluster gives up a transaction whose bridge was killed

Offsets = dict[TopicPartition, int]

logger = logging.getLogger(__name__)


class Rebalance(ConsumerRebalanceListener):  # type: ignore[misc]
    """Ends a link when partitions go to another member of the group."""

    def __init__(self, inbox: Inbox[ConsumerRecord], assigned: asyncio.Event) -> None:
        self._inbox: Final = inbox
        self._assigned: Final = assigned

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Let the next call fail, because received records may be those of another member now."""
        if revoked:
            self._inbox.fail(JmsError("the partitions of the group were divided anew"))

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Note that the group has an order; the library begins at the committed offsets."""
        self._assigned.set()


class KafkaReceiver:
    """A consumer of a group, without commits of its own."""

    def __init__(self, source: Source, credit: int) -> None:
        limit_batches()
        read_all_keys()
        self._source: Final[Source] = source
        self._place: Final = address_of(source.factory)
        self._credit: Final[int] = credit
        self._consumer: Final[Any] = AIOKafkaConsumer(
            group_id=source.subscription,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            max_poll_records=credit,
            session_timeout_ms=SESSION_MS,
            **settings_of(source.factory, source.client_id),
        )
        self.inbox: Final[Inbox[ConsumerRecord]] = Inbox()
        self._waiting = 0
        self._offsets: Offsets = {}  # behind the received records without an acknowledgement
        self._last: ConsumerRecord | None = None
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, join the group, and begin to read. Raises `JmsError` for a topic that does not exist."""
        name = self._source.destination.name
        with translated(self._place):
            async with asyncio.timeout(START_S):
                await self._consumer.start()
                if name not in await self._consumer.topics():
                    raise JmsError(f"{self._place.shown}: there is no topic {name}")
            # A source that waits for its partitions must not look like an empty one.
            assigned = asyncio.Event()
            self._consumer.subscribe([name], listener=Rebalance(self.inbox, assigned))
            async with asyncio.timeout(START_S):
                await assigned.wait()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        """Move records to the inbox, up to the inbox's limit."""
        try:
            while True:
                while self._waiting >= self._credit or self.inbox.octets >= MAX_OCTETS:
                    await asyncio.sleep(ROOM_S)
                found = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=self._credit - self._waiting)
                for records in found.values():
                    for record in records:
                        self._waiting += 1
                        self.inbox.put(record, size_of(record.value, record.key, record.headers))
        except Exception as error:  # noqa: BLE001 - the library raises errors of many kinds for a damaged record
            self.inbox.fail(JmsError(f"{self._place.shown}: {self._source.destination}: {reason_of(error)}"))

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive records without a commit of the offsets."""
        records = await self.inbox.take(max_messages, max_bytes, wait_s)
        self._waiting -= len(records)
        for record in records:
            self._offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1
            self._last = record
        return [bridge_message(record) for record in records]

    def taken_offsets(self) -> Offsets:
        """Return the offsets to commit, and forget the offsets."""
        offsets, self._offsets = self._offsets, {}
        return offsets

    def dead_record(self, cause: str) -> tuple[str, dict[str, Any]]:
        """Return the topic for dead letters, and the last record with the cause for a producer.

        A record without room for the cause goes unchanged, because no retry would make the record smaller.
        """
        last = self._last
        assert last is not None, "a dead letter was received before"
        notes = ((CAUSE, cause_text(cause)), (ORIGIN, str(self._source.destination)))
        headers = [*last.headers, *((name, text.encode()) for name, text in notes)]
        value = b"" if last.value is None and last.key is None else last.value  # the library sends no record of nothing
        if size_of(value, last.key, headers) > MAX_RECORD - RECORD_ROOM:
            logger.warning(
                "%s: a dead letter of %s has no room for its cause: %s",
                self._place.shown,
                self._source.destination,
                cause_text(cause),
            )
            headers = list(last.headers)
        return last.topic + SUFFIX, {"value": value, "key": last.key, "headers": headers}

    async def commit(self) -> None:
        """Commit the offsets of all received records."""
        offsets = self.taken_offsets()
        self.inbox.check()
        if offsets:
            with translated(self._place):
                async with asyncio.timeout(ANSWER_S):
                    await self._consumer.commit(offsets)

    async def close(self) -> None:
        """Leave the group."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await stop(self._consumer)


class KafkaSender:
    """A producer with one transaction for each batch."""

    def __init__(self, target: Source | Target, transaction: str, client_id: str | None = None) -> None:
        self._place: Final = address_of(target.factory)
        self._topic: Final[str] = target.destination.name
        self.producer: Final[Any] = AIOKafkaProducer(
            transactional_id=transaction,
            transaction_timeout_ms=TRANSACTION_MS,
            acks="all",
            max_request_size=MAX_REQUEST,  # the limit of what we send is `check_size`; a dead letter may be larger
            **settings_of(target.factory, client_id),
        )

    async def start(self) -> None:
        """Connect. Raises `JmsError` for a missing topic that the cluster does not create."""
        with translated(self._place):
            async with asyncio.timeout(START_S):
                await self.producer.start()

    async def find_topic(self) -> None:
        """Raise `JmsError` for a topic that the cluster has not, and does not create."""
        with translated(self._place):
            async with asyncio.timeout(START_S):
                await self.producer.partitions_for(self._topic)

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send in the open transaction. Raises `MessageRefusedError` before any send."""
        records = []
        for index, message in enumerate(messages):
            try:
                record = outgoing_record(message)
                check_size(*record)
            except MessageFormatError as error:
                raise MessageRefusedError(index, str(error)) from None
            records.append(record)
        with translated(self._place):
            waiting = []
            for index, (value, key, headers) in enumerate(records):
                try:
                    async with asyncio.timeout(ANSWER_S):
                        waiting.append(await self.producer.send(self._topic, value=value, key=key, headers=headers))
                except MessageSizeTooLargeError as error:
                    raise MessageRefusedError(index, reason_of(error)) from None
            async with asyncio.timeout(ANSWER_S):
                await asyncio.gather(*waiting)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit at the end of the block, and abort after an error.

        The abort has a limit of its own: the library would wait for a lost cluster for good.
        """
        with translated(self._place):
            async with asyncio.timeout(ANSWER_S):
                await self.producer.begin_transaction()
            try:
                yield
                async with asyncio.timeout(ANSWER_S):
                    await self.producer.commit_transaction()
            except BaseException:
                await self.abort()
                raise

    async def abort(self) -> None:
        """Abort the transaction, if the cluster answers soon; else the cluster aborts alone."""
        await settled(self.producer.abort_transaction())

    async def close(self) -> None:
        """Close the producer; the cluster aborts an open transaction."""
        await stop(self.producer)


def check_size(value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]) -> None:
    """Raise `MessageFormatError` for a record above the limit of a broker."""
    size = size_of(value, key, headers)
    if size > MAX_RECORD - RECORD_ROOM:
        raise MessageFormatError(f"the record has {size} bytes, and Kafka takes {MAX_RECORD - RECORD_ROOM}")


def size_of(value: bytes | None, key: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the bytes of a record at most."""
    texts = sum(len(name.encode()) + len(text or b"") + 10 for name, text in headers)
    return len(value or b"") + len(key or b"") + texts


class KafkaSource(SourceWithoutReplies):
    """A consumer; acknowledgements commit offsets."""

    def __init__(self, source: Source, receiver: KafkaReceiver) -> None:
        self._source: Final[Source] = source
        self._receiver: Final[KafkaReceiver] = receiver

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive without a commit."""
        return await self._receiver.receive(max_messages, max_bytes, wait_s)

    async def acknowledge(self) -> None:
        """Commit the offsets of all received records, and wait for the answer."""
        await self._receiver.commit()

    async def dead_letter(self, cause: str) -> None:
        """Send the last record to the topic ``NAME.DLQ``, and commit its offset, in one transaction."""
        sender = KafkaSender(self._source, own_transaction())
        try:
            await sender.start()
            async with sender.transaction():
                await dead_letter(sender, self._receiver, self._source, cause)
        finally:
            await sender.close()

    def check(self) -> None:
        """Raise `JmsError` if the link is lost."""
        self._receiver.inbox.check()

    async def close(self) -> None:
        """Leave the group."""
        await self._receiver.close()


class KafkaTarget(TargetWithoutReplies):
    """A producer; each batch is a transaction."""

    def __init__(self, sender: KafkaSender) -> None:
        self._sender: Final[KafkaSender] = sender
        self._failure: str | None = None

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send and commit a batch."""
        try:
            async with self._sender.transaction():
                await self._sender.send(messages)
        except MessageRefusedError:
            raise
        except JmsError as error:
            self._failure = str(error)
            raise

    def check(self) -> None:
        """Raise `JmsError` after a failed send.

        A lost connection alone is no failure, because the library connects anew.
        """
        if self._failure is not None:
            raise JmsError(self._failure)

    async def close(self) -> None:
        """Close the producer."""
        await self._sender.close()


class KafkaTransaction:
    """A consumer and a producer with transactions for both the records and the offsets."""

    def __init__(self, source: Source, receiver: KafkaReceiver, sender: KafkaSender) -> None:
        self._source: Final[Source] = source
        self._place: Final = address_of(source.factory)
        self._receiver: Final[KafkaReceiver] = receiver
        self._sender: Final[KafkaSender] = sender
        self._is_open = False

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive records; the commit stores the offsets."""
        return await self._receiver.receive(max_messages, max_bytes, wait_s)

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send in the transaction."""
        await self._begin()
        await self._sender.send(messages)

    async def dead_letter(self, cause: str) -> None:
        """Abort the sends, and move the last record to the topic ``NAME.DLQ``."""
        if self._is_open:
            self._is_open = False
            await self._sender.abort()
        async with self._sender.transaction():
            await dead_letter(self._sender, self._receiver, self._source, cause)

    async def commit(self) -> None:
        """Store offsets and records at once."""
        await self._begin()
        self._receiver.inbox.check()
        with translated(self._place):
            async with asyncio.timeout(ANSWER_S):
                offsets = self._receiver.taken_offsets()
                if offsets:
                    await self._sender.producer.send_offsets_to_transaction(offsets, self._source.subscription)
                self._is_open = False
                await self._sender.producer.commit_transaction()

    def check(self) -> None:
        """Raise `JmsError` if the link is lost."""
        self._receiver.inbox.check()

    async def close(self) -> None:
        """Close both; the transaction is aborted."""
        if self._is_open:
            await self._sender.abort()
        await self._receiver.close()
        await self._sender.close()

    async def _begin(self) -> None:
        if not self._is_open:
            with translated(self._place):
                async with asyncio.timeout(ANSWER_S):
                    await self._sender.producer.begin_transaction()
            self._is_open = True


async def dead_letter(sender: KafkaSender, receiver: KafkaReceiver, source: Source, cause: str) -> None:
    """Send the last record as a dead letter, and its offset, in the transaction of the sender."""
    topic, record = receiver.dead_record(cause)
    async with asyncio.timeout(ANSWER_S):
        await (await sender.producer.send(topic, **record))
        await sender.producer.send_offsets_to_transaction(receiver.taken_offsets(), source.subscription)


def own_transaction() -> str:
    """Return a unique name of transactions."""
    return f"spanwire-{secrets.token_hex(8)}"


async def stop(client: Any) -> None:
    """Stop a consumer or producer of the library, lost or not."""
    await settled(client.stop())


async def settled(call: Coroutine[Any, Any, object]) -> None:
    """Wait a while for a call whose failure does not matter. A lost library raises errors of many kinds."""
    task = asyncio.create_task(call)
    await asyncio.wait((task,), timeout=CLOSE_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
