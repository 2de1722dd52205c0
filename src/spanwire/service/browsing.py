"""An operator's look into a queue, and its purge, in the broker's loop. Neither is a client: no rights are asked."""

from __future__ import annotations

from typing import Final

from spanwire.broker.queue.queue import Queue
from spanwire.model.destination import Destination
from spanwire.model.message import Message
from spanwire.service.service import BrokerService

MAX_BROWSED: Final = 400  # messages of one look, ActiveMQ's maxBrowsePageSize


async def browse(service: BrokerService, destination: Destination, limit: int = MAX_BROWSED) -> list[Message]:
    """The oldest messages that wait in a queue, at most ``limit``; none for a queue that does not exist.

    Leaves out what consumers hold. Reads from the store what memory does not have.
    """
    queue = service.broker.home_of(destination)
    if not isinstance(queue, Queue) or limit <= 0:
        return []
    entries = queue.oldest(limit)
    sequences = [sequence for sequence, message in entries if message is None]
    stored = dict(zip(sequences, await service.read_stored(destination, sequences), strict=True))
    messages = [stored.get(sequence) if message is None else message for sequence, message in entries]
    return [message for message in messages if message is not None]


def purge(service: BrokerService, destination: Destination) -> int:
    """Drop every message that waits in a queue; gives how many. What consumers hold stays theirs."""
    queue = service.broker.home_of(destination)
    if not isinstance(queue, Queue):
        return 0
    now = service.environment.now()
    service.broker.run(now)
    count = queue.purge()
    service.broker.room_changed(now)  # sends that waited for memory go on
    service.wake()
    return count
