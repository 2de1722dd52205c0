"""Browsing and purging queues for an operator, in the broker's loop, without access checks."""

from __future__ import annotations

from typing import Final

from spanwire.broker.queue.queue import Queue
from spanwire.model.destination import Destination
from spanwire.model.message import Message
from spanwire.service.service import BrokerService

MAX_BROWSED: Final = 400  # messages of one request; ActiveMQ's maxBrowsePageSize


async def browse(service: BrokerService, destination: Destination, limit: int = MAX_BROWSED) -> list[Message]:
    """Return the oldest pending messages of a queue, at most ``limit``; empty for an unknown queue.

    Messages in flight are left out. Messages outside of memory are read from the store.
    """
    queue = service.broker.find_destination(destination)
    if not isinstance(queue, Queue) or limit <= 0:
        return []
    entries = queue.oldest(limit)
    sequences = [sequence for sequence, message in entries if message is None]
    stored = dict(zip(sequences, await service.read_stored(destination, sequences), strict=True))
    messages = [stored.get(sequence) if message is None else message for sequence, message in entries]
    return [message for message in messages if message is not None]


def purge(service: BrokerService, destination: Destination) -> int:
    """Remove all pending messages of a queue; return the number. Messages in flight stay."""
    queue = service.broker.find_destination(destination)
    if not isinstance(queue, Queue):
        return 0
    now = service.environment.now()
    service.broker.run(now)
    count = queue.purge()
    service.broker.room_changed(now)  # resumes sends that wait for memory
    service.wake()
    return count
