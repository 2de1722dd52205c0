"""The state machine of one bridge, without input or output.

    RECEIVING ──▶ the steps of the quality of service ──▶ RECEIVING
    AT_MOST_ONCE         ACKNOWLEDGING, SENDING
    DUPLICATES_OK        SENDING, ACKNOWLEDGING
    ONCE_AND_ONLY_ONCE   SENDING, COMMITTING                            (one local transaction)
                         SENDING, PREPARING, DECIDING, COMMITTING       (two brokers)

In DUPLICATES_OK a link whose brokers can do so completes a batch while the next one is received and sent:

    SENDING n, ACKNOWLEDGING n ──HandedOver──▶ RECEIVING n+1, SENDING n+1 ──▶ …
    the link:        stored at the target, acknowledged at the source ──Completed──▶ n+1 is stored

So at most `MAX_BATCHES` batches are under way. The target stores a batch after the source has stored the
acknowledgement of the batch before, so a failure doubles one batch at most.

A failure drops all batches under way and closes the link. The source keeps all unacknowledged messages, so the next
link receives these messages again. Between two brokers each link begins with RECOVERING, which finishes the branches of
a batch that was prepared; a minute later a second recovery finds branches that a broker has prepared late.

A route sends to several targets and keeps a state; `RouteWork` decides about its batches.
"""

from __future__ import annotations

import logging
from operator import attrgetter
from typing import Final

from spanwire.bridges.engine.counters import BridgeCounters, BridgeStatus
from spanwire.bridges.engine.dialogue import (
    Acknowledge,
    Action,
    CallFunctions,
    Commit,
    Committed,
    Completed,
    Connect,
    Connected,
    DeadLetter,
    DeadLettered,
    Decide,
    Disconnect,
    Disconnected,
    Elapsed,
    Event,
    Failed,
    HandedOver,
    Hold,
    Interrupt,
    Interrupted,
    Keep,
    Pause,
    Prepare,
    Receive,
    Received,
    Recover,
    Recovered,
    Refused,
    Returned,
    Send,
    Start,
    Stop,
    Wait,
)
from spanwire.bridges.engine.retries import Retries
from spanwire.bridges.engine.route_processor import TakenSinglyError
from spanwire.bridges.engine.route_work import RouteWork
from spanwire.bridges.engine.states import ENDS, FALLIBLE, INTERRUPTIBLE, BridgeState, Phase
from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.qualities import BatchStep, is_distributed, steps_of
from spanwire.bridges.model.route_definition import Definition, RouteDefinition
from spanwire.bridges.model.steps import MessageAtFaultError, apply_steps
from spanwire.model.environment import Time
from spanwire.model.errors import LocalProtocolError
from spanwire.model.units import MIB
from spanwire.routes.readers.bridge_parameters import FOREVER

MAX_BATCH_BYTES: Final = 16 * MIB  # bytes of messages in one batch; a larger batch is sent before it is full
MAX_BATCHES: Final = 2  # under way: one is stored, one received and sent; a third would wait for the same answers
IDLE_S: Final = 30.0  # seconds of one wait for messages; then the connection to the target is checked, which a
# thousand idle bridges must not do too often; a message finds a lost target sooner
DRAINED_S: Final = 1.0  # seconds without a message after which a bridge that ends with its source stops
LATE_S: Final = 60.0  # seconds after which no prepare of an earlier link is under way; brokers notice a loss in 30 s
MAX_ERROR: Final = 1_000  # characters of an error in the status
PHASES: Final[dict[type, Phase]] = {
    Hold: Phase.HOLDING,
    CallFunctions: Phase.CALLING,
    Send: Phase.SENDING,
    Keep: Phase.KEEPING,
    Acknowledge: Phase.ACKNOWLEDGING,
}  # of the actions of a route

SIZE: Final = attrgetter("size")
IS_REDELIVERED: Final = attrgetter("is_redelivered")

logger = logging.getLogger(__name__)


class BridgeMachine:
    """Decides the next actions of one bridge. `handle` takes an event with the time and returns actions."""

    def __init__(self, definition: Definition, ends_when_empty: bool = False) -> None:
        self.name: Final[str] = definition.name
        self.state = BridgeState.STOPPED
        self.phase = Phase.NONE
        self.counters: Final[BridgeCounters] = BridgeCounters()
        self.last_error: str | None = None
        self.is_broken = False  # has failed at a defect of its own
        self.is_hopeless = False  # another attempt would repeat the last failure
        self._definition: Final[Definition] = definition
        self._work: Final = RouteWork(definition) if isinstance(definition, RouteDefinition) else None
        self._steps: Final[tuple[BatchStep, ...]] = steps_of(definition)
        self._is_distributed: Final[bool] = is_distributed(definition)
        self._ends_when_empty: Final[bool] = ends_when_empty
        self._since_ms = 0
        self._goal = BridgeState.STOPPED  # running, paused or stopped: the last command
        self._batch: list[BridgeMessage] = []
        self._batch_bytes = 0
        self._handed: Final[list[list[BridgeMessage]]] = []  # batches that the link completes
        self._step = 0
        self._singly = 0  # messages still to be sent one at a time, because one of them was refused
        self._last_arrival = 0.0  # monotonic seconds
        self._connected_at: float | None = None
        self._recovers_at: float | None = None  # monotonic seconds of the second recovery of the link
        self._retries: Final = Retries(definition.retry)
        self._has_failed = False  # the link is being closed because of a failure

    def status(self) -> BridgeStatus:
        """Return state and counters."""
        counters = self.counters
        return BridgeStatus(
            self.name,
            self.state,
            self._since_ms,
            counters.received,
            counters.forwarded,
            counters.batches,
            counters.failures,
            counters.dead_letters,
            counters.redelivered,
            counters.perhaps_lost,
            counters.lag_ms,
            self.last_error,
            counters.heuristics,
            counters.aborted,
        )

    def handle(self, event: Event, now: Time) -> list[Action]:
        """Take an event and return the next actions.

        Raises:
            LocalProtocolError: the event does not end the action under way.
        """
        if isinstance(event, (Start, Pause, Stop)):
            return self._command(event, now)
        if isinstance(event, Completed) and self._handed:
            if not self._has_failed:
                self._retries.succeed()
            self._count(self._handed.pop(0), now)
            return []
        self._check(event)
        if isinstance(event, Failed):
            return self._fail(event, now)
        if isinstance(event, (Connected, Recovered, Disconnected, Elapsed, Interrupted)):
            return self._on_link_event(event, now)
        if isinstance(event, Received):
            return self._on_received(event.messages, event.is_last, now)
        if isinstance(event, Returned):
            assert self._work is not None, "routes alone call functions"
            return self._begin_work(self._work, now, event)
        if isinstance(event, Refused):
            return self._on_refused(event, now)
        if isinstance(event, DeadLettered):
            self.counters.dead_letters += 1
            return self._on_dead_lettered(now)
        return self._on_step_done(event, now)

    def break_down(self, reason: str, now: Time) -> None:
        """Fail at a defect: the causing event has no effect, and the bridge waits for a start."""
        self.is_broken = True
        self.last_error = reason[:MAX_ERROR]
        self.counters.failures += 1
        self._disconnect()  # drops the batches; the caller closes the link
        self._drop_handed()
        self._has_failed = False
        self._singly = 0
        self._goal = BridgeState.STOPPED
        self._rest(BridgeState.FAILED, now)

    def _on_dead_lettered(self, now: Time) -> list[Action]:
        actions = self._on_batch_over(now)
        if self._work is None or not self._work.keeps_state:
            return actions
        return self._disconnect()  # the state in memory has the refused message, the stored state has not

    def _on_link_event(
        self, event: Connected | Recovered | Disconnected | Elapsed | Interrupted, now: Time
    ) -> list[Action]:
        if isinstance(event, Connected):
            if self._work is not None:
                self._work.connected(event.state)
            return self._on_connected(now)
        if self.phase is Phase.HOLDING:
            return self._next_step(now) if isinstance(event, Elapsed) else self._disconnect()
        if isinstance(event, Recovered):
            return self._on_recovered(event, now)
        if isinstance(event, Disconnected):
            return self._on_disconnected(event.reason, now)
        return self._connect() if isinstance(event, Elapsed) else self._on_interrupted(now)

    def _check(self, event: Event) -> None:
        is_expected = self.phase in FALLIBLE if isinstance(event, Failed) else isinstance(event, ENDS[self.phase])
        if not is_expected:
            raise LocalProtocolError(f"bridge {self.name}: {type(event).__name__} while {self.phase.value}")

    def _command(self, command: Start | Pause | Stop, now: Time) -> list[Action]:
        if isinstance(command, Start):
            self._goal = BridgeState.RUNNING
            if self.phase is not Phase.NONE:
                return []
            self._retries.succeed()
            self.is_broken = False
            self._enter(BridgeState.STARTING, now)
            return self._connect()
        if isinstance(command, Pause) and self._goal is not BridgeState.RUNNING:
            return []
        self._goal = BridgeState.STOPPED if isinstance(command, Stop) else BridgeState.PAUSED
        if self.phase is Phase.NONE:
            if isinstance(command, Stop):
                self._enter(BridgeState.STOPPED, now)
            return []
        return [Interrupt()] if self.phase in INTERRUPTIBLE else []

    def _enter(self, state: BridgeState, now: Time) -> None:
        if state is not self.state:
            self.state = state
            self._since_ms = now.wall_ms

    def _connect(self) -> list[Action]:
        self.phase = Phase.CONNECTING
        return [Connect()]

    def _recover(self) -> list[Action]:
        self.phase = Phase.RECOVERING
        return [Recover()]

    def _disconnect(self) -> list[Action]:
        self.counters.aborted += len(self._batch)
        self._batch = []
        self._batch_bytes = 0
        self._recovers_at = self._connected_at = None
        self.phase = Phase.DISCONNECTING
        return [Disconnect()]

    def _on_connected(self, now: Time) -> list[Action]:
        self._connected_at = now.monotonic
        if self._goal is not BridgeState.RUNNING:
            return self._disconnect()
        if self._is_distributed:
            self._recovers_at = now.monotonic + LATE_S
            return self._recover()
        self._enter(BridgeState.RUNNING, now)
        return self._receive(now)

    def _on_recovered(self, event: Recovered, now: Time) -> list[Action]:
        self.counters.forwarded += event.messages
        self.counters.batches += event.messages > 0
        self._note(event.problems)
        if self._goal is not BridgeState.RUNNING:
            return self._disconnect()
        self._enter(BridgeState.RUNNING, now)
        return self._receive(now)

    def _on_step_done(self, event: Event, now: Time) -> list[Action]:
        if isinstance(event, HandedOver):
            return self._on_handed_over(now)
        if isinstance(event, Committed):
            self._note(event.problems)
        self._step += 1
        return self._next_step(now)

    def _note(self, problems: tuple[str, ...]) -> None:
        """Report heuristic outcomes; the messages of the batch may be at one side only, or at both."""
        self.counters.heuristics += len(problems)
        for problem in problems:
            self.last_error = problem[:MAX_ERROR]
            logger.error("bridge %s: heuristic outcome, messages may be lost or doubled: %s; compare both sides",
                         self.name, self.last_error)  # fmt: skip

    def _receive(self, now: Time) -> list[Action]:
        if not self._batch and self._recovers_at is not None and now.monotonic >= self._recovers_at:
            self._recovers_at = None
            return self._recover()
        limits = self._definition.batch
        wait_s = DRAINED_S if self._ends_when_empty else IDLE_S
        if self._batch and limits.quiet_ms is not None and limits.quiet_ms != FOREVER:
            wait_s = max(0.0, self._last_arrival + limits.quiet_ms / 1000 - now.monotonic)
        self.phase = Phase.RECEIVING
        size = 1 if self._singly > 0 else limits.size - len(self._batch)
        if self._work is not None:
            size = max(1, min(size, self._work.batch_limit or size))
            due_s = self._work.due_s(now)
            wait_s = wait_s if due_s is None else min(wait_s, due_s)
        return [Receive(size, MAX_BATCH_BYTES - self._batch_bytes, wait_s)]

    def _on_received(self, messages: list[BridgeMessage], is_last: bool, now: Time) -> list[Action]:
        if messages:
            self._batch += messages
            self._last_arrival = now.monotonic
            self.counters.received += len(messages)
            self._batch_bytes += sum(map(SIZE, messages))
            self.counters.redelivered += sum(map(IS_REDELIVERED, messages))
        if self._batch:
            if is_last or self._is_batch_complete(bool(messages), now):
                return self._begin_steps(now)
            return self._receive(now)
        if self._work is not None and self._work.due_s(now) == 0.0 and self._goal is BridgeState.RUNNING:
            return self._begin_steps(now)
        if self._ends_when_empty and not messages and not is_last:  # else more come after an acknowledgement
            self._goal = BridgeState.STOPPED
        return self._receive(now) if self._goal is BridgeState.RUNNING else self._disconnect()

    def _is_batch_complete(self, is_growing: bool, now: Time) -> bool:
        limits = self._definition.batch
        if len(self._batch) >= limits.size or self._batch_bytes >= MAX_BATCH_BYTES:
            return True
        if self._goal is not BridgeState.RUNNING or limits.quiet_ms is None or self._singly > 0:
            return True
        if self._work is not None and self._work.due_s(now) == 0.0:  # a group does not wait for the batch
            return True
        if limits.quiet_ms == FOREVER:
            return self._ends_when_empty and not is_growing
        return now.monotonic >= self._last_arrival + limits.quiet_ms / 1000

    def _begin_steps(self, now: Time) -> list[Action]:
        if self._work is not None:
            return self._begin_work(self._work, now)
        assert isinstance(self._definition, BridgeDefinition), "a route has its work"
        self._step = 0
        try:
            apply_steps(self._definition.steps, self._batch)
        except MessageAtFaultError as error:
            return self._refuse(error.index, str(error), now)
        return self._next_step(now)

    def _begin_work(self, work: RouteWork, now: Time, returned: Returned | None = None) -> list[Action]:
        try:
            if returned is None:
                work.begin(self._batch, now)
            else:
                work.returned(returned.answers, now)
        except MessageAtFaultError as error:
            return self._refuse(error.index, str(error), now)
        except TakenSinglyError:
            return self._take_singly()
        return self._next_step(now)

    def _take_singly(self) -> list[Action]:
        """Let the source deliver the batch again, one message at a time."""
        self._singly = len(self._batch)
        return self._disconnect()

    def _on_refused(self, event: Refused, now: Time) -> list[Action]:
        if self._work is None:
            return self._refuse(event.index, event.reason, now, event.is_prefix_stored)
        try:
            if self._work.refused(event.index, event.reason, event.is_prefix_stored):
                return self._next_step(now)
        except TakenSinglyError:
            return self._take_singly()
        if not self._batch:  # the message of a group, which is in the state alone
            return self._fail(Failed(event.reason), now)
        return self._refuse(0, event.reason, now)

    def _refuse(self, index: int, reason: str, now: Time, is_prefix_stored: bool = False) -> list[Action]:
        """Take out a message that can never be sent, so that it does not stop the bridge.

        An acknowledged message is lost, and the messages that the target has not stored are sent. Otherwise a message
        that is alone becomes a dead letter, and a batch returns to the source, to be sent one message at a time.
        """
        batch = self._batch
        self.last_error = f"message {batch[index].message_id}: {reason}"[:MAX_ERROR]
        if BatchStep.ACKNOWLEDGE in self._steps[: self._step]:
            logger.warning("bridge %s: %s; the message is lost", self.name, self.last_error)
            self.counters.perhaps_lost += 1
            stored = index if is_prefix_stored else 0
            self.counters.forwarded += stored
            del batch[index], batch[:stored]
            return [Send(batch)] if batch else self._on_batch_over(now)
        if len(batch) > 1:
            return self._take_singly()
        logger.warning("bridge %s: %s; the message becomes a dead letter", self.name, self.last_error)
        self.phase = Phase.DEAD_LETTERING
        return [DeadLetter(reason[:MAX_ERROR])]

    def _next_step(self, now: Time) -> list[Action]:
        if self._work is not None:
            action = self._work.next()
            if action is None:
                self.counters.dead_letters += self._work.finish()
                return self._on_batch_done(now) if self._batch else self._on_batch_over(now)
            self.phase = PHASES[type(action)]
            return [action]
        if self._step >= len(self._steps):
            return self._on_batch_done(now)
        step = self._steps[self._step]
        if step is BatchStep.SEND:
            self.phase = Phase.SENDING
            return [Send(self._batch)]
        if step is BatchStep.ACKNOWLEDGE:
            self.phase = Phase.ACKNOWLEDGING
            return [Acknowledge()]
        if step is BatchStep.PREPARE:
            self.phase = Phase.PREPARING
            return [Prepare()]
        if step is BatchStep.DECIDE:
            self.phase = Phase.DECIDING
            return [Decide(len(self._batch))]
        self.phase = Phase.COMMITTING
        return [Commit()]

    def _on_handed_over(self, now: Time) -> list[Action]:
        self._handed.append(self._batch)
        assert len(self._handed) < MAX_BATCHES, "a link completes one batch at a time"
        return self._next_batch(now)

    def _drop_handed(self) -> None:
        self.counters.aborted += sum(map(len, self._handed))
        self._handed.clear()

    def _on_batch_done(self, now: Time) -> list[Action]:
        self._count(self._batch, now)
        return self._on_batch_over(now)

    def _count(self, batch: list[BridgeMessage], now: Time) -> None:
        counters = self.counters
        counters.forwarded += len(batch)
        counters.batches += 1
        newest_ms = batch[-1].timestamp_ms
        counters.lag_ms = max(0, now.wall_ms - newest_ms) if newest_ms > 0 else 0

    def _on_batch_over(self, now: Time) -> list[Action]:
        self._retries.succeed()
        return self._next_batch(now)

    def _next_batch(self, now: Time) -> list[Action]:
        self._singly = max(0, self._singly - 1)
        self._batch = []
        self._batch_bytes = 0
        return self._receive(now) if self._goal is BridgeState.RUNNING else self._disconnect()

    def _fail(self, event: Failed, now: Time) -> list[Action]:
        self.counters.failures += 1
        if self._may_have_lost(event):
            self.counters.perhaps_lost += len(self._batch)
        self.last_error = event.reason[:MAX_ERROR]
        self._retries.fail(now.monotonic, self._connected_at)
        self.is_hopeless = self._retries.is_hopeless = event.is_permanent
        self._has_failed = True
        if self._retries.may_retry and self._goal is BridgeState.RUNNING:
            self._enter(BridgeState.RETRYING, now)
        return self._disconnect()

    def _may_have_lost(self, event: Failed) -> bool:
        """Return True if the source has, or may have, an acknowledgement of unsent messages."""
        if self._steps[:1] != (BatchStep.ACKNOWLEDGE,):
            return False
        return self.phase is Phase.SENDING or (self.phase is Phase.ACKNOWLEDGING and not event.is_without_effect)

    def _on_disconnected(self, reason: str, now: Time) -> list[Action]:
        has_failed, self._has_failed = self._has_failed, False
        if self._handed and not has_failed:
            self.counters.failures += 1
            self.last_error = reason[:MAX_ERROR]
        self._drop_handed()
        if self._goal is not BridgeState.RUNNING:
            return self._rest(self._goal, now)
        if not has_failed:  # started again during a pause, or a message of the batch was refused
            self._enter(BridgeState.STARTING, now)
            return self._connect()
        if not self._retries.may_retry:
            return self._rest(BridgeState.FAILED, now)
        self.phase = Phase.WAITING
        return [Wait(self._retries.pause_s)]

    def _on_interrupted(self, now: Time) -> list[Action]:
        if self.phase is Phase.WAITING:
            return self._connect() if self._goal is BridgeState.RUNNING else self._rest(self._goal, now)
        if self.phase is Phase.RECEIVING and self._goal is BridgeState.RUNNING:
            return self._receive(now)
        if self.phase is Phase.RECEIVING and self._batch:
            return self._begin_steps(now)
        return self._disconnect()

    def _rest(self, state: BridgeState, now: Time) -> list[Action]:
        self.phase = Phase.NONE
        self._enter(state, now)
        return []
