"""The pace of a move: a rate, the disk, and the room at the receiver.

A slice begins when the disk has the slice before. So a producer's send waits for one slice at most, as for another
producer's sends, and a move takes the rest of the disk's throughput.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.admin.transfers import Restraint
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import Alarm
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.routing.flow_control import BEHIND, DISK, MEMORY, ROOM, STORE, TOO_LARGE, FlowControl
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.message import Message

ROOM_POLL_SECONDS: Final = 0.05  # seconds between two looks at a full receiver
WHOLE: Final = 100  # percent of a memory limit
BURSTS: Final = 10  # slices in a second of a move with a rate, so that it runs evenly
AHEAD: Final = 1_000  # messages that wait at a target whose consumers a move follows; the usual window of a client
SLICE_MESSAGES: Final = 16  # messages of a slice: a producer that sends meanwhile waits for them


class Gathered:
    """The messages of a slice for one destination, before the delivery."""

    __slots__ = ("count", "size_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0  # of those that only memory will have

    def fits(self, destination: BrokerDestination, message: Message) -> bool:
        """Return True if memory takes ``message`` beside the others of the slice."""
        if self.size_bytes == 0 or destination.persists(message):
            return True
        return destination.usage.room(WHOLE) >= self.size_bytes + message.size

    def add(self, destination: BrokerDestination, message: Message) -> None:
        """Add a message."""
        self.count += 1
        if not destination.persists(message):
            self.size_bytes += message.size


class Pace(Restraint):
    """Holds a move back.

    ``waits_for`` says in words why the move waits, "" while the move runs.
    """

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        flow: FlowControl,
        unsynced: UnsyncedBytes,
        rate: int,
        follows: bool,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._flow: Final[FlowControl] = flow
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._rate: Final[int] = rate
        self._follows: Final[bool] = follows
        self._due = 0.0  # monotonic seconds of the next slice
        self._position = 0  # of the last slice in the store
        self._is_blocked = False
        self._gathered: Final[dict[BrokerDestination, Gathered]] = {}
        self.waits_for = ""

    def waits(self, alarm: Alarm) -> bool:
        """Return True if the disk does not have the last slice yet; ``alarm`` wakes when it has."""
        return self._unsynced.wake(alarm, self._position)

    def rest_seconds(self) -> float:
        """Return the seconds until the next slice may begin."""
        if self._is_blocked:
            self._is_blocked = False
            self._flow.refresh()
            return ROOM_POLL_SECONDS
        return max(0.0, self._due - self._context.monotonic) if self._rate > 0 else 0.0

    def most(self) -> int:
        """Return the messages of a slice, at a low rate the messages of a tenth of a second."""
        return SLICE_MESSAGES if self._rate == 0 else max(1, min(SLICE_MESSAGES, self._rate // BURSTS))

    def note(self, count: int) -> None:
        """Count delivered messages; the next slice waits as long as the rate demands."""
        if not self._is_blocked:
            self.waits_for = ""
        self._gathered.clear()
        store = self._context.store
        if store is not None:
            self._position = store.position()
        if self._rate > 0:
            self._due = max(self._due, self._context.monotonic) + count / self._rate

    def holds(self, message: Message) -> bool:
        """Return True if ``message`` must wait for room at the destination.

        Raises:
            ResourceAllocationError: the message is larger than the memory of the broker.
        """
        destination = self._map.find(message.destination)
        if destination is None:
            return self._blocks("" if self._context.store_usage.has_room() else "room on the disk")
        obstacle = self._flow.obstacle(destination, message)
        if obstacle == TOO_LARGE:
            raise ResourceAllocationError("the message is larger than the memory of the broker")
        gathered = self._gathered.get(destination)
        if gathered is None:
            gathered = self._gathered[destination] = Gathered()
        if obstacle == ROOM and not gathered.fits(destination, message):
            obstacle = MEMORY
        blocks = self._blocks(self._reason(destination, obstacle, gathered.count))
        if not blocks:
            gathered.add(destination, message)
        return blocks

    def _reason(self, destination: BrokerDestination, obstacle: int, gathered: int) -> str:
        name = destination.name.qualified_name
        if obstacle == DISK:
            return "room on the disk"
        if obstacle == STORE:
            return "room below storeUsage"
        if obstacle == MEMORY:
            return f"memory of {name}"
        if obstacle == BEHIND:
            return "the disk"
        assert obstacle == ROOM
        if self._follows and destination.consumer_count > 0 and destination.waiting() + gathered >= AHEAD:
            return f"consumers of {name}"
        return ""

    def _blocks(self, reason: str) -> bool:
        self._is_blocked = reason != ""
        if self._is_blocked:
            self.waits_for = reason
        return self._is_blocked
