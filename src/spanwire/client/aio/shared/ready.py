"""Waits of an asyncio connection: for a broker, and for messages."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spanwire.client.aio.shared.core_connection import CoreConnection


class MessageWaiter:
    """Port: a consumer with waiting calls."""

    @abstractmethod
    def wake(self) -> None:
        """Wake the waiting calls: a message has arrived, or none will."""


class Ready:
    """Context manager that waits on entry until the connection is online."""

    def __init__(self, connection: CoreConnection) -> None:
        self._connection: Final = connection

    async def __aenter__(self) -> None:
        await self._connection.wait_online()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return
