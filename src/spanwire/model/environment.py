"""Time, random bytes and the host name, passed into the pure packages.

No module in ``model``, ``selector``, ``broker`` or ``protocols`` reads a clock or a random generator. The shells in
``transports`` and ``service`` pass a `Time` with every input; tests pass any values.
"""

from __future__ import annotations

from typing import Final, Protocol


class Time:
    """A reading of both clocks.

    ``monotonic``, in seconds, drives timers and never goes back. ``wall_ms``, in milliseconds since the epoch, is for
    timestamps and expiry. The shell aligns ``wall_ms`` with the system's clock each second; the value goes back only if
    the system's clock was set back by seconds.
    """

    __slots__ = ("monotonic", "wall_ms")

    def __init__(self, monotonic: float, wall_ms: int) -> None:
        self.monotonic: Final[float] = monotonic
        self.wall_ms: Final[int] = wall_ms


class Environment(Protocol):
    """The machine's services for pure code."""

    @property
    def host_name(self) -> str:
        """Return the name of this host for generated ids."""
        ...

    def now(self) -> Time:
        """Return the time of the current turn.

        The method is for code not started by an input; inputs carry their own `Time`.
        """
        ...

    def random_bytes(self, count: int) -> bytes:
        """Return ``count`` unpredictable bytes, for ids safe from guessing."""
        ...


class IdGenerator:
    """Generates unique ids in ActiveMQ's form ``ID:host-port-millis-seed:number``."""

    def __init__(self, environment: Environment, seed: int = 0, port: int = 0) -> None:
        millis = environment.now().wall_ms
        if port == 0:
            port = 32768 + int.from_bytes(environment.random_bytes(2), "big") % 28232
        self._prefix: Final[str] = f"ID:{environment.host_name}-{port}-{millis}-{seed}"
        self._number = 0

    def next_id(self) -> str:
        """Return the next id."""
        self._number += 1
        return f"{self._prefix}:{self._number}"
