"""Message groups: messages with one JMSXGroupID go to one consumer, in order, for as long as it is there.

The table of owners is bounded, as in ActiveMQ (``messageGroupMapFactoryType``): with ``bucket`` all groups of one hash
share an owner, ``cached`` forgets the group that was longest without a message, ``simple`` does so at a size nobody
should reach.
"""

from __future__ import annotations

import zlib
from typing import Final

from spanwire.broker.queue_consumers import QueueConsumer
from spanwire.broker.queue_policy import BUCKET_GROUPS, GroupMap

PASS: Final = 0  # the group belongs to another consumer
TAKE: Final = 1
FIRST: Final = 2  # take it: the first message of its group for this consumer
CLOSE: Final = 3  # take it: the last of its group


class MessageGroups:
    """Who owns which group. ``freed`` becomes true when a group lost its owner after others had passed its messages by:
    they must look again.
    """

    def __init__(self, kind: GroupMap) -> None:
        self._buckets: Final[int] = kind.size if kind.kind == BUCKET_GROUPS else 0
        self._limit: Final[int] = kind.size
        self._owners: Final[dict[str, QueueConsumer]] = {}
        self._passed: Final[set[str]] = set()
        self.freed = False

    def __len__(self) -> int:
        return len(self._owners)

    def offer(self, consumer: QueueConsumer, group: str, sequence: int) -> int:
        """What becomes of a message of ``group`` that ``consumer`` could take; a negative ``sequence`` closes the
        group.
        """
        key = self._key(group)
        owner = self._owners.get(key)
        if owner is not None and owner is not consumer:
            self._passed.add(key)
            return PASS
        if sequence < 0:
            if owner is not None:
                self._free(key)
            return CLOSE if owner is not None else FIRST
        if owner is None:
            if len(self._owners) >= self._limit:
                self._free(next(iter(self._owners)))
            consumer.groups += 1
            self._owners[key] = consumer
            return FIRST
        if not self._buckets:  # keep the one that was used last at the end
            del self._owners[key]
            self._owners[key] = consumer
        return FIRST if sequence == 1 else TAKE

    def forget(self, consumer: QueueConsumer) -> None:
        """The consumer is gone: its groups belong to nobody."""
        for key in [key for key, owner in self._owners.items() if owner is consumer]:
            self._free(key)

    def owners(self) -> dict[str, str]:
        """The consumer id by group or bucket, for an operator."""
        return {key: str(owner.subscription.info.consumer_id) for key, owner in self._owners.items()}

    def _free(self, key: str) -> None:
        self._owners.pop(key).groups -= 1
        if key in self._passed:
            self._passed.discard(key)
            self.freed = True

    def _key(self, group: str) -> str:
        if not self._buckets:
            return group
        return str(zlib.crc32(group.encode("utf-8", "surrogatepass")) % self._buckets)
