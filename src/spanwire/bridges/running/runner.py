"""Runs one bridge in a task: performs the actions of the state machine."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from spanwire.bridges.engine.counters import BridgeStatus
from spanwire.bridges.engine.dialogue import (
    Acknowledge,
    Acknowledged,
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
    Decided,
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
    Kept,
    Pause,
    Prepare,
    Prepared,
    Receive,
    Received,
    Recover,
    Recovered,
    Refused,
    Returned,
    Send,
    Sent,
    Start,
    Stop,
    Wait,
)
from spanwire.bridges.engine.machine import BridgeMachine
from spanwire.bridges.engine.states import BridgeState, Phase
from spanwire.bridges.ports import MessageRefusedError, PartlySentError, WindowedSource, WrongConnectionError
from spanwire.bridges.running.following import MessageSteps
from spanwire.bridges.running.links import Link, PairLink
from spanwire.bridges.running.route_link import RouteLink
from spanwire.bridges.running.tracing import BridgeNotes, RouteNotes
from spanwire.bridges.uncancelled import to_its_end
from spanwire.bridges.xa.xa_link import XaLink
from spanwire.model.environment import Time
from spanwire.model.errors import SpanwireError
from spanwire.model.text import escaped

ENDED: Final = (BridgeState.STOPPED, BridgeState.FAILED)
MAX_REASON: Final = 500  # characters of an unexpected error

logger = logging.getLogger(__name__)


class BridgeRunner:
    """Performs the actions of a `BridgeMachine` over the links from ``open_link``.

    ``on_change`` is called after each change of the state, and of the error while the bridge tries again.
    """

    def __init__(
        self,
        machine: BridgeMachine,
        open_link: Callable[[], Awaitable[Link]],
        clock: Callable[[], Time],
        on_change: Callable[[BridgeMachine], None],
        notes: BridgeNotes | RouteNotes | None = None,
        steps: MessageSteps | None = None,
    ) -> None:
        """``notes`` belong to a tracing process, ``steps`` to the process of a broker."""
        self.machine: Final[BridgeMachine] = machine
        self._open_link: Final = open_link
        self._clock: Final = clock
        self._on_change: Final = on_change
        self._notes: Final = notes
        self._steps: Final = steps
        self._state = machine.state
        self._error: str | None = None  # the last one that `on_change` has seen
        self._link: Link | None = None
        self._next: Action | None = None
        self._waiting: asyncio.Task[Event] | None = None  # a connect, receive or wait that may be interrupted
        self._wake: Final = asyncio.Event()

    @property
    def name(self) -> str:
        """Return the name of the bridge."""
        return self.machine.name

    def status(self) -> BridgeStatus:
        """Return state and counters."""
        return self.machine.status()

    async def run(self) -> None:
        """Start the bridge, and return after a stop or the final failure, even a defect of the bridge."""
        self._command(Start())
        try:
            await self._perform_all()
        except Exception as error:  # noqa: BLE001 - a defect: no end of the other bridges
            self._break_down(error)
        finally:
            await self._close()

    async def _perform_all(self) -> None:
        while True:
            action, self._next = self._next, None
            if action is not None:
                self._on_event(action, await self._event_of(action))
            elif self.machine.state in ENDED:
                return
            else:
                self._wake.clear()
                await self._wake.wait()

    def _on_event(self, action: Action, event: Event) -> None:
        if self._notes is not None:
            self._notes.on_event(action, event)
        if self._steps is not None:
            self._steps.on_event(action, event, self._link)
        if not self.machine.is_broken:
            self._take(event)

    def _on_completed(self) -> None:
        """Take the completion of a batch that the link has completed behind the actions."""
        try:
            self._on_event(Acknowledge(), Completed())
        except Exception as error:  # noqa: BLE001 - a defect: no end of the other bridges
            self._break_down(error)
            self._wake.set()

    def start(self) -> None:
        """Resume a paused bridge."""
        self._command(Start())

    def pause(self) -> None:
        """Complete the batch and close the connections until `start`."""
        self._command(Pause())

    def stop(self) -> None:
        """Complete the batch and end `run`."""
        self._command(Stop())

    def _command(self, command: Start | Pause | Stop) -> None:
        try:
            self._take(command)
        except Exception as error:  # noqa: BLE001 - a defect: no end of the other bridges
            self._break_down(error)
        self._wake.set()

    def _break_down(self, error: Exception) -> None:
        """Let the bridge fail at a defect. What the source has not been told stays there."""
        self._next = None
        if self._waiting is not None:
            self._waiting.cancel()
        self.machine.break_down(self._reported(error, f"state {self.machine.phase.value}"), self._clock())
        self._state = self.machine.state
        self._on_change(self.machine)

    def _reported(self, error: Exception, place: str) -> str:
        """Log an error of a library, or a defect. Returns the text."""
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {escaped(str(error))[:MAX_REASON]}"
        logger.error(
            "bridge %s: unexpected error in %s: %s (%s:%d); please report it",
            self.machine.name,
            place,
            reason,
            Path(where.filename).name,
            where.lineno or 0,
        )
        return reason

    def _take(self, event: Event) -> None:
        for action in self.machine.handle(event, self._clock()):
            if not isinstance(action, Interrupt):
                self._next = action
            elif self._waiting is not None:
                self._waiting.cancel()
        state, error = self.machine.state, self.machine.last_error
        if state is not self._state or (self.machine.phase is Phase.WAITING and error != self._error):
            self._state, self._error = state, error
            self._on_change(self.machine)

    async def _event_of(self, action: Action) -> Event:
        if not isinstance(action, (Connect, Receive, Hold, Wait)):
            return await self._perform(action)
        task = asyncio.create_task(self._perform(action))
        self._waiting = task
        try:
            await asyncio.wait((task,))
        finally:
            self._waiting = None
            task.cancel()
        return Interrupted() if task.cancelled() else task.result()

    async def _perform(self, action: Action) -> Event:
        try:
            if isinstance(action, Connect):
                self._link = link = await self._open_link()
                return Connected(link.state if isinstance(link, RouteLink) else None)
            if isinstance(action, (Wait, Hold)):
                await asyncio.sleep(action.seconds)
                return Elapsed()
            if isinstance(action, Disconnect):
                return Disconnected(await self._close())
            return await self._use(action)
        except SpanwireError as error:
            if self._notes is not None:
                self._notes.failed(type(error).__name__)
            return Failed(str(error), is_permanent=isinstance(error, WrongConnectionError))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody has cancelled this task: a library gave up a request, and the bridge must not end with it.
            reason = f"{type(action).__name__} was given up by the library of the connection"
            return Disconnected(reason) if isinstance(action, Disconnect) else Failed(reason)
        except Exception as error:  # noqa: BLE001 - of a library, or a defect: no end of the other bridges
            reason = self._reported(error, type(action).__name__)
            if self._notes is not None:
                self._notes.failed(type(error).__name__)
            return Failed(reason)

    async def _use(self, action: Action) -> Event:
        """Perform an action on the link."""
        link = self._link
        assert link is not None, f"{type(action).__name__} without a link"
        if isinstance(action, Receive):
            messages = await link.receive(action.max_messages, action.max_bytes, action.wait_s)
            if not messages:
                link.check()
            return Received(messages, isinstance(link, WindowedSource) and link.is_exhausted())
        if isinstance(action, Acknowledge):
            return await _acknowledge(link, self._on_completed)
        if isinstance(action, Send):
            return await _send(link, action)
        if isinstance(action, CallFunctions):
            assert isinstance(link, RouteLink), "routes alone call functions"
            return Returned(await link.call(action.calls))
        if isinstance(action, Keep):
            assert isinstance(link, RouteLink), "routes alone have a state"
            await link.keep(action.changes)
            return Kept()
        if isinstance(action, DeadLetter):
            await link.dead_letter(action.cause)
            return DeadLettered()
        if isinstance(link, XaLink):
            return await _use_branches(link, action)
        assert isinstance(action, Commit), action
        await link.commit()
        return Committed()

    async def _close(self) -> str:
        """Close the link. Returns why the link could not complete the batch that was handed over, if so.

        A cancelled call closes the whole link, too: an open source would keep its messages from all other consumers.
        """
        link, self._link = self._link, None
        if link is None:
            return ""
        await to_its_end(self._close_all(link))
        return link.incomplete if isinstance(link, PairLink) else ""

    async def _close_all(self, link: Link) -> None:
        try:
            await link.close()
        except Exception as error:  # noqa: BLE001 - of a library, or a defect; the link is not used again
            self._reported(error, "close")


async def _send(link: Link, action: Send) -> Event:
    try:
        if isinstance(link, RouteLink):
            await link.send_to(action.target, action.messages)
        else:
            await link.send(action.messages)
    except MessageRefusedError as error:
        return Refused(error.index, str(error), isinstance(error, PartlySentError))
    return Sent(not (isinstance(link, PairLink) and link.is_handed_over))


async def _acknowledge(link: Link, on_completed: Callable[[], None]) -> Event:
    try:
        link.check()
    except SpanwireError as error:  # with AT_MOST_ONCE a target that is known to be lost must lose no batch
        return Failed(str(error), is_without_effect=True)
    if isinstance(link, PairLink) and link.is_handed_over:
        link.hand_over(on_completed)
        return HandedOver()
    await link.acknowledge()
    return Acknowledged()


async def _use_branches(link: XaLink, action: Action) -> Event:
    """Perform an action of a distributed transaction."""
    if isinstance(action, Recover):
        messages, problems = await link.recover()
        return Recovered(messages, tuple(problems))
    if isinstance(action, Prepare):
        await link.prepare()
        return Prepared()
    if isinstance(action, Decide):
        await link.decide(action.messages)
        return Decided()
    assert isinstance(action, Commit), action
    return Committed(tuple(await link.complete()))
