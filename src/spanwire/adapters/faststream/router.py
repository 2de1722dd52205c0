"""Routers: subscribers and publishers that are declared apart from the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from faststream._internal.broker.router import ArgsContainer, BrokerRouter, SubscriberRoute
from faststream._internal.constants import EMPTY
from faststream.middlewares import AckPolicy

from spanwire.adapters.faststream.configs import SpanwireBrokerConfig
from spanwire.adapters.faststream.registrator import SpanwireRegistrator
from spanwire.client import Message


class SpanwirePublisher(ArgsContainer):
    """A publisher of a `SpanwireRoute`, with the arguments of ``broker.publisher``."""

    def __init__(self, destination: str, **options: Any) -> None:
        super().__init__(destination, **options)


class SpanwireRoute(SubscriberRoute):
    """A handler with its destination and publishers, with the arguments of ``broker.subscriber``."""

    def __init__(
        self,
        call: Callable[..., Any],
        destination: str,
        *,
        publishers: Iterable[SpanwirePublisher] = (),
        **options: Any,
    ) -> None:
        super().__init__(call, destination, publishers=publishers, **options)


class SpanwireRouter(SpanwireRegistrator, BrokerRouter[Message, SpanwireBrokerConfig]):
    """Subscribers and publishers whose destinations have a common prefix."""

    def __init__(
        self,
        prefix: str = "",
        handlers: Iterable[SpanwireRoute] = (),
        *,
        dependencies: Sequence[Any] = (),
        middlewares: Sequence[Any] = (),
        routers: Iterable[SpanwireRegistrator] = (),
        parser: Any = None,
        decoder: Any = None,
        include_in_schema: bool | None = None,
        ack_policy: AckPolicy = EMPTY,
    ) -> None:
        super().__init__(
            handlers=handlers,
            config=SpanwireBrokerConfig(
                prefix=prefix,
                ack_policy=ack_policy,
                broker_dependencies=dependencies,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                include_in_schema=include_in_schema,
            ),
            routers=routers,
        )
