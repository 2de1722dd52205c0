"""Producer flow control: which sends have to wait for room, how long, and who is told.

A send waits, its connection goes on: acknowledgements, rollbacks and keep-alives behind it are still processed, so that
what frees space is never stuck behind what needs it. What waits is bounded by connection and over all connections;
where the bound is reached the broker stops reading from the connection, or refuses the send if it must go on reading.
Sends of one connection go on in their order.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final, Protocol

from spanwire.broker.connections.connection_state import MAX_PARKED_BYTES, ConnectionState, ParkedSend
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination_events import tell_full
from spanwire.broker.dispatch.memory_usage import RESUME_SHARE, MemoryUsage, UsageLimits
from spanwire.broker.dispatch.message_reference import BrokerDestination
from spanwire.broker.persistence.unsynced_bytes import Unstored
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import QUEUE, SCHEDULE, SUBSCRIPTION
from spanwire.model.errors import JmsError, ResourceAllocationError
from spanwire.model.message import Message

PARKED_SHARE: Final = 5  # percent of memoryUsage that the waiting sends of all connections may take on top of it
MAX_VISITS: Final = 64  # connections looked at in one go when there may be room again
ROOM_POLL_SECONDS: Final = 1.0  # between two questions whether the disk has room again
NEVER: Final = 1e18  # monotonic seconds
ADVICE: Final = "See http://activemq.apache.org/producer-flow-control.html for more info"  # as clients know it

# why a send has to wait
ROOM: Final = 0  # it has not
BEHIND: Final = 1  # the disk is too far behind
MEMORY: Final = 2
STORE: Final = 3  # the store's files have reached their limit
DISK: Final = 4  # the disk itself is full
TURN: Final = 5  # other sends of its connection wait already
TOO_LARGE: Final = 6  # it would not fit into memory if there were nothing else

logger = logging.getLogger(__name__)


class ParkedSender(Protocol):
    """Who takes sends that have waited."""

    def go_on(self, state: ConnectionState, parked: ParkedSend) -> None:
        """There is room for ``parked``: take it and answer it."""
        ...


class FlowControl:
    """Decides whether there is room for a message, and keeps the sends that wait for some.

    Counting is left to `MemoryUsage`, `Unstored` and the store; taking a message in to `Sending`.
    """

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        limits: UsageLimits,
        lowest_store_mark: int,
        unstored: Unstored,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._has_store: Final[bool] = context.store is not None
        self._map: Final[DestinationMap] = destination_map
        self._limits: Final[UsageLimits] = limits
        self._lowest_store_mark = lowest_store_mark
        self._unstored: Final[Unstored] = unstored
        self._max_parked_bytes: Final[int] = max(limits.memory_bytes * PARKED_SHARE // 100, MAX_PARKED_BYTES)
        self._parked_bytes = 0
        self._unvisited = 0
        self._due = NEVER
        self._warned: Final[dict[str, float]] = {}  # of the destinations that sends wait for: when it was last told
        self._has_disk_room = True
        self._store_bytes = 0
        self._store_is_tight = False
        self.sender: ParkedSender | None = None
        self.parked: Final[deque[ConnectionState]] = deque()
        self.refresh()

    def use_store_mark(self, lowest: int) -> None:
        """The lowest mark of all policies, in percent of the store's limit, has changed."""
        self._lowest_store_mark = lowest

    def obstacle(self, home: BrokerDestination, message: Message) -> int:
        """Why ``message`` cannot be taken now; `ROOM` if it can."""
        if self._has_store and goes_to_store(home, message):
            if self._store_is_tight or self._unstored.is_full():
                return self._store_obstacle(home)
            return ROOM
        if home.usage.takes(message.size) or (isinstance(home, Topic) and not home.subscriptions):
            return ROOM
        return self._memory_obstacle(home, message)

    def _store_obstacle(self, home: BrokerDestination) -> int:
        if not self._has_disk_room:
            return DISK
        limit = self._limits.store_bytes
        if limit > 0 and self._store_bytes * 100 >= limit * home.policy.store_usage_high_water_mark:
            return STORE
        return BEHIND if self._unstored.is_full() else ROOM

    def has_reserve(self, state: ConnectionState, home: BrokerDestination, message: Message) -> bool:
        """Whether ``message`` is taken all the same that has to wait for memory, since another broker forwards it."""
        return state.forwards and home.usage.takes_forwarded(len(message.broker_path))

    def _memory_obstacle(self, home: BrokerDestination, message: Message) -> int:
        if not home.policy.producer_flow_control:
            news = self._context.news
            if news is not None:
                tell_full(news, home, message, None)
            if self.may_spill(home):
                return ROOM
            whole = home.usage.parent
            if whole is not None and whole.takes(message.size):
                return ROOM
            if isinstance(home, Topic) and home.make_room(message.size):
                return ROOM
        return MEMORY if home.usage.takes_ever(message.size) else TOO_LARGE

    def spills(self, home: BrokerDestination) -> bool:
        """Whether a message that is not persistent goes to the store, since there is little memory left for it and its
        queue is without flow control.
        """
        return home.usage.is_above(home.policy.cursor_memory_high_water_mark) and self.may_spill(home)

    def may_spill(self, home: BrokerDestination) -> bool:
        """Whether the store takes messages of ``home`` that are not persistent."""
        if not self._has_store or not keeps_messages(home):
            return False
        limit = self._limits.temporary_bytes
        if limit > 0 and self._store_bytes >= limit:
            return False
        return self._store_obstacle(home) == ROOM

    def check_transacted(self, home: BrokerDestination, message: Message) -> None:
        """Raises `ResourceAllocationError` when a transaction cannot hold ``message``. It cannot wait for room: the
        commit would have to wait behind it.
        """
        stored = self._has_store and goes_to_store(home, message)
        reason = MEMORY
        if self.usage_in_transaction(home, message).takes(message.size):
            if not stored or not self._store_is_tight:
                return
            reason = self._store_obstacle(home)
            if reason == ROOM or reason == BEHIND:
                return
        news = self._context.news
        if news is not None and reason == MEMORY:
            tell_full(news, home, message, None)
        raise ResourceAllocationError(
            f"{self._refusal(home, message, reason)}. The transaction cannot hold more; commit smaller ones, raise the "
            f"limit or consume faster"
        )

    def usage_in_transaction(self, home: BrokerDestination, message: Message) -> MemoryUsage:
        """Where ``message`` counts while a transaction holds it: its destination's limit is no matter for what the
        store will have, or without flow control.
        """
        whole = home.usage.parent
        if whole is None or (home.policy.producer_flow_control and not (message.persistent and self._has_store)):
            return home.usage
        return whole

    def check_commit(self, home: BrokerDestination, message: Message) -> None:
        """Raises `ResourceAllocationError` when the store has no room for a message of a transaction."""
        if self._store_is_tight and goes_to_store(home, message):
            reason = self._store_obstacle(home)
            if reason == DISK or reason == STORE:
                raise ResourceAllocationError(self._refusal(home, message, reason))

    def refresh(self) -> None:
        """Ask the store how large it is."""
        store = self._context.store
        if store is None:
            return
        limit = self._limits.store_bytes
        self._store_bytes = store.used_bytes()
        self._has_disk_room = store.has_room()
        full = limit > 0 and self._store_bytes * 100 >= limit * self._lowest_store_mark
        self._store_is_tight = full or not self._has_disk_room

    def park(
        self, state: ConnectionState, home: BrokerDestination, message: Message, token: int, obstacle: int
    ) -> bool:
        """Let ``message`` wait; True when nobody wants an answer. Raises `ResourceAllocationError` when it may not."""
        self._tell_full(state, home, message, obstacle)
        if obstacle == TOO_LARGE:
            raise ResourceAllocationError(
                f"a message of {message.size} bytes to {home.destination} is larger than memoryUsage: send smaller "
                f"ones, send it persistent, or raise memoryUsage"
            )
        if self._fails_at_once(state, home) and obstacle >= MEMORY and obstacle != TURN:
            raise ResourceAllocationError(self._refusal(home, message, obstacle))
        self._check_parked(state, home, message)
        now = self._context.monotonic
        if not state.parked:
            self.parked.append(state)
        deadline = self._deadline(state, home)
        state.parked.append(ParkedSend(home, message, token, deadline))
        state.parked_bytes += message.size
        self._parked_bytes += message.size
        self._due = min(self._due, deadline)
        if obstacle == DISK or obstacle == STORE:
            self._due = min(self._due, now + ROOM_POLL_SECONDS)
        if self._is_parking_full(state) and state.may_pause_reading():
            state.reading_paused = True
        if obstacle >= MEMORY and obstacle != TURN:
            self._warn(state, home, message, obstacle)
        return token == NO_TOKEN

    def _tell_full(self, state: ConnectionState, home: BrokerDestination, message: Message, obstacle: int) -> None:
        news = self._context.news
        if news is not None and (obstacle == MEMORY or obstacle == TOO_LARGE):
            tell_full(news, home, message, state.producers.get(str(message.message_id.producer_id)))

    def _fails_at_once(self, state: ConnectionState, home: BrokerDestination) -> bool:
        if state.forwards:  # another broker has nobody to tell: its messages wait
            return False
        fails = home.policy.send_fail_if_no_space
        return self._limits.fail_if_no_space if fails is None else fails

    def _deadline(self, state: ConnectionState, home: BrokerDestination) -> float:
        after_ms = home.policy.send_fail_after_ms
        if after_ms < 0:
            after_ms = self._limits.fail_after_ms
        return self._context.monotonic + after_ms / 1000 if after_ms > 0 and not state.forwards else NEVER

    def _is_parking_full(self, state: ConnectionState) -> bool:
        if state.forwards:  # what waits of it is what its window lets through, whoever else waits
            return state.parked_bytes >= self._max_parked_bytes
        return state.parked_bytes >= MAX_PARKED_BYTES or self._parked_bytes >= self._max_parked_bytes

    def _check_parked(self, state: ConnectionState, home: BrokerDestination, message: Message) -> None:
        if self._is_parking_full(state) and not state.may_pause_reading():
            raise ResourceAllocationError(
                f"{self._refusal(home, message, MEMORY)}. {len(state.parked)} sends of this connection wait already; "
                f"consume from it, raise memoryUsage or slow the producer down"
            )

    def forget(self, state: ConnectionState) -> None:
        """The connection is gone: its waiting sends were never taken."""
        self._parked_bytes -= state.parked_bytes
        state.parked.clear()
        state.parked_bytes = 0
        if state in self.parked:
            self.parked.remove(state)

    def unpark(self) -> None:
        """There may be room again: let waiting sends go on, oldest first on each connection. Connections take turns;
        after `MAX_VISITS` of them the rest is left to `run`.
        """
        self._unvisited = len(self.parked)
        self._visit()

    def _visit(self) -> None:
        for _ in range(MAX_VISITS):
            if self._unvisited <= 0 or not self.parked:
                break
            self._unvisited -= 1
            state = self.parked.popleft()
            self._resume(state)
            if state.parked:
                self.parked.append(state)
            self._read_on(state)
        if not self.parked:
            self._unvisited = 0
            self._due = NEVER
            self._warned.clear()

    def _resume(self, state: ConnectionState) -> None:
        sender = self.sender
        assert sender is not None
        while state.parked and self._has_room_again(state, state.parked[0]):
            parked = state.parked.popleft()
            self._drop(state, parked)
            sender.go_on(state, parked)

    def _drop(self, state: ConnectionState, parked: ParkedSend) -> None:
        state.parked_bytes -= parked.message.size
        self._parked_bytes -= parked.message.size

    def _read_on(self, state: ConnectionState) -> None:
        if not state.reading_paused or state.parked_bytes >= MAX_PARKED_BYTES:
            return
        if not state.parked or self._parked_bytes < self._max_parked_bytes:
            state.reading_paused = False
            state.outlet.mark_dirty()

    def _has_room_again(self, state: ConnectionState, parked: ParkedSend) -> bool:
        """In the destinations it names, and in the one it waited for, which may be the target of a virtual one."""
        if not self._takes_again(state, parked.home, parked.message):
            return False
        for part in parked.message.destination.parts():
            for home in self._map.matching(part):
                if not self._takes_again(state, home, parked.message):
                    return False
        return True

    def _takes_again(self, state: ConnectionState, home: BrokerDestination, message: Message) -> bool:
        """With hysteresis for clients that need memory: full stays full until a share of it is free."""
        if home.removed:
            return True
        obstacle = self.obstacle(home, message)
        if (obstacle == ROOM or obstacle == MEMORY) and self.has_reserve(state, home, message):
            return True
        if obstacle != ROOM and obstacle != TOO_LARGE:  # the latter was not, when it was sent
            return False
        return not (self._needs_memory(home, message) and home.usage.is_above(RESUME_SHARE))

    def _needs_memory(self, home: BrokerDestination, message: Message) -> bool:
        """Whether ``message`` will stay in memory: the store does not have it, and somebody is there to keep it for."""
        if isinstance(home, Topic):
            return len(home.subscriptions) > 0
        if not home.policy.producer_flow_control:
            return False
        return not (self._has_store and goes_to_store(home, message))

    def next_timeout(self) -> float | None:
        """When to call `run`, in monotonic seconds; 0.0 while some connections wait for their turn."""
        if self._unvisited > 0:
            return 0.0
        return self._due if self._due < NEVER else None

    def run(self, worked: bool) -> None:
        """Refuse what has waited too long, ask the disk again, tell who waits; then whoever has room goes on.
        ``worked`` says that some job may have made room.
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
            kept = [parked for parked in state.parked if parked.deadline > now]
            state.parked.clear()
            state.parked.extend(kept)
            for parked in expired:
                self._drop(state, parked)
                text = self._refusal(parked.home, parked.message, self._reason(parked), late=True)
                tell(state, parked.token, ResourceAllocationError(text))
        for parked in state.parked:
            self._due = min(self._due, parked.deadline)
        if state.parked:
            first = state.parked[0]
            obstacle = self.obstacle(first.home, first.message)
            if obstacle == DISK or obstacle == STORE:
                self._due = min(self._due, now + ROOM_POLL_SECONDS)
            if MEMORY <= obstacle <= DISK:
                self._warn(state, first.home, first.message, obstacle)

    def _reason(self, parked: ParkedSend) -> int:
        reason = self.obstacle(parked.home, parked.message)
        return MEMORY if reason == ROOM else reason

    def _warn(self, state: ConnectionState, home: BrokerDestination, message: Message, obstacle: int) -> None:
        """One line per destination and interval."""
        interval = home.policy.blocked_producer_warning_interval_ms / 1000
        if interval <= 0:
            return
        now = self._context.monotonic
        name = home.destination.qualified_name
        last = self._warned.get(name)
        if last is None or last + interval <= now:
            self._warned[name] = last = now
            logger.warning(
                "producer flow control: sends to %s wait: %s; connection %s of %s holds %d of %d connections' sends",
                name,
                self._limit(home, message, obstacle),
                state.connection_id,
                state.info.remote_address,
                len(state.parked),
                len(self.parked),
            )
        self._due = min(self._due, last + interval)

    def _limit(self, home: BrokerDestination, message: Message, obstacle: int) -> str:
        """The limit that is reached, in words."""
        if obstacle == DISK:
            return "the disk of the store has no room"
        if obstacle == STORE:
            percent = home.policy.store_usage_high_water_mark
            return f"{percent} % of storeUsage, {self._limits.store_bytes} bytes, are in use"
        level = home.usage.full_level(message.size)
        name = "memoryUsage" if level.parent is None else "memoryLimit"
        return f"{name} of {level.limit_bytes} bytes is reached"

    def _refusal(self, home: BrokerDestination, message: Message, obstacle: int, late: bool = False) -> str:
        """In ActiveMQ's words."""
        if obstacle == DISK:
            what = "Persistent store is Full, the disk has no room"
        elif obstacle == STORE:
            percent = home.policy.store_usage_high_water_mark
            what = f"Persistent store is Full, {percent}% of {self._limits.store_bytes}"
        elif late:
            what = "Usage Manager Memory Limit Wait Timeout"
        else:
            return f"Usage Manager Memory Limit reached on {home.destination}. {ADVICE}"
        producer = message.message_id.producer_id
        return f"{what}. Stopping producer ({producer}) to prevent flooding {home.destination}. {ADVICE}"


def goes_to_store(home: BrokerDestination, message: Message) -> bool:
    """Whether the store of a broker that has one gets ``message``: what is persistent, and for a durable subscription
    whose subscriber is away all.
    """
    if home.destination.kind == SUBSCRIPTION and home.consumer_count == 0:
        return True
    return message.persistent and keeps_messages(home)


def keeps_messages(home: BrokerDestination) -> bool:
    """Whether the store has a line for it: a permanent queue, a durable subscription, the scheduler."""
    kind = home.destination.kind
    return kind == QUEUE or kind == SUBSCRIPTION or kind == SCHEDULE


def tell(state: ConnectionState, token: int, error: JmsError | None) -> None:
    """The answer of a send that had waited. One that wanted no answer hears of a refusal all the same."""
    if token != NO_TOKEN or error is not None:
        state.outlet.connection.completed(token, error)
        state.outlet.mark_dirty()
