"""Both shells of the client with one face, so that a scenario is written once: the blocking one works in threads.

async with opened("blocking", url) as connection, connection.session() as session:
    consumer = await session.create_consumer("queue://Q")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, Self

from spanwire.client import aio, blocking
from spanwire.client.blocking.xa import XaResource

SHELLS: Final = ("aio", "blocking")
SYNCHRONOUS: Final = ("session", "create_browser", "receive_no_wait", "listen")
WRAPPED: Final = (
    blocking.Connection,
    blocking.Session,
    blocking.Producer,
    blocking.Consumer,
    blocking.Browser,
    XaResource,
)


def opened(shell: str, url: str, *arguments: Any, **named: Any) -> Any:
    """A connection to be awaited or entered."""
    if shell == "aio":
        return aio.connect(url, *arguments, **named)
    return _Opening(url, arguments, named)


class _Opening:
    def __init__(self, url: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._make: Final = lambda: blocking.connect(url, *arguments, **named)
        self._face: Any = None

    async def _open(self) -> Any:
        return face(await asyncio.to_thread(self._make))

    def __await__(self) -> Any:
        return self._open().__await__()

    async def __aenter__(self) -> Any:
        self._face = await self._open()
        return self._face

    async def __aexit__(self, *_: object) -> None:
        await self._face.close()


def face(found: Any) -> Any:
    """An object of the blocking shell with the face of its twin."""
    return Face(found) if isinstance(found, WRAPPED) else found


class Face:
    """Awaits what the twin would await."""

    def __init__(self, inner: Any) -> None:
        self.inner: Final = inner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.inner, name)
        if not callable(attribute):
            return face(attribute)
        if name in SYNCHRONOUS:
            return lambda *arguments, **named: face(attribute(*arguments, **named))

        async def call(*arguments: Any, **named: Any) -> Any:
            return face(await asyncio.to_thread(attribute, *arguments, **named))

        return call

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.inner.close)

    async def __aiter__(self) -> AsyncIterator[Any]:
        iterator: Iterator[Any] = iter(self.inner)
        end = object()
        while (found := await asyncio.to_thread(next, iterator, end)) is not end:
            yield found
