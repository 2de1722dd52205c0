"""The decorators of brokers and routers: ``@subscriber`` and ``@publisher``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faststream._internal.broker.registrator import Registrator
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream.exceptions import SetupError
from faststream.middlewares import AckPolicy

from spanwire.adapters.faststream.address import SpanwireAddress
from spanwire.adapters.faststream.configs import (
    SpanwireBrokerConfig,
    SpanwirePublisherConfig,
    SpanwirePublisherDocument,
    SpanwireSubscriberConfig,
    SpanwireSubscriberDocument,
    Subscription,
)
from spanwire.adapters.faststream.publisher import Publisher
from spanwire.adapters.faststream.specification import SpanwirePublisherSpecification, SpanwireSubscriberSpecification
from spanwire.adapters.faststream.subscriber import ConcurrentSubscriber, Subscriber
from spanwire.client import Message
from spanwire.model.destination import TOPIC


class SpanwireRegistrator(Registrator[Message, SpanwireBrokerConfig]):
    """Declares subscribers and publishers of a broker or router."""

    def subscriber(
        self,
        destination: str,
        *,
        selector: str | None = None,
        durable: str | None = None,
        prefetch: int | None = None,
        exclusive: bool | None = None,
        priority: int | None = None,
        ack_policy: AckPolicy = EMPTY,
        no_reply: bool = False,
        dependencies: Sequence[Any] = (),
        parser: Any = None,
        decoder: Any = None,
        codec: Any = None,
        max_workers: int = 1,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
    ) -> Subscriber:
        """Subscribe a handler to a queue or topic.

        Arguments:
            destination: ``NAME`` or ``queue://NAME``, or ``topic://NAME``. ``*`` and ``>`` are wildcards, ``{name}`` is
                one element that the handler gets as a parameter.
            selector: SQL-92 selector.
            durable: Name of a durable subscription to a topic; the broker's URL then has a client id.
            prefetch: Messages that the broker dispatches ahead of their acknowledgement.
            exclusive: Ask to be the only consumer of the queue that receives messages.
            priority: -128 to 127; the broker prefers consumers of a higher priority.
            ack_policy: When a message is acknowledged, `AckPolicy.NACK_ON_ERROR` by default.
            no_reply: Send no reply to requests.
            dependencies: Dependencies of the handlers.
            parser: Reads a `spanwire.client.Message` in place of FastStream's own reading.
            decoder: Decodes a body.
            codec: Decodes a body, in place of ``decoder``.
            max_workers: Messages that handlers work on at a time.
            persistent: Keep the subscriber when nothing refers to it.
            title: Title in AsyncAPI.
            description: Description in AsyncAPI.
            include_in_schema: List the subscriber in AsyncAPI.

        Raises:
            SetupError: The destination has the form of another product, or is no topic and durable.
        """
        address = SpanwireAddress(destination)
        if durable is not None and address.kind != TOPIC:
            raise SetupError(f"{destination} is a queue, which keeps all messages: only a topic:// can be durable")
        if max_workers < 1:
            raise SetupError(f"max_workers is 1 or more, not {max_workers}")
        config = SpanwireSubscriberConfig(
            subscription=Subscription(
                address=address,
                selector=selector,
                durable=durable,
                prefetch=prefetch,
                exclusive=exclusive,
                priority=priority,
            ),
            no_reply=no_reply,
            _outer_config=self.config,
            _ack_policy=ack_policy,
        )
        calls: Any = CallsCollection()
        specification = SpanwireSubscriberSpecification(
            self.config,
            SpanwireSubscriberDocument(
                address=address, title_=title, description_=description, include_in_schema=include_in_schema
            ),
            calls,
        )
        made: Subscriber
        if max_workers == 1:
            made = Subscriber(config, specification, calls)
        else:
            concurrent: Any = ConcurrentSubscriber  # its base of FastStream takes one argument more
            made = concurrent(config, specification, calls, max_workers=max_workers)
        super().subscriber(made, persistent=persistent)
        made.add_call(
            parser_=parser or self._parser,
            decoder_=decoder or self._decoder,
            codec_=codec,
            dependencies_=dependencies,
        )
        return made

    def publisher(
        self,
        destination: str,
        *,
        headers: dict[str, Any] | None = None,
        message_persistent: bool | None = None,
        priority: int | None = None,
        time_to_live_ms: int | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        schema: Any = None,
        include_in_schema: bool = True,
    ) -> Publisher:
        """Declare a publisher, to decorate handlers or to publish through.

        Arguments:
            destination: ``NAME`` or ``queue://NAME``, or ``topic://NAME``.
            headers: Properties of all messages.
            message_persistent: Delivery mode; None for persistent.
            priority: 0 to 9.
            time_to_live_ms: Milliseconds until expiry, 0 for none.
            persistent: Keep the publisher when nothing refers to it, as FastStream calls it.
            title: Title in AsyncAPI.
            description: Description in AsyncAPI.
            schema: Type of the messages in AsyncAPI.
            include_in_schema: List the publisher in AsyncAPI.

        Raises:
            SetupError: The destination has the form of another product.
        """
        address = SpanwireAddress(destination)
        config = SpanwirePublisherConfig(
            _outer_config=self.config,
            address=address,
            headers=headers or {},
            persistent=message_persistent,
            priority=priority,
            time_to_live_ms=time_to_live_ms,
        )
        document = SpanwirePublisherDocument(
            address=address,
            schema_=schema,
            title_=title,
            description_=description,
            include_in_schema=include_in_schema,
        )
        made = Publisher(config, SpanwirePublisherSpecification(self.config, document))
        super().publisher(made, persistent=persistent)
        return made

    def include_router(self, router: Any, **options: Any) -> None:
        """Add the subscribers and publishers of a router. Raises `SetupError` for a router of another broker."""
        if not isinstance(router, SpanwireRegistrator):
            raise SetupError(f"a SpanwireBroker includes a SpanwireRouter, not {type(router).__name__}")
        super().include_router(router, **options)
