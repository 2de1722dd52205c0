"""The promises of a provider."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProviderDescription:
    """Promises of a provider, as a basis for qualities of service, and the losses of a crossing."""

    name: str
    local_transactions: bool  # receive and send in one transaction of one broker
    xa: bool  # branches of distributed transactions
    cannot_cross: tuple[str, ...]  # parts of a message lost on the way to the target, one sentence each
