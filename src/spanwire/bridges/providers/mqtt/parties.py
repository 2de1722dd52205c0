"""Source and target over connections of MQTT 5."""

from __future__ import annotations

import asyncio
from typing import Final

from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, SourceWithoutReplies, TargetWithoutReplies
from spanwire.bridges.providers.dead_letters import CAUSE, ORIGIN, SUFFIX, cause_text
from spanwire.bridges.providers.mqtt.connection import MqttConnection
from spanwire.bridges.providers.mqtt.incoming import properties_of
from spanwire.bridges.providers.mqtt.messages import bridge_message, outgoing_packet
from spanwire.client.io.environment import Machine
from spanwire.model.errors import MessageFormatError

COPIED: Final = ("PayloadFormatIndicator", "ContentType", "ResponseTopic", "CorrelationData")


class MqttSource(SourceWithoutReplies):
    """A subscription, durable with the session of a client id."""

    def __init__(self, connection: MqttConnection, source: Source) -> None:
        self._connection = connection
        self._opening: asyncio.Future[None] | None = None  # the next window
        self._source: Final[Source] = source
        self._machine: Final = Machine()
        self._received: list[MQTTMessage] = []  # without an acknowledgement
        self._last: MQTTMessage | None = None  # the last message that the bridge has received

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages without an acknowledgement.

        A source passes over dead letters within the source's filter: such messages would go round for ever.
        """
        connection = self._connection
        if connection.window.is_due() and not len(connection.inbox) and self._opening is None:
            self._opening = asyncio.ensure_future(self._open_window())
        if self._opening is not None:
            await asyncio.shield(self._opening)  # a cancelled call must not cancel half of it
            self._opening = None
        packets = await self._connection.inbox.take(max_messages, max_bytes, wait_s)
        wanted = [packet for packet in packets if not self._is_own_dead_letter(packet)]
        holds_none = not self._received
        self._received += packets
        if wanted:
            self._last = wanted[-1]
        elif holds_none:  # no acknowledgement follows, and without one the broker's credit would run out
            await self.acknowledge()
        now_ms = self._machine.now().wall_ms
        return [bridge_message(packet, now_ms) for packet in wanted]

    async def _open_window(self) -> None:
        self._connection = await self._connection.next_window(self._source.destination.name)

    def is_exhausted(self) -> bool:
        """Return True if no message comes before an acknowledgement."""
        return self._connection.window.is_exhausted(len(self._connection.inbox))

    def _is_own_dead_letter(self, packet: MQTTMessage) -> bool:
        note = (ORIGIN, str(self._source.destination))
        return packet.topic.endswith(SUFFIX) and note in properties_of(packet).UserProperty

    async def acknowledge(self) -> None:
        """Acknowledge all received messages, and wait until the broker has read the acknowledgement."""
        received, self._received = self._received, []
        if received:
            await self._connection.acknowledge(received)

    async def dead_letter(self, cause: str) -> None:
        """Publish the last message with the cause to the topic ``NAME.DLQ``, and acknowledge the message."""
        last = self._last
        assert last is not None, "a dead letter was received before"
        copy, own = Properties(PacketTypes.PUBLISH), properties_of(last)
        for name in COPIED:
            value = getattr(own, name)
            if value is not None:
                setattr(copy, name, value)
        notes = [(CAUSE, cause_text(cause)), (ORIGIN, str(self._source.destination))]
        copy.UserProperty = [*own.UserProperty, *notes]
        await self._connection.publish_all(last.topic + SUFFIX, [(last.payload, copy)])
        await self.acknowledge()

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._connection.check()

    async def close(self) -> None:
        """Close the connection; a durable session stays at the broker."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        await self._connection.close()


class MqttTarget(TargetWithoutReplies):
    """A publisher of one topic."""

    def __init__(self, connection: MqttConnection, target: Target) -> None:
        self._connection: Final[MqttConnection] = connection
        self._topic: Final[str] = target.destination.name
        self._machine: Final = Machine()

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Publish messages, and wait for the answers."""
        now_ms = self._machine.now().wall_ms
        packets: list[tuple[bytes, Properties]] = []
        for index, message in enumerate(messages):
            try:
                packets.append(outgoing_packet(message, self._topic, now_ms, self._connection.max_packet))
            except MessageFormatError as error:
                raise MessageRefusedError(index, str(error)) from None
        await self._connection.publish_all(self._topic, packets)

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._connection.check()

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()
