"""Schedule of the sweeps for expired messages, one period for each policy (``expireMessagesPeriod``).

Only the start of a sweep is decided here. The sweep itself is a job of the queue, done a slice at a time.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.queue.queue import Queue

QUEUES_PER_TURN: Final = 500  # queues whose sweep starts in one turn
MIN_PERIOD_SECONDS: Final = 0.05  # seconds between two sweeps of one queue, even if the policy asks for less


class ExpirySweep:
    """Calls `Queue.start_expiry` for the queues and durable subscriptions of a period at its end.

    With ``active_durables`` the sweep includes durable subscriptions with an active subscriber; messages of such a
    subscription otherwise expire at dispatch.
    """

    def __init__(
        self, context: BrokerContext, destination_map: DestinationMap, periods_ms: list[int], active_durables: bool
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._active_durables: Final[bool] = active_durables
        self._due: dict[int, float] = dict.fromkeys(periods_ms, 0.0)
        self._next_due: float | None = 0.0 if periods_ms else None
        self._to_look_through: list[Queue] = []

    def use_periods(self, periods_ms: list[int]) -> None:
        """Replace the periods; the due times of known periods stay."""
        self._due = {period: self._due.get(period, 0.0) for period in periods_ms}
        self._next_due = min(self._due.values()) if periods_ms else None

    def next_timeout(self) -> float | None:
        """Return the monotonic seconds of the next sweep; 0.0 while queues are left for the next turn."""
        return 0.0 if self._to_look_through else self._next_due

    def run(self) -> None:
        """Start due sweeps, at most at `QUEUES_PER_TURN` queues."""
        now = self._context.monotonic
        next_due = self._next_due
        if next_due is not None and now >= next_due:
            for period_ms, due in list(self._due.items()):
                if now >= due:
                    self._due[period_ms] = now + max(period_ms / 1000, MIN_PERIOD_SECONDS)
                    self._collect(period_ms)
            self._next_due = min(self._due.values())
        for _ in range(min(QUEUES_PER_TURN, len(self._to_look_through))):
            queue = self._to_look_through.pop()
            if not queue.removed:
                queue.start_expiry()

    def _collect(self, period_ms: int) -> None:
        """Add the queues of a period behind the queues left from earlier sweeps, each once."""
        due: list[Queue] = []
        queues = self._map.swept.get(period_ms)
        if queues is not None:
            due.extend(queues.values())
        for durable in self._map.durables.values():
            if durable.queue.policy.expire_messages_period_ms == period_ms:
                if self._active_durables or not durable.active:
                    due.append(durable.queue)
        if self._to_look_through:
            waiting = set(self._to_look_through)
            due = [queue for queue in due if queue not in waiting]
        due.reverse()
        self._to_look_through[:0] = due
