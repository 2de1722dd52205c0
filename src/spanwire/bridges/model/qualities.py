"""Qualities of service: the steps of a batch, and suitable combinations of source and target."""

from __future__ import annotations

from enum import Enum
from typing import Final

from spanwire.bridges.model.definition import BridgeDefinition, Quality, Source
from spanwire.bridges.model.provider_description import ProviderDescription
from spanwire.model.errors import ConfigurationError


class BatchStep(Enum):
    """One step in the life of a batch."""

    SEND = "send"
    ACKNOWLEDGE = "acknowledge"
    COMMIT = "commit"


STEPS: Final[dict[Quality, tuple[BatchStep, ...]]] = {
    Quality.AT_MOST_ONCE: (BatchStep.ACKNOWLEDGE, BatchStep.SEND),
    Quality.DUPLICATES_OK: (BatchStep.SEND, BatchStep.ACKNOWLEDGE),
    Quality.ONCE_AND_ONLY_ONCE: (BatchStep.SEND, BatchStep.COMMIT),
}


def is_same_broker(definition: BridgeDefinition) -> bool:
    """Return True if source and target have one broker and one login, so that one connection serves both."""
    return definition.source.factory == definition.target.factory


def check_quality(definition: BridgeDefinition, source: ProviderDescription, target: ProviderDescription) -> None:
    """Refuse a quality of service beyond the promises of source and target.

    Raises:
        ConfigurationError: the text names the bridge and the remedy.
    """
    name = definition.name
    if definition.quality is not Quality.ONCE_AND_ONLY_ONCE:
        return
    if not is_same_broker(definition):
        raise ConfigurationError(
            f"bridge {name}: ONCE_AND_ONLY_ONCE needs source and target on one broker, with the same "
            "connectionFactory and login on both sides; between two brokers use DUPLICATES_OK (distributed "
            "transactions are not supported yet)"
        )
    if not source.local_transactions:
        raise ConfigurationError(
            f"bridge {name}: the provider {source.name} has no local transactions, which ONCE_AND_ONLY_ONCE needs; use "
            "DUPLICATES_OK"
        )
    if not keeps_messages(definition.source):
        raise ConfigurationError(
            f"bridge {name}: ONCE_AND_ONLY_ONCE from {definition.source.destination} needs a durable subscription, "
            "because the topic keeps no messages for a bridge that is away; set subscriptionName and clientID"
        )


def keeps_messages(source: Source) -> bool:
    """Return True if the broker keeps messages for the bridge while the bridge is away."""
    return source.destination.is_queue or source.subscription is not None
