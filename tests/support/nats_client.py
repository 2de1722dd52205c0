"""Calls to NATS from code without an event loop of its own, on the library itself."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import nats
from nats.js.api import ConsumerConfig, StreamConfig
from nats.js.errors import NotFoundError

from tests.support.nats_server import PASSWORD, USER

T = TypeVar("T")
WAIT_S: Final = 60.0


class NatsClient:
    """Each call connects anew, in a thread, because the caller may run inside an event loop."""

    def __init__(self, port: int, certificate: Path | None = None) -> None:
        """With the server's certificate the connection has TLS."""
        self._port: Final = port
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.create_default_context()
            self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def create(self, stream: str, *subjects: str, **words: Any) -> None:
        """Create a stream, or empty it."""

        async def call(connection: Any) -> None:
            context = connection.jetstream()
            try:
                await context.delete_stream(stream)
            except NotFoundError:
                pass
            await context.add_stream(StreamConfig(name=stream, subjects=list(subjects), **words))

        self._run(call)

    def add_consumer(self, stream: str, **words: Any) -> None:
        """Create a consumer."""
        self._run(lambda connection: connection.jetstream().add_consumer(stream, ConsumerConfig(**words)))

    def consumers(self, stream: str) -> list[Any]:
        """Return what the server says of the consumers of a stream."""
        found: list[Any] = self._run(lambda connection: connection.jetstream().consumers_info(stream))
        return found

    def publish(self, subject: str, bodies: list[bytes], **headers: str) -> None:
        """Publish to a stream."""

        async def call(connection: Any) -> None:
            for body in bodies:
                await connection.jetstream().publish(subject, body, headers=dict(headers))

        self._run(call)

    def messages(self, subject: str) -> list[Any]:
        """Return the messages of a subject in its stream, which keeps them."""

        async def call(connection: Any) -> list[Any]:
            context = connection.jetstream()
            try:
                stream = await context.find_stream_name_by_subject(subject)
            except NotFoundError:
                return []
            state = (await context.stream_info(stream)).state
            found = []
            for sequence in range(max(1, state.first_seq), state.last_seq + 1):
                try:
                    message = await context.get_msg(stream, sequence)
                except NotFoundError:
                    continue
                if message.subject == subject:
                    found.append(message)
            return found

        return self._run(call)

    def pending(self, stream: str, consumer: str) -> int:
        """Return the messages of a consumer, those without an acknowledgement too; without one those of the stream."""

        async def call(connection: Any) -> int:
            context = connection.jetstream()
            try:
                found = await context.consumer_info(stream, consumer)
            except NotFoundError:
                return int((await context.stream_info(stream)).state.messages)
            return int(found.num_pending) + int(found.num_ack_pending)

        return self._run(call)

    def _run(self, call: Callable[[Any], Awaitable[T]]) -> T:
        results: list[T] = []
        errors: list[BaseException] = []

        async def connected() -> T:
            url = f"nats://{USER}:{PASSWORD}@127.0.0.1:{self._port}"
            connection = await nats.connect(url, max_reconnect_attempts=5, tls=self._context)
            try:
                return await call(connection)
            finally:
                await connection.close()

        def run() -> None:
            try:
                results.append(asyncio.run(connected()))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(WAIT_S)
        if errors:
            raise errors[0]
        assert results, "NATS does not answer"
        return results[0]
