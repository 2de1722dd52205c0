"""Leases: received messages before their acknowledgement.

Messages go back to the queue at the end of the lease.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from spanwire.client.messages.message import Message
from spanwire.model.errors import JmsError
from spanwire.web.rest.reads import Reader

MAX_LEASES: Final = 100  # leases of one user; each is a consumer of the broker
MAX_LEASED_BYTES: Final = 256 * 1024 * 1024  # bytes of the messages in all leases, as for the bodies of all requests
TOKEN_BYTES: Final = 16  # octets of chance in the name of a lease


class FullLeasesError(Exception):
    """Raised when there is no room for one more lease."""


class NoLeaseError(Exception):
    """Raised for an unknown lease, or after its end."""


class LeasedBytes:
    """Counts the bytes of the messages in all leases of the web process."""

    def __init__(self) -> None:
        self.used = 0

    def check(self) -> None:
        """Raise `FullLeasesError` when no more messages can be leased."""
        if self.used >= MAX_LEASED_BYTES:
            raise FullLeasesError(f"the messages of all leases have {MAX_LEASED_BYTES} bytes; try again later")


@dataclass(slots=True)
class Lease:
    """Messages received by one consumer, until ``until`` in seconds of the clock of `Leases`."""

    reader: Reader
    messages: Sequence[Message]
    size: int
    until: float


class Leases:
    """The leases of one user."""

    def __init__(self, leased: LeasedBytes, now: Callable[[], float]) -> None:
        self._leased: Final = leased
        self._now: Final = now
        self._leases: Final[dict[str, Lease]] = {}

    @property
    def count(self) -> int:
        """Number of leases."""
        return len(self._leases)

    def check(self) -> None:
        """Raise `FullLeasesError` when the user can begin no more leases."""
        if len(self._leases) >= MAX_LEASES:
            raise FullLeasesError(f"a user has at most {MAX_LEASES} leases: acknowledge or release one")
        self._leased.check()

    def begin(self, reader: Reader, messages: Sequence[Message], lease_s: float) -> str:
        """Keep the messages of a consumer. Returns the name of the lease.

        The consumer belongs to the lease from now on, unless there is no room any more: other requests may have begun
        leases since `check`.

        Args:
            reader: the consumer.
            messages: its received messages.
            lease_s: seconds until the messages go back.

        Raises:
            FullLeasesError: the caller gives the messages back.
        """
        self.check()
        name = secrets.token_urlsafe(TOKEN_BYTES)
        size = sum(len(message.raw) for message in messages)
        self._leases[name] = Lease(reader, messages, size, self._now() + lease_s)
        self._leased.used += size
        return name

    async def acknowledge(self, name: str, ids: Collection[str] | None) -> int:
        """Acknowledge messages and end the lease. Returns the number of messages after the broker's answer.

        Args:
            name: the lease.
            ids: ids of the messages to acknowledge, the others go back; None for all.

        Raises:
            NoLeaseError: there is no such lease, or an id is not in the lease.
            JmsError: the connection has failed, and the broker may deliver the messages again.
        """
        lease = self._lease(name)
        chosen = [message for message in lease.messages if ids is None or message.message_id in ids]
        if ids is not None and len(chosen) != len(set(ids)):
            raise NoLeaseError("the lease holds no message of this id; it goes on")
        self._drop(name)
        for message in chosen:
            lease.reader.accept(message)
        await lease.reader.close()
        return len(chosen)

    async def release(self, name: str) -> int:
        """Give the messages of a lease back. Returns the number. Raises `NoLeaseError` or `JmsError`."""
        lease = self._lease(name)
        self._drop(name)
        await lease.reader.close()
        return len(lease.messages)

    def extend(self, name: str, lease_s: float) -> None:
        """Let a lease end in ``lease_s`` seconds from now. Raises `NoLeaseError`."""
        self._lease(name).until = self._now() + lease_s

    async def sweep(self) -> None:
        """Give the messages of overdue leases back."""
        now = self._now()
        for name in [name for name, lease in self._leases.items() if lease.until <= now]:
            lease = self._drop(name)
            try:
                await lease.reader.close()
            except JmsError:
                continue  # the connection has given the messages back

    def close(self) -> None:
        """Forget all leases; the end of the connection gives the messages back."""
        for name in list(self._leases):
            self._drop(name)

    def _lease(self, name: str) -> Lease:
        lease = self._leases.get(name)
        if lease is None or lease.until <= self._now():
            raise NoLeaseError("there is no such lease of this user and host: its time is over, or it has ended")
        return lease

    def _drop(self, name: str) -> Lease:
        lease = self._leases.pop(name)
        self._leased.used -= lease.size
        return lease
