"""Calls to Kafka from code without an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import UnknownTopicOrPartitionError

T = TypeVar("T")
WAIT_S: Final = 180.0  # of a call, which may wait for a transaction of 30 seconds on a busy machine
POLL_MS: Final = 1_000
SETTLED_S: Final = 0.5  # seconds; a cluster finishes a transaction a moment after it has answered the commit


class KafkaClient:
    """Each call connects anew, in a thread, because the caller may run inside an event loop."""

    def __init__(self, servers: str) -> None:
        self._servers: Final = servers

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""

        async def call() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._servers)
            await admin.start()
            try:
                await admin.create_topics([NewTopic(topic, partitions, 1)])
            finally:
                await admin.close()

        self._run(call())

    def send(self, topic: str, bodies: list[bytes], headers: list[tuple[str, bytes]] | None = None) -> None:
        """Send records, and wait for the answers."""

        async def call() -> None:
            async with AIOKafkaProducer(bootstrap_servers=self._servers, acks="all") as producer:
                waiting = [await producer.send(topic, body, headers=headers) for body in bodies]
                await asyncio.gather(*waiting)

        self._run(call())

    def records(self, topic: str, start: int = 0, is_patient: bool = False) -> list[Any]:
        """Return the committed records from an offset on.

        A patient call waits for the end of a transaction that a killed server has left open.
        """

        async def call() -> list[Any]:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._servers, isolation_level="read_committed", enable_auto_commit=False
            )
            async with consumer:
                partition = TopicPartition(topic, 0)
                consumer.assign([partition])
                try:
                    end = await self._end(partition)
                except UnknownTopicOrPartitionError:
                    return []
                consumer.seek(partition, start)
                found: list[Any] = []
                while await consumer.position(partition) < end:
                    batch = await consumer.getmany(timeout_ms=POLL_MS)
                    if not batch and not is_patient:  # behind the position is an open transaction
                        return found
                    found += batch.get(partition, [])
                return found

        return self._run(call())

    async def _end(self, partition: TopicPartition) -> int:
        """Return the offset behind the last record, committed or not."""
        async with AIOKafkaConsumer(bootstrap_servers=self._servers, enable_auto_commit=False) as consumer:
            return int((await consumer.end_offsets([partition]))[partition])

    def lag(self, topic: str, group: str) -> int:
        """Return the records behind the offset that a group has committed."""

        async def call() -> int:
            async with AIOKafkaConsumer(
                bootstrap_servers=self._servers, group_id=group, enable_auto_commit=False
            ) as consumer:
                partition = TopicPartition(topic, 0)
                consumer.assign([partition])
                await asyncio.sleep(SETTLED_S)
                end = (await consumer.end_offsets([partition]))[partition]
                return int(end - (await consumer.committed(partition) or 0))

        return self._run(call())

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        results: list[T] = []
        errors: list[BaseException] = []

        async def bounded() -> T:
            async with asyncio.timeout(WAIT_S):
                return await call

        def run() -> None:
            try:
                results.append(asyncio.run(bounded()))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]
