"""Message groups: messages with one JMSXGroupID go to one consumer, in order.

The consumer stays the same while attached.

The table of owners is bounded, as in ActiveMQ (``messageGroupMapFactoryType``). With ``bucket`` all groups of one hash
share an owner. A full ``cached`` table forgets the group with the longest idle time, and so does ``simple``, at a size
far above practice.
"""

from __future__ import annotations

import zlib
from typing import Final

from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import BUCKET_GROUPS, GroupMap
from spanwire.broker.queue.queue_consumers import QueueConsumer

PASS: Final = 0  # the group belongs to another consumer
TAKE: Final = 1  # the consumer takes the message
FIRST: Final = 2  # the consumer takes the message, the first of its group for it
CLOSE: Final = 3  # the consumer takes the message, the last of its group


class MessageGroups:
    """The owner of each group.

    Other consumers skip the messages of a group. After the loss of its owner they must scan again: the whole list if
    the owner is gone (``freed``), else from the owner's position (``lost``). A closed group stays with its owner until
    `release`, so that no message of the group overtakes another.
    """

    def __init__(self, kind: GroupMap) -> None:
        self._buckets: Final[int] = kind.size if kind.kind == BUCKET_GROUPS else 0
        self._limit: Final[int] = kind.size
        self._owners: Final[dict[str, QueueConsumer]] = {}
        self._passed: Final[set[str]] = set()
        self._closed: Final[set[str]] = set()  # closed groups that still belong to their owners
        self.freed = False
        self.lost: QueueConsumer | None = None

    def __len__(self) -> int:
        return len(self._owners)

    def offer(self, consumer: QueueConsumer, group: str, sequence: int) -> int:
        """Decide about a message of ``group`` for a ``consumer`` with room.

        Args:
            sequence: JMSXGroupSeq; a negative one closes the group.

        Returns:
            `PASS`, `TAKE`, `FIRST` or `CLOSE`.
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
            consumer.groups[key] = None
            self._owners[key] = consumer
            return FIRST
        if not self._buckets:  # the group used last stands at the end
            del self._owners[key]
            self._owners[key] = consumer
        if self._closed and key in self._closed:
            self._closed.discard(key)
            return FIRST
        return FIRST if sequence == 1 else TAKE

    def _close(self, key: str, owner: QueueConsumer) -> bool:
        """Close a group. Return True if the group was open."""
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
        """Free all closed groups: consumers scan again for the skipped messages."""
        for key in self._closed.copy():
            self._passed.discard(key)
            self._free(key)

    def forget(self, consumer: QueueConsumer) -> None:
        """Free the groups of a consumer after its end."""
        for key in list(consumer.groups):
            self._free(key)

    def free(self, group: str | None) -> int:
        """Free a group or, without one, all: the next consumer of each becomes its owner. Return their number."""
        key = None if group is None else self._key(group)
        keys = list(self._owners) if key is None else [key] if key in self._owners else []
        for one in keys:
            self._free(one)
        return len(keys)

    def owner(self, group: str) -> Subscription | None:
        """Return the consumer that owns a group, or None."""
        owner = self._owners.get(self._key(group))
        return None if owner is None else owner.subscription

    def owners(self) -> dict[str, str]:
        """Return the consumer id of each group or bucket, for an operator."""
        return {
            key: str(owner.subscription.info.consumer_id)
            for key, owner in self._owners.items()
            if key not in self._closed
        }

    def _free(self, key: str) -> None:
        del self._owners.pop(key).groups[key]
        self._closed.discard(key)
        if key in self._passed:
            self._passed.discard(key)
            self.freed = True

    def _key(self, group: str) -> str:
        if not self._buckets:
            return group
        return str(zlib.crc32(group.encode("utf-8", "surrogatepass")) % self._buckets)
