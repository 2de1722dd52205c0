"""What the pure packages need from the machine: time, random bytes, a host name. All of it is passed in.

Nothing in ``model``, ``selector``, ``broker`` or ``protocols`` reads a clock or rolls dice; the shells in
``transports`` and ``service`` hand in a `Time` with every input, a test hands in whatever it likes.
"""

from __future__ import annotations

from typing import Final, Protocol


class Time:
    """One reading of both clocks.

    ``monotonic`` in seconds drives timers and never goes back; ``wall_ms`` in milliseconds since the epoch stamps and
    expires messages. The shell re-anchors the wall clock each second; it goes back only when the system's was set back
    by seconds.
    """

    __slots__ = ("monotonic", "wall_ms")

    def __init__(self, monotonic: float, wall_ms: int) -> None:
        self.monotonic: Final[float] = monotonic
        self.wall_ms: Final[int] = wall_ms


class Environment(Protocol):
    """The machine as the pure code sees it."""

    @property
    def host_name(self) -> str:
        """Name of this host, as it stands in generated ids."""
        ...

    def now(self) -> Time:
        """The time of the current turn. Inputs carry their own `Time`; this one serves code that no input started."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """``count`` unpredictable bytes, for ids that must not be guessed."""
        ...


class IdGenerator:
    """Makes ids of the form ``ID:host-port-millis-seed:number`` (ActiveMQ's form), each once per generator."""

    def __init__(self, environment: Environment, seed: int = 0, port: int = 0) -> None:
        millis = environment.now().wall_ms
        if port == 0:
            port = 32768 + int.from_bytes(environment.random_bytes(2), "big") % 28232
        self._prefix: Final[str] = f"ID:{environment.host_name}-{port}-{millis}-{seed}"
        self._number = 0

    def next_id(self) -> str:
        """The next id."""
        self._number += 1
        return f"{self._prefix}:{self._number}"
