"""Qualities of service: the steps of a batch, and suitable combinations of source and target."""

from __future__ import annotations

from enum import Enum
from typing import Final

from spanwire.bridges.model.definition import BatchLimits, BridgeDefinition, ConnectionFactory, Quality, Source
from spanwire.bridges.model.provider_description import ProviderDescription
from spanwire.bridges.model.route_definition import Definition, RouteDefinition, is_throttled, keeps_state
from spanwire.bridges.model.steps import AddDuplicateId, ProxyReplyTo
from spanwire.model.errors import ConfigurationError
from spanwire.routes.consumers import LEAST, MOST


class BatchStep(Enum):
    """One step in the life of a batch."""

    SEND = "send"
    ACKNOWLEDGE = "acknowledge"
    PREPARE = "prepare"
    DECIDE = "decide"
    COMMIT = "commit"


STEPS: Final[dict[Quality, tuple[BatchStep, ...]]] = {
    Quality.AT_MOST_ONCE: (BatchStep.ACKNOWLEDGE, BatchStep.SEND),
    Quality.DUPLICATES_OK: (BatchStep.SEND, BatchStep.ACKNOWLEDGE),
    Quality.ONCE_AND_ONLY_ONCE: (BatchStep.SEND, BatchStep.COMMIT),
}
DISTRIBUTED_STEPS: Final = (BatchStep.SEND, BatchStep.PREPARE, BatchStep.DECIDE, BatchStep.COMMIT)
ARTEMIS_CLASSES: Final = "org.apache.activemq.artemis."  # of its connection factories and JNDI contexts
ARTEMIS_SPOILED: Final = (
    "duplicateDetection does not fit a target that is ActiveMQ Artemis: it rolls the whole batch back because of one "
    "duplicate, and the batch would be sent again for ever; remove duplicateDetection, and use ONCE_AND_ONLY_ONCE with "
    "the provider openwire where nothing may be doubled"
)


def is_same_broker(definition: BridgeDefinition) -> bool:
    """Return True if source and target have one broker and one login, so that one connection serves both."""
    return definition.source.factory == definition.target.factory


def is_distributed(definition: Definition) -> bool:
    """Return True if each batch is a distributed transaction of two brokers."""
    if isinstance(definition, RouteDefinition):
        return False
    return definition.quality is Quality.ONCE_AND_ONLY_ONCE and not is_same_broker(definition)


def steps_of(definition: Definition) -> tuple[BatchStep, ...]:
    """Return the steps of a batch; those of a route follow from its messages."""
    if isinstance(definition, RouteDefinition):
        return ()
    return DISTRIBUTED_STEPS if is_distributed(definition) else STEPS[definition.quality]


def check_quality(definition: BridgeDefinition, source: ProviderDescription, target: ProviderDescription) -> None:
    """Refuse a quality of service beyond the promises of source and target.

    Raises:
        ConfigurationError: the text names the bridge and the remedy.
    """
    name = definition.name
    if definition.quality is not Quality.AT_MOST_ONCE:
        for side in (source, target):
            if not side.acknowledgements:
                raise ConfigurationError(f"bridge {name}: {unacknowledged(side)}; use AT_MOST_ONCE")
    if definition.quality is not Quality.ONCE_AND_ONLY_ONCE:
        return
    for side in (source, target):
        if is_distributed(definition) and not side.xa:
            raise ConfigurationError(
                f"bridge {name}: the provider {side.name} has no distributed transactions, which ONCE_AND_ONLY_ONCE "
                "needs between two brokers; use DUPLICATES_OK"
            )
    if not is_distributed(definition) and not source.local_transactions:
        raise ConfigurationError(
            f"bridge {name}: the provider {source.name} has no local transactions, which ONCE_AND_ONLY_ONCE needs; use "
            "DUPLICATES_OK"
        )
    if not keeps_messages(definition.source):
        raise ConfigurationError(
            f"bridge {name}: ONCE_AND_ONLY_ONCE from {definition.source.destination} needs a durable subscription, "
            "because the topic keeps no messages for a bridge that is away; set subscriptionName and clientID"
        )


def unacknowledged(side: ProviderDescription) -> str:
    """Return what is wrong with a provider without acknowledgements for all qualities but one."""
    return f"the provider {side.name} has no acknowledgements, so a message may be lost at any time"


def check_features(definition: BridgeDefinition, source: ProviderDescription, target: ProviderDescription) -> None:
    """Refuse a selector, a batch, replies or duplicate ids beyond the promises of source and target.

    Raises:
        ConfigurationError: the text names the bridge and the remedy.
    """
    name = definition.name
    try:
        check_receipt(definition.source, definition.batch, source)
    except ConfigurationError as error:
        raise ConfigurationError(f"bridge {name}: {error}") from None
    if adds_duplicate_ids(definition) and _is_client_of_artemis(definition.target.factory):
        raise ConfigurationError(f"bridge {name}: {ARTEMIS_SPOILED}")
    for side in (source, target):
        if not side.replies and any(isinstance(step, ProxyReplyTo) for step in definition.steps):
            raise ConfigurationError(
                f"bridge {name}: the provider {side.name} has no temporary queues for replies; set "
                'doHandleReplyTo="false"'
            )


def adds_duplicate_ids(definition: BridgeDefinition) -> bool:
    """Return True if the bridge names its messages for a target that detects duplicates."""
    return any(isinstance(step, AddDuplicateId) for step in definition.steps)


def _is_client_of_artemis(factory: ConnectionFactory) -> bool:
    """Return True for a factory in Java that leads to ActiveMQ Artemis by its own client."""
    if factory.java is None:
        return False
    values = [factory.java.class_name or "", *(value.reveal() for _, value in factory.java.environment)]
    return any(value.strip().startswith(ARTEMIS_CLASSES) for value in values)


def check_consumers(definition: Definition) -> None:
    """Refuse several receivers where they would double messages, or break a promise of the bridge.

    Raises:
        ConfigurationError: the text names the cause and the remedy.
    """
    consumers, source = definition.consumers, definition.source
    if consumers.most == 1:
        return
    obstacle = ""
    if isinstance(source, Source) and not source.destination.is_queue:
        obstacle = "each receiver of a topic gets all messages"
    elif is_distributed(definition):
        obstacle = "ONCE_AND_ONLY_ONCE between two brokers has one transaction at a time"
    elif isinstance(definition, RouteDefinition) and keeps_state(definition.steps):
        obstacle = "aggregate and idempotentConsumer know the messages of one receiver"
    elif isinstance(definition, RouteDefinition) and is_throttled(definition.steps):
        obstacle = "throttle counts the messages of one receiver"
    if obstacle:
        raise ConfigurationError(
            f"{definition.name}: {LEAST} or {MOST} is {consumers.most}, and {obstacle}; write {LEAST}=1 and {MOST}=1 "
            "at the endpoint"
        )


def check_receipt(source: Source, batch: BatchLimits, described: ProviderDescription) -> None:
    """Refuse a selector or a batch beyond the promises of a source. Raises `ConfigurationError`."""
    if source.selector is not None and not described.selectors:
        raise ConfigurationError(
            f"the provider {described.name} has no selectors, so all messages would cross; remove selector"
        )
    largest = described.largest_batch
    if largest is not None and batch.size > largest:
        raise ConfigurationError(
            f"the provider {described.name} hands over at most {largest} messages before an acknowledgement, and "
            f"maxBatchSize is {batch.size}; set maxBatchSize = {largest}"
        )


def keeps_messages(source: Source) -> bool:
    """Return True if the broker keeps messages for the bridge while the bridge is away."""
    return source.destination.is_queue or source.subscription is not None
