"""Sessions of readers: a consumer that stays between the requests with one ``clientId``.

A topic keeps the messages that arrive in between for such a consumer. Classic's servlet does the same.
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
        self._opening = 0

    @property
    def count(self) -> int:
        """Number of consumers."""
        return len(self._readers)

    async def reader(self, client_id: str, destination: Destination, selector: str | None) -> Reader:
        """Return the consumer of a session for a request, with the selector of the first request.

        Raises:
            BusyReaderError: another request reads with the consumer.
            FullSessionsError: the user has `MAX_READERS` consumers.
            JmsError: the broker refuses the consumer.
        """
        key = client_id, str(destination)
        reader = self._readers.get(key)
        if reader is None:
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
        """Close the consumer of a session. Returns False if there is none."""
        reader = self._readers.pop((client_id, str(destination)), None)
        if reader is None:
            return False
        try:
            await reader.close()
        except JmsError:
            return True  # the connection has closed the consumer
        return True

    async def sweep(self) -> None:
        """Close the consumers that no request has used for `IDLE_S` seconds."""
        now = self._now()
        for key, reader in list(self._readers.items()):
            if not reader.is_busy and now - reader.used_at >= IDLE_S and self._readers.pop(key, None) is not None:
                try:
                    await reader.close()
                except JmsError:
                    continue
