"""Durable subscriptions of one client id, which share a connection.

A broker accepts a client id once, and a durable subscription belongs to its client id. So the bridges of one process
with the same broker, login and client id have one connection with a session for each bridge, as the bridges of one
connector have in ActiveMQ.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final
from weakref import WeakKeyDictionary

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.bridges.providers.openwire.connecting import close, connect
from spanwire.bridges.providers.openwire.parties import OpenWireSource
from spanwire.bridges.providers.openwire.source_consumer import SourceConsumer
from spanwire.client.aio.connection import Connection
from spanwire.client.aio.session import Session
from spanwire.model.errors import JmsError

Key = tuple[ConnectionFactory, str | None]  # broker and login, with the client id
Pool = dict[Key, "SharedConnection"]


class SharedConnection:
    """A connection that its last user closes. Users who come while it opens wait for the one attempt together."""

    def __init__(self, pool: Pool, key: Key) -> None:
        self._pool: Final[Pool] = pool
        self._key: Final[Key] = key
        self._opening: asyncio.Task[Connection] | None = None  # the last attempt
        self._closing: asyncio.Task[None] | None = None  # of the connection before
        self._users = 0

    @property
    def is_lost(self) -> bool:
        """True after the loss of the connection; the next user needs another one."""
        if self._opening is None or not self._opening.done() or self._has_failed:
            return False
        try:
            self._opening.result().shared.check()
        except JmsError:
            return True
        return False

    @property
    def _has_failed(self) -> bool:
        opening = self._opening
        return opening is not None and opening.done() and (opening.cancelled() or opening.exception() is not None)

    async def opened(self) -> Connection:
        """Count a user, and return the open connection.

        Raises:
            JmsError: the broker is not reachable, or refuses. The user counts until `release` all the same.
        """
        self._users += 1
        if self._opening is None or self._has_failed:
            self._opening = asyncio.create_task(self._open())
        return await asyncio.shield(self._opening)  # a cancelled user leaves the attempt to the others

    async def _open(self) -> Connection:
        """Connect after the end of the connection before: the broker accepts the client id once."""
        if self._closing is not None:
            await asyncio.wait((self._closing,))
        return await connect(*self._key)

    def share_of(self, credit: int) -> int:
        """Return the part of a credit for one of the users at the moment.

        A call that waits for a message of one user reads on, and so fills the memory of the others up to their credit,
        or up to `MAX_OCTETS` of each.
        Users who come one after the other have the whole, a half, a third: four together have twice a credit.
        """
        return max(1, credit // self._users)

    async def release(self) -> None:
        """End the use. The last user closes the connection."""
        self._users -= 1
        if self._users > 0:
            return
        opening, self._opening = self._opening, None
        if opening is not None:
            self._closing = asyncio.create_task(_close(opening, self._closing))
            await asyncio.shield(self._closing)
        if self._users == 0 and self._pool.get(self._key) is self:
            del self._pool[self._key]


async def _close(opening: asyncio.Task[Connection], before: asyncio.Task[None] | None) -> None:
    """Give an attempt up, or close its connection, after the end of the connection before."""
    opening.cancel()
    await asyncio.wait((opening,) if before is None else (opening, before))
    if not opening.cancelled() and opening.exception() is None:
        await close(opening.result())


_POOLS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Pool]] = WeakKeyDictionary()


def shared_connection(factory: ConnectionFactory, client_id: str | None) -> SharedConnection:
    """Return the connection of a client id in this event loop, or a new one in place of a lost one."""
    pool = _POOLS.setdefault(asyncio.get_running_loop(), {})
    key = (factory, client_id)
    found = pool.get(key)
    if found is None or found.is_lost:
        found = pool[key] = SharedConnection(pool, key)
    return found


class DurableSource(OpenWireSource):
    """The consumer of a durable subscription, with a session of its own."""

    def __init__(
        self, connection: Connection, session: Session, consumer: SourceConsumer, shared: SharedConnection
    ) -> None:
        super().__init__(connection, consumer)
        self._session: Final[Session] = session
        self._shared: Final[SharedConnection] = shared

    async def close(self) -> None:
        """Close the session, so that unacknowledged messages return to the subscription, and leave the connection."""
        try:
            await self._consumer.stop_opening()
            with contextlib.suppress(JmsError):
                await self._session.close()
            with contextlib.suppress(JmsError):
                await self._replies.close()
        finally:
            await self._shared.release()
