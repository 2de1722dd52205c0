"""Producer flow control: sends without room wait, for a limited time, and are reported.

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
from spanwire.broker.dispatch.memory_usage import RESUME_SHARE, MemoryUsage, UsageLimits
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import QUEUE, SCHEDULE, SUBSCRIPTION
from spanwire.model.errors import JmsError, ResourceAllocationError
from spanwire.model.message import Message

PARKED_SHARE: Final = 5  # percent of memoryUsage; waiting sends of all connections may take so much in addition
MAX_VISITS: Final = 64  # connections visited in one turn when there may be room again
MAX_VISIT_STEPS: Final = 1_000  # steps of their sends in one turn, as many as one connection's requests may take
ROOM_POLL_SECONDS: Final = 1.0  # seconds between two checks of the disk
NEVER: Final = 1e18  # monotonic seconds
ADVICE: Final = "See http://activemq.apache.org/producer-flow-control.html for more info"  # clients know this text

# reasons for a send to wait
ROOM: Final = 0  # no reason to wait
BEHIND: Final = 1  # the disk is too far behind
MEMORY: Final = 2
STORE: Final = 3  # the store's files have reached their limit
DISK: Final = 4  # the disk itself is full
TURN: Final = 5  # earlier sends of the connection wait
TOO_LARGE: Final = 6  # the message would not fit into empty memory

logger = logging.getLogger(__name__)


class ParkedSender(Protocol):
    """Takes sends after a wait."""

    def go_on(self, state: ConnectionState, parked: ParkedSend) -> None:
        """Take and answer ``parked``, with room now."""
        ...


class FlowControl:
    """Decides about room for messages, and keeps the sends that wait for room.

    Counting is left to `MemoryUsage`, `UnsyncedBytes` and the store; `MessageRouter` takes the messages.
    """

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        limits: UsageLimits,
        lowest_store_mark: int,
        unsynced: UnsyncedBytes,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._has_store: Final[bool] = context.store is not None
        self._map: Final[DestinationMap] = destination_map
        self.limits: UsageLimits = limits
        self._max_parked_bytes = parked_bytes_of(limits)
        self._lowest_store_mark = lowest_store_mark
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._parked_bytes = 0
        self._unvisited = 0
        self._due = NEVER
        self._warned: Final[dict[str, float]] = {}  # monotonic seconds of the last warning, by destination
        self._has_disk_room = True
        self._store_bytes = 0
        self._store_is_tight = False
        self.sender: ParkedSender | None = None
        self.parked: Final[deque[ConnectionState]] = deque()
        self.refresh()

    def use_limits(self, limits: UsageLimits) -> None:
        """Replace the limits of memory and disk."""
        self.limits = limits
        self._max_parked_bytes = parked_bytes_of(limits)
        self.refresh()

    def use_store_mark(self, lowest: int) -> None:
        """Set the lowest store mark of all policies, in percent of the store's limit."""
        self._lowest_store_mark = lowest

    def obstacle(self, destination: BrokerDestination, message: Message) -> int:
        """Return the reason for ``message`` to wait, `ROOM` if there is no obstacle."""
        return self.obstacle_before(destination, message, self._has_store and destination.persists(message))

    def obstacle_before(self, destination: BrokerDestination, message: Message, is_stored: bool) -> int:
        """Return `obstacle` for a message that the store gets if ``is_stored``."""
        if is_stored:
            if self._store_is_tight or self._unsynced.is_full():
                return self._store_obstacle(destination)
            return ROOM
        if destination.evicts and destination.has_takers():
            if destination.lags:
                return BEHIND  # slow consumers have to lose messages for others before
            if self._unsynced.is_full() and destination.policy.dead_letter.target(destination.name) is not None:
                return BEHIND  # slow consumers would lose messages for it, and each leaves a dead letter
        if destination.usage.takes(message.size) or not destination.has_takers():
            return ROOM
        return self._memory_obstacle(destination, message)

    def _store_obstacle(self, destination: BrokerDestination) -> int:
        if not self._has_disk_room:
            return DISK
        limit = self.limits.store_bytes
        if limit > 0 and self._store_bytes * 100 >= limit * destination.policy.store_usage_high_water_mark:
            return STORE
        return BEHIND if self._unsynced.is_full() else ROOM

    def has_reserve(self, state: ConnectionState, destination: BrokerDestination, message: Message) -> bool:
        """Return True if another broker forwards ``message`` and the reserve for such messages has room."""
        return state.forwards and destination.usage.takes_forwarded(len(message.broker_path))

    def _memory_obstacle(self, destination: BrokerDestination, message: Message) -> int:
        freed = destination.replaced_bytes(message)
        if freed > 0 and (freed >= message.size or destination.usage.takes(message.size - freed)):
            return ROOM
        if not destination.policy.producer_flow_control:
            advisories = self._context.advisories
            if advisories is not None:
                publish_full(advisories, destination, message, None)
            if self.may_spill(destination):
                return ROOM
            whole = destination.usage.parent
            if whole is not None and whole.takes(message.size):
                return ROOM
            if destination.make_room(message.size):
                return ROOM
        return MEMORY if destination.usage.takes_ever(message.size) else TOO_LARGE

    def spills(self, destination: BrokerDestination) -> bool:
        """Return True if non-persistent messages of ``destination`` go to the store now.

        Memory is above the high-water mark, and the queue is without flow control.
        """
        return destination.usage.is_above(destination.policy.cursor_memory_high_water_mark) and self.may_spill(
            destination
        )

    def may_spill(self, destination: BrokerDestination) -> bool:
        """Return True if the store takes non-persistent messages of ``destination``."""
        if not self._has_store or not keeps_messages(destination):
            return False
        limit = self.limits.temporary_bytes
        if limit > 0 and self._store_bytes >= limit:
            return False
        return self._store_obstacle(destination) == ROOM

    def check_transacted(self, destination: BrokerDestination, message: Message) -> None:
        """Check that a transaction can hold ``message``.

        Such a send cannot wait: the commit would wait behind the send.

        Raises:
            ResourceAllocationError: there is no room.
        """
        stored = self._has_store and destination.persists(message)
        reason = MEMORY
        if self.usage_in_transaction(destination, message).takes(message.size):
            if not stored or not self._store_is_tight:
                return
            reason = self._store_obstacle(destination)
            if reason == ROOM or reason == BEHIND:
                return
        advisories = self._context.advisories
        if advisories is not None and reason == MEMORY:
            publish_full(advisories, destination, message, None)
        raise ResourceAllocationError(
            f"{self._refusal(destination, message, reason)}. "
            "The transaction cannot hold more; commit smaller ones, raise the "
            f"limit or consume faster"
        )

    def usage_in_transaction(self, destination: BrokerDestination, message: Message) -> MemoryUsage:
        """Return the memory usage that counts ``message`` while a transaction holds the message.

        The limit of the destination does not apply to messages for the store, nor without flow control.
        """
        whole = destination.usage.parent
        if whole is None or (destination.policy.producer_flow_control and not (message.persistent and self._has_store)):
            return destination.usage
        return whole

    def check_commit(self, destination: BrokerDestination, message: Message) -> None:
        """Raise `ResourceAllocationError` if the store has no room for a message of a transaction."""
        if self._store_is_tight and destination.persists(message):
            reason = self._store_obstacle(destination)
            if reason == DISK or reason == STORE:
                raise ResourceAllocationError(self._refusal(destination, message, reason))

    def refresh(self) -> None:
        """Ask the store for the size."""
        limit = self.limits.store_bytes
        usage = self._context.store_usage
        self._store_bytes = usage.used_bytes()
        self._has_disk_room = usage.has_room()
        full = limit > 0 and self._store_bytes * 100 >= limit * self._lowest_store_mark
        self._store_is_tight = full or not self._has_disk_room

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
            raise ResourceAllocationError(self._refusal(destination, message, obstacle))
        self._check_parked(state, destination, message)
        now = self._context.monotonic
        if not state.parked:
            self.parked.append(state)
        deadline = self._deadline(state, destination)
        state.parked.append(ParkedSend(destination, message, token, deadline, now))
        destination.blocked_sends += 1
        state.parked_bytes += message.size
        self._parked_bytes += message.size
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
        return self.limits.fail_if_no_space if fails is None else fails

    def _deadline(self, state: ConnectionState, destination: BrokerDestination) -> float:
        after_ms = destination.policy.send_fail_after_ms
        if after_ms < 0:
            after_ms = self.limits.fail_after_ms
        return self._context.monotonic + after_ms / 1000 if after_ms > 0 and not state.forwards else NEVER

    def _is_parking_full(self, state: ConnectionState) -> bool:
        if state.forwards:  # the window of a bridge limits its sends, independent of others
            return state.parked_bytes >= self._max_parked_bytes
        return state.parked_bytes >= MAX_PARKED_BYTES or self._parked_bytes >= self._max_parked_bytes

    def _check_parked(self, state: ConnectionState, destination: BrokerDestination, message: Message) -> None:
        if self._is_parking_full(state) and not state.may_pause_reading():
            raise ResourceAllocationError(
                f"{self._refusal(destination, message, MEMORY)}. "
                f"{len(state.parked)} sends of this connection wait already; "
                f"consume from it, raise memoryUsage or slow the producer down"
            )

    def forget(self, state: ConnectionState) -> None:
        """Forget the waiting sends of a closed connection; no message of these sends was taken."""
        self._parked_bytes -= state.parked_bytes
        state.parked.clear()
        state.parked_bytes = 0
        if state in self.parked:
            self.parked.remove(state)

    def unpark(self) -> None:
        """Let waiting sends continue, since there may be room: the oldest of each connection first.

        Connections take turns. After `MAX_VISITS` connections the rest is left to `run`.
        """
        self._unvisited = len(self.parked)
        self._visit()

    def _visit(self) -> None:
        end = self._context.steps + MAX_VISIT_STEPS
        for _ in range(MAX_VISITS):
            if self._unvisited <= 0 or not self.parked or self._context.steps >= end:
                break
            state = self.parked.popleft()
            self._resume(state, end)
            if self._context.steps < end or not state.parked:
                self._unvisited -= 1
            if state.parked:
                self.parked.append(state)
            self._read_on(state)
        if not self.parked:
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
        self._parked_bytes -= parked.message.size
        waited = self._context.monotonic - parked.since
        parked.destination.blocked_seconds += waited
        producer = state.producers.get(str(parked.message.producer_id))
        if producer is not None:
            producer.counts.blocked += 1
            producer.counts.blocked_seconds += waited

    def _read_on(self, state: ConnectionState) -> None:
        if not state.reading_paused or state.parked_bytes >= MAX_PARKED_BYTES:
            return
        if not state.parked or self._parked_bytes < self._max_parked_bytes:
            state.reading_paused = False
            state.output.mark_dirty()

    def _has_room_again(self, state: ConnectionState, parked: ParkedSend) -> bool:
        """Return True if all destinations of a waiting send have room.

        The destination that made the send wait may be the target of a virtual destination.
        """
        if not self._takes_again(state, parked.destination, parked.message):
            return False
        for part in parked.message.destination.parts():
            for destination in self._map.matching(part):
                if not self._takes_again(state, destination, parked.message):
                    return False
        return True

    def _takes_again(self, state: ConnectionState, destination: BrokerDestination, message: Message) -> bool:
        """Return True if ``destination`` takes a message again.

        Full memory stays full until `RESUME_SHARE` is reached (hysteresis).
        """
        if destination.removed:
            return True
        obstacle = self.obstacle(destination, message)
        if (obstacle == ROOM or obstacle == MEMORY) and self.has_reserve(state, destination, message):
            return True
        if obstacle != ROOM and obstacle != TOO_LARGE:  # TOO_LARGE did not hold at the time of the send
            return False
        return not (self._needs_memory(destination, message) and destination.usage.is_above(RESUME_SHARE))

    def _needs_memory(self, destination: BrokerDestination, message: Message) -> bool:
        """Return True if ``message`` will stay in memory.

        The store does not take the message, and a subscription needs the copy.
        """
        if isinstance(destination, Topic):
            return destination.has_takers()
        if not destination.policy.producer_flow_control:
            return False
        return not (self._has_store and destination.persists(message))

    def next_timeout(self) -> float | None:
        """Return the monotonic seconds at which to call `run`; 0.0 while connections wait for a turn."""
        if self._unvisited > 0:
            return 0.0
        return self._due if self._due < NEVER else None

    def run(self, worked: bool) -> None:
        """Refuse sends after too long a wait, ask the store again, and let sends with room continue.

        ``worked`` says that a job may have made room.
        """
        if not self.parked:
            return
        if self._due <= self._context.monotonic:
            self.refresh()
            self._due = NEVER
            for state in list(self.parked):
                self._look_after(state)
            self._unvisited = len(self.parked)
        elif worked and self._unvisited <= 0:
            self._unvisited = len(self.parked)
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
                text = self._refusal(parked.destination, parked.message, self._reason(parked), late=True)
                send_reply(state, parked.token, ResourceAllocationError(text))
        for parked in state.parked:
            self._due = min(self._due, parked.deadline)
        if state.parked:
            first = state.parked[0]
            obstacle = self.obstacle(first.destination, first.message)
            if obstacle == DISK or obstacle == STORE:
                self._due = min(self._due, now + ROOM_POLL_SECONDS)
            if MEMORY <= obstacle <= DISK:
                self._warn(state, first.destination, first.message, obstacle)

    def _reason(self, parked: ParkedSend) -> int:
        reason = self.obstacle(parked.destination, parked.message)
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
                self.limit_text(destination, message, obstacle),
                state.connection_id,
                state.info.remote_address,
                len(state.parked),
                len(self.parked),
            )
        self._due = min(self._due, last + interval)

    def limit_text(self, destination: BrokerDestination, message: Message, obstacle: int) -> str:
        """Describe the reached limit."""
        if obstacle == DISK:
            return "the disk of the store has no room"
        if obstacle == STORE:
            percent = destination.policy.store_usage_high_water_mark
            return f"{percent} % of storeUsage, {self.limits.store_bytes} bytes, are in use"
        level = destination.usage.full_level(message.size)
        name = "memoryUsage" if level.parent is None else "memoryLimit"
        return f"{name} of {level.limit_bytes} bytes is reached"

    def _refusal(self, destination: BrokerDestination, message: Message, obstacle: int, late: bool = False) -> str:
        """Return the text of a refusal, in ActiveMQ's words."""
        if obstacle == DISK:
            what = "Persistent store is Full, the disk has no room"
        elif obstacle == STORE:
            percent = destination.policy.store_usage_high_water_mark
            what = f"Persistent store is Full, {percent}% of {self.limits.store_bytes}"
        elif late:
            what = "Usage Manager Memory Limit Wait Timeout"
        else:
            return f"Usage Manager Memory Limit reached on {destination.name}. {ADVICE}"
        producer = message.producer_id
        return f"{what}. Stopping producer ({producer}) to prevent flooding {destination.name}. {ADVICE}"


def parked_bytes_of(limits: UsageLimits) -> int:
    """Return the bytes that waiting sends of all connections may take."""
    return max(limits.memory_bytes * PARKED_SHARE // 100, MAX_PARKED_BYTES)


def keeps_messages(destination: BrokerDestination) -> bool:
    """Return True if the store keeps messages of ``destination``.

    Such a destination is a queue, a durable subscription or the scheduler.
    """
    kind = destination.name.kind
    return kind == QUEUE or kind == SUBSCRIPTION or kind == SCHEDULE


def send_reply(state: ConnectionState, token: int, error: JmsError | None) -> None:
    """Send a withheld answer. A request without a wish for an answer gets a refusal all the same."""
    if token != NO_TOKEN or error is not None:
        state.output.connection.on_completed(token, error)
        state.output.mark_dirty()
