"""The real machine behind `spanwire.model.environment`: clocks, random bytes, host name."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Final

from spanwire.model.environment import Time
from spanwire.transports.loop.system_clock import SystemClock


class RealEnvironment:
    """The machine's `Environment`. Not a subclass, because the module is not compiled."""

    def __init__(self, clock: SystemClock | None = None) -> None:
        self.clock: Final = clock if clock is not None else SystemClock()
        self.now: Final[Callable[[], Time]] = (
            self.clock.now
        )  # no method of its own: compiled code calls the clock itself
        self._host_name: Final = _host_name()

    @property
    def host_name(self) -> str:
        """Return the name of the host for generated ids."""
        return self._host_name

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes from the system."""
        return os.urandom(count)


def _host_name() -> str:
    """Return the system's host name without characters forbidden in ids."""
    name = "".join(character for character in socket.gethostname() if character.isalnum() or character in "-.")
    return name or "localhost"
