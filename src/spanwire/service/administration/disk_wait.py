"""The wait for the disk before the answer to an operator, so that the answer holds after a crash."""

from __future__ import annotations

import asyncio
from typing import Final

from spanwire.broker.broker import Broker

SYNC_S: Final = 5.0  # seconds that an answer waits for the disk, at most: the disk may be full
SYNC_POLL_S: Final = 0.005  # seconds between two looks whether the disk has it


async def is_on_disk(broker: Broker) -> bool:
    """Wait until the disk has all that was written; return False if it does not have it within `SYNC_S`."""
    store, unsynced = broker.assembly.context.store, broker.assembly.unsynced
    position = 0 if store is None else store.position()
    ends = broker.environment.now().monotonic + SYNC_S
    while unsynced.position < position:
        if broker.environment.now().monotonic >= ends:
            return False
        await asyncio.sleep(SYNC_POLL_S)
    return True
