"""A dialogue with the state machine of a bridge, and messages for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spanwire.bridges.engine.dialogue import Action, Event
from spanwire.bridges.engine.machine import BridgeMachine
from spanwire.bridges.model.definition import (
    BatchLimits,
    BridgeDefinition,
    ConnectionFactory,
    Quality,
    RetryPolicy,
    Source,
    Target,
)
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.steps import Step
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.environment import Time
from spanwire.model.message_view import TEXT, PropertyValue

WALL_MS: Final = 1_700_000_000_000


class Content:
    """A text with properties, as a provider of another protocol would hand it on."""

    def __init__(self, text: str, properties: dict[str, PropertyValue] | None = None) -> None:
        self._text = text
        self._properties = properties or {}

    def neutral_body(self) -> bytes | None:
        return self._text.encode()

    def property_values(self) -> dict[str, PropertyValue]:
        return self._properties


def text_message(number: int, size: int = 100, properties: dict[str, PropertyValue] | None = None) -> BridgeMessage:
    message = BridgeMessage(f"ID:{number}", TEXT, Content(f"text {number}", properties), size)
    message.timestamp_ms = WALL_MS
    return message


def text_messages(count: int) -> list[BridgeMessage]:
    return [text_message(number) for number in range(count)]


def definition(
    quality: Quality = Quality.DUPLICATES_OK,
    size: int = 10,
    quiet_ms: int | None = None,
    max_retries: int = -1,
    interval_ms: int = 1_000,
    steps: tuple[Step, ...] = (),
    failover_ms: int = 0,
) -> BridgeDefinition:
    near = ConnectionFactory("tcp://near:61616")
    far = near if quality is Quality.ONCE_AND_ONLY_ONCE else ConnectionFactory("tcp://far:61616")
    return BridgeDefinition(
        "orders",
        Source(near, Destination(QUEUE, "A")),
        Target(far, Destination(QUEUE, "B")),
        steps,
        quality,
        BatchLimits(size, quiet_ms),
        RetryPolicy(max_retries, interval_ms, failover_ms=failover_ms),
    )


def distributed_definition(size: int = 10, max_retries: int = -1, interval_ms: int = 1_000) -> BridgeDefinition:
    """A bridge between two brokers that loses and doubles nothing."""
    within = definition(Quality.ONCE_AND_ONLY_ONCE, size, max_retries=max_retries, interval_ms=interval_ms)
    return replace(within, target=Target(ConnectionFactory("tcp://far:61616"), Destination(QUEUE, "B")))


class BridgeDialogue:
    """A machine with a clock that the test moves."""

    def __init__(self, bridge: BridgeDefinition, ends_when_empty: bool = False) -> None:
        self.machine: Final = BridgeMachine(replace(bridge), ends_when_empty)
        self.now = 0.0

    def hears(self, *events: Event) -> list[Action]:
        """Return the actions after the last event."""
        actions: list[Action] = []
        for event in events:
            actions = self.machine.handle(event, self.time)
        return actions

    @property
    def time(self) -> Time:
        return Time(self.now, WALL_MS + int(self.now * 1000))

    @property
    def state(self) -> str:
        return self.machine.state.value
