"""Durable subscribers of other brokers, served by a bridge's durable subscription at this broker.

A bridge learns of each remote subscriber of a local subscription, and deletes the subscription with the last
subscriber. Links break and brokers restart meanwhile, so the store has a metadata record for each subscriber
(`spanwire.broker.metadata.REMOTE_SUBSCRIBERS`).
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.metadata import REMOTE_SUBSCRIBERS
from spanwire.model.errors import StoreError

MAX_SUBSCRIBERS: Final = 10_000  # subscribers behind one subscription, as many as a bridge accepts
MAX_SUBSCRIBER: Final = 4_096  # characters of a subscriber's key; client ids have 1,024
COMPLETE: Final = ""  # in place of a subscriber: all subscribers behind the subscription are known
KEY_BYTES: Final = 20  # bytes of a digest, against accidental collisions


class RemoteSubscribers:
    """Remote subscribers by the key of the local subscription. Clients choose parts of both keys."""

    def __init__(self, context: BrokerContext) -> None:
        self._context: Final[BrokerContext] = context
        self._behind: Final[dict[str, set[str]]] = {}
        self._served_by: Final[dict[str, set[str]]] = {}

    def begin(self, subscription: str) -> None:
        """Note that all subscribers behind ``subscription`` will be added, since the subscription is new."""
        self._put(subscription, COMPLETE)

    def of(self, subscription: str) -> set[str] | None:
        """Return the subscribers behind ``subscription``, None if others may exist."""
        behind = self._behind.get(subscription)
        return behind - {COMPLETE} if behind is not None and COMPLETE in behind else None

    def add(self, subscription: str, subscriber: str) -> None:
        """Add ``subscriber`` to the remote subscribers of ``subscription``.

        Above the limit of remembered subscribers, the subscription no longer ends with the last subscriber.
        """
        behind = self._behind.get(subscription)
        if behind is not None and subscriber in behind:
            return
        if len(subscriber) > MAX_SUBSCRIBER or (behind is not None and len(behind) >= MAX_SUBSCRIBERS):
            self._discard(subscription, COMPLETE)
            return
        self._put(subscription, subscriber)

    def remove(self, subscription: str, subscriber: str) -> None:
        """Note that ``subscription`` no longer stands for ``subscriber``."""
        self._discard(subscription, subscriber)

    def serving(self, subscriber: str) -> list[str]:
        """Return the local subscriptions for ``subscriber``."""
        return sorted(self._served_by.get(subscriber, ()))

    def forget(self, subscription: str) -> None:
        """Forget an ended subscription."""
        for subscriber in list(self._behind.get(subscription, ())):
            self._discard(subscription, subscriber)

    def recover(self, metadata: dict[bytes, bytes], subscriptions: set[str]) -> None:
        """Restore the subscribers of ``subscriptions`` from the store and discard other metadata records.

        Raises:
            StoreError: a metadata record cannot be decoded.
        """
        for key, value in metadata.items():
            try:
                subscription, subscriber = json.loads(value)
            except (ValueError, TypeError):
                raise StoreError(
                    "a subscriber of another broker in the store cannot be read: stop the broker and run "
                    "spanwire store check"
                ) from None
            if subscription in subscriptions:
                self._enter(subscription, subscriber)
            else:
                self._context.metadata.discard_metadata(REMOTE_SUBSCRIBERS, key)

    def _put(self, subscription: str, subscriber: str) -> None:
        value = json.dumps([subscription, subscriber]).encode("ascii")
        self._context.metadata.put_metadata(REMOTE_SUBSCRIBERS, _key(subscription, subscriber), value)
        self._enter(subscription, subscriber)

    def _enter(self, subscription: str, subscriber: str) -> None:
        self._behind.setdefault(subscription, set()).add(subscriber)
        if subscriber != COMPLETE:
            self._served_by.setdefault(subscriber, set()).add(subscription)

    def _discard(self, subscription: str, subscriber: str) -> None:
        behind = self._behind.get(subscription)
        if behind is None or subscriber not in behind:
            return
        behind.discard(subscriber)
        if not behind:
            del self._behind[subscription]
        served_by = self._served_by.get(subscriber)
        if served_by is not None:
            served_by.discard(subscription)
            if not served_by:
                del self._served_by[subscriber]
        self._context.metadata.discard_metadata(REMOTE_SUBSCRIBERS, _key(subscription, subscriber))


def _key(subscription: str, subscriber: str) -> bytes:
    text = json.dumps([subscription, subscriber])
    return blake2b(text.encode("ascii"), digest_size=KEY_BYTES).digest()
