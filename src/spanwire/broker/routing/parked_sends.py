"""Sends that wait for room, for a limited time, and are reported.

Only the send waits, not the connection. Acknowledgements, rollbacks and keep-alives behind the send are still
processed, so that requests which free space never wait for requests which need space. Waiting sends are limited by
connection and over all connections. At a limit the broker stops reading from the connection, or refuses the send if
reading must go on. Sends of one connection keep their order.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final, Protocol

from spanwire.broker.connections.connection_state import MAX_PARKED_BYTES, ConnectionState, ParkedSend
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.destination_events import publish_full
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.routing.flow_control import DISK, MEMORY, ROOM, STORE, TOO_LARGE, TURN, FlowControl
from spanwire.model.errors import JmsError, ResourceAllocationError
from spanwire.model.message import Message

PARKED_SHARE: Final = 5  # percent of memoryUsage; waiting sends of all connections may take so much in addition
MAX_VISITS: Final = 64  # connections visited in one turn when there may be room again
MAX_VISIT_STEPS: Final = 1_000  # steps of their sends in one turn, as many as one connection's requests may take
ROOM_POLL_SECONDS: Final = 1.0  # seconds between two checks of the disk
NEVER: Final = 1e18  # monotonic seconds

logger = logging.getLogger(__name__)


class ParkedSender(Protocol):
    """Takes sends after a wait."""

    def go_on(self, state: ConnectionState, parked: ParkedSend) -> None:
        """Take and answer ``parked``, with room now."""
        ...


class ParkedSends:
    """Keeps the sends that wait; ``connections`` are those that wait, in the order of their turns.

    `FlowControl` decides about room, `MessageRouter` takes the messages.
    """

    def __init__(self, context: BrokerContext, destination_map: DestinationMap, flow: FlowControl) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self.flow: Final[FlowControl] = flow
        self._bytes = 0
        self._unvisited = 0
        self._due = NEVER
        self._warned: Final[dict[str, float]] = {}  # monotonic seconds of the last warning, by destination
        self.sender: ParkedSender | None = None
        self.connections: Final[deque[ConnectionState]] = deque()

    def park(
        self, state: ConnectionState, destination: BrokerDestination, message: Message, token: int, obstacle: int
    ) -> bool:
        """Let ``message`` wait for room.

        Returns:
            True if the client wants no answer.

        Raises:
            ResourceAllocationError: the message must not wait.
        """
        self._publish_full(state, destination, message, obstacle)
        if obstacle == TOO_LARGE:
            raise ResourceAllocationError(
                f"a message of {message.size} bytes to {destination.name} is larger than memoryUsage: send smaller "
                f"ones, send it persistent, or raise memoryUsage"
            )
        if self._fails_at_once(state, destination) and obstacle >= MEMORY and obstacle != TURN:
            raise ResourceAllocationError(self.flow.refusal(destination, message, obstacle))
        self._check_parked(state, destination, message)
        now = self._context.monotonic
        if not state.parked:
            self.connections.append(state)
        deadline = self._deadline(state, destination)
        state.parked.append(ParkedSend(destination, message, token, deadline, now))
        destination.blocked_sends += 1
        state.parked_bytes += message.size
        self._bytes += message.size
        self._due = min(self._due, deadline)
        if obstacle == DISK or obstacle == STORE:
            self._due = min(self._due, now + ROOM_POLL_SECONDS)
        if self._is_parking_full(state) and state.may_pause_reading():
            state.reading_paused = True
        if obstacle >= MEMORY and obstacle != TURN:
            self._warn(state, destination, message, obstacle)
        return token == NO_TOKEN

    def _publish_full(
        self, state: ConnectionState, destination: BrokerDestination, message: Message, obstacle: int
    ) -> None:
        advisories = self._context.advisories
        if advisories is not None and (obstacle == MEMORY or obstacle == TOO_LARGE):
            publish_full(advisories, destination, message, state.producers.get(str(message.producer_id)))

    def _fails_at_once(self, state: ConnectionState, destination: BrokerDestination) -> bool:
        if state.forwards:  # messages of another broker wait: the broker has no user to report to
            return False
        fails = destination.policy.send_fail_if_no_space
        return self.flow.limits.fail_if_no_space if fails is None else fails

    def _deadline(self, state: ConnectionState, destination: BrokerDestination) -> float:
        after_ms = destination.policy.send_fail_after_ms
        if after_ms < 0:
            after_ms = self.flow.limits.fail_after_ms
        return self._context.monotonic + after_ms / 1000 if after_ms > 0 and not state.forwards else NEVER

    def _is_parking_full(self, state: ConnectionState) -> bool:
        if state.forwards:  # the window of a bridge limits its sends, independent of others
            return state.parked_bytes >= self._most_bytes()
        return state.parked_bytes >= MAX_PARKED_BYTES or self._bytes >= self._most_bytes()

    def _most_bytes(self) -> int:
        """Return the bytes that waiting sends of all connections may take."""
        return max(self.flow.limits.memory_bytes * PARKED_SHARE // 100, MAX_PARKED_BYTES)

    def _check_parked(self, state: ConnectionState, destination: BrokerDestination, message: Message) -> None:
        if self._is_parking_full(state) and not state.may_pause_reading():
            raise ResourceAllocationError(
                f"{self.flow.refusal(destination, message, MEMORY)}. "
                f"{len(state.parked)} sends of this connection wait already; "
                f"consume from it, raise memoryUsage or slow the producer down"
            )

    def forget(self, state: ConnectionState) -> None:
        """Forget the waiting sends of a closed connection; no message of these sends was taken."""
        self._bytes -= state.parked_bytes
        state.parked.clear()
        state.parked_bytes = 0
        if state in self.connections:
            self.connections.remove(state)

    def unpark(self) -> None:
        """Let waiting sends continue, since there may be room: the oldest of each connection first.

        Connections take turns. After `MAX_VISITS` connections the rest is left to `run`.
        """
        self._unvisited = len(self.connections)
        self._visit()

    def _visit(self) -> None:
        end = self._context.steps + MAX_VISIT_STEPS
        for _ in range(MAX_VISITS):
            if self._unvisited <= 0 or not self.connections or self._context.steps >= end:
                break
            state = self.connections.popleft()
            self._resume(state, end)
            if self._context.steps < end or not state.parked:
                self._unvisited -= 1
            if state.parked:
                self.connections.append(state)
            self._read_on(state)
        if not self.connections:
            self._unvisited = 0
            self._due = NEVER
            self._warned.clear()

    def _resume(self, state: ConnectionState, end: int) -> None:
        """Let sends of a connection continue up to ``end`` steps of the broker."""
        sender = self.sender
        assert sender is not None
        while state.parked and self._context.steps < end and self._has_room_again(state, state.parked[0]):
            parked = state.parked.popleft()
            self._context.steps += 1
            self._drop(state, parked)
            sender.go_on(state, parked)

    def _drop(self, state: ConnectionState, parked: ParkedSend) -> None:
        state.parked_bytes -= parked.message.size
        self._bytes -= parked.message.size
        waited = self._context.monotonic - parked.since
        parked.destination.blocked_seconds += waited
        producer = state.producers.get(str(parked.message.producer_id))
        if producer is not None:
            producer.counts.blocked += 1
            producer.counts.blocked_seconds += waited

    def _read_on(self, state: ConnectionState) -> None:
        if not state.reading_paused or state.parked_bytes >= MAX_PARKED_BYTES:
            return
        if not state.parked or self._bytes < self._most_bytes():
            state.reading_paused = False
            state.output.mark_dirty()

    def _has_room_again(self, state: ConnectionState, parked: ParkedSend) -> bool:
        """Return True if all destinations of a waiting send have room.

        The destination that made the send wait may be the target of a virtual destination.
        """
        if not self.flow.takes_again(state, parked.destination, parked.message):
            return False
        for part in parked.message.destination.parts():
            for destination in self._map.matching(part):
                if not self.flow.takes_again(state, destination, parked.message):
                    return False
        return True

    def next_timeout(self) -> float | None:
        """Return the monotonic seconds at which to call `run`; 0.0 while connections wait for a turn."""
        if self._unvisited > 0:
            return 0.0
        return self._due if self._due < NEVER else None

    def run(self, worked: bool) -> None:
        """Refuse sends after too long a wait, ask the store again, and let sends with room continue.

        ``worked`` says that a job may have made room.
        """
        if not self.connections:
            return
        if self._due <= self._context.monotonic:
            self.flow.refresh()
            self._due = NEVER
            for state in list(self.connections):
                self._look_after(state)
            self._unvisited = len(self.connections)
        elif worked and self._unvisited <= 0:
            self._unvisited = len(self.connections)
        self._visit()

    def _look_after(self, state: ConnectionState) -> None:
        now = self._context.monotonic
        expired = [parked for parked in state.parked if parked.deadline <= now]
        if expired:
            in_time = [parked for parked in state.parked if parked.deadline > now]
            state.parked.clear()
            state.parked.extend(in_time)
            for parked in expired:
                self._drop(state, parked)
                text = self.flow.refusal(parked.destination, parked.message, self._reason(parked), late=True)
                send_reply(state, parked.token, ResourceAllocationError(text))
        for parked in state.parked:
            self._due = min(self._due, parked.deadline)
        if state.parked:
            first = state.parked[0]
            obstacle = self.flow.obstacle(first.destination, first.message)
            if obstacle == DISK or obstacle == STORE:
                self._due = min(self._due, now + ROOM_POLL_SECONDS)
            if MEMORY <= obstacle <= DISK:
                self._warn(state, first.destination, first.message, obstacle)

    def _reason(self, parked: ParkedSend) -> int:
        reason = self.flow.obstacle(parked.destination, parked.message)
        return MEMORY if reason == ROOM else reason

    def _warn(self, state: ConnectionState, destination: BrokerDestination, message: Message, obstacle: int) -> None:
        """Log a warning, once for each destination and interval."""
        interval = destination.policy.blocked_producer_warning_interval_ms / 1000
        if interval <= 0:
            return
        now = self._context.monotonic
        name = destination.name.qualified_name
        last = self._warned.get(name)
        if last is None or last + interval <= now:
            self._warned[name] = last = now
            logger.warning(
                "producer flow control: sends to %s wait: %s; waiting sends of connection %s from %s: %d; connections "
                "with waiting sends: %d; consume messages or make room",
                name,
                self.flow.limit_text(destination, message, obstacle),
                state.connection_id,
                state.info.remote_address,
                len(state.parked),
                len(self.connections),
            )
        self._due = min(self._due, last + interval)


def send_reply(state: ConnectionState, token: int, error: JmsError | None) -> None:
    """Send a withheld answer. A request without a wish for an answer gets a refusal all the same."""
    if token != NO_TOKEN or error is not None:
        state.output.connection.on_completed(token, error)
        state.output.mark_dirty()
