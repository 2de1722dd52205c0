"""Logins: one connection to the broker for each user, shared by all requests of the user."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

from spanwire.client.aio import Connection, Producer, Session
from spanwire.client.messages.message import Message
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError
from spanwire.web.rest.leases import LeasedBytes, Leases
from spanwire.web.rest.publications import NewMessage, publish_together
from spanwire.web.rest.reads import Reader, open_reader
from spanwire.web.rest.requests import Posted
from spanwire.web.rest.sessions import ReadSessions

MAX_LOGINS: Final = 1_000  # connections to the broker, as many as the web process has of its own
IDLE_S: Final = 60.0  # seconds after which an unused connection ends; a login takes a few milliseconds
POOLED_S: Final = 2.0  # seconds that a consumer of a queue stays for the next request; it is demand in a network
MAX_POOLED: Final = 32  # idle producers, and idle consumers, of one user
SWEEP_S: Final = 1.0  # seconds between two looks for what is idle
MAX_USERS_REQUESTS: Final = 100  # requests of one user at a time, so that others have their turn


Connect = Callable[[str | None, str | None, str], Awaitable[Connection]]


class TooManyError(Exception):
    """Raised when a limit is reached; the request may succeed later."""


class Login:
    """The connection of one user."""

    def __init__(self, connection: Connection, now: Callable[[], float], leased: LeasedBytes) -> None:
        self._connection: Final = connection
        self._now: Final = now
        self._producers: Final[list[tuple[Session, Producer]]] = []
        self._readers: Final[list[Reader]] = []
        self.sessions: Final = ReadSessions(connection, now)
        self.leases: Final = Leases(leased, now)
        self.requests = 0
        self.used_at = now()

    @property
    def is_alive(self) -> bool:
        """False after the connection has failed."""
        return self._connection.shared.core.failure is None

    @property
    def is_idle(self) -> bool:
        """True for a connection without requests, sessions and leases since `IDLE_S` seconds."""
        is_used = self.requests or self.sessions.count or self.leases.count
        return not is_used and self._now() - self.used_at >= IDLE_S

    def touch(self) -> None:
        """Note the end of a request."""
        self.used_at = self._now()

    async def send(self, posted: Posted) -> str:
        """Send a message and wait until the broker's answer. Returns the message id.

        Raises:
            JmsError: the broker refuses the message, or the connection has failed.
        """
        session, producer = self._producers.pop() if self._producers else await self._new_producer()
        try:
            await producer.send(
                posted.body,
                dict(posted.properties) or None,
                posted.destination,
                posted.message_type,
                posted.correlation_id,
                posted.reply_to,
                posted.persistent,
                posted.priority,
                posted.time_to_live_ms,
                wait=True,
            )
            return producer.last_message_id or ""
        finally:
            if len(self._producers) < MAX_POOLED and self.is_alive:
                self._producers.append((session, producer))
            else:
                await _quietly(session.close())  # the message may be sent, whatever became of the connection

    async def send_together(self, destination: Destination, messages: Sequence[NewMessage]) -> list[str]:
        """Send messages as `publish_together` does."""
        return await publish_together(self._connection, destination, messages)

    async def _new_producer(self) -> tuple[Session, Producer]:
        session = self._connection.session()
        return session, await session.create_producer()

    async def reader(self, destination: Destination, selector: str | None) -> Reader:
        """Return a consumer for one request, from the pool if possible. Raises `JmsError`."""
        key = str(destination), selector
        for index in range(len(self._readers) - 1, -1, -1):
            if self._readers[index].key == key:
                return self._readers.pop(index)
        return await open_reader(self._connection, destination, selector)

    async def follow(self, destination: Destination, selector: str | None, prefetch: int) -> Reader:
        """Return a new consumer with a prefetch, closed by the user. Raises `JmsError`."""
        return await open_reader(self._connection, destination, selector, prefetch)

    async def give_back(self, reader: Reader, *, is_queue: bool) -> None:
        """End a request. The consumer of a queue stays for a moment, a topic's consumer would gather messages."""
        if is_queue and not reader.is_left and len(self._readers) < MAX_POOLED and self.is_alive:
            reader.used_at = self._now()
            self._readers.append(reader)
        else:
            await _quietly(reader.close())

    async def browse(self, queue: Destination, selector: str | None) -> AsyncGenerator[Message]:
        """Iterate over the messages of a queue, without removal. Raises `JmsError`."""
        async with self._connection.session() as session:
            async for message in session.create_browser(queue, selector):
                yield message

    async def sweep(self) -> None:
        """Close idle consumers and sessions."""
        now = self._now()
        for reader in [one for one in self._readers if now - one.used_at >= POOLED_S]:
            self._readers.remove(reader)
            await _quietly(reader.close())
        await self.sessions.sweep()
        await self.leases.sweep()

    async def close(self) -> None:
        """Close the connection with all leases, consumers and producers."""
        self.leases.close()
        await _quietly(self._connection.close())


class Logins:
    """All logins of the web process."""

    def __init__(self, connect: Connect, now: Callable[[], float] = time.monotonic) -> None:
        """Keep logins; ``connect`` connects a user with a password to the broker."""
        self._connect: Final = connect
        self._now: Final = now
        self._logins: Final[dict[bytes, asyncio.Task[Login]]] = {}
        self._leased: Final = LeasedBytes()
        self._sweeper: asyncio.Task[None] | None = None

    async def login(self, user: str | None, password: str | None, host: str) -> Login:
        """Return the login of a user from a host.

        Raises:
            JmsError: the broker refuses the user.
            TooManyError: there are `MAX_LOGINS` logins in use, or the user has too many requests.
        """
        key = hashlib.sha256(repr((user, password, host)).encode("utf-8", "surrogatepass")).digest()
        while (task := self._logins.get(key)) is not None and _has_failed(task):
            await self._drop(key, task)  # meanwhile another request of the user may have logged in again
        if task is None:
            self._make_room()
            task = asyncio.ensure_future(self._connected(user, password, host))
            self._logins[key] = task
            if self._sweeper is None or self._sweeper.done():
                self._sweeper = asyncio.ensure_future(self._sweep())
        try:
            login = task.result() if task.done() else await asyncio.shield(task)
        except BaseException:
            if task.done() and self._logins.get(key) is task:
                del self._logins[key]
            raise
        if login.requests >= MAX_USERS_REQUESTS:
            raise TooManyError(f"this user has {MAX_USERS_REQUESTS} requests under way")
        return login

    async def close(self) -> None:
        """Close all connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for key, task in list(self._logins.items()):
            await self._drop(key, task)

    async def sweep(self) -> None:
        """Close idle logins and their idle consumers."""
        for key, task in list(self._logins.items()):
            if not task.done() or task.cancelled() or task.exception() is not None:
                continue
            login = task.result()
            await login.sweep()
            if login.is_idle or not login.is_alive:
                await self._drop(key, task)

    async def _connected(self, user: str | None, password: str | None, host: str) -> Login:
        return Login(await self._connect(user, password, host), self._now, self._leased)

    def _make_room(self) -> None:
        """Raise `TooManyError` if there is no room for one more login."""
        if len(self._logins) >= MAX_LOGINS:
            raise TooManyError(f"there are {MAX_LOGINS} users at a time; try again in a minute")

    async def _drop(self, key: bytes, task: asyncio.Task[Login]) -> None:
        """End a login, unless it was dropped before; a later login of the user stays."""
        if self._logins.get(key) is not task:
            return
        del self._logins[key]
        if not task.done():
            task.cancel()
        elif not task.cancelled() and task.exception() is None:
            await task.result().close()

    async def _sweep(self) -> None:
        """Close idle logins from time to time, until there is no login left."""
        while self._logins:
            await asyncio.sleep(SWEEP_S)
            await self.sweep()


def _has_failed(task: asyncio.Task[Login]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None or not task.result().is_alive)


async def _quietly(closing: Awaitable[None]) -> None:
    """Wait for a closing; a failed connection has closed all resources already."""
    try:
        await closing
    except JmsError:
        return
