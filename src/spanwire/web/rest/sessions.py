"""Sessions of readers: a lasting consumer for the requests with one ``clientId``, or one cookie.

A topic keeps the messages between two requests for such a consumer. Classic's servlet does the same. A session by
cookie begins with a request of any client, also without support of cookies; until the return of the cookie the session
is *unconfirmed*: the session ends early, and makes room for others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.client.aio import Connection
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError
from spanwire.web.rest.reads import Reader, open_reader

MAX_READERS: Final = 100  # consumers of one user in all of the user's sessions
MAX_CLIENT_ID: Final = 256  # characters; a host name with a number
MAX_UNCONFIRMED: Final = 20  # of them whose cookie has not come back; the oldest ends when there are more
UNCONFIRMED_S: Final = 60.0  # seconds that such a consumer stays; a script asks again sooner
IDLE_S: Final = 1_800.0  # seconds; Classic's servlet container ends a session after 30 minutes


class BusyReaderError(Exception):
    """Raised for a second read at the same time with one ``clientId``."""


class FullSessionsError(Exception):
    """Raised when a user has too many consumers in sessions."""


class ReadSessions:
    """The consumers in the sessions of one user."""

    def __init__(self, connection: Connection, now: Callable[[], float]) -> None:
        self._connection: Final = connection
        self._now: Final = now
        self._readers: Final[dict[tuple[str, str], Reader]] = {}
        self._unconfirmed: Final[dict[tuple[str, str], Reader]] = {}  # the oldest first
        self._opening = 0

    @property
    def count(self) -> int:
        """Number of consumers."""
        return len(self._readers)

    @property
    def is_full(self) -> bool:
        """True if the user has `MAX_READERS` consumers, each with a name or a returned cookie."""
        return len(self._readers) + self._opening - len(self._unconfirmed) >= MAX_READERS

    async def reader(
        self, client_id: str, destination: Destination, selector: str | None, *, is_unconfirmed: bool = False
    ) -> Reader:
        """Return the consumer of a session for a request, with the selector of the first request.

        Args:
            client_id: the name of the session.
            destination: a queue or topic.
            selector: a selector, or None.
            is_unconfirmed: True if the client gets the cookie of the session by the answer to this request.

        Raises:
            BusyReaderError: another request reads with the consumer.
            FullSessionsError: the user has `MAX_READERS` consumers.
            JmsError: the broker refuses the consumer.
        """
        key = client_id, str(destination)
        reader = self._readers.get(key)
        self._unconfirmed.pop(key, None)
        if reader is None:
            if (is_unconfirmed and len(self._unconfirmed) >= MAX_UNCONFIRMED) or len(self._readers) >= MAX_READERS:
                await self._end_unconfirmed()
            if len(self._readers) + self._opening >= MAX_READERS:
                raise FullSessionsError(
                    f"a user has at most {MAX_READERS} consumers in sessions: end one with oneShot=true, or with POST "
                    "and action=unsubscribe"
                )
            self._opening += 1
            try:
                opened = await open_reader(self._connection, destination, selector)
            finally:
                self._opening -= 1
            reader = self._readers.setdefault(key, opened)
            if reader is not opened:
                await opened.close()
            elif is_unconfirmed:
                self._unconfirmed[key] = reader
        if reader.is_busy:
            raise BusyReaderError(f"another request with the clientId {client_id[:60]} reads from {destination}")
        reader.is_busy = True
        return reader

    async def give_back(self, client_id: str, destination: Destination, reader: Reader, *, ends: bool) -> None:
        """End a request; ``ends`` closes the consumer."""
        reader.is_busy = False
        reader.used_at = self._now()
        if ends:
            await self.end(client_id, destination)

    async def end(self, client_id: str, destination: Destination) -> bool:
        """Close the consumer of a session. Returns False without a session."""
        return await self._end((client_id, str(destination)))

    async def _end(self, key: tuple[str, str]) -> bool:
        self._unconfirmed.pop(key, None)
        reader = self._readers.pop(key, None)
        if reader is None:
            return False
        try:
            await reader.close()
        except JmsError:
            return True  # the connection has closed the consumer
        return True

    async def _end_unconfirmed(self) -> None:
        """End the oldest unused session without a returned cookie."""
        key = next((key for key, reader in self._unconfirmed.items() if not reader.is_busy), None)
        if key is not None:
            await self._end(key)

    async def sweep(self) -> None:
        """Close the consumers without a request for `IDLE_S` seconds, or `UNCONFIRMED_S`."""
        now = self._now()
        for key, reader in list(self._readers.items()):
            limit = UNCONFIRMED_S if key in self._unconfirmed else IDLE_S
            if not reader.is_busy and now - reader.used_at >= limit:
                await self._end(key)
