"""Producer flow control: the room for messages in memory and in the store, and the texts of refusals."""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.destination_events import publish_full
from spanwire.broker.dispatch.memory_usage import RESUME_SHARE, MemoryUsage, UsageLimits
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import QUEUE, SCHEDULE, SUBSCRIPTION
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.message import Message

ADVICE: Final = "See http://activemq.apache.org/producer-flow-control.html for more info"  # clients know this text

# reasons for a send to wait
ROOM: Final = 0  # no reason to wait
BEHIND: Final = 1  # the disk is too far behind
MEMORY: Final = 2
STORE: Final = 3  # the store's files have reached their limit
DISK: Final = 4  # the disk itself is full
TURN: Final = 5  # earlier sends of the connection wait
TOO_LARGE: Final = 6  # the message would not fit into empty memory


class FlowControl:
    """Decides about room for messages; `ParkedSends` wait for room.

    Counting is left to `MemoryUsage`, `UnsyncedBytes` and the store.
    """

    def __init__(
        self,
        context: BrokerContext,
        limits: UsageLimits,
        lowest_store_mark: int,
        unsynced: UnsyncedBytes,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._has_store: Final[bool] = context.store is not None
        self.limits: UsageLimits = limits
        self._lowest_store_mark = lowest_store_mark
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._has_disk_room = True
        self._store_bytes = 0
        self._store_is_tight = False
        self.refresh()

    def use_limits(self, limits: UsageLimits) -> None:
        """Replace the limits of memory and disk."""
        self.limits = limits
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
            f"{self.refusal(destination, message, reason)}. "
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
                raise ResourceAllocationError(self.refusal(destination, message, reason))

    def refresh(self) -> None:
        """Ask the store for the size."""
        limit = self.limits.store_bytes
        usage = self._context.store_usage
        self._store_bytes = usage.used_bytes()
        self._has_disk_room = usage.has_room()
        full = limit > 0 and self._store_bytes * 100 >= limit * self._lowest_store_mark
        self._store_is_tight = full or not self._has_disk_room

    def takes_again(self, state: ConnectionState, destination: BrokerDestination, message: Message) -> bool:
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

    def refusal(self, destination: BrokerDestination, message: Message, obstacle: int, late: bool = False) -> str:
        """Return the text of a refusal, in ActiveMQ's words; a ``late`` one follows too long a wait."""
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


def keeps_messages(destination: BrokerDestination) -> bool:
    """Return True if the store keeps messages of ``destination``.

    Such a destination is a queue, a durable subscription or the scheduler.
    """
    kind = destination.name.kind
    return kind == QUEUE or kind == SUBSCRIPTION or kind == SCHEDULE
