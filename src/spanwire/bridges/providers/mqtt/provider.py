"""The MQTT provider."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.provider_description import MAX_CREDIT, ProviderDescription
from spanwire.bridges.ports import MessageSource, MessageTarget, RefusingProvider
from spanwire.bridges.providers.mqtt.connection import (
    FOREVER,
    NO_SESSION,
    SHARED,
    WINDOW_S,
    MqttConnection,
    address_of,
)
from spanwire.bridges.providers.mqtt.parties import MqttSource, MqttTarget
from spanwire.bridges.providers.window import FIRST, Window
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError

DESCRIPTION: Final = ProviderDescription(
    name="mqtt",
    local_transactions=False,
    xa=False,
    cannot_cross=(
        "all properties become strings, and a property of bytes is left out",
        "maps and streams cross as JSON, which has no types of numbers and no octets",
        "a message is published with quality of service 1 and never retained",
        "the remaining time to live has whole seconds",
        "a correlation that is no text arrives as hexadecimal digits",
    ),
    selectors=False,
    replies=False,
    atomic_batches=False,
    largest_batch=MAX_CREDIT,
)
WILDCARDS: Final = ("#", "+")
TARGET_CREDIT: Final = 20  # messages that the broker may send to a target, which subscribes to nothing


class MqttProvider(RefusingProvider):
    """Opens sources and targets at brokers of MQTT 5."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        return DESCRIPTION

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a wrong URL, a queue, or an invalid durable subscription."""
        address_of(source.factory)
        check_topic(source.destination)
        if (source.subscription is None) != (source.client_id is None):
            raise ConfigurationError(
                "a durable subscription of MQTT is the session of a client id; set both subscriptionName and clientID"
            )

    def check_target(self, target: Target) -> None:
        """Raise `ConfigurationError` for a wrong URL, a queue, or a topic with wildcards."""
        address_of(target.factory)
        check_topic(target.destination)
        name = target.destination.name
        if name.startswith(SHARED) or any(wildcard in name for wildcard in WILDCARDS):
            raise ConfigurationError(f"{target.destination} is a pattern, and a target is one topic")

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Connect and subscribe."""
        session_s = WINDOW_S if source.subscription is None else FOREVER
        is_shared = source.subscription is None and source.destination.name.startswith(SHARED)
        if is_shared:  # a session that outlives a killed bridge would take messages of the group, and lose them
            session_s = NO_SESSION
        window = Window(credit, FIRST, is_fixed=is_shared)
        connection = MqttConnection(source.factory, source.client_id, session_s, window)
        await connection.open()
        try:
            await connection.subscribe_to(source.destination.name)
        except BaseException:
            await connection.close()
            raise
        return MqttSource(connection, source)

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect."""
        connection = MqttConnection(target.factory, None, NO_SESSION, Window(TARGET_CREDIT))
        await connection.open()
        return MqttTarget(connection, target)


def check_topic(destination: Destination) -> None:
    """Raise `ConfigurationError` for a queue."""
    if destination.is_queue:
        raise ConfigurationError(
            f"MQTT has topics alone, and {destination} is a queue; write topic://{destination.name}"
        )
