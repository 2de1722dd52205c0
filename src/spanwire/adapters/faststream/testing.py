"""A test broker: messages pass from publishers to subscribers in memory, encoded as they would be on the wire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import MagicMock

import anyio
from faststream._internal.testing.broker import TestBroker, change_producer
from faststream.exceptions import SubscriberNotFound

from spanwire.adapters.faststream.broker import SpanwireBroker
from spanwire.adapters.faststream.producer import SpanwireProducer, encoded
from spanwire.adapters.faststream.publisher import Publisher
from spanwire.adapters.faststream.response import REQUEST_TIMEOUT_S, SpanwirePublishCommand
from spanwire.adapters.faststream.subscriber import Subscriber
from spanwire.client import Message
from spanwire.client.messages.loopback import received_message
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.message_view import NULL_VALUE
from spanwire.model.written_destination import written_destination
from spanwire.selector.parser import parse_selector


class TestSpanwireBroker(TestBroker, broker=SpanwireBroker):  # type: ignore[call-arg]
    """Replaces the connection of a `SpanwireBroker`: ``async with TestSpanwireBroker(broker) as broker``.

    A message to a queue goes to one subscriber, a message to a topic to all that match; selectors are evaluated.
    ``publish`` returns after the handlers and raises their exceptions. Nothing is redelivered.
    """

    def create_publisher_fake_subscriber(self, broker: SpanwireBroker, publisher: Publisher) -> tuple[Subscriber, bool]:
        """Return a subscriber of the publisher's destination, and whether the program has declared it."""
        destination = written_destination(publisher.destination)
        for candidate in self.brokers:
            for subscriber in candidate.subscribers:
                if subscriber.pattern.matches(destination):
                    return subscriber, True
        return broker.subscriber(publisher.destination, persistent=False), False

    def _fake_start(self, broker: SpanwireBroker, *arguments: Any, **options: Any) -> None:
        for subscriber in broker.subscribers:
            subscriber.read_path()
        super()._fake_start(broker, *arguments, **options)

    @contextmanager
    def _patch_producer(self, broker: SpanwireBroker) -> Iterator[None]:
        with change_producer(broker.config.broker_config, FakeProducer(broker, self.brokers)):
            yield

    async def _fake_connect(self, broker: SpanwireBroker, *arguments: Any, **options: Any) -> MagicMock:
        connection = MagicMock()
        connection.session.return_value = FakeSession()
        broker.config.broker_config.connection = connection
        return connection


class FakeSession:
    """A session whose consumers receive nothing: the fake producer calls handlers itself."""

    async def create_consumer(self, *arguments: Any, **options: Any) -> FakeSession:
        """Return a consumer."""
        return self

    async def create_durable_subscriber(self, *arguments: Any, **options: Any) -> FakeSession:
        """Return a consumer."""
        return self

    async def receive(self, timeout: float | None = None) -> None:
        """Wait for ``timeout`` seconds, and return nothing."""
        with anyio.move_on_after(timeout):
            await anyio.sleep_forever()

    async def __aiter__(self) -> Any:
        await anyio.sleep_forever()
        yield  # never reached; makes this an iterator

    async def close(self) -> None:
        """End nothing."""


class FakeProducer(SpanwireProducer):
    """Calls the handlers of the subscribers that match."""

    def __init__(self, broker: SpanwireBroker, brokers: Sequence[SpanwireBroker]) -> None:
        super().__init__(broker._parser, broker._decoder)
        self._broker: Final = broker
        self._brokers: Final = brokers
        self.codec = broker.config.broker_codec or self.codec

    async def disconnect(self) -> None:
        """End nothing."""

    async def publish(self, cmd: SpanwirePublishCommand) -> None:
        """Call one handler of a queue, or all handlers of a topic."""
        message = await self._message(cmd, written_destination(cmd.destination))
        for subscriber in self._suitable(message):
            await subscriber.process_message(message)

    async def request(self, cmd: SpanwirePublishCommand) -> Message:
        """Call a handler and return what it returns. Raises `SubscriberNotFound` and `TimeoutError`."""
        destination = written_destination(cmd.destination)
        message = await self._message(cmd, destination)
        for subscriber in self._suitable(message):
            with anyio.fail_after(cmd.timeout or REQUEST_TIMEOUT_S):
                result = await subscriber.process_message(message)
            answer = SpanwirePublishCommand.from_cmd(result.as_publish_command())
            answer.correlation_id = cmd.correlation_id
            return await self._message(answer, destination)
        raise SubscriberNotFound(f"no subscriber of {cmd.destination}")

    async def _message(self, cmd: SpanwirePublishCommand, destination: Destination) -> Message:
        body, properties = await encoded(cmd, self.codec, self._broker.config.fd_config._serializer)
        return received_message(
            Outgoing(
                body,
                properties,
                destination,
                correlation_id=cmd.correlation_id,
                reply_to=cmd.reply_to or None,
                persistent=cmd.persistent,
                priority=cmd.priority,
                group_id=cmd.group_id,
            ),
            destination,
        )

    def _suitable(self, message: Message) -> list[Subscriber]:
        destination = message.destination
        found: list[Subscriber] = []
        for broker in self._brokers:
            for subscriber in broker.subscribers:
                if subscriber.pattern.matches(destination) and is_selected(subscriber.selector, message):
                    found.append(subscriber)
        return found[:1] if destination.kind == QUEUE else found


class ReceivedValues:
    """Headers and properties of a received message for a selector: `MessageValues`.

    A class that is not compiled cannot inherit from a compiled protocol, so the base is not named.
    """

    def __init__(self, message: Message) -> None:
        self._properties: Final = message.properties
        self._headers: Final = {
            "JMSCorrelationID": message.correlation_id,
            "JMSType": message.message_type,
            "JMSPriority": message.priority,
            "JMSMessageID": message.message_id,
            "JMSXGroupID": message.group_id,
            "JMSDeliveryMode": "PERSISTENT" if message.persistent else "NON_PERSISTENT",
        }

    def value(self, name: str) -> object:
        """Return a header or property, or None."""
        return self._headers[name] if name in self._headers else self._properties.get(name)

    def value_type(self, name: str) -> int:
        """Return the type that follows from the value, whose number of bits the client does not keep."""
        return NULL_VALUE


def is_selected(selector: str | None, message: Message) -> bool:
    """Return True without a selector, or if the selector matches. Raises `InvalidSelectorError`."""
    return selector is None or parse_selector(selector).matches(ReceivedValues(message))
