"""The actions for each batch of a route: hold, send to each target, store the state, acknowledge.

    process ◀─▶ call functions
       │
       ▼
    hold ──▶ send ──▶ … ──▶ send ──▶ keep ──▶ acknowledge

A message is acknowledged only when all targets and the state have the message. After an earlier failure the source
delivers the message again, and some targets get the message twice. After the state is stored, a message delivered again
has no further effect.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from spanwire.bridges.engine.dialogue import Acknowledge, Action, CallFunctions, Hold, Keep, Send
from spanwire.bridges.engine.route_calls import Answer
from spanwire.bridges.engine.route_processor import REPEATED, Plan, RouteProcessor, TakenSinglyError
from spanwire.bridges.engine.route_state import RouteState
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import RouteDefinition
from spanwire.model.environment import Time
from spanwire.model.text import escaped

LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
}

SET_BACK_MS: Final = 1_000  # milliseconds; a clock that goes back by less delays a group by as little

logger = logging.getLogger(__name__)


class RouteWork:
    """The current batch of one route."""

    def __init__(self, definition: RouteDefinition) -> None:
        """Prepare the steps. Raises `ConfigurationError`."""
        self._name: Final[str] = definition.name
        self._processor: Final = RouteProcessor(definition)
        self._state = RouteState()
        self._plan = Plan()
        self._batch: list[BridgeMessage] = []
        self._actions: deque[Action] = deque()
        self._current: Send | None = None
        self._last: Time | None = None  # of the last look at the clock since the state was taken up

    @property
    def batch_limit(self) -> int | None:
        """Return the largest useful batch, None for any."""
        return self._processor.batch_limit

    def connected(self, state: RouteState | None) -> None:
        """Take up the stored state."""
        self._state = RouteState() if state is None else state
        self._last = None

    @property
    def keeps_state(self) -> bool:
        """Return True if the route remembers messages beyond a batch."""
        return self._processor.keeps_state

    def due_s(self, now: Time) -> float | None:
        """Return the seconds to the next group's completion by time; None without a group."""
        self._follow_clock(now)
        deadline_ms = self._processor.deadline_ms(self._state)
        return None if deadline_ms is None else max(0.0, (deadline_ms - now.wall_ms) / 1000)

    def _follow_clock(self, now: Time) -> None:
        """Move the times of waiting groups with a clock that was set back; otherwise they would wait for that time.

        With a clock that was set forward, also by a machine that slept, groups are complete early.
        """
        last, self._last = self._last, now
        if last is None:
            for group in self._state.groups.values():
                group.first_ms = min(group.first_ms, now.wall_ms)
            return
        went_ms = now.wall_ms - last.wall_ms - int((now.monotonic - last.monotonic) * 1000)
        if went_ms < -SET_BACK_MS:
            for group in self._state.groups.values():
                group.first_ms += went_ms

    def begin(self, batch: list[BridgeMessage], now: Time) -> None:
        """Plan the actions for a batch; without messages, for the groups that are complete by time.

        Raises:
            MessageAtFaultError: a message cannot pass the steps.
            TakenSinglyError: the batch must be taken one message at a time.
        """
        self._plan = Plan()
        self._batch = batch
        self._go_on(now)

    def returned(self, answers: list[Answer], now: Time) -> None:
        """Go on with the answers of functions. Raises the errors of `begin`."""
        self._plan.calls.take(answers)
        self._go_on(now)

    def _go_on(self, now: Time) -> None:
        plan, batch = self._plan, self._batch
        self._follow_clock(now)
        self._processor.process(batch, now, self._state, plan)
        self._actions = deque()
        if plan.pending:
            self._actions.append(CallFunctions(plan.pending))
            return
        if plan.not_before > now.monotonic:
            self._actions.append(Hold(plan.not_before - now.monotonic))
        self._actions.extend(Send(messages, target) for target, messages in plan.sends.items())
        if self._processor.keeps_state and (plan.changes.changes or plan.changes.recent):
            self._actions.append(Keep(plan.changes))
        if batch:
            self._actions.append(Acknowledge())

    def next(self) -> Action | None:
        """Return the next action of the batch; None if all is done."""
        action = self._actions.popleft() if self._actions else None
        self._current = action if isinstance(action, Send) else None
        return action

    def refused(self, index: int, reason: str, is_prefix_stored: bool) -> bool:
        """Let a refused message become a dead letter, and the rest be sent.

        ``is_prefix_stored`` says that the target has the messages before. Returns False without a target for dead
        letters, or if that target refuses.

        Raises:
            TakenSinglyError: the batch must be taken one message at a time.
        """
        current = self._current
        assert current is not None, "a target refused what was not sent"
        letter = self._processor.dead_letter(current.messages[index], reason)
        if letter is None or letter[0] == current.target:
            return False
        duplicates = self._plan.forget_keys_of(current.messages[index], self._state)
        if duplicates and len(self._batch) > 1:  # one of them may be the corrected copy
            raise TakenSinglyError
        letters = [letter, *filter(None, (self._processor.dead_letter(one, REPEATED) for one in duplicates))]
        rest = current.messages[index + 1 :]
        if not is_prefix_stored:
            rest = current.messages[:index] + rest
        self._plan.dead_letters += len(letters)
        self._actions.appendleft(Send([message for _, message in letters], letter[0]))
        if rest:
            self._actions.appendleft(Send(rest, current.target))
        return True

    def finish(self) -> int:
        """Write the lines of the step log. Returns the number of dead letters of the batch."""
        for line in self._plan.lines:
            where = f"route {self._name}{f' {line.name}' if line.name else ''}"
            logger.log(LEVELS[line.level], "%s: %s", where, escaped(line.text))
        return self._plan.dead_letters
