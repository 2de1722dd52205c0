"""The promises of a provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_CREDIT: Final = 1_000  # messages that the source's broker dispatches ahead; the default prefetch of JMS clients


@dataclass(frozen=True, slots=True)
class ProviderDescription:
    """Promises of a provider, as a basis for qualities of service, and the losses of a crossing."""

    name: str
    local_transactions: bool  # receive and send in one transaction of one broker
    xa: bool  # branches of distributed transactions
    cannot_cross: tuple[str, ...]  # parts of a message lost on the way to the target, one sentence each
    selectors: bool = True  # the broker chooses messages by a selector
    replies: bool = True  # temporary queues for replies, and replies to any destination
    atomic_batches: bool = True  # a target stores a batch as a whole, or nothing of it
    largest_batch: int | None = None  # messages that a source hands over before an acknowledgement; None: no limit
    acknowledgements: bool = True  # a sent message is stored, and a received one is kept until it is acknowledged
