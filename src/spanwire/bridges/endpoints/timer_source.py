"""A timer as the source of a route."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from spanwire.bridges.engine.changed_messages import NeutralContent
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import TimerSource
from spanwire.model.message_view import LONG_VALUE, PLAIN, STRING_VALUE

logger = logging.getLogger(__name__)


class TickCount:
    """The ticks of a timer whose messages are sent, over all links of a route."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = 0


class OpenTimerSource:
    """Gives a message at each tick; ticks that pass while the route is busy or away are left out."""

    def __init__(self, timer: TimerSource, ticks: TickCount) -> None:
        self._timer: Final = timer
        self._ticks: Final = ticks
        self._count = ticks.done
        self._next = time.monotonic() + timer.delay_ms / 1000

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Wait for the next tick; ``max_messages`` and ``max_bytes`` never matter for one message."""
        is_over = 0 < self._timer.repeat_count <= self._count
        pause_s = wait_s if is_over else min(wait_s, max(0.0, self._next - time.monotonic()))
        await asyncio.sleep(pause_s)
        now = time.monotonic()
        if is_over or now < self._next:
            return []
        period_s = self._timer.period_ms / 1000
        self._next += period_s * (1 + (now - self._next) // period_s)
        self._count += 1
        wall_ms = int(time.time() * 1000)
        properties = {
            "timerName": (STRING_VALUE, self._timer.name),
            "firedTime": (LONG_VALUE, wall_ms),
            "timerCounter": (LONG_VALUE, self._count),
        }
        message = BridgeMessage(f"timer:{self._timer.name}:{wall_ms}:{self._count}", PLAIN, NeutralContent(None, {}), 1)
        message.properties = dict(properties)
        message.timestamp_ms = wall_ms
        return [message]

    async def acknowledge(self) -> None:
        """Count the received ticks as done."""
        self._ticks.done = self._count

    async def dead_letter(self, cause: str) -> None:
        """Drop the unsendable message of a tick."""
        self._ticks.done = self._count
        logger.warning("timer %s: a tick is lost: %s", self._timer.name, cause)

    def check(self) -> None:
        """Return at once: a timer is never lost."""

    async def close(self) -> None:
        """Do nothing."""
