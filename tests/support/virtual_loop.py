"""An asyncio loop that never waits: when nothing is ready its clock jumps to the next timer. Its sockets are pairs of
ends in this process, made by whoever the test puts behind an address.

    loop = VirtualLoop(advance)
    loop.peers["b", 61616] = lambda: …      # the protocol at the other end, or an OSError
    loop.run(seconds)
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from typing import Any, Protocol


class End(Protocol):
    """What asyncio calls a protocol."""

    def connection_made(self, transport: Any) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


class JumpingSelector(selectors.BaseSelector):
    """Nothing is ever ready: time goes on at once to when something is due."""

    def __init__(self, jumped: Callable[[float], None]) -> None:
        self.time = 0.0
        self._jumped = jumped
        self._inner = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits for ever"
        if timeout > 0:
            self.time += timeout
            self._jumped(self.time)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()


class Wire:
    """One end of a connection: duck-typed to a transport. What is written there arrives here a moment later; with
    ``through`` the test decides what does, and nothing does any more, not even an end, when it ``is_cut``.
    """

    def __init__(self, loop: VirtualLoop, end: End) -> None:
        self.loop = loop
        self.end = end
        self.other: Wire
        self.through: Callable[[bytes], bytes] = bytes
        self.is_cut = False
        self.is_over = False

    def write(self, data: bytes) -> None:
        if not self.is_over:
            self.loop.call_soon(self.other.arrives, bytes(data))

    def arrives(self, data: bytes) -> None:
        """Bytes from the other end."""
        if not self.is_over and not self.is_cut:
            passed = self.through(data)
            if passed:
                self.end.data_received(passed)

    def close(self) -> None:
        self._ends()
        self.loop.call_soon(self.other.hangs_up)

    def abort(self) -> None:
        self.close()

    def hangs_up(self) -> None:
        """The other end writes no more."""
        if not self.is_over and not self.is_cut:
            self.end.eof_received()
            self._ends()

    def breaks(self) -> None:
        """A reset came; the other end learns nothing of it."""
        self._ends()

    def _ends(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.loop.call_soon(self.end.connection_lost, None)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever kept."""

    def pause_reading(self) -> None:
        """Nothing is ever kept."""

    def resume_reading(self) -> None:
        """Nothing was kept."""

    def can_write_eof(self) -> bool:
        """Nothing can be lost behind what was written."""
        return False

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "socket":
            return VirtualSocket()
        return ("virtual", 1) if name == "peername" else default


class VirtualSocket:
    """Takes the options of a socket, which nothing here depends on."""

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Nothing is set."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """``advance`` is told the time of the loop, in seconds from 0, whenever it changes."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        self._jumping = JumpingSelector(advance)
        super().__init__(self._jumping)
        self.peers: dict[tuple[str, int], Callable[[], End | None]] = {}
        self.connected: Callable[[Wire, Wire], None] = lambda near, far: None

    def time(self) -> float:
        return self._jumping.time

    def run(self, seconds: float) -> None:
        """So much time goes by."""
        self.run_until_complete(asyncio.sleep(seconds))

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """To whoever is behind the address; the peer None never answers."""
        peer = self.peers[host, port]()
        if peer is None:
            await asyncio.Event().wait()
        assert peer is not None
        near, far = Wire(self, factory()), Wire(self, peer)
        near.other, far.other = far, near
        self.connected(near, far)
        self.call_soon(far.end.connection_made, far)
        near.end.connection_made(near)
        return near, near.end
