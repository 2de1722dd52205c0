"""Message groups: messages with one JMSXGroupID go to one consumer, in order, for as long as it is there.

The table of owners is bounded, as in ActiveMQ (``messageGroupMapFactoryType``): with ``bucket`` all groups of one hash
share an owner, ``cached`` forgets the group that was longest without a message, ``simple`` does so at a size nobody
should reach.
"""

from __future__ import annotations

import zlib
from typing import Final

from spanwire.broker.policy.queue_policy import BUCKET_GROUPS, GroupMap
from spanwire.broker.queue.queue_consumers import QueueConsumer

PASS: Final = 0  # the group belongs to another consumer
TAKE: Final = 1
FIRST: Final = 2  # take it: the first message of its group for this consumer
CLOSE: Final = 3  # take it: the last of its group


class MessageGroups:
    """Who owns which group.

    When a group loses an owner after others had passed its messages by, they must look again: at everything where the
    owner is gone (``freed``), else from where it stands (``lost``). A group that was closed stays with its owner until
    `release`, so that none of its messages overtakes another.
    """

    def __init__(self, kind: GroupMap) -> None:
        self._buckets: Final[int] = kind.size if kind.kind == BUCKET_GROUPS else 0
        self._limit: Final[int] = kind.size
        self._owners: Final[dict[str, QueueConsumer]] = {}
        self._passed: Final[set[str]] = set()
        self._closed: Final[set[str]] = set()  # and still with their owners
        self.freed = False
        self.lost: QueueConsumer | None = None

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
            return CLOSE if owner is not None and self._close(key, owner) else FIRST
        if owner is None:
            if len(self._owners) >= self._limit:
                self._forget_oldest()
            consumer.groups += 1
            self._owners[key] = consumer
            return FIRST
        if not self._buckets:  # keep the one that was used last at the end
            del self._owners[key]
            self._owners[key] = consumer
        if self._closed and key in self._closed:
            self._closed.discard(key)
            return FIRST
        return FIRST if sequence == 1 else TAKE

    def _close(self, key: str, owner: QueueConsumer) -> bool:
        """Whether the group was open."""
        if key in self._closed:
            return False
        if key in self._passed:
            self._closed.add(key)
            self.lost = owner
        else:
            self._free(key)
        return True

    def _forget_oldest(self) -> None:
        key = next(iter(self._owners))
        if key in self._passed:
            self._passed.discard(key)
            self.lost = self._owners[key]
        self._free(key)

    def release(self) -> None:
        """All look again at what they passed by: closed groups belong to nobody."""
        for key in self._closed.copy():
            self._passed.discard(key)
            self._free(key)

    def forget(self, consumer: QueueConsumer) -> None:
        """The consumer is gone: its groups belong to nobody."""
        for key in [key for key, owner in self._owners.items() if owner is consumer]:
            self._free(key)

    def owners(self) -> dict[str, str]:
        """The consumer id by group or bucket, for an operator."""
        return {
            key: str(owner.subscription.info.consumer_id)
            for key, owner in self._owners.items()
            if key not in self._closed
        }

    def _free(self, key: str) -> None:
        self._owners.pop(key).groups -= 1
        self._closed.discard(key)
        if key in self._passed:
            self._passed.discard(key)
            self.freed = True

    def _key(self, group: str) -> str:
        if not self._buckets:
            return group
        return str(zlib.crc32(group.encode("utf-8", "surrogatepass")) % self._buckets)
